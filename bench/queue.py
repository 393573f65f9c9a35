#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where requests wait when many clients create and destroy sandboxes at once.

60 clients run full cycles, alone and beside 20 sandboxes that use all the processor time that they may. A queue that
never leaves the processors idle has a cycle time of clients / throughput; what the warden and the daemon did in that
time (running, waiting for a processor) shows the place of the queue.
"""

import argparse
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests"))

from lib import tree  # noqa: E402
from lib.daemon import Daemon  # noqa: E402

PROGRAMS = ("cayd", "cay-warden")
SPIN = ["sh", "-c", "while :; do :; done"]


def clocks(daemon):
    """Seconds on a processor and seconds of waiting for one, for each program."""
    pids, found = daemon.pids(), {}
    for name in PROGRAMS:
        with open(f"/proc/{pids[name]}/schedstat", encoding="ascii") as f:
            found[name] = [int(word) / 1e9 for word in f.read().split()[:2]]
    return found


def cycles(daemon, clients, seconds):
    before = clocks(daemon)
    done = subprocess.run([str(tree.build_dir() / "bench/httpload"), "--to", daemon.url.removeprefix("http://"), "--key",
                           daemon.key, "--clients", str(clients), "--seconds", str(seconds), "--pool", "bypass",
                           "--no-samples", "--program", "/bin/true", "cycle", "0"],
                          capture_output=True, text=True, check=True)
    run = json.loads(done.stdout)
    run["clocks"] = {name: [(b - a) / run["seconds"] for a, b in zip(before[name], after)]
                     for name, after in clocks(daemon).items()}
    return run


def show(label, run):
    print(f"{label:28} {run['per_second']:7.1f} cycles/s   cycle p50 {run['p50_us'] / 1000:8.1f} ms "
          f"(clients / throughput {1000 * run['clients'] / run['per_second']:.1f})   create {run['create_p50_us'] / 1000:.1f}  "
          f"exec {run['exec_p50_us'] / 1000:.1f}  delete {run['delete_p50_us'] / 1000:.1f} ms   failures {run['failures']}")
    for name, (ran, waited) in run["clocks"].items():
        print(f"{'':28} {name}: on a processor {ran:.2f}, waits for one {waited:.2f} of the time")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=60)
    parser.add_argument("--busy", type=int, default=20, help="sandboxes that compute")
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    with Daemon(env={"CAY_POOL": "false"}) as daemon:
        show("1 client", cycles(daemon, 1, options.seconds))
        show(f"{options.clients} clients", cycles(daemon, options.clients, options.seconds))
        for _ in range(options.busy):
            box = daemon.client.create(timeout_sec=3600, memory_mb=64)["id"]
            daemon.client.call("POST", f"/v1/sandboxes/{box}/processes", {"argv": SPIN})
        show(f"1 client, {options.busy} busy", cycles(daemon, 1, options.seconds))
        show(f"{options.clients} clients, {options.busy} busy", cycles(daemon, options.clients, options.seconds))


if __name__ == "__main__":
    main()
