# SPDX-License-Identifier: Apache-2.0
"""The channel finder (channels.py) on pairs of sandboxes of every origin: no inode is visible in both, and neither
watches, locks, leases, times nor names of one sandbox can be noticed in the other.
"""

import contextlib

import pytest

import channels
from lib import memory, tree
from lib.commands import wait_for
from lib.daemon import Daemon
from lib.direct import Warden


def another(daemon, box, row):
    """A handle for a sandbox that was not made by create."""
    made = daemon.client.sandbox()
    made.id = row["id"]
    return made


def two_new(daemon, stack):
    return [stack.enter_context(daemon.client.sandbox(timeout_sec=3600)) for _ in range(2)]


def two_of_the_pool(daemon, stack):
    def taken():
        box = daemon.client.sandbox(timeout_sec=3600)
        box.__enter__()
        if box.row["boot_path"] == "pool":
            return box
        daemon.client.delete(box.id)
        return None

    boxes = []
    for _ in range(2):
        box = wait_for(taken, timeout=30)
        stack.callback(daemon.client.delete, box.id)
        boxes.append(box)
    return boxes


def parent_and_fork(daemon, stack):
    box = stack.enter_context(daemon.client.sandbox(timeout_sec=3600))
    box.sh("echo x > /workspace/written")
    row = daemon.client.call("POST", f"/v1/sandboxes/{box.id}/fork", {})["data"][0]
    stack.callback(daemon.client.delete, row["id"])
    return box, another(daemon, box, row)


def two_forks_with_memory(daemon, stack):
    box = stack.enter_context(daemon.client.sandbox(timeout_sec=3600))
    rows = daemon.client.call("POST", f"/v1/sandboxes/{box.id}/fork", {"memory": True, "count": 2})["data"]
    for row in rows:
        stack.callback(daemon.client.delete, row["id"])
    return [another(daemon, box, row) for row in rows]


def two_of_a_snapshot(daemon, stack):
    with daemon.client.sandbox(timeout_sec=3600) as box:
        box.sh("echo x > /workspace/written")
        snapshot = daemon.client.call("POST", f"/v1/sandboxes/{box.id}/snapshots", {})
    stack.callback(daemon.client.call, "DELETE", f"/v1/snapshots/{snapshot['id']}")
    return [stack.enter_context(daemon.client.sandbox(snapshot_id=snapshot["id"], timeout_sec=3600)) for _ in range(2)]


def resumed_and_new(daemon, stack):
    box = stack.enter_context(daemon.client.sandbox(timeout_sec=3600))
    row = daemon.client.call("POST", f"/v1/sandboxes/{box.id}/pause", {"kind": "hibernate"})
    assert row["memory_preserved"] is True, row
    daemon.client.call("POST", f"/v1/sandboxes/{box.id}/resume", {})
    return box, stack.enter_context(daemon.client.sandbox(timeout_sec=3600))


def second_of_a_slot_and_new(daemon, stack):
    """Slots are used from the lowest on: after the first was deleted, one of the next is in its slot."""
    first = stack.enter_context(daemon.client.sandbox(timeout_sec=3600))
    with daemon.client.sandbox() as used:
        ids = used.sh("cat /proc/self/uid_map")

    def again():
        box = daemon.client.sandbox(timeout_sec=3600)
        box.__enter__()
        stack.callback(daemon.client.delete, box.id)
        return box if box.sh("cat /proc/self/uid_map") == ids else None

    return wait_for(again, timeout=30), first


PLAIN = (two_new, parent_and_fork, two_of_a_snapshot, second_of_a_slot_and_new)
WITH_MEMORY = (two_forks_with_memory, resumed_and_new)


def compare(daemon, pair):
    with contextlib.ExitStack() as stack:
        one, other = pair(daemon, stack)
        assert one.id != other.id
        channels.inodes_private(one, other)


@pytest.fixture(scope="module")
def unpooled():
    with Daemon(env={"CAY_POOL": "false"}) as started:
        yield started


@pytest.mark.parametrize("pair", PLAIN, ids=lambda p: p.__name__)
def test_pair(unpooled, pair):
    compare(unpooled, pair)


def test_hot_pool():
    with Daemon() as daemon:
        compare(daemon, two_of_the_pool)


@pytest.fixture(scope="module")
def remembering():
    with memory.daemon() as started:
        yield started


