# SPDX-License-Identifier: Apache-2.0
"""The file API on a hostile tree (FIL). What the tool does by itself is tested in tests/unit/tools."""

import os
import random
import socket
import threading
import time

import pytest

from lib import flags, tree
from lib.client import ApiError
from lib.files import Files, refused

PLACE = "/workspace/fil"

# Exchanges two names as fast as it can, until a file says stop; prints how often.
SWAP = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
a, b, stop = (w.encode() for w in sys.argv[1:4])
n = 0
while n % 1000 or not os.path.exists(stop):
    libc.renameat2(-100, a, -100, b, 2)
    n += 1
    if n == 50000:
        os.close(os.open(stop + b"-%d" % os.getpid(), os.O_CREAT))
print(n)
"""


@pytest.fixture
def files(box):
    box.exec(f"rm -rf {PLACE}; mkdir {PLACE}").ok()
    yield Files(box)
    box.exec(f"rm -rf {PLACE}", user="root").ok()


def attempt(call, *args, **kw):
    """The reply, or the error's code; anything else is a failure."""
    try:
        return call(*args, **kw), None
    except ApiError as error:
        assert error.status < 500 or error.code in ("tool_failed",), error
        return None, error.code


def test_FIL_01_links_lead_inside(box, files, host_flag):
    """FIL-01: links to host files, up the tree, through /proc/self/root, in long chains."""
    box.exec(f"cd {PLACE} && ln -s {host_flag} host && ln -s ../../../../../../{host_flag} up && "
             f"ln -s /proc/1/root{host_flag} proc && ln -s /etc/passwd passwd && "
             "ln -s c0 c1 && for i in $(seq 2 60); do ln -s c$((i-1)) c$i; done; echo end > c0").ok()
    for name in ("host", "up", "proc"):
        for user in (None, "root"):
            query = {"user": user} if user else {}
            answer, code = attempt(files.read, f"{PLACE}/{name}", **query)
            assert answer is None and code in ("file_not_found", "file_forbidden", "symlink_loop"), (name, code)
    assert b"sandbox:" in files.read(f"{PLACE}/passwd")  # the sandbox's own
    refused("symlink_loop", files.read, f"{PLACE}/c60")
    assert files.read(f"{PLACE}/c20") == b"end\n"
    files.post("remove", path=f"{PLACE}/passwd")  # the link, not what it leads to
    assert files.get("exists", path="/etc/passwd")["exists"]


def test_FIL_02_races(box, files, host_flag):
    """FIL-02, FIL-03: a directory and a link to / are exchanged 10^5 times during every operation."""
    box.exec(f"cd {PLACE} && mkdir -p top/d && echo inside > top/d/f && ln -s / top/l && mkdir top2 && ln -s / top2/d").ok()
    counts = []

    def swap(a, b):
        counts.append(int(box.exec(["python3", "-c", SWAP, f"{PLACE}/{a}", f"{PLACE}/{b}", f"{PLACE}/stop"],
                                   timeout_sec=300).ok().stdout))
    workers = [threading.Thread(target=swap, args=pair) for pair in (("top/d", "top/l"), ("top", "top2"))]
    for worker in workers:
        worker.start()
    allowed = {None, "file_not_found", "not_a_directory", "not_a_file", "file_forbidden", "conflict", "file_exists",
               "directory_not_empty", "symlink_loop", "file_busy", "read_only", "edit_no_match"}
    until, rounds, seen = time.monotonic() + 60 * tree.SLACK, 0, set()

    def enough():
        return rounds >= 40 and box.exec(f"ls {PLACE} | grep -c ^stop-").stdout == "2\n"
    try:
        while not enough() and time.monotonic() < until:
            for call in (lambda: files.read(f"{PLACE}/top/d/f"), lambda: files.put(f"{PLACE}/top/d/new", b"x"),
                         lambda: files.get(path=f"{PLACE}/top/d"), lambda: files.post("mkdir", path=f"{PLACE}/top/d/m"),
                         lambda: files.post("remove", path=f"{PLACE}/top/d/m", recursive=True),
                         lambda: files.post("edit", path=f"{PLACE}/top/d/f", old_string="inside", new_string="Inside"),
                         lambda: files.post("edit", path=f"{PLACE}/top/d/f", old_string="Inside", new_string="inside"),
                         lambda: files.archive(f"{PLACE}/top2", format="tar"),
                         lambda: files.read(f"{PLACE}/top/d{host_flag}", user="root")):
                answer, code = attempt(call)
                assert code in allowed, code
                seen.add(code)
                flags.check(box.id, repr(answer).encode())
            rounds += 1
    finally:
        box.exec(f"touch {PLACE}/stop").ok()
        for worker in workers:
            worker.join()
    assert sum(counts) >= 100_000, counts
    assert rounds >= 40 and None in seen
    # Nothing half-written is left, and the sandbox's / got only what it may have got. /sys is not of its files.
    left = box.exec(f"find {PLACE} / -maxdepth 2 -path /sys -prune -o \\( -name '*.cay*' -o -name '.cay*' \\) -print"
                    " 2>/dev/null || true").stdout
    assert left.strip() == "", left


