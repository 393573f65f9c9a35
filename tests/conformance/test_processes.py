# SPDX-License-Identifier: Apache-2.0
"""Detached processes, on every engine: no output is lost without a report."""

import secrets
import time

import pytest

from lib import tree
from lib.client import ApiError, Client
from lib.commands import (Collected, Window, alive_inside, exec_stream, in_thread, marker, processes, spawn,
                          wait_for)
from lib.counted import WRITER, expected, writer
from lib.terminal import Terminal

RING = 1 << 20  # the default of output_ring_bytes


def deleting(process):
    """DELETE in a separate thread, timed: a process that ignores TERM takes five seconds."""
    def work():
        begin = time.monotonic()
        Client(process.client.url, process.client.key).call("DELETE", process.path)
        return time.monotonic() - begin
    process.deleting = in_thread(work)
    return process


def started(sandbox, command):
    process = spawn(sandbox, command)
    with process.events(follow=True) as events:
        events.until_bytes(b"ready\n")
    return process


@pytest.fixture(scope="module")
def stubborn(shared):
    """It is being deleted while the other tests run."""
    return deleting(started(shared, "trap '' TERM; echo ready; while :; do sleep 0.1; done"))


@pytest.fixture(scope="module")
def family(shared):
    """The same for a process whose child changed its session and never gets TERM."""
    mark = marker()
    process = started(shared, f"bash -c 'exec -a {mark} sleep 300' & setsid bash -c 'exec -a {mark} sleep 300' & "
                      "echo ready; wait")
    wait_for(lambda: len(alive_inside(shared, f"^{mark}")) == 2)
    process.mark = mark
    return deleting(process)


# -- one process ----------------------------------------------------------------------------------

def test_start_and_look(shared, stubborn, family):
    name = "web." + secrets.token_hex(4)
    with spawn(shared, "echo out; echo err >&2; sleep 300", name=name) as process:
        row = process.row
        assert row["name"] == name and row["state"] == "running" and row["tty"] is False
        assert "sleep 300" in row["command"] and row["window"] is None
        assert row["exit_code"] is None and row["signal"] is None and row["reason"] is None
        assert row["stdin_open"] is True and row["pid"] > 1
        assert row["memory_limit_bytes"] is None and row["memory_peak_bytes"] is None
        assert abs(time.time() - time.mktime(time.strptime(
            row["started_at"][:19], "%Y-%m-%dT%H:%M:%S")) + time.timezone) < 5 * tree.SLACK
        wait_for(lambda: process.get()["stderr_cursor"] == 4)
        by_name = shared.client.call("GET", f"/v1/sandboxes/{shared.id}/processes/{name}")
        assert by_name["process_id"] == process.id and by_name["stdout_cursor"] == 4
        assert by_name["stdout_begin"] == by_name["stderr_begin"] == 0
        listed = {p["process_id"]: p for p in processes(shared)}
        assert listed[process.id]["name"] == name
        assert process.id in listed and stubborn.id in listed
    assert process.id not in {p["process_id"] for p in processes(shared)}
    with pytest.raises(ApiError) as caught:
        process.get()
    assert caught.value.status == 404 and caught.value.code == "process_not_found"


def test_names_are_unique_among_the_running(shared):
    name = "one-" + secrets.token_hex(4)
    with spawn(shared, ["sleep", "300"], name=name) as first:
        with pytest.raises(ApiError) as caught:
            spawn(shared, ["sleep", "300"], name=name)
        assert caught.value.status == 409 and caught.value.code == "conflict"
        first.signal("KILL")
        first.wait()
        with spawn(shared, ["sleep", "300"], name=name) as second:
            found = shared.client.call("GET", f"/v1/sandboxes/{shared.id}/processes/{name}")
            assert found["process_id"] == second.id, "the running one has the name"


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * 65, "ü", "a\nb", 7, ".", "..", "12"])
def test_bad_names(shared, name):
    with pytest.raises(ApiError) as caught:
        spawn(shared, ["true"], name=name).delete()
    assert caught.value.status == 400 and "name" in caught.value.error["message"]


def test_longest_name(shared):
    with spawn(shared, ["sleep", "9"], name="x" * 64) as process:
        assert process.get()["name"] == "x" * 64


