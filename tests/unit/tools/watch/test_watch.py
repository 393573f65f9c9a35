# SPDX-License-Identifier: Apache-2.0
"""Watches: what is reported of changes, limits, storms and overflows."""
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from program import bad, good, run, t  # noqa: E402


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
    for i in range(30000):  # there is no reader: the pipe and then the kernel's queue fill
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
