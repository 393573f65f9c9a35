# SPDX-License-Identifier: Apache-2.0
"""Creates of one client while other sandboxes use all the processor time that they may.

The warden waits for a new sandbox until its agent runs, and every other request waits with it. The new sandbox
therefore gets the largest share of its group until then, and the usual one afterwards.
"""

import glob
import json
import subprocess

import pytest

from lib import census, tree
from lib.daemon import Daemon

SPINNERS = 20
CLIENTS = 8
SLOWER_MAX = 10  # without the share it is 30 to 50 times as slow on two processors

pytestmark = [pytest.mark.alone, pytest.mark.skipif(tree.SANITIZED, reason="its speed is not that of a release")]


def cycles(daemon, seconds):
    """Create, exec and delete, again and again."""
    done = subprocess.run([str(tree.build_dir() / "bench/httpload"), "--to", daemon.url.removeprefix("http://"), "--key",
                           daemon.key, "--clients", str(CLIENTS), "--seconds", str(seconds), "--pool", "bypass",
                           "--no-samples", "--program", "/bin/true", "cycle", "0"],
                          capture_output=True, text=True, check=True, timeout=120 * tree.SLACK)
    run = json.loads(done.stdout)
    assert run["failures"] == 0, run
    return run


def shares(daemon):
    """The processor share of every group of a sandbox."""
    found = set()
    for line in census.grouped(daemon.state):
        pid = line.split()[0]
        for entry in open(f"/proc/{pid}/cgroup", encoding="ascii"):
            _number, controllers, path = entry.strip().split(":", 2)
            if controllers == "cpu" or "cpu," in controllers or not controllers:
                for name in ("cpu/{}/cpu.shares", "cpu,cpuacct/{}/cpu.shares", "{}/cpu.weight", "unified/{}/cpu.weight"):
                    for file in glob.glob("/sys/fs/cgroup/" + name.format(path.strip("/"))):
                        found.add(open(file, encoding="ascii").read().strip())
    return found


def test_creates_do_not_wait_for_busy_sandboxes():
    with Daemon(env={"CAY_POOL": "false"}) as daemon:
        client = daemon.client
        quiet = cycles(daemon, 3)
        for _ in range(SPINNERS):
            box = client.create(timeout_sec=600, memory_mb=64)["id"]
            client.call("POST", f"/v1/sandboxes/{box}/processes", {"argv": ["sh", "-c", "while :; do :; done"]})
        assert shares(daemon) <= {"1024", "100"}, "a sandbox that runs has the usual share"
        busy = cycles(daemon, 5)
        print(f"create p50 {quiet['create_p50_us']:.0f} us, beside busy sandboxes {busy['create_p50_us']:.0f} us")
        assert busy["create_p50_us"] < SLOWER_MAX * max(quiet["create_p50_us"], 5000)