def test_output_in_three_forms(shared):
    with spawn(shared, "printf 'gr\\303\\274n\\n'; printf e1 >&2; exit 3") as process:
        row = process.wait()
        assert (row["state"], row["exit_code"], row["reason"]) == ("exited", 3, "exited")
        assert (row["stdout_cursor"], row["stderr_cursor"]) == (6, 2) and row["duration_ms"] >= 0
        seen = process.collect(follow=True)
        assert (seen.out, seen.err) == ("grün\n".encode(), b"e1")
        assert seen.exit["exit_code"] == 3 and seen.exit["reason"] == "exited"
        assert (seen.exit["stdout_bytes"], seen.exit["stderr_bytes"]) == (6, 2)
        with process.raw(stream="stdout") as answer:
            assert answer.headers["Content-Type"] == "application/octet-stream"
            assert answer.headers["Cay-Cursor"] == "0" and answer.rest() == "grün\n".encode()
        with process.raw(stream="stderr", cursor=1) as answer:
            assert answer.headers["Cay-Cursor"] == "1" and answer.rest() == b"1"
        body = process.output()
        assert body["stdout"] == "grün\n" and body["stderr"] == "e1"
        assert (body["stdout_cursor"], body["stderr_cursor"]) == (6, 2)
        other = shared.client.call("GET", process.path + "/output",
                                   headers={"Accept": "application/json"})
        assert other == body


def test_cursors(shared):
    with spawn(shared, writer(50000)) as process:
        process.wait()
        for cursor in (0, 1, 7, 8, 49999, 50000):
            seen = process.collect(out=cursor, cursor=cursor)
            assert seen.out == expected(cursor, 50000), cursor
            with process.raw(cursor=cursor, stream="stdout") as answer:
                assert answer.rest() == expected(cursor, 50000)
        for tail in (0, 1, 100, 50000, 60000):
            with process.raw(tail=tail, stream="stdout") as answer:
                assert answer.rest() == expected(max(0, 50000 - tail), 50000), tail
                assert answer.headers["Cay-Cursor"] == str(max(0, 50000 - tail))
        # A reconnecting browser repeats the id of the last event it saw.
        seen = process.collect(out=40000, headers={"Last-Event-ID": "40000:0"}, follow=True)
        assert seen.out == expected(40000, 50000)
        for cursor in ("50001", "0:1"):
            with pytest.raises(ApiError) as caught:
                process.events(cursor=cursor)
            assert caught.value.status == 400 and "cursor" in caught.value.error["message"]
    with spawn(shared, "printf 12345; printf abcde >&2") as process:
        process.wait()
        seen = process.collect(out=2, err=3, cursor="2:3")
        assert (seen.out, seen.err) == (b"345", b"de")
        seen = process.collect(err=4, cursor="0:4", stream="stderr")
        assert (seen.out, seen.err) == (b"", b"e")


def test_follow_is_live(shared):
    with spawn(shared, ["cat"]) as process, process.events(follow=True) as one, \
            process.events(follow=True) as two:
        for n in range(5):
            process.stdin(f"line {n}\n")
            for events in (one, two):
                assert f"line {n}\n".encode() in events.until_bytes(f"line {n}\n".encode())
        process.close_stdin()
        for events in (one, two):
            assert events.until("exit")[-1].data["exit_code"] == 0
            assert events.next() is None


def test_without_follow_it_ends_at_once(shared):
    with spawn(shared, "echo so far; sleep 300") as process:
        wait_for(lambda: process.get()["stdout_cursor"] == 7)
        seen = process.collect()
        assert seen.out == b"so far\n" and seen.exit is None
        with process.raw(stream="stdout") as answer:
            assert answer.rest() == b"so far\n"


