# SPDX-License-Identifier: Apache-2.0
"""A warden that is stopped, not dead: callers get an error, and a watchdog restarts it."""

import contextlib
import json
import os
import signal
import time

import pytest

from lib import census, tree
from lib.client import ApiError, Client
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


def ended(daemon, sandbox):
    """DELETE again, as a client library does: the status, and what is left of the sandbox."""
    while True:
        status, _, body = daemon.client.raw("DELETE", f"/v1/sandboxes/{sandbox}")
        left = census.grouped(daemon.state)
        if status != 503:
            return status, left
        assert json.loads(body)["error"]["retryable"], body


@pytest.mark.parametrize("killed", [(), ("cayd",), ("cay-warden",), ("cayd", "cay-warden")], ids="-".join)
def test_a_repeated_delete_is_honest(daemon, killed):
    """503 as long as the engine has not confirmed the end, also if a program was restarted in between."""
    client = daemon.client
    sandbox = client.create(timeout_sec=3600)["id"]
    stranger = client.call("POST", "/v1/keys", {"name": "stranger", "scopes": ["sandboxes:write"]})["key"]
    pid = daemon.kill("cay-warden", signal.SIGSTOP)
    try:
        assert client.raw("DELETE", f"/v1/sandboxes/{sandbox}")[0] == 503
        assert census.grouped(daemon.state)
        assert client.raw("DELETE", f"/v1/sandboxes/{sandbox}")[0] == 503
        assert Client(daemon.url, stranger).raw("DELETE", f"/v1/sandboxes/{sandbox}")[0] == 404
        assert not client.list()
        if "cayd" in killed:
            before = daemon.kill("cayd")
            wait_for(lambda: daemon.pids().get("cayd") not in (None, before), timeout=20)
            wait_for(lambda: answers(daemon), timeout=20)
            status, _, body = daemon.client.raw("DELETE", f"/v1/sandboxes/{sandbox}")
            assert status == 503 and census.grouped(daemon.state), body
        if "cay-warden" in killed:
            daemon.kill("cay-warden")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    status, left = ended(daemon, sandbox)
    assert status in (204, 404) and not left, (status, left)
    assert daemon.client.raw("DELETE", f"/v1/sandboxes/{sandbox}")[0] == 404


def answers(daemon):
    """The daemon listens, ready or not: its port is the one that it had."""
    try:
        return daemon.client.raw("GET", "/healthz")[0] == 200
    except OSError:
        return False


def test_restarted(daemon):
    sandbox = daemon.client.create(timeout_sec=3600)["id"]
    pid = daemon.kill("cay-warden", signal.SIGSTOP)
    wait_for(lambda: daemon.pids().get("cay-warden") not in (None, pid), timeout=WATCHDOG_S + 20)
    daemon.wait_ready()
    assert daemon.client.exec(sandbox, "echo on").stdout == "on\n"