@pytest.mark.parametrize("pair", WITH_MEMORY, ids=lambda p: p.__name__)
def test_pair_with_memory(remembering, pair):
    compare(remembering, pair)


@pytest.mark.parametrize("env", [{"CAY_WITHOUT": "all"}, {"CAY_STORAGE": "directory"}], ids=lambda e: "-".join(e.values()))
def test_pair_on_fallbacks(env):
    """As on the oldest kernel, and on plain directories instead of btrfs."""
    with Daemon(env=dict(env, CAY_POOL="false")) as daemon:
        compare(daemon, two_new)


@pytest.mark.skipif("cay-warden" in tree.missing_programs(tree.FAULTS), reason=tree.NO_FAULTS)
def test_the_finder_finds():
    """With the control off, all sandboxes have the inodes of the first slot, and both parts of the finder say so."""
    with Warden(build=tree.FAULTS, env={"CAY_WARDEN_DISABLE": "inodes"}) as weak, \
            weak.client.sandbox() as one, weak.client.sandbox() as other:
        a, b = channels.Inside(one), channels.Inside(other)
        first, second = a.scan(), b.scan()
        with pytest.raises(AssertionError, match="inodes are visible in both.*/run/cay/agent.*/dev/null"):
            channels.no_inode_in_both(first, second)
        with pytest.raises(AssertionError, match="a lock of the other sandbox is felt.*/dev/null.*EAGAIN"):
            channels.nothing_noticed(a, b, first, second)


# -- the next sandbox of a slot -------------------------------------------------------------------

TIMES = "cd /dev; stat -c '%n %X %Y %Z' null zero full random urandom . /run/cay/* /proc/keys; stat -c '%X %Y %Z' tty"


def test_nothing_of_a_slots_last_sandbox_shows(unpooled):
    """Use of a terminal changes the times of its device file, on a read-only mount, too. The next sandbox does not see
    them."""
    with contextlib.ExitStack() as stack:
        with unpooled.client.sandbox() as first:
            ids, before = first.sh("cat /proc/self/uid_map"), first.sh(TIMES).splitlines()
            # 'script' runs a shell with a terminal; 9 s: the kernel rounds these times down to 8 s
            first.root("script -qec 'sleep 9; echo hello > /dev/tty; read -t 0.1 x < /dev/tty' /dev/null", timeout_sec=60)
            used = first.sh(TIMES).splitlines()
            assert used[:-1] == before[:-1] and used[-1] != before[-1], "the test left no trace"

        def again():
            box = unpooled.client.sandbox()
            box.__enter__()
            stack.callback(unpooled.client.delete, box.id)
            return box if box.sh("cat /proc/self/uid_map") == ids else None

        after = wait_for(again, timeout=30).sh(TIMES).splitlines()
    assert after[:-1] == before[:-1]
    assert not set(after[-1].split()) & set(used[-1].split()), (before[-1], used[-1], after[-1])


# -- limits that the kernel counts per owner of a user namespace ----------------------------------

TAKE = """
import ctypes, sys, time
libc, taken = ctypes.CDLL(None), 0
while taken < 4096 and libc.inotify_init1(0) >= 0:
    taken += 1
print(taken, flush=True)
if len(sys.argv) > 1:
    open(sys.argv[1], "w").write(str(taken))
    time.sleep(600)
"""


def inotify_is_own(one, other):
    """Inotify instances are limited per sandbox: one that takes all leaves those of the other."""
    alone = int(other.root(["python3", "-c", TAKE]).ok().stdout)
    one.put("/tmp/take.py", TAKE.encode())
    one.exec("rm -f /tmp/taken; setsid -f python3 /tmp/take.py /tmp/taken > /dev/null 2>&1 < /dev/null", user="root").ok()
    wait_for(lambda: one.root("cat /tmp/taken").stdout, timeout=20)
    assert int(one.sh("cat /tmp/taken")) > 50
    assert int(other.root(["python3", "-c", TAKE]).ok().stdout) == alone
    one.root("pkill -f take.py")


def test_inotify_instances(unpooled):
    with contextlib.ExitStack() as stack:
        inotify_is_own(*two_new(unpooled, stack))


def test_inotify_instances_with_memory(remembering):
    with contextlib.ExitStack() as stack:
        inotify_is_own(*two_forks_with_memory(remembering, stack))
    with contextlib.ExitStack() as stack:
        inotify_is_own(*resumed_and_new(remembering, stack))
