# SPDX-License-Identifier: Apache-2.0
"""A terminal over WebSocket, driven by an implementation that is not ours (python3-websockets)."""

import asyncio
import json
import threading
import time

import websockets
from websockets.legacy.client import WebSocketClientProtocol, connect  # Debian 12 and 13 have it

from lib import tree
from lib.commands import query


class _Counting(WebSocketClientProtocol):
    """Counts pings; with deaf set it does not answer them."""
    ping_count = 0
    deaf = False

    async def pong(self, data=b""):
        self.ping_count += 1
        if not self.deaf:
            await super().pong(data)


class _Loop:
    """One event loop in one thread for all terminals of the run."""
    loop = None

    @classmethod
    def run(cls, work, timeout):
        if cls.loop is None:
            cls.loop = asyncio.new_event_loop()
            threading.Thread(target=cls.loop.run_forever, daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, cls.loop).result(timeout * tree.SLACK)


def refusal(client, path, origin=None, key=True, headers=None):
    """The HTTP status with which a WebSocket is refused, or None if it is accepted."""
    try:
        Terminal(client, path, origin=origin, key=key, headers=headers).close()
    except websockets.exceptions.InvalidStatusCode as error:
        return error.status_code
    return None


class Terminal:
    def __init__(self, client, path, origin=None, key=True, headers=None, **fields):
        url = f"ws://{client.host}:{client.port}{path}{query(**fields)}"
        head = dict(headers or {})
        if key:
            head["Authorization"] = f"Bearer {client.key if key is True else key}"
        self.data = bytearray()
        self.messages = []
        self.order = []  # both kinds as they came
        self.code = None
        self.changed = threading.Condition()
        self.ws = _Loop.run(self._open(url, head, origin), 15)
        self.reader = asyncio.run_coroutine_threadsafe(self._read(), _Loop.loop)

    @staticmethod
    async def _open(url, head, origin):
        return await connect(url, extra_headers=head, origin=origin, max_size=None, create_protocol=_Counting,
                             ping_interval=None, close_timeout=5)

    async def _read(self):
        try:
            async for message in self.ws:
                with self.changed:
                    self.order.append(message if isinstance(message, bytes) else json.loads(message))
                    if isinstance(message, bytes):
                        self.data += message
                    else:
                        self.messages.append(self.order[-1])
                    self.changed.notify_all()
        except websockets.exceptions.ConnectionClosed:
            pass
        finally:
            with self.changed:
                self.code = self.ws.close_code
                self.changed.notify_all()

    def _wait(self, what, timeout, text):
        with self.changed:
            if not self.changed.wait_for(lambda: what() or self.code is not None,
                                         timeout * tree.SLACK) or not what():
                raise AssertionError(f"no {text} within {timeout} s (closed: {self.code}); "
                                     f"{self.messages[-3:]} {bytes(self.data[-600:])!r}")
            return what()

    def send(self, data):
        _Loop.run(self.ws.send(data.encode() if isinstance(data, str) else bytes(data)), 10)

    def control(self, **message):
        _Loop.run(self.ws.send(json.dumps(message)), 10)

    def text(self, data):
        """A text frame as it is, for what no client should send."""
        _Loop.run(self.ws.send(data), 10)

    def expect(self, what, timeout=8, after=0):
        """Waits for these bytes at or after a position; returns the position after them."""
        what = what.encode() if isinstance(what, str) else what

        def found():
            at = self.data.find(what, after)
            return at + len(what) if at >= 0 else 0
        return self._wait(found, timeout, repr(what))

    def message(self, kind, timeout=8):
        return self._wait(lambda: next((m for m in self.messages if m["type"] == kind), None),
                          timeout, f"message {kind}")

    def ended(self, timeout=8):
        """(the exit message, the close code)"""
        message = self.message("exit", timeout)
        self._wait(lambda: self.code is not None, timeout, "close")
        return message, self.code

    def closed(self, timeout=8):
        self._wait(lambda: self.code is not None, timeout, "close")
        return self.code

    @property
    def pings(self):
        return self.ws.ping_count

    def read_for(self, seconds):
        time.sleep(seconds)
        with self.changed:
            return bytes(self.data)

    def close(self):
        try:
            _Loop.run(self.ws.close(), 10)
        except (OSError, asyncio.TimeoutError):
            pass

    def cut(self):
        """The network is lost: no close frame."""
        _Loop.loop.call_soon_threadsafe(self.ws.transport.abort)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
