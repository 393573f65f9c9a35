# SPDX-License-Identifier: Apache-2.0
"""A host and an outside world of its own, for tests of what sandboxes reach.

Two net namespaces: "host", in which the test's own thread and the daemons it starts live, and
"world", where servers run on addresses that look public. Nothing of the machine's real network is
touched or reached. Names and answers of the world's DNS are the test's; every question that comes
there is written down.

The namespaces have no names: descriptors of the test's process hold them, and the kernel removes
them with it. "ip netns" would name them by mounts, and its first use on a machine mounts
/run/netns, which the census would report.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from lib import tree

CLONE_NEWNET = 0x40000000
GOOD = "93.184.216.34"  # allowed.test and its relatives
EVIL = "93.184.216.66"
DNS = "93.184.216.53"
PRIVATE = "10.9.9.9"
METADATA = "169.254.169.254"
LAN = "11.0.0.1"
HOST = "11.0.0.2"
ADDRESSES = (GOOD, EVIL, DNS, PRIVATE, METADATA)

ZONE = {
    "allowed.test": [GOOD], "api.allowed.test": [GOOD], "www.allowed.test": [GOOD],
    "evil.test": [EVIL], "other.test": [EVIL], "shared.test": [GOOD],
    "rebind.allowed.test": [PRIVATE], "meta.allowed.test": [METADATA],
    "loop.allowed.test": ["127.0.0.1"], "host.allowed.test": [HOST],
    "mixed.allowed.test": [PRIVATE, GOOD], "intern.test": [PRIVATE],
    "big.allowed.test": [GOOD] * 30,
}
ALIASES = {"alias.allowed.test": "evil.test", "two.allowed.test": "allowed.test"}


def _ip(*words, within=()):
    subprocess.run([*within, "ip", *words], capture_output=True, text=True, check=True)


def _setns(fd):
    if ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _new_namespace(home_fd):
    """A descriptor of a new net namespace; the calling thread is back in its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    try:
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    finally:
        _setns(home_fd)


def _path(fd):
    return f"/proc/{os.getpid()}/fd/{fd}"


class World:
    def __init__(self):
        self.host_fd = self.world_fd = -1
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cay-world-", dir="/var/tmp"))
        self.server = None
        self.home_fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY)

    def within_host(self, *command):
        """The command line that runs a command in the host's namespace."""
        return ["nsenter", f"--net={_path(self.host_fd)}", "--", *command]

    def within_world(self, *command):
        return ["nsenter", f"--net={_path(self.world_fd)}", "--", *command]

    def __enter__(self):
        self.host_fd, self.world_fd = _new_namespace(self.home_fd), _new_namespace(self.home_fd)
        _ip("link", "add", "wan", "netns", _path(self.host_fd), "type", "veth", "peer", "name", "wan",
            "netns", _path(self.world_fd))
        for within, address in ((self.within_host(), HOST), (self.within_world(), LAN)):
            _ip("link", "set", "lo", "up", within=within)
            _ip("addr", "add", f"{address}/24", "dev", "wan", within=within)
            _ip("link", "set", "wan", "up", within=within)
        for address in ADDRESSES:
            _ip("addr", "add", f"{address}/32", "dev", "lo", within=self.within_world())
        _ip("route", "add", "default", "via", LAN, within=self.within_host())
        self._start_server()
        _setns(self.host_fd)
        return self

    def _start_server(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=allowed.test", "-addext",
                        "subjectAltName=DNS:allowed.test,DNS:*.allowed.test,DNS:evil.test",
                        "-keyout", str(self.dir / "key.pem"), "-out", str(self.dir / "cert.pem")],
                       check=True, capture_output=True)
        config = {"zone": ZONE, "aliases": ALIASES, "addresses": ADDRESSES, "dns": DNS,
                  "log": str(self.dir / "log"), "cert": str(self.dir / "cert.pem"),
                  "key": str(self.dir / "key.pem"), "ready": str(self.dir / "ready")}
        script = pathlib.Path(__file__).with_name("world_server.py")
        self.server = subprocess.Popen(
            self.within_world(sys.executable, str(script), json.dumps(config)),
            stdin=subprocess.PIPE, stdout=open(self.dir / "server.out", "w"),
            stderr=subprocess.STDOUT)
        until = time.monotonic() + 30 * tree.SLACK
        while not (self.dir / "ready").exists():
            if self.server.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self.dir / "server.out").read_text())
            time.sleep(0.02)

    def __exit__(self, *_):
        _setns(self.home_fd)
        os.close(self.home_fd)
        if self.server:
            self.server.stdin.close()  # it ends with its standard input
            self.server.wait(30)
        for fd in (self.host_fd, self.world_fd):
            os.close(fd)
        for path in self.dir.iterdir():
            path.unlink()
        self.dir.rmdir()

    @contextlib.contextmanager
    def at_home(self):
        """Temporarily outside, in the thread's original namespace."""
        _setns(self.home_fd)
        try:
            yield
        finally:
            _setns(self.host_fd)

    def log(self):
        """What arrived in the world: [{"kind": "dns", "name": ...}, {"kind": "http", ...}]"""
        path = self.dir / "log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def seen(self, kind, **match):
        return [e for e in self.log() if e["kind"] == kind and
                all(e.get(k) == v for k, v in match.items())]
