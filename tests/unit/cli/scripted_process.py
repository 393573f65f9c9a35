# SPDX-License-Identifier: Apache-2.0
"""Processes and windows of the scripted daemon: bytes with cursors, events, frames of a WebSocket."""
import base64
import hashlib
import json
import struct
import threading
import time
import urllib.parse

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def b64(data):
    return base64.b64encode(data).decode()


class Process:
    """Its output, by stream, and how it ended; readers wait for more."""

    def __init__(self, number, body):
        self.number, self.body = number, body
        self.streams = {"stdout": b"", "stderr": b""}
        self.end = None
        self.changed = threading.Condition()
        self.input = b""
        self.input_closed = False
        self.signals = []
        self.sizes = []
        self.gap = 0  # bytes at the start of stdout that are gone
        self.cut_at = []  # positions of stdout at which a connection breaks, each once
        self.attached, self.acked = 0, 0
        self.on_input = self.echo

    def write(self, data, stream="stdout"):
        with self.changed:
            self.streams[stream] += data
            self.changed.notify_all()

    def finish(self, exit_code=0, **more):
        end = {"exit_code": exit_code, "signal": None, "reason": "exited", "duration_ms": 1,
               "stdout_bytes": len(self.streams["stdout"]), "stderr_bytes": len(self.streams["stderr"]),
               "memory_limit_bytes": None, "memory_peak_bytes": None}
        with self.changed:
            if self.end is None:
                self.end = dict(end, **more)
            self.changed.notify_all()

    def echo(self, data):
        self.write(data)
        if b"exit " in self.input and self.input.endswith((b"\n", b"\r")):
            self.finish(int(self.input.rsplit(b"exit ", 1)[1]))

    def take(self, data):
        with self.changed:
            self.input += data
            self.changed.notify_all()
        self.on_input(data)

    def signal(self, name):
        self.signals.append(name)
        if name in ("INT", "TERM", "KILL", 15, 9):
            number = {"INT": 2, "TERM": 15, "KILL": 9}.get(name, name)
            self.finish(128 + number, signal="SIG%s" % {2: "INT", 15: "TERM", 9: "KILL"}[number],
                        reason="killed_by_request")

    def row(self):
        out, err = (len(self.streams[s]) for s in ("stdout", "stderr"))
        end = self.end or {"exit_code": None, "signal": None, "reason": None}
        return {"process_id": self.number, "pid": 40 + self.number, "name": self.body.get("name"),
                "command": " ".join(self.body.get("argv", [self.body.get("command", "")])), "user": "sandbox",
                "state": "exited" if self.end else "running", "tty": "tty" in self.body, "window": None,
                "started_at": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()), "stdout_cursor": out,
                "stderr_cursor": err, "stdout_begin": 0, "stderr_begin": 0, **end}

    def pieces(self, at, follow, step=7):
        """(stream, bytes, cursor after them) until the end; ("cut",) where a connection breaks."""
        while True:
            with self.changed:
                more = [s for s in at if at[s] < len(self.streams[s])]
                if not more and (self.end or not follow):
                    return
                if not more:
                    self.changed.wait(0.05)
            for stream in more:
                data = self.streams[stream][at[stream]:][:step]
                stop = [c for c in self.cut_at if stream == "stdout" and at[stream] < c <= at[stream] + len(data)]
                if stop:
                    self.cut_at.remove(stop[0])
                    data = data[:stop[0] - at[stream]]
                at[stream] += len(data)
                yield stream, data, at[stream]
                if stop:
                    yield "cut", b"", 0
                    return


def send_events(handler, process, query, started):
    """Server-sent events over chunks, as the daemon sends them."""
    at = dict(zip(("stdout", "stderr"), [int(c) for c in query.get("cursor", "0:0").split(":")] + [0]))
    follow = started or query.get("follow") == "true"
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()

    def send(text):
        data = text.encode()
        for part in (data[:11], data[11:]):  # events come torn
            if part:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                handler.wfile.flush()

    def event(name, data):
        send("event: %s\nid: %d:%d\ndata: %s\n\n" % (name, at["stdout"], at["stderr"], json.dumps(data)))

    send(": hello\n\n")
    if started:
        event("started", {"process_id": process.number, "pid": 40 + process.number})
    if process.gap and at["stdout"] < process.gap:
        lost, at["stdout"] = process.gap - at["stdout"], process.gap
        event("gap", {"stream": "stdout", "bytes": lost, "cursor": process.gap})
    for stream, data, cursor in process.pieces(at, follow):
        if stream == "cut":
            handler.close_connection = True
            return handler.connection.close()
        try:
            event(stream, {"data": data.decode(), "cursor": cursor})
        except UnicodeDecodeError:
            event(stream, {"data_b64": b64(data), "cursor": cursor})
    if process.end and follow:
        event("exit", process.end)
    handler.wfile.write(b"0\r\n\r\n")


