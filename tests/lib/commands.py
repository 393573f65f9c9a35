# SPDX-License-Identifier: Apache-2.0
"""Processes, their output as streams, and windows, for tests."""

import base64
import http.client
import json
import secrets
import socket
import struct
import threading
import time
import urllib.parse

from lib import tree
from lib.client import ApiError

READ_BYTES = 65536


def piece(data, name="data"):
    """The bytes of {name} or {name}_b64; exactly one of them must be there."""
    text, coded = data.get(name), data.get(name + "_b64")
    assert (text is None) != (coded is None), f"{name} and {name}_b64: exactly one, not {data}"
    return text.encode() if coded is None else base64.b64decode(coded, validate=True)


def b64(data):
    return base64.b64encode(data).decode()


def query(**fields):
    fields = {k: (str(v).lower() if isinstance(v, bool) else v) for k, v in fields.items()
              if v is not None}
    return "?" + urllib.parse.urlencode(fields) if fields else ""


def wait_for(what, timeout=5, step=0.02):
    """The first true value of what(), or an assertion."""
    until = time.monotonic() + timeout * tree.SLACK
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < until, f"not within {timeout} s: {what}"
        time.sleep(step)


def marker():
    """A word to find a process by."""
    return "cay-mark-" + secrets.token_hex(6)


def in_thread(call):
    """Runs call() beside the test; .result() gives its value or raises its exception."""
    box = {}

    def work():
        try:
            box["value"] = call()
        except BaseException as error:
            box["error"] = error
    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def result(timeout=20):
        thread.join(timeout * tree.SLACK)
        assert box, "still waiting"
        if "error" in box:
            raise box["error"]
        return box["value"]
    thread.result = result
    return thread


class Answer:
    """A reply whose body is read as it arrives, on a separate connection."""

    def __init__(self, client, method, path, body=None, headers=None, timeout=None, rcvbuf=None):
        self.conn = http.client.HTTPConnection(client.host, client.port,
                                               timeout=(timeout or 20) * tree.SLACK)
        self.conn.connect()
        if rcvbuf:
            self.conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock = self.conn.sock
        head = {"Authorization": f"Bearer {client.key}"} if client.key else {}
        if body is not None:
            head["Content-Type"] = "application/json"
            body = json.dumps(body)
        head.update(headers or {})
        try:
            self.conn.request(method, path, body=body, headers=head)
            self.response = self.conn.getresponse()
        except BaseException:
            self.close()
            raise
        self.headers = self.response.headers
        if self.response.status >= 400:
            data = self.response.read()
            self.close()
            raise ApiError(self.response.status, json.loads(data) if data else None)

    def read_some(self):
        """Bytes as they arrive; b"" at the orderly end. A reset connection raises."""
        return self.response.read1(READ_BYTES)

    def rest(self):
        return self.response.read()

    def close(self):
        self.conn.close()

    def cut(self):
        """Closes with a reset: the daemon's next write fails."""
        try:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        self.close()
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class Event:
    def __init__(self, name, data, id):
        self.name, self.data, self.id = name, data, id

    @property
    def bytes(self):
        return piece(self.data)

    def __repr__(self):
        return f"{self.name} {json.dumps(self.data)[:200]}"


class Events(Answer):
    """Server-sent events, strictly: every line must be a field or a comment."""

    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        kind = self.headers["Content-Type"]
        assert kind.split(";")[0] == "text/event-stream", kind
        self.comments = 0
        self.waiting = b""

    def _block(self):
        while b"\n\n" not in self.waiting:
            more = self.read_some()
            if not more:
                assert not self.waiting.strip(), f"ends in the middle of an event: {self.waiting[:99]}"
                return None
            self.waiting += more
        block, self.waiting = self.waiting.split(b"\n\n", 1)
        return block.decode()  # whatever it carries, an event is UTF-8

    def next(self):
        """The next event, or None at the orderly end of the answer."""
        while (block := self._block()) is not None:
            fields, data = {}, []
            for line in block.split("\n"):
                name, _, value = line.partition(":")
                if not name:
                    self.comments += 1
                    continue
                assert name in ("event", "data", "id", "retry"), line[:99]
                if name == "data":
                    data.append(value.removeprefix(" "))
                else:
                    fields[name] = value.removeprefix(" ")
            if data:
                return Event(fields.get("event", "message"), json.loads("\n".join(data)),
                             fields.get("id"))
        return None

    def __iter__(self):
        while (event := self.next()) is not None:
            yield event

    def until(self, name):
        """Events up to the first one of this name, which is the last of the list."""
        found = []
        for event in self:
            found.append(event)
            if event.name == name:
                return found
        raise AssertionError(f"no event {name}: {found[-5:]}")

    def until_bytes(self, what, stream="stdout"):
        """Reads on until these bytes have come; returns all of the stream's bytes so far."""
        got = b""
        for event in self:
            if event.name == stream:
                got += event.bytes
                if what in got:
                    return got
        raise AssertionError(f"no {what!r} in {got[-300:]!r}")


