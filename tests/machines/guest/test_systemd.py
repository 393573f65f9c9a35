# SPDX-License-Identifier: Apache-2.0
"""cgroup v2 and systemd: where sandboxes are, what limits them, and what survives (docs/guides/systemd.md)."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from lib import census, tree
from lib.commands import wait_for
from machines.guest.units import UNITS, Units, systemctl

CGROUP = pathlib.Path("/sys/fs/cgroup")
PLACE = CGROUP / "system.slice/cay-sandboxes.service"
DROP_IN = "/run/systemd/system/{}.d/test.conf"


@pytest.fixture(scope="module")
def units():
    with Units() as started:
        yield started


def group_of(sandbox):
    """The sandbox's own group: that of its first process."""
    paths = {line for pid in census.sandbox_pids(sandbox)
             for line in open(f"/proc/{pid}/cgroup", encoding="utf-8").read().splitlines()}
    assert all(re.fullmatch(r"0::/system\.slice/cay-sandboxes\.service/cay-\d+/\d+(/\d+)?", path) for path in paths), paths
    slot = {re.match(r"0::(.*/cay-\d+/\d+)", path)[1] for path in paths}
    assert len(slot) == 1, paths
    return CGROUP / slot.pop()[1:]


def read(path):
    return path.read_text(encoding="utf-8").strip()


def journal(unit, since):
    return subprocess.run(["journalctl", "--no-pager", "-u", unit, "--since", f"@{since}", "-o", "json"],
                          capture_output=True, text=True, check=True).stdout


def counting(sandbox, count, tmp_path):
    """A foreground command whose output arrives slowly; it has started."""
    out = tmp_path / "counted"
    words = ["cay", "exec", "--timeout", "0", sandbox, "-c", f"for i in $(seq {count}); do echo $i; sleep 0.3; done"]
    with open(out, "w", encoding="utf-8") as file:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: out.stat().st_size > 0, 20)
    return process, out


def check_counted(process, out, count):
    err = process.communicate(timeout=60 * tree.SLACK)[1]
    assert read(out).split() == [str(i) for i in range(1, count + 1)], err
    assert process.returncode == 0, err


def test_nothing_is_outside_the_delegated_group(units):
    with units.client.sandbox(timeout_sec=600) as sandbox:
        sandbox.exec("setsid -f sleep 4322 >/dev/null 2>&1 </dev/null").ok()
        group_of(sandbox.id)
    strays = []
    for top, names, _files in os.walk(CGROUP):  # unlike rglob(), it ignores a group that is removed meanwhile
        if top == str(PLACE):
            names.clear()
        strays += [f"{top}/{name}" for name in names if name.startswith("cay-") and not name.endswith((".service", ".slice"))]
    assert not strays


def test_limits_are_written(units):
    with units.client.sandbox(timeout_sec=600, memory_mb=192, cpu_count=0.5) as sandbox:
        group = group_of(sandbox.id)
        assert read(group / "memory.max") == str(192 << 20)
        assert read(group / "memory.swap.max") == "0"
        assert read(group / "memory.oom.group") == "0"
        assert read(group / "cpu.max") == "50000 100000"
        assert 0 < int(read(group / "pids.max")) < 65536
        assert {"cpu", "memory", "pids", "io"} <= set(read(group / "cgroup.controllers").split())
        assert read(group / "cgroup.subtree_control") == ""
        assert read(group / "cgroup.max.depth") == "1"


def test_pause_freezes_the_group(units):
    with units.client.sandbox(timeout_sec=600) as sandbox:
        sandbox.exec("setsid -f sleep 4323 >/dev/null 2>&1 </dev/null").ok()
        group = group_of(sandbox.id)
        units.client.call("POST", f"/v1/sandboxes/{sandbox.id}/pause")
        wait_for(lambda: "frozen 1" in read(group / "cgroup.events"), 20)
        units.client.call("POST", f"/v1/sandboxes/{sandbox.id}/resume")
        wait_for(lambda: "frozen 0" in read(group / "cgroup.events"), 20)
        assert sandbox.exec("pgrep -fc 'sleep 432[3]'").ok().stdout == "1\n"


def test_pressure_and_usage_in_metrics(units):
    with units.client.sandbox(timeout_sec=600, cpu_count=0.5) as sandbox:
        sandbox.exec("timeout 3 sh -c 'while :; do :; done'")
        metrics = units.client.call("GET", f"/v1/sandboxes/{sandbox.id}/metrics")
        assert metrics["cpu_us"] > 500000 and metrics["memory_peak_bytes"] >= metrics["memory_bytes"] > 0
        pressure = metrics["pressure"]
        assert set(pressure) == {"cpu", "memory", "io"}
        assert pressure["cpu"]["some_us"] > 100000, pressure
        assert all(0 <= row[key] <= 100 for row in pressure.values() for key in ("some_percent", "full_percent"))


