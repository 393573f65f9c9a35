# SPDX-License-Identifier: Apache-2.0
"""Programs inside see the sandbox's limits, not the host's (docs/guides/inside.md)."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import tarfile

import pytest

from lib import tree
from lib.commands import spawn, wait_for
from lib.files import Files

MEMORY_MB = 384
MIB = 1 << 20


@pytest.fixture(scope="module")
def box(api, engine):
    if "isolation" not in api.capabilities(engine) and engine != "native":
        pytest.skip(f"engine {engine} shows the host: it does not isolate")
    with api.sandbox(engine=engine, timeout_sec=900, memory_mb=MEMORY_MB, cpu_count=1) as sandbox:
        yield sandbox


def meminfo(sandbox):
    rows = (line.split() for line in sandbox.sh("cat /proc/meminfo").splitlines())
    return {row[0].rstrip(":"): int(row[1]) for row in rows}


def test_free_shows_the_memory_limit(box):
    total = int(box.sh("free -m").splitlines()[1].split()[1])
    assert total == MEMORY_MB
    values = meminfo(box)
    assert values["MemTotal"] == MEMORY_MB * 1024
    assert 0 < values["MemFree"] <= values["MemAvailable"] <= values["MemTotal"]
    assert values["SwapTotal"] == 0


def test_used_memory_is_current(box):
    """A process that uses 128 MiB is visible, and no longer after its end."""
    before = meminfo(box)["MemFree"]
    holder = spawn(box, ["python3", "-c", "import time; x = bytearray(b'x') * (128 << 20); print('have', flush=True); "
                                          "time.sleep(600)"])
    wait_for(lambda: before - meminfo(box)["MemFree"] > 120 * 1024, step=0.1)
    box.client.call("DELETE", holder.path)
    wait_for(lambda: before - meminfo(box)["MemFree"] < 40 * 1024, step=0.1)


def test_processors(box):
    assert box.sh("nproc; grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat").split() == ["1", "1", "1"]
    assert box.sh("python3 -c 'import os; print(os.cpu_count(), len(os.sched_getaffinity(0)))'") == "1 1\n"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor: nothing to spread over")
def test_sandboxes_are_spread(api, engine, box):
    """Sandboxes start on the warden's processor, but not all of them. Sandboxes of other tests count as well, so a few
    more may be needed before another processor is chosen."""
    places = set()
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            one = stack.enter_context(api.sandbox(engine=engine, cpu_count=1, memory_mb=128))
            places.add(one.sh("grep Cpus_allowed_list /proc/self/status"))
            if len(places) > 1:
                return
    raise AssertionError(f"40 sandboxes are all on {places}")


@pytest.mark.parametrize("cpu,expect", [(0.5, 1), (1.5, 2), (2, 2)])
def test_fractions_round_up(api, engine, box, cpu, expect):
    """Limited by the host: an affinity cannot name processors that do not exist."""
    with api.sandbox(engine=engine, cpu_count=cpu) as sandbox:
        shown = sandbox.sh("grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat; nproc").split()
    assert shown[:2] == [str(expect)] * 2
    assert int(shown[2]) == min(expect, len(os.sched_getaffinity(0)))


def test_time_of_processors_is_counted(box):
    read = "head -1 /proc/stat"
    begin = [int(n) for n in box.sh(read).split()[1:]]
    box.sh("python3 -c 'import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass'")
    end = [int(n) for n in box.sh(read).split()[1:]]
    busy = sum(end[:3]) - sum(begin[:3])
    assert busy >= 30, (begin, end)  # of 50 hundredths of a second, minus the part before the first reading
    assert all(b >= a for a, b in zip(begin, end)), (begin, end)


def test_uptime_is_the_sandboxs(api, engine, box):
    if "time-at-exec" in os.environ.get("CAY_WITHOUT", "") or os.environ.get("CAY_WITHOUT") == "all":
        pytest.skip("without time-at-exec the uptime is the host's")
    if tree.SANITIZED:
        pytest.skip("a sanitized warden cannot share its memory with the child")
    with api.sandbox(engine=engine) as sandbox:
        text = sandbox.sh("cat /proc/uptime; grep btime /proc/stat; date +%s; cut -d' ' -f22 /proc/self/stat")
        uptime, boot, now, start = (text.split()[i] for i in (0, 3, 4, 5))
    assert float(uptime) < 60
    assert abs(int(boot) + float(uptime) - int(now)) <= 2, "ps adds start times to btime"
    assert int(start) / 100 <= float(uptime) + 1


def test_load_is_the_sandboxs(box):
    fields = box.sh("cat /proc/loadavg").split()
    assert len(fields) == 5 and all(float(f) < 50 for f in fields[:3])
    running, total = map(int, fields[3].split("/"))
    assert running <= total < 100


@pytest.mark.parametrize("command", [
    "free", "vmstat", "vmstat -s", "top -bn1", "uptime", "ps aux", "cat /proc/swaps",
    "python3 -c 'import os; os.getloadavg()'",
])
def test_tools_understand_the_files(box, command):
    result = box.exec(command).ok()
    assert result.stderr == "", result


def test_node_stays_below_the_limit(box):
    """V8 reaches its own limit before the kernel's: an error of the program, not a SIGKILL."""
    values = json.loads(box.sh("""node -e 'console.log(JSON.stringify([require("os").totalmem(),
        require("v8").getHeapStatistics().heap_size_limit, require("os").cpus().length]))'"""))
    assert values[0] == MEMORY_MB * MIB
    assert values[1] < MEMORY_MB * MIB
    assert values[2] == 1
    result = box.exec("node -e 'const kept = []; for (;;) kept.push(new Array(1000).fill(kept.length))'", timeout_sec=120)
    assert "heap out of memory" in result.stderr, result
    assert result.signal != "SIGKILL" and result.exit_code != 137, result


