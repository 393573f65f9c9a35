# SPDX-License-Identifier: Apache-2.0
"""Raw HTTP, for requests that a correct client would never send."""

import re
import socket


def exchange(client, data, timeout=5, shut=False):
    """Sends bytes and reads until the daemon closes or is silent; returns all bytes received."""
    with socket.create_connection((client.host, client.port), timeout=timeout) as sock:
        try:
            sock.sendall(data)
            if shut:
                sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused while we were still sending: the answer counts
        return drain(sock)


def drain(sock):
    got = b""
    try:
        while chunk := sock.recv(65536):
            got += chunk
    except OSError:
        pass
    return got


def statuses(answer):
    """The status of every response in the byte stream, in order."""
    return [int(s) for s in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


def head(client, method="GET", path="/v1/sandboxes", host=None, key=True, extra=b""):
    lines = [f"{method} {path} HTTP/1.1".encode()]
    if host is not False:
        lines.append(b"Host: " + (host or f"{client.host}:{client.port}").encode())
    if key:
        lines.append(b"Authorization: Bearer " + client.key.encode())
    return b"\r\n".join(lines) + b"\r\n" + extra
