# SPDX-License-Identifier: Apache-2.0
"""A host and an outside world of its own, for tests of what sandboxes reach.

Two net namespaces: "host", in which the test's own thread and the daemons it starts live, and
"world", where servers run on addresses that look public. Nothing of the machine's real network is
touched or reached. Names and answers of the world's DNS are the test's; every question that comes
there is written down.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import secrets
import subprocess
import sys
import tempfile
import time

from lib import tree
from lib.daemon import tell_janitor

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


def _ip(*words, check=True):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=check)


def _setns(fd):
    if ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class World:
    made = 0

    def __init__(self):
        World.made += 1
        name = secrets.token_hex(4)  # not the pid: suites in lanes of their own have the same ones
        self.host = f"cayt-h{name}-{World.made}"
        self.world = f"cayt-w{name}-{World.made}"
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cay-world-", dir="/var/tmp"))
        self.server = None
        self.home_fd = os.open("/proc/self/ns/net", os.O_RDONLY)

    def __enter__(self):
        for name in (self.host, self.world):
            tell_janitor("+netns", name)
            _ip("netns", "add", name)
        _ip("link", "add", "wan", "netns", self.host, "type", "veth", "peer", "name", "wan",
            "netns", self.world)
        for name, address in ((self.host, HOST), (self.world, LAN)):
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "wan")
            _ip("-n", name, "link", "set", "wan", "up")
        for address in ADDRESSES:
            _ip("-n", self.world, "addr", "add", f"{address}/32", "dev", "lo")
        _ip("-n", self.host, "route", "add", "default", "via", LAN)
        self._start_server()
        fd = os.open(f"/run/netns/{self.host}", os.O_RDONLY)
        _setns(fd)
        os.close(fd)
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
            ["ip", "netns", "exec", self.world, sys.executable, str(script), json.dumps(config)],
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
        for name in (self.host, self.world):
            _ip("netns", "del", name, check=False)
            tell_janitor("-netns", name)
        for path in self.dir.iterdir():
            path.unlink()
        self.dir.rmdir()

    @contextlib.contextmanager
    def at_home(self):
        """Outside of it all for a moment."""
        fd = os.open(f"/run/netns/{self.host}", os.O_RDONLY)
        _setns(self.home_fd)
        try:
            yield
        finally:
            _setns(fd)
            os.close(fd)

    def log(self):
        """What arrived in the world: [{"kind": "dns", "name": ...}, {"kind": "http", ...}]"""
        path = self.dir / "log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def seen(self, kind, **match):
        return [e for e in self.log() if e["kind"] == kind and
                all(e.get(k) == v for k, v in match.items())]
