# SPDX-License-Identifier: Apache-2.0
"""Records what exists on the host, so that a test can show that it left nothing behind. A census is a dict of category
-> Counter of strings. Other daemons of this machine are excluded where they can be distinguished (by the state
directory in their command line), so that the suites can run beside a daemon that is in use.
"""

import collections
import os
import pathlib
import re
import subprocess
import time

from lib import janitor, tree

FIRST_ID = 0x100000  # the ranges of sandboxes begin here
NS_KINDS = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
PROGRAMS = ("cay", "cayd", "cay-warden", "cay-agent", "cay-tools", "cay-build")
# Control groups of the machine's own services, which come and go without us.
FOREIGN_CGROUPS = ("/process_api", "/system.slice", "/user.slice", "/init.scope", "/docker", "/cay-docker-", "/cay-bench")
# The benchmark keeps its own things under this name.
FOREIGN_PATHS = ("/var/tmp/cay-bench-",)
# In these categories only new items are leaks; old ones may end for other reasons.
ADDITIONS_ONLY = ("processes", "namespaces", "cgroups", "loops")
WATCHED_SYSCTLS = ("kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "kernel/domainname",
                   "kernel/pid_max", "net/ipv4/ip_forward", "vm/overcommit_memory")


def _read(path):
    try:
        with open(path, "rb") as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


def _link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def all_pids():
    return [int(e) for e in os.listdir("/proc") if e.isdigit()]


def _argv(pid):
    return _read(f"/proc/{pid}/cmdline").split("\0")


def _option(argv, name):
    return argv[argv.index(name) + 1] if name in argv[:-1] else None


def foreign_states(own):
    """State directories of daemons on this machine that are not the test's."""
    found = set(FOREIGN_PATHS) | {s for s in claims().values() if s not in own}
    for pid in all_pids():
        argv = _argv(pid)
        if os.path.basename(argv[0]) in ("cay", "cayd", "cay-warden"):
            state = _option(argv, "--state")
            if state and state not in own:
                found.add(state)
    return found


def _parent(pid):
    stat = _read(f"/proc/{pid}/stat")
    return int(stat.rsplit(")", 1)[1].split()[1]) if ")" in stat else 0


def claims():
    """{instance number: state directory} of all wardens of the host."""
    found = {}
    for name in os.listdir("/run/cay") if os.path.isdir("/run/cay") else []:
        if name.isdigit():
            found[name] = _read(f"/run/cay/{name}").strip()
    return found


def _owner_state(pid):
    """The state directory of the daemon a process belongs to by group or descent, or None."""
    group = re.search(r"/cay-(\d+)/", _read(f"/proc/{pid}/cgroup"))
    if group:
        return claims().get(group.group(1))
    for _ in range(32):
        if pid <= 1:
            return None
        argv = _argv(pid)
        state = _option(argv, "--state")
        if state:
            return state
        if os.path.basename(argv[0]) == "cay":
            return "/var/lib/cay"  # a user's own command line, with the default state
        pid = _parent(pid)
    return None


def host_namespaces():
    return {kind: _link(f"/proc/self/ns/{kind}") for kind in NS_KINDS}


def _is_ours(pid):
    """By name, by control group or by owner: a leaked process of a sandbox matches at least one of them."""
    if _read(f"/proc/{pid}/comm").strip() in PROGRAMS or "/cay-" in _read(f"/proc/{pid}/cgroup"):
        return True
    try:
        return os.stat(f"/proc/{pid}").st_uid >= FIRST_ID
    except OSError:
        return False


def processes_and_namespaces(own):
    """Processes of the product, inside sandboxes and outside, and the namespaces they are in."""
    host = host_namespaces()
    processes, namespaces = collections.Counter(), collections.Counter()
    for pid in all_pids():
        if not _is_ours(pid):
            continue
        state = _owner_state(pid)
        if state and state not in own:
            continue
        processes[f"{pid} {_read(f'/proc/{pid}/comm').strip()}"] += 1
        links = {kind: _link(f"/proc/{pid}/ns/{kind}") for kind in NS_KINDS}
        for kind, link in links.items():
            if link and link != host[kind]:
                namespaces[link] = 1
    return processes, namespaces


def mounts(foreign):
    lines = collections.Counter()
    for line in _read("/proc/self/mountinfo").splitlines():
        fields = line.split(" ")
        text = " ".join((fields[4], *fields[fields.index("-") + 1:][:2]))
        if not any(state in text for state in foreign):
            lines[text] += 1
    return lines


def cgroups(own):
    found = collections.Counter()
    foreign = tuple(f"/cay-{n}" for n, state in claims().items() if state not in own)
    root = "/sys/fs/cgroup"
    for hierarchy in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        top = os.path.join(root, hierarchy)
        if os.path.islink(top) or not os.path.isdir(top):
            continue
        for path, dirs, _files in os.walk(top):
            short = path[len(top):]
            dirs[:] = [d for d in dirs if not (short + "/" + d).startswith(FOREIGN_CGROUPS) and
                       short + "/" + d not in foreign]
            found[f"{hierarchy}:{short or '/'}"] += 1
    return found


def links(own):
    """Without those that other daemons made for their sandboxes."""
    foreign = tuple(f"cay{n}-" for n, state in claims().items() if state not in own)
    return collections.Counter(name for name in os.listdir("/sys/class/net") if not name.startswith(foreign or "\0"))


def loops(foreign, own):
    """A pool of another state directory is another daemon's, also when that one is gone."""
    found = collections.Counter()
    for name in os.listdir("/sys/block"):
        backing = _read(f"/sys/block/{name}/loop/backing_file").strip()
        where, what = os.path.split(backing.removesuffix(" (deleted)"))
        if backing and not any(backing.startswith(s) for s in foreign) and \
                (what != "pool.btrfs" or where in own):
            found[backing] += 1
    return found


