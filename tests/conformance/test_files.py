# SPDX-License-Identifier: Apache-2.0
"""Files over the API, on every engine: what is promised in docs/guides/files.md."""

import base64
import hashlib
import http.client
import io
import os
import socket
import tarfile
import threading
import time
import zipfile

import pytest

from lib import tree
from lib.files import Files, refused

HERE = "conformance-files"


@pytest.fixture(scope="module")
def files(shared):
    return Files(shared)


@pytest.fixture
def place(files, request):
    """A directory for one test."""
    path = f"{HERE}/{request.node.name.split('[')[0]}"
    files.post("remove", path=path, recursive=True, missing_ok=True)
    files.post("mkdir", path=path)
    yield path
    files.post("remove", path=path, recursive=True, missing_ok=True)


def inside(sandbox, command):
    return sandbox.exec(command).ok().stdout


def names(answer):
    return [entry["path"] for entry in answer["data"]]


# ---- content ----

def test_bytes_come_back_as_they_were(files, place):
    for size in (0, 1, 4096, 131071, 131072, 131073, 3_000_001):
        data = os.urandom(size)
        status, entry = files.put(f"{place}/f", data)
        assert entry["size"] == size and entry["type"] == "file"
        assert files.read(f"{place}/f") == data
    status, entry = files.put(f"{place}/new/deep/f", b"x")
    assert status == 201 and entry["created"] is True
    status, entry = files.put(f"{place}/new/deep/f", b"y")
    assert status == 200 and entry["created"] is False


def test_a_chunked_upload(files, place):
    pieces = [os.urandom(n) for n in (1, 70_000, 3, 500_000)]
    files.put(f"{place}/f", iter(pieces))
    assert files.read(f"{place}/f") == b"".join(pieces)


def test_large_content_is_not_held(files, place, engines_daemon):
    """64 MiB in both directions: the daemon does not grow."""
    block = os.urandom(1 << 20)
    digest = hashlib.sha256(block * 64).hexdigest()

    def rss():
        with open(f"/proc/{engines_daemon.pids()['cayd']}/status") as f:
            return int(f.read().split("VmRSS:")[1].split()[0])
    before = rss()
    files.put(f"{place}/big", (block for _ in range(64)))
    grown = rss() - before
    assert hashlib.sha256(files.read(f"{place}/big")).hexdigest() == digest
    grown = max(grown, rss() - before)
    # A sanitizer keeps freed memory for a while.
    assert grown < (400 if tree.SANITIZED else 8) * 1024, f"{grown} KiB more"


def test_ranges(files, place):
    files.put(f"{place}/f", b"0123456789")
    for text, wanted, where in (("bytes=0-3", b"0123", "bytes 0-3/10"), ("bytes=4-", b"456789", "bytes 4-9/10"),
                                ("bytes=-3", b"789", "bytes 7-9/10"), ("bytes=8-99", b"89", "bytes 8-9/10"),
                                ("bytes=-99", b"0123456789", "bytes 0-9/10")):
        status, headers, body = files.raw(f"{place}/f", {"Range": text})
        assert (status, body, headers["Content-Range"]) == (206, wanted, where), text
    for text in ("bytes=10-", "bytes=20-30", "bytes=3-1", "bytes=0-1,3-4", "bytes=x", "bytes=-0"):
        status, headers, body = files.raw(f"{place}/f", {"Range": text})
        assert status == 416, text
    assert files.raw(f"{place}/f", {"Range": "bytes=10-"})[1]["Content-Range"] == "bytes */10"
    assert files.raw(f"{place}/f", {"Range": "lines=1-2"})[0] == 200  # an unknown range unit is ignored


