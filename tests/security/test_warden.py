# SPDX-License-Identifier: Apache-2.0
"""A hostile cayd against cay-warden, and a hostile sandbox against its agent's socket (B2, L12)."""

import array
import errno
import os
import re
import socket
import struct
import time

import pytest

from lib import census, direct, tree
from lib.client import ApiError
from lib.direct import CREATE, DESTROY, HELLO, LIST, PAUSE, REPLY, RESIZE, STAT, Warden, encode


@pytest.fixture(scope="module")
def warden():
    before = census.take()
    with Warden() as started:
        yield started
        state = started.state
    left = census.settle(before, states=[state])
    assert not left, "\n".join(left)


def ask(warden, data, fds=()):
    """Uses a separate connection, because the warden closes it on invalid frames; returns the reply or b''."""
    sock = warden.connect()
    try:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sock.sendmsg([data], ancillary)
        sock.settimeout(3)
        return sock.recv(4096)
    except (ConnectionError, BrokenPipeError):
        return b""
    finally:
        sock.close()
        warden.sock.close()
        warden.sock = warden.connect()


def steady_count(warden, looks=4):
    """Descriptors of the warden after it has finished preparing parts."""
    last, same = -1, 0
    until = time.monotonic() + (5 + looks) * tree.SLACK
    while same < looks and time.monotonic() < until:
        time.sleep(0.1)
        now = len(os.listdir(f"/proc/{warden.process.pid}/fd"))
        same = same + 1 if now == last else 0
        last = now
    return last


def field(offset, value):
    data = bytearray(encode(CREATE, sandbox="a" * 20, template=b"\1" * 32))
    data[offset:offset + len(value)] = value
    return bytes(data)


MALFORMED = {
    "short": encode(HELLO)[:-1], "long": encode(HELLO) + b"x", "one": b"x", "random": os.urandom(132),
    "magic": field(0, b"XXXX"), "version": field(4, b"\xff\xff"), "op0": field(6, b"\0\0"),
    "op_high": field(6, b"\xff\xff"), "op_end": field(6, struct.pack("<H", 13)),
    "id_empty": encode(CREATE, template=b"\1" * 32), "id_path": field(16, b"../../etc/passwd\0"),
    "id_upper": field(16, b"ABC"), "id_dot": field(16, b".."), "id_slash": field(16, b"a/b"),
    "id_dash": field(16, b"-rf"), "id_full": field(16, b"a" * 64), "id_behind_nul": field(16, b"a\0b"),
    "id_newline": field(16, b"a\nb"), "cpu0": field(112, struct.pack("<I", 0)),
    "cpu_max": field(112, b"\xff" * 4), "memory0": field(116, struct.pack("<I", 0)),
    "memory_max": field(116, b"\xff" * 4), "disk0": field(120, struct.pack("<I", 0)),
    "disk_max": field(120, b"\xff" * 4), "pids0": field(124, struct.pack("<I", 0)),
    "pids_max": field(124, b"\xff" * 4), "network": field(128, struct.pack("<I", 3)),
    "hello_with_bad_id": encode(HELLO, sandbox="a/b"),
}


# Bytes that are not a frame; all other cases are complete frames with an invalid value.
UNFRAMED = {"short", "long", "one", "random", "magic", "version"}


@pytest.mark.parametrize("name", sorted(set(MALFORMED) - UNFRAMED))
def test_WAR_01_bad_value_keeps_the_connection(warden, name):
    """WAR-01: an invalid value fails that request; the connection continues."""
    sock = warden.connect()
    try:
        sock.settimeout(3 * tree.SLACK)
        sock.send(MALFORMED[name])
        assert struct.unpack_from("<i", sock.recv(4096), 16)[0] == -errno.EINVAL
        sock.send(encode(HELLO, tag=77))
        answer = sock.recv(4096)
        assert struct.unpack_from("<Qi", answer, 8) == (77, 0)
    finally:
        sock.close()
        warden.sock.close()
        warden.sock = warden.connect()


@pytest.mark.parametrize("name", MALFORMED)
def test_WAR_01_malformed_request(warden, name):
    """WAR-01: a malformed request is rejected or closes the connection; the warden survives and creates nothing."""
    pid = warden.process.pid
    answer = ask(warden, MALFORMED[name])
    assert answer == b"" or struct.unpack_from("<i", answer, 16)[0] < 0, answer
    assert warden.process.poll() is None and warden.process.pid == pid
    assert warden.call(HELLO)[0]


