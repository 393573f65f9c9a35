# SPDX-License-Identifier: Apache-2.0
"""Pausing, snapshots, forks and hibernation through the API; compared operations alternate."""

import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import place
import report
from lib.daemon import Daemon

CRIU = os.environ.get("CAY_CRIU", "/var/lib/cay/criu")

SMALL_MB = 5
FILL = "head -c {mb}M /dev/urandom > /workspace/data && sync"
TOUCH = "head -c 64K /dev/urandom > /workspace/touched"


def timed(call, *args, **kw):
    start = time.monotonic()
    answer = call(*args, **kw)
    return (time.monotonic() - start) * 1000, answer


def summary(ms):
    return {"n": len(ms), "p50_ms": statistics.median(ms), "p99_ms": report.quantile(ms, 0.99),
            "ms": [round(v, 3) for v in ms]}


class Life:
    """One sandbox and its state transitions."""

    def __init__(self, client, **body):
        self.client = client
        self.id = client.create(timeout_sec=86400, **body)["id"]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.client.delete(self.id)

    def exec(self, command, **body):
        return self.client.exec(self.id, command, **body).ok().stdout

    def post(self, what, **body):
        return self.client.call("POST", f"/v1/sandboxes/{self.id}/{what}", body)

    def forget(self, snapshot):
        self.client.call("DELETE", f"/v1/snapshots/{snapshot['id']}")


def freeze(client, options):
    pause, resume = [], []
    with Life(client) as box:
        for _ in range(options.life_rounds * 10):
            pause.append(timed(box.post, "pause", kind="freeze")[0])
            resume.append(timed(box.post, "resume")[0])
        box.exec("true")
    return {"pause": summary(pause), "resume": summary(resume), "both": summary([p + r for p, r in zip(pause, resume)])}


def snapshots(client, options):
    """All but 64 KiB is already on disk: the first snapshot of much data writes it out before the freeze, which only
    measures the disk."""
    times = {"small": [], "large": []}
    with Life(client) as small, Life(client, disk_size_mb=10240, memory_mb=2048) as large:
        small.exec(FILL.format(mb=SMALL_MB))
        large.exec(FILL.format(mb=options.changed_mb), timeout_sec=1200)
        for box in (small, large):
            box.forget(box.post("snapshots"))
        sizes = {}
        for _ in range(options.life_rounds):
            for name, box in (("small", small), ("large", large)):
                box.exec(TOUCH)
                ms, row = timed(box.post, "snapshots")
                times[name].append(ms)
                sizes[name] = row["size_bytes"]
                box.forget(row)
    found = {name: summary(ms) for name, ms in times.items()}
    found.update(changed_mb=options.changed_mb, whole=sizes["large"] >= options.changed_mb << 20)
    return found


def fork(client, options):
    """Until the end of the first command in the fork, compared with a sandbox that is created cold."""
    times = {"fork": [], "cold": [], "hundred": []}
    wrong = 0
    with Life(client) as source:
        source.exec("echo shared > /workspace/shared")

        def child():
            made = source.post("fork", count=1)["data"][0]["id"]
            return made, client.exec(made, ["/bin/cat", "/workspace/shared"]).stdout

        def cold():
            made = client.create(pool={"mode": "bypass"})["id"]
            return made, client.exec(made, ["/bin/echo", "shared"]).stdout

        for _ in range(options.life_rounds):
            for name, make in (("cold", cold), ("fork", child)):
                ms, (made, said) = timed(make)
                times[name].append(ms)
                wrong += said != "shared\n"
                client.delete(made)
        for _ in range(options.hundred_rounds):
            ms, answer = timed(source.post, "fork", count=100)
            times["hundred"].append(ms)
            children = [c["id"] for c in answer["data"] if "id" in c]
            wrong += 100 - len(set(children))
            for made in children:
                wrong += client.exec(made, ["/bin/cat", "/workspace/shared"]).stdout != "shared\n"
                client.delete(made)
    found = {name: summary(ms) for name, ms in times.items()}
    found["wrong"] = wrong
    return found


def hibernate(client, options):
    down, up = [], []
    with Life(client) as box:
        box.exec("echo kept > /workspace/kept")
        kept = 0
        for _ in range(options.life_rounds):
            ms, row = timed(box.post, "pause", kind="hibernate")
            down.append(ms)
            up.append(timed(box.post, "resume")[0])
            kept += box.exec("cat /workspace/kept") == "kept\n"
    return {"down": summary(down), "up": summary(up), "lost": options.life_rounds - kept,
            "memory_preserved": row["memory_preserved"]}


