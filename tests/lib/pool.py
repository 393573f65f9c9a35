# SPDX-License-Identifier: Apache-2.0
"""The native engine's storage pool from outside, where it is not mounted."""

import contextlib
import fcntl
import os
import re
import struct
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
    """The pool of a stopped warden, for tests of an attacker."""
    until = time.monotonic() + 10 * tree.SLACK
    while subprocess.run(["losetup", "-j", f"{state}/pool.btrfs"], capture_output=True, check=True).stdout:
        # The mounts of the last sandbox are removed in the background, and their data is not on disk before.
        assert time.monotonic() < until, "the pool is still in use"
        time.sleep(0.02)
    with tempfile.TemporaryDirectory(prefix="cay-pool-", dir="/var/tmp") as point:
        subprocess.run(["mount", "-o", "loop", f"{state}/{image}", point], check=True)
        try:
            yield point
        finally:
            subprocess.run(["umount", point], check=True)


@contextlib.contextmanager
def directory(pid, name):
    """A directory of the pool of a running warden, for tests of an attacker."""
    base = f"/proc/{pid}/fd"
    for number in os.listdir(base):
        try:
            names = os.listdir(f"{base}/{number}")
        except OSError:
            continue
        if name not in names:
            continue
        try:  # held open: the warden may close its own, which is one of a job, at any time
            fd = os.open(f"{base}/{number}/{name}", os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            yield f"/proc/{os.getpid()}/fd/{fd}"
        finally:
            os.close(fd)
        return
    raise AssertionError(f"the warden holds no {name}")


def read_only(path, value):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(fd, 0x4008941A, struct.pack("=Q", 2 if value else 0))  # BTRFS_IOC_SUBVOL_SETFLAGS
        fcntl.ioctl(fd, 0x9408)  # BTRFS_IOC_SYNC: what was altered shows with the transaction
    finally:
        os.close(fd)


def alter(snapshots, part):
    """Changes one byte of one file in the read-only part of the only snapshot, as root on the host can."""
    [snapshot] = os.listdir(snapshots)
    path = f"{snapshots}/{snapshot}/{part}"
    read_only(path, False)
    try:
        victim = max((os.path.join(path, n) for n in os.listdir(path) if n.startswith("pages-")), key=os.path.getsize)
        with open(victim, "r+b") as f:
            f.seek(100)
            byte = f.read(1)
            f.seek(100)
            f.write(bytes([byte[0] ^ 1]))
            os.fsync(f.fileno())
    finally:
        read_only(path, True)
