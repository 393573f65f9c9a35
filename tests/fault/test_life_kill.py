# SPDX-License-Identifier: Apache-2.0
"""kill -9 of cayd, of cay-warden or of both in the middle of a move, at random instants.

Afterwards the sandbox is in a state of the table with its files whole, it can be resumed and used, nothing that
was told is lost, and when everything is deleted the host is as before.
"""

import os
import random
import threading
import time

import pytest

from lib import census, tree
from lib.client import ApiError, Client
from lib.daemon import Daemon

SEED = int(os.environ.get("CAY_SEED", "0")) or random.randrange(1 << 30)
ROUNDS = int(os.environ.get("CAY_KILL_ROUNDS", "12"))
MOVES = (("pause", {"kind": "freeze"}), ("pause", {"kind": "hibernate"}), ("snapshots", {}), ("fork", {"count": 3}))


@pytest.fixture
def own():
    before = census.take()
    with Daemon() as started:
        yield started
        state = started.state
    left = census.settle(before, states=[state])
    assert not left, "after 'cay down' the host differs:\n" + "\n".join(left)


def restarted(daemon, before):
    """Waits until what was killed runs again and answers."""
    until = time.monotonic() + 15 * tree.SLACK
    while time.monotonic() < until:
        now = daemon.pids()
        if all(now.get(name) not in (None, pid) for name, pid in before.items()):
            break
        time.sleep(0.02)
    return daemon.wait_ready()


def settled(api, sandbox):
    """The sandbox once no move is being finished or taken back."""
    until = time.monotonic() + 15 * tree.SLACK
    while True:
        row = api.get(sandbox)
        assert row["state"] in ("running", "paused"), row
        try:
            return api.call("POST", f"/v1/sandboxes/{sandbox}/resume", {})
        except ApiError as error:
            assert error.status in (409, 503) and time.monotonic() < until, (row, error)
        time.sleep(0.05)


@pytest.mark.parametrize("victims", [("cayd",), ("cay-warden",), ("cayd", "cay-warden")], ids="+".join)
def test_killed_in_a_move(own, victims):
    rng = random.Random(SEED)
    print("seed", SEED)
    api = own.client
    source = api.create(always_on=True)["id"]
    kept = set()
    for number in range(ROUNDS):
        api.exec(source, f"echo {number} > number; sync").ok()
        told = []

        def move(path, body):
            mine = Client(own.url, own.key)
            try:
                told.append(mine.call("POST", f"/v1/sandboxes/{source}/{path}", body))
                if path == "pause":
                    mine.call("POST", f"/v1/sandboxes/{source}/resume", {})
            except (OSError, ApiError, ValueError):
                pass  # cut off: nothing was promised
            except Exception as error:  # http.client has its own for half an answer
                assert "http" in type(error).__module__, error

        path, body = MOVES[number % len(MOVES)]
        thread = threading.Thread(target=move, args=(path, body))
        thread.start()
        time.sleep(rng.random() * 0.012)
        own.forgive()
        before = {name: own.kill(name) for name in victims}
        api = restarted(own, before)
        thread.join(20)
        assert not thread.is_alive()
        row = settled(api, source)
        assert row["state"] == "running", row
        assert api.exec(source, "cat number").stdout == f"{number}\n", "files were lost"
        rows = {r["id"]: r for r in api.call("GET", "/v1/snapshots?limit=1000")["data"]}
        assert kept <= set(rows), "a snapshot that was told is gone"
        if told and path == "snapshots":
            assert told[0]["id"] in rows
        kept = set(rows)
        children = {r["id"] for r in api.list()} - {source}
        if told and path == "fork":
            assert {c["id"] for c in told[0]["data"] if "id" in c} <= children
        for child in children:
            api.delete(child)
    for snapshot in kept:
        api.call("DELETE", f"/v1/snapshots/{snapshot}")
    api.delete(source)
