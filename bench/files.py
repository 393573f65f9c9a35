# SPDX-License-Identifier: Apache-2.0
"""Files of a running sandbox: large ones in both directions, many small ones, search. Each alternates with the
sandbox's own programs for the same work on the same file system."""

import io
import json
import os
import statistics
import subprocess
import tarfile
import time

import commands
import place
import report
from lib.files import Files

ROUNDS = 5
SMALL_BYTES = 1024
SMALL_PER_DIR = 100
WORKDIR = "/workspace/bench"

# head and cat with a Unix socket pair between them; zeroes, as the client sends them.
PAIR = """
import json, os, socket, subprocess, sys, time
size, target = int(sys.argv[1]), sys.argv[2]
a, b = socket.socketpair()
if os.path.exists(target) and not target.startswith("/dev/"):
    os.unlink(target)
start = time.monotonic()
out = open(target, "wb")
left = subprocess.Popen(["head", "-c", str(size), "/dev/zero"], stdout=a)
right = subprocess.Popen(["cat"], stdin=b, stdout=out)
a.close(); b.close()
assert left.wait() == 0 and right.wait() == 0
print(json.dumps({"seconds": time.monotonic() - start}))
"""

TEXT = """
import os, random, sys
chance = random.Random(7)
words = ["".join(chance.choice("abcdefghijklmnopqrstuvwxyz_") for _ in range(chance.randint(2, 12)))
         for _ in range(4000)]
block = []
for _ in range(64):
    lines = [" ".join(chance.choices(words, k=chance.randint(3, 14))) for _ in range(250)]
    block.append("\\n".join(lines) + "\\n")
for number in range(int(sys.argv[1])):
    directory = f"{sys.argv[2]}/d{number % 50}"
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/f{number}.txt", "w") as f:
        while f.tell() < 1 << 20:
            f.write(chance.choice(block))
        if number % 7 == 0:
            f.write(f"a needle{number}x in it\\n")
"""
PATTERN = r"needle[0-9]+x\b"


def timed(call, *args, **kw):
    start = time.monotonic()
    answer = call(*args, **kw)
    return time.monotonic() - start, answer


def settle(box):
    """Writes out what one side left dirty, so that the other does not pay for it."""
    box.exec("sync").ok()


# -- large ----------------------------------------------------------------------------------------

def copy(daemon, *words, **kw):
    done = subprocess.run([daemon.cay, "--state", daemon.state, "-q", "cp", *words], env=daemon.env,
                          stderr=subprocess.PIPE, **kw)
    if done.returncode != 0:
        raise place.Trouble(f"cay cp {' '.join(words)}: {done.stderr.decode()[-300:]}")


def large(where, daemon, options):
    size = options.files_mb << 20
    source = os.path.join(where.path, "large")
    with open(source, "wb") as f:
        f.truncate(size)
    box = daemon.client.sandbox(timeout_sec=86400, cpu_count=2, memory_mb=4096, disk_size_mb=10240).__enter__()
    pids = {"cayd": daemon.pids()["cayd"], "agent": commands.agent_pid(box.id)}
    rates = {"pair": [], "pair_null": [], "up": [], "down": []}

    def pair(target):
        return json.loads(box.exec(["python3", "-c", PAIR, str(size), target], timeout_sec=600).ok().stdout)["seconds"]
    try:
        box.exec(f"mkdir -p {WORKDIR}").ok()
        with commands.Sampler(pids) as memory:
            for number in range(options.large_rounds):
                rates["pair"].append(pair(f"{WORKDIR}/pair"))
                settle(box)
                box.exec(f"rm -f {WORKDIR}/pair {WORKDIR}/up").ok()
                rates["up"].append(timed(copy, daemon, source, f"{box.id}:{WORKDIR}/up")[0])
                settle(box)
                rates["pair_null"].append(pair("/dev/null"))
                with open("/dev/null", "wb") as null:
                    rates["down"].append(timed(copy, daemon, f"{box.id}:{WORKDIR}/up", "-", stdout=null)[0])
                place.say(f"files, {options.files_mb} MiB, round {number + 1}: " + ", ".join(
                    f"{name} {size / 2**20 / seconds[-1]:.0f}" for name, seconds in rates.items()) + " MiB/s")
        held = Files(box).get("stat", path=f"{WORKDIR}/up")["size"]
    finally:
        box.__exit__()
        os.unlink(source)
    found = {name: size / 2**20 / statistics.median(seconds) for name, seconds in rates.items()}
    # Per round: a busy minute affects both of its sides.
    for name in ("up", "down"):
        found[name + "_ratio"] = statistics.median(p / s for p, s in zip(rates["pair"], rates[name]))
    found.update(size_mb=options.files_mb, whole=held == size, growth_kb=memory.growth_kb())
    return found


# -- small ----------------------------------------------------------------------------------------

def small_tar(count):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for number in range(count):
            info = tarfile.TarInfo(f"d{number // SMALL_PER_DIR}/f{number}")
            info.size = SMALL_BYTES
            archive.addfile(info, io.BytesIO((b"%d " % number).ljust(SMALL_BYTES, b"x")))
    return out.getvalue()


