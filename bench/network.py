#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a network costs: creates with none, restricted and full, alternating; and bytes through the proxy.

    bench/network.py [--rounds 200] [--rate 0]

Runs in a separate host and world (tests/lib/world.py). The bar: `restricted` and `full` add at most 1 ms at p50.
"""

import argparse
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests"))

from lib import world  # noqa: E402
from lib.daemon import Daemon  # noqa: E402


def timed(client, mode, pool):
    begin = time.perf_counter()
    row = client.create(network={"mode": mode}, pool={"mode": pool})
    took = (time.perf_counter() - begin) * 1000
    client.delete(row["id"])
    time.sleep(0.03)  # stock is refilled in the background, and clients pause between creates
    return took


def creates(client, rounds):
    for pool in ("prefer", "bypass"):
        took = {"none": [], "restricted": [], "full": []}
        for _ in range(rounds):
            for mode in took:
                took[mode].append(timed(client, mode, pool))
        medians = {mode: statistics.median(values) for mode, values in took.items()}
        for mode, values in took.items():
            print(f"create pool={pool} network={mode}: p50 {medians[mode]:.2f} ms, "
                  f"p95 {sorted(values)[len(values) * 95 // 100]:.2f} ms, least {min(values):.2f} ms")
        for mode in ("restricted", "full"):
            added = medians[mode] - medians["none"]
            print(f"  {mode} adds {added:.2f} ms at p50 (bar: 1 ms): {'ok' if added <= 1 else 'MISSED'}")


def throughput(client):
    with client.sandbox(network={"mode": "restricted", "allow": [world.GOOD]}) as sandbox:
        said = sandbox.exec(f"curl -sS -o /dev/null -w '%{{speed_download}}' http://{world.GOOD}/bytes/1073741824")
    print(f"1 GiB through the proxy: {float(said.stdout) / 2**20:.0f} MiB/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--rate", default="0", help="network_rate_mbit; the proxy is measured, not the limit")
    args = parser.parse_args()
    with world.World(), Daemon(env={"CAY_DNS_UPSTREAM": world.DNS, "CAY_NETWORK_RATE_MBIT": args.rate}) as daemon:
        creates(daemon.client, args.rounds)
        throughput(daemon.client)


main()