def test_a_new_sandbox_shows_nothing_of_the_last_user(units):
    """Groups are numbered slots that are reused: peak, CPU time and OOM kills must start at zero."""
    for _ in range(3):
        with units.client.sandbox(timeout_sec=600, memory_mb=128) as sandbox:
            first = units.client.call("GET", f"/v1/sandboxes/{sandbox.id}/metrics")
            assert first["oom_kills"] == 0 and first["memory_peak_bytes"] < 100 << 20, first
            done = sandbox.exec(["python3", "-c", "b = bytearray(400 << 20); print(len(b))"], timeout_sec=120)
            assert done.body["reason"] == "oom", done.body


def test_a_timeout_ends_all_of_a_command(units):
    with units.client.sandbox(timeout_sec=600) as sandbox:
        done = sandbox.exec("setsid -f sleep 4324; sleep 4324", timeout_sec=2)
        assert done.body["reason"] == "timeout", done.body
        wait_for(lambda: sandbox.exec("pgrep -fc 'sleep 432[4]'").stdout == "0\n", 20)


def test_devices_of_the_host_stay_closed(units):
    with units.client.sandbox(timeout_sec=600) as sandbox:
        done = sandbox.exec("sudo mknod /tmp/disk b 254 0; sudo cat /dev/vda; ls /dev")
        assert "disk" not in sandbox.exec("ls /tmp").stdout and "vda" not in done.stdout
    text = subprocess.run(["journalctl", "--no-pager", "-b", "-u", "cay-warden"], capture_output=True, text=True, check=True).stdout
    assert "no BPF program" not in text


def test_output_continues_across_restarts(units, tmp_path):
    """'systemctl restart' of each unit, and of both, while a command prints."""
    api = units.wait_ready()
    sandbox = api.create(timeout_sec=3600)["id"]
    process, out = counting(sandbox, 40, tmp_path)
    for words in (["cayd"], ["cay-warden"], ["cay-warden", "cayd"]):
        systemctl("restart", *words)
        api = units.wait_ready(30)
    check_counted(process, out, 40)
    api.delete(sandbox)


def test_an_upgrade_keeps_sandboxes(units, tmp_path):
    """New files replace the programs, another unit file, then a restart, as packages do it."""
    api = units.wait_ready()
    sandbox = api.create(timeout_sec=3600)["id"]
    process, out = counting(sandbox, 30, tmp_path)
    since = int(time.time())
    programs = pathlib.Path(os.readlink(f"/proc/{units.pids()['cayd']}/exe")).parent  # below the prefix of the build
    for path in programs.iterdir():
        new = path.with_name(path.name + ".new")
        shutil.copy2(path, new)
        new.rename(path)
    path = pathlib.Path(DROP_IN.format(UNITS["cayd"]))
    for text in ("[Service]\nProcSubset=pid\n", ""):  # the daemon cannot read the boot id, then it can again
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        try:
            systemctl("daemon-reload")
            systemctl("try-restart", "cay-warden.service", "cayd.service")
        finally:
            shutil.rmtree(path.parent)
        api = units.wait_ready(30)
        assert "boot id of the host cannot be read" in journal(UNITS["cayd"], since)
    systemctl("daemon-reload")
    for pid in units.pids().values():
        assert "(deleted)" not in os.readlink(f"/proc/{pid}/exe")
    assert "was rebooted" not in journal(UNITS["cayd"], since)
    check_counted(process, out, 30)
    assert api.exec(sandbox, "echo new command").ok().stdout == "new command\n"
    api.delete(sandbox)


@pytest.mark.parametrize("name", UNITS)
def test_the_watchdog_finds_a_stopped_program(units, name):
    unit = UNITS[name]
    api = units.wait_ready()
    sandbox = api.create(timeout_sec=3600)["id"]
    path = pathlib.Path(DROP_IN.format(unit))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[Service]\nWatchdogSec=10\n", encoding="utf-8")
    since = int(time.time())
    try:
        systemctl("daemon-reload")
        systemctl("restart", unit)
        api = units.wait_ready(30)
        old = units.kill(name, signal.SIGSTOP)
        api = units.wait_restarted(name, old, 40)
        assert "atchdog" in journal(unit, since)
        assert wait_for(lambda: (done := api.exec(sandbox, "echo alive")).exit_code == 0 and done, 20).stdout == "alive\n"
    finally:
        shutil.rmtree(path.parent)
        systemctl("daemon-reload")
        systemctl("restart", unit)
    units.wait_ready(30).delete(sandbox)