def test_etags(files, place):
    _, entry = files.put(f"{place}/f", b"one")
    status, headers, body = files.raw(f"{place}/f")
    assert headers["ETag"] == f'"{entry["etag"]}"' and headers["Accept-Ranges"] == "bytes"
    assert headers["Last-Modified"].endswith("GMT") and headers["Content-Length"] == "3"
    assert files.raw(f"{place}/f", {"If-None-Match": headers["ETag"]})[0] == 304
    assert files.raw(f"{place}/f", {"If-None-Match": '"other"'})[0] == 200
    status, head, body = files.raw(f"{place}/f", method="HEAD")
    assert (status, body, head["Content-Length"], head["ETag"]) == (200, b"", "3", headers["ETag"])
    # A range of a file that has changed meanwhile returns the whole file.
    files.put(f"{place}/f", b"other")
    status, _, body = files.raw(f"{place}/f", {"Range": "bytes=1-", "If-Range": headers["ETag"]})
    assert (status, body) == (200, b"other")
    now = files.raw(f"{place}/f")[1]["ETag"]
    status, _, body = files.raw(f"{place}/f", {"Range": "bytes=1-", "If-Range": now})
    assert (status, body) == (206, b"ther")


def test_writing_back_only_what_is_unchanged(files, place):
    _, entry = files.put(f"{place}/f", b"one")
    files.put(f"{place}/f", b"two", if_match=entry["etag"])
    refused("conflict", files.put, f"{place}/f", b"three", if_match=entry["etag"])
    refused("conflict", files.put, f"{place}/f", b"three", headers={"If-Match": f'"{entry["etag"]}"'})
    refused("file_exists", files.put, f"{place}/f", b"three", headers={"If-None-Match": "*"})
    assert files.read(f"{place}/f") == b"two"


def test_a_broken_upload_changes_nothing(files, place, api):
    files.put(f"{place}/f", b"old")
    with socket.create_connection((api.host, api.port)) as sock:
        sock.sendall(f"PUT {files.url('raw', path=f'{place}/f')} HTTP/1.1\r\nHost: {api.host}:{api.port}\r\n"
                     f"Authorization: Bearer {api.key}\r\nContent-Length: 1000000\r\n\r\n".encode())
        sock.sendall(b"n" * 500_000)
        time.sleep(0.3)
    time.sleep(0.5)
    assert files.read(f"{place}/f") == b"old"
    assert names(files.get(path=place)) == [f"{place}/f"]  # no temporary file is left


def test_json_forms(files, place):
    entry = files.post(path=f"{place}/t", content="grüße\n", mode="0750")
    assert entry["mode"] == "0750" and entry["size"] == 8
    files.post(path=f"{place}/b", content_b64=base64.b64encode(bytes(range(256))).decode())
    assert files.read(f"{place}/b") == bytes(range(256))
    refused("invalid_request", files.post, path=f"{place}/x")
    refused("invalid_request", files.post, path=f"{place}/x", content="a", content_b64="YQ==")
    refused("invalid_request", files.post, path=f"{place}/x", content_b64="no base64!")
    error = refused("invalid_request", files.post, path=f"{place}/x", content="a", mode="999")
    assert "mode" in str(error)


def test_a_batch_has_a_result_for_each(files, place):
    files.put(f"{place}/dir/f", b"")
    answer = files.post("batch", files=[
        {"path": f"{place}/a", "content": "A"},
        {"path": f"{place}/dir", "content": "B"},
        {"path": f"{place}/new/c", "content_b64": "Qw==", "mode": "0600"}])
    assert [(item["ok"], item["error"] and item["error"]["code"]) for item in answer["data"]] == \
        [(True, None), (False, "not_a_file"), (True, None)]
    assert answer["failed"] == 1
    assert files.read(f"{place}/new/c") == b"C"
    assert files.get("stat", path=f"{place}/new/c")["mode"] == "0600"
    error = refused("invalid_request", files.post, "batch", files=[{"path": "x"}])
    assert "files[0].content" in str(error)


# ---- the view and the edit ----

