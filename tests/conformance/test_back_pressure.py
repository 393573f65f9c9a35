# SPDX-License-Identifier: Apache-2.0
"""Foreground readers get every byte: the program blocks when they are slow, on every engine."""

import json
import time

import pytest
import websockets

from lib import tree
from lib.client import ApiError
from lib.commands import Collected, Events, Process, exec_stream, query, wait_for
from lib.counted import expected, writer
from lib.terminal import Terminal

MUCH = 12_000_000
RING = 1 << 20


def total(process):
    return process.get()["stdout_cursor"]


def blocked_at(process):
    """Waits until the program has written all it can."""
    last, same = -1, 0
    while same < 4:
        now = total(process)
        same = same + 1 if now == last and now else 0
        last = now
        time.sleep(0.05)
    assert process.get()["state"] == "running"
    return last


def start(shared, size=MUCH, **fields):
    row = shared.client.call("POST", f"/v1/sandboxes/{shared.id}/processes",
                             {"argv": writer(size), "hold": True, **fields})
    return Process(shared, row)


class Acking:
    """A WebSocket that acknowledges as much as it is asked to."""

    def __init__(self, shared, process, **fields):
        self.ws = Terminal(shared.client, process.path + "/attach", hold=True, ack=True, **fields)
        self.acked = 0

    def ack(self, upto=None):
        n = (len(self.ws.data) if upto is None else upto) - self.acked
        if n > 0:
            self.ws.control(type="ack", bytes=n)
            self.acked += n

    def all(self, size):
        def more():
            if len(self.ws.data) < size:  # behind the last byte the server closes
                try:
                    self.ack()
                except websockets.exceptions.ConnectionClosed:
                    pass
            return len(self.ws.data) >= size
        wait_for(more, timeout=60)
        return bytes(self.ws.data)


def gaps(ws):
    return [m for m in ws.messages if m["type"] == "gap"]


# -- streams --------------------------------------------------------------------------------------

def test_a_stream_that_is_not_read(shared):
    """exec/stream holds output: nothing is read for a while, then everything is there."""
    events = exec_stream(shared, writer(MUCH), rcvbuf=1 << 18)
    process = Process(shared, events.next().data)
    assert blocked_at(process) < MUCH, "the socket's buffers cannot take all of it"
    seen = Collected(events, begun=False)
    assert seen.gaps == [] and seen.exit["exit_code"] == 0
    assert seen.out == expected(0, MUCH)
    events.close()


def test_disconnect_releases_it(shared):
    events = exec_stream(shared, writer(MUCH), rcvbuf=1 << 18)
    process = Process(shared, events.next().data)
    blocked_at(process)
    events.cut()
    end = wait_for(lambda: (r := process.get())["state"] == "exited" and r, timeout=20)
    assert end["exit_code"] == 0 and end["stdout_cursor"] == MUCH, "it went on, detached"
    assert end["stdout_begin"] == MUCH - RING, "and overwrote"


def test_output_with_hold(shared):
    """A reader of a detached process may request it, and must follow to do so."""
    process = start(shared)
    with pytest.raises(ApiError) as caught:
        process.events(hold=True)
    assert caught.value.status == 400 and "hold" in caught.value.error["message"]
    events = Events(shared.client, "GET", process.path + "/output" + query(follow=True, hold=True), rcvbuf=1 << 18)
    assert blocked_at(process) < MUCH
    seen = Collected(events, begun=False)
    assert seen.gaps == [] and seen.out == expected(0, MUCH)


def test_a_second_reader_stalls_nothing(shared):
    """A second reader without hold: the owner gets everything, the stalled one a gap."""
    process = start(shared)
    dead = Events(shared.client, "GET", process.path + "/output" + query(follow=True), rcvbuf=1 << 18)
    owner = Events(shared.client, "GET", process.path + "/output" + query(follow=True, hold=True))
    seen = Collected(owner, begun=False)
    assert seen.gaps == [] and seen.out == expected(0, MUCH)
    late = Collected(dead, begun=False)
    assert late.gaps and late.exit["exit_code"] == 0


