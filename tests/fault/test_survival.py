# SPDX-License-Identifier: Apache-2.0
"""kill -9 of cayd, of cay-warden, of both; while sandboxes run and while they are being created (CRA)."""

import os
import random
import signal
import sqlite3
import threading
import time

import pytest

from lib import census, tree
from lib.client import ApiError, Client
from lib.daemon import Daemon

ROUNDS = int(os.environ.get("CAY_KILL_ROUNDS", "30"))
SEED = int(os.environ.get("CAY_SEED", "0")) or random.randrange(1 << 30)


@pytest.fixture(scope="module")
def victim():
    """A daemon that is killed repeatedly; the host must be clean after its 'cay down'."""
    before = census.take()
    with Daemon() as started:
        yield started
        state = started.state
    left = census.settle(before, states=[state])
    assert not left, "after the kills and 'cay down' the host differs:\n" + "\n".join(left)


def kill_and_wait(daemon, names, timeout=10):
    old = daemon.pids()
    for name in names:
        daemon.kill(name)
    time.sleep(0.02)
    daemon.forgive()
    until = time.monotonic() + timeout * tree.SLACK
    while time.monotonic() < until:
        now = daemon.pids()
        if all(now.get(n) and now[n] != old.get(n) for n in names):
            break
        time.sleep(0.02)
    else:
        raise AssertionError(f"not restarted: {old} -> {daemon.pids()}\n{daemon.logs()}")
    return daemon.wait_ready(timeout)


def patiently(call, seconds=10):
    """A call that may meet a restarting daemon: retried while the answer says retry."""
    until = time.monotonic() + seconds * tree.SLACK
    while True:
        try:
            return call()
        except (OSError, ApiError) as error:
            final = isinstance(error, ApiError) and error.status < 500
            if final or time.monotonic() > until:
                raise
            time.sleep(0.05)


@pytest.mark.parametrize("names", [("cayd",), ("cay-warden",), ("cayd", "cay-warden")],
                         ids=["cayd", "warden", "both"])
def test_running_sandboxes_survive(victim, names):
    """CRA-04: sandboxes keep running and stay usable, with files, processes and limits."""
    client = victim.wait_ready()
    ids = [client.create(timeout_sec=3600, metadata={"n": str(i)})["id"] for i in range(5)]
    for i, sandbox in enumerate(ids):
        client.exec(sandbox, f"echo {i} > /workspace/n; nohup sleep 1000 >/dev/null 2>&1 &")
    pids = {s: sorted(census.sandbox_pids(s)) for s in ids}
    fresh = kill_and_wait(victim, names)
    for i, sandbox in enumerate(ids):
        row = patiently(lambda s=sandbox: fresh.get(s))
        assert row["state"] == "running", row
        result = patiently(lambda s=sandbox: fresh.exec(s, "cat /workspace/n; pgrep -c sleep"))
        assert result.stdout == f"{i}\n1\n", repr(result)
        assert set(pids[sandbox]) <= set(census.sandbox_pids(sandbox)), "processes were replaced"
    made = patiently(lambda: fresh.create())
    patiently(lambda: fresh.delete(made["id"]))
    for sandbox in ids:
        patiently(lambda s=sandbox: fresh.delete(s))
    until = time.monotonic() + 5 * tree.SLACK
    while any(census.sandbox_pids(s) for s in ids) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(census.sandbox_pids(s) for s in ids)


@pytest.mark.parametrize("name", ["cayd", "cay-warden"])
def test_hundreds_survive(victim, name):
    """CRA-04: three hundred sandboxes are found again within seconds, not one is lost."""
    client = victim.wait_ready()
    ids = [client.create(memory_mb=64, timeout_sec=3600)["id"] for _ in range(300)]
    try:
        begin = time.monotonic()
        fresh = kill_and_wait(victim, (name,))
        ready = time.monotonic() - begin
        states = {r["id"]: (r["state"], r["state_reason"], r["last_error"]) for r in fresh.list()}
        lost = {states.get(s) for s in ids if states.get(s, ("gone",))[0] != "running"}
        assert not lost, lost
        for sandbox in ids[::30]:
            assert patiently(lambda s=sandbox: fresh.exec(s, ["/bin/echo", "x"])).stdout == "x\n"
        print(f"ready {ready:.2f} s after the kill of {name}")
        assert ready < 4 * tree.SLACK
    finally:
        client = victim.wait_ready()
        for sandbox in ids:
            patiently(lambda s=sandbox: client.delete(s))


def test_command_survives_daemon(victim):
    """The agent owns the pipes: a command continues when cayd dies."""
    client = victim.wait_ready()
    with client.sandbox(timeout_sec=600) as box:
        thread = threading.Thread(target=lambda: _ignore(
            lambda: Client(client.url, client.key).exec(box.id, "sleep 1; echo finished > /workspace/end")))
        thread.start()
        time.sleep(0.3)
        fresh = kill_and_wait(victim, ("cayd",))
        box.client = fresh
        thread.join(timeout=10)
        time.sleep(1.2)
        assert patiently(lambda: fresh.exec(box.id, "cat /workspace/end")).stdout == "finished\n"