def test_WAR_02_unknown_templates(warden):
    """WAR-02: hashes that are not a template, and those of paths that exist, are refused."""
    for template in (b"\0" * 32, b"\xff" * 32, os.urandom(32), b"../../../../etc".ljust(32, b"\0")):
        with pytest.raises(ApiError):
            warden.call(CREATE, sandbox="b" * 20, template=template)
    with warden.sandbox() as box:
        assert box.exec(["/bin/echo", "x"]).stdout == "x\n"


def test_WAR_03_same_id_twice(warden):
    """WAR-03: one id is one sandbox."""
    with warden.sandbox() as box:
        with pytest.raises(ApiError):
            warden.call(CREATE, sandbox=box.id, template=warden.template)
        assert box.exec(["/bin/echo", "x"]).stdout == "x\n"


def test_WAR_04_absent_ids(warden):
    """WAR-04: operations on absent ids are errors (destroy: already done), never crashes."""
    for op in (STAT, RESIZE, PAUSE, direct.ATTACH):
        with pytest.raises(ApiError):
            warden.call(op, sandbox="nosuch")
    warden.call(DESTROY, sandbox="nosuch")


def test_WAR_05_unwanted_descriptors(warden):
    """WAR-05: descriptors that are passed along are closed, not collected."""
    before = steady_count(warden)
    for _ in range(50):
        fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
        ask(warden, encode(HELLO), fds)
        for fd in fds:
            os.close(fd)
    assert steady_count(warden) <= before + 2


def test_WAR_06_daemon_that_never_listens(warden):
    """WAR-06: a daemon that sends requests and does not read cannot block the warden permanently."""
    sock = warden.connect()
    sock.setblocking(False)
    try:
        for tag in range(5000):
            sock.send(encode(LIST, tag=tag))
    except OSError:
        pass
    time.sleep(0.5)
    sock.close()
    warden.sock = warden.connect()
    assert warden.call(HELLO)[0]


def settles(warden, most, patience_sec=30):
    """A burst makes the stock of parts grow; it shrinks after two idle seconds."""
    end = time.monotonic() + patience_sec * tree.SLACK
    while time.monotonic() < end:
        if steady_count(warden) <= most:
            return True
        time.sleep(0.2)
    return False


def test_WAR_07_few_descriptors_per_sandbox(warden):
    """WAR-07: the warden holds no descriptor per sandbox, and none leaks per create and destroy."""
    with warden.sandbox():
        before = steady_count(warden, 25)  # the stock is full: a busy machine makes it with breaks
        boxes = [warden.sandbox().__enter__() for _ in range(50)]
        # Of the parts in stock one slot's may be missing before, and there after it.
        assert settles(warden, before + 25), "descriptors grow with sandboxes"
        for box in boxes:
            box.__exit__()
        assert settles(warden, before + 25)


def test_WAR_08_sandbox_cannot_dial_its_agent(warden):
    """WAR-08: a process inside that finds the agent's socket is turned away (peer's pid is not 0)."""
    script = """
import socket,struct
names=[l.split()[-1] for l in open('/proc/net/unix').read().splitlines()[1:] if len(l.split())>7]
told=[]
for n in names:
    s=socket.socket(socket.AF_UNIX,socket.SOCK_STREAM); s.settimeout(1)
    try:
        s.connect('\\0'+n[1:] if n.startswith('@') else n)
        told.append((n, len(s.recv(64))))
    except OSError as e: told.append((n, 'E%d'%e.errno))
print(told)
"""
    with warden.sandbox() as box:
        for user in ("root", "sandbox"):
            result = box.exec(["python3", "-c", script], user=user).ok()
            sizes = [size for _name, size in eval(result.stdout) if isinstance(size, int)]
            assert not any(sizes), f"the agent spoke to a process inside: {result.stdout}"
        assert box.exec(["/bin/echo", "x"]).stdout == "x\n", "the daemon's connection was replaced"


def test_WAR_09_pause_holds_everything(warden):
    """WAR-09: a frozen sandbox does nothing, and can be destroyed while frozen."""
    with warden.sandbox() as box:
        box.exec("nohup sh -c 'while :; do date +%s%N > /workspace/t; sleep 0.05; done' >/dev/null 2>&1 &")
        time.sleep(0.2)
        warden.call(PAUSE, sandbox=box.id, flags=1)
        time.sleep(0.1)
        pids = census.sandbox_pids(box.id)
        def busy():
            return [open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()[11] for p in pids]
        first = busy()
        time.sleep(0.4)
        assert busy() == first, "something ran while frozen"
        begin = time.monotonic()
    until = time.monotonic() + 5
    while census.sandbox_pids(box.id) and time.monotonic() < until:
        time.sleep(0.05)
    assert not census.sandbox_pids(box.id), f"alive {time.monotonic() - begin:.1f} s after destroy"


