# SPDX-License-Identifier: Apache-2.0
"""The host is rebooted (lib/reboot.py): every sandbox is in the documented state, and the downtime is not billed."""

import datetime
import os
import sqlite3
import time

import pytest

from lib import census, janitor, pool, tree
from lib.client import ApiError
from lib.commands import wait_for
from lib.daemon import Daemon
from lib.direct import SNAPSHOT_DELETE, SNAPSHOT_LIST, Warden
from lib.reboot import another_boot, kill_daemons, mark_slots, power_off, reboot, set_wall_clock, thaw

OFF_SEC = 3 * 3600


@pytest.fixture
def own():
    before = census.take()
    with Daemon() as started:
        yield started
        state = started.state
    left = census.settle(before, states=[state])
    assert not left, "after 'cay down' the host differs:\n" + "\n".join(left)


def post(api, sandbox, what, **body):
    return api.call("POST", f"/v1/sandboxes/{sandbox}/{what}", body)


def made(api, word, **body):
    sandbox = api.create(**dict({"timeout_sec": 600}, **body))["id"]
    api.exec(sandbox, f"echo {word} > /workspace/word; setsid -f sleep 1234.5 >/dev/null 2>&1 </dev/null").ok()
    return sandbox


def word(api, sandbox):
    return api.exec(sandbox, "cat /workspace/word").stdout.strip()


def left_sec(row):
    end = datetime.datetime.fromisoformat(row["expires_at"].replace("Z", "+00:00"))
    return end.timestamp() - time.time()


def kept(row):
    assert (row["state"], row["pause_kind"], row["memory_preserved"]) == ("paused", "hibernate", False), row
    assert "host was rebooted" in row["last_error"] and row["expires_at"] is None, row


def wait_paused(api, sandbox):
    return wait_for(lambda: (row := api.get(sandbox))["state"] == "paused" and row, 20)


def test_every_state(own):
    api = own.client
    running, frozen, asleep = (made(api, w) for w in ("running", "frozen", "asleep"))
    always = made(api, "always", always_on=True)
    waking = made(api, "waking", auto_resume=True)
    snapshot = post(api, running, "snapshots")["id"]
    child = post(api, running, "fork", count=1)["data"][0]["id"]
    api.exec(running, "echo later > /workspace/later").ok()
    post(api, frozen, "pause", kind="freeze")
    post(api, asleep, "pause", kind="hibernate")
    gone = made(api, "gone")
    api.delete(gone)
    before = {r["id"]: r for r in api.list()}

    api = reboot(own, OFF_SEC)
    for sandbox in (running, frozen, waking, child):
        kept(wait_paused(api, sandbox))
    row = wait_paused(api, asleep)
    assert row["pause_kind"] == "hibernate" and row["last_error"] is None, row
    assert wait_for(lambda: api.get(always)["state"] == "running", 30)
    assert set(before) == {r["id"] for r in api.list()}

    row = post(api, running, "resume")
    assert row["state"] == "running" and row["last_error"] is None
    assert 300 < left_sec(row) <= 600, "its time stood still while the host was off"
    assert word(api, running) == "running" and api.exec(running, "cat later").stdout == "later\n"
    assert api.exec(running, "pgrep -fc 'sleep 1234[.]5' || :").stdout == "0\n", "processes are not made up"
    assert word(api, waking) == "waking"  # this resumes it
    assert word(api, always) == "always"
    for sandbox, expected in ((frozen, "frozen"), (asleep, "asleep"), (child, "running")):
        post(api, sandbox, "resume")
        assert word(api, sandbox) == expected
    copy = api.create(snapshot_id=snapshot)["id"]
    assert word(api, copy) == "running" and api.exec(copy, "ls later 2>/dev/null || echo none").stdout == "none\n"

    # A second reboot at once: data saved for the first one must not be used again.
    api.exec(running, "echo again > /workspace/word").ok()
    api = reboot(own)
    kept(wait_paused(api, running))
    post(api, running, "resume")
    assert word(api, running) == "again"
    for row in api.list():
        api.delete(row["id"])
    api.call("DELETE", f"/v1/snapshots/{snapshot}")
    assert api.call("GET", "/v1/snapshots")["data"] == []


def test_downtime_is_not_billed(own):
    api = own.client
    running, frozen, asleep = (made(api, w) for w in ("running", "frozen", "asleep"))
    post(api, frozen, "pause", kind="freeze")
    post(api, asleep, "pause", kind="hibernate")
    short = made(api, "short", timeout_sec=60)
    begun = time.monotonic()
    wait_for(lambda: alive_is_recorded(own), 30)
    api = reboot(own, OFF_SEC)
    for sandbox in (running, frozen, asleep):
        wait_paused(api, sandbox)
    most = time.monotonic() - begun + 60 * tree.SLACK
    for sandbox in (running, frozen, asleep):
        sums = api.call("GET", f"/v1/sandboxes/{sandbox}/usage")
        seconds = sums["running_seconds"] + sums["paused_seconds"]
        assert 0 < seconds < most, sums
    for sandbox in (running, frozen, asleep):  # their files count as paused storage from now on
        assert wait_for(lambda: api.call("GET", f"/v1/sandboxes/{sandbox}/usage")["paused_storage_gib_seconds"] > 0, 30)
    # It had at most a minute left at the shutdown, and has it after the resume.
    kept(wait_paused(api, short))
    assert 0 < left_sec(post(api, short, "resume")) <= 60
    for row in api.list():
        api.delete(row["id"])


