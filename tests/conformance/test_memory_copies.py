# SPDX-License-Identifier: Apache-2.0
"""Snapshots, restores and forks with memory: processes continue from that instant, with a new identity in another
sandbox."""

import contextlib
import os
import threading
import time

import pytest

from lib import memory, pool
from lib.client import ApiError, Client
from lib.commands import Process, spawn, wait_for

LONG = os.environ.get("CAY_LONG") == "1"
CHILDREN = 100 if LONG else 8

# Replies to each line of input with its counter, its own random number, the system's, and its identity.
WARM = """
import os, random, signal, socket, sys
random.seed(7)
kept = bytearray(b"x" * (4 << 20))
n = 0
def reseed(*_):
    random.seed(os.urandom(32))
    open("/tmp/reseeded", "w").write(open("/run/cay/forked").read())
signal.signal(signal.SIGUSR1, reseed)
open("/tmp/pid", "w").write(str(os.getpid()))
server = socket.create_server(("127.0.0.1", 9000))
client = socket.create_connection(("127.0.0.1", 9000))
accepted = server.accept()[0]
def tcp():
    try:
        client.sendall(b"ping")
        return accepted.recv(4).decode()
    except OSError:
        return "closed"
for line in sys.stdin:
    n += 1
    print(n, len(kept), random.getrandbits(64), random.SystemRandom().getrandbits(64), os.uname().nodename,
          open("/etc/machine-id").read().strip(), open("/proc/sys/kernel/random/boot_id").read().strip(),
          open("/run/cay/forked").read().split() or None, open("/workspace/state").read().strip(), tcp(),
          flush=True, sep="|")
"""
HOOK = """#!/bin/sh
kill -USR1 "$(cat /tmp/pid)"
until [ "$(head -n 1 /tmp/reseeded 2>/dev/null)" = "$CAY_SANDBOX_ID" ]; do sleep 0.01; done
"""


class Line:
    def __init__(self, text):
        parts = text.split("|")
        self.n, self.own, self.system = int(parts[0]), parts[2], parts[3]
        self.host, self.machine, self.boot, self.forked, self.state, self.tcp = parts[4:]


@pytest.fixture(scope="module")
def daemon():
    with memory.daemon() as started:
        yield started


@pytest.fixture
def tidy(daemon):
    """Deletes the snapshots and copies of a test."""
    yield daemon.client
    for kind in ("sandboxes", "snapshots"):
        for row in daemon.client.call("GET", f"/v1/{kind}?limit=1000")["data"]:
            daemon.client.call("DELETE", f"/v1/{kind}/{row['id']}")


@pytest.fixture
def warm(tidy):
    with contextlib.closing(Warm(tidy)) as made:
        yield made


@pytest.fixture
def taken(warm):
    """A snapshot of it, with its memory."""
    return warm.post("snapshots", memory=True)


class Warm:
    """A sandbox with a process that keeps its state only in memory."""

    def __init__(self, api, **body):
        self.api = api
        self.sandbox = api.sandbox(timeout_sec=3600, **body).__enter__()
        self.id = self.sandbox.id
        self.set("first")
        self.sandbox.put("/workspace/warm.py", WARM.encode())
        self.process = spawn(self.sandbox, ["python3", "/workspace/warm.py"], stdin_open=True)
        self.ask()

    def close(self):
        self.sandbox.__exit__()

    def set(self, state):
        self.sandbox.put("/workspace/state", state.encode())

    def post(self, what, **body):
        return self.api.call("POST", f"/v1/sandboxes/{self.id}/{what}", body)

    def ask(self, process=None):
        return ask(process or self.process)

    def inside(self, row):
        """The same process in a copy."""
        copy = self.api.sandbox()
        copy.id, copy.row = row["id"], row
        return Process(copy, self.process.row)


def ask(process):
    before = len(process.output()["stdout"].splitlines())
    process.stdin("go\n")
    return Line(wait_for(lambda: process.output()["stdout"].splitlines()[before:], timeout=20)[0])


