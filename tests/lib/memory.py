# SPDX-License-Identifier: Apache-2.0
"""Daemons whose sandboxes keep their memory when they are hibernated: with CRIU, where it is available."""

import contextlib
import os
import time

import pytest

from lib import census, pool, tree
from lib.commands import wait_for
from lib.daemon import Daemon

CRIU = os.environ.get("CAY_CRIU", "/var/lib/cay/criu")
ENV = {"CAY_CRIU": CRIU}


def need():
    if os.environ.get("CAY_TEST_SANITIZED") == "1":
        pytest.skip("CRIU cannot save a sanitized agent: its shadow memory has no end")
    if not os.access(f"{CRIU}/usr/sbin/criu", os.X_OK):
        pytest.skip(f"no CRIU in {CRIU} (src/build/cay-criu fetches it): hibernating keeps files only")


def claimed(client, timeout=30):
    """The check ends some time after the start. Skips if CRIU does not work on this kernel."""
    until = time.monotonic() + timeout * tree.SLACK
    while "snapshot_memory" not in (client.capabilities("native") or ()):
        if time.monotonic() > until:
            pytest.skip("CRIU is there and does not work on this kernel")
        time.sleep(0.05)


@contextlib.contextmanager
def daemon():
    """A daemon with CRIU, or a skip; after all sandboxes and snapshots were deleted nothing of them is left."""
    need()
    with Daemon(env=dict(ENV, CAY_POOL="false")) as started:
        claimed(started.client)
        yield started
        wait_for(lambda: not left(started), timeout=20)


def left(daemon):
    """Processes of sandboxes, and snapshots."""
    with pool.directory(daemon.pids()["cay-warden"], "snapshots") as point:
        return census.grouped(daemon.state) | set(os.listdir(point))
