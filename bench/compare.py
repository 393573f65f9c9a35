# SPDX-License-Identifier: Apache-2.0
"""Measures cay against the plain system calls and against the alternatives of a user, in one run.

Chunks of all contenders alternate, so that a busy minute of the machine affects all of them alike: compare the ratios.
Needs root; starts a daemon of its own on a temporary state directory.
"""

import argparse
import ctypes
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import time

import commands
import files
import lifecycle
import place
import report
import rivals
import scale
from lib import tree
from lib.daemon import Daemon

SECTIONS = ("latency", "exec", "files", "lifecycle", "throughput", "density", "leak")
PR_SET_CHILD_SUBREAPER = 36
LOAD_QUIET = 0.5  # load average of the last minute, before our own load
REST_SEC = 0.1  # between chunks: network namespaces of the last chunk are removed in the background


class Contender:
    """One row: a command that measures `chunk` iterations and prints their microseconds."""

    def __init__(self, key, label, chunk, argv):
        self.key, self.label, self.chunk, self.argv = key, label, chunk, argv
        self.us, self.failures, self.from_pool, self.note = [], 0, 0, None

    def run(self):
        result = place.run_json(self.argv(self.chunk))
        self.us += result["us"]
        self.failures += result.get("failures", 0)
        self.from_pool += result.get("from_pool", 0)
        if result.get("error"):
            self.note = result["error"]


def load(daemon, mode, count, *more):
    """The command line of the HTTP client against this daemon."""
    return [place.program("httpload"), "--to", daemon.url.split("//", 1)[1].rstrip("/"), "--key",
            daemon.key, *more, mode, str(count)]


def spawn(command=(), *more):
    return lambda n: [place.program("limit"), *more, "spawn", str(n), *command]


def own_contenders(where, daemon, gap_us):
    gap = ("--gap-us", str(gap_us))
    rows = [
        Contender("host_echo", "echo on the host, fork+exec+collect", 10, spawn()),
        Contender("host_echo_paced", f"the same, one every {gap_us // 1000} ms", 10, spawn((), *gap)),
        Contender("limit_cycle", "bare limit: create, echo, destroy", 10,
                  lambda n: where.limit("cycle", n)),
        Contender("limit_ready", "bare limit, parts from stock: the same", 10,
                  lambda n: where.limit("cycle", n, "--ready")),
        Contender("limit_create", "bare limit: create", 10, lambda n: where.limit("create", n)),
    ]
    if daemon is None:
        return rows
    cold, pool = ("--pool", "bypass"), ("--pool", "prefer")
    return rows + [
        Contender("cay_cold", "cay cold: create, echo, delete over HTTP", 10,
                  lambda n: load(daemon, "cycle", n, *cold)),
        Contender("cay_pool", "cay pool: create + echo over HTTP", 10,
                  lambda n: load(daemon, "ready", n, *pool, *gap)),
        Contender("cay_create_cold", "cay cold: create", 10,
                  lambda n: load(daemon, "create", n, *cold)),
        Contender("cay_create_pool", "cay pool: create", 10,
                  lambda n: load(daemon, "create", n, *pool, *gap)),
        Contender("cay_exec", "cay: echo in a running sandbox", 10,
                  lambda n: load(daemon, "exec", n)),
    ]


def rival_contenders(where, docker, names):
    rows, absent = [], {}

    def add(key, label, chunk, command, wrap=lambda argv: argv):
        why = rivals.check(wrap(command))
        if why is not None:
            absent[label] = why
            place.say(f"not measured: {label}: {why}")
            return
        rows.append(Contender(key, label, chunk, lambda n: wrap(spawn(command)(n))))

    if "bwrap" in names:
        add("bwrap", "bwrap --unshare-all", 10, rivals.bwrap(where))
    if "crun" in names:
        add("crun", "crun run", 5, rivals.crun(where), rivals.in_own_mounts)
    if "runc" in names:
        add("runc", "runc run", 4, rivals.runc(where))
    if docker is not None:
        add("docker", "docker run --rm --network none", 2, docker.command())
    return rows, absent


def run_latency(contenders, rounds):
    for number in range(rounds):
        for contender in contenders:
            if contender.note and not contender.us:
                continue  # its first chunk failed: reported once, not in every round
            try:
                contender.run()
            except (place.Trouble, subprocess.TimeoutExpired) as error:
                contender.note = str(error)
                contender.failures += 1
                place.say(f"{contender.label}: {error}")
            time.sleep(REST_SEC)
        done = number + 1
        if done % 5 == 0 or done == rounds:
            medians = {c.key: statistics.median(c.us) / 1e3 for c in contenders if c.us}
            place.say(f"round {done}/{rounds}: " + ", ".join(
                f"{key} {ms:.2f}" for key, ms in medians.items()) + " ms")


def facts():
    commit = subprocess.run(["git", "-C", str(place.SOURCE), "describe", "--always", "--dirty"],
                            capture_output=True, text=True).stdout.strip()
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "memory_mb": int(scale.meminfo()["MemTotal"] / 1024),
        "commit": commit or None,
        "load_before": os.getloadavg()[0],
        "versions": {"bwrap": rivals.version("bwrap", "--version"),
                     "crun": rivals.version("crun", "--version"),
                     "runc": rivals.version("runc", "--version"),
                     "docker": rivals.version("dockerd", "--version")},
    }


