# SPDX-License-Identifier: Apache-2.0
"""A process that outlives a killed test run and restores the machine. The harness reports on its standard input what
exists ("+state DIR CAY", "+file PATH") and what was removed ("-state DIR"). When the pipe closes, everything that
is still registered is removed.
"""

import os
import shutil
import signal
import subprocess
import sys
import time


def state_pids(state):
    """Processes started for this state directory: daemon, warden, supervisor."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as f:
                argv = f.read().split(b"\0")
        except OSError:
            continue
        if state.encode() not in argv:
            continue
        name = os.path.basename(argv[0].decode(errors="replace"))
        if name in ("cay", "cayd", "cay-warden"):
            found[int(entry)] = name
    # Between clone and exec a sandbox's first process still carries the warden's command line.
    return {pid: name for pid, name in found.items()
            if name == "cay" or (found.get(parent_of(pid)) != name and in_host_pid_namespace(pid))}


def in_host_pid_namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
    except OSError:
        return False


def parent_of(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return int(f.read().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0


def instances(state):
    """Numbers the warden claimed for this state directory; they name its control groups."""
    found = []
    for name in os.listdir("/run/cay") if os.path.isdir("/run/cay") else []:
        if name.isdigit():
            with open(f"/run/cay/{name}") as f:
                if f.read().strip() == state:
                    found.append(int(name))
    return found


def group_roots(number):
    tops = ["/sys/fs/cgroup"] + [f"/sys/fs/cgroup/{top}" for top in os.listdir("/sys/fs/cgroup")]
    return [path for top in tops if os.path.isdir(path := f"{top}/cay-{number}")]


def kill_groups(state):
    """SIGKILL to all processes of a sandbox; returns their pids."""
    pids = set()
    for number in instances(state):
        for root in group_roots(number):
            for path, _dirs, _files in os.walk(root):
                try:
                    with open(path + "/cgroup.procs") as f:
                        pids |= {int(line) for line in f}
                except OSError:
                    pass
    for pid in pids - {0}:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return pids


def sweep_instance(state):
    """What a permanently killed warden leaves running: its sandboxes, their groups, its claim."""
    for _ in range(50):
        if not kill_groups(state):
            break
        time.sleep(0.05)
    for number in instances(state):
        for root in group_roots(number):
            for path, _dirs, _files in os.walk(root, topdown=False):
                try:
                    os.rmdir(path)
                except OSError:
                    pass
        try:
            os.unlink(f"/run/cay/{number}")
        except OSError:
            pass


def unmount_below(state):
    for _ in range(5):
        with open("/proc/self/mountinfo") as f:
            points = [line.split()[4] for line in f]
        mine = [p for p in points if p == state or p.startswith(state + "/")]
        if not mine:
            return
        for point in reversed(mine):
            subprocess.run(["umount", "-l", point], stderr=subprocess.DEVNULL)


def detach_loops(state):
    for name in os.listdir("/sys/block"):
        try:
            with open(f"/sys/block/{name}/loop/backing_file") as f:
                backing = f.read().strip()
        except OSError:
            continue
        if backing.startswith(state + "/"):
            subprocess.run(["losetup", "-d", f"/dev/{name}"], stderr=subprocess.DEVNULL)


def take_down(state, cay):
    """Stops what runs on the state directory and removes it; each step is tried, whatever failed before."""
    if state_pids(state):
        try:
            subprocess.run([cay, "down", "--yes", "--state", state], timeout=20,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            pass
    for _ in range(20):
        # The supervisor first, otherwise it restarts what is killed.
        left = sorted(state_pids(state).items(), key=lambda item: item[1] != "cay")
        if not left:
            break
        for pid, _name in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.1)
    clean(state)


def clean(state):
    """After the programs are gone: sandboxes, mounts, loop devices, files."""
    sweep_instance(state)
    unmount_below(state)
    detach_loops(state)
    shutil.rmtree(state, ignore_errors=True)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    states, files = {}, set()
    for line in sys.stdin:
        verb, *words = line.rstrip("\n").split("\t")
        if verb == "+state":
            states[words[0]] = words[1]
        elif verb == "-state":
            states.pop(words[0], None)
        elif verb == "+file":
            files.add(words[0])
        elif verb == "-file":
            files.discard(words[0])
    for state, cay in states.items():
        take_down(state, cay)
    for path in files:
        if os.path.exists(path):
            os.unlink(path)


if __name__ == "__main__":
    main()
