#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What one sandbox's traffic costs the others: API latency and a neighbour's requests, as ratios to an idle host.

    bench/neighbours.py [--seconds 2] [--rounds 3]

Runs in a separate host and world (tests/lib/world.py). Loads: a loop that computes (the control), an endless download,
and connections opened as fast as the kernel permits. The bars: p99 of the API at most 3 times that of the idle host,
and a neighbour's requests at least 0.8 times as many as while the same sandbox only computes.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests"))

from lib import world  # noqa: E402
from lib.daemon import Daemon  # noqa: E402

DOWNLOAD = f"curl -sS -o /dev/null http://{world.EVIL}:7000/"
# A separate process that sends endlessly and computes nothing, so that the neighbour's server is not the bottleneck.
BULK = f"""
import os, socket
bulk = os.memfd_create("bulk"); os.truncate(bulk, 1 << 26)
server = socket.create_server(("{world.EVIL}", 7000)); print("ready", flush=True)
while True:
    conn, _ = server.accept(); conn.recv(65536); conn.sendall(b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\n")
    try:
        while os.sendfile(conn.fileno(), bulk, 0, 1 << 26): pass
    except OSError: conn.close()
"""
FLOOD = f"""python3 -c '
import socket
while True:
    s = socket.socket(); s.setblocking(False)
    try: s.connect_ex(("{world.EVIL}", 7001)); s.close()
    except OSError: pass
'"""
REQUESTS = """python3 -c '
import http.client, sys, time
end, n = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    c = http.client.HTTPConnection(sys.argv[2], timeout=20); c.request("GET", "/"); c.getresponse().read(); c.close(); n += 1
print(n)' %s %s"""

# The control: on a host with few cores, any computing sandbox has a cost, which is not that of the network.
LOADS = {"idle": None, "compute": "python3 -c 'while True: pass'", "download": DOWNLOAD, "flood": FLOOD}


@contextlib.contextmanager
def bulk_server(outside):
    server = subprocess.Popen(outside.within_world(sys.executable, "-c", BULK), stdout=subprocess.PIPE)
    server.stdout.readline()
    try:
        yield
    finally:
        server.kill()
        server.wait()


def latencies(client, seconds):
    took, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        client.call("GET", "/v1/sandboxes?limit=1")
        took.append((time.perf_counter() - begin) * 1000)
        time.sleep(0.005)
    took.sort()
    return took[len(took) // 2], took[len(took) * 99 // 100]


@contextlib.contextmanager
def load(client, box, command):
    """Runs the command in the box for as long as the block lasts."""
    process = client.call("POST", f"/v1/sandboxes/{box.id}/processes", {"command": command})
    time.sleep(1)
    try:
        yield
    finally:
        client.call("DELETE", f"/v1/sandboxes/{box.id}/processes/{process['process_id']}")
        time.sleep(1)


def measure(client, neighbour, seconds):
    p50, p99 = latencies(client, seconds)
    said = neighbour.exec(REQUESTS % (seconds, world.GOOD))
    return p50, p99, int(said.stdout) / seconds


def rounds_of(client, noisy, neighbour, args):
    """The loads alternate, so that a busy minute of the machine affects all of them. Returns the medians of the
    rounds."""
    samples = {name: [] for name in LOADS}
    for _ in range(args.rounds):
        for name, command in LOADS.items():
            with load(client, noisy, command) if command else contextlib.nullcontext():
                samples[name].append(measure(client, neighbour, args.seconds))
    return {name: [statistics.median(column) for column in zip(*rows)] for name, rows in samples.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    policy = {"mode": "restricted", "allow": [world.GOOD, world.EVIL]}
    with world.World() as outside, bulk_server(outside), Daemon(env={"CAY_DNS_UPSTREAM": world.DNS}) as daemon:
        client = daemon.client
        with client.sandbox(network=policy) as noisy, client.sandbox(network=policy) as neighbour:
            found = rounds_of(client, noisy, neighbour, args)
    idle, compute = found["idle"], found["compute"]
    for name, (p50, p99, rate) in found.items():
        print(f"{name}: API p50 {p50:.2f} ms ({p50 / idle[0]:.1f} x), p99 {p99:.2f} ms ({p99 / idle[1]:.1f} x); "
              f"neighbour {rate:.0f} requests/s ({rate / idle[2]:.2f} x idle, {rate / compute[2]:.2f} x compute)")
    missed = [name for name in ("download", "flood") if found[name][1] > 3 * idle[1] or found[name][2] < 0.8 * compute[2]]
    print(f"MISSED: {', '.join(missed)}" if missed else "ok")
    sys.exit(bool(missed))


main()
