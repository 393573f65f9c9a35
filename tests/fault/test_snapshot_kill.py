# SPDX-License-Identifier: Apache-2.0
"""kill -9 of cay-warden, or of the process that does the work, in the middle of a snapshot or a copy. Fault builds
(ninja faults) die at each numbered step, by CAY_WARDEN_FAULT; the build under test dies at random instants. The
next warden finds the sandbox running (or paused, if it was), the snapshot complete or absent, and nothing partial.
"""

import os
import random
import time

import pytest

from lib import census, pool, tree
from lib.client import ApiError
from lib.direct import CREATE, DESTROY, SNAPSHOT, SNAPSHOT_DELETE, SNAPSHOT_LIST, Warden

SEED = int(os.environ.get("CAY_SEED", "0")) or random.randrange(1 << 30)
ROUNDS = int(os.environ.get("CAY_KILL_ROUNDS", "12"))
TAKING = ("begun", "flushed", "held", "frozen", "copied", "thawed", "described", "named", "done")
COPYING = ("checked", "copied", "renewed")
PASSING_STEPS = ("snapshot.held", "snapshot.frozen", "snapshot.copied", "snapshot.thawed", "copy.copied", "use.adopted")
BROKEN = (OSError, ApiError, AssertionError)


def counts(warden, sandbox):
    return int(warden.exec(sandbox, "cat /workspace/n 2>/dev/null || echo 0").stdout.strip() or 0)


def start_counter(warden, sandbox):
    warden.exec(sandbox, "setsid -f sh -c 'n=0; while :; do n=$((n+1)); echo $n > /workspace/n.new; "
                "mv /workspace/n.new /workspace/n; done' >/dev/null 2>&1 </dev/null; sleep 0.1").ok()


def runs(warden, sandbox):
    """The counter advances: the sandbox is not frozen."""
    before = counts(warden, sandbox)
    until = time.monotonic() + 5 * tree.SLACK
    while time.monotonic() < until:
        if counts(warden, sandbox) > before:
            return True
        time.sleep(0.02)
    return False


def check_after(warden, source, name, paused=False):
    """What must hold after any death; leaves no snapshot and no copy."""
    warden.again()
    assert warden.names() == [source], warden.logs()
    names = warden.names(SNAPSHOT_LIST)
    assert set(names) <= {name} and pool.snapshots(warden) == set(names)
    assert warden.stat(source)[:2] == (True, paused)
    if paused:
        warden.pause(source, False)
    warden.attach(source)
    assert runs(warden, source), "left frozen"
    for found in names:
        copy = warden.create(snapshot=found)["id"]
        assert counts(warden, copy) > 0
        warden.delete(copy)
        warden.call(SNAPSHOT_DELETE, snapshot=found)
    assert pool.snapshots(warden) == set()


def nothing_in_the_pool(warden):
    """After an orderly stop, a warden without sandboxes and snapshots leaves an empty pool."""
    for sandbox in warden.names():
        warden.call(DESTROY, sandbox=sandbox)
    warden.agents.clear()
    warden.sock.close()
    warden.process.terminate()
    assert warden.process.wait(timeout=20 * tree.SLACK) == 0
    with pool.mounted(warden.state) as point:
        assert os.listdir(point) == ["snapshots"] and os.listdir(point + "/snapshots") == [], warden.logs()
    warden.retry_start()


@pytest.fixture
def warden(request):
    """A new warden for each test; afterwards the host is as before."""
    build = getattr(request, "param", None)
    host = census.take()
    with Warden(build=build) as started:
        yield started
        nothing_in_the_pool(started)
    left = census.settle(host, states=[started.state])
    assert not left, "\n".join(left)


def arm(warden, point):
    """The next warden dies at this step. The running one is replaced, because the step is in its environment."""
    warden.env = dict(warden.env, CAY_WARDEN_FAULT=point)
    warden.again()
    for sandbox in warden.names():
        warden.attach(sandbox)
    warden.env = {k: v for k, v in warden.env.items() if k != "CAY_WARDEN_FAULT"}


def only_faults():
    if not os.access(tree.program("cay-warden", tree.FAULTS), os.X_OK):
        pytest.skip(tree.NO_FAULTS)


def dies_writing_out(warden, source):
    """Only large amounts are written out in advance, and how much is dirty depends on the kernel."""
    until = time.monotonic() + 30 * tree.SLACK
    while time.monotonic() < until:
        warden.exec(source, "head -c 16M /dev/zero > /workspace/much").ok()
        try:
            warden.snapshot(source, "s1")
        except BROKEN:
            return
        warden.call(SNAPSHOT_DELETE, snapshot="s1")
    raise AssertionError("nothing was written out ahead")


