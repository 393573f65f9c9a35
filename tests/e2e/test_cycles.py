# SPDX-License-Identifier: Apache-2.0
"""Create, exec, destroy, repeatedly: nothing may be left behind."""

import os
import threading
import time

import pytest

from lib import census, tree
from lib.client import Client
from lib.daemon import Daemon

# Pools follow demand, which must not affect comparisons while the daemon runs.
GROWS_WITH_POOLS = ("processes", "namespaces", "cgroups", "subvolumes", "fds of cay-warden",
                    "fds of cayd", "mounts of cay-warden")


def cycles(daemon, count, clients=4, **create):
    """Runs the cycles over several connections; returns the failures."""
    failures, left = [], [count]
    lock = threading.Lock()

    def work():
        client = Client(daemon.url, daemon.key)
        while True:
            with lock:
                if left[0] <= 0:
                    break
                left[0] -= 1
            try:
                sandbox = client.create(**create)["id"]
                result = client.exec(sandbox, ["/bin/echo", "hi"])
                if result.stdout != "hi\n":
                    failures.append(repr(result))
                client.delete(sandbox)
            except Exception as error:
                failures.append(repr(error))
        client.close()

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return failures


def quiet(daemon, seconds=10):
    """Waits until two consecutive censuses are equal; returns the last."""
    last = census.take(daemon)
    until = time.monotonic() + seconds * tree.SLACK
    while time.monotonic() < until:
        time.sleep(0.5)
        now = census.take(daemon)
        if not census.diff(last, now):
            return now
        last = now
    return last


def leak_run(count, clients=4):
    host = census.take()
    with Daemon() as daemon:
        assert not cycles(daemon, 40, clients)  # let pools and caches reach their size
        before = quiet(daemon)
        begin = time.monotonic()
        failures = cycles(daemon, count, clients)
        took = time.monotonic() - begin
        assert not failures, failures[:3]
        print(f"{count} cycles in {took:.1f} s, {count / took:.0f}/s")
        after = quiet(daemon)
        left = census.diff(before, after, ignore=GROWS_WITH_POOLS)
        assert not left, "\n".join(left)
        # The content of pools is bounded, whatever the number of cycles.
        for category in GROWS_WITH_POOLS:
            grown = sum(after[category].values()) - sum(before[category].values())
            assert grown <= 400, f"{category} grew by {grown}"
        assert daemon.client.list() == []
        daemon.down()
        left = census.settle(host, states=[daemon.state])
        assert not left, "after the run and 'cay down':\n" + "\n".join(left)
        files = [n for n in os.listdir(daemon.state) if n.endswith((".sock", ".tmp"))]
        assert not [f for f in files if f != "warden.sock"], files


def test_300_cycles_leave_nothing():
    leak_run(300)


@pytest.mark.long
def test_10000_cycles_leave_nothing():
    leak_run(10000, clients=8)


def test_cold_cycles_leave_nothing(own):
    """Without the pool: every sandbox is created from parts."""
    failures = cycles(own, 60, pool={"mode": "bypass"})
    assert not failures, failures[:3]


def test_memory_does_not_grow(own):
    """Resident memory of cayd and cay-warden after 100 cycles and after 300."""
    def rss():
        sizes = {}
        for name, pid in own.pids().items():
            with open(f"/proc/{pid}/status") as f:
                sizes[name] = [int(li.split()[1]) for li in f if li.startswith("VmRSS")][0]
        return sizes
    assert not cycles(own, 100)
    first = rss()
    assert not cycles(own, 200)
    second = rss()
    print("kB after 100 and 300 cycles:", first, second)
    for name in ("cayd", "cay-warden"):
        assert second[name] - first[name] < 1500 * tree.SLACK, (first, second)
