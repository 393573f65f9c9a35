# SPDX-License-Identifier: Apache-2.0
"""The channel finder: which inodes two sandboxes both see, and whether anything done to a file in one of them can be
noticed in the other. INSIDE runs in the sandboxes; the functions below compare what it found.

A file system shows numbers of its own choice, so the pair (device, inode) of stat() alone does not identify an inode:
an overlay shows the device of the layer below for files that were written. The device of the mount (mountinfo) is that
of the superblock which the inode belongs to. Both are compared.
"""

import contextlib
import json
import os
import signal

from lib import census
from lib.commands import wait_for

INSIDE = r'''
import ctypes, errno, fcntl, json, os, select, signal, socket, stat, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
ALL_EVENTS = 0xfff
NAMES = {1: "ACCESS", 2: "MODIFY", 4: "ATTRIB", 8: "CLOSE_WRITE", 16: "CLOSE_NOWRITE", 32: "OPEN", 64: "MOVED_FROM",
         128: "MOVED_TO", 256: "CREATE", 512: "DELETE", 1024: "DELETE_SELF", 2048: "MOVE_SELF"}
F_OFD_SETLK = 37


def mounts():
    for line in open("/proc/self/mountinfo"):
        fields = line.split()
        major, minor = fields[2].split(":")
        yield fields[4], (os.makedev(int(major), int(minor)), fields[fields.index("-") + 1])


def walk():
    """Every path with the mount that it is on. Of processes only this one's namespaces."""
    points = dict(mounts())
    stack = [("/", points["/"])]
    while stack:
        path, mount = stack.pop()
        yield path, mount
        try:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                continue
            names = os.listdir(path)
        except OSError:
            continue
        for name in names:
            if path == "/proc" and (name.isdigit() or name in ("self", "thread-self")):
                continue
            child = os.path.join(path, name)
            stack.append((child, points.get(child, mount)))


def anonymous():
    """Inodes that have no path."""
    yield "eventfd", libc.eventfd(0, 0)
    yield "epoll", libc.epoll_create1(0)
    yield "inotify", libc.inotify_init1(0)
    yield "timerfd", libc.timerfd_create(1, 0)
    yield "memfd", libc.memfd_create(b"x", 0)
    yield "pidfd", os.pidfd_open(os.getpid())
    yield "pipe", os.pipe()[0]
    yield "unix", socket.socket(socket.AF_UNIX).detach()
    yield "tcp", socket.socket().detach()


def scan():
    found = []
    for path, (device, kind) in walk():
        try:
            st = os.lstat(path)
        except OSError:
            continue
        found.append((path, st.st_dev, st.st_ino, device, kind))
    for name in os.listdir("/proc/self/ns"):
        st = os.stat("/proc/self/ns/" + name)
        found.append(("ns:" + name, st.st_dev, st.st_ino, st.st_dev, "nsfs"))
    for name, fd in anonymous():
        st = os.fstat(fd)
        found.append(("fd:" + name, st.st_dev, st.st_ino, st.st_dev, "anon"))
    return found


def attempt(fn, *args):
    try:
        fn(*args)
        return "ok"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))


def ofd(fd, kind):
    fcntl.fcntl(fd, F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0))


def create_and_remove(path, make):
    make(path)
    os.unlink(path)


def meet(path):
    """A name that the other side could find."""
    socket.socket(socket.AF_UNIX).bind(path)


def tries(path):
    """All that can be done to a file or directory, with its results."""
    said = {}
    for flags in (os.O_RDONLY, os.O_RDWR):
        try:
            fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            said[f"open.{flags}"] = errno.errorcode[error.errno]
            continue
        is_dir = stat.S_ISDIR(os.fstat(fd).st_mode)
        said[f"flock.{flags}"] = attempt(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        kind = fcntl.F_WRLCK if flags else fcntl.F_RDLCK
        said[f"posix.{flags}"] = attempt(fcntl.lockf, fd, (fcntl.LOCK_EX if flags else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        if not is_dir:
            attempt(fcntl.lockf, fd, fcntl.LOCK_UN)
        said[f"ofd.{flags}"] = attempt(ofd, fd, kind)
        for lease in (fcntl.F_RDLCK, fcntl.F_WRLCK):
            said[f"lease.{flags}.{lease}"] = attempt(fcntl.fcntl, fd, fcntl.F_SETLEASE, lease)
        attempt(fcntl.fcntl, fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        if is_dir:
            attempt(os.listdir, fd)
        elif not flags and not path.startswith("/dev/pts") and path != "/dev/tty":
            attempt(os.read, fd, 1)
        os.close(fd)
    said["utime"] = attempt(os.utime, path, (0, 0)) if path.startswith(("/dev/n", "/run/cay", "/proc")) else ""
    if not path.startswith(("/proc", "/tmp", "/home", "/workspace")):
        said["xattr"] = attempt(os.setxattr, path, "user.cay", b"x") if path.startswith(("/dev", "/run/cay")) else ""
    if path.startswith(("/dev", "/run/cay", "/sys", "/proc")) and os.path.isdir(path) and not path.startswith("/dev/shm"):
        said["fifo"] = attempt(create_and_remove, path + "/meet", os.mkfifo)
        said["socket"] = attempt(create_and_remove, path + "/meet", meet)
    return said


def hold(paths, ready, out):
    """Watches everything and holds every lock it can get. The test stops this sandbox's agent, so that all which is
    noticed between its first and its second SIGUSR1 comes from elsewhere."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGIO})
    watcher, watched, held = libc.inotify_init1(os.O_NONBLOCK), {}, []
    for path in paths:
        for flags in (os.O_RDWR, os.O_RDONLY):
            try:
                fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
            except OSError:
                continue
            attempt(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            attempt(ofd, fd, fcntl.F_WRLCK if flags else fcntl.F_RDLCK)
            held.append(fd)
            break
    for fd in held:  # when none of the files will be opened a second time by us
        if not os.readlink(f"/proc/self/fd/{fd}").startswith(("/proc", "/sys")):
            attempt(fcntl.fcntl, fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    for path in paths:
        number = libc.inotify_add_watch(watcher, path.encode(), ALL_EVENTS)
        if number >= 0:
            watched[number] = path
    report(ready, [len(watched), len(held)])
    signal.sigtimedwait({signal.SIGUSR1}, 300)
    before, _own = {path: times(path) for path in paths}, events(watcher, watched)
    signal.sigtimedwait({signal.SIGIO}, 0)
    report(ready + ".again", [])
    seen = []
    if signal.sigtimedwait({signal.SIGUSR1, signal.SIGIO}, 300).si_signo == signal.SIGIO:
        seen.append("a lease was broken")
        signal.sigtimedwait({signal.SIGUSR1}, 300)
    seen += events(watcher, watched)
    report(out, seen + [path + " has other times, size or mode" for path in paths if times(path) != before[path]])


def report(name, value):
    open(name + ".new", "w").write(json.dumps(value))
    os.rename(name + ".new", name)


def times(path):
    try:
        st = os.lstat(path)
    except OSError:
        return None
    return st.st_atime_ns, st.st_mtime_ns, st.st_ctime_ns, st.st_size, st.st_mode


def events(watcher, watched):
    seen = []
    while True:
        try:
            data = os.read(watcher, 1 << 20)
        except BlockingIOError:
            return seen
        at = 0
        while at < len(data):
            number, mask, _cookie, size = struct.unpack_from("iIII", data, at)
            name = data[at + 16:at + 16 + size].rstrip(b"\0").decode()
            at += 16 + size
            what = "|".join(word for bit, word in NAMES.items() if mask & bit)
            seen.append(f"{os.path.join(watched.get(number, '?'), name)} {what}")


role = sys.argv[1]
if role == "scan":
    print(len(open("/tmp/scan", "w").write(json.dumps(scan())) and "x"))
elif role == "hold":
    hold(json.load(open("/tmp/paths")), "/tmp/ready", "/tmp/seen")
elif role == "try":
    json.dump({path: tries(path) for path in json.load(open("/tmp/paths"))}, open("/tmp/tried", "w"))
'''