def alive_is_recorded(own):
    with sqlite3.connect(f"file:{own.state}/cay.db?mode=ro", uri=True) as db:
        names = {name for (name,) in db.execute("SELECT name FROM meta")}
    return {"alive_ms", "boot_id"} <= names


def gone(api, sandbox):
    try:
        api.get(sandbox)
    except ApiError as error:
        return error.status == 404
    return False


def test_deadlines_without_a_daemon_and_with_another_wall_clock(own):
    """Deadlines are on the boot clock: the next daemon applies those that have passed, the others are unchanged."""
    api = own.client
    later = made(api, "later", timeout_sec=600)
    ends = {end: made(api, end, timeout_sec=2, on_timeout=end) for end in ("pause", "hibernate", "destroy")}
    kill_daemons(own)
    time.sleep(2.2)
    set_wall_clock(own, OFF_SEC)
    own.up()
    api = own.wait_ready(20)
    assert wait_for(lambda: gone(api, ends["destroy"]), 20)
    assert wait_paused(api, ends["pause"])["pause_kind"] == "freeze"
    assert wait_paused(api, ends["hibernate"])["pause_kind"] == "hibernate"
    row = api.get(later)
    assert row["state"] == "running" and 300 < left_sec(row) <= 600, row
    for end in ("pause", "hibernate"):
        post(api, ends[end], "resume", timeout_sec=600)
        assert word(api, ends[end]) == end
    for row in api.list():
        api.delete(row["id"])


def test_a_sandbox_younger_than_the_last_record(own):
    """The time when sandboxes were last alive is recorded periodically; the last record may be older than this
    sandbox."""
    api = own.client
    sandbox = made(api, "short", timeout_sec=600)
    wait_for(lambda: alive_is_recorded(own), 30)
    power_off(own)
    another_boot(own, OFF_SEC)
    with sqlite3.connect(f"{own.state}/cay.db") as db:
        db.execute("UPDATE meta SET value=CAST(value AS INTEGER)-3600000 WHERE name='alive_ms'")
    own.up()
    api = own.wait_ready(20)
    kept(wait_paused(api, sandbox))
    assert 0 < left_sec(post(api, sandbox, "resume")) <= 600
    api.delete(sandbox)


def test_an_unknown_boot_id_is_not_a_reboot(own):
    """A daemon that cannot read the boot id (systemd's ProcSubset=pid) records none. The next one must neither take
    that for a reboot nor trust a deadline on an unknown clock."""
    api = own.client
    sandbox = made(api, "kept", timeout_sec=600)
    wait_for(lambda: alive_is_recorded(own), 30)
    own.down("--keep")
    day_ms = 24 * 3600 * 1000
    with sqlite3.connect(f"{own.state}/cay.db") as db:
        db.execute("UPDATE meta SET value='' WHERE name='boot_id'")
        db.execute("UPDATE sandboxes SET clock='', due_ms=due_ms+? WHERE id=?", (day_ms, sandbox))
    own.up()
    api = own.wait_ready(20)
    row = api.get(sandbox)
    assert row["state"] == "running" and 300 < left_sec(row) <= 600, row
    assert "was rebooted" not in own.logs(400)
    assert api.exec(sandbox, "pgrep -fc 'sleep 1234[.]5'").stdout == "1\n"
    assert wait_for(lambda: saved_boot(own) == this_boot(), 30)
    api.delete(sandbox)


def saved_boot(own):
    with sqlite3.connect(f"file:{own.state}/cay.db?mode=ro", uri=True) as db:
        return db.execute("SELECT value FROM meta WHERE name='boot_id'").fetchone()[0]


def this_boot():
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        return file.read().strip()


@pytest.mark.parametrize("step", ["described", "named", "moved"])
def test_killed_while_saving_the_files(step):
    """The warden of the next boot dies in the middle of it; the one after it still has the files."""
    if not os.access(tree.program("cay-warden", tree.FAULTS), os.X_OK):
        pytest.skip(tree.NO_FAULTS)
    with Warden(build=tree.FAULTS) as warden:
        sandbox = warden.create()["id"]
        warden.exec(sandbox, "echo kept > /workspace/word").ok()
        warden.agents.clear()
        warden.sock.close()
        warden.process.kill()
        warden.process.wait()
        for _ in range(3):
            janitor.kill_groups(warden.state)
            thaw(warden.state)
        janitor.sweep_instance(warden.state)
        mark_slots(warden.state)
        warden.env["CAY_WARDEN_FAULT"] = f"salvage.{step}"
        with pytest.raises(RuntimeError):
            warden.start()
        del warden.env["CAY_WARDEN_FAULT"]
        warden.retry_start()
        assert warden.names() == [] and warden.names(SNAPSHOT_LIST) == [f"r-{sandbox}"]
        assert pool.snapshots(warden) == {f"r-{sandbox}"}
        copy = warden.create(snapshot=f"r-{sandbox}")["id"]
        assert warden.exec(copy, "cat /workspace/word").stdout == "kept\n"
        warden.call(SNAPSHOT_DELETE, snapshot=f"r-{sandbox}")
        assert pool.snapshots(warden) == set()
