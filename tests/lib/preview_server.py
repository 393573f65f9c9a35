# SPDX-License-Identifier: Apache-2.0
"""A server to be run inside a sandbox, for previews: HTTP by hand, so that it can also be rude.

    python3 preview_server.py PORT
"""
import hashlib
import json
import socket
import sys
import threading
import time


class Connection:
    def __init__(self, sock):
        self.sock = sock
        self.data = b""
        self.served = 0

    def fill(self):
        more = self.sock.recv(65536)
        self.data += more
        return bool(more)

    def line(self):
        while b"\r\n" not in self.data:
            if not self.fill():
                return None
        line, self.data = self.data.split(b"\r\n", 1)
        return line.decode("latin-1")

    def exactly(self, n):
        while len(self.data) < n:
            if not self.fill():
                raise OSError("short body")
        got, self.data = self.data[:n], self.data[n:]
        return got

    def body(self, headers):
        """Pieces of the body, then the trailers."""
        if headers.get("transfer-encoding") == "chunked":
            while (size := int(self.line().split(";")[0], 16)):
                yield self.exactly(size)
                self.line()
            self.trailers = []
            while (line := self.line()):
                self.trailers.append(line)
        else:
            left = int(headers.get("content-length", 0))
            while left:
                piece = self.exactly(min(left, 65536))
                left -= len(piece)
                yield piece

    def send(self, status, headers, body=b""):
        lines = [f"HTTP/1.1 {status}"] + [f"{k}: {v}" for k, v in headers]
        self.sock.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def reply(self, body, status="200 OK", kind="application/json", more=()):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send(status, [("Content-Type", kind), ("Content-Length", len(body)), *more], body)


def echo(c, request, headers, pairs):
    whole = b"".join(c.body(headers))
    c.reply({"request": request, "headers": pairs, "body": whole.decode("latin-1"),
             "trailers": getattr(c, "trailers", []), "served": c.served, "peer": c.sock.getpeername()[0]})


def upload(c, request, headers, pairs):
    if headers.get("expect") == "100-continue":
        if "refuse" in request:
            c.reply({"refused": True}, "413 Too Large", more=[("Connection", "close")])
            return False
        c.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    digest, n = hashlib.sha256(), 0
    for piece in c.body(headers):
        digest.update(piece)
        n += len(piece)
    c.reply({"sha256": digest.hexdigest(), "bytes": n})


def chunked(c, request, headers, pairs):
    c.send("200 OK", [("Transfer-Encoding", "chunked"), ("Trailer", "X-Sum")])
    for piece in (b"one,", b"two,", b"three"):
        c.sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
    c.sock.sendall(b"0\r\nX-Sum: 42\r\nSet-Cookie: tossed=1\r\nContent-Length: 9\r\n\r\n")


def until_close(c, request, headers, pairs):
    c.sock.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + b"y" * 100000)
    return False


def big(c, request, headers, pairs):
    left = int(request.split("?")[1].split()[0])
    c.send("200 OK", [("Content-Length", left), ("Content-Type", "application/octet-stream")])
    block = bytes(range(256)) * 1024
    while left:
        piece = block[:min(left, len(block))]
        c.sock.sendall(piece)
        left -= len(piece)


gate = threading.Event()


def events(c, request, headers, pairs):
    """One event at once; the next after a request to /go."""
    c.send("200 OK", [("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache"),
                      ("Transfer-Encoding", "chunked")])
    for text in (b"data: first\n\n", b"data: second\n\n"):
        c.sock.sendall(b"%x\r\n%s\r\n" % (len(text), text))
        gate.wait()
    c.sock.sendall(b"0\r\n\r\n")


def go(c, request, headers, pairs):
    gate.set()
    c.reply({})


def socket_echo(c, request, headers, pairs):
    c.send("101 Switching Protocols", [("Upgrade", headers["upgrade"]), ("Connection", "Upgrade")],
           b"hello\n")
    while True:
        data, c.data = c.data, b""
        data = data or c.sock.recv(65536)
        if not data:
            return False
        c.sock.sendall(data)


def bare(status):
    def answer(c, request, headers, pairs):
        c.send(status, [])
    return answer


def cookies(c, request, headers, pairs):
    c.reply({}, more=[("Set-Cookie", "a=1; Domain=cay.localhost; Path=/; HttpOnly"),
                      ("Set-Cookie", "b=2;domain=.cay.localhost"),
                      ("Set-Cookie", "cay_preview=stolen; Path=/"), ("Alt-Svc", 'h2="evil:443"'),
                      ("Connection", "X-Hop"), ("X-Hop", "1"), ("X-End", "2")])


def hang_up(c, request, headers, pairs):
    return False


def stall(c, request, headers, pairs):
    time.sleep(3600)


RUDE = {
    "no-http": b"hello, I am not HTTP\r\n\r\n",
    "bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk",
    "both": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "te-other": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "folded": b"HTTP/1.1 200 OK\r\nX-A: 1\r\n 2\r\nContent-Length: 0\r\n\r\n",
    "nul": b"HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 0\r\n\r\n",
    "space-colon": b"HTTP/1.1 200 OK\r\nX-A : 1\r\nContent-Length: 0\r\n\r\n",
    "many-headers": b"HTTP/1.1 200 OK\r\n" + b"X-A: 1\r\n" * 5000 + b"\r\n",
    "long-header": b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 1000000 + b"\r\n\r\n",
    "interims": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000,
    "unasked-101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nraw",
    "bad-status": b"HTTP/1.1 999 Strange\r\nContent-Length: 0\r\n\r\n",
    "http2": b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
}
LYING = {
    "short": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
    "long": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond",
    "bad-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nZZ\r\n",
    "cut-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
}


def rude(c, request, headers, pairs):
    name = request.split("?")[1].split()[0]
    c.sock.sendall(RUDE.get(name) or LYING[name])
    if name == "long":
        time.sleep(1)
    return False


ROUTES = {"/echo": echo, "/upload": upload, "/chunked": chunked, "/until-close": until_close,
          "/big": big, "/events": events, "/go": go, "/socket": socket_echo, "/cookies": cookies,
          "/204": bare("204 No Content"), "/304": bare("304 Not Modified"), "/hang-up": hang_up,
          "/stall": stall, "/rude": rude}


def serve(sock):
    c = Connection(sock)
    try:
        while (request := c.line()) is not None:
            pairs = []
            while (line := c.line()):
                name, value = line.split(":", 1)
                pairs.append((name, value.strip()))
            headers = {k.lower(): v for k, v in pairs}
            c.served += 1
            c.trailers = []
            path = request.split()[1].split("?")[0]
            if request.startswith("HEAD"):
                c.send("200 OK", [("Content-Length", 12345)])
            elif path in ROUTES:
                if ROUTES[path](c, request, headers, pairs) is False:
                    break
            else:
                c.reply({"error": "no such path"}, "404 Not Found")
    except OSError:
        pass
    finally:
        sock.close()


if __name__ == "__main__":
    listener = socket.create_server((sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1", int(sys.argv[1])),
                                    backlog=512, reuse_port=False)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
