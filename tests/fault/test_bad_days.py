# SPDX-License-Identifier: Apache-2.0
"""Bad days: clients use every creating call while programs are killed and stopped, and disks fill up.

Each day ends with a check (lib/ledger.py): acknowledged objects exist exactly once; deleted ones do not; files, output
and events are complete; and the host is as before. CAY_SEED repeats the choices of a run. CAY_LONG=1 makes 10,000
kills; CAY_BAD_DAY_KILLS sets another number.
"""

import contextlib
import http.server
import json
import os
import random
import socket
import sqlite3
import threading
import time

import pytest

from lib import census, tree
from lib.commands import wait_for
from lib.daemon import TEMPLATES, Daemon
from lib.ledger import Caller, Ledger, Worker, judge_account, judge_events
from lib.weather import Weather, filled, small_disk

SEED = int(os.environ.get("CAY_SEED", "0")) or random.randrange(1 << 30)
LONG = os.environ.get("CAY_LONG") == "1"
KILLS = int(os.environ.get("CAY_BAD_DAY_KILLS", "10000" if LONG else "16"))
DAY_KILLS = 16  # of one ledger
WORKERS = 4
CODE = "code-interpreter-v1"
SETTINGS = {"CAY_EVENTS_KEEP": "200000", "CAY_WEBHOOK_ALLOW_PRIVATE": "true", "CAY_WEBHOOK_RETRY_MS": "50",
            "CAY_OUTPUT_KEEP_SEC": "86400", "CAY_WEBHOOKS_PER_KEY": "1000"}


class AtPort(Daemon):
    """A daemon at a fixed address, because one that starts on a full disk cannot write its file 'url'."""

    def __init__(self, **more):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % free.getsockname()[1]
        super().__init__(args=["--listen", self.address], **more)

    @property
    def url(self):
        return "http://" + self.address


class Receiver:
    """Takes the events of a webhook."""

    def __init__(self):
        self.seen = seen = set()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                seen.add((event["type"], event["sandbox_id"]))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def judge(self, ledger, timeout=30):
        """Each event was delivered at least once, also after kills; waits for those in progress."""
        wanted = {(kind, one) for kind, one in ledger.events if kind.startswith("sandbox.")}
        until = time.monotonic() + timeout * tree.SLACK
        while wanted - self.seen and time.monotonic() < until:
            time.sleep(0.05)
        for kind, one in sorted(wanted - self.seen):
            ledger.complain(f"no webhook delivery of {kind} of {one}")