@pytest.mark.parametrize("who", ["", "-"], ids=["warden", "job"])
@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
@pytest.mark.parametrize("warden", [tree.FAULTS], indirect=True, ids=["faults"])
def test_killed_at_each_step_of_a_snapshot(warden, who, paused):
    only_faults()
    source = warden.create()["id"]
    start_counter(warden, source)
    for step in TAKING:
        if paused and step == "flushed":
            continue  # nothing is written out in advance for a paused sandbox
        arm(warden, f"{who}snapshot.{step}")
        if paused:
            warden.pause(source)
        if step == "flushed":
            dies_writing_out(warden, source)
        else:
            with pytest.raises(BROKEN):
                warden.snapshot(source, "s1")
        if who:  # the warden is alive and has cleaned up by itself
            assert pool.snapshots(warden) == set(), step
            assert warden.stat(source)[:2] == (True, paused), step
            assert paused or runs(warden, source), step
        check_after(warden, source, "s1", paused)


@pytest.mark.parametrize("who", ["", "-"], ids=["warden", "job"])
@pytest.mark.parametrize("warden", [tree.FAULTS], indirect=True, ids=["faults"])
def test_killed_at_each_step_of_a_copy(warden, who):
    only_faults()
    source = warden.create()["id"]
    start_counter(warden, source)
    for step in COPYING:
        warden.snapshot(source, "s1")
        arm(warden, f"{who}copy.{step}")
        with pytest.raises(BROKEN):
            warden.create(snapshot="s1")
        if who:
            assert warden.names() == [source], step
        check_after(warden, source, "s1")


@pytest.mark.parametrize("who", ["", "-"], ids=["warden", "job"])
@pytest.mark.parametrize("warden", [tree.FAULTS], indirect=True, ids=["faults"])
def test_killed_at_each_step_of_a_temporary_snapshot(warden, who):
    only_faults()
    source = warden.create()["id"]
    start_counter(warden, source)
    for step in PASSING_STEPS:
        arm(warden, f"{who}{step}")
        with pytest.raises(BROKEN):
            warden.snapshot(source, "s1", passing=True)
            warden.create(snapshot="s1", last_use=step.startswith("use"))
        if who and not step.startswith("use"):  # this step runs in the warden itself
            assert warden.names() == [source], step
            warden.call(SNAPSHOT_DELETE, snapshot="s1")
            assert pool.snapshots(warden) == set(), step
        check_after(warden, source, None)


def test_temporary_snapshots_end_with_their_client(warden):
    """They are not listed, and the next client finds nothing of them, however its daemon ended."""
    source = warden.create()["id"]
    start_counter(warden, source)
    for name in ("s1", "s2"):
        warden.snapshot(source, name, passing=True)
        assert warden.names(SNAPSHOT_LIST) == []
    with pytest.raises(ApiError):
        warden.snapshot(source, "s1", passing=True)
    for last_use in (False, True):
        copy = warden.create(snapshot="s1", last_use=last_use)["id"]
        assert counts(warden, copy) > 0
        warden.delete(copy)
    with pytest.raises(ApiError):
        warden.create(snapshot="s1")
    with pytest.raises(ApiError):
        warden.create(snapshot="never", last_use=True)
    assert len(pool.snapshots(warden)) == 1
    warden.sock.close()
    warden.sock = warden.connect()
    until = time.monotonic() + 10 * tree.SLACK
    while pool.snapshots(warden):
        assert time.monotonic() < until, "a passing snapshot outlived its client"
        time.sleep(0.02)
    check_after(warden, source, None)


def test_killed_at_random_instants(warden):
    """The build under test: during a snapshot with a writer, and during copies of it."""
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    source = warden.create()["id"]
    start_counter(warden, source)
    for turn in range(ROUNDS):
        if turn % 2:
            warden.snapshot(source, "s1")
            tag = [warden.send(CREATE, sandbox=f"copy{n}", template=warden.template, snapshot="s1") for n in range(8)]
        else:
            tag = [warden.send(SNAPSHOT, sandbox=source, snapshot="s1")]
        assert tag
        time.sleep(chance.random() * 0.012)
        warden.process.kill()
        warden.process.wait()
        for sandbox in copies_of(warden, source):
            warden.call(DESTROY, sandbox=sandbox)
        check_after(warden, source, "s1")


def copies_of(warden, source):
    """After a restart: complete ones exist, partial ones do not."""
    warden.again()
    names = warden.names()
    assert source in names
    return [n for n in names if n != source]
