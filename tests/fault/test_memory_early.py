# SPDX-License-Identifier: Apache-2.0
"""Requests with memory right after the start of the warden wait for its check of CRIU; memory is never dropped."""

import os
import signal
import time

import pytest

from lib import memory, tree
from lib.client import ApiError
from lib.commands import spawn, wait_for
from lib.daemon import Daemon

ROUNDS = 12 if os.environ.get("CAY_LONG") else 4


@pytest.fixture(scope="module")
def daemon():
    with memory.daemon() as started:
        yield started


def once_up(call):
    """The reply, once the daemon has connected to the new warden."""
    until = time.monotonic() + 20 * tree.SLACK
    while True:
        try:
            return call()
        except ApiError as error:
            assert error.status in (409, 503) and time.monotonic() < until, error
            time.sleep(0.002)


def paused(row):
    return row if row["state"] == "paused" else None


def killed_warden(daemon):
    daemon.forgive()
    daemon.kill("cay-warden", signal.SIGKILL)


def test_hibernate(daemon):
    """A process that ran before the hibernation runs after it."""
    for _ in range(ROUNDS):
        with daemon.client.sandbox(timeout_sec=600) as sandbox:
            process = spawn(sandbox, ["sleep", "1000000"])
            killed_warden(daemon)
            row = once_up(lambda: sandbox.client.call("POST", f"/v1/sandboxes/{sandbox.id}/pause",
                                                      {"kind": "hibernate"}))
            assert row["memory_preserved"] is True, row["last_error"]
            sandbox.client.call("POST", f"/v1/sandboxes/{sandbox.id}/resume", {})
            assert process.get()["state"] == "running"


def test_snapshot_and_fork(daemon):
    with daemon.client.sandbox(timeout_sec=600) as sandbox:
        path = f"/v1/sandboxes/{sandbox.id}"
        killed_warden(daemon)
        taken = once_up(lambda: daemon.client.call("POST", f"{path}/snapshots", {"memory": True}))
        try:
            assert taken["memory_preserved"] is True, taken["memory_error"]
        finally:
            daemon.client.call("DELETE", f"/v1/snapshots/{taken['id']}")
        killed_warden(daemon)
        made = once_up(lambda: daemon.client.call("POST", f"{path}/fork", {"memory": True}))["data"][0]
        daemon.client.call("DELETE", f"/v1/sandboxes/{made['id']}")


def test_timeout_that_passed_while_nothing_ran():
    """An upgrade: both programs end, the time of the sandbox is up meanwhile, both start."""
    memory.need()
    with Daemon(env=dict(memory.ENV, CAY_POOL="false")) as daemon:
        memory.claimed(daemon.client)
        with daemon.client.sandbox(timeout_sec=4, on_timeout="hibernate") as sandbox:
            process = spawn(sandbox, ["sleep", "1000000"])
            daemon.down("--keep")
            time.sleep(4)
            daemon.up()
            client = sandbox.client = daemon.client
            row = wait_for(lambda: paused(client.get(sandbox.id)), timeout=30)
            assert row["pause_kind"] == "hibernate" and row["memory_preserved"] is True, row
            client.call("POST", f"/v1/sandboxes/{sandbox.id}/resume", {})
            assert process.get()["state"] == "running"
