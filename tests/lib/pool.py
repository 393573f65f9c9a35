# SPDX-License-Identifier: Apache-2.0
"""The native engine's storage pool, looked at from outside: it is mounted nowhere."""

import contextlib
import os
import re
import subprocess
import tempfile
import time

from lib import tree


def _directories(warden):
    base = f"/proc/{warden.process.pid}/fd"
    for number in os.listdir(base):
        try:
            yield f"{base}/{number}", os.listdir(f"{base}/{number}")
        except OSError:
            pass


def volumes(warden):
    return {n for _path, names in _directories(warden) for n in names if re.fullmatch(r"v[0-9a-f]{16}", n)}


def snapshots(warden):
    """Names in the directory of snapshots, unfinished ones included."""
    for path, names in _directories(warden):
        if "snapshots" in names and os.path.isdir(f"{path}/snapshots"):
            return set(os.listdir(f"{path}/snapshots"))
    return set()


@contextlib.contextmanager
def mounted(state, image="pool.btrfs"):
    """The pool of a warden that does not run, for somebody with bad intentions."""
    until = time.monotonic() + 10 * tree.SLACK
    while subprocess.run(["losetup", "-j", f"{state}/pool.btrfs"], capture_output=True, check=True).stdout:
        # The last sandbox's mounts go in the background, and what they hold is not on disk before.
        assert time.monotonic() < until, "the pool is still in use"
        time.sleep(0.02)
    with tempfile.TemporaryDirectory(prefix="cay-pool-", dir="/var/tmp") as point:
        subprocess.run(["mount", "-o", "loop", f"{state}/{image}", point], check=True)
        try:
            yield point
        finally:
            subprocess.run(["umount", point], check=True)
