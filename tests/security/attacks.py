# SPDX-License-Identifier: Apache-2.0
"""Attacks that a control must stop. Each takes a sandbox and asserts that the attack was refused. The suites run them
against the product. test_controls_matter.py runs the same functions against a test build with one control switched
off and expects the assertion to fail, which proves that each attack detects a missing control.
"""

import os
import re
import socket
import subprocess

from lib import census

REFUSED = {"EPERM", "ENOSYS", "EACCES", "EROFS"}
# Known to Linux 6.18; what comes later must answer ENOSYS even on a newer kernel.
LAST_KNOWN_SYSCALL = 469

# Refused whatever the arguments are: (number, name).
DENIED_SYSCALLS = {
    103: "syslog", 134: "uselib", 136: "ustat", 139: "sysfs", 154: "modify_ldt", 155: "pivot_root",
    156: "_sysctl", 159: "adjtimex", 161: "chroot", 163: "acct", 164: "settimeofday", 165: "mount",
    166: "umount2", 167: "swapon", 168: "swapoff", 169: "reboot", 172: "iopl", 173: "ioperm",
    174: "create_module", 175: "init_module", 176: "delete_module", 177: "get_kernel_syms",
    178: "query_module", 179: "quotactl", 180: "nfsservctl", 212: "lookup_dcookie",
    227: "clock_settime", 237: "mbind", 238: "set_mempolicy", 246: "kexec_load", 248: "add_key",
    249: "request_key", 250: "keyctl", 256: "migrate_pages", 272: "unshare", 278: "vmsplice",
    279: "move_pages", 298: "perf_event_open", 300: "fanotify_init", 304: "open_by_handle_at",
    305: "clock_adjtime", 308: "setns", 312: "kcmp", 313: "finit_module", 320: "kexec_file_load",
    321: "bpf", 323: "userfaultfd", 425: "io_uring_setup", 426: "io_uring_enter",
    427: "io_uring_register", 428: "open_tree", 429: "move_mount", 430: "fsopen", 431: "fsconfig",
    432: "fsmount", 433: "fspick", 435: "clone3", 438: "pidfd_getfd", 440: "process_madvise",
    442: "mount_setattr", 443: "quotactl_fd", 447: "memfd_secret", 450: "set_mempolicy_home_node",
    456: "futex_requeue", 457: "statmount", 458: "listmount", 459: "lsm_get_self_attr",
    460: "lsm_set_self_attr", 461: "lsm_list_modules", 467: "open_tree_attr",
}
# Calls of ordinary programs; a filter that refuses these breaks the sandbox.
NEEDED_SYSCALLS = {
    0: "read", 1: "write", 2: "open", 3: "close", 4: "stat", 5: "fstat", 7: "poll", 8: "lseek",
    9: "mmap", 10: "mprotect", 12: "brk", 13: "rt_sigaction", 16: "ioctl", 20: "writev",
    22: "pipe", 32: "dup", 39: "getpid", 41: "socket", 42: "connect", 59: "execve", 61: "wait4",
    72: "fcntl", 80: "chdir", 82: "rename", 90: "chmod", 92: "chown", 105: "setuid",
    202: "futex", 213: "epoll_create", 228: "clock_gettime", 257: "openat", 262: "newfstatat",
    290: "eventfd2", 302: "prlimit64", 318: "getrandom", 319: "memfd_create", 332: "statx",
    334: "rseq", 436: "close_range", 437: "openat2", 439: "faccessat2",
}

ALLOWED_CAPS = {0, 1, 3, 4, 5, 6, 7, 8, 10, 31}


def all_refused(lines, keys=None, allowed=REFUSED):
    bad = {k: v for k, v in lines.items()
           if (keys is None or any(k.startswith(p) for p in keys)) and v not in allowed}
    assert not bad, f"not refused: {bad}"


def need(lines, *prefixes):
    """The probe must have reported each; silence is no proof."""
    for prefix in prefixes:
        assert any(k.startswith(prefix) for k in lines), f"the probe says nothing of {prefix}"


# -- system calls ---------------------------------------------------------------------------------