class Frames:
    """The server's end of a WebSocket, strict about masks."""

    def __init__(self, handler, hold):
        """hold: so many messages leave together with the answer to the opening."""
        key = handler.headers["Sec-WebSocket-Key"].encode()
        self.file_in, self.file_out = handler.rfile, handler.wfile
        self.lock = threading.Lock()
        self.hold = hold
        self.held = (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Accept: %s\r\n\r\n" % base64.b64encode(hashlib.sha1(key + GUID).digest()))
        handler.close_connection = True

    def send(self, opcode, data):
        n = len(data)
        head = bytes([0x80 | opcode])
        head += bytes([n]) if n < 126 else b"\x7e" + struct.pack(">H", n) if n < 65536 else \
            b"\x7f" + struct.pack(">Q", n)
        with self.lock:
            self.held += head + data
            self.hold -= 1
            if self.hold <= 0:
                self.file_out.write(self.held)
                self.file_out.flush()
                self.held = b""

    def text(self, **message):
        self.send(1, json.dumps(message).encode())

    def receive(self):
        head = self.file_in.read(2)
        if len(head) < 2:
            return 8, b""
        assert head[0] & 0x80 and head[1] & 0x80, "one masked frame a message"
        n = head[1] & 0x7f
        if n >= 126:
            n = struct.unpack(">H" if n == 126 else ">Q", self.file_in.read(2 if n == 126 else 8))[0]
        mask = self.file_in.read(4)
        data = self.file_in.read(n)
        return head[0] & 15, bytes(c ^ mask[i % 4] for i, c in enumerate(data))


def serve_attach(handler, process, query):
    frames = Frames(handler, 2 if process.streams["stdout"] else 1)
    process.attached += 1
    at = dict(zip(("stdout", "stderr"), [int(c) for c in query.get("cursor", "0").split(":")] + [0]))
    frames.text(type="started", process_id=process.number, pid=40 + process.number, cursor=at["stdout"])
    closed = threading.Event()

    def listen():
        try:
            while True:
                opcode, data = frames.receive()
                if opcode == 8:
                    break
                if opcode == 2:
                    frames.text(type="taken", bytes=len(data))
                    process.take(data)
                elif opcode == 1:
                    message = json.loads(data)
                    if message["type"] == "signal":
                        process.signal(message["signal"])
                    elif message["type"] == "resize":
                        process.sizes.append((message["cols"], message["rows"]))
                    elif message["type"] == "ack":
                        process.acked += message["bytes"]
                    elif message["type"] == "close_stdin":
                        process.input_closed = True
                        process.on_input(b"")
        except (OSError, ValueError):
            pass
        closed.set()

    threading.Thread(target=listen, daemon=True).start()
    for stream, data, _ in process.pieces(at, True):
        if stream == "cut":
            return handler.connection.shutdown(2)
        if stream == "stdout":
            frames.send(2, data)
        else:
            frames.text(type="stderr", data_b64=b64(data))
        if closed.is_set():
            return None
    frames.text(type="exit", **process.end)
    frames.send(8, struct.pack(">H", 1000))
    closed.wait(2)
    return None


class Window:
    """One command at a time; step() is called at every poll and may write and end it."""

    def __init__(self, name):
        self.name, self.run, self.out, self.start = name, 0, b"", 0
        self.busy, self.exit_code = False, None
        self.commands, self.input = [], b""
        self.step = lambda w: w.finish(0)

    def finish(self, code):
        self.busy, self.exit_code = False, code

    def answer(self, cursor):
        data = self.out[cursor:cursor + 10]  # cut, to be read on
        return {"run": self.run, "process_id": 99, "exit_code": self.exit_code,
                "reason": None if self.busy else "exited", "output_b64": b64(data), "cursor": cursor + len(data),
                "gap_bytes": 0, "truncated": cursor + len(data) < len(self.out)}

    def start_run(self, body):
        cancelled = self.busy
        self.run += 1
        self.start, self.busy, self.exit_code = len(self.out), True, None
        self.commands.append(body["command"])
        self.step(self)
        return dict(self.answer(self.start), window=self.name, state="running" if self.busy else "exited",
                    made=self.run == 1, cancelled=cancelled, duration_ms=1)

    def read(self, query):
        if self.busy:
            self.step(self)
        return dict(self.answer(int(query.get("cursor", self.start))), name=self.name,
                    state="busy" if self.busy else "idle")


def parse_query(text):
    return dict(urllib.parse.parse_qsl(text))
