# SPDX-License-Identifier: Apache-2.0
"""Archives in and out: there and back, of other programs, hostile, damaged and too large."""
import io
import os
import pathlib
import resource
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from program import bad, DIR, good, left_behind, LNK, make_tar, REG, ROOT, run, SYM, t  # noqa: E402


def test_zip_of_a_name_that_is_not_utf8(tmp_path):
    (tmp_path / "d").mkdir()
    for name in (b"bad\xff", "gr\u00fcn".encode()):
        (tmp_path / "d" / os.fsdecode(name)).write_text("x")
    answer = run("archive-out", tmp_path / "d", format="zip")
    good(answer)
    names = zipfile.ZipFile(io.BytesIO(answer.data)).namelist()
    assert "gr\u00fcn" in names and len(names) == 2


def tar_of(path):
    answer = run("archive-out", path, format="tar")
    good(answer)
    return answer.data


def test_tar_declares_bytes_only_where_needed(tmp_path):
    """GNU tar warns of 'hdrcharset' on every entry that has it."""
    (tmp_path / "d").mkdir()
    for name in (b"plain", "gr\u00fcn".encode(), b"x" * 200):
        (tmp_path / "d" / os.fsdecode(name)).write_text("x")
    packed = tar_of(tmp_path / "d")
    listed = subprocess.run(["tar", "t"], input=packed, capture_output=True, check=True)
    assert b"hdrcharset" not in packed and not listed.stderr, listed
    (tmp_path / "d" / os.fsdecode(b"bad\xff")).write_text("x")
    packed = tar_of(tmp_path / "d")
    assert packed.count(b"hdrcharset=BINARY") == 1 and b"bad\xff" in packed
    (tmp_path / "out").mkdir()
    good(run("archive-in", tmp_path / "out", stdin=t.upload(packed)))
    assert sorted(os.listdir(os.fsencode(tmp_path / "out"))) == sorted(os.listdir(os.fsencode(tmp_path / "d")))


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
    """Two threads make them; what is there in the end is as if one had, in the archive's order."""
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
    # Limits stand at the same entry, and damage at any place leaves whole files only.
    small = make_tar([(f"f{i}", REG, b"x" * 100) for i in range(300)])
    last = bad(run("archive-in", tmp_path / "l", max_bytes=20_000, stdin=t.upload(small)),
               "archive_limit")
    assert last["done"] == 200 and len(os.listdir(tmp_path / "l")) == 200
    last = bad(run("archive-in", tmp_path / "c", stdin=t.upload(small[:250 * 1024 + 512 + 50])),
               "archive_bad")
    assert last["done"] == 250 and len(os.listdir(tmp_path / "c")) == 250
    assert {f.stat().st_size for f in (tmp_path / "c").iterdir()} == {100}


def test_archive_directories_by_turns(tmp_path):
    """Directories go to one thread or the other, large ones to both: the order of a name stays."""
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
    """Where no more threads may be, one does it all."""
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
    """One entry is encrypted: it is reported, and the others are unpacked."""
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
