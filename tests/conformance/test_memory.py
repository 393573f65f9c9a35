# SPDX-License-Identifier: Apache-2.0
"""Hibernation and snapshots that keep processes and memory where CRIU works, and report it where it does not."""

import pytest

from lib import memory, pool
from lib.client import ApiError
from lib.commands import Window, spawn, wait_for

# Counts in a variable only.
COUNTER = """
import sys, time
kept = bytearray(b"x" * (8 << 20))
n = 0
while True:
    n += 1
    print(n, len(kept), flush=True)
    time.sleep(0.02)
"""

MANY = """
import fcntl, mmap, os, select, socket, subprocess, sys, threading, time
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", 8099))
server.listen(8)
client = socket.create_connection(("127.0.0.1", 8099))
accepted = server.accept()[0]
one, two = socket.socketpair()
lock = open("/tmp/lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
ghost = open("/tmp/ghost", "w+")
ghost.write("unlinked"); ghost.flush(); os.unlink("/tmp/ghost")
open("/dev/shm/kept", "w").write("shared")
area = mmap.mmap(-1, 1 << 20); area[:4] = b"area"
threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
child = subprocess.Popen(["sleep", "1000000"])
print("ready", flush=True)
for line in sys.stdin:
    one.send(b"pair")
    ghost.seek(0)
    try:
        client.send(b"x")
        tcp = "open"
    except OSError:
        tcp = "closed"
    with socket.create_connection(("127.0.0.1", 8099)) as again:
        server.accept()[0].close()
    print(two.recv(4).decode(), ghost.read(), open("/dev/shm/kept").read(), area[:4].decode(), threading.active_count(),
          child.poll(), tcp, "served", flush=True)
"""


@pytest.fixture(scope="module")
def daemon():
    with memory.daemon() as started:
        yield started


@pytest.fixture
def sandbox(daemon):
    with daemon.client.sandbox(timeout_sec=3600) as made:
        yield made


def post(sandbox, what, **body):
    return sandbox.client.call("POST", f"/v1/sandboxes/{sandbox.id}/{what}", body)


def hibernate(sandbox):
    row = post(sandbox, "pause", kind="hibernate")
    assert (row["state"], row["pause_kind"]) == ("paused", "hibernate")
    return row


def kept(sandbox):
    row = hibernate(sandbox)
    assert row["memory_preserved"] is True, row["last_error"]
    return row


def lines(process, **fields):
    body = process.output(**fields)
    return body["stdout"]


def python(sandbox, text, **body):
    sandbox.put("/workspace/program.py", text.encode())
    return spawn(sandbox, ["python3", "/workspace/program.py"], **body)


def counts(process, cursor=0):
    """The numbers printed after the cursor, and the cursor of the next byte."""
    collected = process.collect(out=cursor, cursor=f"{cursor}:0")
    whole = collected.out[:collected.out.rfind(b"\n") + 1]
    return [int(line.split()[0]) for line in whole.splitlines()], cursor + len(whole)


def test_a_counter_continues(sandbox):
    process = python(sandbox, COUNTER)
    wait_for(lambda: counts(process)[0], timeout=20)
    row = kept(sandbox)
    assert row["last_error"] is None
    assert post(sandbox, "resume")["state"] == "running"
    assert process.get()["pid"] == process.pid, "its number is the one it had"
    before, cursor = counts(process)
    assert before == list(range(1, before[-1] + 1)), "a line was lost or came twice"
    later = wait_for(lambda: counts(process, cursor)[0], timeout=20)
    assert later[0] == before[-1] + 1, "the cursors go on behind the last byte"
    assert process.collect(cursor="0:0").out.split(b"\n", 1)[0] == b"1 8388608"


def test_clients_of_e2b_resume_with_what_was_kept(sandbox):
    """connect() resumes in the same way; a sandbox that was paused without memory has none."""
    window = Window(sandbox, "main")
    window.run("secret=41")
    kept(sandbox)
    session = sandbox.client.call("POST", f"/v2/sandboxes/{sandbox.id}/connect", {"timeout": 600})
    assert session["sandboxID"] == sandbox.id
    assert window.run("echo $secret")["out"] == b"41\n"
    kept(sandbox)
    sandbox.client.call("POST", f"/v2/sandboxes/{sandbox.id}/connect", {"memory": False})
    assert window.run("echo $secret")["out"] == b"\n"
    sandbox.client.call("POST", f"/sandboxes/{sandbox.id}/pause", {"memory": False})
    assert sandbox.state()["memory_preserved"] is False
    sandbox.client.call("POST", f"/v2/sandboxes/{sandbox.id}/connect", {})
    kept(sandbox)


def test_a_window_keeps_its_variables(sandbox):
    window = Window(sandbox, "main")
    window.run("cd /tmp; secret=41; add() { echo $((secret + 1)); }")
    kept(sandbox)
    post(sandbox, "resume")
    assert window.run("add; pwd")["out"].split() == [b"42", b"/tmp"]


