# SPDX-License-Identifier: Apache-2.0
"""The file commands of the command line program against a real daemon."""

import json
import os
import subprocess
import time

import pytest


@pytest.fixture(scope="module")
def web(daemon):
    made = daemon.command("create", "--name", "files-web", "--timeout", "1h")
    assert made.returncode == 0, made
    yield "files-web"
    daemon.command("rm", "files-web")


@pytest.fixture
def cay(daemon, web, tmp_path):
    def run(*words, status=0, **kw):
        env = dict(daemon.env, **kw.pop("env", {}))
        done = subprocess.run([daemon.cay, "--state", daemon.state, *words], capture_output=True,
                              text=kw.pop("text", True), cwd=tmp_path, env=env, timeout=60, **kw)
        assert done.returncode == status, (words, done)
        return done.stdout
    return run


def test_one_file_each_way(cay, web, tmp_path):
    data = os.urandom(3_000_000)
    (tmp_path / "f").write_bytes(data)
    (tmp_path / "f").chmod(0o750)
    cay("cp", "f", f"{web}:up/f")
    cay("cp", f"{web}:up/f", "g")
    assert (tmp_path / "g").read_bytes() == data
    assert (tmp_path / "g").stat().st_mode & 0o777 == 0o750
    cay("cp", "f", f"{web}:up/")
    assert sorted(os.listdir(tmp_path)) == ["f", "g"]  # no temporary file is left
    (tmp_path / "d").mkdir()
    cay("cp", f"{web}:up/f", "d")
    assert (tmp_path / "d/f").read_bytes() == data
    assert json.loads(cay("cp", "--json", "f", f"{web}:up/f")) == {"copied": 1, "bytes": len(data)}


