# SPDX-License-Identifier: Apache-2.0
"""Requests of the daemon itself do not reach the host: finding 3 of the audit, beside the rules for sandboxes."""

import socket
import threading

from lib.daemon import Daemon
from lib.world import EVIL, HOST, World


def listener(address):
    """A server that answers 200, and a list of what it was sent."""
    heard = []
    server = socket.create_server((address, 0))

    def serve():
        while True:
            try:
                conn, _ = server.accept()
            except OSError:
                return
            with conn:
                heard.append(conn.recv(65536))
                conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    threading.Thread(target=serve, daemon=True).start()
    return server, heard


def test_webhooks_do_not_reach_the_hosts_public_address():
    with World(), Daemon() as daemon:
        for url, refused in (("http://%s:%d/hook", True), (f"http://{EVIL}:80/hook", False)):
            server, heard = listener(HOST)
            with server:
                if refused:
                    url %= server.getsockname()
                hook = daemon.client.call("POST", "/v1/webhooks", {"url": url})
                result = daemon.client.call("POST", f"/v1/webhooks/{hook['id']}/test", {})
                assert not heard, "the host was reached"
            assert ("webhook_allow_private" in (result["error"] or "")) == refused, result