def syscall_table(box, how="plain", user="root"):
    """Calls that may block get only a short time; on a busy machine the others may need another attempt."""
    table = {}
    for _ in range(5):
        lines = box.probe("syscalls", how, user=user, timeout_sec=60).ok().probe()
        assert len(lines) > 500, f"only {len(lines)} answers"
        for number, answer in lines.items():
            if number.isdigit() and table.get(int(number), "timeout") == "timeout":
                table[int(number)] = answer
        late = {n for n, answer in table.items() if answer == "timeout"}
        if not [n for n in late if n > LAST_KNOWN_SYSCALL or n in DENIED_SYSCALLS]:
            break
    return table


def judge_table(table):
    reached = {DENIED_SYSCALLS[n]: table.get(n) for n in DENIED_SYSCALLS
               if table.get(n) not in ("EPERM", "ENOSYS", "EACCES")}
    assert not reached, f"reachable although the policy refuses them: {reached}"
    unknown = {n: v for n, v in table.items() if n > LAST_KNOWN_SYSCALL and v != "ENOSYS"}
    assert not unknown, f"unknown numbers must be ENOSYS: {unknown}"
    broken = {NEEDED_SYSCALLS[n]: table[n] for n in NEEDED_SYSCALLS
              if table.get(n) in ("ENOSYS", "sig:31")}
    assert not broken, f"needed by every program, refused: {broken}"


def dangerous_syscalls(box):
    lines = box.probe("filter").ok().probe()
    need(lines, "io_uring_setup", "userfaultfd", "bpf", "kcmp", "memfd_secret")
    lines.pop("personality.query", None)
    lines.pop("set_mempolicy", None) if lines.get("set_mempolicy") == "ENOSYS" else None
    all_refused(lines)


def foreign_abis(box):
    lines = box.probe("abi").probe()
    need(lines, "int80.getpid", "int80.socketcall", "x32.getpid", "elf32", "native")
    killed = REFUSED | {"sig:31", "sig:9", "sig:11", "sig:4"}
    all_refused(lines, ("int80", "x32"), killed)
    assert lines["elf32"] != "exit:42", "a 32-bit program reached the i386 system call table"
    assert lines["native"] == "ok:0"


def socket_families(box):
    lines = box.probe("sockets").ok().probe()
    need(lines, "socket.40.", "socket.38.", "socket.17.", "netlink.6")
    opened = {k for k, v in lines.items() if v.startswith("ok")}
    families = {int(k.split(".")[1]) for k in opened if k.startswith(("socket.", "pair."))}
    assert families <= {1, 2, 10, 16}, f"families that opened: {sorted(families)}"
    raw = {k for k in opened if re.fullmatch(r"socket\.(2|10)\.(3|10)", k)}
    assert not raw, f"raw and packet sockets opened: {raw}"
    netlink = {k for k in opened if k.startswith("netlink.")}
    assert netlink <= {"netlink.0"}, f"netlink protocols that opened: {netlink}"
    high = {k for k in opened if k.startswith("high.")}
    assert not high, f"the upper half of the argument fooled the filter: {high}"
    assert "socket.1.1" in opened and "socket.2.1" in opened


def namespaces_closed(box, user="root"):
    lines = box.probe("clone", user=user).ok().probe()
    need(lines, "clone.user", "clone3.user", "unshare.user", "setns.self.net", "setns.1.")
    # unshare with high bits: the kernel itself says EINVAL when it looks at them.
    all_refused(lines, allowed=REFUSED | {"ENOSPC", "EINVAL"})


def mounts_closed(box):
    lines = box.probe("mounts").ok().probe()
    need(lines, "mount.tmpfs", "mount.overlay", "fsopen", "open_tree.clone", "mount_setattr",
         "remount./proc", "umount./")
    # Calls on descriptors we could not get say EBADF in a build without the filter.
    all_refused(lines, ("mount", "fs", "open_tree", "move_mount", "remount", "umount"))


def root_stays(box):
    lines = box.probe("root").ok().probe()
    assert lines["root"] == "same"
    all_refused(lines, ("pivot_root", "chroot"))


def handles_closed(box):
    lines = box.probe("handles").ok().probe()
    need(lines, "handle.ext4./", "handle.btrfs./")
    all_refused(lines)


