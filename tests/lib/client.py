# SPDX-License-Identifier: Apache-2.0
"""A client of the public API for tests: keep-alive, typed errors."""

import base64
import http.client
import json
import shlex
import socket
import threading
import time
import urllib.parse

from lib import flags
from lib.tree import SLACK, probe_path


class ApiError(Exception):
    def __init__(self, status, body):
        self.status = status
        self.error = body.get("error", {}) if isinstance(body, dict) else {}
        self.code = self.error.get("code")
        super().__init__(f"HTTP {status}: {json.dumps(body)[:400]}")


class Result:
    """The answer of exec, with the streams as bytes and as text."""

    def __init__(self, body):
        self.body = body
        self.out = _stream(body, "stdout")
        self.err = _stream(body, "stderr")
        self.stdout = self.out.decode(errors="replace")
        self.stderr = self.err.decode(errors="replace")
        self.exit_code = body.get("exit_code")
        self.signal = body.get("signal")
        self.timed_out = body.get("timed_out")

    def ok(self):
        assert self.exit_code == 0, f"{self!r}"
        return self

    def probe(self):
        """The lines of the probe: {key: result}, a repeated key keeps the last."""
        lines = (line.split(" ", 1) for line in self.stdout.splitlines() if " " in line)
        return {key: value for key, value in lines}

    def __repr__(self):
        return (f"exit={self.exit_code} signal={self.signal} timed_out={self.timed_out}\n"
                f"stdout: {self.stdout[-1500:]}\nstderr: {self.stderr[-800:]}")


def _stream(body, name):
    if body.get(name + "_b64") is not None:
        return base64.b64decode(body[name + "_b64"])
    return (body.get(name) or "").encode()


class Client:
    """One per daemon and key; connections are kept per thread."""

    def __init__(self, url, key, timeout=60 * SLACK):
        parts = urllib.parse.urlsplit(url)
        self.url = url
        self.host, self.port = parts.hostname, parts.port
        self.key = key
        self.timeout = timeout
        self.local = threading.local()

    def connection(self):
        conn = getattr(self.local, "conn", None)
        if conn is None:
            conn = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
            conn.connect()
            conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.local.conn = conn
        return conn

    def close(self):
        conn = getattr(self.local, "conn", None)
        if conn is not None:
            conn.close()
            self.local.conn = None

    def raw(self, method, path, body=None, headers=None):
        """(status, headers, bytes). A connection the daemon closed between requests is retried."""
        head = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        if body is not None:
            head["Content-Type"] = "application/json"
            if not isinstance(body, (bytes, str)):
                body = json.dumps(body)
        head.update(headers or {})
        head = {k: v for k, v in head.items() if v is not None}
        fresh = getattr(self.local, "conn", None) is None
        try:
            return self._once(method, path, body, head)
        except (http.client.RemoteDisconnected, ConnectionError, BrokenPipeError):
            self.close()
            if fresh:
                raise
            return self._once(method, path, body, head)
        except Exception:
            self.close()
            raise

    contracts = None  # lib.contract: set where every answer is held against the OpenAPI document

    def _once(self, method, path, body, head):
        conn = self.connection()
        conn.request(method, path, body=body, headers=head)
        response = conn.getresponse()
        data = response.read()
        if response.will_close:
            self.close()
        if self.contracts and path.startswith(("/v1", "/healthz", "/readyz", "/metrics")):
            self.contracts.check(self, method, path, response.status, response.headers, data)
        return response.status, response.headers, data

    def plain(self, method, path):
        """On a separate connection, without the check against the OpenAPI document."""
        conn = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
        try:
            conn.request(method, path)
            response = conn.getresponse()
            return response.status, response.headers, response.read()
        finally:
            conn.close()

    def call(self, method, path, body=None, headers=None):
        status, _headers, data = self.raw(method, path, body, headers)
        parsed = json.loads(data) if data else None
        if status >= 400:
            raise ApiError(status, parsed)
        return parsed

    def healthz(self):
        return self.raw("GET", "/healthz")[0]

    def options(self):
        return self.call("GET", "/v1/options")

    def capabilities(self, engine):
        """The set of capability names that the daemon claims for an engine; None if it is not offered."""
        body = self.options()
        engines = body.get("engines", body.get("data", []))
        if isinstance(engines, dict):
            engines = [dict(v, name=k) for k, v in engines.items()]
        for entry in engines:
            if entry.get("name") != engine or entry.get("available", True) is False:
                continue
            caps = entry.get("capabilities", {})
            if isinstance(caps, dict):
                return {k for k, v in caps.items() if v and v not in ("unenforced", "none")}
            return set(caps)
        return None

    def create(self, **body):
        return self.call("POST", "/v1/sandboxes", body)

    def get(self, sandbox):
        return self.call("GET", f"/v1/sandboxes/{sandbox}")

    def delete(self, sandbox):
        return self.call("DELETE", f"/v1/sandboxes/{sandbox}")

    def list(self, **query):
        text = urllib.parse.urlencode(query)
        found, cursor = [], None
        while True:
            page = text + (f"&cursor={urllib.parse.quote(cursor)}" if cursor else "")
            answer = self.call("GET", "/v1/sandboxes" + ("?" + page if page else ""))
            found += answer["data"]
            cursor = answer.get("next_cursor")
            if not cursor:
                return found

    def exec(self, sandbox, command, **body):
        body["argv" if isinstance(command, (list, tuple)) else "command"] = command
        result = Result(self.call("POST", f"/v1/sandboxes/{sandbox}/exec", body))
        flags.check(sandbox, result.out + result.err)
        return result

    def sandbox(self, **body):
        return Sandbox(self, **body)


class Sandbox:
    """A sandbox for the length of a with block."""

    def __init__(self, client, **body):
        self.client = client
        self.body = body
        self.id = None
        self.row = None
        self.has_probe = False

    def __enter__(self):
        self.row = self.client.create(**self.body)
        self.id = self.row["id"]
        return self

    def __exit__(self, *exc):
        """A warden that was just killed cannot confirm the end: the call is repeated, as clients do."""
        for turn in range(200):
            try:
                self.client.delete(self.id)
                return
            except ApiError as error:
                if error.status == 404:
                    return
                if error.status != 503 or turn == 199:
                    raise
            time.sleep(0.05)

    def exec(self, command, **body):
        return self.client.exec(self.id, command, **body)

    def root(self, command, **body):
        return self.exec(command, user="root", **body)

    def sh(self, command, **body):
        """As root, must succeed; returns the text."""
        return self.root(command, **body).ok().stdout

    def put(self, path, data, mode="755"):
        """A file through the stdin of an exec, independent of the file API."""
        quoted = shlex.quote(path)
        self.root(f"base64 -d > {quoted} && chmod {mode} {quoted}",
                  stdin=base64.b64encode(data).decode()).ok()

    def probe(self, *args, user="root", **body):
        if not self.has_probe:
            with open(probe_path(), "rb") as f:
                self.put("/usr/local/bin/probe", f.read())
            self.has_probe = True
        env = dict(body.pop("env", {}), CAY_PROBE_INSIDE="1")
        return self.exec(["/usr/local/bin/probe"] + [str(a) for a in args],
                         user=user, env=env, **body)

    def state(self):
        try:
            return self.client.get(self.id)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def wait_state(self, states, timeout=5):
        until = time.monotonic() + timeout
        while True:
            row = self.state()
            name = row["state"] if row else "destroyed"
            if name in states or time.monotonic() > until:
                return row
            time.sleep(0.05)