def test_the_source_continues(warm):
    row = warm.post("snapshots", memory=True, comment="warm")
    assert (row["kind"], row["memory_preserved"], row["memory_error"]) == ("full", True, None), row
    assert row["size_bytes"] > 4 << 20, "its memory counts"
    assert warm.api.call("GET", f"/v1/snapshots/{row['id']}") == row
    line = warm.ask()
    assert line.n == 2 and line.forked == "None", "the same process, and no copy"
    assert line.tcp == "ping", "its connections are as they were"
    assert warm.process.get()["state"] == "running"
    assert warm.post("snapshots")["kind"] == "filesystem", "not unless it is asked for"


def test_waiting_clients_get_their_replies(warm):
    """Commands and streams in progress while memory is written."""
    answers = {}

    def wait(what, call):
        with contextlib.closing(Client(warm.api.url, warm.api.key)) as client:
            answers[what] = call(client)
    warm.sandbox.exec("mkfifo pipe pipe2").ok()
    threads = [threading.Thread(target=wait, args=(what, call)) for what, call in (
        ("exec", lambda client: client.exec(warm.id, "echo before; cat pipe; echo after >&2; exit 3")),
        ("window", lambda client: client.call("POST", f"/v1/sandboxes/{warm.id}/windows/main/run",
                                              {"command": "echo before; cat pipe2", "wait_ms": 60000})))]
    for thread in threads:
        thread.start()
    wait_for(lambda: warm.sandbox.exec("pgrep -xc cat || :").stdout.strip() == "2", timeout=10)
    for _ in range(2):
        row = warm.post("snapshots", memory=True)
        assert row["memory_preserved"] is True, row
        warm.sandbox.exec("true").ok()  # it is connected again
    warm.sandbox.exec("echo through > pipe; echo through > pipe2").ok()
    for thread in threads:
        thread.join(60)
    assert answers["window"]["output"] == "before\nthrough\n" and answers["window"]["exit_code"] == 0, answers["window"]
    result = answers["exec"]
    assert (result.stdout, result.stderr, result.exit_code) == ("before\nthrough\n", "after\n", 3)


def test_restore_in_place(warm, taken):
    warm.set("second")
    assert (warm.ask().n, warm.ask().state) == (2, "second")
    first = None
    for _ in range(2):  # it can be repeated
        back = warm.post("restore", snapshot_id=taken["id"])
        assert (back["id"], back["state"]) == (warm.id, "running")
        line = warm.ask()
        assert (line.n, line.state, line.host) == (2, "first", warm.id), "files and memory are of one instant"
        assert line.forked.startswith(f"['{warm.id}'") and (not first or line.forked != first.forked)
        assert not first or (line.machine == first.machine and line.boot != first.boot)
        assert not first or (line.own == first.own and line.system != first.system), "time ran twice from there"
        first = line
    files = warm.post("restore", snapshot_id=taken["id"], memory=False)
    assert files["state"] == "running"
    assert warm.sandbox.exec("cat state; pgrep -fc 'warm[.]py' || :").stdout == "first0\n"


def test_new_sandboxes(warm, taken):
    made = [warm.api.create(snapshot_id=taken["id"]) for _ in range(2)]
    lines = [warm.ask(warm.inside(m)) for m in made]
    for one, line in zip(made, lines):
        assert (one["boot_path"], line.n, line.host, line.state) == ("snapshot", 2, one["id"], "first")
        assert line.forked.startswith(f"['{one['id']}'")
    assert len({line.machine for line in lines}) == len({line.boot for line in lines}) == 2
    files = warm.api.create(snapshot_id=taken["id"], memory=False)
    assert warm.api.exec(files["id"], "pgrep -fc 'warm[.]py' || :").stdout == "0\n"
    # It outlives its sandbox, and copies outlive it.
    warm.close()
    late = warm.api.create(snapshot_id=taken["id"])
    assert warm.ask(warm.inside(late)).n == 2
    warm.api.call("DELETE", f"/v1/snapshots/{taken['id']}")
    assert warm.ask(warm.inside(late)).n == 3