def keys_closed(box):
    lines = box.probe("keys").ok().probe()
    need(lines, "add_key.user", "keyctl.user")
    all_refused(lines)


def clocks_closed(box):
    lines = box.probe("clock").ok().probe()
    all_refused(lines, ("clock", "settimeofday", "adjtimex"))


def terminal_ioctls(box):
    lines = box.probe("ioctl").ok().probe()
    need(lines, "tiocsti", "tioclinux")
    all_refused(lines, ("tiocsti", "tioclinux"))


# -- identity -------------------------------------------------------------------------------------

def capability_sets(box, user="root"):
    lines = box.probe("caps", user=user).ok().probe()
    need(lines, "CapBnd", "CapEff", "CapInh", "CapAmb")
    for name in ("CapBnd", "CapEff", "CapPrm"):
        bits = {i for i in range(64) if int(lines[name], 16) >> i & 1}
        assert bits <= ALLOWED_CAPS, f"{name} holds {sorted(bits - ALLOWED_CAPS)} too much"
    assert int(lines["CapInh"], 16) == 0, "the inheritable set is not empty"
    assert int(lines["CapAmb"], 16) == 0, "the ambient set is not empty"


def uid_map(box):
    text = box.sh("cat /proc/self/uid_map /proc/self/gid_map")
    for line in text.splitlines():
        inside, outside, count = (int(w) for w in line.split())
        assert outside >= 1000000, f"host ids below one million are mapped: {line!r}"
        assert not outside <= 65534 < outside + count, f"host id 65534 is mapped: {line!r}"
        assert inside == 0 and count == 65536, f"not one whole private range: {line!r}"
    return int(text.split()[1])


def idmapped_root(box):
    """Files of the shared template belong to root inside, although their owner was not changed."""
    assert box.sh("stat -c %u:%g /etc/passwd /bin/ls / /usr").split() == ["0:0"] * 4
    box.sh("touch /etc/cay-idmap && chown 0:0 /etc/cay-idmap && rm /etc/cay-idmap")


def init_protected(box):
    lines = box.probe("init").ok().probe()
    need(lines, "ptrace.seize", "mem.write", "exe.write", "pidfd_getfd.3")
    # fd.list and environ may be readable only when they tell nothing; judged elsewhere.
    all_refused(lines, ("ptrace", "vm_", "mem.", "exe.", "fd.open", "pidfd_getfd"),
                REFUSED | {"ETXTBSY", "ENOENT", "ESRCH", "ENXIO"})


# -- /proc, /sys, /dev ----------------------------------------------------------------------------

MASKED_PROC = ("kcore", "keys", "key-users", "kmsg", "kallsyms", "kpagecount", "kpageflags",
               "kpagecgroup", "slabinfo", "timer_list", "sched_debug", "interrupts", "vmallocinfo",
               "zoneinfo", "config.gz", "latency_stats", "sysrq-trigger")


def proc_masked(box):
    script = "for f in " + " ".join(MASKED_PROC) + """; do
        p=/proc/$f; n=$(timeout 1 head -c 4096 $p 2>/dev/null | tr -d '\\0' | wc -c)
        echo "$f $n"; done"""
    sizes = dict(line.split() for line in box.sh(script).splitlines())
    leaking = {k: v for k, v in sizes.items() if v != "0"}
    assert len(sizes) == len(MASKED_PROC)
    assert not leaking, f"readable: {leaking}"


def proc_covered(box):
    """No value of the host in the files from which programs choose their sizes."""
    with open("/proc/meminfo") as f:
        total = f.readline().split()[1]
    with open("/proc/stat") as f:
        boot = next(line for line in f if line.startswith("ctxt"))
    for path in ("/proc/meminfo", "/proc/self/../meminfo", "/proc/1/../meminfo", "/proc/self/root/proc/meminfo"):
        text = box.sh(f"cat {path}")
        assert text.startswith("MemTotal:") and total not in text.split("\n")[0], (path, text[:200])
    assert "ctxt 0\n" in box.sh("cat /proc/stat") and boot != "ctxt 0\n"
    assert box.sh("cat /proc/cmdline /proc/partitions /proc/diskstats") == ""
    assert len(box.sh("cat /proc/swaps").splitlines()) == 1


