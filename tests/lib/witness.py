# SPDX-License-Identifier: Apache-2.0
"""A quiet neighbour and a /healthz poller that measure while another sandbox misbehaves."""

import threading
import time

from lib.client import Client


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Witness:
    """with Witness(client, neighbour) as seen: ...; afterwards seen.exec_ms and seen.health_ms."""

    def __init__(self, client, neighbour, pause=0.02):
        self.client, self.neighbour, self.pause = client, neighbour, pause
        self.exec_ms, self.health_ms, self.errors = [], [], []
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=a, daemon=True)
                        for a in ((self._exec, self.exec_ms), (self._health, self.health_ms))]

    def _exec(self, client):
        result = client.exec(self.neighbour.id, ["/bin/true"])
        assert result.exit_code == 0, repr(result)

    def _health(self, client):
        assert client.healthz() == 200

    def _run(self, call, into):
        client = Client(self.client.url, self.client.key, timeout=30)
        while not self.stop.is_set():
            begin = time.monotonic()
            try:
                call(client)
            except Exception as error:  # any failure of a witness is evidence
                self.errors.append(repr(error))
            into.append((time.monotonic() - begin) * 1000)
            self.stop.wait(self.pause)
        client.close()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        for thread in self.threads:
            thread.join(timeout=35)

    def summary(self):
        return {"exec_p50": percentile(self.exec_ms, 0.5), "exec_p95": percentile(self.exec_ms, 0.95),
                "health_p99": percentile(self.health_ms, 0.99), "health_max": max(self.health_ms or [0]),
                "errors": len(self.errors), "samples": len(self.exec_ms)}
