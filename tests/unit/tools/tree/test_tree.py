# SPDX-License-Identifier: Apache-2.0
"""stat, list, mkdir, move, copy, chmod and remove, on trees of any depth."""
import os
import pathlib
import stat
import sys
import tempfile
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from program import bad, good, left_behind, run, t  # noqa: E402


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


def test_copy_of_a_file_that_tells_no_size(tmp_path):
    good(run("copy", "/proc/version", to=str(tmp_path / "v")))
    assert (tmp_path / "v").read_text() == open("/proc/version").read() != ""