def test_existing_files_are_replaced_or_kept(cay, web, tmp_path):
    cay("cp", "-", f"{web}:in.txt", input="some words\n")
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nowhere")
    cay("cp", f"{web}:in.txt", "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "some words\n"
    cay("cp", f"{web}:in.txt", "dangling", status=2)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    cay("cp", f"{web}:in.txt", "pipe")
    assert os.read(reader, 100) == b"some words\n"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["dangling", "link", "pipe", "real"]


def test_a_tree_with_unreadable_files(cay, web, tmp_path):
    cay("cp", "-", f"{web}:part/a", input="1")
    cay("exec", web, "--", "sh", "-c", "echo 2 >part/b; chmod 0 part/b")
    cay("cp", "-r", f"{web}:part", "part", status=5)
    assert os.listdir(tmp_path / "part") == ["a"]
    cay("exec", web, "--", "chmod", "600", "part/b")
    cay("cp", "-r", f"{web}:part", "whole")
    assert sorted(os.listdir(tmp_path / "whole")) == ["a", "b"]


def test_an_interrupted_download_leaves_nothing(daemon, cay, web, tmp_path):
    cay("cp", "-", f"{web}:large", input="x" * 300_000_000)
    work = subprocess.Popen([daemon.cay, "--state", daemon.state, "cp", f"{web}:large", "large"],
                            cwd=tmp_path, env=daemon.env)
    time.sleep(0.1)
    work.kill()
    work.wait()
    assert os.listdir(tmp_path) in ([], ["large"])


def test_standard_input_and_output(cay, web):
    cay("cp", "-", f"{web}:in.txt", input="some words\n")
    assert cay("cat", f"{web}:in.txt", f"{web}:in.txt") == "some words\n" * 2
    assert cay("cp", f"{web}:in.txt", "-") == "some words\n"
    view = json.loads(cay("cat", "--json", f"{web}:in.txt"))
    assert view["total_lines"] == 1


def test_trees(cay, web, tmp_path):
    for i in range(30):
        path = tmp_path / f"src/d{i % 4}/f{i}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(i * 1000))
    os.symlink("d0/f0", tmp_path / "src/link")
    cay("cp", "src", f"{web}:tree", status=7)  # a directory without -r
    cay("cp", "-r", "src", f"{web}:tree")
    cay("cp", "-r", f"{web}:tree", "back")
    subprocess.run(["diff", "-r", "src", "back"], cwd=tmp_path, check=True)
    assert os.readlink(tmp_path / "back/link") == "d0/f0"
    cay("cp", "-r", "src", f"{web}:tree")  # the directory exists, so the copy is created in it
    assert "src" in cay("ls", f"{web}:tree").split()
    shown = cay("tree", "--depth", "2", f"{web}:tree")
    assert "├── d0\n" in shown and "│   ├── f0\n" in shown


def test_a_hostile_archive_is_cut(cay, web, daemon, tmp_path):
    """Root inside can forge the archive: device entries do not reach tar."""
    (tmp_path / "out").mkdir()
    done = subprocess.run([daemon.cay, "--state", daemon.state, "exec", "-u", "root", web, "-c",
                           "rm -rf /tmp/dev; mkdir /tmp/dev; mkfifo /tmp/dev/pipe; echo x > /tmp/dev/f"],
                          capture_output=True, text=True, env=daemon.env)
    assert done.returncode == 0, done
    cay("cp", "-r", f"{web}:/tmp/dev", "out/dev")
    assert os.listdir(tmp_path / "out/dev") == ["f"]


def test_wildcards_inside(cay, web, tmp_path):
    for name in ("w/a.c", "w/b.c", "w/c.h", "w/deep/d.c"):
        cay("cp", "-", f"{web}:{name}", input=name)
    (tmp_path / "got").mkdir()
    cay("cp", f"{web}:w/*.c", "got")
    assert sorted(os.listdir(tmp_path / "got")) == ["a.c", "b.c"]
    cay("cp", f"{web}:w/*.none", "got", status=3)


def test_cat_ls_tree_grep_and_glob(cay, web):
    cay("cp", "-", f"{web}:look/x.txt", input="needle\nhay\n")
    assert cay("ls", f"{web}:look") == "x.txt\n"
    assert "-rw-r--r--" in cay("ls", "-l", f"{web}:look") and "sandbox" in cay("ls", "-l", f"{web}:look/x.txt")
    assert json.loads(cay("ls", "--json", f"{web}:look"))["data"][0]["name"] == "x.txt"
    assert cay("glob", web, "x.*", "look") == "look/x.txt\n"
    assert cay("grep", web, "need", "look") == "look/x.txt:1:needle\n"
    assert cay("grep", "-C", "1", web, "NEED", "look", "-i") == "look/x.txt:1:needle\nlook/x.txt-2-hay\n"
    cay("grep", web, "nothing-like-this", status=1)
    cay("glob", web, "nothing-like-this", status=1)
    cay("cat", f"{web}:look/none", status=3)
    cay("ls", f"{web}:look/none", status=3)
    cay("cp", "a", "b", status=2)
    cay("cat", "no-colon", status=2)
    assert "files-web" in cay("ls")  # without a colon it lists the sandboxes


def test_edit(daemon, cay, web, tmp_path):
    cay("cp", "-", f"{web}:e.txt", input="one\n")
    cay("edit", f"{web}:e.txt", env={"EDITOR": "sed -i s/one/two/"})
    assert cay("cat", f"{web}:e.txt") == "two\n"
    cay("edit", f"{web}:e.txt", env={"EDITOR": "true"})
    cay("edit", f"{web}:e.txt", env={"EDITOR": "false"}, status=1)
    script = tmp_path / "editor"
    script.write_text(f"#!/bin/sh\necho mine >> \"$1\"\n"
                      f"echo theirs | {daemon.cay} --state {daemon.state} cp - {web}:e.txt\n")
    script.chmod(0o755)
    done = subprocess.run([daemon.cay, "--state", daemon.state, "edit", f"{web}:e.txt"],
                          capture_output=True, text=True, env=dict(daemon.env, EDITOR=str(script)))
    assert done.returncode == 7 and "Your version is in" in done.stderr, done
    kept = done.stderr.split("Your version is in ")[1].strip()
    assert open(kept).read() == "two\nmine\n"
    os.unlink(kept)
    os.rmdir(os.path.dirname(kept))
    assert cay("cat", f"{web}:e.txt") == "theirs\n"


def test_watch(daemon, cay, web):
    cay("cp", "-", f"{web}:watched/x", input="")
    watch = subprocess.Popen([daemon.cay, "--state", daemon.state, "--json", "watch", "-r", web, "watched"],
                             stdout=subprocess.PIPE, text=True, env=daemon.env)
    try:
        assert json.loads(watch.stdout.readline())["event"] == "started"
        cay("exec", web, "--", "touch", "watched/new")
        until = time.monotonic() + 10
        while time.monotonic() < until:
            event = json.loads(watch.stdout.readline())
            if event["event"] == "created":
                break
        assert event["data"]["path"] == "watched/new"
    finally:
        watch.kill()
        watch.wait()
        watch.stdout.close()
