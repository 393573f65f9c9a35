# SPDX-License-Identifier: Apache-2.0
"""The wall clock of the host is set while the daemon runs: by hand, by NTP after a long time without, by a resumed VM.

Time limits and usage follow the time that has passed, not the clock that was set.
"""

import os
import struct
import subprocess
import tempfile
import time

import pytest

from lib import census, known, tree
from lib.client import ApiError
from lib.daemon import Daemon
from lib.ledger import Ledger, Worker, judge_account

HOURS = 3600
SOURCE = tree.SOURCE / "tests/fault/clock.c"

pytestmark = pytest.mark.skipif(tree.SANITIZED, reason="a sanitizer wants to be loaded first")


class Clock:
    """The daemon's wall clock, ahead of the host's by as much as was set."""

    def __init__(self, path):
        self.path = path
        self.set(0)

    def set(self, seconds):
        with open(self.path, "r+b" if os.path.exists(self.path) else "wb") as f:
            f.write(struct.pack("=q", seconds))


@pytest.fixture(scope="module")
def running():
    """A daemon with a clock of its own."""
    host = census.take()
    with tempfile.TemporaryDirectory(prefix="cay-clock-", dir="/var/tmp") as place:
        os.chmod(place, 0o755)
        clock = Clock(f"{place}/offset")
        library = f"{place}/clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, str(SOURCE)], check=True)
        with Daemon(env={"CAY_POOL": "false", "LD_PRELOAD": library, "HARNESS_CLOCK": clock.path}) as daemon:
            daemon.clock = clock
            yield daemon
            state = daemon.state
    left = census.settle(host, states=[state])
    assert not left, "\n".join(left)


@pytest.fixture(autouse=True)
def true_time(running):
    yield
    running.clock.set(0)
    client = running.wait_ready()
    for row in client.list():
        client.delete(row["id"])
    for row in client.call("GET", "/v1/snapshots")["data"]:
        client.call("DELETE", f"/v1/snapshots/{row['id']}")


def age_of(client):
    """The daemon's current time, read from a new sandbox."""
    made = client.create(memory_mb=64)
    client.delete(made["id"])
    return made["created_at"]


def test_the_clock_is_the_daemons(running):
    """The control of this file: without it the other tests prove nothing."""
    year = int(age_of(running.client)[:4])
    running.clock.set(10 * 366 * 24 * HOURS)
    assert int(age_of(running.client)[:4]) == year + 10


@pytest.mark.parametrize("jump", [6 * HOURS, -6 * HOURS], ids=["forward", "back"])
def test_acknowledged_operations_hold(running, jump):
    worker = Worker(running, Ledger(f"jump{jump}"), 0)
    worker.op_create()
    for step in ("file", "process", "snapshot", "preview", "key", "secret", "exec"):
        getattr(worker, "op_" + step)(worker.boxes[0])
    running.clock.set(jump)
    for _ in range(2):
        running.kill("cayd")
        running.forgive()
        running.wait_ready(30)
        for step in ("file", "process", "exec", "fork"):
            getattr(worker, "op_" + step)(worker.boxes[0])
        running.clock.set(0)
    for box in worker.boxes:
        worker.judge_box(box)
    judge_account(worker.ledger, worker.caller)
    assert not worker.ledger.complaints, "\n".join(worker.ledger.complaints)


@pytest.mark.parametrize("jump", [6 * HOURS, -6 * HOURS], ids=["forward", "back"])
def test_timeouts_follow_the_time_that_passed(running, jump):
    long, short = (running.client.create(timeout_sec=seconds, memory_mb=64)["id"] for seconds in (HOURS, 4))
    begin = time.monotonic()
    running.clock.set(jump)
    until = begin + 4 + 10 * tree.SLACK
    while time.monotonic() < until and len(running.client.list()) > 1:
        time.sleep(0.05)
    passed = time.monotonic() - begin
    assert [row["id"] for row in running.client.list()] == [long]
    assert passed > 3, f"destroyed after {passed:.1f} of 4 s"
    with pytest.raises(ApiError):
        running.client.get(short)


@pytest.mark.parametrize("jump", [
    pytest.param(6 * HOURS, id="forward", marks=known.defect("usage of a running sandbox follows the wall clock")),
    pytest.param(-6 * HOURS, id="back")])
def test_usage_follows_the_time_that_passed(running, jump):
    begin = time.monotonic()
    sandbox = running.client.create(timeout_sec=HOURS, memory_mb=64)["id"]
    running.clock.set(jump)
    for _ in range(2):  # while it runs, and after it has ended
        used = running.client.call("GET", f"/v1/sandboxes/{sandbox}/usage")["running_seconds"]
        passed = time.monotonic() - begin
        assert 0 <= used <= passed + 2, f"{used} s after {passed:.1f} s"
        if running.client.list():
            running.client.delete(sandbox)


@known.defect("a jump of the wall clock deletes snapshots that expire")
def test_expiring_snapshots_survive_a_jump(running):
    """A snapshot that expires in an hour still exists after the clock was six hours ahead for a moment."""
    sandbox = running.client.create(timeout_sec=HOURS, memory_mb=64)["id"]
    made = running.client.call("POST", f"/v1/sandboxes/{sandbox}/snapshots", {"expires_in_sec": HOURS})["id"]
    running.clock.set(6 * HOURS)
    running.client.create(memory_mb=64)
    time.sleep(2.5)  # expired ones are swept in between
    running.clock.set(0)
    assert running.client.call("GET", f"/v1/snapshots/{made}")["id"] == made
