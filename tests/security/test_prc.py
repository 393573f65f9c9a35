# SPDX-License-Identifier: Apache-2.0
"""/proc and /sys (PRC)."""

import os
import re
import socket
import threading
import time

import pytest

import attacks
from lib import tree

WRITE_TARGETS = (
    "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hotplug", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname",
    "/proc/sys/kernel/pid_max", "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom", "/proc/sys/fs/file-max", "/proc/sys/kernel/printk",
    "/proc/sys/fs/binfmt_misc/register", "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv4/ping_group_range", "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/randomize_va_space", "/proc/kmsg",
    "/proc/acpi", "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/kcore",
    "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/module/kernel/parameters/panic",
)


def test_PRC_01_sweep_of_proc(box, neighbour):
    """PRC-01: nothing readable below /proc reveals the host or the neighbour."""
    out = box.root("find /proc -maxdepth 3 -type f -not -path '/proc/[0-9]*' 2>/dev/null | "
                   "while read f; do timeout 0.2 head -c 4096 $f 2>/dev/null; done | "
                   "tr -d '\\0' | head -c 900000", timeout_sec=60, max_output_bytes=1000000)
    assert len(out.out) > 1000
    words = [neighbour.id]
    if len(socket.gethostname()) > 3 and socket.gethostname() != "localhost":
        words.append(socket.gethostname())
    for link in os.listdir("/sys/class/net"):
        with open(f"/sys/class/net/{link}/address") as f:
            mac = f.read().strip()
        if mac and mac != "00:00:00:00:00:00":
            words.append(mac)
    leaked = [w for w in words if w in out.stdout]
    assert not leaked, leaked


def test_PRC_02_only_own_processes(box):
    """PRC-02: no process of host or neighbour is visible."""
    seen = box.sh("ls /proc | grep -c '^[0-9]'")
    assert int(seen) < 20, seen
    names = box.sh("cat /proc/[0-9]*/comm")
    assert "cayd" not in names and "cay-warden" not in names and "systemd" not in names


@pytest.mark.parametrize("user", ["root", "sandbox"])
def test_PRC_03_kernel_settings(box, user):
    """PRC-03: no kernel setting can be opened for writing."""
    script = "\n".join(f"(exec 3>>{t}) 2>/dev/null && echo open {t}" for t in WRITE_TARGETS)
    assert box.exec(script + "\ntrue", user=user).stdout == ""


@pytest.mark.parametrize("name,value", [("kernel/ns_last_pid", "1"), ("user/max_user_namespaces", "9"),
                                        ("user/max_net_namespaces", "9"), ("kernel/cap_last_cap", "1")])
def test_PRC_03_settings_of_its_own_namespaces(box, name, value):
    """PRC-03: it cannot raise settings of its own namespaces either."""
    before = box.root(f"cat /proc/sys/{name}").stdout
    result = box.root(f"echo {value} > /proc/sys/{name}")
    assert result.exit_code != 0, f"{name} was written"
    if name != "kernel/ns_last_pid":  # moves by itself
        assert box.root(f"cat /proc/sys/{name}").stdout == before


def test_PRC_03_writes_through_sudo(box):
    """PRC-03: nor with sudo, tee or dd; the host's values stay."""
    with open("/proc/sys/kernel/core_pattern") as f:
        before = f.read()
    box.exec("echo '|/tmp/x' | sudo -n tee /proc/sys/kernel/core_pattern; "
             "echo c | sudo -n dd of=/proc/sysrq-trigger; sudo -n sysctl -w kernel.panic=0")
    with open("/proc/sys/kernel/core_pattern") as f:
        assert f.read() == before


def test_PRC_04_init_tells_nothing(box):
    """PRC-04: environment, command line and mounts of pid 1."""
    environ = box.root("cat /proc/1/environ 2>/dev/null | tr '\\0' '\\n'").stdout
    for name in ("HARNESS_FLAG", "CAY_", "SSH_", "AWS_", "TOKEN"):
        assert name not in environ, environ
    cmdline = box.root("tr '\\0' ' ' < /proc/1/cmdline").stdout
    assert "/var/" not in cmdline and "--state" not in cmdline and str(tree.SOURCE) not in cmdline
    info = box.root("cat /proc/1/mountinfo").stdout
    # Layers are given by descriptor, or by names that only the warden has (kernels before 6.13). The visible name is
    # random and not a path of the host.
    layers = re.findall(r"(?:upper|lower|work)dir\+?=([^, ]*)", info)
    root = next(line for line in info.splitlines() if line.split()[4] == "/")
    assert len(re.findall(r"(?:upper|lower|work)dir\+?=", root)) == 3, root
    # The programs and masks have the same names in every sandbox.
    assert all(re.fullmatch(r"/|/template|/bin:/masks|/v[0-9a-f]{16}/(upper|work)", name) for name in layers), info
    assert str(tree.SOURCE) not in info


def test_PRC_04_names_of_volumes_tell_nothing(box, neighbour):
    """PRC-04: they are random, not counted: they do not reveal how many others exist."""
    mine, other = (int(re.search(r"upperdir=/v([0-9a-f]{16})/", b.root("cat /proc/1/mountinfo").stdout)[1], 16)
                   for b in (box, neighbour))
    assert abs(mine - other) > 1 << 32, (mine, other)


def test_PRC_05_cgroup_view(box):
    """PRC-05: the sandbox sees its groups as roots."""
    attacks.cgroup_view(box)


