# SPDX-License-Identifier: Apache-2.0
"""cay-tools over pipes, on trees in a temporary directory: every operation, and hostile trees."""
import ctypes
import io
import os
import pathlib
import resource
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
import toolframes as t  # noqa: E402

ROOT = os.getuid() == 0
# This check scans the whole text for every one of a million matches.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":intercept_memmem=0"


def run(op, path, **keys):
    return t.run(op, path=path if isinstance(path, bytes) else str(path), **keys)


def good(answer):
    assert answer.last and answer.last["type"] == "end", answer.last
    assert answer.status == 0
    return answer.last


def bad(answer, error):
    assert answer.error == error, answer.last
    assert answer.status == 1
    return answer.last


def left_behind(path):
    return [n for _, dirs, files in os.walk(path) for n in dirs + files if n.startswith(".cay-")]


def test_usage(tmp_path):
    for args in ([], ["nonsense"], ["stat"] + ["x=1"] * 70):
        assert subprocess.run([t.program()] + args, capture_output=True).returncode == 2
    assert "mode" in bad(run("chmod", tmp_path, mode="9"), "invalid")["message"]
    assert "path" in bad(t.run("stat"), "invalid")["message"]
    assert "wrong" in bad(run("stat", tmp_path, wrong=1), "invalid")["message"]
    assert "follow" in bad(run("stat", tmp_path, follow=2), "invalid")["message"]


def test_stat(tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"12345")
    f.chmod(0o640)
    os.symlink("f", tmp_path / "l")
    os.symlink(".", tmp_path / "d")
    a = run("stat", f)
    e = a[0]
    assert (e["kind"], e["size"], e["mode"], e["uid"]) == ("file", 5, 0o640, os.getuid())
    assert e["mtime_ns"] == f.stat().st_mtime_ns
    link = run("stat", tmp_path / "l")[0]
    assert (link["kind"], link["target"], link["target_is_directory"]) == ("symlink", b"f", False)
    assert run("stat", tmp_path / "l", follow=1)[0]["kind"] == "file"
    assert run("stat", tmp_path / "d")[0]["target_is_directory"]
    assert run("stat", "f", base=tmp_path)[0]["size"] == 5
    assert t.run("stat", path="f", cwd=tmp_path)[0]["size"] == 5
    assert good(run("exists", f))["entries"] == 1
    assert good(run("exists", tmp_path / "no"))["entries"] == 0
    assert good(run("exists", f / "below"))["entries"] == 0
    bad(run("stat", tmp_path / "no"), "not_found")
    bad(run("stat", f / "x"), "not_a_directory")
    bad(run("stat", tmp_path / ("x" * 256)), "name_too_long")
    bad(run("stat", b"/" + b"a/" * 20000), "name_too_long")


def test_links_in_a_circle(tmp_path):
    os.symlink("b", tmp_path / "a")
    os.symlink("a", tmp_path / "b")
    for op in ("read-raw", "read-view"):
        bad(run(op, tmp_path / "a"), "loop")
    bad(run("write-raw", tmp_path / "a", stdin=t.upload(b"x")), "loop")
    bad(run("edit", tmp_path / "a", stdin=t.edit(b"x", b"y")), "loop")
    os.symlink("/proc/self/root/etc/passwd", tmp_path / "magic")
    bad(run("read-raw", tmp_path / "magic"), "loop")


def test_root_is_never_left(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "f").write_text("secret")
    (inside / "f").write_text("mine")
    os.symlink("/f", inside / "abs")
    os.symlink("../out/f", inside / "up")
    os.symlink(str(outside / "f"), inside / "host")
    root = str(inside)
    for path in ("f", "/f", "../../f", "/../f", "abs"):
        assert run("read-raw", path, root=root).data == b"mine"
    bad(run("read-raw", "up", root=root), "not_found")
    bad(run("read-raw", "host", root=root), "not_found")
    good(run("write-raw", "../../new", root=root, stdin=t.upload(b"x")))
    assert (inside / "new").read_text() == "x"
    good(run("write-raw", "abs", root=root, stdin=t.upload(b"new")))
    assert (inside / "f").read_text() == "new" and (inside / "abs").is_symlink()
    bad(run("write-raw", "up", root=root, stdin=t.upload(b"x")), "loop")
    assert (outside / "f").read_text() == "secret"
    good(run("mkdir", "a/b/c", root=root))
    assert (inside / "a/b/c").is_dir()


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
    # Changed during the upload: the swap detects it.
    token = run("stat", f)[0]["token"]
    p = subprocess.Popen(t.argv("write-raw", path=str(f), if_unchanged=token),
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    p.stdout.read(12)
    f.write_bytes(b"somebody else")
    out, _ = p.communicate(t.upload(b"late"))
    assert p.returncode == 1
    assert f.read_bytes() == b"somebody else" and left_behind(tmp_path) == []


@pytest.mark.skipif(not ROOT, reason="needs root to become somebody else")
def test_as_another_user(tmp_path):
    tmp_path.chmod(0o777)
    for up in list(tmp_path.parents)[:-2]:
        up.chmod(up.stat().st_mode | 0o055)
    mine = tmp_path / "mine"
    mine.mkdir()
    mine.chmod(0o755)
    (mine / "f").write_text("root's")
    user = 12345
    a = run("write-raw", tmp_path / "d/f", user=user, stdin=t.upload(b"x"))
    good(a)
    assert (tmp_path / "d/f").stat().st_uid == user and (tmp_path / "d").stat().st_uid == user
    bad(run("write-raw", mine / "f", user=user, stdin=t.upload(b"x")), "forbidden")
    bad(run("write-raw", mine / "new", user=user, stdin=t.upload(b"x")), "forbidden")
    bad(run("edit", mine / "f", user=user, stdin=t.edit(b"root", b"x")), "forbidden")
    bad(run("remove", mine, user=user, recursive=1), "forbidden")
    bad(run("write-raw", tmp_path / "d/g", user=user, owner="root", stdin=t.upload(b"")), "forbidden")
    (mine / "secret").mkdir(mode=0o700)
    assert good(run("list", mine, user=user, depth=0))["skipped_unreadable"] == 1
    bad(run("read-raw", mine / "secret/x", user=user), "forbidden")
    # A file of theirs keeps its owner when root edits it.
    good(run("edit", tmp_path / "d/f", stdin=t.edit(b"x", b"y")))
    st = (tmp_path / "d/f").stat()
    assert (st.st_uid, (tmp_path / "d/f").read_text()) == (user, "y")
    good(run("chown", tmp_path / "d", owner=str(user + 1), recursive=1))
    assert (tmp_path / "d/f").stat().st_uid == user + 1
    good(run("write-raw", tmp_path / "p/q/f", owner=str(user), stdin=t.upload(b"x")))
    assert (tmp_path / "p/q").stat().st_uid == user


@pytest.mark.skipif(not ROOT, reason="needs root to mount")
def test_full_and_read_only_disks(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], check=True)
    try:
        (disk / "f").write_bytes(b"old")
        last = bad(run("write-raw", disk / "f", stdin=t.upload(b"x" * (8 << 20))), "disk_full")
        assert last["limit"] == 4 << 20
        assert (disk / "f").read_bytes() == b"old" and os.listdir(disk) == ["f"]
        a = run("batch-write", disk, stdin=t.batch([(b"big", b"x" * (8 << 20), None),
                                                   (b"small", b"y", 0o600)]))
        assert [(i["path"], i["error"]) for i in a.of("item")] == [(b"big", "disk_full"),
                                                                   (b"small", "ok")]
        (tmp_path / "src").write_bytes(b"z" * (8 << 20))
        bad(run("copy", tmp_path / "src", to=str(disk / "src")), "disk_full")
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as out:
            out.add(tmp_path / "src", "one/src")
        bad(run("archive-in", disk, stdin=t.upload(tar.getvalue())), "disk_full")
        small = make_tar([(f"many/{i}", REG, b"x" * 8192) for i in range(1000)])
        last = bad(run("archive-in", disk, stdin=t.upload(small)), "disk_full")
        assert last["limit"] == 4 << 20
        assert {f.stat().st_size for f in (disk / "many").iterdir()} == {8192}
        good(run("remove", disk / "many", recursive=1))
        assert left_behind(disk) == []
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        bad(run("write-raw", disk / "f", stdin=t.upload(b"x")), "read_only")
        bad(run("mkdir", disk / "d"), "read_only")
        bad(run("remove", disk / "f"), "read_only")
        # From one file system to another: a copy.
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        tree = disk / "tree"
        (tree / "d").mkdir(parents=True)
        (tree / "d/f").write_text("x")
        os.symlink("d/f", tree / "l")
        good(run("move", tree, to=str(tmp_path / "moved")))
        assert (tmp_path / "moved/l").read_text() == "x" and not tree.exists()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


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
    assert bad(a, "incomplete")["done"] == 2  # the last one was under way