PYTHON = """
import sys, time
kept = bytearray(%d << 20)
for i in range(0, len(kept), 4096):
    kept[i] = i >> 12 & 255
n = 0
while True:
    n += 1
    print(n, flush=True)
    time.sleep(0.05)
"""
MEMORY_MB = 200


MEMORY_CHILDREN = 8
# Timings of a process with memory: key, and name in the table.
MEMORY_ROWS = (("down", f"hibernate, Python with {MEMORY_MB} MiB"), ("up", "resume of it"), ("taken", "snapshot with its memory"),
               ("restored", "restore of that in place"), ("made", "new sandbox from it"), ("forked", "fork of one child with its memory"),
               ("forks", f"fork of {MEMORY_CHILDREN} children, one call"))


def copies(box, printed, times):
    """One snapshot, sandboxes created from it, and forks. Returns the number of failures."""
    wrong = 0
    before = printed(box.id)
    ms, snapshot = timed(box.post, "snapshots", memory=True)
    times["taken"].append(ms)
    wrong += not snapshot["memory_preserved"]
    times["restored"].append(timed(box.post, "restore", snapshot_id=snapshot["id"])[0])
    wrong += printed(box.id) < before
    ms, made = timed(box.client.create, snapshot_id=snapshot["id"])
    times["made"].append(ms)
    rows = [made]
    for key, count in (("forked", 1), ("forks", MEMORY_CHILDREN)):
        ms, answer = timed(box.post, "fork", count=count, memory=True)
        times[key].append(ms)
        rows += answer["data"]
    for row in rows:
        wrong += "id" not in row or printed(row["id"]) < before
        if "id" in row:
            box.client.delete(row["id"])
    box.forget(snapshot)
    return wrong


