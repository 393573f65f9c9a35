# SPDX-License-Identifier: Apache-2.0
"""What /proc shows: every file in it, apart from those of processes, is on a list here with the reason why it may be
read, or it shows nothing. A file that a newer kernel adds fails this test until someone has looked at it.
"""

import contextlib
import fnmatch
import json

import pytest

from lib import memory

OWN = "of the sandbox's own namespaces"
LIMITS = "cover.c: shows the limits of the sandbox"
TEXT = "mask.c: a text that never changes"
KERNEL = "describes the kernel, which is the same for every sandbox and known from uname(2)"
HARDWARE = "describes the hardware and never changes while the host runs; addresses are 0"
SETTING = "a setting of the host, which root of the host changes and no sandbox can"

# The first pattern that fits counts.
READABLE = [
    ("meminfo|stat|loadavg|cpuinfo|swaps|vmstat", LIMITS),
    ("cgroups|sys/fs/*|sys/kernel/pty/*", TEXT),
    ("sys/kernel/random/boot_id", "identity.c: of the sandbox"),
    ("uptime", "own, by the time namespace; the second number is the host's idle time, as sysinfo(2) and a busy loop "
               "show it"),
    ("version|filesystems|execdomains|devices|misc|consoles|tty/*|bootconfig", KERNEL),
    ("iomem|ioports|dma|mtrr|fb|acpi/*|bus/*|driver/*", HARDWARE),
    ("crypto", "algorithms of the kernel and their users; no sandbox can use them (AF_ALG is refused)"),
    ("sysvipc/*", OWN),
    ("sys/kernel/hostname|sys/kernel/domainname|sys/kernel/ns_last_pid|sys/kernel/cad_pid", OWN),
    ("sys/kernel/msg*|sys/kernel/sem*|sys/kernel/shm*|sys/kernel/auto_msgmni", OWN),
    ("sys/net/*", OWN),
    ("sys/user/*", "limits of the sandbox's own user namespace"),
    ("sys/kernel/random/uuid", "new at every read"),
    ("sys/kernel/random/entropy_avail", "always 256 since Linux 5.18"),
    ("sys/kernel/hung_task_detect_count|sys/kernel/hung_task_warnings|sys/kernel/tainted",
     "counts faults of the kernel, which no sandbox causes at will"),
    ("sys/abi/*|sys/debug/*|sys/dev/*|sys/kernel/*|sys/vm/*", SETTING),
]

# Dynamic values of the whole kernel, in files below /proc/PID/net that cannot be covered: a mount lies over one name,
# and every process has names of its own. SECURITY.md lists them.
NET_OF_THE_HOST = {"sockstat", "sockstat6", "protocols", "softnet_stat"}

LIST = """
import json, os, stat
found = {}
for top, dirs, names in os.walk("/proc"):
    if top == "/proc":
        dirs[:] = [d for d in dirs if not d.isdigit()]
    for name in names:
        path = os.path.join(top, name)
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                continue
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            found[path[6:]] = len(os.read(fd, 4096))
        except OSError:
            found[path[6:]] = 0
        os.close(fd)
print(json.dumps(found))
"""


def why(path):
    for patterns, reason in READABLE:
        if any(fnmatch.fnmatchcase(path, p) for p in patterns.split("|")):
            return reason
    return None


def listing(box):
    return json.loads(box.root(["python3", "-c", LIST], timeout_sec=60).ok().stdout)


def judge(box):
    found = listing(box)
    assert len(found) > 100
    unexplained = {path: size for path, size in found.items() if size and not why(path)}
    assert not unexplained, f"readable, and nobody has said why: {unexplained}"


def test_every_file_has_a_reason(box):
    judge(box)


def test_every_file_has_a_reason_with_memory():
    with memory.daemon() as daemon, daemon.client.sandbox(timeout_sec=3600) as box:
        row = daemon.client.call("POST", f"/v1/sandboxes/{box.id}/pause", {"kind": "hibernate"})
        assert row["memory_preserved"] is True, row
        daemon.client.call("POST", f"/v1/sandboxes/{box.id}/resume", {})
        judge(box)


# -- what one does and another could read ---------------------------------------------------------