class Collected:
    """All events of one stream, checked: cursors without hole or overlap, gaps as reported."""

    def __init__(self, events, out=0, err=0, begun=True):
        self.events = list(events)
        self.at = {"stdout": out, "stderr": err}
        self.bytes = {"stdout": b"", "stderr": b""}
        self.gaps = []
        names = [e.name for e in self.events]
        if begun:
            assert names[0] == "started" and names.count("started") == 1, names[:5]
            self.started = self.events[0].data
        assert names.count("exit") <= 1 and "exit" not in names[:-1], names[-5:]
        self.exit = self.events[-1].data if names and names[-1] == "exit" else None
        for event in self.events:
            if event.name in self.at:
                self._output(event)
            elif event.name == "gap":
                self._gap(event.data)
            else:
                assert event.name in ("started", "exit"), event
        self.out, self.err = self.bytes["stdout"], self.bytes["stderr"]

    def _output(self, event):
        data = event.bytes
        assert data, event
        self.at[event.name] += len(data)
        assert event.data["cursor"] == self.at[event.name], f"{event}, expected {self.at}"
        self.bytes[event.name] += data
        assert event.id == f"{self.at['stdout']}:{self.at['stderr']}", (event.id, self.at)

    def _gap(self, data):
        assert data["bytes"] > 0, data
        self.at[data["stream"]] += data["bytes"]
        assert data["cursor"] == self.at[data["stream"]], f"{data}, expected {self.at}"
        self.gaps.append((data["stream"], data["bytes"]))


class Process:
    """A detached process of a sandbox."""

    def __init__(self, sandbox, row):
        self.sandbox, self.row = sandbox, row
        self.id, self.pid = row["process_id"], row["pid"]
        self.path = f"/v1/sandboxes/{sandbox.id}/processes/{self.id}"

    @property
    def client(self):
        return self.sandbox.client

    def get(self):
        return self.client.call("GET", self.path)

    def output(self, **fields):
        """One JSON answer."""
        return self.client.call("GET", self.path + "/output" + query(format="json", **fields))

    def raw(self, **fields):
        return Answer(self.client, "GET", self.path + "/output" + query(format="raw", **fields))

    def events(self, timeout=None, headers=None, rcvbuf=None, **fields):
        return Events(self.client, "GET", self.path + "/output" + query(**fields), timeout=timeout,
                      headers=headers, rcvbuf=rcvbuf)

    def collect(self, out=0, err=0, **fields):
        with self.events(**fields) as events:
            return Collected(events, out, err, begun=False)

    def stdin(self, data, raw=False):
        path = self.path + "/stdin"
        if raw:
            status, _, body = self.client.raw("POST", path, data,
                                              {"Content-Type": "application/octet-stream"})
            if status >= 400:
                raise ApiError(status, json.loads(body))
        elif isinstance(data, bytes):
            self.client.call("POST", path, {"data_b64": b64(data)})
        else:
            self.client.call("POST", path, {"data": data})

    def close_stdin(self):
        self.client.call("POST", self.path + "/close-stdin")

    def signal(self, which):
        self.client.call("POST", self.path + "/signal", {"signal": which})

    def resize(self, cols, rows):
        self.client.call("POST", self.path + "/resize", {"cols": cols, "rows": rows})

    def delete(self):
        self.client.call("DELETE", self.path)

    def wait(self, timeout=10):
        """The row after it has ended."""
        return wait_for(lambda: (row := self.get())["state"] == "exited" and row, timeout)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        try:
            self.delete()
        except ApiError as error:
            if error.status not in (404, 410):
                raise


def body_of(command, fields):
    return dict(fields, **{"argv" if isinstance(command, (list, tuple)) else "command": command})


def spawn(sandbox, command, **fields):
    path = f"/v1/sandboxes/{sandbox.id}/processes"
    status, _, data = sandbox.client.raw("POST", path, body_of(command, fields))
    if status >= 400:
        raise ApiError(status, json.loads(data))
    assert status == 201, status
    return Process(sandbox, json.loads(data))


def processes(sandbox):
    answer = sandbox.client.call("GET", f"/v1/sandboxes/{sandbox.id}/processes")
    assert answer.get("next_cursor") is None, "the list is complete or says where to go on"
    return answer["data"]


def exec_stream(sandbox, command, timeout=None, rcvbuf=None, **fields):
    return Events(sandbox.client, "POST", f"/v1/sandboxes/{sandbox.id}/exec/stream",
                  body_of(command, fields), timeout=timeout, rcvbuf=rcvbuf)


def alive_inside(sandbox, marker):
    """Command lines inside that contain the marker; pgrep does not match itself."""
    return sandbox.exec(["pgrep", "-af", marker]).stdout.splitlines()


class Window:
    """A named window; its output comes as bytes in .out of the answer."""

    def __init__(self, sandbox, name):
        self.sandbox, self.name = sandbox, name
        self.path = f"/v1/sandboxes/{sandbox.id}/windows/{name}"

    def _answer(self, body):
        body["out"] = piece(body, "output")
        return body

    def run(self, command, **fields):
        return self._answer(self.sandbox.client.call("POST", self.path + "/run",
                                                     dict(fields, command=command)))

    def read(self, **fields):
        return self._answer(self.sandbox.client.call("GET", self.path + query(**fields)))

    def input(self, data):
        self.sandbox.client.call("POST", self.path + "/input",
                                 {"data_b64": b64(data)} if isinstance(data, bytes) else {"data": data})

    def row(self):
        return {w["name"]: w for w in windows(self.sandbox)}.get(self.name)

    def close(self):
        self.sandbox.client.call("DELETE", self.path)

    def wait_idle(self, timeout=10):
        return wait_for(lambda: (row := self.row()) and row["state"] == "idle" and row, timeout)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        try:
            self.close()
        except ApiError as error:
            if error.status not in (404, 410):
                raise


def windows(sandbox):
    return sandbox.client.call("GET", f"/v1/sandboxes/{sandbox.id}/windows")["data"]