def test_the_numbered_view(files, place):
    files.put(f"{place}/f", "".join(f"line {i}\n" for i in range(1, 201)).encode())
    view = files.get("read", path=f"{place}/f")
    lines = view["content"].splitlines()
    assert len(lines) == 50 == view["lines_returned"] and view["total_lines"] == 200
    assert lines[0] == "     1\tline 1" and lines[49] == "    50\tline 50"
    assert view["truncated"] and "offset=51" in view["hint"]
    view = files.get("read", path=f"{place}/f", offset=199, limit=10)
    assert view["content"] == "   199\tline 199\n   200\tline 200\n" and not view["truncated"]
    view = files.get("read", path=f"{place}/f", offset=-3)
    assert view["offset"] == 198 and view["lines_returned"] == 3
    assert files.get("read", path=f"{place}/f", offset=-1000, limit=1)["offset"] == 1
    view = files.get("read", path=f"{place}/f", offset=1000)
    assert view["content"] == "" and "200 lines" in view["hint"]
    for bad in ({"limit": 2001}, {"limit": 0}, {"offset": 0}, {"offset": "x"}):
        refused("invalid_request", files.get, "read", path=f"{place}/f", **bad)
    files.put(f"{place}/bin", b"\0\1\2" * 1000)
    view = files.get("read", path=f"{place}/bin")
    assert view["binary"] and view["content"] == "" and view["total_bytes"] == 3000
    files.put(f"{place}/long", b"x" * 100_000 + b"\nshort\n")
    view = files.get("read", path=f"{place}/long")
    assert "line cut" in view["content"] and len(view["content"]) < 20_000
    files.put(f"{place}/empty", b"")
    assert files.get("read", path=f"{place}/empty")["total_lines"] == 0


def test_edit(files, place):
    files.put(f"{place}/f", b"a\r\nb\r\na", mode="0640")
    error = refused("edit_ambiguous", files.post, "edit", path=f"{place}/f", old_string="a", new_string="x")
    assert "2 matches" in str(error) and "line 1, 3" in str(error)
    error = refused("edit_no_match", files.post, "edit", path=f"{place}/f", old_string="zz", new_string="x")
    assert "0 matches" in str(error)
    answer = files.post("edit", path=f"{place}/f", old_string="b", new_string="B")
    assert answer["replacements"] == 1 and answer["mode"] == "0640" and answer["first_line"] == 2
    assert files.read(f"{place}/f") == b"a\r\nB\r\na"
    assert files.post("edit", path=f"{place}/f", old_string="a", new_string="", replace_all=True)["replacements"] == 2
    assert files.read(f"{place}/f") == b"\r\nB\r\n"
    refused("invalid_request", files.post, "edit", path=f"{place}/f", old_string="", new_string="x")
    refused("invalid_request", files.post, "edit", path=f"{place}/f", old_string="B", new_string="B")
    refused("file_not_found", files.post, "edit", path=f"{place}/no", old_string="B", new_string="C")


# ---- the tree ----

def test_list_stat_exists(files, place, shared):
    files.put(f"{place}/d/e/f", b"12")
    inside(shared, f"cd {place} && ln -s d/e/f link && mkfifo fifo")
    assert names(files.get(path=place)) == [f"{place}/{n}" for n in ("d", "fifo", "link")]
    assert names(files.get(path=place, depth=3)) == [f"{place}/{n}" for n in ("d", "d/e", "d/e/f", "fifo", "link")]
    cut = files.get(path=place, depth=3, limit=2)
    assert len(cut["data"]) == 2 and cut["truncated"] and cut["reason"] == "limit"
    kinds = {e["name"]: e["type"] for e in files.get(path=place)["data"]}
    assert kinds == {"d": "directory", "fifo": "fifo", "link": "symlink"}
    link = files.get("stat", path=f"{place}/link")
    assert link["target"] == "d/e/f" and link["type"] == "symlink"
    assert files.get("stat", path=f"{place}/link", follow=True)["size"] == 2
    entry = files.get("stat", path=f"{place}/d/e/f")
    assert entry["name"] == "f" and entry["modified_at"].endswith("Z") and entry["user"]
    assert files.get("exists", path=f"{place}/fifo") == {"exists": True, "type": "fifo"}
    assert files.get("exists", path=f"{place}/none") == {"exists": False, "type": None}
    refused("file_not_found", files.get, "stat", path=f"{place}/none")
    refused("not_a_directory", files.get, path=f"{place}/d/e/f")
    refused("not_a_directory", files.get, "stat", path=f"{place}/d/e/f/g")


