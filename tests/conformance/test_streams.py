# SPDX-License-Identifier: Apache-2.0
"""exec and exec/stream beyond the simple reply, and clients that disconnect, on every engine."""

import socket

import pytest

from lib.client import Client
from lib.commands import (Collected, b64, exec_stream, in_thread, marker, processes, wait_for)
from lib.counted import expected, writer

# -- clients that go away -------------------------------------------------------------------------

def test_disconnect_kills_nothing(shared):
    mark = marker()
    head = (f"POST /v1/sandboxes/{shared.id}/exec HTTP/1.1\r\nHost: {shared.client.host}:{shared.client.port}\r\n"
            f"Authorization: Bearer {shared.client.key}\r\nContent-Type: application/json\r\n")
    body = f'{{"command": "echo begun; sleep 0.6; echo {mark}; exit 9", "timeout_sec": 20}}'
    with socket.create_connection((shared.client.host, shared.client.port)) as sock:
        sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        row = wait_for(lambda: next((p for p in processes(shared) if mark in p["command"]), None))
    stream = exec_stream(shared, "echo begun; sleep 0.6; exit 8")
    other = stream.next().data["process_id"]
    stream.cut()
    for process_id, code in ((row["process_id"], 9), (other, 8)):
        path = f"/v1/sandboxes/{shared.id}/processes/{process_id}"
        end = wait_for(lambda p=path: (r := shared.client.call("GET", p))["state"] == "exited" and r)
        assert (end["exit_code"], end["reason"]) == (code, "exited")
        out = shared.client.call("GET", path + "/output?format=json")["stdout"]
        assert out == (f"begun\n{mark}\n" if code == 9 else "begun\n")
        shared.client.call("DELETE", path)


def test_an_exec_that_was_answered_is_gone(shared):
    result = shared.exec(["true"]).ok()
    assert result.body["process_id"] not in {p["process_id"] for p in processes(shared)}


def test_exec_can_be_signalled(shared):
    mark = marker()
    waiting = in_thread(lambda: Client(shared.client.url, shared.client.key).exec(
        shared.id, ["bash", "-c", "sleep 300; :", mark]))
    row = wait_for(lambda: next((p for p in processes(shared) if mark in p["command"]), None))
    shared.client.call("POST", f"/v1/sandboxes/{shared.id}/processes/{row['process_id']}/signal",
                       {"signal": "TERM"})
    body = waiting.result().body
    assert (body["reason"], body["exit_code"]) == ("killed_by_request", 143)


# -- exec/stream ----------------------------------------------------------------------------------

def test_stream_events(shared):
    with exec_stream(shared, "echo out; echo err >&2; exit 7", env={"A": "1"}, cwd="/") as events:
        seen = Collected(events)
    assert seen.started["process_id"] > 0 and seen.started["pid"] > 1
    assert (seen.out, seen.err) == (b"out\n", b"err\n")
    assert (seen.exit["exit_code"], seen.exit["signal"], seen.exit["reason"]) == (7, None, "exited")
    assert (seen.exit["stdout_bytes"], seen.exit["stderr_bytes"]) == (4, 4)
    assert seen.exit["duration_ms"] >= 0 and seen.exit["memory_limit_bytes"] is None


def test_stream_is_live(shared):
    with exec_stream(shared, "echo first; read x; echo got $x", stdin_open=True) as events:
        process_id = events.next().data["process_id"]
        events.until_bytes(b"first\n")
        shared.client.call("POST", f"/v1/sandboxes/{shared.id}/processes/{process_id}/stdin",
                           {"data": "it\n"})
        events.until_bytes(b"got it\n")
        assert events.until("exit")[-1].data["exit_code"] == 0


def test_stream_stdin_and_timeout(shared):
    with exec_stream(shared, ["cat"], stdin="all of it") as events:
        assert Collected(events).out == b"all of it"
    with exec_stream(shared, "echo x; sleep 300", timeout_sec=1) as events:
        end = Collected(events).exit
        assert (end["exit_code"], end["reason"]) == (124, "timeout")


def test_utf8_is_never_torn(shared):
    """Byte by byte, with pauses: every event is complete text."""
    text = "grün ✓ 🌊 ﷽"
    write = "import os,time\nfor b in %r: os.write(1,bytes([b])); time.sleep(0.004)" % text.encode()
    with exec_stream(shared, ["python3", "-c", write]) as events:
        seen = Collected(events)
    assert seen.out.decode() == text
    assert all("data" in e.data for e in seen.events if e.name == "stdout")


@pytest.mark.parametrize("data", [b"abc\xe2\x9c", b"\xff\xfe", b"\x80", b"ok\n\xf0\x9f\x8c", b"\0" * 500,
                                  "ü".encode() * 100000, bytes(range(256)) * 300, b"\xed\xa0\x80", b""],
                         ids=["cut", "invalid", "lone", "cut-4", "nul", "long-text", "every-byte", "surrogate", "none"])
def test_any_bytes_arrive(shared, data):
    with exec_stream(shared, ["cat"], stdin_b64=b64(data)) as events:
        seen = Collected(events)
    assert seen.out == data and seen.exit["stdout_bytes"] == len(data)
    assert sum(len(str(e.data)) for e in seen.events) < 1000 + 2 * max(len(data), 100) + \
        200 * len(seen.events), "no escape blows up"


# -- exec, what is new ----------------------------------------------------------------------------

def test_exec_reports_reason_and_truncation(shared):
    body = shared.exec("echo x").body
    assert body["process_id"] > 0 and body["reason"] == "exited" and body["truncated"] is False
    assert body["full_output"] is None and body["hint"] is None
    assert body["memory_limit_bytes"] is None and body["memory_peak_bytes"] is None
    assert shared.exec("kill -TERM $$").body["reason"] == "signaled"


def test_cut_output_is_kept_inside(shared):
    for size, cut in ((999, False), (1000, False), (1001, True), (300000, True)):
        body = shared.exec(writer(300000) if size > 2000 else f"head -c {size} /dev/zero | tr '\\0' x",
                           max_output_bytes=1000).body
        assert body["truncated"] is cut and body["stdout_truncated"] is cut, size
        assert (body["full_output"] is not None) is cut and (body["hint"] is not None) is cut
    path = body["full_output"]
    assert path in body["hint"] and any(word in body["hint"] for word in ("grep", "head", "tail"))
    kept = shared.exec(["cat", path], max_output_bytes=1 << 20)
    assert kept.out == expected(0, 300000) and kept.body["truncated"] is False
    both = shared.exec("seq 1 3000; seq 5001 8000 >&2", max_output_bytes=1000).body
    lines = shared.exec(["cat", both["full_output"]], max_output_bytes=1 << 20).stdout.split()
    assert sorted(map(int, lines)) == [*range(1, 3001), *range(5001, 8001)]


def test_headers_of_a_stream(shared):
    with exec_stream(shared, ["true"]) as events:
        assert "no-store" in (events.headers["Cache-Control"] or "") or \
            "no-cache" in (events.headers["Cache-Control"] or ""), "a proxy must not keep it"
        list(events)
