# SPDX-License-Identifier: Apache-2.0
"""Devices and terminals (DEV)."""

import os
import stat

import attacks
from lib.direct import RESIZE, Warden

EXPECTED_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8),
                    "urandom": (1, 9), "tty": (5, 0), "ptmx": (5, 2)}


def test_DEV_01_mknod(box):
    """DEV-01: device nodes of disks, memory, kvm, fuse, tun, loop in every place."""
    attacks.mknod_refused(box)


def test_DEV_01_planted_node(box):
    """DEV-01: a node planted by the host into the tree cannot be opened."""
    attacks.planted_node(box)


def test_DEV_01_mount_flags(box):
    """DEV-01: every mount is nodev."""
    attacks.mount_flags(box)


def test_DEV_02_minimal_dev(box):
    """DEV-02: /dev holds exactly the list, with the right numbers."""
    text = box.sh("cd /dev && find . -type b -o -type c | xargs -r stat -L -c '%n %f %t %T'")
    for line in text.splitlines():
        name, mode, major, minor = line.split()
        name = name[2:]
        assert stat.S_ISCHR(int(mode, 16)), line
        if name.startswith("pts/"):
            continue
        assert EXPECTED_DEVICES.get(name) == (int(major, 16), int(minor, 16)), line


def test_DEV_03_devices_that_must_work(box):
    """DEV-03: null, zero, full, random, urandom, tty-less /dev/tty, fd links."""
    box.exec("echo x > /dev/null && head -c 16 /dev/urandom | wc -c && head -c 4 /dev/zero | wc -c "
             "&& test -e /dev/fd/0 && test -e /dev/stdin && (echo x > /dev/full; test $? -ne 0)").ok()


def test_DEV_04_terminals(client, neighbour):
    """DEV-04: terminals end at the limit of the sandbox's own devpts; others still get theirs."""
    with client.sandbox() as box:
        attacks.pty_limit(box)
        box.exec("nohup /usr/local/bin/probe bomb-pty 20000 20 > /dev/null 2>&1 & sleep 0.3",
                 user="root", env={"CAY_PROBE_INSIDE": "1"})
        assert neighbour.probe("bomb-pty", 5).ok().probe()["ptys"] == "ok:5"
        with open("/dev/ptmx", "rb+", buffering=0):
            pass


def test_DEV_05_shared_memory_files(client, neighbour):
    """DEV-05: /dev/shm may use half of the sandbox's memory; a program that fills it gets ENOSPC and survives."""
    with client.sandbox(memory_mb=128) as box:
        assert box.sh("stat -f -c '%S %b' /dev/shm | { read s b; echo $((s * b)); }").strip() == str(64 << 20)
        result = box.root("head -c 1G /dev/zero > /dev/shm/fill; stat -c %s /dev/shm/fill")
        assert "No space left" in result.stderr and result.stdout.strip() == str(64 << 20), result
        result = box.exec("cd /dev/shm; i=0; while : > $i; do i=$((i + 1)); done; echo $i", timeout_sec=60)
        assert 1000 < int(result.stdout) <= 128 * 128, result
        assert box.exec(["/bin/true"]).exit_code == 0
        box.root("rm -rf /dev/shm/*; for d in /dev /run /tmp; do head -c 512M /dev/zero > $d/fill; "
                 "done; rm -f /dev/fill /run/fill")
        assert box.exec(["/bin/true"]).exit_code == 0
    assert neighbour.exec(["/bin/true"]).exit_code == 0


def test_DEV_05_resized():
    """DEV-05: a sandbox with changed limits gets a matching /dev/shm; a full one keeps its own."""
    size = "stat -f -c '%S %b' /dev/shm | { read s b; echo $((s * b >> 20)); }"
    with Warden() as warden, warden.client.sandbox(memory_mb=128) as box:
        for memory_mb in (512, 64, 256):
            warden.call(RESIZE, sandbox=box.id, limits={"memory_mb": memory_mb})
            assert box.sh(size).strip() == str(memory_mb // 2)
        box.sh("head -c 100M /dev/zero > /dev/shm/fill")
        warden.call(RESIZE, sandbox=box.id, limits={"memory_mb": 192})
        assert box.sh(size).strip() == "128"
        assert box.exec(["/bin/true"]).exit_code == 0


def test_DEV_07_no_terminal_by_default(box):
    """DEV-07: a command has no controlling terminal and a session of its own."""
    assert box.exec("(: < /dev/tty) 2>/dev/null && echo has || echo none").stdout.strip() == "none"
    pid, sid = box.exec("echo $$ $(ps -o sid= -p $$)").stdout.split()
    assert pid == sid


def test_DEV_09_shared_nodes_are_not_ours(box, neighbour):
    """DEV-09: mode, owner and times of device files (also through stdin) cannot be changed."""
    before = os.stat("/dev/null")
    script = """
import os
done = []
for target in [0] + ["/dev/" + n for n in ("null", "zero", "full", "random", "urandom", "tty")]:
    for name, call in (("chmod", lambda t: os.chmod(t, 0)), ("chown", lambda t: os.chown(t, 1, 1)),
                       ("utime", lambda t: os.utime(t, (0, 0)))):
        try:
            call(target)
            done.append((target, name))
        except OSError:
            pass
for name in ("null", "new"):
    try:
        os.unlink("/dev/" + name)
        done.append(("unlink", name))
    except OSError:
        pass
print(done)
"""
    assert box.root(["python3", "-c", script]).ok().stdout.strip() == "[]"
    assert neighbour.sh("stat -c %a /dev/null").strip() == "666"
    after = os.stat("/dev/null")
    assert (before.st_mode, before.st_ctime) == (after.st_mode, after.st_ctime)