def oom_score_floor(box):
    first = min(census.sandbox_pids(box.id))
    with open(f"/proc/{first}/oom_score_adj") as f:
        assert int(f.read()) >= 100, "pid 1 is as dear to the kernel as the daemon"
    text = box.sh("""cat /proc/self/oom_score_adj
        for v in -1000 -1 0; do sh -c 'echo $1 > /proc/$$/oom_score_adj' x $v 2>/dev/null \
            && echo set $v || echo refused $v; done; cat /proc/1/oom_score_adj""")
    lines = text.split("\n")
    assert int(lines[0]) >= 100, f"starts at {lines[0]}: the host's own processes would die first"
    assert int(lines[4]) >= 100, "pid 1 starts no lower than the daemon"
    assert "set -" not in text, text
    # A floor above 0 needs CAP_SYS_RESOURCE on the host; without it the kernel allows to go back to 0.
    with open("/proc/self/status") as f:
        mine = [int(li.split()[1], 16) for li in f if li.startswith("CapEff")][0]
    assert "set 0" not in text or not mine >> 24 & 1, text


def cgroup_view(box):
    for line in box.sh("cat /proc/self/cgroup").splitlines():
        # Every command has a group of its own, below the sandbox's, which is the root inside.
        assert re.fullmatch(r"/\d{0,9}", line.rsplit(":", 1)[1]), f"the host's group path shows: {line}"


def agent_groups_closed(box):
    """Pid 1 has descriptors of the sandbox's cgroups; no process inside can reach them through it."""
    script = """ls -l /proc/self/fd | grep -c -- '->'
        cd /tmp; for n in 3 4 5 6 7 8 9 10 11 12; do f=/proc/1/fd/$n
            readlink $f && echo won readlink $n
            ls $f/ && echo won ls $n
            mkdir $f/won && echo won mkdir $n
            cat $f/cgroup.procs $f/memory.limit_in_bytes && echo won read $n
            echo 0 > $f/tasks && echo won tasks $n
            echo THAWED > $f/freezer.state && echo won thaw $n
        done 2>/dev/null; ls /proc/1/cwd/ /proc/1/root/ >/dev/null 2>&1 && echo won root; true"""
    for run in (box.root, lambda text: box.exec(text)):
        lines = run(script).stdout.splitlines()
        assert lines[0] == "4", f"a command inherits more than three descriptors: {lines[0]}"
        assert not lines[1:], lines


def network_none(box):
    assert box.sh("ls /sys/class/net 2>/dev/null; tail -n +3 /proc/net/dev | cut -d: -f1") \
        .split() in (["lo"], ["lo", "lo"])
    routes = box.sh("tail -n +2 /proc/net/route")
    assert routes.strip() == "", routes


def host_service(box):
    """A service of the host on all of its addresses, from a sandbox with a link: never reached."""
    server = socket.create_server(("0.0.0.0", 0))
    try:
        with box.client.sandbox(network=1, memory_mb=256, disk_size_mb=64) as linked:
            code = ("import socket, sys; gateway = [l.split()[2] for l in open('/proc/net/route') if l.split()[1] == "
                    "'00000000'][0]; address = socket.inet_ntoa(bytes.fromhex(gateway)[::-1])\n"
                    "try: socket.create_connection((address, int(sys.argv[1])), 20); print('open')\n"
                    "except OSError as error: print(error)")
            said = linked.exec(["python3", "-c", code, str(server.getsockname()[1])]).stdout
    finally:
        server.close()
    assert "refused" in said, said


def mount_flags(box):
    """Device files work only where we put them: every mount except those single files is nodev."""
    for line in box.sh("cat /proc/self/mountinfo").splitlines():
        fields = line.split()
        point, options = fields[4], fields[5].split(",")
        if point.startswith("/dev/") and point not in ("/dev/shm", "/dev/mqueue"):
            continue
        if point == "/dev" and "ro" in options:
            continue  # our own list of nodes, to which none can be added
        assert "nodev" in options, f"device files would work on {point}: {options}"


