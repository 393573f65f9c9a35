# SPDX-License-Identifier: Apache-2.0
"""Commands in a running sandbox: their cost, the throughput of output, and many streams at once."""

import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import threading
import time

import crowd
import place
import report
import rivals
import scale
from lib import census

CHUNK = 20
DOCKER_CHUNK = 2
STREAM = "cat /dev/zero | head -c %d"
PROBE = "/usr/local/bin/exec-probe"
RSS_STEP_SEC = 0.02


class Sampler:
    """The largest RSS of some processes during a with block, relative to before."""

    def __init__(self, pids):
        self.before = {name: scale.rss_kb(pid) for name, pid in pids.items()}
        self.most = dict(self.before)
        self.pids = pids
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.stop.wait(RSS_STEP_SEC):
            for name, pid in self.pids.items():
                try:
                    self.most[name] = max(self.most[name], scale.rss_kb(pid))
                except (OSError, TypeError):
                    pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.thread.join()

    def growth_kb(self):
        return {name: self.most[name] - kb for name, kb in self.before.items()}


def agent_pid(sandbox):
    """It is pid 1 inside."""
    for pid in census.sandbox_pids(sandbox):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        if re.search(r"^NSpid:.*\s1$", status, re.M):
            return pid
    raise place.Trouble("the sandbox's agent is not to be found")


def with_probe(client, **body):
    """A sandbox with the program for the direct measurement in it."""
    box = client.sandbox(timeout_sec=86400, **body).__enter__()
    box.put(PROBE, pathlib.Path(place.program("exec-probe")).read_bytes())
    return box


# -- latency --------------------------------------------------------------------------------------

class DockerBox:
    """A container that sleeps, to exec in."""

    def __init__(self, where):
        self.docker = rivals.Docker(where)
        try:
            self.docker.start()
            tar = subprocess.run(
                ["tar", "-C", place.rootfs(), "-c", "--dereference", "--hard-dereference", "bin/true",
                 "bin/sleep", "lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/libc.so.6"],
                check=True, capture_output=True)
            for argv, data in ((("import", "-", "exec"), tar.stdout),
                               (("run", "-d", "--network", "none", "--name", "box", "exec",
                                 "/bin/sleep", "86400"), None)):
                subprocess.run(self.docker.client(*argv), input=data, check=True, capture_output=True)
        except BaseException:
            self.stop()
            raise

    def run(self, count):
        argv = self.docker.client("exec", "box", "/bin/true")
        return place.run_json([place.program("exec-probe"), "bare", str(count), *argv])["us"]

    def stop(self):
        if self.docker.process is not None and self.docker.process.poll() is None:
            subprocess.run(self.docker.client("rm", "-f", "box"), capture_output=True, timeout=60)
        self.docker.stop()


def start_docker(where, options, result):
    if "docker" not in options.rivals:
        return None
    rivals.install(["dockerd"])
    try:
        return DockerBox(where)
    except (place.Trouble, OSError, subprocess.SubprocessError) as error:
        place.say(f"not measured: docker exec: {error}")
        result["absent"]["docker exec"] = str(error)
        return None


def latency(where, daemon, options, load, result):
    """Chunks of direct, our and Docker's executions alternate, in one sandbox each."""
    box = with_probe(daemon.client)
    docker = start_docker(where, options, result)
    bare, ours, rival, failures = [], [], [], 0
    try:
        for number in range(options.rounds):
            bare += json.loads(box.exec([PROBE, "bare", str(CHUNK), "/bin/true"]).ok().stdout)["us"]
            run = place.run_json(load(daemon, "exec", CHUNK, "--box", box.id, "--program", "/bin/true"))
            ours += run["us"]
            failures += run["failures"]
            if docker is not None:
                rival += docker.run(DOCKER_CHUNK)
            if (number + 1) % 10 == 0:
                place.say(f"exec round {number + 1}/{options.rounds}: bare {statistics.median(bare) / 1e3:.2f}, "
                          f"cay {statistics.median(ours) / 1e3:.2f} ms")
    finally:
        box.__exit__()
        if docker is not None:
            docker.stop()
    found = {"failures": failures}
    for name, us in (("bare", bare), ("cay", ours), ("docker", rival)):
        if us:
            found[name] = {"n": len(us), "p50_us": statistics.median(us), "p99_us": report.quantile(us, 0.99)}
    return found


