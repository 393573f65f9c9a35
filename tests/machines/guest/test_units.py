# SPDX-License-Identifier: Apache-2.0
"""The installed programs under systemd: they start, do what the demonstration shows, survive, and leave nothing."""
import os
import re
import subprocess

import pytest

from lib import census, tree
from lib.commands import wait_for
from machines.guest.units import UNITS, Units, systemctl

STATE = "/var/lib/cay"
POOL_MAX = 8
ROUNDS = 4


@pytest.fixture(scope="module")
def units():
    with Units() as started:
        yield started


def cay(*words, **kw):
    kw.setdefault("timeout", 60 * tree.SLACK)
    return subprocess.run(["cay", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, **kw)


def test_the_machine_is_what_it_should_be():
    """Only version 2 control groups, systemd as pid 1, and no failed unit."""
    mounted = re.findall(r" - (cgroup2?) ", open("/proc/self/mountinfo", encoding="utf-8").read())
    assert mounted == ["cgroup2"]
    assert open("/proc/1/comm", encoding="utf-8").read() == "systemd\n"
    assert systemctl("list-units", "--failed", "--plain", "--no-legend") == ""


def test_doctor_has_no_failures(units):
    done = cay("doctor")
    print(done.stdout)
    assert not re.search(r"^\s*fail\b", done.stdout, re.M) and done.returncode == 0, done.stdout + done.stderr


def test_the_units_run_and_log_to_the_journal(units):
    for name, unit in UNITS.items():
        assert systemctl("is-active", unit).strip() == "active"
        assert systemctl("is-enabled", unit).strip() == "enabled"
        assert systemctl("show", "-P", "NRestarts", unit).strip() == "0", units.logs()
        text = subprocess.run(["journalctl", "--no-pager", "-b", "-u", unit, "-o", "cat"], capture_output=True, text=True, check=True).stdout
        assert "ready" in text, f"{name}: {text}"


def test_the_demonstration():
    """What 'make run' shows, with the installed programs."""
    made = cay("--json", "create", "--timeout", "600")
    assert made.returncode == 0, made.stderr
    sandbox = re.search(r'"id":\s*"([^"]+)"', made.stdout)[1]
    try:
        for command, expect in (
                ("python3 -c 'import os; print(\"uid\", os.getuid(), \"in\", os.getcwd())'", "uid 1000 in /workspace"),
                ("printf '#include <stdio.h>\\nint main(void) { puts(\"hello from C\"); }\\n' >hello.c && gcc -o hello hello.c && ./hello",
                 "hello from C"),
                ("sudo id -u", "0"),
                ("curl -sS --max-time 2 http://192.0.2.1 2>&1 || echo no network", "no network")):
            done = cay("exec", sandbox, "-c", command)
            assert done.returncode == 0 and expect in done.stdout, f"{command}: {done}"
    finally:
        assert cay("rm", sandbox).returncode == 0
    assert sandbox not in cay("ls").stdout


def test_processes_stay_in_the_delegated_group(units):
    with units.client.sandbox(timeout_sec=600) as sandbox:
        sandbox.exec("setsid -f sleep 4321 >/dev/null 2>&1 </dev/null").ok()
        pids = census.sandbox_pids(sandbox.id)
        assert pids
        for pid in pids:
            group = open(f"/proc/{pid}/cgroup", encoding="utf-8").read().strip()
            assert re.match(r"0::/system\.slice/cay[-\w]*\.(service|slice|scope)/", group), group


def test_out_of_memory_is_reported(units):
    """The limit holds, the neighbour and the machine are not affected, and the reason is reported."""
    code = "b = bytearray(400 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('all of it')"
    with units.client.sandbox(memory_mb=128) as small, units.client.sandbox() as other:
        other.exec("echo here > f").ok()
        done = small.exec(["python3", "-c", code], timeout_sec=120)
        assert done.exit_code != 0 and "all of it" not in done.stdout, repr(done)
        assert done.body["reason"] == "oom" and done.exit_code == 137, done.body
        assert other.exec("cat f").ok().stdout == "here\n"


@pytest.mark.parametrize("names", [("cayd",), ("cay-warden",), ("cayd", "cay-warden")], ids="-".join)
def test_killed_and_restarted(units, names):
    """kill -9: systemd starts it again, and sandboxes, files and processes are still there."""
    api = units.wait_ready()
    sandbox = api.create(timeout_sec=3600)["id"]
    api.exec(sandbox, "echo kept > kept; setsid -f sleep 1234.5 >/dev/null 2>&1 </dev/null").ok()
    before = set(census.sandbox_pids(sandbox))
    old = {name: units.kill(name) for name in names}
    for name in names:
        api = units.wait_restarted(name, old[name])
    done = wait_for(lambda: (result := api.exec(sandbox, "cat kept; pgrep -fc 'sleep 1234[.]5'")).exit_code == 0 and result, 20)
    assert done.stdout == "kept\n1\n", repr(done)
    assert before <= set(census.sandbox_pids(sandbox)), "processes were replaced"
    api.delete(sandbox)


@pytest.mark.parametrize("unit", UNITS.values())
def test_restarted_by_systemctl(units, unit):
    """What a package upgrade does."""
    api = units.wait_ready()
    sandbox = api.create(timeout_sec=3600)["id"]
    api.exec(sandbox, "echo kept > kept; setsid -f sleep 1234.6 >/dev/null 2>&1 </dev/null").ok()
    systemctl("restart", unit)
    api = units.wait_ready(30)
    done = wait_for(lambda: (result := api.exec(sandbox, "cat kept; pgrep -fc 'sleep 1234[.]6'")).exit_code == 0 and result, 20)
    assert done.stdout == "kept\n1\n", repr(done)
    api.delete(sandbox)


def test_the_daemon_is_confined():
    """systemd's own rating of what cayd could still do."""
    done = subprocess.run(["systemd-analyze", "security", "--no-pager", "cayd.service"], capture_output=True, text=True, check=False)
    level = re.search(r"Overall exposure level for cayd.service: ([\d.]+) (\w+)", done.stdout)
    assert level and float(level[1]) < 5, done.stdout[-300:]  # "OK" or better
    print("\n" + level[0])


def groups():
    """Control groups of sandboxes, wherever they are."""
    return sorted(path for path, _dirs, _files in os.walk("/sys/fs/cgroup")
                  if re.search(r"/cay-?[\w.]*/", path.removeprefix("/sys/fs/cgroup") + "/") and not path.endswith((".service", ".slice")))


def counted(units):
    units.wait_ready()
    taken = census.take(units, states=[STATE])
    taken["groups"] = census.collections.Counter(groups())
    return taken


def ready_pool(units):
    """Waits until the pool is full, so that two counts compare the same."""
    def full():
        line = re.search(r"pool\s+(\d+) ready, (\d+) being created, (\d+) wanted", cay("status").stdout)
        return line and line[1] == line[3] and line[2] == "0"
    wait_for(full, 6, 0.5)


def cycles(api, number):
    for turn in range(number):
        network = {"network": {"mode": "restricted", "allow": ["allowed.test"]}} if turn % 3 == 2 else {}
        with api.sandbox(**network) as sandbox:
            assert sandbox.exec("echo x > f; setsid -f sleep 99 >/dev/null 2>&1 </dev/null; cat f").ok().stdout == "x\n"


def settled(units):
    """Counted when the pool is full again and two counts in a row agree: the warden and the kernel do some work later."""
    ready_pool(units)
    counts = [counted(units)]

    def steady():
        counts.append(counted(units))
        return totals(counts[-1]) == totals(counts[-2])
    wait_for(steady, 10, 1)
    return counts[-1]


def totals(taken):
    return {category: sum(found.values()) for category, found in taken.items() if category != "files"}


def test_cycles_leave_nothing(units):
    """The census: processes, namespaces, mounts, groups, links, loop devices, descriptors, volumes.
    A slot that is used for the first time keeps its two mounts, and a root that is prepared for its next sandbox. On a busy
    host a sandbox may end after the next one is made, which takes one more slot: a leak is what grows with every round."""
    api = units.wait_ready()
    before = settled(units)
    for _ in range(ROUNDS):
        cycles(api, 6)
        after = settled(units)
        left = sizes(before, after)
        if not left:
            return
        before = after
    raise AssertionError(f"the machine has more of these after each of {ROUNDS} rounds:\n" + "\n".join(left))


def sizes(before, after):
    """The pool replaces sandboxes that it handed out: names differ, numbers must not grow."""
    lines = []
    had_all, has_all = totals(before), totals(after)
    for category, had in had_all.items():
        has = has_all[category]
        if has > had:
            lines.append(f"{category}: {had} -> {has}: " + "; ".join(sorted(after[category] - before[category])[:8]))
    return lines


def agents():
    return {line for line in census.take(states=[STATE])["processes"] if line.endswith("agent")}


def test_stopped_units_leave_only_the_pool(units):
    """'systemctl stop' keeps sandboxes. With none in use only those of the pool are left, and they are used again."""
    api = units.wait_ready()
    for row in api.list():
        api.delete(row["id"])
    ready_pool(units)
    systemctl("stop", *reversed(UNITS.values()))
    try:
        taken = census.take(states=[STATE])
        # One process holds the group of the sandboxes: cay-sandboxes.service.
        holder = systemctl("show", "-P", "MainPID", "cay-sandboxes.service").strip()
        others = [line for line in taken["processes"] if not line.endswith("agent") and line.split()[0] != holder]
        links = [link for link in taken["links"] if link.startswith("cay")]
        pool = agents()
        # The pool has sandboxes with a network too once one was asked for: one link each.
        assert not others and len(links) <= len(pool) <= POOL_MAX, f"{taken['processes']}; {links}"
    finally:
        units.up()
    # The pool may give up one with a network meanwhile; the others are used again.
    assert pool & agents(), "the pool was replaced"
