# SPDX-License-Identifier: Apache-2.0
"""Counts everything on the host that belongs to one daemon, by kind. Pool members and prepared parts are replaced by
equivalent ones, so names that contain numbers are counted, not compared. Other daemons of the machine are ignored.
"""

import collections
import os
import pathlib
import re
import subprocess

from lib import census

BTRFS = "btrfs"


def instance(daemon):
    """The number in the names of this daemon's control groups."""
    log = pathlib.Path(daemon.state, "logs/warden.log").read_text(errors="replace")
    found = re.findall(r"instance (\d+)", log)
    return found[-1] if found else None


def group_tops(number):
    root = pathlib.Path("/sys/fs/cgroup")
    tops = [d for d in root.glob("*") if d.is_dir() and not d.is_symlink()]
    return [top / f"cay-{number}" for top in tops if (top / f"cay-{number}").is_dir()]


def groups_and_pids(number):
    groups, pids = collections.Counter(), set()
    for top in group_tops(number):
        for path, _dirs, _files in os.walk(top):
            groups[top.parent.name] += 1
            try:
                pids.update(pathlib.Path(path, "cgroup.procs").read_text().split())
            except OSError:
                pass  # removed meanwhile
    return groups, pids


def processes_and_namespaces(pids):
    host = census.host_namespaces()
    processes, spaces = collections.Counter(), set()
    for pid in pids:
        try:
            name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            links = {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in census.NS_KINDS}
        except OSError:
            continue  # gone meanwhile
        processes[name] += 1
        spaces |= {link for kind, link in links.items() if link != host[kind]}
    return processes, collections.Counter(link.split(":")[0] for link in spaces)


def subvolumes(pid):
    """Subvolumes of the storage pool, which only the warden has mounted: through its descriptors."""
    for number in os.listdir(f"/proc/{pid}/fd") if pid else []:
        path = f"/proc/{pid}/fd/{number}"
        kind = subprocess.run(["stat", "-f", "-L", "-c", "%T", path], capture_output=True, text=True)
        if kind.stdout.strip() != BTRFS or not os.path.isdir(path):
            continue
        done = subprocess.run(["btrfs", "subvolume", "list", path + "/"], capture_output=True,
                              text=True)
        if done.returncode == 0:
            return collections.Counter(subvolumes=len(done.stdout.splitlines()))
    return collections.Counter()


def by_kind(things):
    counts = collections.Counter()
    for thing, number in things.items():
        counts[re.sub(r"[0-9a-z]*\d[0-9a-z]*", "*", thing)] += number
    return counts


def host_mounts(state):
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return collections.Counter(mounts=sum(state in line for line in lines))


def loops(state):
    found = 0
    for backing in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            found += backing.read_text().startswith(state + "/")
        except OSError:
            pass
    return collections.Counter(loops=found)


def take(daemon):
    pids = daemon.pids()
    groups, members = groups_and_pids(instance(daemon))
    processes, namespaces = processes_and_namespaces(members | {str(p) for p in pids.values()})
    return {
        "processes": processes,
        "namespaces": namespaces,
        "cgroups": groups,
        "mounts": host_mounts(daemon.state),
        "mounts of cay-warden": by_kind(census.warden_mounts(pids.get("cay-warden"))),
        "links": collections.Counter(links=len(os.listdir("/sys/class/net"))),
        "loops": loops(daemon.state),
        "fds of cayd": census.descriptors(pids.get("cayd")),
        "fds of cay-warden": by_kind(census.descriptors(pids.get("cay-warden"))),
        "files": by_kind(census.state_files(daemon.state)),
        "subvolumes": subvolumes(pids.get("cay-warden")),
    }


def rest(state, number):
    """What still has this daemon's names after it was stopped."""
    found = [f"control group {top}" for top in group_tops(number)] if number else []
    found += [f"{n} {kind}" for kind, n in (host_mounts(state) + loops(state)).items() if n]
    return found
