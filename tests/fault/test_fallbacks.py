# SPDX-License-Identifier: Apache-2.0
"""Kernel features that older kernels lack: each is disabled in turn, and everything still works."""

import json
import os
import re
import subprocess
import time

import pytest

from lib import census, tree
from lib.daemon import TEMPLATES, Daemon, clean_env

FEATURES = ("overlay-fd", "detached-copy", "detached-target", "exact-times", "simple-quota",
            "time-at-exec")
# Names that mounts of a sandbox may show: file systems that only the warden has.
SOURCE = re.compile(r"/|/devs/\d+|/ids/\d+\.(machine|boot|forked)|/v[0-9a-f]{16}/(upper|work)|/\.cay/[a-z]+")
LAYER = re.compile(r"(?:lowerdir\+?|upperdir|workdir)=([^,]*)")
LAYER_NAME = re.compile(r"/|/template|/bin:/masks|/v[0-9a-f]{16}/(upper|work)")


@pytest.fixture(params=FEATURES + ("all",))
def without(request):
    """A daemon without a feature; after its end nothing is left."""
    if os.environ.get("CAY_WITHOUT"):
        pytest.skip("CAY_WITHOUT is set already")
    before = census.take()
    daemon = Daemon(env={"CAY_WITHOUT": request.param, "CAY_POOL": "false"})
    with daemon:
        yield request.param, daemon
    left = census.settle(before, states=[daemon.state])
    assert not left, "\n".join(left)


def check_mounts(box):
    """No path of the host: neither its state directory nor the templates nor anything else."""
    for line in box.exec("cat /proc/self/mountinfo").stdout.splitlines():
        words = line.split()
        assert SOURCE.fullmatch(words[3]), line
        assert words[words.index("-") + 2] in ("none", "proc", "tmpfs", "overlay", "devpts", "cgroup", "cgroup2"), line
        for name in LAYER.findall(words[-1]):
            assert LAYER_NAME.fullmatch(name), line
    text = box.exec("cat /proc/self/mounts /proc/self/mountinfo /proc/self/mountstats").stdout
    assert "/var/" not in text and "/tmp/" not in text and "rootfs" not in text


def cycle(client):
    with client.sandbox(timeout_sec=600) as box:
        assert box.exec("echo hello > kept && stat -c %u:%g /dev/null && echo x > /dev/shm/x && cat kept").stdout == \
            "0:0\nhello\n"
        check_mounts(box)
        snapshot = client.call("POST", f"/v1/sandboxes/{box.id}/snapshots", {})
        child = client.call("POST", f"/v1/sandboxes/{box.id}/fork", {})["data"][0]["id"]
        box.exec("rm kept")
        copy = client.create(snapshot_id=snapshot["id"], timeout_sec=600)["id"]
        for other in (child, copy):
            assert client.exec(other, "cat kept").stdout == "hello\n"
            client.delete(other)
        client.call("DELETE", f"/v1/snapshots/{snapshot['id']}")


def test_without(without):
    name, daemon = without
    for _ in range(2):  # the second time with the parts that the slot kept
        cycle(daemon.client)
    killed, until = daemon.kill("cay-warden"), time.monotonic() + 20 * tree.SLACK
    while daemon.pids().get("cay-warden") in (None, killed) and time.monotonic() < until:
        time.sleep(0.02)
    daemon.wait_ready()
    cycle(daemon.client)
    said = daemon.logs(lines=400)
    for feature in FEATURES:
        word = "disabled" if name in (feature, "all") else "present|missing"
        assert re.search(f"kernel: {feature} ({word})", said), said


@pytest.mark.parametrize("without", ("simple-quota",), indirect=True)
def test_disk_limit_by_groups(without):
    daemon = without[1]
    with daemon.client.sandbox(disk_size_mb=64, timeout_sec=600) as box:
        done = box.exec("head -c 100000000 /dev/zero > big; sync; wc -c < big")
        assert 0 < int(done.stdout) < 70_000_000, done
        child = daemon.client.call("POST", f"/v1/sandboxes/{box.id}/fork", {})["data"][0]["id"]
        # Data that a copy shares counts for it, too: it has no more space than its source.
        more = daemon.client.exec(child, "head -c 30000000 /dev/zero > more; sync; stat -c %s more")
        assert int(more.stdout or 0) < 20_000_000, more
        daemon.client.delete(child)


def test_an_unknown_name_is_refused():
    for words, env in ((["--without", "detached-copy,nonsense"], {}), ([], {"CAY_WITHOUT": "nonsense"})):
        done = subprocess.run([tree.program("cay-warden"), "--state", "/var/empty", "--templates", TEMPLATES,
                               "--agent", tree.program("cay-agent"), *words], env=clean_env(**{"CAY_WITHOUT": None, **env}),
                              capture_output=True, text=True, timeout=30)
        assert done.returncode == 2
        assert "'nonsense'" in done.stderr and all(name in done.stderr for name in FEATURES)


def test_doctor_lists_each():
    done = subprocess.run([tree.program("cay"), "doctor", "--json"], env=clean_env(CAY_WITHOUT="overlay-fd,exact-times"),
                          capture_output=True, text=True, timeout=60)
    rows = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    for feature in FEATURES:
        if feature in ("overlay-fd", "exact-times"):
            assert rows[feature]["detail"].startswith("disabled; fallback: ") and "cost: " in rows[feature]["detail"]
        else:
            assert "fallback" in rows[feature]["detail"] or rows[feature]["detail"].startswith("present: ")
        assert rows[feature]["level"] == "ok"