def test_make_move_copy_remove(files, place):
    assert files.post("mkdir", path=f"{place}/a/b", mode="0700")["mode"] == "0700"
    refused("file_not_found", files.post, "mkdir", path=f"{place}/x/y", parents=False)
    refused("file_exists", files.post, "mkdir", path=f"{place}/a", parents=False)
    files.put(f"{place}/a/b/f", b"content")
    assert files.post("copy", **{"from": f"{place}/a", "to": f"{place}/c"})["entries"] == 3
    assert files.read(f"{place}/c/b/f") == b"content"
    refused("file_exists", files.post, "copy", **{"from": f"{place}/a/b/f", "to": f"{place}/c/b/f"})
    files.post("move", **{"from": f"{place}/c/b/f", "to": f"{place}/g"})
    refused("file_not_found", files.read, f"{place}/c/b/f")
    refused("file_exists", files.post, "move", **{"from": f"{place}/a/b/f", "to": f"{place}/g"})
    files.post("move", **{"from": f"{place}/a/b/f", "to": f"{place}/g", "overwrite": True})
    refused("directory_not_empty", files.post, "remove", path=f"{place}/a")
    assert files.post("remove", path=f"{place}/a", recursive=True) is None
    refused("file_not_found", files.post, "remove", path=f"{place}/a")
    files.post("remove", path=f"{place}/a", missing_ok=True)


def test_chmod(files, place):
    files.put(f"{place}/d/f", b"")
    assert files.post("chmod", path=f"{place}/d/f", mode="4711")["mode"] == "4711"
    assert files.post("chmod", path=f"{place}/d", mode="0700", recursive=True)["entries"] == 2
    assert files.get("stat", path=f"{place}/d/f")["mode"] == "0700"
    refused("invalid_request", files.post, "chmod", path=f"{place}/d/f", mode="rwx")
    refused("invalid_request", files.post, "chmod", path=f"{place}/d/f")


def test_owners(files, place, needs, shared):
    needs("isolat")
    assert files.put(f"{place}/mine", b"")[1]["user"] == "sandbox"
    assert files.put(f"{place}/roots", b"", user="root")[1]["user"] == "root"
    assert files.put(f"{place}/given", b"", owner="root")[1]["user"] == "root"
    assert files.post("chown", path=f"{place}/mine", user="0", group="root")["uid"] == 0
    refused("file_forbidden", files.put, f"{place}/roots", b"x")
    refused("file_forbidden", files.read, "/etc/shadow")
    refused("invalid_request", files.put, f"{place}/f", b"", user="nobody-such")
    refused("invalid_request", files.put, f"{place}/f", b"", owner="nobody-such")


# ---- search ----

def test_glob(files, place):
    for name in ("a.py", "b.txt", "x/c.py", "x/y/d.py", "x/y/e.txt"):
        files.put(f"{place}/{name}", b"")

    def found(pattern, **more):
        return [p[len(place) + 1:] for p in names(files.post("glob", pattern=pattern, path=place, **more))]
    assert found("*.py") == ["a.py", "x/c.py", "x/y/d.py"]
    assert found("x/*.py") == ["x/c.py"]
    assert found("x/**/*.py") == ["x/c.py", "x/y/d.py"]
    assert found("*.{py,txt}") == ["a.py", "b.txt", "x/c.py", "x/y/d.py", "x/y/e.txt"]
    assert found("[ab].*") == ["a.py", "b.txt"]
    cut = files.post("glob", pattern="*", path=place, limit=2)
    assert len(cut["data"]) == 2 and cut["truncated"]