def test_FIL_05_devices_are_no_files(box, files):
    """FIL-05, FIL-06: devices, /proc/kmsg, fifos with and without a writer, sockets: an immediate reply."""
    box.exec(f"cd {PLACE} && mkfifo quiet loud && python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'").ok()
    writer = threading.Thread(target=box.exec, args=(
        f"timeout 60 sh -c 'exec 3<>{PLACE}/loud; until [ -e {PLACE}/over ]; do sleep 0.05; done'",))
    writer.start()
    started = time.monotonic()
    for path in ("/dev/zero", "/dev/random", "/dev/tty", f"{PLACE}/quiet", f"{PLACE}/loud", f"{PLACE}/s"):
        refused("not_a_file", files.read, path)
        refused("not_a_file", files.get, "read", path=path)
        _, code = attempt(files.put, path, b"x")
        assert code in ("not_a_file", "file_forbidden"), (path, code)
    _, code = attempt(files.read, "/proc/kmsg", user="root")
    assert code is not None
    assert time.monotonic() - started < 5 * tree.SLACK
    box.exec(f"touch {PLACE}/over").ok()
    writer.join()


def test_FIL_09_sparse_files(box, files, daemon):
    """FIL-09: a file of a TiB: ranges from both ends, many ranges, grep; no process grows."""
    box.exec(f"truncate -s 1T {PLACE}/s && printf end >> {PLACE}/s").ok()
    assert files.raw(f"{PLACE}/s", {"Range": "bytes=-3"})[2] == b"end"
    assert files.raw(f"{PLACE}/s", {"Range": f"bytes={2**40}-"})[2] == b"end"
    assert files.raw(f"{PLACE}/s", {"Range": "bytes=" + ",".join(f"{i}-{i + 9}" for i in range(1000))})[0] == 416
    started = time.monotonic()
    files.post("grep", pattern="end", path=PLACE, timeout_sec=3)
    files.get("read", path=f"{PLACE}/s")
    assert time.monotonic() - started < 60 * tree.SLACK
    with open(f"/proc/{daemon.pids()['cayd']}/status") as f:
        assert int(f.read().split("VmRSS:")[1].split()[0]) < 64 * 1024
    # A reader that disconnects in the middle ends the tool.
    client = files.client
    with socket.create_connection((client.host, client.port)) as sock:
        sock.sendall(f"GET {files.url('raw', path=f'{PLACE}/s')} HTTP/1.1\r\nHost: {client.host}:{client.port}\r\n"
                     f"Authorization: Bearer {client.key}\r\n\r\n".encode())
        sock.recv(65536)
    until = time.monotonic() + 5
    while box.exec("pgrep -c cay-tools || pgrep -xc tools || true").stdout.split()[-1:] not in ([], ["0"]):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_FIL_10_files_that_move_while_read(box, files):
    """FIL-10: a growing file has the announced length, a shrinking one is reset, never padded."""
    box.exec(f"head -c 30000000 /dev/zero > {PLACE}/grow; cp {PLACE}/grow {PLACE}/shrink").ok()
    grower = threading.Thread(target=box.exec, args=(f"for i in $(seq 40); do head -c 1000000 /dev/zero >> {PLACE}/grow; done",))
    grower.start()
    for _ in range(5):
        status, headers, body = files.raw(f"{PLACE}/grow")
        assert status == 200 and len(body) == int(headers["Content-Length"])
    grower.join()
    client = files.client
    sock = socket.create_connection((client.host, client.port))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 131072)
    sock.sendall(f"GET {files.url('raw', path=f'{PLACE}/shrink')} HTTP/1.1\r\nHost: {client.host}:{client.port}\r\n"
                 f"Authorization: Bearer {client.key}\r\n\r\n".encode())
    time.sleep(0.5)
    box.exec(f"truncate -s 10 {PLACE}/shrink").ok()
    got = b""
    try:
        while piece := sock.recv(1 << 20):
            got += piece
    except ConnectionError:
        pass
    sock.close()
    assert len(got.split(b"\r\n\r\n", 1)[1]) < 30_000_000


