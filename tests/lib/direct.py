# SPDX-License-Identifier: Apache-2.0
"""cay-warden and cay-agent without cayd: the test takes the daemon's place. It speaks wire/warden.h and wire/agent.h
and offers create, exec and delete like lib.client, so that the same attacks run against the engine alone, and a
test can be the hostile daemon that the warden must resist.
"""

import base64
import itertools
import os
import secrets
import socket
import struct
import subprocess
import tempfile
import threading
import time

from lib import flags, janitor, tree
from lib.client import ApiError, Result, Sandbox
from lib.daemon import TEMPLATES, clean_env, tell_janitor

MAGIC, VERSION = 0x43415957, 7
HELLO, CREATE, ATTACH, DESTROY, RESIZE, STAT, LIST, PAUSE, BUILD, SNAPSHOT, SNAPSHOT_DELETE, SNAPSHOT_LIST = \
    range(1, 13)
FREEZE, PASSING, MEMORY = 1, 2, 4  # flags of a request
REQUEST = struct.Struct("<IHHQ64s32sIIIIII64s")
# Behind magic, version, op and tag: error, more, id, step, capabilities, alive, oom_kills, memory, peak, cpu, pids,
# disk, paused, size, memory, template, address, sent, received, of what was rejected: to, port, protocol;
# then of pressure: known or not, and for each of three resources two times and two shares.
REPLY = struct.Struct("<IHHQiI64s112sIIQQQQIQIQI32sIQQIIII" + 3 * "QQII")
DEFAULTS = {"cpu_count": 1, "memory_mb": 1024, "disk_size_mb": 3072, "pids_max": 1024, "network": 0}
SIGNALS = {9: "SIGKILL", 15: "SIGTERM", 11: "SIGSEGV", 31: "SIGSYS"}
PATH = "/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def encode(op, tag=1, sandbox="", template=b"", limits=None, flags=0, snapshot=""):
    size = dict(DEFAULTS, **(limits or {}))
    return REQUEST.pack(MAGIC, VERSION, op, tag, sandbox.encode(), template, round(size["cpu_count"] * 1000),
                        size["memory_mb"], size["disk_size_mb"], size["pids_max"], size["network"], flags,
                        snapshot.encode())


class Warden:
    """cay-warden on a state directory of its own, and the daemon's connection to it."""

    def __init__(self, build=None, env=None):
        self.build = build or tree.build_dir()
        self.cay = tree.program("cay", self.build)
        self.env = clean_env(**(env or {}))
        self.state = tempfile.mkdtemp(prefix="cay-test-", dir="/var/tmp")
        os.chmod(self.state, 0o755)
        tell_janitor("+state", self.state, self.cay)
        self.lock = threading.Lock()
        self.tags = itertools.count(1)
        self.answers = {}
        self.agents = {}
        with open(os.path.join(TEMPLATES, "refs/base")) as f:
            self.template = bytes.fromhex(f.read().split()[1])

    def start(self):
        self.process = subprocess.Popen(
            [tree.program("cay-warden", self.build), "--state", self.state, "--templates", TEMPLATES,
             "--agent", tree.program("cay-agent", self.build), "--user", "root"],
            env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(os.path.join(self.state, "warden.log"), "ab"))
        self.sock = self.connect()

    def connect(self, timeout=10):
        until = time.monotonic() + timeout * tree.SLACK
        while True:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                sock.connect(os.path.join(self.state, "warden.sock"))
                sock.settimeout(20)
                return sock
            except OSError:
                sock.close()
                if time.monotonic() > until or self.process.poll() is not None:
                    raise RuntimeError("warden does not come up:\n" + self.logs()) from None
                time.sleep(0.02)

    def logs(self, _lines=0):
        with open(os.path.join(self.state, "warden.log"), errors="replace") as f:
            return f.read()[-3000:]

    def send(self, op, **more):
        """Only sends; the tag identifies the reply, which may arrive after those of later requests."""
        tag = next(self.tags)
        self.sock.send(encode(op, tag=tag, **more))
        return tag

    def receive(self, tag):
        """The reply to a request, whichever of the waiting threads read it."""
        while True:
            with self.lock:
                if tag in self.answers:
                    return self.answers.pop(tag)
                data, fds, _flags, _from = socket.recv_fds(self.sock, 4096, 2)
                if not data:
                    raise ConnectionError("the warden went away")
                assert len(data) == REPLY.size and data[:4] == MAGIC.to_bytes(4, "little"), data
                self.answers[struct.unpack_from("<Q", data, 8)[0]] = data, fds

    def finish(self, tag):
        data, fds = self.receive(tag)
        fields = REPLY.unpack(data)
        if fields[4]:
            step = fields[7].split(b"\0")[0].decode()
            raise ApiError(500, {"error": {"code": "engine_failed", "message": f"{step}: "
                                           f"{os.strerror(-fields[4])}"}})
        return data, fds

    def call(self, op, **more):
        return self.finish(self.send(op, **more))

    def names(self, op=LIST):
        """The ids of all sandboxes, or of all snapshots."""
        found, tag = [], self.send(op)
        while True:
            fields = REPLY.unpack(self.receive(tag)[0])
            assert fields[4] == 0, os.strerror(-fields[4])
            if not fields[5]:
                return found
            found.append(fields[6].split(b"\0")[0].decode())

    def snapshot(self, sandbox, name=None, passing=False):
        """Takes one and returns its name and the bytes in it."""
        name = name or secrets.token_hex(10)
        data, _fds = self.call(SNAPSHOT, sandbox=sandbox, snapshot=name, flags=PASSING * passing)
        return name, REPLY.unpack(data)[17]

    def create(self, snapshot="", id=None, last_use=False, **body):
        sandbox = id or secrets.token_hex(10)
        limits = {k: v for k, v in body.items() if k in DEFAULTS}
        _data, fds = self.call(CREATE, sandbox=sandbox, template=self.template, limits=limits, snapshot=snapshot,
                                flags=PASSING * last_use)
        self.agents[sandbox] = Agent(socket.socket(fileno=fds[0]), body.get("env", {}))
        os.close(fds[1])
        return {"id": sandbox, "state": "running"}

    def attach(self, sandbox):
        """Another connection to one that lives."""
        _data, fds = self.call(ATTACH, sandbox=sandbox)
        self.agents[sandbox] = Agent(socket.socket(fileno=fds[0]), {})
        os.close(fds[1])

    def pause(self, sandbox, paused=True):
        self.call(PAUSE, sandbox=sandbox, flags=FREEZE * paused)

    def stat(self, sandbox):
        """alive, paused, disk bytes"""
        fields = REPLY.unpack(self.call(STAT, sandbox=sandbox)[0])
        return bool(fields[9]), bool(fields[16]), fields[15]

    def exec(self, sandbox, command, **body):
        argv = list(command) if isinstance(command, (list, tuple)) else ["/bin/bash", "-c", command]
        result = Result(self.agents[sandbox].exec(argv, **body))
        flags.check(sandbox, result.out + result.err)
        return result

    def get(self, sandbox):
        data, _fds = self.call(STAT, sandbox=sandbox)
        return {"id": sandbox, "state": "running" if REPLY.unpack(data)[9] else "error"}

    def delete(self, sandbox):
        agent = self.agents.pop(sandbox, None)
        self.call(DESTROY, sandbox=sandbox)
        if agent:
            agent.sock.close()

    def again(self):
        """The next warden on the same state."""
        for agent in self.agents.values():
            agent.sock.close()
        self.agents.clear()
        self.answers.clear()
        self.sock.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.retry_start()

    def retry_start(self):
        """Like the supervisor: an unfinished child may hold the lock for a moment."""
        until = time.monotonic() + 2 * tree.SLACK
        while True:
            try:
                self.start()
                self.call(HELLO)
                return
            except (RuntimeError, OSError, struct.error) as error:
                self.process.kill()
                self.process.wait()
                assert time.monotonic() < until, f"no warden starts any more: {error}\n{self.logs()}"
                time.sleep(0.05)

    def sandbox(self, **body):
        return Sandbox(self, **body)

    @property
    def client(self):
        return self

    def pids(self):
        return {"cay-warden": self.process.pid}

    def close(self):
        for sandbox in list(self.agents):
            self.delete(sandbox)
        self.sock.close()
        self.answers.clear()
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        with open(os.path.join(self.state, "warden.log"), errors="replace") as f:
            log = f.read()
        janitor.clean(self.state)
        tell_janitor("-state", self.state)
        assert "Sanitizer" not in log and "runtime error" not in log, log[-5000:]

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *exc):
        self.close()


