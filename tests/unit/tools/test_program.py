# SPDX-License-Identifier: Apache-2.0
"""cay-tools over pipes, on trees in a temporary directory: usage, users, disks and races."""
import ctypes
import io
import os
import subprocess
import sys
import tarfile
import threading
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from program import bad, good, left_behind, LNK, make_tar, REG, ROOT, run, t  # noqa: E402


def test_usage(tmp_path):
    for args in ([], ["nonsense"], ["stat"] + ["x=1"] * 70):
        assert subprocess.run([t.program()] + args, capture_output=True).returncode == 2
    assert "mode" in bad(run("chmod", tmp_path, mode="9"), "invalid")["message"]
    assert "path" in bad(t.run("stat"), "invalid")["message"]
    assert "wrong" in bad(run("stat", tmp_path, wrong=1), "invalid")["message"]
    assert "follow" in bad(run("stat", tmp_path, follow=2), "invalid")["message"]


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