def planted_node(box):
    """The host itself plants a device node in the tree (as an import bug would); it must not work."""
    pids = census.sandbox_pids(box.id)
    assert pids, "no process of the sandbox found on the host"
    first, node = uid_map(box), f"/proc/{min(pids)}/root/tmp/planted"
    # As the sandbox's own root in the host's numbers, with the host's right to make devices.
    rights = "+mknod,+dac_override,+dac_read_search,+sys_ptrace,+fowner"
    plant = subprocess.run(
        ["setpriv", f"--reuid={first}", f"--regid={first}", "--clear-groups", f"--inh-caps={rights}",
         f"--ambient-caps={rights}", "sh", "-c",
         # loop-control: opening it does nothing, and it is on no list
         f"rm -f {node}; mknod -m 666 {node} c 10 237"], capture_output=True, text=True)
    assert plant.returncode == 0, f"the test could not plant its node: {plant.stderr}"
    result = box.root("stat -c %F /tmp/planted; (exec 3</tmp/planted) 2>/dev/null && echo opened; "
                      "rm -f /tmp/planted")
    assert result.stdout.split("\n")[0] == "character special file", repr(result)
    assert "opened" not in result.stdout, "the planted device could be opened"


def mknod_refused(box):
    lines = box.probe("mknod").ok().probe()
    need(lines, "mknod.vda", "mknod.kvm", "mknod.mem")
    all_refused(lines, ("mknod",), REFUSED | {"ENOENT"})
    assert not [k for k, v in lines.items() if k.startswith("open.") and v.startswith("ok")]


# -- exhaustion -----------------------------------------------------------------------------------

def pty_limit(box, limit=1024):
    lines = box.probe("bomb-pty", limit * 2 + 10).ok().probe()
    assert lines.get("pty") in ("ENOSPC", "EMFILE", "ENFILE", "EIO"), lines
    assert int(lines["ptys"].split(":")[1]) <= limit
    assert lines["pty"] != "EMFILE", "only the descriptor limit of one process stopped it"


def fork_limit(box, limit=4096):
    lines = box.probe("bomb-fork", limit + 100, timeout_sec=30).probe()
    assert lines.get("fork") == "EAGAIN", f"{lines} forks went through"


def memory_limit(box, memory_mb):
    result = box.probe("bomb-mem", memory_mb * 2, timeout_sec=30)
    assert "mem.all" not in result.probe(), "twice the limit could be touched"
    assert result.signal in ("SIGKILL", "KILL", 9) or result.exit_code in (137, 1), repr(result)


def disk_limit(box, disk_mb):
    lines = box.probe("bomb-disk", "/workspace/fill", disk_mb * 2, timeout_sec=60).probe()
    box.root("rm -f /workspace/fill")
    assert set(lines.values()) & {"ENOSPC", "EDQUOT"}, f"no limit was met: {lines}"
    assert int(lines["written_mb"].split(":")[1]) <= disk_mb


def cpu_quota(box):
    """The share the kernel will give at most, in CPUs, read on the host; None without a quota."""
    with open(f"/proc/{min(census.sandbox_pids(box.id))}/cgroup") as f:
        groups = [line.strip().split(":", 2)[1:] for line in f]
    for controllers, path in groups:
        v1 = f"/sys/fs/cgroup/cpu{path}/cpu.cfs_quota_us"
        if "cpu" in controllers.split(",") and os.path.exists(v1):
            with open(v1) as quota, open(v1.replace("quota", "period")) as period:
                share = int(quota.read()) / int(period.read())
                return share if share > 0 else None
        v2 = f"/sys/fs/cgroup{path}/cpu.max"
        if not controllers and os.path.exists(v2):
            with open(v2) as f:
                quota, period = f.read().split()
                return None if quota == "max" else int(quota) / int(period)
    return None


def cpu_limit(box, cpus, wall_ms=1000):
    lines = box.probe("bomb-cpu", 4, wall_ms).ok().probe()
    used = int(lines["cpu_ms"].split(":")[1])
    assert used <= wall_ms * cpus * 1.35, f"{used} ms of CPU in {wall_ms} ms with {cpus} CPU"
    # On a busy machine a burner gets little anyway: check the rule itself, too.
    share = cpu_quota(box)
    assert share is not None and share <= cpus * 1.1, f"quota {share} for {cpus} CPU"