def parallel(daemon, options, load):
    """Commands per second with one client and with eight, each with a separate sandbox; alternating."""
    rates, failures = {1: [], options.clients: []}, 0
    for _ in range(3):
        for clients in rates:
            run = place.run_json(load(daemon, "exec", 0, "--program", "/bin/true", "--clients", str(clients),
                                      "--seconds", str(options.seconds / 3), "--no-samples"))
            rates[clients].append(run["per_second"])
            failures += run["failures"]
    one, many = (statistics.median(r) for r in rates.values())
    return {"clients": options.clients, "one_per_second": one, "many_per_second": many, "failures": failures}


# -- streaming ------------------------------------------------------------------------------------

def drain(daemon, box, size, form):
    """Starts the command, which waits for a line; the reader connects, sends it and counts."""
    row = daemon.client.call("POST", f"/v1/sandboxes/{box.id}/processes",
                             {"command": "read go; " + STREAM % size, "timeout_sec": 600})
    path = f"/v1/sandboxes/{box.id}/processes/{row['process_id']}"
    try:
        done = place.run_json([place.program("exec-probe"), "drain", daemon.url.split("//", 1)[1].rstrip("/"),
                               daemon.key, path + f"/output?follow=true&hold=true&stream=stdout&format={form}",
                               path + "/stdin"])
        end = daemon.client.call("GET", path)
        if end["stdout_cursor"] != size:
            raise place.Trouble(f"the stream ended at {end['stdout_cursor']} of {size}: {end}")
    finally:
        daemon.client.call("DELETE", path)
    done["whole"] = done["complete"] and (form != "raw" or done["bytes"] == size)
    return done


def through_cli(daemon, box, size, inwards):
    """Seconds for that many bytes through `cay exec | cat`, or `cay exec -i <file`; None: some were missing."""
    words = [daemon.cay, "--state", daemon.state, "exec", "--timeout", "0", *(["-i"] if inwards else []), box.id, "--"]
    with tempfile.TemporaryFile(dir="/dev/shm") as data:
        if inwards:
            data.truncate(size)
        started = time.monotonic()
        child = subprocess.Popen([*words, *(["wc", "-c"] if inwards else ["sh", "-c", STREAM % size])], env=daemon.env,
                                 stdin=data, stdout=subprocess.PIPE)
        seen = subprocess.run(["cat"] if inwards else ["wc", "-c"], stdin=child.stdout, capture_output=True, text=True)
        seconds = time.monotonic() - started
        return seconds if child.wait() == 0 and int(seen.stdout) == size else None


