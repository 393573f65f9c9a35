# SPDX-License-Identifier: Apache-2.0
"""A soak with every kind of call: nothing grows beyond what is stated here.

Clients create, use and delete everything the API offers (lib/ledger.py). Whenever all of it is deleted, the tables of
the database, files, descriptors, memory, control groups, mounts and volumes are counted and compared with ROWS and
LIMITS. CAY_LONG=1 runs for an hour; CAY_SOAK_SEC sets another time.
"""

import contextlib
import itertools
import os
import random
import sqlite3
import threading
import time

import pytest

from lib import census, tree
from lib.daemon import Daemon
from lib.ledger import Caller, Ledger, Worker, judge_account

SEED = int(os.environ.get("CAY_SEED", "0")) or random.randrange(1 << 30)
LONG = os.environ.get("CAY_LONG") == "1"
SECONDS = float(os.environ.get("CAY_SOAK_SEC", "3600" if LONG else "16"))
ROUND_SEC = min(SECONDS / 3, 60)
WORKERS = 3
EVENTS_KEEP = 300
SETTINGS = {"CAY_POOL": "false", "CAY_EVENTS_KEEP": str(EVENTS_KEEP), "CAY_WEBHOOKS_PER_KEY": "1000"}
IDEMPOTENCY_MAX = 10000

# The most rows of each table when every object has been deleted; n counts the acknowledged operations so far.
ROWS = {
    "sandboxes": lambda n: 0,
    "intents": lambda n: 0,
    "keys": lambda n: 1,
    "departed_keys": lambda n: 0,
    "idempotency": lambda n: min(n["keyed"], IDEMPOTENCY_MAX),
    "snapshots": lambda n: 0,
    "events": lambda n: EVENTS_KEEP + 256,  # deleted in groups
    "event_trims": lambda n: 1,  # per tenant that lost events
    "usage": lambda n: 2 * n["sandboxes"] + 3 * n["transitions"],  # one per interval in one state
    "usage_days": lambda n: 2 * n["sandboxes"],
    "webhooks": lambda n: 0,
    "webhook_dead": lambda n: 0,
    "previews": lambda n: 0,
    "preview_tokens": lambda n: 0,
    "secrets": lambda n: 0,
    "secret_versions": lambda n: 0,
    "grants": lambda n: 0,
    "authorities": lambda n: 0,
    "denials": lambda n: 0,
    "meta": lambda n: 32,
    "migrations": lambda n: 64,
}
ROW_BYTES = 2048  # the largest row on average, indexes and free pages included
# Allowed growth since the end of the first round.
LIMITS = {
    "rss of cayd": 12 << 20,
    "rss of cay-warden": 4 << 20,
    "fds of cayd": 8,
    "fds of cay-warden": 4,
    "mounts of cay-warden": 2,
    "subvolumes": 0,
    "cgroups": 0,
    "processes": 0,
    "links": 0,
    "files": 2,
    "cay.db-wal": 16 << 20,
}
KEYED = ("create", "fork", "snapshot", "restore", "process", "preview", "share", "key", "secret", "webhook")


def rss(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def measure(daemon):
    pids, taken = daemon.pids(), census.take(daemon)
    found = {name: sum(taken[name].values()) for name in
             ("fds of cayd", "fds of cay-warden", "mounts of cay-warden", "files", "links")}
    found["subvolumes"] = len(taken["subvolumes"])  # seen through several descriptors
    own = [f"/cay-{number}" for number, state in census.claims().items() if state == daemon.state]
    found["cgroups"] = sum(1 for group in taken["cgroups"] if any(one in group for one in own))
    found["processes"] = len(census.grouped(daemon.state))
    for name in ("cayd", "cay-warden"):
        found["rss of " + name] = rss(pids[name])
    for name in ("cay.db", "cay.db-wal"):
        found[name] = size(f"{daemon.state}/{name}")
    return found


def rows_of(daemon):
    with contextlib.closing(sqlite3.connect(f"file:{daemon.state}/cay.db?mode=ro", uri=True)) as db:
        names = [name for name, in db.execute("SELECT name FROM sqlite_master WHERE type='table'")
                 if not name.startswith("sqlite_")]
        return {name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}


def excess(first, now, rows, counts):
    """The counts that exceed their limits, as text."""
    found = [f"table {name} has no formula" for name in rows if name not in ROWS]
    for name, count in rows.items():
        if name in ROWS and count > ROWS[name](counts):
            found.append(f"table {name}: {count} rows, at most {ROWS[name](counts)} after {dict(counts)}")
    for name, limit in LIMITS.items():
        if now[name] - first[name] > limit:
            found.append(f"{name}: {first[name]} at first, {now[name]} now, at most {limit} more")
    most = first["cay.db"] + ROW_BYTES * sum(ROWS[name](counts) for name in rows if name in ROWS)
    if now["cay.db"] > most:
        found.append(f"cay.db: {now['cay.db']} bytes, at most {most}")
    return found


class Soak:
    def __init__(self, daemon):
        self.daemon, self.ledger = daemon, Ledger(SEED)
        self.caller = Caller(daemon, random.Random(SEED))
        self.workers = [Worker(daemon, self.ledger, n) for n in range(WORKERS)]

    def round(self, seconds):
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self.work, args=(w, until)) for w in self.workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for worker in self.workers:
            while worker.snapshots:
                worker.forget_snapshot()
            while worker.boxes:
                worker.op_delete(worker.boxes[0])
        judge_account(self.ledger, self.caller)
        for kind, table in (("key", self.ledger.keys), ("secret", self.ledger.secrets),
                            ("webhook", self.ledger.webhooks)):
            while table:
                assert self.caller.ask("DELETE", f"/v1/{kind}s/{table.popitem()[1]}").status == 204
        assert not self.ledger.complaints, "\n".join(self.ledger.complaints)

    def work(self, worker, until):
        try:
            while time.monotonic() < until:
                worker.step()
        except BaseException as error:
            self.ledger.complain(f"worker {worker.number}: {error!r}")

    def counts(self):
        done = self.ledger.done
        return {"keyed": sum(done[kind] for kind in KEYED), "sandboxes": 3 * done["create"] + 2 * done["fork"],
                "transitions": 2 * (done["freeze"] + done["hibernate"]) + done["restore"]}

    def settled(self, first):
        """Waits until the groups, mounts and volumes of the last sandboxes are removed, which happens shortly after
        their end."""
        until, last = time.monotonic() + 20 * tree.SLACK, None
        while True:
            now, rows = measure(self.daemon), rows_of(self.daemon)
            found = excess(first or now, now, rows, self.counts())
            quiet = last and all(now[name] == last[name] for name in ("cgroups", "subvolumes", "fds of cay-warden"))
            if (not found and quiet and now["processes"] == 0) or time.monotonic() > until:
                return now, rows, found
            last = now
            time.sleep(0.5)


@pytest.mark.alone
def test_growth():
    print(f"seed {SEED}, {SECONDS:.0f} s")
    host = census.take()
    with Daemon(env=SETTINGS) as daemon:
        soak, first, begin = Soak(daemon), None, time.monotonic()
        for number in itertools.count():
            if number > 1 and time.monotonic() - begin > SECONDS:
                break
            soak.round(ROUND_SEC)
            now, rows, found = soak.settled(first)
            first = first or now
            print(now, rows, soak.counts())
            assert not found, "\n".join(found)
        state = daemon.state
        missing = set(KEYED) - set(soak.ledger.done)
        assert len(missing) < len(KEYED) / 2, f"hardly anything was exercised: {soak.ledger.done}"
    left = census.settle(host, states=[state])
    assert not left, "\n".join(left)