def fork(warm, count, **body):
    begun = time.monotonic()
    rows = warm.post("fork", count=count, memory=True, timeout_sec=600, **body)["data"]
    print(f"{count} children with memory in {time.monotonic() - begun:.2f} s")
    failed = [row for row in rows if "error" in row]
    assert not failed and len({row["id"] for row in rows}) == count, failed
    return rows


def draw(warm, rows, n=2):
    """A line of each child, which is then deleted, so that many fit."""
    lines = []
    for row in rows:
        lines.append(warm.ask(warm.inside(row)))
        assert (lines[-1].n, lines[-1].host) == (n, row["id"])
        warm.api.delete(row["id"])
    return lines


def test_children_draw_their_own_numbers(warm):
    """The system's random numbers differ by themselves; a process's generator repeats unless a hook reseeds it."""
    lines = draw(warm, fork(warm, CHILDREN, name="kid"))
    for what in ("system", "machine", "boot", "forked"):
        assert len({getattr(line, what) for line in lines}) == CHILDREN, what
    assert len({line.own for line in lines}) == 1, "nobody told it: docs/guides/lifecycle.md"
    assert warm.ask().n == 2, "the source went on"
    warm.sandbox.root("mkdir -p /etc/cay/fork.d && cat > /etc/cay/fork.d/reseed && chmod +x /etc/cay/fork.d/reseed",
                      stdin=HOOK).ok()
    lines = draw(warm, fork(warm, CHILDREN), n=3)
    assert len({line.own for line in lines}) == CHILDREN, "told before they counted as running"


def test_others_do_not_wait_for_it(warm, tidy):
    """Children with memory are created one by one for a while; a snapshot of files is taken in between."""
    other = tidy.create()["id"]
    client = Client(tidy.url, tidy.key)
    asking = threading.Thread(target=lambda: client.call("POST", f"/v1/sandboxes/{warm.id}/fork",
                                                         {"count": 16, "memory": True}))
    asking.start()
    wait_for(lambda: len(tidy.list()) > 2, timeout=20)
    row = tidy.call("POST", f"/v1/sandboxes/{other}/snapshots", {})
    assert asking.is_alive() and row["state"] == "ready"
    asking.join(60)
    client.close()
    assert len(tidy.list()) == 18


def test_a_hook_that_fails(warm):
    warm.sandbox.root("mkdir -p /etc/cay/fork.d; printf '#!/bin/sh\\necho no luck >&2; exit 3\\n' > /etc/cay/fork.d/bad;"
                      "chmod +x /etc/cay/fork.d/bad; touch /etc/cay/fork.d/readme").ok()
    with pytest.raises(ApiError) as caught:  # no child was made, so the call fails
        warm.post("fork", count=2, memory=True)
    assert caught.value.code == "boot_failed" and "no luck" in str(caught.value), caught.value
    assert "fork.d/bad: status 3" in str(caught.value)
    assert [row["id"] for row in warm.api.list()] == [warm.id]
    child = warm.post("fork")["data"][0]
    assert child["state"] == "running", "without memory every process is new: nothing to tell"


def test_fork_of_paused_ones(warm):
    for kind in ("freeze", "hibernate"):
        warm.post("pause", kind=kind)
        lines = draw(warm, fork(warm, 2))
        assert len({line.machine for line in lines}) == 2
        assert warm.api.get(warm.id)["state"] == "paused"
    warm.post("resume")
    assert warm.ask().n == 2


def test_nothing_is_shared(warm):
    """Previews, grants and idempotency keys stay with the source."""
    warm.api.call("POST", f"/v1/sandboxes/{warm.id}/previews", {"port": 8000, "visibility": "public"})
    head = {"Idempotency-Key": "fork-once"}
    path = f"/v1/sandboxes/{warm.id}/fork"
    first = warm.api.call("POST", path, {"count": 2, "memory": True}, head)
    assert warm.api.call("POST", path, {"count": 2, "memory": True}, head) == first, "once"
    with pytest.raises(ApiError) as caught:
        warm.api.call("POST", path, {"count": 2}, head)
    assert caught.value.status == 409
    for row in first["data"]:
        assert warm.api.call("GET", f"/v1/sandboxes/{row['id']}/previews")["data"] == []
        assert warm.ask(warm.inside(row)).n == 2