def disk_limit(box):
    """What df shows."""
    return int(box.root("cat /sys/fs/disk").stdout.split()[0])


def test_WAR_10_resize_is_real(warden):
    """WAR-10: a pool member created small and handed out larger, and the reverse."""
    with warden.sandbox(memory_mb=64, disk_size_mb=16) as box:
        assert "mem.all" not in box.probe("bomb-mem", 100).probe()
        assert disk_limit(box) == 16 << 20
        warden.call(RESIZE, sandbox=box.id, limits={"memory_mb": 256, "disk_size_mb": 64})
        assert disk_limit(box) == 64 << 20
        assert "mem.all" in box.probe("bomb-mem", 150).probe()
        assert box.probe("bomb-disk", "/workspace/f", 40).probe()["written_mb"] == "ok:40"
        box.root("rm -f /workspace/f")
        warden.call(RESIZE, sandbox=box.id, limits={"memory_mb": 64, "disk_size_mb": 16})
        assert "mem.all" not in box.probe("bomb-mem", 100).probe()
        lines = box.probe("bomb-disk", "/workspace/f", 40).probe()
        assert {"ENOSPC", "EDQUOT"} & set(lines.values()), lines


def test_WAR_11_stat_reports_oom(warden):
    """WAR-11: a kill by the memory limit is counted, and not carried over to the next sandbox."""
    def kills(box):
        return REPLY.unpack(warden.call(STAT, sandbox=box.id)[0])[10]
    with warden.sandbox(memory_mb=64) as box:
        assert kills(box) == 0
        box.probe("bomb-mem", 200)
        assert kills(box) >= 1
    for _ in range(8):
        with warden.sandbox(memory_mb=64) as box:
            assert kills(box) == 0, "the last owner's kills show"


def pid_of(pidfd):
    with open(f"/proc/self/fdinfo/{pidfd}") as f:
        return int(next(line.split()[1] for line in f if line.startswith("Pid:")))


def descriptors(pid):
    """What a process has open, without the numbers that differ from one to the next."""
    found = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            name = os.readlink(f"/proc/{pid}/fd/{number}")
            found[int(number)] = re.split(r":|/cay-|(?<=/qgroups)/", name)[0]
        except OSError:
            pass  # closed meanwhile
    return found


def begin(warden, names):
    return {name: warden.send(CREATE, sandbox=name, template=warden.template) for name in names}


def take(warden, name, tag):
    _data, fds = warden.finish(tag)
    warden.agents[name] = direct.Agent(socket.socket(fileno=fds[0]), {})
    pid = pid_of(fds[1])
    os.close(fds[1])
    return pid


def test_WAR_12_many_at_once(warden):
    """WAR-12: sandboxes that are created at the same time share nothing."""
    with warden.sandbox() as alone:
        alone.exec(["/bin/true"])
    names = [f"many{i}" for i in range(24)]
    tags = begin(warden, names)
    pids = {name: take(warden, name, tag) for name, tag in tags.items()}
    try:
        said = {name: warden.exec(name, "hostname; cat /etc/machine-id; echo $$ > /dev/shm/mine; ls /dev/shm /workspace")
                for name in names}
        assert all(said[name].stdout.splitlines()[0] == name for name in names)
        assert len({said[name].stdout.splitlines()[1] for name in names}) == len(names)
        until = time.monotonic() + 5 * tree.SLACK
        while True:  # an agent may not have closed a command's pipes yet
            kinds = [descriptors(pids[name]) for name in names]
            if all(kind == kinds[0] for kind in kinds) or time.monotonic() > until:
                break
        assert all(kind == kinds[0] for kind in kinds), kinds
        disks = {os.readlink(f"/proc/{pid}/fd/{number}") for pid in pids.values()
                 for number, kind in kinds[0].items() if kind.endswith("/qgroups")}
        assert len(disks) in (0, len(names)), "each reads the quota of its own disk"
        for space in ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup", "time"):
            found = {os.readlink(f"/proc/{pid}/ns/{space}") for pid in pids.values()}
            assert len(found) == len(names), space
    finally:
        for name in names:
            warden.delete(name)