def ipc():
    found = collections.Counter()
    for kind in ("msg", "sem", "shm"):
        for line in _read(f"/proc/sysvipc/{kind}").splitlines()[1:]:
            found[f"{kind} {line.split()[1]}"] += 1
    for place in ("/dev/shm", "/dev/mqueue"):
        if os.path.isdir(place):
            for name in os.listdir(place):
                found[f"{place}/{name}"] += 1
    return found


def descriptors(pid):
    """By kind, not by number: which files and how many sockets, pipes, pidfds."""
    found = collections.Counter()
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return found
    for number in numbers:
        target = _link(f"/proc/{pid}/fd/{number}")
        kind = target.split(":", 1)[0] if ":[" in target else target
        if target:
            found[kind] += 1
    return found


def device_files():
    """Mode and owner of the host's device files, some of which sandboxes use."""
    found = collections.Counter()
    for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "kmsg", "loop-control"):
        try:
            info = os.stat("/dev/" + name)
        except OSError:
            continue
        found[f"/dev/{name} {info.st_mode:o} {info.st_uid}:{info.st_gid}"] += 1
    return found


def state_files(state):
    """Paths below the state directory; logs and the database's own side files come and go."""
    found = collections.Counter()
    for path, _dirs, files in os.walk(state):
        for name in files:
            short = os.path.relpath(os.path.join(path, name), state)
            if not short.startswith("logs/") and not short.startswith("cay.db-"):
                found[short] += 1
    return found


def warden_mounts(pid):
    """Mounts of the warden's own namespace, when it has one."""
    if not pid or _link(f"/proc/{pid}/ns/mnt") == _link("/proc/self/ns/mnt"):
        return collections.Counter()
    lines = collections.Counter()
    for line in _read(f"/proc/{pid}/mountinfo").splitlines():
        fields = line.split(" ")
        lines[" ".join((fields[3], fields[4], *fields[fields.index("-") + 1:][:1]))] += 1
    return lines


def subvolumes(pid):
    """Volumes of the storage pool: it is mounted nowhere, only the warden has a descriptor of it."""
    found = collections.Counter()
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return found
    for number in numbers:
        try:
            names = os.listdir(f"/proc/{pid}/fd/{number}")
        except OSError:
            continue
        found.update(n for n in names if re.fullmatch(r"v[0-9a-f]{16}", n))
    return found


def take(daemon=None, states=()):
    """The host alone, or the host with one daemon looked at from inside."""
    own = set(states) | ({daemon.state} if daemon else set())
    foreign = foreign_states(own)
    processes, namespaces = processes_and_namespaces(own)
    census = {
        "processes": processes,
        "namespaces": namespaces,
        "mounts": mounts(foreign),
        "cgroups": cgroups(own),
        "links": links(own),
        "loops": loops(foreign, own),
        "ipc": ipc(),
        "devices": device_files(),
        "sysctls": collections.Counter(
            f"{name}={_read('/proc/sys/' + name).strip()}" for name in WATCHED_SYSCTLS),
    }
    if daemon is not None:
        pids = daemon.pids()
        census["fds of cayd"] = descriptors(pids.get("cayd"))
        census["fds of cay-warden"] = descriptors(pids.get("cay-warden"))
        census["files"] = state_files(daemon.state)
        census["mounts of cay-warden"] = warden_mounts(pids.get("cay-warden"))
        census["subvolumes"] = subvolumes(pids.get("cay-warden"))
    return census


def diff(before, after, ignore=()):
    """Lines "category: +item" and "category: -item"; empty if both are equal."""
    lines = []
    for category in before:
        if category in ignore:
            continue
        for thing, count in (after[category] - before[category]).items():
            lines.append(f"{category}: +{thing}" + (f" x{count}" if count > 1 else ""))
        gone = {} if category in ADDITIONS_ONLY else before[category] - after[category]
        for thing, count in gone.items():
            lines.append(f"{category}: -{thing}" + (f" x{count}" if count > 1 else ""))
    return lines


def settle(before, daemon=None, states=(), timeout=8, ignore=()):
    """Waits until the host is as before: net namespaces and groups are removed asynchronously."""
    until = time.monotonic() + timeout * tree.SLACK
    while True:
        lines = diff(before, take(daemon, states), ignore)
        if not lines or time.monotonic() > until:
            return lines
        time.sleep(0.1)


def sandbox_pids(hostname):
    """Host pids of the processes in the sandbox whose host name this is."""
    host_uts = _link("/proc/self/ns/uts")
    found, known = [], {}
    for pid in all_pids():
        uts = _link(f"/proc/{pid}/ns/uts")
        if not uts or uts == host_uts:
            continue
        if uts not in known:
            done = subprocess.run(["nsenter", f"--uts=/proc/{pid}/ns/uts", "hostname"],
                                  capture_output=True, text=True)
            known[uts] = done.stdout.strip()
        if known[uts] == hostname:
            found.append(pid)
    return found


def grouped(state):
    """"PID NAME" of all processes in control groups of the sandboxes of one daemon."""
    own = [f"/cay-{n}/" for n, where in claims().items() if where == state]
    return {f"{pid} {_read(f'/proc/{pid}/comm').strip()}" for pid in all_pids()
            if any(group in _read(f"/proc/{pid}/cgroup") for group in own)}


def sha256_of(paths):
    return {p: subprocess.run(["sha256sum", p], capture_output=True, text=True).stdout.split()[0]
            for p in paths if pathlib.Path(p).exists()}


__all__ = ["take", "diff", "settle", "sandbox_pids", "grouped", "descriptors", "sha256_of", "janitor"]