def test_PRC_05_agents_groups_are_out_of_reach(box):
    """PRC-05: the cgroups that pid 1 makes for commands cannot be reached through pid 1."""
    attacks.agent_groups_closed(box)


def test_PRC_05_namespaces_differ(box, neighbour):
    """PRC-05: all eight namespaces are private, against host and neighbour."""
    script = "for n in cgroup ipc mnt net pid time user uts; do readlink /proc/self/ns/$n; done"
    mine, theirs = box.sh(script).split(), neighbour.sh(script).split()
    host = [os.readlink(f"/proc/self/ns/{n}")
            for n in ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")]
    assert len(mine) == 8
    same = [m for m in mine if m in theirs or m in host]
    assert not same, f"shared namespaces: {same}"


def test_PRC_06_host_name_is_the_id(box):
    """PRC-06: the host's name does not show; the sandbox is named by its id."""
    assert box.sh("hostname").strip() == box.id
    assert box.sh("cat /proc/sys/kernel/hostname").strip() == box.id


def test_PRC_07_masked_files(box):
    """PRC-07: kernel memory, logs, symbols, keys, timers."""
    attacks.proc_masked(box)


def test_PRC_07_masks_are_not_ours_to_change(box):
    """PRC-07: a mask cannot be removed, replaced or written."""
    result = box.root("rm -f /proc/kcore; mv /proc/keys /tmp/k; chmod 777 /proc/timer_list; "
                      "(echo x > /proc/keys) 2>/dev/null && echo written; true")
    assert "written" not in result.stdout
    attacks.proc_masked(box)


def test_PRC_07_covered_files(box):
    """PRC-07: memory, processors, load, disks and boot line of the host are not visible by any path."""
    attacks.proc_covered(box)


def test_PRC_07_covers_stay(box):
    """PRC-07: root inside can neither remove a cover nor mount another /proc."""
    box.root("umount /proc/meminfo; umount -l /proc/stat; umount /sys; mount -t proc proc /mnt; "
             "mount --bind /proc /mnt; rm -f /proc/meminfo; mv /proc/stat /tmp/; "
             "unshare -m umount /proc/meminfo; unshare -Urm umount /proc/meminfo; true")
    attacks.proc_covered(box)
    assert box.sh("ls /mnt") == ""


def test_PRC_07_written_covers_affect_only_the_sandbox(box, neighbour):
    """PRC-07: the files that the agent writes are the sandbox's own, and small; it writes them again."""
    theirs = neighbour.sh("head -1 /proc/meminfo")
    box.root("head -c 3000000 /dev/zero > /proc/loadavg; printf 'MemTotal: 1 kB\\n' > /proc/meminfo; "
             "chmod 666 /proc/meminfo; true")
    assert int(box.sh("stat -c %s /proc/loadavg")) <= 1 << 20
    assert neighbour.sh("head -1 /proc/meminfo") == theirs
    box.sh("sleep 0.1; sleep 1.5")
    attacks.proc_covered(box)


def test_PRC_07_a_lease_does_not_stop_the_agent(box):
    """PRC-07: pid 1 does not wait for the holder of a lease on a file that it writes."""
    result = box.root("""python3 -c 'import fcntl, os, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
fd = os.open("/proc/meminfo", os.O_RDONLY)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
print("held", flush=True); time.sleep(3)'""", timeout_sec=20)
    assert result.exit_code == 0 and box.sh("echo alive") == "alive\n", result


def test_PRC_08_no_host_sysfs(box):
    """PRC-08: /sys of the host is not there."""
    found = box.sh("ls -d /sys/firmware /sys/kernel/debug /sys/kernel/tracing /sys/kernel/security "
                   "/sys/kernel/btf /sys/fs/bpf /sys/fs/fuse /sys/module /sys/power "
                   "/sys/block/* /sys/class/block/* /sys/bus 2>/dev/null; true")
    assert found == "", found


def test_PRC_09_oom_score(box):
    """PRC-09: the score cannot be lowered below its floor."""
    attacks.oom_score_floor(box)


def test_PRC_10_mount_table_is_small(box):
    """PRC-10: the mount table holds only what the sandbox needs."""
    lines = box.sh("cat /proc/self/mountinfo").splitlines()
    types = {line.split(" - ")[1].split()[0] for line in lines}
    assert types <= {"overlay", "proc", "cgroup", "cgroup2", "tmpfs", "devtmpfs", "devpts", "mqueue", "btrfs", "ext4",
                     "ramfs"}, types
    assert not [line for line in lines if " - sysfs" in line]


def test_PRC_11_destroy_with_held_proc_files(client):
    """PRC-11: descriptors on /proc of dying processes do not delay destroy."""
    with client.sandbox() as box:
        box.exec("for i in $(seq 20); do (sleep 300 < /proc/self/status &) ; done; "
                 "sh -c 'exec 3</proc/1/status 4</proc/self/maps; setsid sleep 300 >/dev/null 2>&1 &'"
                 " >/dev/null 2>&1")
        holder = threading.Thread(
            target=lambda: box.client.raw("POST", f"/v1/sandboxes/{box.id}/exec",
                                          {"command": "sleep 30"}), daemon=True)
        holder.start()
        time.sleep(0.1)
        begin = time.monotonic()
        client.delete(box.id)
        assert time.monotonic() - begin < 2 * tree.SLACK
        holder.join(timeout=5)
        assert not holder.is_alive(), "the running exec was not answered"