def memory(client, options):
    """A Python process with this much memory: hibernated, resumed and copied."""
    times, wrong = {key: [] for key, _ in MEMORY_ROWS}, 0
    with Life(client) as box:
        box.exec(f"cat > /workspace/p.py <<'END'\n{PYTHON % MEMORY_MB}\nEND")
        process = box.post("processes", argv=["python3", "/workspace/p.py"])["process_id"]

        def printed(sandbox):
            body = client.call("GET", f"/v1/sandboxes/{sandbox}/processes/{process}/output?format=json&tail=200")
            numbers = body["stdout"].split()
            return int(numbers[-1]) if numbers else 0
        while printed(box.id) < 1:
            time.sleep(0.05)
        for _ in range(max(options.life_rounds // 4, 5)):
            before = printed(box.id)
            ms, row = timed(box.post, "pause", kind="hibernate")
            times["down"].append(ms)
            times["up"].append(timed(box.post, "resume")[0])
            wrong += not row["memory_preserved"] or printed(box.id) < before
            wrong += copies(box, printed, times)
    return {"wrong": wrong, "mb": MEMORY_MB, **{key: summary(ms) for key, ms in times.items()}}


def with_memory(options):
    """With a separate daemon, because all others run without CRIU. None if that does not work."""
    with Daemon(env={"CAY_CRIU": CRIU}) as daemon:
        until = time.monotonic() + 30
        while "snapshot_memory" not in daemon.client.capabilities("native"):
            if time.monotonic() > until:
                return None
            time.sleep(0.1)
        return memory(daemon.client, options)


def bare_memory(options):
    """The limit: CRIU alone on the same program, without namespaces, cgroups or a copy of files."""
    criu = [f"{CRIU}/usr/lib64/ld-linux-x86-64.so.2", "--library-path", f"{CRIU}/usr/lib/x86_64-linux-gnu",
            f"{CRIU}/usr/sbin/criu"]
    down, up = [], []
    for _ in range(max(options.life_rounds // 4, 5)):
        with tempfile.TemporaryDirectory(prefix="cay-bench-criu-", dir="/var/tmp") as where:
            with open(f"{where}/out", "wb") as out:
                child = subprocess.Popen(["/usr/bin/python3", "-c", PYTHON % MEMORY_MB], stdin=subprocess.DEVNULL,
                                         stdout=out, stderr=subprocess.DEVNULL, start_new_session=True)
            while not os.path.getsize(f"{where}/out"):
                time.sleep(0.05)
            down.append(timed(subprocess.run, [*criu, "dump", "-t", str(child.pid), "-D", where, "-o", "log"],
                              check=True, capture_output=True)[0])
            child.wait()
            up.append(timed(subprocess.run, [*criu, "restore", "-d", "-D", where, "-o", "log2"],
                            check=True, capture_output=True)[0])
            os.kill(child.pid, signal.SIGKILL)  # its number is the one it had
    return {"down": summary(down), "up": summary(up), "mb": MEMORY_MB}


def rivals_say():
    """Why other tools have no row, or what one would need."""
    if not shutil.which("dockerd"):
        docker = "docker checkpoint: not run, no dockerd here"
    else:
        docker = ("docker checkpoint: not run, it calls the criu of the host, and Debian 12's 3.17 does not work on "
                  "kernels from 6.13 on")
    return [docker, "runsc checkpoint: not run, " + ("needs a pod of its own" if shutil.which("runsc") else "not installed")]


def measure(daemon, options):
    client, found = daemon.client, {}
    for name, part in (("freeze", freeze), ("snapshots", snapshots), ("fork", fork), ("hibernate", hibernate)):
        place.say(f"life cycle: {name}")
        found[name] = part(client, options)
    if os.access(f"{CRIU}/usr/sbin/criu", os.X_OK):
        place.say("life cycle: memory")
        found["memory"] = with_memory(options)
        found["bare_memory"] = bare_memory(options)
    return found


def bars(result):
    if "lifecycle" not in result:
        return []
    life = result["lifecycle"]
    taking, forks = life["snapshots"], life["fork"]
    size = f"{taking['changed_mb']} MiB"
    return [
        report.bar("freeze + resume, p50", life["freeze"]["both"]["p50_ms"], 5, True, " ms"),
        report.bar(f"snapshot with {size} changed, p50", taking["large"]["p50_ms"], 20, True, " ms"),
        report.bar(f"  the same / with {SMALL_MB} MiB changed", taking["large"]["p50_ms"] / taking["small"]["p50_ms"], 1.5),
        report.bar("fork to first exec / cold create to first exec", forks["fork"]["p50_ms"] / forks["cold"]["p50_ms"], 2),
        report.bar("100 children from one call, p50", forks["hundred"]["p50_ms"] / 1000, 1, True, " s"),
        report.bar("children, files or sandboxes that are not whole",
                   forks["wrong"] + life["hibernate"]["lost"] + (life.get("memory") or {"wrong": 0})["wrong"] + int(not taking["whole"]), 0, True, ""),
    ]


def show_memory(life):
    if not life.get("memory"):
        print("hibernation keeps the files, not the processes: there is no CRIU that works here")
        return
    for label, run in ((label, life["memory"][key]) for key, label in MEMORY_ROWS):
        print(f"{label:44}{run['n']:>6}{run['p50_ms']:>9.2f}{run['p99_ms']:>9.2f}")
    if life.get("bare_memory"):
        for label, run in (("  the limit: criu dump of the same, bare", life["bare_memory"]["down"]),
                           ("  criu restore", life["bare_memory"]["up"])):
            print(f"{label:44}{run['n']:>6}{run['p50_ms']:>9.2f}{run['p99_ms']:>9.2f}")
    for line in rivals_say():
        print("  " + line)


def show(result):
    if "lifecycle" not in result:
        return
    life = result["lifecycle"]
    size = f"{life['snapshots']['changed_mb']} MiB"
    rows = [("pause (freeze)", life["freeze"]["pause"]), ("resume of it", life["freeze"]["resume"]),
            ("freeze + resume", life["freeze"]["both"]), (f"snapshot, {SMALL_MB} MiB changed", life["snapshots"]["small"]),
            (f"snapshot, {size} changed", life["snapshots"]["large"]),
            ("cold create to first exec", life["fork"]["cold"]), ("fork of one child to first exec", life["fork"]["fork"]),
            ("fork of 100 children, one call", life["fork"]["hundred"]), ("hibernate", life["hibernate"]["down"]),
            ("resume of it", life["hibernate"]["up"])]
    print(f"{'life cycle, over HTTP keep-alive':44}{'n':>6}{'p50 ms':>9}{'p99 ms':>9}")
    for label, run in rows:
        print(f"{label:44}{run['n']:>6}{run['p50_ms']:>9.2f}{run['p99_ms']:>9.2f}")
    show_memory(life)
    print()