def test_a_gap_has_its_exact_size(shared):
    total = 3 * RING + 12345 // 8 * 8
    with spawn(shared, writer(total)) as process:
        row = process.wait()
        assert row["stdout_cursor"] == total
        begin = row["stdout_begin"]
        assert total - RING <= begin <= total - RING // 2, "the ring holds the newest bytes"
        seen = process.collect()
        assert seen.gaps == [("stdout", begin)] and seen.out == expected(begin, total)
        seen = process.collect(out=total // 8, cursor=total // 8)
        assert seen.gaps == [("stdout", begin - total // 8)]
        seen = process.collect(out=begin, cursor=begin)
        assert seen.gaps == []
        with process.raw(cursor=0, stream="stdout") as answer:
            assert answer.headers["Cay-Cursor"] == str(begin), "where the first byte stands"
            assert answer.rest() == expected(begin, total)


def test_a_stalled_reader_delays_no_other(shared):
    total = 24 << 20
    with spawn(shared, writer(total)) as process:
        with process.events(follow=True) as stalled:
            assert process.wait(20)["stdout_cursor"] == total
            seen = Collected(stalled, begun=False)  # reads again: everything is accounted for
        assert seen.at["stdout"] == total and seen.exit["stdout_bytes"] == total
        position = 0
        for event in seen.events[:-1]:
            if event.name == "gap":
                position = event.data["cursor"]
            else:
                assert event.bytes == expected(position, event.data["cursor"])
                position = event.data["cursor"]


def test_a_reader_that_keeps_up_misses_nothing(shared):
    """Bursts of half a ring: an attentive reader gets every byte."""
    script = WRITER.replace("os.write(fd", "i%65536 or __import__('time').sleep(0.1);os.write(fd")
    total = 8 << 20
    with spawn(shared, ["python3", "-c", script, str(total), "1"]) as process:
        seen = process.collect(follow=True)
        assert seen.gaps == [] and len(seen.out) == total and seen.out == expected(0, total)


# -- standard input -------------------------------------------------------------------------------

def test_stdin_is_binary_safe(shared):
    every = bytes(range(256)) + b"\0\xff\0\xff"
    with spawn(shared, ["cat"]) as process:
        process.stdin("text ü\n")
        process.stdin(every)
        process.stdin(every, raw=True)
        process.stdin(b"", raw=True)
        process.close_stdin()
        assert process.wait()["exit_code"] == 0
        with process.raw(stream="stdout") as answer:
            assert answer.rest() == "text ü\n".encode() + every + every
        for again in (lambda: process.stdin("more"), process.close_stdin):
            with pytest.raises(ApiError) as caught:
                again()
            assert caught.value.status == 409 and caught.value.code == "wrong_state"


def test_stdin_closed(shared):
    with spawn(shared, "cat; sleep 300") as process:
        process.close_stdin()
        wait_for(lambda: process.get()["stdin_open"] is False)
        with pytest.raises(ApiError) as caught:
            process.stdin("x")
        assert caught.value.status == 409
    with spawn(shared, ["wc", "-c"], stdin_open=False) as process:
        assert process.wait()["exit_code"] == 0, "not open: a reader sees the end at once"
    with spawn(shared, ["wc", "-c"], stdin="12345", stdin_open=False) as process:
        process.wait()
        assert process.output()["stdout"].strip() == "5"


def test_stdin_full_is_refused_whole(shared):
    """Accepted input arrives, refused input does not, not even in part."""
    block = 256 << 10
    with spawn(shared, ["wc", "-c"]) as process:
        process.signal("STOP")
        taken = 0
        with pytest.raises(ApiError) as caught:
            while taken < 64:
                process.stdin(b"x" * block, raw=True)
                taken += 1
        assert caught.value.status == 429 and caught.value.code == "quota_exceeded"
        assert 4 <= taken < 64
        process.signal("CONT")
        process.close_stdin()
        process.wait()
        assert process.output()["stdout"].strip() == str(taken * block)


# -- signals and ends -----------------------------------------------------------------------------

@pytest.mark.parametrize("which,number", [("TERM", 15), ("SIGTERM", 15), (15, 15), ("KILL", 9), ("USR2", 12)])
def test_signals(shared, which, number):
    with spawn(shared, ["sleep", "300"]) as process:
        process.signal(which)
        row = process.wait()
        assert row["reason"] == "killed_by_request" and row["exit_code"] == 128 + number
        assert row["signal"] in (number, "SIG" + str(which).removeprefix("SIG"), "SIGTERM")
        with pytest.raises(ApiError) as caught:
            process.signal("TERM")
        assert caught.value.status == 409 and caught.value.code == "wrong_state"


def test_a_caught_signal_does_not_end_the_process(shared):
    with spawn(shared, "trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.05; done") as process, \
            process.events(follow=True) as events:
        events.until_bytes(b"ready\n")
        process.signal("USR1")
        events.until_bytes(b"got\n")
        end = events.until("exit")[-1].data
        assert (end["exit_code"], end["reason"], end["signal"]) == (5, "exited", None)


@pytest.mark.parametrize("which", ["NOPE", "", "sigterm ", 0, -1, 65, 1000, 1.5, None, ["TERM"]])
def test_unknown_signals(shared, which):
    with spawn(shared, ["sleep", "300"]) as process:
        with pytest.raises(ApiError) as caught:
            process.signal(which)
        assert caught.value.status == 400 and "signal" in caught.value.error["message"]
        assert process.get()["state"] == "running"


def test_own_signal_differs_from_ours(shared):
    with spawn(shared, "kill -KILL $$") as process:
        row = process.wait()
        assert (row["reason"], row["exit_code"]) == ("signaled", 137)


DOUBLE_FORK = ("import os,sys,time\n"
               "if os.fork()==0:\n os.setsid()\n if os.fork()==0:\n"
               "  for fd in (0,1,2): os.close(fd)\n"
               "  os.execv('/bin/bash',['bash','-c','exec -a '+sys.argv[1]+' sleep 300'])\n"
               " os._exit(0)\n")


@pytest.mark.parametrize("clean_env", [False, True], ids=["plain", "clean-env"])
def test_timeout_reaches_children_in_other_sessions(shared, needs, clean_env):
    if clean_env:
        needs("isolat")  # without control groups, a child without our variable cannot be found
    mark = marker()
    wipe = "env -i PATH=$PATH " if clean_env else ""
    command = (f"{wipe}setsid bash -c 'exec -a {mark} sleep 300' >/dev/null 2>&1 & "
               f"{wipe}python3 -c \"$FORK\" {mark}; until [ $(pgrep -cf ^{mark}) = 2 ]; do sleep 0.05; done; "
               "echo both; sleep 300")
    result = shared.exec(command, timeout_sec=max(1, int(tree.SLACK / 2)), env={"FORK": DOUBLE_FORK})
    assert result.exit_code == 124 and result.body["reason"] == "timeout"
    assert result.stdout == "both\n", "both children ran"
    wait_for(lambda: not alive_inside(shared, f"^{mark}"), 2)


def test_timeout_of_a_detached_process(shared):
    with spawn(shared, ["sleep", "300"], timeout_sec=1) as process:
        row = process.wait(5)
        assert (row["exit_code"], row["reason"]) == (124, "timeout")


def test_a_child_that_memory_killed_is_reported(api, engine, needs):
    """Also when its parent exits with 0: in the reply, the list, the event and the metrics."""
    needs("memory")
    eat = "import mmap; m=mmap.mmap(-1,400<<20); [m.seek(i) or m.write(b'x') for i in range(0,400<<20,4096)]"
    with api.sandbox(engine=engine, memory_mb=192) as box:
        assert box.exec("true").body["oom_kills"] == 0
        end = box.exec("python3 -c \"$EAT\"; python3 -c \"$EAT\"; exit 0", env={"EAT": eat}).body
        assert (end["exit_code"], end["reason"], end["oom_kills"]) == (0, "exited", 2), end
        with exec_stream(box, "python3 -c \"$EAT\"; exit 0", env={"EAT": eat}) as events:
            assert Collected(events).exit["oom_kills"] == 1
        with spawn(box, "python3 -c \"$EAT\"; exit 3", env={"EAT": eat}) as process:
            row = process.wait()
            assert (row["exit_code"], row["oom_kills"]) == (3, 1), row
            number = process.id
        assert Window(box, "w").run(f"python3 -c '{eat.replace(chr(39), chr(34))}'; true")["oom_kills"] == 1
        assert box.exec("true").body["oom_kills"] == 0
        assert api.call("GET", f"/v1/sandboxes/{box.id}/metrics")["oom_kills"] == 5
        wait_for(lambda: len(oom_events(api, box)) == 4)
        events = {e["data"]["process_id"]: e["data"] for e in oom_events(api, box)}
        assert events[end["process_id"]]["oom_kills"] == 2 and events[number]["oom_kills"] == 1, events
        assert {e["memory_mb"] for e in events.values()} == {192}


def oom_events(api, box):
    return api.call("GET", f"/v1/sandboxes/{box.id}/events?format=json&type=process.oom")["data"]


def test_oom_is_typed(api, engine, needs):
    needs("memory")
    limit = 192 << 20
    eat = "import mmap; m=mmap.mmap(-1,400<<20); [m.seek(i) or m.write(b'x') for i in range(0,400<<20,4096)]"
    with api.sandbox(engine=engine, memory_mb=192) as box:
        def judge(end):
            assert end["reason"] == "oom" and end["exit_code"] == 137, end
            assert end["memory_limit_bytes"] == limit
            assert limit * 0.8 <= end["memory_peak_bytes"] <= limit * 1.05
        judge(box.exec(["python3", "-c", eat]).body)
        judge(box.exec("python3 -c \"$EAT\"; exit $?", env={"EAT": eat}).body)
        with exec_stream(box, ["python3", "-c", eat]) as events:
            judge(Collected(events).exit)
        with spawn(box, ["python3", "-c", eat]) as process:
            judge(process.wait())
        result = box.exec("exit 137")
        assert result.body["reason"] == "exited" and result.body["memory_limit_bytes"] is None


def test_sandbox_gone(api, engine):
    """All waiting clients are informed, with the error code."""
    box = api.sandbox(engine=engine).__enter__()
    process = spawn(box, ["sleep", "300"])
    streams = [exec_stream(box, ["sleep", "300"]), process.events(follow=True)]
    raw = process.raw(stream="stdout", follow=True)
    waiting = in_thread(lambda: Client(api.url, api.key).exec(box.id, ["sleep", "300"]))
    wait_for(lambda: len(processes(box)) == 3)
    api.delete(box.id)
    with pytest.raises(ApiError) as caught:
        waiting.result()
    assert caught.value.status == 410 and caught.value.code == "sandbox_gone"
    for events in streams:
        end = events.until("exit")[-1].data
        assert end["reason"] == "sandbox_gone" and end["exit_code"] is None and end["message"]
        assert events.next() is None
    # Raw bytes have no place for an error: the connection is reset, which no reader takes for the end.
    with pytest.raises(Exception, match="(?i)incomplete|reset|closed"):
        assert raw.rest() is None
    with pytest.raises(ApiError) as caught:
        process.get()
    assert caught.value.status in (404, 410)


def test_delete_takes_the_children_too(shared, family):
    family.deleting.result(15)
    assert alive_inside(shared, f"^{family.mark}") == [], "dead when the answer comes"


def test_delete_of_one_that_ignores_term(shared, stubborn):
    took = stubborn.deleting.result(15)
    assert 4.5 < took < 8 * tree.SLACK, f"TERM, five seconds, KILL: {took:.1f} s"
    with pytest.raises(ApiError) as caught:
        stubborn.get()
    assert caught.value.status == 404


# -- many, and none -------------------------------------------------------------------------------

def test_many_processes_at_once(shared):
    made = [spawn(shared, f"echo {n}; exit {n}") for n in range(40)]
    for n, process in enumerate(made):
        assert process.wait()["exit_code"] == n
        assert process.output()["stdout"] == f"{n}\n"
    for process in made:
        process.delete()


def test_answers_name_their_process(shared):
    """Unknown ones, on every route."""
    base = f"/v1/sandboxes/{shared.id}/processes/"
    for which in ("999999999", "nobody", "0", "-1", "4294967296", "a" * 65, "%00", "..%2f"):
        for method, route, body in (("GET", "", None), ("DELETE", "", None), ("GET", "/output", None),
                                    ("POST", "/stdin", {"data": "x"}), ("POST", "/close-stdin", None),
                                    ("POST", "/signal", {"signal": "TERM"}),
                                    ("POST", "/resize", {"cols": 80, "rows": 24})):
            status, _, data = shared.client.raw(method, base + which + route, body)
            assert status in (400, 404), (which, route, status, data)


def test_what_counts_as_activity(api):
    """Commands and input count as activity of a sandbox; reading output does not."""
    idle = max(2, int(tree.SLACK))
    boxes = {kind: api.sandbox(idle_timeout_sec=idle, timeout_sec=600).__enter__()
             for kind in ("exec", "start", "stdin", "terminal", "window", "input", "reads")}
    echo = {kind: spawn(boxes[kind], ["cat"]) for kind in ("stdin", "terminal", "reads")}
    window = Window(boxes["input"], "w")
    window.run("cat", wait_ms=0)
    terminal = Terminal(api, echo["terminal"].path + "/attach")
    follow = echo["reads"].events(follow=True)
    try:
        until = time.monotonic() + idle * 1.75
        while time.monotonic() < until:
            boxes["exec"].exec(["true"])
            spawn(boxes["start"], ["true"])
            echo["stdin"].stdin("x\n")
            terminal.send("x\n")
            Window(boxes["window"], "w").run("true")
            window.input("x\n")
            try:
                echo["reads"].output()
                processes(boxes["reads"])
            except ApiError as error:
                assert error.status in (404, 410)
            time.sleep(0.3)
        alive = {kind for kind, box in boxes.items() if (box.state() or {}).get("state") == "running"}
        assert alive == set(boxes) - {"reads"}
        assert follow.until("exit")[-1].data["reason"] == "sandbox_gone"
    finally:
        terminal.close()
        follow.close()
        for box in boxes.values():
            box.__exit__()