BUSY = """
import ctypes, fcntl, os, pty, socket, sys, time
libc = ctypes.CDLL(None)
files = [open("/tmp/busy%d" % i, "w") for i in range(200)]
for f in files:
    fcntl.flock(f, fcntl.LOCK_EX)
terminals = [pty.openpty() for _ in range(100)]
context = ctypes.c_ulong()
libc.syscall(206, 128, ctypes.byref(context))  # io_setup
for i in range(20):
    os.makedirs("/tmp/many/%d/a/b/c" % i, exist_ok=True)
open("/tmp/ready", "w").write("x")
time.sleep(600)
"""

READ = ("for f in locks cgroups interrupts softirqs schedstat diskstats key-users zoneinfo buddyinfo vmstat "
        "sys/fs/file-nr sys/fs/inode-nr sys/fs/inode-state sys/fs/dentry-state sys/fs/aio-nr sys/kernel/pty/nr; "
        "do echo $f $(cat /proc/$f); done; find /proc/fs /proc/irq /proc/pressure -type f "
        "| xargs -r cat")


def test_a_neighbour_does_not_show(client, neighbour):
    """Files, locks, terminals and contexts of one sandbox change no file of /proc of another."""
    with client.sandbox(memory_mb=512) as box:
        before = neighbour.sh(READ)
        assert "sys/fs/file-nr 0 0" in before and "\nlocks" in "\n" + before.replace("locks \n", "locks\n")
        box.put("/tmp/busy.py", BUSY.encode())
        box.exec("setsid -f python3 /tmp/busy.py > /tmp/busy.log 2>&1 < /dev/null; "
                 "until test -e /tmp/ready; do sleep 0.05; done", user="root", timeout_sec=60).ok()
        assert neighbour.sh(READ) == before


def test_settings_are_readable(box):
    """What programs look up is there, with the host's values."""
    for name in ("fs/file-max", "fs/nr_open", "fs/inotify/max_user_watches", "fs/pipe-max-size", "kernel/pty/max"):
        with open(f"/proc/sys/{name}") as f:
            assert box.sh(f"cat /proc/sys/{name}") == f.read(), name
    assert "memory" in box.sh("cut -f1 /proc/cgroups")


# -- sysctls after a resume with memory -----------------------------------------------------------

WRITE = """
import json, os
done = []
for top, dirs, names in os.walk("/proc/sys"):
    for name in names:
        path = os.path.join(top, name)
        try:
            old = open(path).read()
        except (OSError, UnicodeDecodeError):
            old = ""
        try:
            fd = os.open(path, os.O_WRONLY)
        except OSError:
            continue
        try:
            os.write(fd, (old or "0").encode())
            done.append(path)
        except OSError:
            pass
        os.close(fd)
print(json.dumps(done))
"""
# Lower limits of its own user namespace, and the last pid of its own pid namespace, harm only the sandbox itself.
OWN_SYSCTLS = ("/proc/sys/user/", "/proc/sys/kernel/ns_last_pid")


def resumed(daemon, stack):
    box = stack.enter_context(daemon.client.sandbox(timeout_sec=3600))
    row = daemon.client.call("POST", f"/v1/sandboxes/{box.id}/pause", {"kind": "hibernate"})
    assert row["memory_preserved"] is True, row
    daemon.client.call("POST", f"/v1/sandboxes/{box.id}/resume", {})
    return box


def forked(daemon, stack):
    box = stack.enter_context(daemon.client.sandbox(timeout_sec=3600))
    child = daemon.client.sandbox()
    child.id = daemon.client.call("POST", f"/v1/sandboxes/{box.id}/fork", {"memory": True})["data"][0]["id"]
    stack.callback(daemon.client.delete, child.id)
    return child


def sysctls_closed(box):
    written = json.loads(box.root(["python3", "-c", WRITE], timeout_sec=60).ok().stdout)
    assert not [p for p in written if not p.startswith(OWN_SYSCTLS)], written
    was = box.sh("cat /proc/sys/kernel/pid_max")
    assert "wrote" not in box.root("echo 301 > /proc/sys/kernel/pid_max && echo wrote").stdout
    assert box.sh("cat /proc/sys/kernel/pid_max") == was


def test_sysctls_are_closed(box):
    sysctls_closed(box)


@pytest.mark.parametrize("make", [resumed, forked], ids=lambda m: m.__name__)
def test_sysctls_are_closed_with_memory(make):
    """CRIU makes a pid namespace that belongs to the sandbox's user namespace, and kernel.pid_max with it."""
    with memory.daemon() as daemon, contextlib.ExitStack() as stack:
        sysctls_closed(make(daemon, stack))