# Pairs that are equal in two sandboxes for a reason; each is tried nevertheless, except the last.
WRITTEN = "an overlay shows the pool's device for files that were written; the inode is the overlay's"
ONE_ANONYMOUS = ("the kernel has one inode for all eventfd, epoll, inotify, timerfd and signalfd descriptors, and locks "
                 "on it cannot be refused: SECURITY.md names it")


def reason(name, one, other):
    """Why two sandboxes may show the same pair under this name, or None. one, other: (mount's device, its type)."""
    if name.startswith("fd:") and name[3:] in ("eventfd", "epoll", "inotify", "timerfd", "signalfd"):
        return ONE_ANONYMOUS
    if one[1] == other[1] == "overlay" and one[0] != other[0]:
        return WRITTEN
    return None


class Inside:
    """A sandbox with the program in it. Files are exchanged through the host's view of the sandbox: an exec would be
    noticed by the sandbox's own watches."""

    def __init__(self, box):
        self.box = box
        box.put("/tmp/channels.py", INSIDE.encode(), "644")
        self.hostname = box.sh("cat /proc/sys/kernel/hostname").strip()
        self.root = f"/proc/{min(census.sandbox_pids(self.hostname))}/root"

    def run(self, role):
        self.box.root(["python3", "/tmp/channels.py", role], timeout_sec=120).ok()

    def read(self, name):
        with open(f"{self.root}/tmp/{name}") as f:
            return json.load(f)

    def write(self, name, value):
        self.box.put(f"/tmp/{name}", json.dumps(value).encode(), "644")

    def scan(self):
        self.run("scan")
        return self.read("scan")

    def tried(self):
        self.run("try")
        return self.read("tried")

    @contextlib.contextmanager
    def holding(self):
        """Watches and locks; yields a list that is filled with what was noticed."""
        self.box.exec("rm -f /tmp/ready* /tmp/seen; setsid -f python3 /tmp/channels.py hold > /tmp/hold.log 2>&1 < /dev/null",
                      user="root").ok()
        self.wait("ready")
        watches, locks = self.read("ready")
        assert watches > 20 and locks > 20, (watches, locks)
        pids = census.sandbox_pids(self.hostname)
        holder = next(p for p in pids if "hold" in command(p))
        seen = []
        os.kill(min(pids), signal.SIGSTOP)
        try:
            os.kill(holder, signal.SIGUSR1)
            self.wait("ready.again")
            yield seen
            os.kill(holder, signal.SIGUSR1)
            self.wait("seen")
        finally:
            os.kill(min(pids), signal.SIGCONT)
        seen += self.read("seen")

    def wait(self, name):
        wait_for(lambda: os.path.exists(f"{self.root}/tmp/{name}"), timeout=30)


