# SPDX-License-Identifier: Apache-2.0
"""Previews for tests: a server inside, and a client that names it by Host."""

import http.client
import pathlib
import socket

from lib import tree
from lib.commands import wait_for
from lib.files import Files

SERVER = pathlib.Path(__file__).with_name("preview_server.py")


def free_port():
    """On engines without a network namespace the port must also be free outside."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Preview:
    def __init__(self, sandbox, port=None, start=True, **body):
        self.sandbox, self.client = sandbox, sandbox.client
        self.port = port or free_port()
        self.path = f"/v1/sandboxes/{sandbox.id}/previews"
        if start:
            self.start()
        self.row = self.client.call("POST", self.path, {"port": self.port, **body})
        self.host = f"{self.port}-{sandbox.id}.cay.localhost"

    def put_server(self):
        """Into the working directory: every engine has one."""
        Files(self.sandbox).put("preview_server.py", SERVER.read_bytes())

    def start(self):
        self.put_server()
        self.client.call("POST", f"/v1/sandboxes/{self.sandbox.id}/processes",
                         {"argv": ["python3", "preview_server.py", str(self.port)]})
        wait_for(self.listens, timeout=20)

    def listens(self):
        listed = self.client.call("GET", f"/v1/sandboxes/{self.sandbox.id}/ports")["data"]
        return [row for row in listed if row["port"] == self.port]

    def connect(self, timeout=30):
        return http.client.HTTPConnection(self.client.host, self.client.port,
                                          timeout=timeout * tree.SLACK)

    def ask(self, path, method="GET", body=None, headers=None, conn=None, host=None, **kw):
        """The reply, read: its status, headers, body and connection are attributes."""
        own = conn or self.connect()
        own.request(method, path, body=body, headers={"Host": host or self.host, **(headers or {})}, **kw)
        answer = own.getresponse()
        answer.body = answer.read()
        if conn is None:
            own.close()
        return answer

    def raw(self, timeout=30):
        return socket.create_connection((self.client.host, self.client.port),
                                        timeout=timeout * tree.SLACK)