def test_what_a_process_holds(sandbox):
    process = python(sandbox, MANY, stdin_open=True)
    wait_for(lambda: "ready" in lines(process), timeout=20)
    for turn in range(2):  # a restored sandbox can be hibernated again
        kept(sandbox)
        post(sandbox, "resume")
        process.stdin("go\n")
        told = wait_for(lambda: lines(process).splitlines()[1 + turn:], timeout=20)
        assert told == ["pair unlinked shared area 2 None closed served"], told
    process.client.call("DELETE", process.path)
    assert sandbox.exec("pgrep -c sleep || :").stdout.strip() == "0", "its group came along, and with it its child"


def test_from_a_freeze(sandbox):
    process = python(sandbox, COUNTER)
    wait_for(lambda: counts(process)[0], timeout=20)
    assert post(sandbox, "pause", kind="freeze")["memory_preserved"] is True
    kept(sandbox)
    post(sandbox, "resume")
    before, cursor = counts(process)
    assert wait_for(lambda: counts(process, cursor)[0], timeout=20)[0] == before[-1] + 1


def test_the_same_sandbox(sandbox):
    def identity():
        return sandbox.exec("hostname; cat /etc/machine-id; id -u; pwd").stdout

    def boot():
        return sandbox.exec("cat /proc/sys/kernel/random/boot_id").stdout

    spawn(sandbox, ["sleep", "1000"])
    who, when = identity(), boot()
    kept(sandbox)
    post(sandbox, "resume")
    assert identity() == who and boot() != when


def test_over_a_restart_of_both(daemon, sandbox):
    process = python(sandbox, COUNTER)
    wait_for(lambda: counts(process)[0], timeout=20)
    kept(sandbox)
    old = daemon.pids()
    for name in ("cayd", "cay-warden"):
        daemon.kill(name)
    wait_for(lambda: all(daemon.pids().get(n) not in (None, old[n]) for n in ("cayd", "cay-warden")), timeout=20)
    fresh = daemon.wait_ready(20)
    memory.claimed(fresh)
    sandbox.client.close()
    sandbox.client = fresh
    assert fresh.get(sandbox.id)["memory_preserved"] is True
    wait_for(lambda: resumed(sandbox), timeout=20)
    before, cursor = counts(process)
    assert wait_for(lambda: counts(process, cursor)[0], timeout=20)[0] == before[-1] + 1


def resumed(sandbox):
    try:
        return post(sandbox, "resume")["state"] == "running"
    except ApiError as error:
        assert error.status == 503, error
        return False


def test_unsupported_memory_is_reported_before_anything_is_lost(sandbox):
    sandbox.put("/workspace/ipc.py", b"import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
                b"print(libc.shmget(77, 4096, 0o1600))\n")
    sandbox.exec("echo file > /workspace/f; python3 /workspace/ipc.py").ok()
    spawn(sandbox, ["sleep", "1000"])
    row = hibernate(sandbox)
    assert row["memory_preserved"] is False and "System V" in row["last_error"], row
    post(sandbox, "resume")
    assert sandbox.exec("cat /workspace/f; pgrep -c sleep || :").stdout == "file\n0\n"
    assert sandbox.client.get(sandbox.id)["last_error"] is None


def test_resume_without_it(sandbox):
    spawn(sandbox, ["sleep", "1000"])
    sandbox.exec("echo file > /workspace/f").ok()
    kept(sandbox)
    assert post(sandbox, "resume", memory=False)["state"] == "running"
    assert sandbox.exec("cat /workspace/f; pgrep -c sleep || :").stdout == "file\n0\n"


def test_altered_memory_is_refused(daemon):
    """Altered by an attacker with access to the pool: the files alone can still be restored."""
    with daemon.client.sandbox(timeout_sec=3600) as sandbox:
        spawn(sandbox, ["sleep", "1000"])
        sandbox.exec("echo file > /workspace/f").ok()
        kept(sandbox)
        with pool.directory(daemon.pids()["cay-warden"], "snapshots") as point:
            pool.alter(point, "memory")
        with pytest.raises(ApiError) as caught:
            post(sandbox, "resume")
        assert caught.value.code == "snapshot_refused" and "memory was altered" in str(caught.value), caught.value
        assert daemon.client.get(sandbox.id)["state"] == "paused"
        post(sandbox, "resume", memory=False)
        assert sandbox.exec("cat /workspace/f").stdout == "file\n"


def test_without_criu_files_are_kept(api, engine, needs):
    needs("snapshot")
    if engine != "native":
        pytest.skip("of the native engine")
    assert "snapshot_memory" not in api.capabilities(engine)
    with api.sandbox(engine=engine) as sandbox:
        sandbox.exec("echo file > /workspace/f").ok()
        row = hibernate(sandbox)
        assert row["memory_preserved"] is False and row["last_error"] is None
        post(sandbox, "resume")
        assert sandbox.exec("cat /workspace/f").stdout == "file\n"
