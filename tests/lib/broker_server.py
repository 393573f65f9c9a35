# SPDX-License-Identifier: Apache-2.0
"""An HTTPS server that shows what it was sent, for tests of brokered secrets. Arguments: a JSON object."""

import base64
import http.server
import json
import os
import ssl
import sys

CONFIG = json.loads(sys.argv[1])


class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def note(self, body):
        with open(CONFIG["log"], "a") as out:
            out.write(json.dumps({"method": self.command, "path": self.path, "headers": self.headers.items(),
                                  "body": body.decode(errors="replace")}) + "\n")

    def reply(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                data += self.rfile.read(size)
                self.rfile.readline()
                if size == 0:
                    return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def git(self):
        want = "Basic " + base64.b64encode(f"user:{CONFIG['value']}".encode()).decode()
        if self.headers.get("Authorization") != want:
            self.reply(401, b"no\n", WWW_Authenticate='Basic realm="git"')
            return
        path = os.path.normpath(CONFIG["root"] + self.path.split("?")[0])
        if path.startswith(CONFIG["root"]) and os.path.isfile(path):
            with open(path, "rb") as f:
                self.reply(200, f.read())
        else:
            self.reply(404, b"none\n")

    def answer(self):
        body = self.body()
        self.note(body)
        if self.path.startswith("/repo.git"):
            self.git()
            return
        shown = json.dumps({"headers": dict(self.headers.items()), "body": body.decode(errors="replace"),
                            "encoded": base64.b64encode(str(self.headers.get("X-Token")).encode()).decode()})
        self.reply(200, shown.encode(), X_Echo=self.headers.get("Authorization") or "")

    do_GET = do_POST = do_PUT = do_HEAD = do_TRACE = answer

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer((CONFIG["address"], CONFIG["port"]), Echo)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CONFIG["cert"], CONFIG["key"])
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