def test_an_exec_beside_a_blocked_one(shared):
    events = exec_stream(shared, writer(MUCH), rcvbuf=1 << 18)
    process = Process(shared, events.next().data)
    blocked_at(process)
    for _ in range(5):
        assert shared.exec(["echo", "quick"]).ok().stdout == "quick\n"
    with exec_stream(shared, writer(2 * RING)) as other:
        assert Collected(other).out == expected(0, 2 * RING)
    assert Collected(events, begun=False).gaps == []


@pytest.mark.parametrize("way", ["timeout", "KILL", "delete"])
def test_a_blocked_one_can_be_ended(shared, way):
    limit_sec = max(2, int(tree.SLACK))  # long enough to see it blocked on a busy host
    events = exec_stream(shared, ["yes"], rcvbuf=1 << 18, timeout_sec=limit_sec if way == "timeout" else 0)
    process = Process(shared, events.next().data)
    blocked_at(process)
    if way == "KILL":
        shared.client.call("POST", process.path + "/signal", {"signal": "KILL"})
    if way == "delete":
        shared.client.call("DELETE", process.path)
        events.cut()
        return
    seen = Collected(events, begun=False)
    assert seen.gaps == [] and seen.exit["reason"] == {"timeout": "timeout", "KILL": "killed_by_request"}[way]
    assert len(seen.out) == seen.exit["stdout_bytes"]


# -- WebSockets with acknowledgements -------------------------------------------------------------

def test_what_is_not_acknowledged_is_not_exceeded(shared):
    process = start(shared)
    reader = Acking(shared, process, cursor="0:0")
    blocked_at(process)
    window = len(reader.ws.data)
    assert window == 512 * 1024
    reader.ack(100_000)
    wait_for(lambda: len(reader.ws.data) == window + 100_000)
    time.sleep(0.2)
    assert len(reader.ws.data) == window + 100_000
    assert reader.all(MUCH) == expected(0, MUCH) and gaps(reader.ws) == []
    assert reader.ws.message("exit")["exit_code"] == 0


@pytest.mark.parametrize("bytes", [0, -1, 1 << 30, "7", None])
def test_a_wrong_acknowledgement(shared, bytes):
    process = start(shared)
    reader = Acking(shared, process, cursor="0:0")
    wait_for(lambda: len(reader.ws.data))
    reader.ws.control(type="ack", bytes=bytes)
    assert reader.ws.message("error")["code"] == "invalid_request"
    assert reader.all(MUCH) == expected(0, MUCH)


def test_nothing_is_lost_before_the_reader_comes(shared):
    process = start(shared)
    assert blocked_at(process) <= RING
    reader = Acking(shared, process, cursor="0:0")
    assert reader.all(MUCH) == expected(0, MUCH) and gaps(reader.ws) == []


def test_taken_input_is_reported(shared):
    row = shared.client.call("POST", f"/v1/sandboxes/{shared.id}/processes",
                             {"argv": ["bash", "-c", "read x; echo $x; exec sleep 300"], "hold": True})
    process = Process(shared, row)
    reader = Acking(shared, process, cursor="0:0")
    reader.ws.send(b"abc\n")
    assert reader.ws.message("taken")["bytes"] == 4
    wait_for(lambda: bytes(reader.ws.data) == b"abc\n")
    shared.client.call("POST", process.path + "/signal", {"signal": "KILL"})
    assert reader.ws.message("exit")["reason"] == "killed_by_request"


def test_input_of_a_program_that_stopped_reading(shared):
    row = shared.client.call("POST", f"/v1/sandboxes/{shared.id}/processes",
                             {"argv": ["bash", "-c", "exec <&-; echo closed; sleep 0.5; exit 6"], "hold": True})
    reader = Acking(shared, Process(shared, row), cursor="0:0")
    wait_for(lambda: bytes(reader.ws.data) == b"closed\n")
    for _ in range(5):
        reader.ws.send(b"into the void\n")
    assert reader.ws.message("exit")["exit_code"] == 6
    told = [m["type"] for m in reader.ws.messages]
    assert told.count("stdin_closed") == 1 and "error" not in told, json.dumps(reader.ws.messages)