def test_grep(files, place):
    files.put(f"{place}/a.py", b"one\ntwo Needle\nthree\nfour\nfive needle\n")
    files.put(f"{place}/x/b.txt", b"needle\n")
    files.put(f"{place}/bin", b"needle\0\0\n" * 10)
    answer = files.post("grep", pattern="needle", path=place)
    assert [(m["path"], m["line"], m["column"], m["text"]) for m in answer["data"]] == \
        [(f"{place}/a.py", 5, 6, "five needle"), (f"{place}/x/b.txt", 1, 1, "needle")]
    assert answer["matches"] == 2 and answer["files_skipped_binary"] == 1 and not answer["truncated"]
    answer = files.post("grep", pattern="n(ee)d", path=place, ignore_case=True, context=1, include="*.py")
    assert [(m["line"], m["before"], m["after"]) for m in answer["data"]] == \
        [(2, ["one"], ["three"]), (5, ["four"], [])]
    assert files.post("grep", pattern="n.edle", path=place, fixed=True)["data"] == []
    assert len(files.post("grep", pattern="needle", path=place, exclude="*.py")["data"]) == 1
    assert [m["path"] for m in files.post("grep", pattern="needle", path=place, include="*.{py,txt}",
                                          exclude="b.*")["data"]] == [f"{place}/a.py"]
    files.put(f"{place}/evil", b"a" * 5000 + b"\n")
    cut = files.post("grep", pattern="(a|a)*(a|a)*(a|a)*b?c?$(?<=d)", path=f"{place}/evil")
    assert cut["truncated"] and cut["reason"] in ("pattern", "time")
    cut = files.post("grep", pattern="e", path=place, max_matches=1)
    assert cut["truncated"] and cut["reason"] == "limit" and len(cut["data"]) == 1
    error = refused("invalid_request", files.post, "grep", pattern="(", path=place)
    assert "pattern" in str(error)
    started = time.monotonic()
    files.put(f"{place}/evil", b"a" * 60 + b"!\n")
    files.post("grep", pattern="(a|a)*$", path=place, timeout_sec=2)
    assert time.monotonic() - started < 10 * tree.SLACK


# ---- watch ----

def test_watch(files, place):
    with files.watch(place, recursive=True) as events:
        assert next(events)[0] == "started"
        files.put(f"{place}/a", b"1")
        seen = [next(events)]
        while not (seen[-1][0] == "created" or seen[-1][0] == "renamed"):
            seen.append(next(events))
        files.post("mkdir", path=f"{place}/d")
        files.put(f"{place}/d/new", b"")
        files.post("move", **{"from": f"{place}/a", "to": f"{place}/b"})
        files.post("remove", path=f"{place}/b")
        while seen[-1][0] != "deleted" or seen[-1][1]["path"] != f"{place}/b":
            seen.append(next(events))
    kinds = {(name, data["path"]) for name, data in seen}
    assert ("created", f"{place}/d") in kinds and ("created", f"{place}/d/new") in kinds, seen
    assert not [path for _, path in kinds if "#" in path], seen  # an unnamed temporary file is not reported
    renamed = [data for name, data in seen if name == "renamed" and data["path"] == f"{place}/b"]
    assert renamed and renamed[0]["from"] == f"{place}/a"
    with pytest.raises(Exception) as failed, files.watch(f"{place}/none"):
        pass
    assert failed.value.code == "file_not_found"


def test_a_watch_ends_with_its_client(files, place, shared):
    for _ in range(3):
        with files.watch(place) as events:
            next(events)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        left = inside(shared, "ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c inotify || true").strip()
        if left == "0":
            return
        time.sleep(0.1)
    assert left == "0" or shared.body["engine"] == "local"  # other processes of the host may use inotify, too


# ---- archives ----