def view(path, **keys):
    a = run("read-view", path, **keys)
    return a, [(line["number"], line["text"]) for line in a.of("line")]


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


def test_list(tmp_path):
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/f").write_text("x")
    odd = os.fsencode(tmp_path) + b"/\xff\n\"x\\"
    with open(odd, "w"):
        pass
    os.symlink("nowhere", tmp_path / "l")
    names = [(e["path"], e["depth"]) for e in run("list", tmp_path).of("entry")]
    assert names == [(b"d", 1), (b"l", 1), (b"\xff\n\"x\\", 1)]
    names = [(e["path"], e["depth"]) for e in run("list", tmp_path, depth=0).of("entry")]
    assert names[:3] == [(b"d", 1), (b"d/e", 2), (b"d/e/f", 3)]
    assert len(run("list", tmp_path, depth=2).of("entry")) == 4
    a = run("list", tmp_path, depth=0, max_entries=2)
    assert len(a.of("entry")) == 2 and good(a)["cut"] == "count"
    bad(run("list", tmp_path / "d/e/f"), "not_a_directory")
    bad(run("list", tmp_path / "no"), "not_found")


def test_mkdir_move_copy_chmod(tmp_path):
    d = tmp_path / "a/b"
    assert good(run("mkdir", d, mode="700"))["created"]
    assert stat.S_IMODE(d.stat().st_mode) == 0o700
    assert not good(run("mkdir", d))["created"]
    bad(run("mkdir", d, exist_ok=0), "exists")
    bad(run("mkdir", tmp_path / "x/y", parents=0), "not_found")
    f = d / "f"
    f.write_text("x")
    bad(run("mkdir", f), "exists")
    good(run("chmod", f, mode="0600"))
    assert stat.S_IMODE(f.stat().st_mode) == 0o600
    good(run("chmod", tmp_path / "a", mode="755", recursive=1))
    assert stat.S_IMODE(f.stat().st_mode) == 0o755
    good(run("chmod", tmp_path / "a", mode="500", recursive=1))
    assert stat.S_IMODE(d.stat().st_mode) == 0o500
    good(run("chmod", tmp_path / "a", mode="755", recursive=1))
    g = tmp_path / "g"
    good(run("move", f, to=str(g)))
    assert g.read_text() == "x" and not f.exists()
    f.write_text("other")
    bad(run("move", g, to=str(f)), "exists")
    assert good(run("move", g, to=str(f), overwrite=1))["replaced"] and f.read_text() == "x"
    bad(run("move", tmp_path / "a", to=str(tmp_path / "a/b/c")), "invalid")
    bad(run("move", tmp_path / "no", to=str(tmp_path / "n2")), "not_found")
    bad(run("move", f, to=str(tmp_path / "p/q")), "not_found")
    good(run("move", f, to=str(tmp_path / "p/q"), parents=1))
    bad(run("copy", tmp_path / "p", to=str(tmp_path / "p2")), "is_a_directory")
    os.symlink("q", tmp_path / "p/l")
    os.mkfifo(tmp_path / "p/fifo")
    with open(tmp_path / "p/sparse", "wb") as s:
        s.truncate(1 << 40)
        s.seek(1 << 39)
        s.write(b"middle")
    start = time.monotonic()
    end = good(run("copy", tmp_path / "p", to=str(tmp_path / "p2"), recursive=1))
    assert time.monotonic() - start < 30 and end["skipped_special"] == 1
    st = (tmp_path / "p2/sparse").stat()
    assert st.st_size == 1 << 40 and st.st_blocks * 512 < 10 << 20
    with open(tmp_path / "p2/sparse", "rb") as s:
        s.seek(1 << 39)
        assert s.read(6) == b"middle"
    assert os.readlink(tmp_path / "p2/l") == "q"
    assert (tmp_path / "p2/q").stat().st_mtime_ns == (tmp_path / "p/q").stat().st_mtime_ns
    bad(run("copy", tmp_path / "p", to=str(tmp_path / "p2"), recursive=1), "exists")
    (tmp_path / "p2/extra").write_text("x")
    good(run("copy", tmp_path / "p", to=str(tmp_path / "p2"), recursive=1, overwrite=1))
    assert not (tmp_path / "p2/extra").exists()
    bad(run("copy", tmp_path / "p", to=str(tmp_path / "p/inner"), recursive=1), "invalid")
    bad(run("copy", tmp_path / "p/q", to=str(tmp_path / "p/q"), overwrite=1), "exists")
    good(run("copy", tmp_path / "p/l", to=str(tmp_path / "followed")))
    assert not (tmp_path / "followed").is_symlink()
    assert left_behind(tmp_path) == []


