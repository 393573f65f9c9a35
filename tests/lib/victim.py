# SPDX-License-Identifier: Apache-2.0
"""A daemon whose programs are killed in the middle of a transition of lib/sweep.py, and the ways to do it: at numbered
steps (src/base/fault.h) of the fault builds, or at random instants.
"""

import contextlib
import os
import random
import sqlite3
import struct
import threading
import time

import pytest

from lib import census, pool, tree
from lib.commands import wait_for
from lib.daemon import Daemon
from lib.reboot import reboot

SEED = int(os.environ.get("CAY_SEED", "0")) or random.randrange(1 << 30)
LONG = os.environ.get("CAY_LONG") == "1"
KILLERS = (("cayd",), ("cay-warden",), ("cayd", "cay-warden"))
HOST = (("cayd", "host"), ("cay-warden", "host"))  # who dies at the step; then everything does: lib/reboot.py
STEPS_MAX = 200


class Counter:
    """How many steps a program has left; see src/base/fault.h."""

    def __init__(self, path):
        self.path = path
        self.set(0)
        os.chmod(path, 0o666)  # cayd is not root

    def set(self, steps):
        with open(self.path, "r+b" if os.path.exists(self.path) else "wb") as f:
            f.write(struct.pack("=i", steps))

    def left(self):
        with open(self.path, "rb") as f:
            return struct.unpack("=i", f.read(4))[0]


class Victim(Daemon):
    def __init__(self, build, **env):
        super().__init__(build, env={"CAY_POOL": "false", **env})
        self.counters = {"cayd": Counter(f"{self.state}/fault-cayd"),
                         "cay-warden": Counter(f"{self.state}/fault-warden")}
        self.env.update(CAY_FAULT_CAYD=self.counters["cayd"].path, CAY_FAULT_WARDEN=self.counters["cay-warden"].path)
        self.kills = 0

    def restarted(self, old, names):
        until = time.monotonic() + 20 * tree.SLACK
        while True:
            now = self.pids()
            if all(now.get(n) and now[n] != old[n] for n in names):
                break
            assert time.monotonic() < until, f"not restarted: {old} -> {now}\n{self.logs()}"
            self.forgive()
            time.sleep(0.02)
        self.kills += len(names)
        self.wait_ready(20)

    def in_order(self):
        """With nothing left in the API, nothing is left inside: no process and no partial snapshot."""
        until = time.monotonic() + 10 * tree.SLACK
        while True:
            left = census.grouped(self.state) | self.snapshots()
            if not left:
                return
            assert time.monotonic() < until, f"left behind: {left}"
            time.sleep(0.05)

    def snapshots(self):
        class Warden:
            class process:  # the supervisor may be about to start it again
                pid = wait_for(lambda: self.pids().get("cay-warden"), 20)
        return pool.snapshots(Warden)


def journal_is_closed(victim):
    """No intent and no snapshot; the end of a destroy is recorded shortly after its reply."""
    until = time.monotonic() + 5 * tree.SLACK
    with sqlite3.connect(f"file:{victim.state}/cay.db?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        while True:
            left = [db.execute(f"SELECT * FROM {table}").fetchall() for table in ("intents", "snapshots")]
            if left == [[], []]:
                return
            assert time.monotonic() < until, f"{left}\n{victim.logs()}"
            time.sleep(0.05)


@contextlib.contextmanager
def started(build, kind=Victim):
    """Afterwards everything is undone, to the last file in its pool."""
    if not os.access(tree.program("cay-warden", build), os.X_OK):
        pytest.skip(tree.NO_FAULTS)
    host = census.take()
    with kind(build) as victim:
        print(f"seed {SEED}")
        yield victim
        print(f"{victim.kills} kills")
        journal_is_closed(victim)
        victim.down()
        with pool.mounted(victim.state) as point:
            assert sorted(os.listdir(point)) == ["owner", "snapshots"] and os.listdir(point + "/snapshots") == []
    left = census.settle(host, states=[victim.state])
    assert not left, "\n".join(left)


def finish(victim, move, what):
    try:
        move.judge()
        move.tidy()
        victim.in_order()
    except Exception as error:
        raise AssertionError(f"{what}: {error}; answer {move.answer}, error {move.error!r}\n{victim.logs(25)}") from error


def at_step(victim, moves, name, names, step):
    """One kill at one step; False if the transition has fewer."""
    move = moves[name](victim)
    old = victim.pids()
    counter = victim.counters[names[0]]
    counter.set(step)
    move.run()
    until = time.monotonic() + 0.1
    while counter.left() > 0 and time.monotonic() < until:
        time.sleep(0.005)  # its work after the reply
    died = counter.left() <= 0
    counter.set(0)
    if "host" in names:
        reboot(victim, off_sec=600)
        move.rebooted = True
        victim.kills += 1
    elif died:
        for other in names[1:]:
            victim.kill(other)
        victim.restarted(old, names)
    finish(victim, move, f"{name}, {'+'.join(names)} at step {step}")
    return died


def all_steps(victim, moves, killers):
    for names in killers:
        for name in moves:
            for step in range(1, STEPS_MAX):
                if not at_step(victim, moves, name, names, step):
                    print(f"{name}: {'+'.join(names)} at each of {step - 1} steps, {victim.kills} kills", flush=True)
                    break
            else:
                raise AssertionError(f"{name} has no end")


def some_steps(victim, moves, kills, seconds):
    """At some steps of a transition; one that has fewer ends without a kill."""
    chance = random.Random(SEED)
    most = {}
    until = time.monotonic() + seconds * tree.SLACK
    while victim.kills < kills and time.monotonic() < until:
        for name in chance.sample(list(moves), len(moves)):
            names = chance.choice(KILLERS)
            step = chance.randrange(1, most.get((name, names), 40))
            if not at_step(victim, moves, name, names, step):
                most[name, names] = max(step, 2)
            if time.monotonic() > until:
                break


def random_instants(victim, moves, kills, seconds, longest_sec):
    chance = random.Random(SEED)
    until = time.monotonic() + seconds * tree.SLACK
    while victim.kills < kills and (LONG or time.monotonic() < until):
        name, names = chance.choice(list(moves)), chance.choice(KILLERS)
        move = moves[name](victim)
        old = victim.pids()
        wait = chance.random() * longest_sec
        asking = threading.Thread(target=move.run)
        asking.start()
        time.sleep(wait)
        for victim_name in names:
            victim.kill(victim_name)
        victim.restarted(old, names)
        asking.join(60)
        assert not asking.is_alive(), f"{name} hangs"
        finish(victim, move, f"{name}, {'+'.join(names)} after {wait * 1000:.1f} ms")