def small(daemon, options):
    count = options.small_files
    body = small_tar(count)
    box = daemon.client.sandbox(timeout_sec=86400, cpu_count=2, memory_mb=2048).__enter__()
    files = Files(box)
    took = {"archive": [], "archive_out": [], "tar": [], "each": []}
    try:
        box.exec(f"mkdir -p {WORKDIR}").ok()
        for number in range(options.file_rounds):
            seconds, (_, answer) = timed(files.put, f"{WORKDIR}/in{number}", body, op="archive")
            if answer["entries"] < count or answer["failed_count"]:
                raise place.Trouble(f"the archive came in with {answer}")
            took["archive"].append(seconds)
            inside = box.exec(f"mkdir {WORKDIR}/tar{number} && cd {WORKDIR}/in{number} && start=$(date +%s%N) && "
                              f"tar c . | tar x -C {WORKDIR}/tar{number} && echo $(($(date +%s%N) - start))")
            took["tar"].append(int(inside.ok().stdout) / 1e9)
            took["archive_out"].append(timed(files.archive, f"{WORKDIR}/in{number}", format="tar")[0])
        each = max(count // options.file_rounds, 100)
        seconds, _ = timed(lambda: [files.put(f"{WORKDIR}/each/d{n // SMALL_PER_DIR}/f{n}", b"x" * SMALL_BYTES)
                                    for n in range(each)])
        took["each"].append(seconds * count / each)
        left = int(box.exec(f"find {WORKDIR}/in0 -type f | wc -l").ok().stdout)
    finally:
        box.__exit__()
    found = {name: statistics.median(seconds) for name, seconds in took.items()}
    found.update(count=count, whole=left == count)
    return found


# -- search ---------------------------------------------------------------------------------------

def search(daemon, options):
    box = daemon.client.sandbox(timeout_sec=86400, cpu_count=2, memory_mb=4096).__enter__()
    files = Files(box)
    took = {"cay": [], "grep": []}
    try:
        box.exec(["python3", "-c", TEXT, str(options.grep_mb), f"{WORKDIR}/tree"], timeout_sec=600).ok()
        for _ in range(ROUNDS):
            inside = box.exec(f"cd {WORKDIR} && start=$(date +%s%N) && grep -rnP '{PATTERN}' tree >/tmp/found; "
                              "echo $(($(date +%s%N) - start))", timeout_sec=600)
            took["grep"].append(int(inside.ok().stdout) / 1e9)
            seconds, answer = timed(files.post, "grep", pattern=PATTERN, path=f"{WORKDIR}/tree", max_matches=10000,
                                    timeout_sec=600)
            took["cay"].append(seconds)
        theirs = sorted(line.split(":", 2)[:2] for line in box.exec("cat /tmp/found").ok().stdout.splitlines())
        ours = sorted([m["path"][len(WORKDIR) + 1:], str(m["line"])] for m in answer["data"])
    finally:
        box.__exit__()
    return {"cay": statistics.median(took["cay"]), "grep": statistics.median(took["grep"]), "size_mb": options.grep_mb,
            "matches": len(ours), "same": ours == theirs and not answer["truncated"]}


# -- together -------------------------------------------------------------------------------------

def measure(where, daemon, options):
    place.say(f"files: {options.files_mb} MiB up and down")
    found = {"large": large(where, daemon, options)}
    place.say(f"files: {options.small_files} small ones")
    found["small"] = small(daemon, options)
    place.say(f"files: grep over {options.grep_mb} MiB")
    found["search"] = search(daemon, options)
    return found


def bars(result):
    if "files" not in result:
        return []
    big, tiny, text = (result["files"][name] for name in ("large", "small", "search"))
    size = f"{big['size_mb']} MiB"
    return [
        report.bar(f"upload of {size} / socket pair into the same file system", big["up_ratio"], 0.6, False),
        report.bar(f"download of {size} / the same", big["down_ratio"], 0.6, False),
        report.bar("content that is not whole", int(not big["whole"]) + int(not tiny["whole"]), 0, True, ""),
        report.bar("growth of cayd meanwhile", big["growth_kb"]["cayd"] / 1024, 8, True, " MiB"),
        report.bar("growth of the agent meanwhile", big["growth_kb"]["agent"] / 1024, 8, True, " MiB"),
        report.bar(f"{tiny['count']} small files, PUT each / one archive", tiny["each"] / tiny["archive"], 20, False),
        report.bar("  one archive / tar | tar inside", tiny["archive"] / tiny["tar"], 1.5),
        report.bar(f"grep over {text['size_mb']} MiB / grep -rP inside", text["cay"] / text["grep"], 1.5),
        report.bar("  with other matches than grep", int(not text["same"]), 0, True, ""),
    ]


def show(result):
    if "files" not in result:
        return
    big, tiny, text = (result["files"][name] for name in ("large", "small", "search"))
    print(f"{big['size_mb']} MiB: up {big['up']:.0f} MiB/s, down {big['down']:.0f}; socket pair inside into the file "
          f"system {big['pair']:.0f}, into nothing {big['pair_null']:.0f}; growth cayd {big['growth_kb']['cayd']} kB, agent "
          f"{big['growth_kb']['agent']} kB")
    print(f"{tiny['count']} files of {SMALL_BYTES} bytes: one archive {tiny['archive']:.2f} s in, {tiny['archive_out']:.2f} s "
          f"out, tar | tar inside {tiny['tar']:.2f} s, PUT each {tiny['each']:.1f} s")
    print(f"grep over {text['size_mb']} MiB: {text['cay']:.2f} s, grep -rP inside {text['grep']:.2f} s, {text['matches']} "
          f"matches{'' if text['same'] else ', NOT the same'}")
