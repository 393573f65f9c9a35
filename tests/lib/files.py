# SPDX-License-Identifier: Apache-2.0
"""The file routes of one sandbox, and readers of their streams."""

import base64
import contextlib
import http.client
import json
import time
import urllib.parse

from lib import tree
from lib.client import ApiError


class Files:
    def __init__(self, sandbox):
        self.client = sandbox.client
        self.base = f"/v1/sandboxes/{sandbox.id}/files"

    def url(self, op="", **query):
        for key, value in list(query.items()):
            if isinstance(value, bytes):
                del query[key]
                query[key + "_b64"] = base64.b64encode(value).decode()
            elif isinstance(value, bool):
                query[key] = "true" if value else "false"
        text = urllib.parse.urlencode(query)
        return self.base + ("/" + op if op else "") + ("?" + text if text else "")

    def get(self, op="", **query):
        return self.client.call("GET", self.url(op, **query))

    def post(self, op="", **body):
        return self.client.call("POST", self.url(op), body)

    def put(self, path, data, op="raw", headers=None, **query):
        """(status, entry); data: bytes, or an iterable of pieces (then chunked)."""
        head = {"Content-Type": "application/octet-stream", **(headers or {})}
        url = self.url(op, path=path, **query)
        if isinstance(data, bytes):
            status, _, body = self.client.raw("PUT", url, data, head)
        else:
            status, body = self.chunked(url, data, head)
        parsed = json.loads(body)
        if status >= 400:
            raise ApiError(status, parsed)
        return status, parsed

    def chunked(self, url, pieces, head):
        conn = http.client.HTTPConnection(self.client.host, self.client.port, timeout=60)
        head["Authorization"] = f"Bearer {self.client.key}"
        head["Transfer-Encoding"] = "chunked"
        try:
            try:
                conn.request("PUT", url, pieces, head, encode_chunked=True)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may be answered before all was sent
            response = conn.getresponse()
            return response.status, response.read()
        finally:
            conn.close()

    def raw(self, path, headers=None, method="GET", **query):
        """(status, headers, bytes)"""
        return self.client.raw(method, self.url("raw", path=path, **query), headers=headers)

    def read(self, path, **query):
        status, _, body = self.raw(path, **query)
        if status >= 400:
            raise ApiError(status, json.loads(body))
        return body

    def archive(self, path, **query):
        status, headers, body = self.client.raw("GET", self.url("archive", path=path, **query))
        if status >= 400:
            raise ApiError(status, json.loads(body))
        return headers, body

    @contextlib.contextmanager
    def watch(self, path, **query):
        conn = http.client.HTTPConnection(self.client.host, self.client.port, timeout=20)
        conn.request("GET", self.url("watch", path=path, **query),
                     headers={"Authorization": f"Bearer {self.client.key}"})
        response = conn.getresponse()
        if response.status != 200:
            raise ApiError(response.status, json.loads(response.read()))
        try:
            yield Events(response)
        finally:
            # Both hold the descriptor: the daemon sees the end only when both are closed.
            response.close()
            conn.close()


class Events:
    """(name, data) of each event, in order. A missing event is an error: comments keep the connection alive
    indefinitely."""

    PATIENCE_SEC = 30

    def __init__(self, response):
        self.response = response

    def __iter__(self):
        return self

    def __next__(self):
        name, data = None, ""
        until = time.monotonic() + self.PATIENCE_SEC * tree.SLACK
        while True:
            assert time.monotonic() < until, "no event comes"
            line = self.response.readline().decode()
            if not line:
                raise StopIteration
            line = line.rstrip("\n")
            if line == "" and name:
                return name, json.loads(data)
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data += line[6:]


def refused(code, call, *args, **kw):
    """The error of a call that must fail with this code."""
    try:
        answer = call(*args, **kw)
    except ApiError as error:
        assert error.code == code, error
        return error
    raise AssertionError(f"not refused with {code}: {answer!r}")
