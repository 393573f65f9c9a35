# SPDX-License-Identifier: Apache-2.0
"""The warden's table of slots is missing, empty or garbage while sandboxes run: none continues unnoticed."""

import os
import signal

import pytest

from lib import census
from lib.commands import spawn, wait_for
from lib.daemon import Daemon


def restart_warden(daemon, change):
    """Kills the warden and changes its table; the next one starts without the old table."""
    before = daemon.pids()["cay-warden"]
    daemon.kill("cay-warden", signal.SIGSTOP)
    change(os.path.join(daemon.state, "warden.slots"))
    daemon.kill("cay-warden")
    wait_for(lambda: daemon.pids().get("cay-warden") not in (None, before), timeout=20)


def garbage(path):
    size = os.path.getsize(path)
    with open(path, "r+b") as f:
        f.write(os.urandom(min(size, 1 << 20)))


@pytest.mark.parametrize("change", [os.unlink, lambda path: os.truncate(path, 0), garbage],
                         ids=["gone", "empty", "garbage"])
def test_orphans(change):
    with Daemon(env={"CAY_POOL": "false"}) as daemon:
        with daemon.client.sandbox(timeout_sec=3600) as sandbox:
            sandbox.put("/workspace/kept", b"kept")
            spawn(sandbox, ["sleep", "1000000"])
            before = census.grouped(daemon.state)
            assert before
            restart_warden(daemon, change)
            client = daemon.wait_ready()
            wait_for(lambda: not census.grouped(daemon.state) & before, timeout=20)
            wait_for(lambda: "without a row in warden.slots" in daemon.logs(), timeout=20)
            if os.environ.get("CAY_TEST_STORAGE") == "directory":
                return
            row = wait_for(lambda: client.get(sandbox.id)["state"] == "paused" and client.get(sandbox.id), timeout=20)
            assert row["pause_kind"] == "hibernate", row
            client.call("POST", f"/v1/sandboxes/{sandbox.id}/resume", {})
            assert client.exec(sandbox.id, "cat /workspace/kept").stdout == "kept"


def test_ids_of_living_ones_are_not_given_again():
    """Every range of host ids belongs to one sandbox at a time, also across the loss of the table."""
    with Daemon(env={"CAY_POOL": "false"}) as daemon:
        daemon.client.create(timeout_sec=3600)
        daemon.kill("cayd", signal.SIGSTOP)
        restart_warden(daemon, os.unlink)
        daemon.kill("cayd", signal.SIGCONT)
        daemon.wait_ready()
        made = [daemon.client.create(timeout_sec=3600)["id"] for _ in range(3)]
        uids = [open(f"/proc/{line.split()[0]}/uid_map").read().split()[1] for line in census.grouped(daemon.state)]
        assert len(uids) == len(set(uids)) == len(made), uids