def test_clients_of_e2b(warm):
    """In E2B, a snapshot and a fork include memory and files."""
    made = warm.api.call("POST", f"/sandboxes/{warm.id}/snapshots", {"name": "warm"})
    rows = [warm.api.call("POST", "/sandboxes", {"templateID": made["snapshotID"]})]
    warm.sandbox.exec("true").ok()  # it is connected again
    rows += [item["sandbox"] for item in warm.api.call("POST", f"/sandboxes/{warm.id}/fork", {"count": 2})]
    for row in rows:
        line = warm.ask(warm.inside({"id": row["sandboxID"]}))
        assert (line.n, line.host, line.tcp) == (2, row["sandboxID"], "closed")


def test_a_network_of_its_own(daemon, tidy):
    if "network" not in tidy.capabilities("native"):
        pytest.skip("no networks on this host")
    with contextlib.closing(Warm(tidy, network={"mode": "restricted", "allow": ["a.example"]})) as warm:
        rows = fork(warm, 2)
        places = [tidy.exec(row["id"], "hostname -I").stdout.strip() for row in (tidy.get(warm.id), *rows)]
        assert all(places) and len(set(places)) == 3, places
        assert all(row["network"]["allow"] == ["a.example"] for row in rows)


def test_copies_of_copies(warm):
    child = fork(warm, 1)[0]
    inside = warm.inside(child)
    ask(inside)
    grandchild = warm.api.call("POST", f"/v1/sandboxes/{child['id']}/fork", {"memory": True})["data"][0]
    line = ask(warm.inside(grandchild))
    assert (line.n, line.host) == (3, grandchild["id"]) and line.forked.startswith(f"['{grandchild['id']}'")
    warm.api.call("POST", f"/v1/sandboxes/{child['id']}/pause", {"kind": "hibernate"})
    warm.api.call("POST", f"/v1/sandboxes/{child['id']}/resume", {})
    assert ask(inside).n == 3


def test_what_cannot_be_kept(warm):
    warm.sandbox.put("/workspace/ipc.py", b"import ctypes\nprint(ctypes.CDLL(None).shmget(77, 4096, 0o1600))\n")
    warm.sandbox.exec("python3 ipc.py").ok()
    row = warm.post("snapshots", memory=True)
    assert (row["kind"], row["memory_preserved"]) == ("filesystem", False) and "System V" in row["memory_error"], row
    assert warm.ask().n == 2, "it goes on all the same"
    with pytest.raises(ApiError) as caught:
        warm.post("fork", memory=True)
    assert caught.value.status == 422 and "System V" in str(caught.value)
    assert warm.ask().n == 3
    assert warm.api.create(snapshot_id=row["id"])["state"] == "running"


def test_altered_memory_is_refused(daemon, warm, taken):
    with pool.directory(daemon.pids()["cay-warden"], "snapshots") as point:
        pool.alter(point, "memory")
    for call in (lambda: warm.api.create(snapshot_id=taken["id"]),
                 lambda: warm.post("restore", snapshot_id=taken["id"])):
        with pytest.raises(ApiError) as caught:
            call()
        assert caught.value.code == "snapshot_refused" and "memory was altered" in str(caught.value), caught.value
    assert warm.post("resume", memory=False)["state"] == "running"
    assert warm.sandbox.exec("cat state").stdout == "first"


def test_over_a_restart_of_both(daemon, warm, taken):
    old = daemon.pids()
    for name in ("cayd", "cay-warden"):
        daemon.kill(name)
    wait_for(lambda: all(daemon.pids().get(n) not in (None, old[n]) for n in ("cayd", "cay-warden")), timeout=20)
    fresh = daemon.wait_ready(20)
    memory.claimed(fresh)
    warm.api.close()
    warm.api = warm.sandbox.client = fresh  # it may listen elsewhere
    made = fresh.create(snapshot_id=taken["id"])
    assert ask(warm.inside(made)).n == 2
    assert ask(warm.process).n == 2, "and its source is a sandbox of its own"
