# SPDX-License-Identifier: Apache-2.0
"""Faults that strike a daemon from outside while clients use it: kills, stops, connections, full disks."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse

from lib import tree
from lib.daemon import tell_janitor

PROGRAMS = (("cayd",), ("cay-warden",), ("cayd", "cay-warden"))


class Weather:
    """Chooses faults by a random generator and counts them."""

    def __init__(self, daemon, chance):
        self.daemon, self.chance = daemon, chance
        self.kills = 0
        self.log = []  # what happened, for the message of a failure

    def say(self, text):
        self.log.append(f"{time.strftime('%H:%M:%S')} {text}")

    def kill(self):
        """Sometimes again before the programs are ready."""
        names = self.chance.choice(PROGRAMS)
        for name in names:
            if self.daemon.kill(name):
                self.kills += 1
        self.say("kill " + " ".join(names))
        time.sleep(0.02)
        self.daemon.forgive()
        if self.chance.random() < 0.7:
            self.daemon.wait_ready(30)

    def stop(self):
        names, seconds = self.chance.choice(PROGRAMS), self.chance.uniform(0.05, 0.8)
        self.say(f"stop {' '.join(names)} for {seconds:.2f} s")
        stopped = [self.daemon.kill(name, signal.SIGSTOP) for name in names]
        try:
            time.sleep(seconds)
        finally:
            for pid in filter(None, stopped):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def crowd(self, most=1500):
        """Silent connections, or ones with half a request; most of them exceed the limit per address."""
        self.say(f"{most} connections")
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            address = urllib.parse.urlsplit(self.daemon.url)
            for i in range(most):
                one = stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=5))
                if i % 2:
                    one.sendall(b"GET /v1/sandboxes HTTP/1.1\r\nHost: ")
            time.sleep(self.chance.uniform(0.05, 0.3))

    def strike(self, faults):
        getattr(self, self.chance.choice(faults))()


@contextlib.contextmanager
def small_disk(size_mb):
    """A file system of this size for a state directory, unmounted and removed at the end."""
    image = tempfile.mktemp(prefix="cay-test-disk-", dir="/var/tmp")
    point = tempfile.mkdtemp(prefix="cay-test-", dir="/var/tmp")
    with open(image, "wb") as f:
        f.truncate(size_mb << 20)
    tell_janitor("+file", image)
    try:
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, point], check=True)
        try:
            yield point
        finally:
            unmount(point)
    finally:
        os.unlink(image)
        os.rmdir(point)
        tell_janitor("-file", image)
        tell_janitor("-state", point)


def unmount(point):
    """The pool in it is released shortly after the last sandbox has ended."""
    until = time.monotonic() + 10 * tree.SLACK
    while subprocess.run(["umount", point], capture_output=True).returncode:
        assert time.monotonic() < until, f"{point} is still in use"
        time.sleep(0.1)


@contextlib.contextmanager
def filled(point):
    """Fills all free space of a file system with a file that belongs to root."""
    path = os.path.join(point, "filler")
    with open(path, "wb") as f:
        with contextlib.suppress(OSError):
            space = os.statvfs(point)
            os.posix_fallocate(f.fileno(), 0, space.f_bavail * space.f_frsize // 100 * 99)
        with contextlib.suppress(OSError):
            while os.write(f.fileno(), bytes(1 << 16)):
                pass
        with contextlib.suppress(OSError):
            os.fsync(f.fileno())
    try:
        yield
    finally:
        os.unlink(path)