def test_FIL_11_deep_trees(box, files):
    """FIL-11: 10,000 levels: listed, searched, packed and removed in time."""
    box.exec(["python3", "-c", "import os\nos.chdir('%s')\nfor _ in range(10000):\n os.mkdir('d'); os.chdir('d')" % PLACE],
             timeout_sec=120).ok()
    started = time.monotonic()
    attempt(files.get, path=PLACE, depth=16)
    attempt(files.post, "grep", pattern="x", path=PLACE, timeout_sec=5)
    attempt(files.post, "glob", pattern="*", path=PLACE, timeout_sec=5)
    files.post("remove", path=f"{PLACE}/d", recursive=True)
    assert files.get(path=PLACE)["data"] == []
    assert time.monotonic() - started < 60 * tree.SLACK
    refused("name_too_long", files.put, f"{PLACE}/{'n' * 256}", b"")
    files.put(f"{PLACE}/{'n' * 255}", b"")


def test_FIL_13_names_do_not_break_frames(box, files):
    """FIL-13, FIL-15: newlines, control bytes, quotes and bad UTF-8 in lists, events and headers."""
    names = [b"a\nevent: x\ndata: {}\n\n", b"\x1b[2J", b'"\\', b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\xaf", b"-rf", b" "]
    with files.watch(PLACE) as events:
        assert next(events)[0] == "started"
        for name in names:
            files.put(PLACE.encode() + b"/" + name, b"x")
        kinds = set()
        created = 0
        while created < len(names):
            kind, data = next(events)
            kinds.add(kind)
            created += kind == "created"
            assert data["path"].startswith(PLACE)
    assert kinds <= {"created", "modified", "renamed", "deleted"}
    listed = files.get(path=PLACE)["data"]
    assert len(listed) == len(names)
    for name in names:
        assert files.read(PLACE.encode() + b"/" + name) == b"x"
    _, body = files.archive(PLACE, format="tar")
    assert b"\xff\xfe" in body


def test_FIL_17_paths(box, files):
    """FIL-17: a path is decoded once and resolved inside."""
    client = files.client
    for text, wanted in (("%2e%2e%2f%2e%2e%2fetc%2fhostname", 200), ("..%5cetc", 404), ("//etc//hostname", 200),
                         ("/./etc/./hostname", 200), ("/../../../etc/hostname", 200), ("~", 404), ("", 400),
                         ("%252e%252e%252fetc", 404), ("a%00b", 400), ("%", 400), ("%E2%88%95etc", 404),
                         ("x" * 20000, 414)):
        status = client.raw("GET", f"{files.base}/stat?path={text}")[0]
        assert status == wanted, (text[:40], status)


def test_FIL_21_edits_at_once(box, files):
    """FIL-21: of concurrent edits each happens whole or is refused; an old string 10^5 times."""
    files.put(f"{PLACE}/f", b"".join(b"slot%d=.\n" % i for i in range(8)))
    results = []

    def edit(i):
        mine = Files(box)
        for _ in range(50):
            answer, code = attempt(mine.post, "edit", path=f"{PLACE}/f", old_string=f"slot{i}=.", new_string=f"slot{i}=!")
            if answer:
                results.append(i)
                return
            assert code == "conflict", code
    threads = [threading.Thread(target=edit, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = files.read(f"{PLACE}/f").decode()
    assert sorted(results) == [i for i in range(8) if f"slot{i}=!" in text], (results, text)
    assert text.count("\n") == 8 and len(text) == 8 * 8
    files.put(f"{PLACE}/many", b"x\n" * 100_000)
    error = refused("edit_ambiguous", files.post, "edit", path=f"{PLACE}/many", old_string="x", new_string="y")
    assert "100000 matches" in str(error)
    assert files.post("edit", path=f"{PLACE}/many", old_string="x", new_string="y", replace_all=True)["replacements"] == 100_000


def test_FIL_22_clients_that_go(box, files):
    """FIL-22: uploads interrupted anywhere leave the old file and nothing beside it."""
    files.put(f"{PLACE}/f", b"old")
    chance, client = random.Random(3), files.client
    for _ in range(15):
        with socket.create_connection((client.host, client.port)) as sock:
            sock.sendall(f"PUT {files.url('raw', path=f'{PLACE}/f')} HTTP/1.1\r\nHost: {client.host}:{client.port}\r\n"
                         f"Authorization: Bearer {client.key}\r\nContent-Length: 3000000\r\n\r\n".encode())
            sock.sendall(b"n" * chance.randrange(1, 2_999_999))
            time.sleep(chance.random() / 20)
    time.sleep(1)
    assert files.read(f"{PLACE}/f") == b"old"
    assert [e["name"] for e in files.get(path=PLACE)["data"]] == ["f"]


def test_FIL_25_watch_storms(box, files):
    """FIL-25: a storm of renames: the stream keeps up or reports an overflow, and others are served meanwhile."""
    with files.watch(PLACE, recursive=True) as events:
        assert next(events)[0] == "started"
        storm = threading.Thread(target=box.exec, args=(
            ["python3", "-c", "import os\nos.chdir('%s')\nopen('a','w')\nfor _ in range(20000):\n os.rename('a','b'); os.rename('b','a')" % PLACE],),
            kwargs={"timeout_sec": 120})
        storm.start()
        other, waits = Files(box), []
        while storm.is_alive():
            started = time.monotonic()
            other.get("stat", path=PLACE)
            waits.append(time.monotonic() - started)
            time.sleep(0.05)
        storm.join()
        files.put(f"{PLACE}/after", b"")
        until = time.monotonic() + 30
        for kind, data in events:
            if kind == "overflow" or data["path"].endswith("/after"):
                break
            assert time.monotonic() < until
    assert sorted(waits)[len(waits) // 2] < 1, waits


def test_FIL_30_programs_of_the_sandbox(box, files):
    """FIL-30: its own tar, loader settings and name service are never run or read by our side."""
    box.sh("for p in tar gzip zstd sh unpigz git; do printf '#!/bin/bash\\ntouch /tmp/trap-$0\\n' > /usr/local/bin/$p; "
           "chmod 755 /usr/local/bin/$p; done; cp /etc/nsswitch.conf /tmp/nss; echo 'passwd: evil' > /etc/nsswitch.conf; "
           "echo /tmp/evil.so > /etc/ld.so.preload; touch /tmp/evil.so")
    try:
        files.put(f"{PLACE}/f", b"x", owner="sandbox")
        _, body = files.archive(PLACE)
        files.put(f"{PLACE}/copy", body, op="archive")
        files.post("grep", pattern="x", path=PLACE)
        assert files.get("stat", path=f"{PLACE}/copy/f")["user"] == "sandbox"
    finally:
        box.exec(["/bin/bash", "-c", "rm -f /etc/ld.so.preload; cp /tmp/nss /etc/nsswitch.conf; "
                  "rm -f /usr/local/bin/{tar,gzip,zstd,sh,unpigz,git}"], user="root")
    assert box.exec(["/bin/ls", "/tmp"]).stdout.count("trap-") == 0


def test_a_tool_that_root_inside_controls(box, files, client):
    """Root inside kills the tool, and writes into its pipe: an error of the call, never of the daemon."""
    box.exec(f"head -c 200000000 /dev/zero > {PLACE}/big").ok()
    for action, times in (("kill -9 $p", 100), ("echo garbage > /proc/$p/fd/1", 100),
                          ("kill -STOP $p; sleep 0.2; kill -9 $p", 25)):
        spoiler = threading.Thread(target=box.exec, args=(
            f"for i in $(seq {times}); do for p in $(pgrep -x tools; pgrep -x cay-tools); do " + action +
            "; done; sleep 0.01; done 2>/dev/null; true",), kwargs={"user": "root", "timeout_sec": 60})
        spoiler.start()
        outcomes = set()
        files.client.close()
        while spoiler.is_alive():
            try:
                files.post("copy", **{"from": f"{PLACE}/big", "to": f"{PLACE}/copy", "overwrite": True})
                outcomes.add(None)
            except ApiError as error:
                outcomes.add(error.code)
        spoiler.join()
        assert outcomes <= {None, "tool_failed"}, (action, outcomes)
    assert client.healthz() == 200
    files.put(f"{PLACE}/f", b"fine")
    assert files.read(f"{PLACE}/f") == b"fine"
