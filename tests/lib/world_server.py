# SPDX-License-Identifier: Apache-2.0
"""The servers of the outside world (tests/lib/world.py): HTTP, HTTPS, DNS, a banner, datagrams."""

import http.server
import json
import os
import pathlib
import socket
import socketserver
import ssl
import struct
import sys
import threading

CONFIG = json.loads(sys.argv[1])
LOCK = threading.Lock()
ASKED = {}


def note(**event):
    with LOCK, open(CONFIG["log"], "a") as out:
        out.write(json.dumps(event) + "\n")


class Pages(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def answer(self):
        body = self.body()
        note(kind=self.server.kind, address=self.server.server_address[0],
             port=self.server.server_address[1], host=self.headers.get("Host"), path=self.path,
             size=len(body))
        if self.path.startswith("/redirect?"):
            self.send_response(302)
            self.send_header("Location", self.path.split("?", 1)[1])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        size = int(self.path.split("/")[2]) if self.path.startswith("/bytes/") else None
        text = b"hello from %s\n" % self.server.server_address[0].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(size if size is not None else len(text)))
        self.end_headers()
        if size is None:
            self.wfile.write(text)
        while size:
            n = min(size, 65536)
            self.wfile.write(b"x" * n)
            size -= n

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *_):
        pass


class Web(http.server.ThreadingHTTPServer):
    daemon_threads = True
    kind = "http"

    def handle_error(self, *_):
        pass


class SecureWeb(Web):
    kind = "https"

    def __init__(self, *args):
        super().__init__(*args)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CONFIG["cert"], CONFIG["key"])
        context.sni_callback = lambda _socket, name, _context: note(kind="hello", name=name)
        self.socket = context.wrap_socket(self.socket, server_side=True,
                                          do_handshake_on_connect=False)


class Banner(socketserver.BaseRequestHandler):
    """Speaks first, as mail and SSH servers do, then echoes."""

    def handle(self):
        note(kind="banner", address=self.server.server_address[0])
        self.request.sendall(b"220 banner\r\n")
        while data := self.request.recv(65536):
            self.request.sendall(data)


class StartTls(socketserver.BaseRequestHandler):
    """A mail server that offers STARTTLS: notes the name in the ClientHello, then echoes."""

    def handle(self):
        self.request.sendall(b"220 mail\r\n")
        while line := self.line():
            if line.strip().upper() != b"STARTTLS":
                self.request.sendall(b"250 ok\r\n")
                continue
            self.request.sendall(b"220 go\r\n")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CONFIG["cert"], CONFIG["key"])
            context.sni_callback = lambda _socket, name, _context: note(kind="starttls", name=name)
            secure = context.wrap_socket(self.request, server_side=True)
            while data := secure.recv(65536):
                secure.sendall(data)
            return

    def line(self):
        got = b""
        while not got.endswith(b"\n"):
            more = self.request.recv(1)
            if not more:
                return b""
            got += more
        return got


class Datagrams(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        note(kind="udp", address=self.server.server_address[0], size=len(data))
        sock.sendto(data, self.client_address)


def dns_name(data, at):
    labels = []
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
        at += 1 + data[at]
    return ".".join(labels).lower(), at + 1


def wire_name(name):
    return b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\0"


def dns_answer(data, by_tcp):
    name, end = dns_name(data, 12)
    kind, = struct.unpack("!H", data[end:end + 2])
    note(kind="dns", name=name, type=kind, tcp=by_tcp)
    answers, owner, alias = b"", name, CONFIG["aliases"].get(name)
    count = 0
    if alias:
        target = wire_name(alias)
        answers += wire_name(name) + struct.pack("!HHIH", 5, 1, 60, len(target)) + target
        owner, count = alias, 1
    addresses = CONFIG["zone"].get(owner)
    if name.startswith("flip-"):  # leads outside when it is asked for first, and inside afterwards
        ASKED[name] = ASKED.get(name, 0) + 1
        addresses = [CONFIG["addresses"][0 if ASKED[name] == 1 else 3]]
    code = 0 if addresses is not None or alias else 3
    for address in addresses or [] if kind == 1 else []:
        answers += wire_name(owner) + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(address)
        count += 1
    cut = not by_tcp and name.startswith("big.")
    if cut:
        answers, count = b"", 0
    head = data[:2] + struct.pack("!HHHHH", 0x8180 | code | (0x200 if cut else 0), 1, count, 0, 0)
    return head + data[12:end + 4] + answers


class Names(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        sock.sendto(dns_answer(data, False), self.client_address)


class NamesTcp(socketserver.StreamRequestHandler):
    def handle(self):
        while len(head := self.rfile.read(2)) == 2:
            out = dns_answer(self.rfile.read(struct.unpack("!H", head)[0]), True)
            self.wfile.write(struct.pack("!H", len(out)) + out)


class Tcp(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


class Udp(socketserver.ThreadingUDPServer):
    daemon_threads = True
    max_packet_size = 65535


def main():
    servers = [Udp((CONFIG["dns"], 53), Names), Tcp((CONFIG["dns"], 53), NamesTcp)]
    for address in CONFIG["addresses"]:
        servers += [Web((address, 80), Pages), Web((address, 8080), Pages),
                    SecureWeb((address, 443), Pages), Tcp((address, 2525), Banner),
                    Web((address, 9000), Pages), SecureWeb((address, 2053), Pages),
                    Tcp((address, 2587), StartTls),
                    Udp((address, 9999), Datagrams), Udp((address, 443), Datagrams)]
        if address != CONFIG["dns"]:
            servers.append(Udp((address, 53), Names))
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    pathlib.Path(CONFIG["ready"]).touch()
    sys.stdin.read()
    os._exit(0)


main()