def test_WAR_13_ended_before_born(warden):
    """WAR-13: destroyed, queried and requested again while it is being created."""
    names = [f"short{i}" for i in range(24)]
    tags = begin(warden, names)
    again = {name: warden.send(CREATE, sandbox=name, template=warden.template) for name in names[::3]}
    looks = {name: warden.send(STAT, sandbox=name) for name in names[::4]}
    ends = {name: warden.send(DESTROY, sandbox=name) for name in names}
    for name, tag in tags.items():
        _data, fds = warden.finish(tag)
        for fd in fds:
            os.close(fd)
    for tag in again.values():
        with pytest.raises(ApiError):
            warden.finish(tag)
    for tag in [*looks.values(), *ends.values()]:
        warden.finish(tag)
    assert not set(warden.names()) & set(names)


def test_WAR_14_daemon_gone_before_born(warden):
    """WAR-14: what a daemon requested without receiving the reply is removed, and the next one does not see it."""
    names = [f"orphan{i}" for i in range(24)]
    for _ in range(3):
        begin(warden, names)
        warden.sock.close()
        warden.sock = warden.connect()
        assert not set(warden.names()) & set(names)
        with warden.sandbox() as box:
            assert box.exec(["/bin/echo", "x"]).stdout == "x\n"


VOLUME = "sed -n 's/.* overlay .*upperdir=[^,]*\\(v[0-9a-f]\\{16\\}\\).*/\\1/p' /proc/self/mountinfo | head -1"

# What root inside does to a root, all of it gone again or hardly to be seen.
TOUCHES = {
    "file made and removed": "touch /x && rm /x",
    "directory made and removed": "mkdir /x && rmdir /x",
    "deep file": "echo >> /usr/share/x",
    "same bytes": "cp /etc/hostname /dev/shm/h; cat /dev/shm/h > /etc/hostname",
    "opened for writing": "python3 -c 'import os; os.open(\"/etc/passwd\", os.O_RDWR)'",
    "removed": "rm -f /etc/issue",
    "mode and back": "chmod 700 / && chmod 755 /",
    "mode of a deep file": "chmod 600 /etc/issue.net",
    "owner and back": "chown 1000 / && chown 0 /",
    "attribute": "python3 -c 'import os; os.setxattr(\"/\", \"user.x\", b\"y\")'",
    "attribute and back": "python3 -c 'import os; os.setxattr(\"/\", \"user.x\", b\"y\"); "
                          "os.removexattr(\"/\", \"user.x\")'",
    "times": "touch -d 2001-01-01 /",
    "listed": "ls / > /dev/null",
    "socket": "python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).bind(\"/s\"); os.unlink(\"/s\")'",
    "renamed and back": "mv /srv /srv2 && mv /srv2 /srv",
    "in the workspace": "touch /workspace/x && rm /workspace/x",
}


def test_WAR_15_written_roots_are_not_used_again(warden):
    """WAR-15: a root is reused only if nothing was written to it; the next sandbox finds nothing of the last one."""
    written, read = {}, set()
    for name, command in TOUCHES.items():
        with warden.sandbox() as box:
            done = box.root(f"{VOLUME}; {command}")
            assert done.exit_code == 0, (name, done.stderr)
            written[done.stdout.strip()] = name
    for _ in range(3):
        with warden.sandbox() as box:
            read.add(box.exec(VOLUME).stdout.strip())
    assert all(len(volume) == 17 for volume in [*written, *read]), (written, read)
    later = []
    while len(later) < 80 or (len(set(later)) == len(later) < 400):  # more than any stock of new ones
        with warden.sandbox() as box:
            later.append(box.exec(VOLUME).stdout.strip())
    assert not set(later) & set(written), [written[v] for v in set(later) & set(written)]
    if "roots are used once" not in warden.logs() and not os.environ.get("CAY_WITHOUT"):
        assert len(set(later)) < len(later), "a root that nobody wrote to is made anew each time"


def test_WAR_storage_without_btrfs():
    """Where btrfs is not available: plain directories, shown in the capabilities and the log; nothing is left."""
    plain = Warden(env={"CAY_STORAGE": "directory"})
    volumes = os.path.join(plain.state, "volumes")
    with plain as weak:
        with weak.sandbox() as box:
            result = box.exec("mkdir -p a/b && echo kept > a/b/c && cat a/b/c")
            assert result.exit_code == 0 and result.stdout == "kept\n"
            assert os.listdir(volumes)
        assert "disk limits are not enforced" in weak.logs()
        weak.process.terminate()
        assert weak.process.wait(timeout=20 * tree.SLACK) == 0
        assert os.listdir(volumes) == []
