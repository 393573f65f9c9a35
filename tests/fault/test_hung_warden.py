# SPDX-License-Identifier: Apache-2.0
"""A warden that is stopped, not dead: callers get an error, and a watchdog restarts it."""

import os
import signal
import time

import pytest

from lib import census, tree
from lib.client import ApiError
from lib.commands import wait_for
from lib.daemon import Daemon

HUNG_S = 15  # src/engine/native/warden.h
WATCHDOG_S = 30  # src/cli/daemon/watchdog.h


@pytest.fixture
def daemon():
    with Daemon(env={"CAY_POOL": "false"}) as started:
        yield started


def test_delete_waits_for_the_kill(daemon):
    """204 means that no process of it is left, so a stopped warden gives no 204."""
    client = daemon.client
    gone = client.create(timeout_sec=3600)["id"]
    client.delete(gone)
    assert not census.grouped(daemon.state)
    sandbox = client.create(timeout_sec=3600)["id"]
    started = time.monotonic()
    pid = daemon.kill("cay-warden", signal.SIGSTOP)
    try:
        with pytest.raises(ApiError) as caught:
            client.call("DELETE", f"/v1/sandboxes/{sandbox}")
        assert caught.value.status == 503 and "recorded" in caught.value.error["message"]
        assert time.monotonic() - started < HUNG_S + 5 * tree.SLACK
        status, _, body = client.raw("GET", "/readyz")
        assert status == 503 and b"does not answer" in body
    finally:
        os.kill(pid, signal.SIGCONT)
    daemon.wait_ready()
    wait_for(lambda: not census.grouped(daemon.state), timeout=20)


def test_restarted(daemon):
    sandbox = daemon.client.create(timeout_sec=3600)["id"]
    pid = daemon.kill("cay-warden", signal.SIGSTOP)
    wait_for(lambda: daemon.pids().get("cay-warden") not in (None, pid), timeout=WATCHDOG_S + 20)
    daemon.wait_ready()
    assert daemon.client.exec(sandbox, "echo on").stdout == "on\n"