def arguments():
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers: a look, not a proof")
    parser.add_argument("--sections", default=",".join(SECTIONS),
                        help=f"comma-separated, of {', '.join(SECTIONS)}")
    parser.add_argument("--rounds", type=int, help="latency, exec: chunks of each contender (30)")
    parser.add_argument("--seconds", type=float, help="throughput, exec: how long (10)")
    parser.add_argument("--clients", type=int, default=8, help="exec, throughput and leak: clients")
    parser.add_argument("--alive", type=int, help="density: sandboxes at once (1000)")
    parser.add_argument("--cycles", type=int, help="leak: cycles (10000)")
    parser.add_argument("--stream-mb", type=int, help="exec: MiB to stream (1024)")
    parser.add_argument("--follows", type=int, help="exec: follow streams at once (500)")
    parser.add_argument("--ptys", type=int, help="exec: terminals at once (200)")
    parser.add_argument("--files-mb", type=int, help="files: MiB up and down (4096)")
    parser.add_argument("--small-files", type=int, help="files: how many small ones (10000)")
    parser.add_argument("--grep-mb", type=int, help="files: MiB to search (1024)")
    parser.add_argument("--changed-mb", type=int, help="lifecycle: MiB changed before a snapshot (5120)")
    parser.add_argument("--gap-ms", type=int, default=20, help="pacing of the pool's rows")
    parser.add_argument("--rivals", default="bwrap,crun,runc,docker",
                        help="which of them (empty: none)")
    parser.add_argument("--no-cay", action="store_true", help="limit and rivals only")
    parser.add_argument("--out", default=str(place.SOURCE / "out"), help="directory of the results")
    options = parser.parse_args()
    small = options.quick
    options.rounds = options.rounds or (5 if small else 30)
    options.seconds = options.seconds or (3 if small else 10)
    options.alive = options.alive or (100 if small else 1000)
    options.cycles = options.cycles or (500 if small else 10000)
    options.stream_mb = options.stream_mb or (256 if small else 1024)
    options.follows = options.follows or (100 if small else 500)
    options.ptys = options.ptys or (40 if small else 200)
    options.files_mb = options.files_mb or (512 if small else 4096)
    options.small_files = options.small_files or (2000 if small else 10000)
    options.grep_mb = options.grep_mb or (128 if small else 1024)
    options.changed_mb = options.changed_mb or (512 if small else 5120)
    options.life_rounds, options.hundred_rounds = (10, 2) if small else (40, 5)
    options.file_rounds, options.large_rounds = (2, 3) if small else (3, 5)
    options.sections = [s for s in options.sections.split(",") if s]
    options.rivals = [r for r in options.rivals.split(",") if r]
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown section {', '.join(sorted(unknown))}")
    return options


def latency(where, daemon, options, result):
    docker = None
    rivals.install([{"docker": "dockerd"}.get(n, n) for n in options.rivals])
    try:
        if "docker" in options.rivals:
            docker = rivals.Docker(where)
            try:
                docker.start()
            except (place.Trouble, OSError, subprocess.CalledProcessError) as error:
                place.say(f"not measured: docker: {error}")
                result["absent"]["docker run --rm --network none"] = str(error)
                docker.stop()
                docker = None
        rows, absent = rival_contenders(where, docker, options.rivals)
        result["absent"].update(absent)
        contenders = own_contenders(where, daemon, options.gap_ms * 1000) + rows
        run_latency(contenders, options.rounds)
        result["latency"] = [report.row(c) for c in contenders]
        result["limit_storage"] = "loop btrfs, one subvolume per sandbox"
    finally:
        if docker is not None:
            docker.stop()


def measure(where, options, result):
    # The leak check compares the host before the daemon with the host after it, too.
    before = scale.host_census()
    daemon = None
    try:
        if not options.no_cay:
            daemon = Daemon()
            daemon.up()
        if "latency" in options.sections:
            latency(where, daemon, options, result)
        if daemon is not None and "exec" in options.sections:
            result["exec"] = commands.measure(where, daemon, options, load, result)
        if daemon is not None and "files" in options.sections:
            result["files"] = files.measure(where, daemon, options)
        if daemon is not None and "lifecycle" in options.sections:
            result["lifecycle"] = lifecycle.measure(daemon, options)
        if daemon is not None and "throughput" in options.sections:
            result["throughput"] = scale.throughput(where, daemon, options, load)
        if daemon is not None and "density" in options.sections:
            result["density"] = scale.density(where, daemon, options, load)
        if daemon is not None and "leak" in options.sections:
            result["leak"] = scale.leak(daemon, options, load)
    finally:
        if daemon is not None:
            if not daemon.close():
                place.say("the daemon did not stop by itself")
    if "leak" in result:
        result["leak"]["after_down"] = scale.after_down(before, result["leak"])


def main():
    options = arguments()
    if os.geteuid() != 0:
        raise place.Trouble("the bench needs root: namespaces, cgroups, a loop device")
    missing = [] if options.no_cay else tree.missing_programs()
    if missing:
        raise place.Trouble(f"not built: {', '.join(missing)}; run 'make' first")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also when started with it ignored
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Orphans of the container tools are reparented to us, not to a pid 1 that may not reap them.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    result = {"facts": facts(), "options": vars(options), "absent": {}}
    if result["facts"]["load_before"] > LOAD_QUIET:
        place.say(f"the machine is busy (load {result['facts']['load_before']:.1f}): even ratios move")
    with place.Place() as where:
        try:
            measure(where, options, result)
        finally:
            scale.reap_orphans()
    bars = report.bars(result) + commands.bars(result) + files.bars(result) + lifecycle.bars(result)
    result["bars"] = bars
    report.write(result, pathlib.Path(options.out))
    report.show(result, commands.show, files.show, lifecycle.show)
    return 0 if all(bar["pass"] is not False for bar in bars) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except place.Trouble as trouble:
        place.say(f"bench: {trouble}")
        sys.exit(2)
    except KeyboardInterrupt:
        place.say("stopped")
        sys.exit(130)
