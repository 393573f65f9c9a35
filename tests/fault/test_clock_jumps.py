# SPDX-License-Identifier: Apache-2.0
"""The wall clock of the host is set while the daemon runs: by hand, by NTP after a long time without, by a resumed VM.

Time limits and usage follow the time that has passed, not the clock that was set.
"""

import datetime
import os
import signal
import struct
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import pytest

from lib import census, tree
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


@pytest.mark.parametrize("jump", [6 * HOURS, -6 * HOURS], ids=["forward", "back"])
@pytest.mark.parametrize("alive", [True, False], ids=["running", "restarted"])
def test_usage_follows_the_time_that_passed(running, jump, alive):
    """Also if no daemon runs at the moment at which the clock is set."""
    begin = time.monotonic()
    sandbox = running.client.create(timeout_sec=HOURS, memory_mb=64)["id"]
    set_clock(running, jump, alive)
    for _ in range(2):  # while it runs, and after it has ended
        used = running.client.call("GET", f"/v1/sandboxes/{sandbox}/usage")["running_seconds"]
        passed = time.monotonic() - begin
        assert 0 <= used <= passed + 2, f"{used} s after {passed:.1f} s"
        if running.client.list():
            running.client.delete(sandbox)


def set_clock(running, jump, alive):
    """While the daemon runs, or while it is being started again."""
    if alive:
        running.clock.set(jump)
        return
    supervisor = running.kill("cay", signal.SIGSTOP)
    try:
        running.kill("cayd")
        running.clock.set(jump)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    running.forgive()
    running.wait_ready(30)


def seconds_until(text, now):
    at = [datetime.datetime.fromisoformat(moment.replace("Z", "+00:00")) for moment in (text, now)]
    return (at[0] - at[1]).total_seconds()


@pytest.mark.parametrize("alive", [True, False], ids=["running", "restarted"])
def test_what_expires_in_an_hour_survives_six(running, alive):
    """A snapshot, a preview, its share token, an idempotency record and the events are there when the clock has been
    set forward by six hours, or by two years, and expire an hour after they were made."""
    client = running.client
    sandbox = client.create(timeout_sec=HOURS, memory_mb=64)["id"]
    snapshots, previews = f"/v1/sandboxes/{sandbox}/snapshots", f"/v1/sandboxes/{sandbox}/previews"
    snapshot = client.call("POST", snapshots, {"expires_in_sec": HOURS})["id"]
    preview = client.call("POST", previews, {"port": 8000, "visibility": "private", "expires_in_sec": HOURS})["id"]
    token = client.call("POST", f"{previews}/{preview}/share", {"ttl_sec": HOURS})["token"]
    key = {"Idempotency-Key": "hour"}
    made = client.call("POST", "/v1/sandboxes", {"memory_mb": 64}, headers=key)["id"]
    events = client.call("GET", f"/v1/sandboxes/{sandbox}/events?format=json&after=0")["data"]
    for jump in (6 * HOURS, 2 * 366 * 24 * HOURS):
        set_clock(running, jump, alive)
        client = running.client
        swept(running)
        assert seconds_until(client.call("GET", f"/v1/snapshots/{snapshot}")["expires_at"], age_of(client)) < HOURS
        assert seconds_until(client.call("GET", previews)["data"][0]["expires_at"], age_of(client)) < HOURS
        assert preview_status(running, sandbox, 8000, token) != 410
        assert client.call("POST", "/v1/sandboxes", {"memory_mb": 64}, headers=key)["id"] == made
        kept = client.call("GET", f"/v1/sandboxes/{sandbox}/events?format=json&after=0")["data"]
        assert {e["id"] for e in events} <= {e["id"] for e in kept}


@pytest.mark.parametrize("jump", [6 * HOURS, -6 * HOURS], ids=["forward", "back"])
def test_what_expires_in_seconds_expires(running, jump):
    """After the time that passed, whichever way the clock was set."""
    client = running.client
    sandbox = client.create(timeout_sec=HOURS, memory_mb=64)["id"]
    previews = f"/v1/sandboxes/{sandbox}/previews"
    snapshot = client.call("POST", f"/v1/sandboxes/{sandbox}/snapshots", {"expires_in_sec": 4})["id"]
    begin = time.monotonic()
    preview = client.call("POST", previews, {"port": 8000, "visibility": "private"})["id"]
    token = client.call("POST", f"{previews}/{preview}/share", {"ttl_sec": 4})["token"]
    running.clock.set(jump)
    until = begin + 4 + 10 * tree.SLACK
    while time.monotonic() < until and client.call("GET", "/v1/snapshots")["data"]:
        time.sleep(0.05)
    assert not client.call("GET", "/v1/snapshots")["data"], snapshot
    assert time.monotonic() - begin > 3
    assert preview_status(running, sandbox, 8000, token) == 410


def swept(running):
    """Returns when the daemon's upkeep, which deletes what has expired, has run at least once more."""
    ready = running.client.create(timeout_sec=1, memory_mb=64)["id"]
    until = time.monotonic() + 10 * tree.SLACK
    while any(row["id"] == ready for row in running.client.list()):
        assert time.monotonic() < until
        time.sleep(0.05)


def preview_status(running, sandbox, port, token):
    """Of a request with a share token: 410 once it has expired."""
    request = urllib.request.Request(running.url + "/", headers={
        "Host": f"{port}-{sandbox}.cay.localhost", "Cay-Preview-Token": token})
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status
    except urllib.error.HTTPError as e:
        return e.code