class Agent:
    """One connection to pid 1 of a sandbox; commands run one after another."""

    def __init__(self, sock, env):
        self.sock, self.env = sock, env
        self.lock = threading.Lock()
        sock.settimeout(90)
        kind, _process, payload = self.frame()
        if kind != 128:
            raise ApiError(500, {"error": {"code": "boot_failed", "message": repr(payload)}})
        self.next = struct.unpack_from("<I", payload, len(payload) - 8)[0] or 1

    def _read(self, count):
        data = b""
        while len(data) < count:
            chunk = self.sock.recv(count - len(data))
            if not chunk:
                raise ApiError(410, {"error": {"code": "sandbox_gone", "message": "agent closed"}})
            data += chunk
        return data

    def frame(self):
        length, kind, _flags, _zero, process = struct.unpack("<IBBHI", self._read(12))
        return kind, process, self._read(length)

    def exec(self, argv, env=None, cwd="", user="", stdin="", stdin_b64=None, timeout_sec=60,
             max_output_bytes=1 << 20):
        data = base64.b64decode(stdin_b64) if stdin_b64 else stdin.encode()
        words = dict({"PATH": PATH, "LANG": "C.UTF-8"}, **self.env, **(env or {}))
        strings = b"".join(s.encode() + b"\0" for s in
                           [user, cwd, "", *argv, *(f"{k}={v}" for k, v in words.items())])
        with self.lock:
            process, self.next = self.next, self.next + 1
            payload = struct.pack("<QIIIIIHHHHI", timeout_sec * 1000, max_output_bytes, 0, 0, 0, 0, 0, 0,
                                  len(argv), len(words), len(strings)) + strings + data
            self.sock.sendall(struct.pack("<IBBHI", len(payload), 1, 1, 0, process) + payload)
            return self._collect(process)

    def _collect(self, process):
        out = {1: b"", 2: b""}
        while True:
            kind, owner, payload = self.frame()
            if owner != process:
                continue
            if kind == 131:
                out[struct.unpack_from("<I", payload, 4)[0]] += payload[16:]
            elif kind == 133:
                raise ApiError(400, {"error": {"code": "invalid_request", "message": payload[8:].decode()}})
            elif kind == 132:
                end, code, signum = struct.unpack_from("<III", payload)
                body = {"exit_code": 124 if end == 3 else 128 + signum if end == 2 else code,
                        "signal": SIGNALS.get(signum, signum) if end == 2 else None,
                        "timed_out": end == 3, "stdout_truncated": False}
                for number, name in ((1, "stdout"), (2, "stderr")):
                    body[name + "_b64"] = base64.b64encode(out[number]).decode()
                return body
