# SPDX-License-Identifier: Apache-2.0
"""A sandbox from creation to removal, compared with crun in the same machine."""
import json
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import time

import pytest

from lib import rawhttp
from machines.guest.units import Units

WARM_UP = 30  # the emulator translates code when it first runs, on both sides: after boot, turns become faster for some seconds
TURNS = 30
AT_LEAST = 3


def timed(work):
    begun = time.monotonic()
    work()
    return (time.monotonic() - begun) * 1000


class Connection:
    """One connection that is kept. Emulated, Python's own HTTP client takes longer than the daemon, so it is not used here."""

    def __init__(self, client):
        self.client = client
        self.sock = socket.create_connection((client.host, client.port), timeout=60)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, method, path, body=b""):
        extra = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body) if body else b""
        self.sock.sendall(rawhttp.head(self.client, method, path, extra=extra) + b"\r\n" + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.sock.recv(65536)
        head, rest = answer.split(b"\r\n\r\n", 1)
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        while length and len(rest) < int(length[1]):
            rest += self.sock.recv(65536)
        assert head.startswith(b"HTTP/1.1 2"), answer
        return rest


def crun_bundle(directory, rootfs):
    """crun's own default specification with our root file system and command."""
    subprocess.run(["crun", "spec"], cwd=directory, check=True)
    config = directory / "config.json"
    spec = json.loads(config.read_text(encoding="utf-8"))
    spec["process"].update(terminal=False, args=["/bin/echo", "hi"], cwd="/")
    spec["root"] = {"path": str(rootfs), "readonly": True}
    config.write_text(json.dumps(spec), encoding="utf-8")


@pytest.mark.skipif(not shutil.which("crun"), reason="needs crun")
def test_create_exec_destroy_is_faster_than_crun(tmp_path):
    templates = pathlib.Path("/var/lib/cay/templates")
    content = templates / (templates / "refs/base").read_text(encoding="utf-8").split()[-1]
    crun_bundle(tmp_path, content / "tree/rootfs")

    def crun():
        done = subprocess.run(["crun", "run", "--bundle", str(tmp_path), f"speed-{time.monotonic_ns()}"], capture_output=True, text=True, check=False)
        assert done.stdout == "hi\n", done

    with Units() as units:
        api = Connection(units.client)

        def cay():
            sandbox = re.search(rb'"id":"(\w+)"', api.call("POST", "/v1/sandboxes", b"{}"))[1].decode()
            assert b'"stdout":"hi\\n"' in api.call("POST", f"/v1/sandboxes/{sandbox}/exec", b'{"argv":["/bin/echo","hi"]}')
            api.call("DELETE", f"/v1/sandboxes/{sandbox}")
        ours, theirs = zip(*[(timed(cay), timed(crun)) for _ in range(WARM_UP + TURNS)][WARM_UP:])
    ratio = statistics.median(theirs) / statistics.median(ours)
    print(f"\ncreate, exec, destroy: {statistics.median(ours):.0f} ms; crun run: {statistics.median(theirs):.0f} ms; {ratio:.1f} times faster")
    assert ratio >= AT_LEAST, f"only {ratio:.1f} times faster than crun"
