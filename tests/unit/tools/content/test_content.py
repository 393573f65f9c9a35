# SPDX-License-Identifier: Apache-2.0
"""Reading, writing and editing files, whole or not at all."""
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from program import bad, good, left_behind, ROOT, run, view, t  # noqa: E402


def test_read_raw(tmp_path):
    data = os.urandom(3_000_001)
    f = tmp_path / "f"
    f.write_bytes(data)
    a = run("read-raw", f)
    assert a.data == data and a[0]["size"] == len(data) and good(a)["bytes"] == len(data)
    assert run("read-raw", f, offset=10, length=20).data == data[10:30]
    assert run("read-raw", f, offset=len(data) - 1).data == data[-1:]
    assert run("read-raw", f, suffix=5).data == data[-5:]
    assert run("read-raw", f, suffix=10**15).data == data
    assert run("read-raw", f, offset=5, length=10**15).data == data[5:]
    a = run("read-raw", f, offset=len(data))
    bad(a, "bad_range")
    assert a[0]["size"] == len(data)
    bad(run("read-raw", f, offset=2**63), "invalid")
    (tmp_path / "empty").write_bytes(b"")
    a = run("read-raw", tmp_path / "empty")
    assert a.data == b"" and good(a)["bytes"] == 0
    bad(run("read-raw", tmp_path / "empty", offset=0, length=1), "bad_range")
    bad(run("read-raw", tmp_path), "is_a_directory")
    bad(run("read-raw", tmp_path / "no"), "not_found")


def test_special_files_never_block(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(tmp_path / "sock"))
    start = time.monotonic()
    paths = [tmp_path / "fifo", tmp_path / "sock", "/dev/zero", "/dev/tty"]
    for path in paths:
        for op in ("read-raw", "read-view"):
            bad(run(op, path, timeout=5), "not_a_file")
        bad(run("edit", path, stdin=t.edit(b"a", b"b"), timeout=5), "not_a_file")
        bad(run("grep", path, pattern="x", timeout=5), "not_a_file")
    for path in paths[:2]:
        bad(run("write-raw", path, stdin=t.upload(b"x"), timeout=5), "not_a_file")
    assert good(run("grep", tmp_path, pattern="x"))["skipped_special"] == 2
    a = run("archive-out", tmp_path)
    assert good(a)["skipped_special"] == 2
    assert time.monotonic() - start < 30
    s.close()


def test_proc_files_have_content():
    a = run("read-raw", "/proc/self/status")
    assert b"cay-tools" in a.data and a[0]["size"] == len(a.data)
    if ROOT:
        bad(run("read-raw", "/proc/kmsg", timeout=5), "not_a_file")


def test_file_that_shrinks(tmp_path):
    f = tmp_path / "f"
    with open(f, "wb") as out:
        out.truncate(1 << 30)
    p = subprocess.Popen(t.argv("read-raw", path=str(f)), stdout=subprocess.PIPE)
    p.stdout.read(100000)
    os.truncate(f, 1 << 20)
    tail = p.stdout.read()[-400:]
    assert p.wait() == 1 and b"shrank" in tail