@pytest.mark.parametrize("format_", ["tar", "tar.zst", "zip"])
def test_a_tree_out_and_in(files, place, shared, format_):
    for i in range(20):
        files.put(f"{place}/src/d{i % 3}/f{i}", os.urandom(i * 500))
    inside(shared, f"cd {place}/src && ln -s d0/f0 link && chmod 750 d1 && mkdir empty")
    headers, body = files.archive(f"{place}/src", format=format_)
    assert f'filename="src.{format_}"' in headers["Content-Disposition"]
    if format_ == "tar":
        held = sorted(m.name.strip("./") for m in tarfile.open(fileobj=io.BytesIO(body)))
        assert "d0/f0" in held and "link" in held
    if format_ == "zip":
        assert "d1/f1" in zipfile.ZipFile(io.BytesIO(body)).namelist()
    _, answer = files.put(f"{place}/dst", body, op="archive")
    assert answer["failed"] == [] and answer["entries"] >= 24
    inside(shared, f"cd {place} && diff -r src dst && test $(readlink dst/link) = d0/f0 && "
              "test $(stat -c %a dst/d1) = 750 && test -d dst/empty")


def test_archives_cannot_leave_their_directory(files, place, shared):
    def tar(*members):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            for name, kind, more in members:
                info = tarfile.TarInfo(name)
                info.type = kind
                data = b""
                if kind == tarfile.REGTYPE:
                    data, info.size = more, len(more)
                elif more:
                    info.linkname = more
                archive.addfile(info, io.BytesIO(data))
        return out.getvalue()
    bad = [tar(("../out", tarfile.REGTYPE, b"x")), tar(("/abs-out", tarfile.REGTYPE, b"x")),
           tar(("l", tarfile.SYMTYPE, "../.."), ("l/out", tarfile.REGTYPE, b"x")),
           tar(("h", tarfile.LNKTYPE, "../../../etc/passwd")), tar(("dev", tarfile.CHRTYPE, None))]
    for i, archive in enumerate(bad):
        try:
            _, answer = files.put(f"{place}/into{i}", archive, op="archive")
            assert answer["failed_count"] >= 1, (i, answer)
        except Exception as error:
            assert getattr(error, "code", "").startswith("archive_"), error
    left = inside(shared, f"cd {place}/.. && find . -path './*/into*' -prune -o -name '*out*' -print; "
                  "ls /abs-out 2>/dev/null || true")
    assert left == "", left
    refused("archive_invalid", files.put, f"{place}/no", b"this is no archive" * 100, op="archive")


# ---- bad input ----

def test_bad_paths(files, place):
    for call in (lambda p: files.get("stat", path=p), files.read, lambda p: files.put(p, b"x"),
                 lambda p: files.post("mkdir", path=p)):
        refused("invalid_request", call, "")
        refused("invalid_request", call, "a\0b")
        refused("invalid_request", call, b"a\0b".decode())
        refused("name_too_long", call, f"{place}/" + "n" * 256)
    refused("invalid_request", files.post, "mkdir", path="x/" * 20_000)
    refused("invalid_request", files.get, "stat")
    refused("invalid_request", files.get, "stat", path="a", colour="red")
    refused("invalid_request", files.get, "stat", path="a", follow="perhaps")
    refused("not_a_file", files.read, place)
    refused("not_a_file", files.put, place, b"x")
    refused("not_a_file", files.read, "/dev/zero")
    files.client.call("GET", files.url("stat", path=f"{place}/./../{place.split('/')[-1]}"))


def test_special_files_never_hang(files, place, shared):
    inside(shared, f"cd {place} && mkfifo fifo && ln -s loop loop && "
              "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'")
    started = time.monotonic()
    refused("not_a_file", files.read, f"{place}/fifo")
    refused("not_a_file", files.put, f"{place}/fifo", b"x")
    refused("not_a_file", files.read, f"{place}/sock")
    refused("symlink_loop", files.read, f"{place}/loop")
    files.post("grep", pattern="x", path=place)
    files.archive(place)
    assert time.monotonic() - started < 10 * tree.SLACK


def test_names_that_are_not_utf8(files, place, shared):
    raw = place.encode() + b"/\xff\xfename\n"
    files.put(raw, b"content")
    entry = files.get(path=place)["data"][0]
    assert entry["path"] == f"{place}/\\xff\\xfename\n" and base64.b64decode(entry["path_b64"]) == raw
    assert files.read(raw) == b"content"
    files.post("remove", path_b64=base64.b64encode(raw).decode())
    assert files.get(path=place)["data"] == []


