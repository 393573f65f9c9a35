# SPDX-License-Identifier: Apache-2.0
"""cay inside a Docker container, started as docs/guides/docker.md says. 'make test-docker' runs it."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest

from lib import census, docker, tree
from lib.daemon import TEMPLATES

IMAGE = "cay:test"
# What docs/guides/docker.md documents; the engine of the test has no bridge, so its containers share its network.
FLAGS = ("--privileged", "--cgroupns=private")
PLACE = ("--network=host",)


def usable():
    if os.getuid() != 0:
        return "needs root"
    if not shutil.which("dockerd"):
        return "there is no dockerd: apt install docker.io"
    if os.readlink("/proc/self/ns/net") == os.readlink("/proc/1/ns/net"):
        return "not in namespaces of its own: use 'make test-docker'"
    if not os.path.exists(os.path.join(TEMPLATES, "refs/base")):
        return "the base template is missing"
    return None


def test_documented_flags():
    """The command that people copy is the one that is tested."""
    text = (docker.ROOT / "docs/guides/docker.md").read_text()
    assert all(flag in text for flag in FLAGS)


@pytest.fixture(scope="module")
def engine():
    reason = usable()
    if reason:
        pytest.skip(reason)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    place = docker.find_tree()
    if not place:
        pytest.skip("there is no image: tests/docker/make-image makes it, with Debian's packages")
    before = census.take()
    try:
        started = docker.Engine().__enter__()
    except RuntimeError as error:
        pytest.skip(f"dockerd does not run here: {error}")
    try:
        started.import_tree(place, IMAGE)
        yield started
    finally:
        started.__exit__()
    left = census.settle(before, ignore=("sysctls",))
    assert not left, "\n".join(left)


class Box:
    """One container with 'cay up' as its first process."""

    def __init__(self, engine, data, *flags):
        self.engine, self.data = engine, data
        self.id = engine.docker("run", "-d", *FLAGS, *PLACE, *flags, "-v", f"{data}:/var/lib/cay",
                                "-v", f"{TEMPLATES}:/var/lib/cay/templates:ro",
                                IMAGE, "cay", "up", "--foreground", "--no-build").stdout.strip()
        self.wait_ready()

    def wait_ready(self):
        until = time.monotonic() + 15 * tree.SLACK
        while (said := self.cay("status", check=False)).returncode != 0:
            assert time.monotonic() < until, f"{said}\n{self.engine.docker('logs', self.id).stderr}"
            time.sleep(0.1)

    def cay(self, *words, check=True):
        done = self.engine.docker("exec", self.id, "cay", *words, check=False)
        assert not check or done.returncode == 0, f"cay {words}: {done}\n{self.engine.docker('logs', self.id)}"
        return done

    def remove(self):
        self.engine.docker("rm", "-f", self.id)


@pytest.fixture
def data():
    place = tempfile.mkdtemp(prefix="cay-docker-data-", dir="/var/tmp")
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def box(engine, data):
    started = Box(engine, data)
    yield started
    started.remove()


def test_a_sandbox_from_begin_to_end(box):
    made = json.loads(box.cay("--json", "create", "--memory", "256", "--disk", "200", "--timeout", "600").stdout)
    sandbox = made["id"]
    assert made["disk_limit"] == "enforced"
    assert box.cay("exec", sandbox, "--", "sh", "-c", "id -u; echo kept > file").stdout == "1000\n"
    full = box.cay("exec", sandbox, "--", "sh", "-c", "head -c 300000000 /dev/zero > big", check=False)
    assert full.returncode != 0, "the disk limit does not hold"
    box.cay("exec", sandbox, "--", "rm", "big")
    oom = box.cay("exec", sandbox, "--", "python3", "-c", "x = bytearray(600 << 20)", check=False)
    assert oom.returncode != 0, "the memory limit does not hold"
    snapshot = json.loads(box.cay("--json", "snapshot", sandbox).stdout)["id"]
    copy = json.loads(box.cay("--json", "create", "--snapshot", snapshot).stdout)["id"]
    assert box.cay("exec", copy, "--", "cat", "file").stdout == "kept\n"
    box.cay("pause", sandbox)
    box.cay("resume", sandbox)
    assert box.cay("exec", sandbox, "--", "cat", "file").stdout == "kept\n"
    box.cay("rm", sandbox)
    box.cay("rm", copy)
    assert json.loads(box.cay("--json", "ls").stdout)["data"] == []
    rows = {(c["group"], c["name"]): c["level"] for c in
            json.loads(box.cay("--json", "doctor", check=False).stdout)["checks"]}
    assert "fail" not in rows.values(), rows


def test_stop_and_start_keep_the_files(box):
    """A stopped container loses its processes but not its files, as a rebooted host does."""
    sandbox = json.loads(box.cay("--json", "create", "--timeout", "3600").stdout)["id"]
    box.cay("exec", sandbox, "--", "sh", "-c", "echo kept > file; sync")
    begin = time.monotonic()
    box.engine.docker("stop", "-t", "60", box.id)
    assert time.monotonic() - begin < 30 * tree.SLACK, "the first process does not end by itself"
    box.engine.docker("start", box.id)
    box.wait_ready()
    box.cay("resume", sandbox)
    assert box.cay("exec", sandbox, "--", "cat", "file").stdout == "kept\n"


def test_half_a_gigabyte(engine, data):
    """The container's limit is the host's memory here: sandboxes that need more end, the daemons do not."""
    box = Box(engine, data, "--memory=512m")
    try:
        ids = [json.loads(box.cay("--json", "create", "--timeout", "600").stdout)["id"] for _ in range(4)]
        for sandbox in ids:
            assert box.cay("exec", sandbox, "--", "python3", "-c", "print(6 * 7)").stdout == "42\n"
        greedy = box.cay("exec", ids[0], "--", "python3", "-c", "x = bytearray(700 << 20)", check=False)
        assert greedy.returncode != 0, "more than the host has, within the sandbox's own limit"
        logs = engine.docker("logs", box.id)
        assert "ended by signal" not in logs.stdout + logs.stderr, logs
        sandbox = json.loads(box.cay("--json", "create", "--timeout", "600").stdout)["id"]
        assert box.cay("exec", sandbox, "--", "echo", "still here").stdout == "still here\n"
    finally:
        box.remove()


def test_no_loop_nodes(engine, data):
    """A container has the device nodes of its start; the kernel may offer another device."""
    hide = pathlib.Path(data, "start")
    hide.write_text("#!/bin/sh\nrm -f /dev/loop[0-9]*\nexec cay up --foreground --no-build\n")
    hide.chmod(0o755)
    container = engine.docker("run", "-d", *FLAGS, *PLACE, "-v", f"{data}:/var/lib/cay", "-v",
                              f"{TEMPLATES}:/var/lib/cay/templates:ro", IMAGE, "/var/lib/cay/start").stdout.strip()
    box = Box.__new__(Box)
    box.engine, box.data, box.id = engine, data, container
    try:
        box.wait_ready()
        sandbox = json.loads(box.cay("--json", "create").stdout)
        assert sandbox["disk_limit"] == "enforced"
    finally:
        box.remove()