def streaming(daemon, options):
    size = options.stream_mb << 20
    box = with_probe(daemon.client, cpu_count=2)
    pids = {"cayd": daemon.pids()["cayd"], "agent": agent_pid(box.id)}
    rates = {"pair": [], "pair_host": [], "raw": [], "sse": [], "cli": [], "cli_in": []}
    broken = 0
    try:
        with Sampler(pids) as memory:
            for _ in range(5):
                inside = json.loads(box.exec([PROBE, "pair", STREAM % size]).ok().stdout)
                host = place.run_json([place.program("exec-probe"), "pair", STREAM % size])
                raw = drain(daemon, box, size, "raw")
                broken += not raw["whole"]
                for name, run in (("pair", inside), ("pair_host", host), ("raw", raw)):
                    rates[name].append(size / run["seconds"])
                for name in ("cli", "cli_in"):
                    seconds = through_cli(daemon, box, size, name == "cli_in")
                    broken += seconds is None
                    rates[name].append(size / seconds if seconds else 0)
            sse = drain(daemon, box, size // 4, "sse")
            rates["sse"].append(size // 4 / sse["seconds"])
    finally:
        box.__exit__()
    found = {name: statistics.median(values) / 2**20 for name, values in rates.items()}
    found.update(size_mb=options.stream_mb, broken=broken, growth_kb=memory.growth_kb())
    return found


# -- together -------------------------------------------------------------------------------------

def measure(where, daemon, options, load, result):
    place.say("exec: latency")
    found = {"latency": latency(where, daemon, options, load, result)}
    place.say(f"exec: {options.clients} clients")
    found["parallel"] = parallel(daemon, options, load)
    place.say("exec: streaming")
    found["streaming"] = streaming(daemon, options)
    place.say(f"exec: {options.follows} follows, {options.ptys} terminals")
    found["crowd"] = crowd.measure(daemon, options)
    return found


def bars(result):
    if "exec" not in result:
        return []
    e = result["exec"]
    p50 = {name: run["p50_us"] for name, run in e["latency"].items() if isinstance(run, dict)}
    flow, many, crowd_ = e["streaming"], e["parallel"], e["crowd"]
    return [
        report.bar("exec of /bin/true / bare vfork+exec+wait inside", p50["cay"] / p50["bare"], 1.6),
        report.bar("docker exec / exec", p50["docker"] / p50["cay"] if "docker" in p50 else None, 10.0, False),
        report.bar(f"exec: {many['clients']} clients / 1 client, commands a second",
                   many["many_per_second"] / many["one_per_second"], 1.5, False),
        report.bar("exec: failed requests", e["latency"]["failures"] + many["failures"], 0, True, ""),
        report.bar("stream to a client / socket pair inside", flow["raw"] / flow["pair"], 0.5, False),
        report.bar("cay exec to a pipe / socket pair inside", flow["cli"] / flow["pair"], 0.3, False),
        report.bar("cay exec -i from a file / socket pair inside", flow["cli_in"] / flow["pair"], 0.2, False),
        report.bar("streams that lost something", flow["broken"], 0, True, ""),
        report.bar("growth of cayd while streaming", flow["growth_kb"]["cayd"] / 1024, 8, True, " MiB"),
        report.bar("growth of the agent while streaming", flow["growth_kb"]["agent"] / 1024, 8, True, " MiB"),
        report.bar(f"follows ({crowd_['follows']}) and terminals ({crowd_['ptys']}) that failed",
                   crowd_["failed"], 0, True, ""),
        report.bar("follow latency with a stalled reader / without", crowd_["follow_stalled_us"] / crowd_["follow_us"], 1.3),
        report.bar("terminal latency with a stalled reader / without", crowd_["pty_stalled_us"] / crowd_["pty_us"], 1.3),
    ]


def show(result):
    if "exec" not in result:
        return
    e = result["exec"]
    bare = e["latency"]["bare"]["p50_us"]
    for name, label in (("bare", "vfork, exec, wait of /bin/true inside"), ("cay", "cay exec over HTTP keep-alive"),
                        ("docker", "docker exec")):
        run = e["latency"].get(name)
        if run:
            print(f"{label:44}{run['n']:>6}{run['p50_us'] / 1e3:>9.2f}{run['p99_us'] / 1e3:>9.2f}"
                  f"{run['p50_us'] / bare:>9.2f} x bare")
    m, s, c = e["parallel"], e["streaming"], e["crowd"]
    print(f"exec, {m['clients']} clients: {m['many_per_second']:.0f} commands/s, one client {m['one_per_second']:.0f}/s")
    print(f"streaming {s['size_mb']} MiB: {s['raw']:.0f} MiB/s to a client, socket pair inside {s['pair']:.0f}, on the host "
          f"{s['pair_host']:.0f}, as events {s['sse']:.0f}, cay exec {s['cli']:.0f}, cay exec -i {s['cli_in']:.0f}; growth cayd {s['growth_kb']['cayd']} kB, agent {s['growth_kb']['agent']} kB")
    print(f"{c['follows']} follows, {c['ptys']} terminals: line to a follower {c['follow_us'] / 1e3:.2f} ms (p99 "
          f"{c['follow_p99_us'] / 1e3:.2f}), with a stalled reader {c['follow_stalled_us'] / 1e3:.2f} (p99 "
          f"{c['follow_stalled_p99_us'] / 1e3:.2f}); key to its echo {c['pty_us'] / 1e3:.2f} and "
          f"{c['pty_stalled_us'] / 1e3:.2f} ms; cayd {c['rss_kb'] / 1024:.1f} MiB")