def test_write_raw(tmp_path):
    f = tmp_path / "a/b/f"
    data = os.urandom(1_000_000)
    a = run("write-raw", f, stdin=t.upload(data))
    assert a[0]["type"] == "ready" and good(a)["created"] and a.last["bytes"] == len(data)
    assert f.read_bytes() == data and stat.S_IMODE(f.stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755
    f.chmod(0o751)
    a = run("write-raw", f, stdin=t.upload(b"new"), fsync=1)
    assert not good(a)["created"] and f.read_bytes() == b"new"
    assert stat.S_IMODE(f.stat().st_mode) == 0o751
    good(run("write-raw", f, stdin=t.upload(b""), mode="4755"))
    assert f.read_bytes() == b"" and stat.S_IMODE(f.stat().st_mode) == 0o4755
    bad(run("write-raw", tmp_path / "x/y", parents=0, stdin=t.upload(b"x")), "not_found")
    bad(run("write-raw", f, exclusive=1, stdin=t.upload(b"x")), "exists")
    bad(run("write-raw", tmp_path, stdin=t.upload(b"x")), "is_a_directory")
    bad(run("write-raw", str(tmp_path) + "/new/", stdin=t.upload(b"x")), "is_a_directory")
    bad(run("write-raw", f / "x", stdin=t.upload(b"x")), "not_a_directory")
    bad(run("write-raw", f, owner="no-such-user", stdin=t.upload(b"x")), "unknown_user")
    assert left_behind(tmp_path) == []


def test_broken_upload_changes_nothing(tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"old")
    whole = t.upload(b"x" * 500000)
    for cut in (0, 5, 12, 1000, len(whole) - 12, len(whole) - 1):
        a = run("write-raw", f, stdin=whole[:cut])
        assert a.error in ("incomplete", "invalid")
        assert f.read_bytes() == b"old"
    bad(run("write-raw", f, stdin=b"\xff" * 100), "invalid")
    bad(run("write-raw", f, stdin=t.frame(t.OLD, b"x")), "invalid")
    for sig in (signal.SIGTERM, signal.SIGKILL):
        p = subprocess.Popen(t.argv("write-raw", path=str(f)), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        p.stdin.write(whole[:200000])
        p.stdin.flush()
        p.stdout.read(12)
        p.send_signal(sig)
        p.wait(10)
        p.stdin.close()
        p.stdout.close()
    assert f.read_bytes() == b"old" and os.listdir(tmp_path) == ["f"]


def test_if_unchanged(tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"one")
    token = run("stat", f)[0]["token"]
    a = run("write-raw", f, if_unchanged=token, stdin=t.upload(b"two"))
    good(a)
    bad(run("write-raw", f, if_unchanged=token, stdin=t.upload(b"three")), "changed")
    assert f.read_bytes() == b"two"
    token = a.of("entry")[0]["token"]
    good(run("edit", f, if_unchanged=token, stdin=t.edit(b"two", b"2")))
    bad(run("edit", f, if_unchanged=token, stdin=t.edit(b"2", b"3")), "changed")
    bad(run("write-raw", f, if_unchanged="absent", stdin=t.upload(b"x")), "changed")
    good(run("write-raw", tmp_path / "g", if_unchanged="absent", stdin=t.upload(b"x")))
    # Changed while the upload runs: the swap notices.
    token = run("stat", f)[0]["token"]
    p = subprocess.Popen(t.argv("write-raw", path=str(f), if_unchanged=token),
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdout.read(12)
    f.write_bytes(b"somebody else")
    out, _ = p.communicate(t.upload(b"late"))
    assert p.returncode == 1
    assert f.read_bytes() == b"somebody else" and left_behind(tmp_path) == []


def test_batch_write(tmp_path):
    (tmp_path / "dir").mkdir()
    files = [(b"a/b.txt", b"one", None), (b"dir", b"two", None), (b"x\xff\n", b"", 0o600),
             (str(tmp_path / "abs").encode(), b"y" * 300000, None)]
    a = run("batch-write", tmp_path, stdin=t.batch(files))
    assert [i["error"] for i in a.of("item")] == ["ok", "is_a_directory", "ok", "ok"]
    assert [i["index"] for i in a.of("item")] == [0, 1, 2, 3]
    end = good(a)
    assert (end["entries"], end["failed"]) == (3, 1)
    assert (tmp_path / "abs").stat().st_size == 300000
    a = run("batch-write", tmp_path, stdin=t.batch(files)[:-12])
    assert bad(a, "incomplete")["done"] == 2  # the last one was in progress


def test_read_view(tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"".join(b"line %d\n" % i for i in range(1, 101)))
    a, lines = view(f)
    end = good(a)
    assert len(lines) == 50 and lines[0] == (1, b"line 1") and end["cut"] == "count"
    assert (end["total_lines"], end["total_bytes"], end["offset"]) == (100, f.stat().st_size, 1)
    a, lines = view(f, offset=99, limit=2000)
    assert lines == [(99, b"line 99"), (100, b"line 100")] and good(a)["cut"] == "none"
    a, lines = view(f, offset=500)
    assert lines == [] and good(a)["total_lines"] == 100
    bad(run("read-view", f, limit=2001), "invalid")
    bad(run("read-view", f, offset=0), "invalid")
    f.write_bytes(b"a\r\nb\r\nlast")
    a, lines = view(f)
    assert lines == [(1, b"a"), (2, b"b"), (3, b"last")]
    assert good(a)["crlf"] and a.last["no_final_eol"] and a.of("line")[2]["open"]
    f.write_bytes(b"\n\n")
    assert view(f)[1] == [(1, b""), (2, b"")]
    f.write_bytes(b"")
    assert view(f)[1] == [] and good(view(f)[0])["total_lines"] == 0
    f.write_bytes("é".encode() * 100000 + b"\nnext\n")
    a, lines = view(f)
    cut = a.of("line")[0]
    assert cut["cut"] and cut["bytes"] == 200000 and len(cut["text"]) <= 2000
    assert cut["text"].decode() and lines[1] == (2, b"next")
    f.write_bytes(b"\x7fELF\0\0\0")
    a, lines = view(f)
    assert good(a)["binary"] and lines == [] and a.last["total_bytes"] == 7
    f.write_bytes(b"x" * 900 + b"\n" + b"y" * 900 + b"\n" + b"z\n")
    a, lines = view(f, max_bytes=1000)
    assert len(lines) == 1 and good(a)["cut"] == "bytes" and a.last["total_lines"] == 3


def test_edit(tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"one\ntwo\none\n")
    f.chmod(0o751)
    last = bad(run("edit", f, stdin=t.edit(b"one", b"1")), "edit_many")
    assert last["count"] == 2 and last["lines"] == [1, 3]
    bad(run("edit", f, stdin=t.edit(b"three", b"3")), "edit_no_match")
    bad(run("edit", f, stdin=t.edit(b"", b"3")), "invalid")
    bad(run("edit", f, stdin=t.edit(b"one", b"one")), "invalid")
    bad(run("edit", f, stdin=t.edit(b"one", b"x")[:-1]), "invalid")
    assert f.read_bytes() == b"one\ntwo\none\n"
    end = good(run("edit", f, stdin=t.edit(b"two", b"2")))
    assert (end["matches"], end["first_line"]) == (1, 2)
    assert good(run("edit", f, replace_all=1, stdin=t.edit(b"one", b"")))["matches"] == 2
    assert f.read_bytes() == b"\n2\n\n" and stat.S_IMODE(f.stat().st_mode) == 0o751
    f.write_bytes(b"a\r\nb\r\nc")
    assert good(run("edit", f, stdin=t.edit(b"a\nb", b"x\ny\nz")))["crlf"]
    assert f.read_bytes() == b"x\r\ny\r\nz\r\nc"
    f.write_bytes(b"a\0b")
    good(run("edit", f, stdin=t.edit(b"\0", b"-")))
    assert f.read_bytes() == b"a-b"
    f.write_bytes(b"x" * 1_000_000)
    start = time.monotonic()
    assert bad(run("edit", f, stdin=t.edit(b"x", b"y")), "edit_many")["count"] == 1_000_000
    good(run("edit", f, replace_all=1, stdin=t.edit(b"x", b"yy")))
    assert f.stat().st_size == 2_000_000 and time.monotonic() - start < 30
    with open(tmp_path / "large", "wb") as big:
        big.truncate((64 << 20) + 1)
    assert bad(run("edit", tmp_path / "large", stdin=t.edit(b"x", b"y")), "too_large")["limit"]
    os.unlink(tmp_path / "large")
    os.symlink("f", tmp_path / "l")
    good(run("edit", tmp_path / "l", replace_all=1, stdin=t.edit(b"yy", b"")))
    assert (tmp_path / "l").is_symlink() and f.read_bytes() == b""
    assert left_behind(tmp_path) == []


def test_edits_at_once_lose_nothing(tmp_path):
    f = tmp_path / "f"
    n = 24
    f.write_text("".join(f"<{i:02}>\n" for i in range(n)))
    done = []

    def one(i):
        for _ in range(200):
            a = run("edit", f, stdin=t.edit(b"<%02d>" % i, b"[%02d]" % i))
            if a.error is None:
                done.append(i)
                return
            assert a.error == "changed", a.last
    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for th in threads:
        th.start()
    for th in threads:
        th.join()
    assert sorted(done) == list(range(n))
    assert f.read_text() == "".join(f"[{i:02}]\n" for i in range(n))
    assert os.listdir(tmp_path) == ["f"]
