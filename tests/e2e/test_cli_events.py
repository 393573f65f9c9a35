# SPDX-License-Identifier: Apache-2.0
"""cay events, usage and top."""

import json
import os
import pty
import select
import subprocess
import time

import pytest

from lib.daemon import Daemon


@pytest.fixture(scope="module")
def own():
    """A separate daemon: it is killed, and all of its events are checked."""
    with Daemon() as daemon:
        yield daemon


def run(daemon, *words, status=0):
    done = daemon.command(*words)
    assert done.returncode == status, done
    return done.stdout


def test_events_are_listed(own):
    with own.client.sandbox(name="web") as sandbox:
        sandbox.exec(["sh", "-c", "exit 3"])
        lines = run(own, "events", "web").splitlines()
        assert [line.split()[2] for line in lines][-3:] == ["sandbox.running", "process.started", "process.ended"]
        assert "exit_code=3" in lines[-1] and sandbox.id in lines[-1]
        rows = json.loads(run(own, "events", "--json", "--type", "process.ended"))["data"]
        assert rows[-1]["data"]["exit_code"] == 3
        later = json.loads(run(own, "events", "--json", "--after", str(rows[-1]["id"])))["data"]
        assert all(row["id"] > rows[-1]["id"] for row in later)
    assert "sandbox.destroyed" in run(own, "events", sandbox.id)
    run(own, "events", "nosuch", status=3)
    run(own, "events", "--type", "nonsense", status=2)


def test_follow_survives_a_restart_and_ends_with_the_sandbox(own):
    with own.client.sandbox() as sandbox:
        follow = subprocess.Popen([own.cay, "--state", own.state, "events", "-f", "--after", "0", sandbox.id],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own.env)
        assert "sandbox." in follow.stdout.readline()
        own.kill("cayd")
        time.sleep(0.1)
        sandbox.client = own.wait_ready()
        sandbox.exec(["true"])
    out, err = follow.communicate(timeout=30)
    assert follow.returncode == 0, err
    assert out.count("process.ended") == 1 and out.count("sandbox.destroyed") == 1, out


def test_usage(own):
    with own.client.sandbox(cpu_count=2, external_workspace_id="w7") as sandbox:
        time.sleep(0.3)
        row = json.loads(run(own, "usage", "--json", "--workspace", "w7"))["total"]
        assert row["sandboxes"] == 1 and 0.3 <= row["running_seconds"] < 30
        assert row["vcpu_seconds"] == pytest.approx(2 * row["running_seconds"])
        assert "running_seconds" in run(own, "usage", sandbox.id)
        assert "w7" in run(own, "usage")
    run(own, "usage", "--from", "yesterday", status=2)


def test_top_once_and_live(own):
    with own.client.sandbox(name="busy", memory_mb=256) as sandbox:
        own.client.call("POST", f"/v1/sandboxes/{sandbox.id}/processes", {"command": "while :; do :; done"})
        row = [r for r in json.loads(run(own, "top", "--json"))["data"] if r["id"] == sandbox.id][0]
        assert row["cpu_percent"] > 1 and row["pids"] >= 2 and row["memory_limit_bytes"] == 256 << 20
        assert "busy" in run(own, "top")
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(own.cay, [own.cay, "--state", own.state, "top", "--interval", "1"], own.env)
        out, until = b"", time.monotonic() + 20
        while out.count(b"busy") < 2 and time.monotonic() < until:
            if select.select([fd], [], [], 0.2)[0]:
                out += os.read(fd, 65536)
        os.write(fd, b"q")
        try:
            while chunk := os.read(fd, 65536):
                out += chunk
        except OSError:
            pass
        os.close(fd)
        assert os.waitpid(pid, 0)[1] == 0
        assert out.count(b"busy") >= 2 and out.endswith(b"\x1b[?1049l"), out