GO = """package main
import ("fmt"; "runtime")
func main() { fmt.Println(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }
"""


def find_go():
    found = shutil.which("go") or "/usr/local/go/bin/go"
    return found if os.path.exists(found) else None


@pytest.mark.skipif(not find_go(), reason="this host has no Go")
def test_go(box, tmp_path):
    (tmp_path / "main.go").write_text(GO)
    subprocess.run([find_go(), "build", "-o", "main", "main.go"], cwd=tmp_path, check=True,
                   env={**os.environ, "CGO_ENABLED": "0", "GOCACHE": str(tmp_path / "cache"), "GO111MODULE": "off",
                        "GOFLAGS": ""})
    box.put("/tmp/go-main", (tmp_path / "main").read_bytes())
    assert box.sh("/tmp/go-main") == "1 1\n"


JAVA = """public class Main { public static void main(String[] a) {
    Runtime r = Runtime.getRuntime();
    System.out.println(r.maxMemory() + " " + r.availableProcessors());
} }
"""


def find_java():
    found = shutil.which("javac")
    home = os.path.dirname(os.path.dirname(os.path.realpath(found))) if found else ""
    return home if os.path.isdir(f"{home}/jmods") else None


@pytest.mark.skipif(not find_java(), reason="this host has no JDK with jmods")
def test_java(api, engine, box, tmp_path):
    home = find_java()
    (tmp_path / "Main.java").write_text(JAVA)
    subprocess.run([f"{home}/bin/javac", "Main.java"], cwd=tmp_path, check=True)
    subprocess.run([f"{home}/bin/jlink", "--add-modules", "java.base", "--strip-debug", "--no-man-pages",
                    "--no-header-files", "--output", "jre"], cwd=tmp_path, check=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(tmp_path / "jre", "jre")
        tar.add(tmp_path / "Main.class", "Main.class")
    Files(box).put("/tmp/java", packed.getvalue(), op="archive")
    most, processors = map(int, box.sh("cd /tmp/java && jre/bin/java Main").split())
    assert most < MEMORY_MB * MIB // 2, "a quarter of the limit, not of the host"
    assert processors == 1


def test_cgroup_files_show_the_limits(box):
    limit = box.sh("cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null; true")
    assert limit.strip() == str(MEMORY_MB * MIB)
    quota = box.sh("cat /sys/fs/cgroup/cpu.max 2>/dev/null || "
                   "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us")
    assert quota.split() == ["100000", "100000"]


def test_values_stay_through_a_pause(api, engine, box):
    with api.sandbox(engine=engine, memory_mb=256) as sandbox:
        for kind in ("freeze", "hibernate"):
            api.call("POST", f"/v1/sandboxes/{sandbox.id}/pause", {"kind": kind})
            api.call("POST", f"/v1/sandboxes/{sandbox.id}/resume", {})
            assert meminfo(sandbox)["MemTotal"] == 256 * 1024
            assert sandbox.sh("nproc") == "1\n"