def test_a_full_disk(api, engine, needs):
    needs("disk")
    with api.sandbox(engine=engine, disk_size_mb=64) as small:
        files = Files(small)
        files.put("keep", b"old")
        block = os.urandom(1 << 20)
        try:
            files.put("keep", (block for _ in range(200)))
            raise AssertionError("a disk of 64 MiB took 200")
        except Exception as error:
            assert getattr(error, "code", None) == "disk_full", error
            assert "disk_size_mb is 64" in str(error)
        assert files.read("keep") == b"old"
        assert names(files.get()) == ["keep"]


# ---- many at once ----

def test_others_are_answered_while_one_is_slow(files, place, shared):
    inside(shared, f"cd {place} && for i in $(seq 50); do head -c 2000000 /dev/urandom | base64 > g$i; done")
    slow = threading.Thread(target=files.post, args=("grep",),
                            kwargs={"pattern": "(x+x+)+y$", "path": place, "timeout_sec": 5})
    slow.start()
    files.client.close()
    waits = []
    for i in range(20):
        started = time.monotonic()
        files.get("stat", path=place)
        waits.append(time.monotonic() - started)
    slow.join()
    assert sorted(waits)[10] < 0.5, waits


def test_the_limit_of_operations(files, place):
    limit = 64
    watches = []
    try:
        for _ in range(limit):
            watch = files.watch(place)
            next(watch.__enter__())
            watches.append(watch)
        refused("quota_exceeded", files.get, "stat", path=place)
    finally:
        for watch in watches:
            watch.__exit__(None, None, None)
    until = time.monotonic() + 10
    while True:
        try:
            files.get("stat", path=place)
            return
        except Exception:
            assert time.monotonic() < until
            time.sleep(0.1)


def test_writes_reset_the_idle_clock_and_reads_do_not(api, engine):
    with api.sandbox(engine=engine, idle_timeout_sec=3) as box:
        files = Files(box)
        for _ in range(4):
            time.sleep(1)
            files.put("f", b"x")
        assert api.get(box.id)["state"] == "running"
        with pytest.raises(Exception) as failed:
            for _ in range(60):
                time.sleep(0.2)
                files.read("f")
        assert failed.value.code in ("sandbox_not_found", "wrong_state", "sandbox_gone")


def test_reads_do_not_reset_the_idle_clock(api, engine):
    with api.sandbox(engine=engine, idle_timeout_sec=3600) as box:
        files = Files(box)

        def idle_expires_at():
            return files.client.call("GET", f"/v1/sandboxes/{box.id}")["idle_expires_at"]
        files.put("f", b"x\n")
        before = idle_expires_at()
        for _ in range(10):
            files.read("f")
            files.get("read", path="f")
            files.archive(".")
            files.post("grep", pattern="x")
            assert idle_expires_at() == before
        files.put("f", b"y\n")
        assert idle_expires_at() > before


def test_an_archive_tells_what_is_missing_in_it(files, place, shared, needs):
    needs("isolat")
    files.put(f"{place}/a", b"1")
    files.put(f"{place}/b", b"2", mode="0000")
    for names_left, left_out in ((["a"], b"1"), (["a", "b"], b"0")):
        conn = http.client.HTTPConnection(files.client.host, files.client.port, timeout=20)
        conn.request("GET", files.url("archive", path=place, format="tar"),
                     headers={"Authorization": f"Bearer {files.client.key}"})
        response = conn.getresponse()
        assert response.headers["Trailer"] == "Cay-Failed"
        response.chunked = False  # raw bytes, including the trailer
        raw = b""
        while not raw.endswith(b"\r\n\r\n"):
            raw += response.fp.read1(65536)
        conn.close()
        assert raw.endswith(b"0\r\nCay-Failed: " + left_out + b"\r\n\r\n")
        with tarfile.open(fileobj=io.BytesIO(files.archive(place, format="tar")[1])) as tar:
            assert tar.getnames() == names_left
        files.post("chmod", path=f"{place}/b", mode="0600")