def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as f:
            return f.read().split("\0")
    except OSError:
        return []


def shared(one, other):
    """Pairs that are visible in both, with a name in each."""
    numbers = {(dev, ino): (path, (mount, kind)) for path, dev, ino, mount, kind in other}
    real = {(mount, ino): path for path, _dev, ino, mount, _kind in other}
    found = []
    for path, dev, ino, mount, kind in one:
        if (dev, ino) in numbers:
            found.append((path, numbers[dev, ino][0], (mount, kind), numbers[dev, ino][1]))
        elif (mount, ino) in real and kind not in ("overlay",):
            found.append((path, real[mount, ino], (mount, kind), (mount, kind)))
    return found


def interesting(scan):
    """All that cay puts into a sandbox, and some of the template's files."""
    ours = [path for path, _d, _i, _m, _k in scan if path.startswith(("/dev", "/run/cay", "/etc/machine-id", "/proc/", "/sys"))
            and not path.startswith(("/proc/sys/net", "/proc/sys/vm", "/proc/net", "/dev/pts/", "/dev/shm/"))
            and not path.startswith("/proc/sys/") or path in ("/proc/sys/fs/file-nr", "/proc/sys/kernel/pid_max")]
    template = [path for path, _d, _i, _m, _k in scan
                if path.startswith(("/usr/bin/", "/etc/", "/usr/lib/x86_64-linux-gnu/")) and path.count("/") == 3]
    return ours + template[::20] + ["/etc/passwd", "/usr/bin", "/usr/bin/dash"]


def inodes_private(one, other):
    """No inode is visible in both, and nothing done to a file in one of them shows in the other."""
    a, b = Inside(one), Inside(other)
    first, second = a.scan(), b.scan()
    no_inode_in_both(first, second)
    nothing_noticed(a, b, first, second)


def no_inode_in_both(first, second):
    assert len(first) > 1000 and len(second) > 1000
    unexplained = [row for row in shared(first, second) if not reason(row[0], row[2], row[3])]
    assert not unexplained, f"{len(unexplained)} inodes are visible in both: {unexplained}"


def nothing_noticed(a, b, first, second):
    both = {path for path, *_ in second}
    paths = sorted({p for p in interesting(first) if p in both})
    a.write("paths", paths)
    b.write("paths", paths)
    alone = b.tried()
    with a.holding() as seen:
        held = b.tried()
    differ = {p: {k: (alone[p][k], held[p].get(k)) for k in alone[p] if alone[p][k] != held[p].get(k)} for p in paths}
    differ = {p: d for p, d in differ.items() if d}
    assert not differ, f"a lock of the other sandbox is felt: {differ}"
    assert not seen, f"watched from the other sandbox: {seen[:40]}"