def _ignore(call):
    try:
        call()
    except (OSError, ApiError, ValueError):
        pass


class Load:
    """Clients that create, exec and delete without pause and remember what was acknowledged."""

    def __init__(self, daemon, clients=3):
        self.daemon = daemon
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.alive, self.deleted, self.unknown = set(), set(), set()
        self.bad = []
        self.done = 0
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(clients)]

    def _run(self):
        while not self.stop.is_set():
            try:
                client = Client(self.daemon.url, self.daemon.key, timeout=15)
                self._cycle(client)
                client.close()
            except (OSError, ValueError):
                time.sleep(0.01)  # the daemon is not running
            except ApiError as error:
                if error.status not in (404, 409, 410, 500, 503):
                    self.bad.append(repr(error))
                time.sleep(0.01)
            except Exception as error:  # errors of http.client
                if "http.client" not in type(error).__module__:
                    self.bad.append(repr(error))

    def _cycle(self, client):
        sandbox = client.create(timeout_sec=3600, pool={"mode": random.choice(["prefer", "bypass"])})["id"]
        with self.lock:
            self.alive.add(sandbox)
        if random.random() < 0.7:
            assert client.exec(sandbox, ["/bin/echo", "x"]).stdout == "x\n"
        if random.random() < 0.8:
            with self.lock:
                self.alive.discard(sandbox)
                self.unknown.add(sandbox)
            client.delete(sandbox)
            with self.lock:
                self.unknown.discard(sandbox)
                self.deleted.add(sandbox)
        self.done += 1

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        for t in self.threads:
            t.join(timeout=40)