def test_the_journal_has_priorities_and_no_second_time(units):
    since = int(time.time()) - 1
    systemctl("restart", "cay-warden", "cayd")
    units.wait_ready(30)

    def lines_of(unit):
        rows = [json.loads(line) for line in journal(unit, since).splitlines()]
        return [row for row in rows if row.get("_TRANSPORT") == "stdout"]

    for unit in UNITS.values():
        # journald reads what the programs wrote when it gets to it.
        wait_for(lambda unit=unit: any("ready" in row["MESSAGE"] and row["PRIORITY"] == "6" for row in lines_of(unit)), 10)
        ours = lines_of(unit)
        assert not any(re.match(r"<\d>|\d{4}-\d\d-\d\d", row["MESSAGE"]) for row in ours), ours


def test_a_warden_of_a_login_has_a_scope(units):
    """'cay up' in a shell: its sandboxes are in a scope of their own, not in the login's group, and outlive a killed warden."""
    state = pathlib.Path(tempfile.mkdtemp(prefix="cay-scope-", dir="/var/tmp"))
    state.chmod(0o755)  # cayd is another user
    words = ["--state", str(state)]

    def cay(*more, check=True):
        return subprocess.run(["cay", *words, *more], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=check, timeout=60 * tree.SLACK)

    def scopes():
        return [line for line in systemctl("list-units", "--plain", "--no-legend", "--type=scope").splitlines() if "cay sandboxes" in line]

    def left():
        """What keeps a scope alive: its processes, with their parents and states."""
        names = [line.split()[0] for line in scopes()]
        return "\n".join(scopes() + [systemctl("status", "--no-pager", "--full", name, check=False) for name in names])

    cay("up", "--templates", "/var/lib/cay/templates", "--listen", "127.0.0.1:0")
    try:
        sandbox = json.loads(cay("--json", "create", "--timeout", "3600").stdout)["id"]
        pids = census.sandbox_pids(sandbox)
        paths = {open(f"/proc/{pid}/cgroup", encoding="utf-8").read().strip() for pid in pids}
        assert paths and all(re.match(r"0::/system\.slice/run-[\w-]+\.scope/cay-\d+/", path) for path in paths), paths
        assert len(scopes()) == 1
        warden = int((state / "warden.lock").read_text(encoding="utf-8").split()[0])
        os.kill(warden, signal.SIGKILL)
        wait_for(lambda: cay("exec", sandbox, "--", "echo", "alive", check=False).stdout == "alive\n", 30)
        assert {open(f"/proc/{pid}/cgroup", encoding="utf-8").read().strip() for pid in pids} == paths
    finally:
        cay("down", "--yes", check=False)
        shutil.rmtree(state, ignore_errors=True)
    try:
        wait_for(lambda: not scopes(), 30)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{left()}") from error


def test_cay_down_leaves_the_units_alone(units):
    """systemd would start them again, so it refuses and names the commands of systemd."""
    api, pids = units.wait_ready(), units.pids()
    sandbox = api.create(timeout_sec=3600)["id"]
    for words in (["--yes"], ["--keep"], []):
        done = subprocess.run(["cay", "down", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60 * tree.SLACK)
        assert done.returncode == 7 and "run by systemd" in done.stderr and "systemctl stop cayd" in done.stderr, done
    assert units.pids() == pids and api.get(sandbox)["state"] == "running"
    api.delete(sandbox)


def test_stopping_the_group_ends_all_sandboxes(units):
    api = units.wait_ready()
    sandbox = api.create(timeout_sec=3600)["id"]
    pids = census.sandbox_pids(sandbox)
    assert pids
    begun = time.monotonic()
    systemctl("stop", "cayd.service", "cay-sandboxes.service")
    try:
        assert time.monotonic() - begun < 60 * tree.SLACK
        assert systemctl("is-active", "cay-warden.service", check=False).strip() == "inactive"
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}/ns") and os.access(f"/proc/{pid}/root", os.F_OK) for pid in pids), 20)
        assert not PLACE.exists()
        assert not [line for line in open("/proc/mounts", encoding="utf-8") if "pool.btrfs" in line]
        wait_for(lambda: "pool.btrfs" not in subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout, 20)
    finally:
        units.up()
