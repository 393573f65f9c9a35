# SPDX-License-Identifier: Apache-2.0
"""Hundreds of streams and terminals on one daemon, and the effect of one stalled reader on the others. Raw sockets and
one draining thread, so that the client side is not what is measured.
"""

import base64
import os
import selectors
import socket
import statistics
import struct
import threading
import time

import place
import report
import scale

BOXES = 4
ROUNDS = 6
PER_ROUND = 40
GAP_SEC = 0.005
# 12 MiB per second: all buffers to a reader that does not read are full within a second.
FLOOD = "exec python3 -c 'import os,time; b=bytes(262144)\nwhile True: os.write(1,b); time.sleep(0.02)'"
STALL_SEC = 1.0
ECHO = "while read -r x; do echo \"$x\"; done"


def connect(daemon, path, more="", receive_bytes=None):
    host, port = daemon.client.host, daemon.client.port
    sock = socket.socket()
    sock.settimeout(30)
    if receive_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.connect((host, port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {daemon.key}\r\n"
                 f"{more}\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        data = sock.recv(65536)
        if not data:
            break
        head += data
    status = head.split(b" ", 2)[1] if head.startswith(b"HTTP/1.1 ") else b"?"
    if status not in (b"200", b"101"):
        sock.close()
        raise place.Trouble(f"GET {path}: {head[:300]!r}")
    return sock


def follow(daemon, process, receive_bytes=None):
    return connect(daemon, process + "/output?follow=true&tail=0", receive_bytes=receive_bytes)


def terminal(daemon, box):
    key = base64.b64encode(os.urandom(16)).decode()
    return connect(daemon, f"/v1/sandboxes/{box.id}/pty?shell=/bin/sh", "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                   f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n")


def frame(data):
    """A masked binary frame; a mask of zeros is a mask."""
    assert len(data) < 126
    return struct.pack(">BB4x", 0x82, 0x80 | len(data)) + data


class Crowd:
    """Sockets that only read, in one thread."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.lost = 0
        self.open = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def add(self, sock):
        sock.setblocking(False)
        self.open.append(sock)
        self.selector.register(sock, selectors.EVENT_READ)

    def run(self):
        while not self.stop.is_set():
            for key, _ in self.selector.select(0.2):
                try:
                    data = key.fileobj.recv(262144)
                except BlockingIOError:
                    continue
                except OSError:
                    data = b""
                if not data:
                    self.lost += 1
                    self.selector.unregister(key.fileobj)

    def close(self):
        self.stop.set()
        self.thread.join()
        for sock in self.open:
            sock.close()


class Watch:
    """One stream that is read by hand."""

    def __init__(self, sock):
        self.sock = sock
        self.waiting = b""

    def take(self):
        """Received bytes, without framing."""
        data, self.waiting = self.waiting, b""
        return data

    def until(self, what):
        got = b""
        while what not in got:
            data = self.sock.recv(65536)
            if not data:
                raise place.Trouble("a probe's stream ended")
            self.waiting += data
            got += self.take()


class Screen(Watch):
    """The same for a terminal: complete WebSocket frames."""

    def take(self):
        got = b""
        while len(self.waiting) >= 2:
            size, at = self.waiting[1], 2
            if size >= 126:
                at = 4 if size == 126 else 10
                size = int.from_bytes(self.waiting[2:at], "big")
            if len(self.waiting) < at + size:
                break
            got += self.waiting[at:at + size]
            self.waiting = self.waiting[at + size:]
        return got


def probe(watch, send):
    """A line to the program's input until its echo has come through the stream."""
    us = []
    for n in range(PER_ROUND):
        word = f"{time.monotonic_ns():x}.{n}"
        begin = time.perf_counter()
        send(word)
        watch.until(word.encode())
        us.append((time.perf_counter() - begin) * 1e6)
        time.sleep(GAP_SEC)
    return us


def spawn(daemon, box, command):
    row = daemon.client.call("POST", f"/v1/sandboxes/{box.id}/processes", {"command": command})
    return f"/v1/sandboxes/{box.id}/processes/{row['process_id']}"


def rounds(daemon, echo, watcher, screen, flood):
    """Alternates: no follower of the flood, or one that does not read."""
    def send_line(word):
        daemon.client.call("POST", echo + "/stdin", {"data": word + "\n"})

    def send_keys(word):
        screen.sock.sendall(frame(word.encode()))
    found = {"follow": [], "follow_stalled": [], "pty": [], "pty_stalled": []}
    for number in range(ROUNDS * 2):
        stalled = number % 2 == 1
        reader = None
        if stalled:
            reader = follow(daemon, flood, 65536)
            time.sleep(STALL_SEC)
        suffix = "_stalled" if stalled else ""
        found["follow" + suffix] += probe(watcher, send_line)
        found["pty" + suffix] += probe(screen, send_keys)
        if reader:
            reader.close()
    return found


def measure(daemon, options):
    crowd, failed = Crowd(), 0
    boxes = [daemon.client.sandbox(timeout_sec=86400).__enter__() for _ in range(BOXES)]
    probes = []
    try:
        ticker = spawn(daemon, boxes[0], "while :; do date; sleep 1; done")
        echo, flood = spawn(daemon, boxes[1], ECHO), spawn(daemon, boxes[2], FLOOD)
        for n in range(options.follows + options.ptys):
            try:
                crowd.add(follow(daemon, ticker) if n < options.follows else terminal(daemon, boxes[n % BOXES]))
            except (place.Trouble, OSError) as error:
                failed += 1
                place.say(str(error))
                if failed > 5:
                    raise
        probes = [follow(daemon, echo), terminal(daemon, boxes[3])]
        watcher, screen = Watch(probes[0]), Screen(probes[1])
        probes[1].sendall(frame(b"stty -icanon min 1; exec cat >/dev/null\n"))
        screen.until(b"/dev/null")
        time.sleep(1)
        us = rounds(daemon, echo, watcher, screen, flood)
        rss = scale.rss_kb(daemon.pids()["cayd"])
        lost = crowd.lost
    finally:
        crowd.close()
        for sock in probes:
            sock.close()
        for box in boxes:
            box.__exit__()
    found = {"follows": options.follows, "ptys": options.ptys, "failed": failed + lost, "rss_kb": rss}
    for name, values in us.items():
        found[name + "_us"] = statistics.median(values)
        found[name + "_p99_us"] = report.quantile(values, 0.99)
    return found