def test_remove(tmp_path):
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/f").write_text("x")
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep/f").write_text("x")
    os.symlink("../keep", tmp_path / "d/l")
    os.symlink("keep", tmp_path / "l")
    bad(run("remove", tmp_path / "d"), "not_empty")
    bad(run("remove", str(tmp_path / "l") + "/", recursive=1), "not_a_directory")
    assert good(run("remove", tmp_path / "d", recursive=1))["entries"] == 4
    good(run("remove", tmp_path / "l", recursive=1))
    assert (tmp_path / "keep/f").exists() and not (tmp_path / "l").is_symlink()
    bad(run("remove", tmp_path / "no"), "not_found")
    assert good(run("remove", tmp_path / "no", missing_ok=1))["entries"] == 0
    bad(run("remove", str(tmp_path) + "/keep/.", recursive=1), "invalid")
    bad(run("remove", "/", recursive=1), "invalid")
    good(run("remove", tmp_path / "keep/f"))
    good(run("remove", tmp_path / "keep"))


def make_deep(path, levels, name=b"d"):
    fd = os.open(path, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=fd)
        new = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = new
    os.close(os.open(b"needle", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


@pytest.fixture
def memory_path():
    """A directory in memory, where a disk's load does not decide how long things take."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as path:
        yield pathlib.Path(path)


def test_trees_deeper_than_any_path(memory_path):
    tmp_path = memory_path
    levels = 100_000 if "CAY_LONG" in os.environ else 20_000
    top = tmp_path / "top"
    top.mkdir()
    make_deep(top, levels)
    start = time.monotonic()
    end = good(run("grep", top, pattern="x", time_ms=60000))
    assert end["skipped_deep"] == 1
    assert good(run("list", top, depth=0, max_entries=10**6, time_ms=60000))["skipped_deep"] == 1
    assert good(run("glob", top, pattern="needle", time_ms=60000))["entries"] == 0
    bad(run("copy", top, to=str(tmp_path / "copy"), recursive=1), "too_deep")
    assert good(run("archive-out", top))["failed"] == 1
    assert good(run("remove", top, recursive=1))["entries"] == levels + 2
    assert not top.exists() and os.listdir(tmp_path) == []
    assert time.monotonic() - start < 180
    top.mkdir()
    make_deep(top, 100, b"n" * 250)
    long = os.fsencode(top) + (b"/" + b"n" * 250) * 100
    assert run("stat", long + b"/needle")[0]["kind"] == "file"
    good(run("write-raw", long + b"/new", stdin=t.upload(b"hi")))
    assert run("read-raw", long + b"/new").data == b"hi"
    assert good(run("glob", top, pattern="needle"))["entries"] == 1
    good(run("remove", top, recursive=1))


def globbed(path, *patterns, **keys):
    return sorted(e["path"].decode() for e in
                  run("glob", path, pattern=list(patterns), **keys).of("entry"))


def test_glob(tmp_path):
    for name in ("a.ts", "src/b.ts", "src/x/c.ts", "src/x/d.js", ".h/e.ts", "node_modules/m/i.ts"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert globbed(tmp_path, "*.ts") == [".h/e.ts", "a.ts", "node_modules/m/i.ts", "src/b.ts",
                                         "src/x/c.ts"]
    assert globbed(tmp_path, "src/*.ts") == ["src/b.ts"]
    assert globbed(tmp_path, "src/**/*.ts") == ["src/b.ts", "src/x/c.ts"]
    assert globbed(tmp_path, "**/x") == ["src/x"]
    assert globbed(tmp_path, "src/**") == ["src/b.ts", "src/x", "src/x/c.ts", "src/x/d.js"]
    assert globbed(tmp_path, "*.{ts,js}", "!node_modules/**", "!.h/**") == [
        "a.ts", "src/b.ts", "src/x/c.ts", "src/x/d.js"]
    assert globbed(tmp_path, "/*.ts") == ["a.ts"]
    assert globbed(tmp_path, "[a-b].ts") == ["a.ts", "src/b.ts"]
    (tmp_path / ".gitignore").write_text("node_modules/\n*.js\n!d.js\n/.h\n")
    assert globbed(tmp_path, "*.{ts,js}", gitignore=1) == ["a.ts", "src/b.ts", "src/x/c.ts",
                                                            "src/x/d.js"]
    bad(run("glob", tmp_path, pattern="[a"), "bad_pattern")
    bad(run("glob", tmp_path, pattern="{a"), "bad_pattern")
    bad(run("glob", tmp_path, pattern="{a,b}" * 20), "bad_pattern")
    start = time.monotonic()
    (tmp_path / ("a" * 200)).write_text("x")
    assert globbed(tmp_path, "*a" * 90 + "b") == []
    assert globbed(tmp_path, "**/*a" * 90 + "b") == []
    assert time.monotonic() - start < 30


def grep(path, pattern, **keys):
    a = run("grep", path, pattern=pattern, **keys)
    return a, [(m["path"].decode(), m["line"], m["text"].decode(), m["context"])
               for m in a.of("match")]


def test_grep(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/c.py").write_text("def two():\r\n    TWO = 2\r\nlast two")
    (tmp_path / "bin").write_bytes(b"two\0two")
    a, m = grep(tmp_path, "two")
    assert m == [("a.txt", 2, "two", False), ("b/c.py", 1, "def two():", False),
                 ("b/c.py", 3, "last two", False)]
    end = good(a)
    assert (end["matches"], end["files"], end["skipped_binary"]) == (3, 3, 1)
    hit = a.of("match")[1]
    assert (hit["column"], hit["length"]) == (5, 3)
    assert len(grep(tmp_path, "TWO", ignore_case=1)[1]) == 4
    assert [x[0] for x in grep(tmp_path, "two", include="*.py")[1]] == ["b/c.py"] * 2
    assert [x[0] for x in grep(tmp_path, "two", include="!*.py")[1]] == ["a.txt"]
    assert grep(tmp_path, "two():", fixed=1)[1] == [("b/c.py", 1, "def two():", False)]
    a, m = grep(tmp_path / "a.txt", "two|five", before=1, after=1)
    assert [(x[1], x[3]) for x in m] == [(1, True), (2, False), (3, True), (4, True), (5, False)]
    a, m = grep(tmp_path / "a.txt", "^one|^five", before=1, after=1)
    assert [(x[1], x[3]) for x in m] == [(1, False), (2, True), (4, True), (5, False)]
    assert [x["gap"] for x in a.of("match")] == [False, False, True, False]
    a, m = grep(tmp_path, "t", max_matches=2)
    assert len(m) == 2 and good(a)["cut"] == "count"
    a, m = grep(tmp_path, "t", max_bytes=10)
    assert good(a)["cut"] == "bytes"
    for pattern in ("(", "[z-a]", "a{2,1}", "(?<=a+)b", "*"):
        last = bad(run("grep", tmp_path, pattern=pattern), "bad_pattern")
        assert last["message"]
    (tmp_path / ".gitignore").write_text("b/\n")
    assert [x[0] for x in grep(tmp_path, "two", gitignore=1)[1]] == ["a.txt"]


def test_grep_long_lines(tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"x" * 3_000_000 + b"needle" + b"y" * 3_000_000 + b"\nneedle two\n")
    a, m = grep(f, "needle")
    assert [x[1] for x in m] == [1, 2]
    hit = a.of("match")[0]
    assert hit["cut"] and hit["text"][hit["column"] - 1:][:6] == b"needle"
    assert hit["start"] + hit["column"] - 1 == 3_000_000
    f.write_bytes(b"\n" * 2_000_000 + b"needle")
    assert grep(f, "needle", before=2)[1][-1][1] == 2_000_001
    f.write_bytes(b"".join(b"%07d\n" % i for i in range(400000)))
    a, m = grep(f, "^0(150000|299999|300000)$", before=3, after=2)
    assert [x[1] for x in m] == [149998 + i for i in range(6)] + [299997 + i for i in range(7)]


def gnu_grep(path, pattern):
    out = subprocess.run(["grep", "-rnPI", "--", pattern, "."], cwd=path, capture_output=True,
                         env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}).stdout
    found = set()
    for line in out.split(b"\n"):
        if line:
            name, number, _ = line.split(b":", 2)
            found.add((name[2:], int(number)))
    return found


def test_grep_finds_what_grep_finds(tmp_path):
    words = ["foo", "foobar", "bar foo", "  foo", "foo  ", "", "x", "'quoted'", "\"foo\"", "a\tb",
             "été", "ünder_score", "foo.bar()", "10%", "end\r", "\u2028", "A1 b2", "]["]
    import random
    rng = random.Random(7)
    for i in range(5):
        lines = [" ".join(rng.choice(words) for _ in range(rng.randrange(4))) for _ in range(200)]
        (tmp_path / f"f{i}").write_text("\n".join(lines) + ("" if i % 2 else "\n"))
    for pattern in ("foo", "^foo", "foo$", r"\bfoo\b", r"foo\s+bar", r"\S+\s\S+", "[^f]oo", "^$",
                    "^.{3}$", "(?i)FOO", "a.b", "é", "[éü]", r"\d+", "foo(?!bar)",
                    r"(?<=foo)bar", r"^\s*$", r"\s$", r"x*", "(foo).*\\1", r"[\s]foo", r"\Afoo",
                    r"foo\z", "[^\"]+$", r"\h", "foo|bar", r"[[:alpha:]]+_", "\\]\\[", r"\x66oo",
                    r"[^\w]$", r"foo\Z", r"\R", "(?s)o.x", r"\p{Lu}", "o++", "[^a-z]*+$"):
        a = run("grep", tmp_path, pattern=pattern, max_matches=100000)
        good(a)
        got = {(m["path"], m["line"]) for m in a.of("match")}
        assert got == gnu_grep(tmp_path, pattern), pattern


def test_hostile_patterns_end_in_time(tmp_path):
    (tmp_path / "a").write_text("x" * 20000 + "\n")
    (tmp_path / "b").write_text("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n" * 20000)
    for pattern in ("(x+x+)+y", "(a+)+$", "(a|aa)+$", "(a|a?)+$", "(.*)*z", "^(([a-z])+.)+[A-Z]+$",
                    r"(.*)\1\1\1\1\1y", "((a{1,100}){1,100}){1,100}"):
        start = time.monotonic()
        a = run("grep", tmp_path, pattern=pattern, time_ms=500, timeout=20)
        assert a.error == "bad_pattern" or good(a)
        assert time.monotonic() - start < 30, pattern


def test_grep_sparse_and_swapped(tmp_path):
    with open(tmp_path / "sparse", "wb") as f:
        f.truncate(1 << 42)
    with open(tmp_path / "text_then_hole", "wb") as f:
        f.write(b"needle\n" * 10)
        f.truncate(1 << 42)
    start = time.monotonic()
    end = good(run("grep", tmp_path, pattern="needle"))
    assert end["skipped_binary"] == 2
    assert good(view(tmp_path / "sparse")[0])["binary"]
    assert time.monotonic() - start < 30


class Watch:
    def __init__(self, path, **keys):
        self.p = subprocess.Popen(t.argv("watch", path=str(path), **keys), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE)
        self.frames = t.frames(self.p.stdout)
        self.first = next(self.frames)
        self.got = []
        self.thread = threading.Thread(target=self.collect)
        self.thread.start()

    def collect(self):
        try:
            for f in self.frames:
                self.got.append(f)
        except (AssertionError, ValueError):
            pass

    def wait(self, want, sec=5):
        """Until want(list of (change, path, old)) holds."""
        end = time.monotonic() + sec
        while time.monotonic() < end:
            if want(self.events()):
                return
            time.sleep(0.01)
        raise AssertionError(self.events())

    def events(self):
        return [(f["change"], f["path"], f["old"]) for f in self.got if f["type"] == "event"]

    def close(self):
        self.p.kill()
        self.p.wait()
        self.thread.join()
        self.p.stdout.close()


def test_watch(tmp_path):
    (tmp_path / "old/deep").mkdir(parents=True)
    w = Watch(tmp_path, recursive=1)
    try:
        assert w.first["type"] == "ready"
        (tmp_path / "f").write_text("x")
        w.wait(lambda e: ("created", b"f", b"") in e and ("modified", b"f", b"") in e)
        os.rename(tmp_path / "f", tmp_path / "old/g")
        w.wait(lambda e: ("renamed", b"old/g", b"f") in e)
        (tmp_path / "old/deep/h").write_text("x")
        w.wait(lambda e: ("created", b"old/deep/h", b"") in e)
        os.makedirs(tmp_path / "n/e/w")
        (tmp_path / "n/e/w/file").write_text("x")
        w.wait(lambda e: all(("created", p, b"") in e for p in (b"n", b"n/e", b"n/e/w",
                                                                b"n/e/w/file")))
        os.rename(tmp_path / "n", tmp_path / "m")
        w.wait(lambda e: ("renamed", b"m", b"n") in e)
        (tmp_path / "m/e/w/late").write_text("x")
        w.wait(lambda e: ("created", b"m/e/w/late", b"") in e)
        outside = tmp_path.parent / (tmp_path.name + "-out")
        os.rename(tmp_path / "m", outside)
        w.wait(lambda e: ("deleted", b"m", b"") in e)
        (outside / "e/unseen").write_text("x")
        os.rename(outside, tmp_path / "back")
        w.wait(lambda e: ("created", b"back/e/w/late", b"") in e)
        assert not any(b"unseen" in e[1] and e[0] == "modified" for e in w.events())
        os.unlink(tmp_path / "old/g")
        w.wait(lambda e: ("deleted", b"old/g", b"") in e)
        created = [e for e in w.events() if e[0] == "created"]
        assert len(created) == len(set(created)), created
        subprocess.run(["rm", "-rf", str(tmp_path)])
        w.wait(lambda e: ("gone", b"", b"") in e)
        assert w.p.wait(5) == 0
    finally:
        w.close()


def test_copy_of_a_file_that_tells_no_size(tmp_path):
    good(run("copy", "/proc/version", to=str(tmp_path / "v")))
    assert (tmp_path / "v").read_text() == open("/proc/version").read() != ""


def test_zip_of_a_name_that_is_not_utf8(tmp_path):
    (tmp_path / "d").mkdir()
    for name in (b"bad\xff", "gr\u00fcn".encode()):
        (tmp_path / "d" / os.fsdecode(name)).write_text("x")
    answer = run("archive-out", tmp_path / "d", format="zip")
    good(answer)
    names = zipfile.ZipFile(io.BytesIO(answer.data)).namelist()
    assert "gr\u00fcn" in names and len(names) == 2


def test_glob_without_hidden_names(tmp_path):
    (tmp_path / ".d").mkdir()
    for name in ("a", ".b", ".d/c"):
        (tmp_path / name).write_text("x")
    answer = run("glob", tmp_path, pattern="*", hidden=0)
    good(answer)
    assert [x["path"] for x in answer if x["type"] == "entry"] == [b"a"]


def test_watch_shows_replaced_files_as_modified(tmp_path):
    (tmp_path / "f").write_text("old")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/in").write_text("x")
    (tmp_path / "copy").mkdir()
    w = Watch(tmp_path, recursive=1)
    try:
        temp = tmp_path / ".cay-0123456789abcdef"
        temp.write_text("new")
        os.rename(temp, tmp_path / "f")
        w.wait(lambda e: ("modified", b"f", b"") in e)
        good(run("copy", tmp_path / "tree", to=str(tmp_path / "copy"), recursive=1, overwrite=1))
        w.wait(lambda e: ("created", b"copy/in", b"") in e)
        (tmp_path / "copy/late").write_text("x")
        w.wait(lambda e: ("created", b"copy/late", b"") in e)
        assert not any(b".cay-" in e[1] + e[2] for e in w.events())
    finally:
        w.close()


def test_watch_storm_misses_no_directory(tmp_path):
    w = Watch(tmp_path, recursive=1)
    try:
        def grow(i):
            for j in range(30):
                d = tmp_path / f"{i}/{j}/x/y"
                d.mkdir(parents=True)
                (d / "f").write_text("x")
        threads = [threading.Thread(target=grow, args=(i,)) for i in range(4)]
        for th in threads:
            th.start()
        for th in threads:
            th.join()
        want = {b"%d/%d/x/y/f" % (i, j) for i in range(4) for j in range(30)}
        w.wait(lambda e: want <= {x[1] for x in e if x[0] == "created"} or
               any(x[0] == "overflow" for x in e), 10)
        (tmp_path / "3/29/x/y/after").write_text("x")
        w.wait(lambda e: ("created", b"3/29/x/y/after", b"") in e)
    finally:
        w.close()


def test_watch_file_and_limits(tmp_path):
    f = tmp_path / "f"
    f.write_text("x")
    w = Watch(f)
    try:
        (tmp_path / "other").write_text("x")
        tmp = tmp_path / "tmp"
        tmp.write_text("new")
        os.rename(tmp, f)
        w.wait(lambda e: ("created", b"", b"") in e)
        f.write_text("more")
        w.wait(lambda e: ("modified", b"", b"") in e)
        assert all(e[1] == b"" for e in w.events())
    finally:
        w.close()
    p = subprocess.Popen(t.argv("watch", path=str(tmp_path)), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
    assert p.stdout.read(12)[4] == 8
    out, _ = p.communicate()  # its input ends
    assert p.returncode == 0 and out[4] == 10
    for i in range(20):
        (tmp_path / str(i)).mkdir()
    a = run("watch", tmp_path, recursive=1, max_watches=10, timeout=10)
    assert bad(a, "too_many_watches")["limit"] == 10
    bad(run("watch", tmp_path / "no"), "not_found")


def test_watch_overflow(tmp_path):
    p = subprocess.Popen(t.argv("watch", path=str(tmp_path), recursive=1), stdout=subprocess.PIPE,
                         stdin=subprocess.DEVNULL)
    assert p.stdout.read(12)[4] == 8
    for i in range(30000):  # no reader: the pipe and then the kernel's queue fill up
        os.close(os.open(tmp_path / f"f{i}", os.O_CREAT | os.O_WRONLY))
        os.unlink(tmp_path / f"f{i}")
    (tmp_path / "late").mkdir()
    seen, wrote = [], False
    for f in t.frames(p.stdout):
        if f["type"] == "event" and f["change"] == "overflow":
            seen.append(f)
            if not wrote:
                wrote = True
                time.sleep(0.3)
                (tmp_path / "late/f").write_text("x")
        if f["type"] == "event" and f["path"] == b"late/f":
            break
    p.kill()
    p.wait()
    p.stdout.close()
    assert seen


def make_tar(entries, fmt=tarfile.PAX_FORMAT):
    """entries: (name, kind, content or target, extra attributes)"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as tar:
        for name, kind, value, *extra in entries:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.mode = 0o644 if kind == tarfile.REGTYPE else 0o755
            info.mtime = 1_000_000_000
            if kind == tarfile.REGTYPE:
                info.size = len(value)
            else:
                info.linkname = value or ""
            for key, v in (extra[0] if extra else {}).items():
                setattr(info, key, v)
            tar.addfile(info, io.BytesIO(value) if kind == tarfile.REGTYPE else None)
    return out.getvalue()


REG, DIR, SYM, LNK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def same_tree(a, b):
    def look(top):
        seen = {}
        for d, dirs, files in os.walk(os.fsencode(top)):
            for n in dirs + files:
                p = os.path.join(d, n)
                st = os.lstat(p)
                what = (os.readlink(p) if stat.S_ISLNK(st.st_mode) else
                        open(p, "rb").read() if stat.S_ISREG(st.st_mode) else None)
                mtime = None if stat.S_ISLNK(st.st_mode) else st.st_mtime_ns // 10**9
                seen[os.path.relpath(p, os.fsencode(top))] = (stat.S_IFMT(st.st_mode), what,
                                                              stat.S_IMODE(st.st_mode), mtime)
        return seen
    assert look(a) == look(b)


@pytest.mark.parametrize("fmt", ["tar", "tar.zst", "zip"])
def test_archive_there_and_back(tmp_path, fmt):
    src, dst = tmp_path / "src", tmp_path / "dst"
    (src / "d/empty").mkdir(parents=True)
    (src / "d/f.txt").write_text("hello")
    (src / "d/x").write_bytes(os.urandom(700_000))
    (src / "d/x").chmod(0o755)
    os.symlink("f.txt", src / "d/l")
    (src / ("n" * 120) / ("m" * 120)).mkdir(parents=True)
    (src / ("n" * 120) / ("m" * 120) / "deep").write_text("x")
    (src / "é ü").write_text("umlaut")
    if fmt != "zip":
        with open(os.fsencode(src) + b"/\xff\n\x01", "w") as f:
            f.write("odd")
    (src / "ro").mkdir()
    (src / "ro/f").write_text("x")
    for p in [src, *src.rglob("*")]:
        if not p.is_symlink():
            os.utime(p, (1_500_000_000, 1_500_000_000))
    (src / "ro").chmod(0o555)
    out = run("archive-out", src, format=fmt)
    end = good(out)
    assert end["failed"] == 0 and out[0]["type"] == "ready"
    a = run("archive-in", dst, stdin=t.upload(out.data))
    assert good(a)["failed"] == 0 and a.last["entries"] == end["entries"], a
    same_tree(src, dst)
    if fmt == "zip":
        names = zipfile.ZipFile(io.BytesIO(out.data)).namelist()
        assert "d/f.txt" in names and "é ü" in names
    else:
        plain = out.data
        if fmt == "tar.zst":
            plain = subprocess.run(["zstd", "-dc"], input=plain, stdout=subprocess.PIPE,
                                   check=True).stdout
        other = tmp_path / "other"
        other.mkdir()
        subprocess.run(["tar", "-xf", "-", "-C", str(other)], input=plain, check=True)
        same_tree(src, other)
    one = run("archive-out", src / "d/f.txt", format=fmt)
    good(run("archive-in", tmp_path / "one", stdin=t.upload(one.data)))
    assert (tmp_path / "one/f.txt").read_text() == "hello"
    bad(run("archive-out", src / "no"), "not_found")
    bad(run("archive-out", src, format="rar"), "invalid")


def test_archives_of_others(tmp_path):
    (tmp_path / "src/d").mkdir(parents=True)
    (tmp_path / "src/d/f").write_text("x" * 10000)
    os.link(tmp_path / "src/d/f", tmp_path / "src/d/h")
    os.symlink("f", tmp_path / "src/d/s")
    for i, extra in enumerate((["--format=gnu"], ["--format=ustar"], ["--format=pax"], ["-z"],
                               ["--zstd"], ["--format=v7"])):
        data = subprocess.run(["tar", "-c", *extra, "-C", str(tmp_path / "src"), "."],
                              stdout=subprocess.PIPE, check=True).stdout
        dst = tmp_path / str(i)
        assert good(run("archive-in", dst, stdin=t.upload(data)))["failed"] == 0
        assert (dst / "d/f").read_text() == "x" * 10000 and os.readlink(dst / "d/s") == "f"
        assert (dst / "d/h").stat().st_ino == (dst / "d/f").stat().st_ino
    z = io.BytesIO()
    with zipfile.ZipFile(z, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("a/b.txt", "hi")
        out.writestr("stored", "hi", zipfile.ZIP_STORED)
        link = zipfile.ZipInfo("link")
        link.create_system = 3
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        out.writestr(link, "a/b.txt")
    assert good(run("archive-in", tmp_path / "z", stdin=t.upload(z.getvalue())))["failed"] == 0
    assert (tmp_path / "z/link").read_text() == "hi" and (tmp_path / "z/link").is_symlink()


def test_archive_escapes(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    dst = tmp_path / "a/b/dst"
    dst.mkdir(parents=True)
    hostile = [
        ("../x", REG, b"1"), ("/abs-cay-test", REG, b"1"), ("d/../../x", REG, b"1"),
        ("up", SYM, "../.."), ("up/x", REG, b"1"), ("abs", SYM, "/tmp"),
        ("hard", LNK, "../../../secret"), ("hard2", LNK, "/etc/passwd"),
        ("dev", tarfile.CHRTYPE, None), ("fifo", tarfile.FIFOTYPE, None),
        ("blk", tarfile.BLKTYPE, None),
        ("in", SYM, "dir"), ("dir/f", REG, b"1"), ("in/g", REG, b"2"), ("dir/h", LNK, "dir/f"),
        ("dup", REG, b"one"), ("dup", REG, b"two"), ("suid", REG, b"x", {"mode": 0o6755}),
        ("nul", REG, b"x", {"pax_headers": {"path": "a\0b"}}),
        ("long" * 100, REG, b"x"), ("hardself", LNK, "hardself"), (".", DIR, None),
    ]
    a = run("archive-in", dst, stdin=t.upload(make_tar(hostile)))
    errors = {i["path"].decode(): i["error"] for i in a.of("item")}
    good(a)
    for name in ("../x", "/abs-cay-test", "d/../../x", "up", "abs", "hard", "hard2"):
        assert errors[name] == "archive_escape", (name, errors)
    for name in ("dev", "fifo", "blk"):
        assert errors[name] == "archive_kind"
    assert errors["long" * 100] == "name_too_long" and errors["hardself"] == "not_found"
    assert (dst / "up/x").read_text() == "1"  # the link was refused, so this is a directory
    assert (dst / "dir/g").read_text() == "2" and (dst / "in").is_symlink()
    assert (dst / "dup").read_text() == "two" and (dst / "dir/h").read_text() == "1"
    assert stat.S_IMODE((dst / "suid").stat().st_mode) == 0o755
    assert secret.read_text() == "secret"
    assert sorted(os.listdir(tmp_path)) == ["a", "secret"] and os.listdir(tmp_path / "a") == ["b"]
    assert not os.path.exists("/abs-cay-test") and left_behind(tmp_path) == []
    # A link that was there before, out of the directory.
    os.symlink("../../..", dst / "trap")
    a = run("archive-in", dst, stdin=t.upload(make_tar([("trap/x", REG, b"1"),
                                                        ("trap", REG, b"now a file")])))
    assert [i["error"] for i in a.of("item")] == ["archive_escape"]
    assert (dst / "trap").read_text() == "now a file" and not (tmp_path / "x").exists()


def test_archive_of_many_small_files(tmp_path):
    """Two threads create them; the result equals that of one thread, in the archive's order."""
    sizes = (0, 1, 16383, 16384, 16385, 70000)
    entries = [(f"./d{i // 40}/f{i}", REG, bytes([i % 251]) * sizes[i % len(sizes)],
                {"mode": 0o604 if i % 2 else 0o751, "mtime": 1000 + i}) for i in range(400)]
    entries += [(f"d0/f{i % 10}", REG, b"again %d" % i) for i in range(200)]  # the last one stays
    for i in range(10):
        entries += [(f"e/f{i}", REG, b"a file"), (f"e/f{i}/below", REG, b"no")]
        entries += [(f"l{i}", SYM, "d1"), (f"l{i}/in1-{i}", REG, b"1"), (f"l{i}", SYM, "d2"),
                    (f"l{i}/in2-{i}", REG, b"2"), (f"h{i}", LNK, f"l{i}/in2-{i}")]
        entries += [(f"g/f{i}/below", REG, b"yes"), (f"g/f{i}", REG, b"is a directory")]
    dst = tmp_path / "dst"
    a = run("archive-in", dst, stdin=t.upload(make_tar(entries)))
    failed = {i["index"]: (i["path"].decode(), i["error"]) for i in a.of("item")}
    for index, (name, *_rest) in enumerate(entries):
        parts = name.split("/")
        wrong = (parts[0] == "e" and len(parts) == 3) or (parts[0] == "g" and len(parts) == 2)
        assert (index in failed) == wrong, (index, name, failed.get(index))
        if wrong:
            assert failed[index] == (name, "not_a_directory" if parts[0] == "e" else "is_a_directory")
    end = good(a)
    assert end["failed"] == len(failed) == 20 and end["entries"] == len(entries) - 20
    for i in range(10, 400):
        f = dst / f"d{i // 40}/f{i}"
        assert f.read_bytes() == bytes([i % 251]) * sizes[i % len(sizes)], i
        st = f.stat()
        assert (stat.S_IMODE(st.st_mode), st.st_mtime) == (0o604 if i % 2 else 0o751, 1000 + i)
    for i in range(10):
        assert (dst / f"d0/f{i}").read_bytes() == b"again %d" % (190 + i)
        assert (dst / f"d1/in1-{i}").exists() and (dst / f"h{i}").read_text() == "2"
        assert (dst / f"e/f{i}").is_file() and (dst / f"g/f{i}/below").read_text() == "yes"
    assert left_behind(tmp_path) == []
    # Limits apply at the same entry, and damage at any position leaves only complete files.
    small = make_tar([(f"f{i}", REG, b"x" * 100) for i in range(300)])
    last = bad(run("archive-in", tmp_path / "l", max_bytes=20_000, stdin=t.upload(small)),
               "archive_limit")
    assert last["done"] == 200 and len(os.listdir(tmp_path / "l")) == 200
    last = bad(run("archive-in", tmp_path / "c", stdin=t.upload(small[:250 * 1024 + 512 + 50])),
               "archive_bad")
    assert last["done"] == 250 and len(os.listdir(tmp_path / "c")) == 250
    assert {f.stat().st_size for f in (tmp_path / "c").iterdir()} == {100}


def test_archive_directories_by_turns(tmp_path):
    """Directories go to one thread or the other, large ones to both: the order of equal names is kept."""
    entries = []
    for turn in range(6):  # the same directories again and again, also under another name
        for d in range(8):
            entries += [(f"t/d{d}", DIR, None), *((f"t/d{d}/f{i}", REG, b"%d %d" % (turn, i)) for i in range(20))]
        entries += [(f"t/one/f{i % 400}", REG, b"%d %d" % (turn, i)) for i in range(700)]
        entries += [(f"t/x{turn}", REG, b"file"), (f"t/x{turn}", DIR, None), (f"t/x{turn}/y", REG, b"no")]
    entries += [("t/alias", SYM, "d1")]
    for turn in range(20):
        entries += [(f"t/{'alias' if turn % 2 else 'd1'}/a{i}", REG, b"%d" % turn) for i in range(15)]
    a = run("archive-in", tmp_path, stdin=t.upload(make_tar(entries)))
    wrong = [i["path"].decode() for i in a.of("item")]
    assert wrong == [name for turn in range(6) for name in (f"t/x{turn}/", f"t/x{turn}/y")]
    assert good(a)["entries"] == len(entries) - len(wrong)
    top = tmp_path / "t"
    assert all((top / f"d{d}/f{i}").read_bytes() == b"5 %d" % i for d in range(8) for i in range(20))
    assert all((top / f"one/f{i}").read_bytes() == b"5 %d" % (i + 400 if i < 300 else i) for i in range(400))
    assert all((top / f"d1/a{i}").read_bytes() == b"19" for i in range(15))
    assert all((top / f"x{turn}").read_bytes() == b"file" for turn in range(6))
    assert left_behind(tmp_path) == []


@pytest.mark.skipif(not ROOT, reason="takes another user's limits")
def test_archive_without_a_second_thread():
    """Where no further thread can be created, one does everything."""
    if b"__asan_init" in pathlib.Path(os.fsdecode(t.program())).read_bytes():
        pytest.skip("the leak check needs a thread of its own")
    small = make_tar([(f"f{i}", REG, b"x" * 100) for i in range(100)])
    with tempfile.TemporaryDirectory(dir="/var/tmp") as top:
        os.chown(top, 64321, 64321)
        a = t.run("archive-in", path=top + "/d", stdin=t.upload(small), user=64321,
                  limits=[(resource.RLIMIT_NPROC, 0)])
        assert good(a)["entries"] == 100
        assert len(os.listdir(top + "/d")) == 100 and left_behind(top) == []


def test_archive_limits_and_damage(tmp_path):
    many = make_tar([(f"f{i}", REG, b"") for i in range(100)])
    last = bad(run("archive-in", tmp_path / "m", max_entries=50, stdin=t.upload(many)),
               "archive_limit")
    assert last["done"] == 50 and last["limit"] == 50
    bomb = subprocess.run(["zstd", "-19", "-c"], input=make_tar([("z", REG, bytes(200 << 20))]),
                          stdout=subprocess.PIPE).stdout
    assert len(bomb) < 100_000
    bad(run("archive-in", tmp_path / "b", stdin=t.upload(bomb)), "archive_limit")
    assert os.listdir(tmp_path / "b") == []
    bad(run("archive-in", tmp_path / "b", max_bytes=1000, stdin=t.upload(make_tar(
        [("x", REG, b"x" * 1001)]))), "archive_limit")
    z = io.BytesIO()
    with zipfile.ZipFile(z, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        out.writestr("z", bytes(200 << 20))
    bad(run("archive-in", tmp_path / "b", stdin=t.upload(z.getvalue())), "archive_limit")
    for junk in (b"not an archive at all" * 100, b"PK\3\4junk", b"\x28\xb5\x2f\xfdjunk", b"x"):
        bad(run("archive-in", tmp_path / "j", stdin=t.upload(junk)), "archive_bad")
    bad(run("archive-in", tmp_path / "j", stdin=t.upload(b"")), "archive_bad")
    tar = make_tar([("one", REG, b"1" * 5000), ("two", REG, b"2" * 500_000)])
    for cut in (100, 600, 5700, 100_000):
        a = run("archive-in", tmp_path / "j", stdin=t.upload(tar[:cut]))
        assert a.error == "archive_bad", a.last
        assert a.last["done"] == (1 if cut > 7000 else 0) or cut == 5700
        a = run("archive-in", tmp_path / "j", stdin=t.pieces(t.DATA, tar[:cut]))
        assert a.error in ("archive_bad", "incomplete")
        assert not (tmp_path / "j/two").exists()
    sizes = make_tar([("huge", REG, b"x")])
    huge = sizes[:124] + b"\x80\x00\x00\x00\x00\x0f\xff\xff\xff\xff\xff\xff" + sizes[136:]
    head = bytearray(huge[:512])
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    bad(run("archive-in", tmp_path / "j", stdin=t.upload(bytes(head) + huge[512:])), "archive_bad")
    assert left_behind(tmp_path) == []


def test_archive_with_a_bad_entry(tmp_path):
    """One entry is encrypted: it is reported, the others are extracted."""
    z = io.BytesIO()
    with zipfile.ZipFile(z, "w") as out:
        out.writestr("a", "one" * 20)
        out.writestr("b", "two")
    data = bytearray(z.getvalue())
    for sign, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.find(sign) + at] |= 1
    a = run("archive-in", tmp_path / "d", stdin=t.upload(bytes(data)))
    assert [(i["path"], i["error"]) for i in a.of("item")] == [(b"a", "archive_bad")]
    assert good(a)["failed"] == 1 and os.listdir(tmp_path / "d") == ["b"]


def test_archive_sparse(tmp_path):
    (tmp_path / "src").mkdir()
    with open(tmp_path / "src/s", "wb") as f:
        f.truncate(1 << 40)
        f.seek(1 << 30)
        f.write(b"data")
    with open(tmp_path / "src/hole", "wb") as f:
        f.truncate(1 << 35)
    start = time.monotonic()
    out = run("archive-out", tmp_path / "src")
    assert good(out)["failed"] == 0 and len(out.data) < 1 << 20
    good(run("archive-in", tmp_path / "dst", stdin=t.upload(out.data)))
    st = (tmp_path / "dst/s").stat()
    assert st.st_size == 1 << 40 and st.st_blocks * 512 < 1 << 20
    assert (tmp_path / "dst/hole").stat().st_size == 1 << 35
    with open(tmp_path / "dst/s", "rb") as f:
        f.seek(1 << 30)
        assert f.read(4) == b"data"
    assert time.monotonic() - start < 30


RENAME_EXCHANGE = 2


def swapper(a, b, stop, counter):
    libc = ctypes.CDLL(None, use_errno=True)
    while not stop.is_set():
        for _ in range(1000):
            libc.renameat2(-100, a, -100, b, RENAME_EXCHANGE)
        counter[0] += 1000


def test_races_never_leave_the_directory(tmp_path):
    """A directory and a link to outside are exchanged at full speed during each operation."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    (outside / "keep").mkdir()
    (outside / "keep/x").write_text("secret")
    top = tmp_path / "top"
    top.mkdir()
    (top / "d").mkdir()
    (top / "d/f").write_text("inside")
    os.symlink(str(outside), top / "e")
    os.symlink("../outside", top / "r")
    before = sorted(os.listdir(outside))
    tar = t.upload(make_tar([("d/n%d" % i, REG, b"x") for i in range(60)] +
                            [("e/m%d" % i, REG, b"x") for i in range(60)] + [("d/h", LNK, "e/f")]))
    code = ("import ctypes,sys\nl=ctypes.CDLL(None)\na,b=sys.argv[1].encode(),sys.argv[2].encode()\n"
            "n=0\nwhile True:\n l.renameat2(-100,a,-100,b,2); n+=1\n"
            " if n%1000==0: sys.stdout.write('.'); sys.stdout.flush()\n")
    p = subprocess.Popen([sys.executable, "-c", code, str(top / "d"), str(top / "e")],
                         stdout=subprocess.PIPE)
    swaps = rounds = 0
    os.set_blocking(p.stdout.fileno(), False)
    try:
        end = time.monotonic() + 60
        while (swaps < (1_000_000 if "CAY_LONG" in os.environ else 200_000) or rounds < 10) and time.monotonic() < end:
            rounds += 1
            run("archive-in", top, stdin=tar)
            a = run("read-raw", "d/f", root=str(top))
            assert a.data in (b"", b"inside")
            run("write-raw", "d/new", root=str(top), stdin=t.upload(b"x"))
            run("mkdir", "d/sub", root=str(top))
            run("remove", "d/keep", root=str(top), recursive=1)
            run("remove", "e/f2", root=str(top), recursive=1)
            run("copy", "d", root=str(top), to="copy", recursive=1, overwrite=1)
            # At times it is the link that is copied, as a link.
            assert (top / "copy").is_symlink() or not os.path.exists(top / "copy/keep")
            a = run("archive-out", top)
            assert b"secret" not in a.data
            assert not any(m["text"] == b"secret" for m in
                           run("grep", top, pattern="secret").of("match"))
            assert not any(e["path"].endswith(b"keep") for e in
                           run("list", top, depth=0).of("entry"))
            swaps += 1000 * len(p.stdout.read() or b"")
        assert swaps >= 100_000 and rounds >= 10
        for _ in range(20):  # the tree that is removed is the one that is swapped
            run("mkdir", "t/u/v", base=str(top))
            run("remove", top / "d", recursive=1)
            (top / "d").mkdir(exist_ok=True) if not os.path.lexists(top / "d") else None
    finally:
        p.kill()
        p.wait()
        p.stdout.close()
    assert sorted(os.listdir(outside)) == before
    assert (outside / "f").read_text() == "secret" and (outside / "keep/x").read_text() == "secret"


def test_fifo_swapped_in_does_not_block(tmp_path):
    (tmp_path / "a").write_text("text\n")
    os.mkfifo(tmp_path / "b")
    stop, counter = threading.Event(), [0]
    th = threading.Thread(target=swapper, args=(os.fsencode(tmp_path / "a"),
                                                os.fsencode(tmp_path / "b"), stop, counter))
    th.start()
    try:
        for _ in range(60):
            for op, keys in (("read-raw", {}), ("grep", {"pattern": "x"}), ("read-view", {}),
                             ("copy", {"to": str(tmp_path / "c"), "overwrite": 1})):
                start = time.monotonic()
                a = run(op, tmp_path / "a", timeout=10, **keys)
                assert a.last and time.monotonic() - start < 30
    finally:
        stop.set()
        th.join()
