# SPDX-License-Identifier: Apache-2.0
"""Many sandboxes, concurrently and one after the other: throughput, density and leaks."""

import json
import os
import pathlib
import re
import subprocess
import time

import count
import place
from lib import census

SETTLE_SEC = 3
QUIET_SEC = 65  # an idle pool shrinks after a minute
LEAK_SETTLE_SEC = 60
FEW = 10  # "a few alive" of the density comparison
CREATES = 60  # creates per density sample
CREATE_GAP_US = 20000
LIMIT_CYCLES = 50000  # more cycles than fit in the time limit
MEMORY_PARTS = ("Slab", "KernelStack", "PageTables", "Percpu", "AnonPages", "Shmem")


def meminfo():
    """/proc/meminfo in kB."""
    found = {}
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        name, value = line.split(":", 1)
        found[name] = int(value.split()[0])
    return found


def used_kb():
    """Memory in use except the page cache: slab counts fully, including what could be reclaimed."""
    m = meminfo()
    return m["MemTotal"] - m["MemFree"] - m["Buffers"] - (m["Cached"] - m["Shmem"])


def rss_kb(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s*(\d+)", status)[1])


def daemon_rss_kb(daemon):
    return {name: rss_kb(pid) for name, pid in daemon.pids().items()}


def reap_orphans():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def limit_throughput(where, clients, seconds):
    """The limit program with the same parallelism: the cycles of each process and their duration."""
    running = []
    try:
        for number in range(clients):
            storage = os.path.join(where.storage, f"limit-{number}")
            os.makedirs(storage, exist_ok=True)
            running.append(subprocess.Popen(where.limit("cycle", LIMIT_CYCLES, storage=storage), text=True,
                                            stdout=subprocess.PIPE))
        time.sleep(seconds)
        for process in running:
            process.terminate()  # between two cycles
        return [json.loads(process.communicate(timeout=60)[0])["us"] for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()


def limit_run(parts, clients):
    us = sorted(value for part in parts for value in part)
    rounds = len(parts) // clients
    return {"per_second": sum(len(part) * 1e6 / sum(part) for part in parts if part) / rounds, "clients": clients,
            "n": len(us), "p50_us": us[len(us) // 2], "p99_us": us[len(us) * 99 // 100], "failures": 0, "from_pool": 0,
            "error": ""}


def throughput(where, daemon, options, load):
    place.say(f"throughput: {options.clients} clients, {options.seconds:g} s each way")
    found = {}

    def cycles(pool):
        argv = load(daemon, "cycle", 0, "--pool", pool, "--clients", str(options.clients),
                    "--seconds", str(options.seconds), "--no-samples")
        done = place.run_json(argv)
        time.sleep(SETTLE_SEC)
        return done
    # The limit is measured before and after, so that a busy machine affects both.
    limit = limit_throughput(where, options.clients, options.seconds / 2)
    found["cold"] = cycles("bypass")
    limit += limit_throughput(where, options.clients, options.seconds / 2)
    found["limit"] = limit_run(limit, options.clients)
    found["pool"] = cycles("prefer")
    return found


def create_p50(daemon, load):
    argv = load(daemon, "create", CREATES, "--pool", "bypass", "--gap-us", str(CREATE_GAP_US),
                "--no-samples")
    return place.run_json(argv)["p50_us"]


def hold(daemon, load, ids, number):
    argv = load(daemon, "hold", number, "--pool", "bypass", "--clients", "4", "--ids", ids,
                "--no-samples")
    done = place.run_json(argv)
    if done["n"] != number:
        raise place.Trouble(f"only {done['n']} of {number} sandboxes came up: {done['error']}")
    return done


def density(where, daemon, options, load):
    place.say(f"density: {options.alive} alive at once")
    ids = os.path.join(where.path, "ids")
    pathlib.Path(ids).touch()
    time.sleep(SETTLE_SEC)
    try:
        found = {"alive": options.alive, "rss_before_kb": daemon_rss_kb(daemon)}
        hold(daemon, load, ids, FEW)
        found["create_few_p50_us"] = create_p50(daemon, load)
        time.sleep(SETTLE_SEC)
        before, before_m = used_kb(), meminfo()
        rest = hold(daemon, load, ids, options.alive - FEW)
        found["fill_per_second"] = rest["per_second"]
        time.sleep(SETTLE_SEC)
        after, after_m = used_kb(), meminfo()
        added = options.alive - FEW
        found["used_kb_each"] = (after - before) / added
        found["available_kb_each"] = (before_m["MemAvailable"] - after_m["MemAvailable"]) / added
        for name in MEMORY_PARTS:
            found[f"{name}_kb_each"] = (after_m.get(name, 0) - before_m.get(name, 0)) / added
        found["parts_kb_each"] = sum(found[f"{name}_kb_each"] for name in MEMORY_PARTS)
        found["rss_kb"] = daemon_rss_kb(daemon)
        found["create_many_p50_us"] = create_p50(daemon, load)
    finally:
        dropped = place.run_json(load(daemon, "drop", options.alive, "--ids", ids, "--no-samples"))
        time.sleep(SETTLE_SEC)
    found["drop_per_second"] = dropped["per_second"]
    found["drop_failures"] = dropped["failures"]
    return found


def leak(daemon, options, load):
    place.say(f"leak: {options.cycles} cycles; the host is counted before and after, each time once "
              f"pools are back at their least ({QUIET_SEC} s)")
    clients = ("--clients", str(options.clients), "--no-samples")

    def cycles(count):
        parts = [place.run_json(load(daemon, "cycle", count // 2, "--pool", pool, *clients),
                                timeout=1800) for pool in ("bypass", "prefer")]
        return (sum(p["n"] for p in parts), sum(p["failures"] for p in parts),
                parts[0]["error"] or parts[1]["error"])

    cycles(max(options.clients * 16, options.cycles // 10))  # stocks of parts reach their size
    time.sleep(QUIET_SEC)
    before, rss_before = count.take(daemon), daemon_rss_kb(daemon)
    done, failures, error = cycles(options.cycles)
    time.sleep(QUIET_SEC)
    until = time.monotonic() + LEAK_SETTLE_SEC
    while True:
        lines = census.diff(before, count.take(daemon))
        if not lines or time.monotonic() > until:
            break
        time.sleep(1)
    return {"cycles": done, "failures": failures, "error": error, "live": lines,
            "instance": count.instance(daemon), "state": daemon.state,
            "rss_before_kb": rss_before, "rss_after_kb": daemon_rss_kb(daemon),
            "counted": {category: sum(things.values()) for category, things in before.items()}}


def host_census():
    """A census of the whole host, and whether another daemon makes such a comparison meaningless."""
    return {"taken": census.take(), "foreign": bool(census.foreign_states(set()))}


def after_down(before, lost):
    """Item by item against the time before 'cay up'; beside other daemons: only what has our names."""
    reap_orphans()
    left = count.rest(lost["state"], lost["instance"])
    if before["foreign"] or census.foreign_states({lost["state"]}):
        lost["compared"] = "own names only: other daemons run on this host"
        return left
    lost["compared"] = "whole host"
    return left + census.settle(before["taken"], timeout=15)