def test_random_kills_under_load(victim):
    """CRA-01, CRA-06 in short: kills at random times; the state agrees with the model, nothing partial is left."""
    print(f"seed {SEED}, rounds {ROUNDS}")
    chance = random.Random(SEED)
    victim.wait_ready()
    with Load(victim) as load:
        for _ in range(ROUNDS):
            time.sleep(chance.uniform(0.02, 0.35))
            names = chance.choice([("cayd",), ("cay-warden",), ("cayd", "cay-warden")])
            for name in names:
                victim.kill(name)
            time.sleep(0.01)
            victim.forgive()
            if chance.random() < 0.3:
                victim.wait_ready(15)
        client = victim.wait_ready(20)
        time.sleep(0.5)
    client = victim.wait_ready(20)
    print(f"{load.done} cycles acknowledged, {len(load.alive)} alive, {len(load.unknown)} unknown")
    assert load.done >= ROUNDS // 3, "hardly anything was served between the kills"
    assert not load.bad, load.bad[:3]
    try:
        judge(client, load, victim)
    finally:
        for row in client.list():
            patiently(lambda s=row["id"]: client.delete(s))
    assert client.list() == []
    with sqlite3.connect(f"file:{victim.state}/cay.db?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def log_of(daemon, word):
    """The log lines of both programs about one sandbox, and all lines of that second."""
    logs = []
    for name in ("cayd.log", "warden.log"):
        with open(os.path.join(daemon.state, "logs", name), errors="replace") as f:
            logs += [(line[:24], name, line.rstrip()) for line in f]
    seconds = {stamp[:19] for stamp, _name, line in logs if word in line}
    return "\n".join(f"{name}: {line}" for stamp, name, line in sorted(logs) if stamp[:19] in seconds)


def judge(client, load, victim):
    """Compares the replies to the clients with the daemon's current state."""
    rows = {r["id"]: r for r in client.list()}
    lost = load.alive - set(rows)
    assert not lost, f"acknowledged creates that are gone: {lost}"
    back = load.deleted & set(rows)
    assert not back, f"acknowledged deletes that are there: {back}"
    dead = [s for s in load.alive if rows[s]["state"] != "running"]
    reasons = {(rows[s]["state"], rows[s]["state_reason"], rows[s]["last_error"]) for s in dead}
    assert not dead, f"{len(dead)} of {len(load.alive)}: {reasons}\n{log_of(victim, dead[0])}\n{rows[dead[0]]}"
    for sandbox in sorted(load.alive)[:10]:
        assert patiently(lambda s=sandbox: client.exec(s, ["/bin/echo", "x"])).stdout == "x\n"
    half = [r for r in rows.values() if r["state"] not in ("running", "error", "destroyed")]
    assert not half, half[:3]


def test_nothing_stays_after_the_kills(victim):
    """With no sandbox left, only pool members of the daemon may exist."""
    client = victim.wait_ready()
    assert client.list() == []
    until = time.monotonic() + 8 * tree.SLACK
    while True:
        agents = census.take(victim)["processes"]
        inside = [p for p in agents if p.split(" ", 1)[1] not in ("cay", "cayd", "cay-warden")]
        if len(inside) <= 64 or time.monotonic() > until:
            break
        time.sleep(0.2)
    assert len(inside) <= 64, f"{len(inside)} processes in sandboxes nobody owns"


def test_idempotent_create_over_a_kill(victim):
    """CRA-01: the same Idempotency-Key before and after a kill gives one sandbox."""
    client = victim.wait_ready()
    for round_ in range(5):
        key = {"Idempotency-Key": f"k{SEED}-{round_}"}
        body = {"metadata": {"round": str(round_)}}
        thread = threading.Thread(target=lambda: _ignore(
            lambda: Client(victim.url, victim.key, 5).call("POST", "/v1/sandboxes", body, key)))
        thread.start()
        time.sleep(0.002 * round_)
        client = kill_and_wait(victim, ("cayd",))
        thread.join(timeout=10)
        def retry():
            try:
                return client.call("POST", "/v1/sandboxes", body, key)
            except ApiError as error:
                # A record of an unfinished first attempt may cause 409 until it is removed.
                if error.status == 409:
                    raise OSError("in progress") from error
                raise
        made = patiently(retry)
        found = client.list(**{"metadata.round": str(round_)})
        assert [(r["id"], r["state"], r["state_reason"]) for r in found] == [(made["id"], "running", None)], \
            (round_, made["id"], [(r["id"], r["state"], r["state_reason"], r["last_error"]) for r in found])
        client.delete(made["id"])


def test_sandbox_init_killed(victim):
    """CRA-05: the death of a sandbox's pid 1 is noticed, with its reason, within a second."""
    client = victim.wait_ready()
    with client.sandbox() as box, client.sandbox() as other:
        pids = census.sandbox_pids(box.id)
        os.kill(min(pids), signal.SIGKILL)
        row = box.wait_state(("error", "destroyed"), 2 * tree.SLACK)
        assert row is None or (row["state"] in ("error", "destroyed") and row["state_reason"] == "crash"), row
        with pytest.raises(ApiError) as caught:
            box.exec("true")
        assert caught.value.status in (404, 409, 410)
        assert other.exec(["/bin/echo", "x"]).stdout == "x\n"


def test_creates_without_a_warden(victim):
    """While the warden is down, creates get 503 (or wait), and running sandboxes still execute commands."""
    client = victim.wait_ready()
    with client.sandbox(timeout_sec=600) as box:
        pid = victim.pids()["cay-warden"]
        os.kill(pid, signal.SIGSTOP)
        try:
            assert client.exec(box.id, ["/bin/echo", "x"]).stdout == "x\n"
            assert client.healthz() == 200
        finally:
            os.kill(pid, signal.SIGCONT)
        assert patiently(lambda: client.exec(box.id, ["/bin/echo", "y"])).stdout == "y\n"


def test_supervisor_killed(victim):
    """Without its supervisor the daemon continues; the next 'cay up' starts a new supervisor."""
    client = victim.wait_ready()
    with client.sandbox(timeout_sec=600) as box:
        victim.kill("cay")
        time.sleep(0.2)
        assert client.exec(box.id, ["/bin/echo", "x"]).stdout == "x\n"
        assert victim.up() == 0
        assert victim.pids().get("cay")
        fresh = victim.wait_ready()
        assert fresh.exec(box.id, ["/bin/echo", "y"]).stdout == "y\n"
        box.client = fresh


def test_usage_is_exact_across_kills(victim):
    """Each moment is counted once and in the right state, also if the daemon dies right after the reply."""
    api = victim.client
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    before = time.monotonic()
    sandbox = api.create(timeout_sec=3600, pool={"mode": "bypass"})["id"]
    after = time.monotonic()
    least, most, now = [0, 0], [after - before, 0], 0  # seconds running and paused
    for move in ["pause", "kill", "resume", "kill", "pause", "resume", "kill"]:
        time.sleep(chance.random() / 10)
        before, was = time.monotonic(), now
        if move == "kill":
            kill_and_wait(victim, ["cayd"])
            api = victim.client
        else:
            api.call("POST", f"/v1/sandboxes/{sandbox}/{move}", {})
            now = int(move == "pause")
        sure, unsure = before - after, time.monotonic() - before
        after = time.monotonic()
        least[was] += sure + (unsure if now == was else 0)
        most[was] += sure + unsure
        if now != was:
            most[now] += unsure
    sums = api.call("GET", f"/v1/sandboxes/{sandbox}/usage")
    most[now] += time.monotonic() - after
    for name, low, high in zip(("running_seconds", "paused_seconds"), least, most):
        assert low - 0.05 <= sums[name] <= high + 0.05, (name, sums, least, most)
    api.delete(sandbox)