class Day:
    """Workers that run beside the test until it has had enough faults."""

    def __init__(self, daemon, seed, disk_full=False, code=False):
        self.daemon, self.ledger, self.weather = daemon, Ledger(seed), Weather(daemon, random.Random(f"{seed}/weather"))
        self.caller = Caller(daemon, random.Random(f"{seed}/judge"))
        self.workers = [Worker(daemon, self.ledger, n, disk_full, CODE if code and n == 0 else None)
                        for n in range(WORKERS)]
        self.end = threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(w,), daemon=True) for w in self.workers]
        events = self.caller.pages("/v1/events?format=json&limit=1000", cursor="after", start=0)
        self.after = events[-1]["id"] if events else 0

    def work(self, worker):
        try:
            while not self.end.is_set():
                worker.step()
        except BaseException as error:
            self.ledger.complain(f"worker {worker.number}: {error!r}")

    def run(self, faults):
        """faults: called again and again until it returns False."""
        for thread in self.threads:
            thread.start()
        try:
            while faults():
                pass
        finally:
            self.end.set()
            for thread in self.threads:
                thread.join(180 * tree.SLACK)
        assert not any(t.is_alive() for t in self.threads), "a client hangs\n" + self.daemon.logs()
        self.daemon.wait_ready(30)

    def judge(self, receiver=None):
        ledger = self.ledger
        for worker in self.workers:
            for box in worker.boxes:
                worker.judge_box(box)
        judge_account(ledger, self.caller)
        self.clear()
        judge_events(ledger, self.caller, self.after)
        if receiver:
            receiver.judge(ledger)
        left = self.nothing_left()
        if left:
            ledger.complain(f"left in control groups: {left}")
        with contextlib.closing(sqlite3.connect(f"file:{self.daemon.state}/cay.db?mode=ro", uri=True)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        print(f"seed {ledger.seed}: {self.weather.kills} kills, done {dict(ledger.done)}, refused {dict(ledger.refused)}")
        if ledger.complaints:
            pytest.fail(self.failure(), pytrace=False)

    def failure(self):
        return "\n".join([*self.weather.log[-40:], self.daemon.logs(30), *self.ledger.complaints[:30],
                          f"{len(self.ledger.complaints)} complaints; CAY_SEED={self.ledger.seed}"])

    def clear(self):
        """Removes everything through the API, including objects that no reply named."""
        for kind in ("sandboxes", "snapshots", "keys", "secrets", "webhooks"):
            for row in self.caller.pages(f"/v1/{kind}"):
                mine = row.get("name") != "admin" and row.get("description") != "receiver"
                if mine:
                    outcome = self.caller.ask("DELETE", f"/v1/{kind}/{row['id']}")
                    if outcome.status not in (204, 404):
                        self.ledger.complain(f"{kind} {row['id']} cannot be deleted: {outcome} {outcome.body}")
                    elif kind == "sandboxes":
                        self.ledger.events.add(("sandbox.destroyed", row["id"]))

    def nothing_left(self, timeout=10):
        until = time.monotonic() + timeout * tree.SLACK
        while True:
            left = census.grouped(self.daemon.state)
            if not left or time.monotonic() > until:
                return left
            time.sleep(0.05)


@pytest.fixture
def receiver():
    one = Receiver()
    yield one
    one.close()


def has_code():
    return os.path.exists(os.path.join(TEMPLATES, "refs", CODE))


def test_kills_stops_and_crowds(receiver):
    """All workers continue while cayd, the warden or both are killed or stopped, and while idle connections
    accumulate."""
    host = census.take()
    with Daemon(env={"CAY_POOL": "false", **SETTINGS}) as daemon:
        daemon.client.call("POST", "/v1/webhooks", {"url": receiver.url, "description": "receiver"})
        kills, round_number = 0, 0
        while kills < KILLS:
            day = Day(daemon, SEED + round_number, code=has_code())
            until = time.monotonic() + 25 * tree.SLACK

            def faults():
                time.sleep(day.weather.chance.uniform(0.05, 0.6))
                day.weather.strike(("kill", "kill", "kill", "stop", "crowd"))
                return day.weather.kills < min(DAY_KILLS, KILLS) and (LONG or time.monotonic() < until)

            day.run(faults)
            day.judge(receiver)
            kills += day.weather.kills
            round_number += 1
            if not LONG:
                break
        state = daemon.state
    left = census.settle(host, states=[state])
    assert not left, "\n".join(left)


def fill_pool(client, sandbox):
    """A tenant writes until its own limit or the pool's end."""
    return client.exec(sandbox, "head -c 3000000000 /dev/zero > /workspace/big; wc -c < /workspace/big").stdout


@pytest.mark.long
@pytest.mark.skipif(os.environ.get("CAY_TEST_STORAGE") == "directory", reason="there is no pool")
@pytest.mark.parametrize("which", ["state", "pool", "both"])
def test_full_disks(which):
    """The state file system, the pool or both are full for a while, and programs are killed meanwhile."""
    host = census.take()
    with small_disk(2048) as point:
        with AtPort(state=point, env={"CAY_POOL": "false", **SETTINGS}) as daemon:
            filler = daemon.client.create(timeout_sec=3600, disk_size_mb=4096, memory_mb=128)["id"]
            day = Day(daemon, SEED, disk_full=True)
            rounds = iter(range(100 if LONG else 2))

            def faults():
                if next(rounds, None) is None:
                    return False
                time.sleep(day.weather.chance.uniform(0.3, 1))
                day.weather.say(f"{which} full")
                if which in ("pool", "both"):
                    day.weather.say(f"pool: {fill_pool(daemon.client, filler)}")
                if which in ("state", "both"):
                    with filled(point):
                        time.sleep(day.weather.chance.uniform(0.5, 1.5))
                        day.weather.kill()
                else:
                    day.weather.kill()
                daemon.wait_ready(30)
                day.caller.ask("POST", f"/v1/sandboxes/{filler}/exec", {"command": "rm -f /workspace/big; sync"})
                return True

            day.run(faults)
            day.judge()
            if not os.path.exists(f"{point}/url"):  # test_address_after_a_full_disk
                daemon.kill("cayd")
                wait_for(lambda: os.path.exists(f"{point}/url"), timeout=20)
            daemon.down()
    left = census.settle(host, states=[point])
    assert not left, "\n".join(left)


def test_address_after_a_full_disk():
    with small_disk(2048) as point, AtPort(state=point, env={"CAY_POOL": "false"}) as daemon:
        with filled(point):
            daemon.kill("cayd")
            until = time.monotonic() + 3  # space that the daemon frees at its start is filled, too
            with open(f"{point}/filler", "ab", buffering=0) as f:
                while time.monotonic() < until:
                    with contextlib.suppress(OSError):
                        f.write(bytes(4096))
            daemon.wait_ready(30)
        wait_for(lambda: os.path.exists(f"{point}/url"), timeout=10)
