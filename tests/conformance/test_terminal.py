# SPDX-License-Identifier: Apache-2.0
"""Terminals over WebSocket, driven by an independent client, on every engine."""

import contextlib
import os
import time

import pytest
import websockets

from lib import tree
from lib.client import ApiError, Client
from lib.commands import alive_inside, marker, spawn, wait_for
from lib.terminal import Terminal, refusal

CURSES = """
import curses
def main(screen):
    curses.curs_set(0)
    screen.timeout(50)  # curses misses a resize just before it waits for a key
    key = curses.KEY_RESIZE
    while key != ord("q"):
        if key == curses.KEY_RESIZE:
            curses.update_lines_cols()
            screen.clear()
            screen.addstr(0, 0, "size %dx%d" % (curses.COLS, curses.LINES))
            screen.refresh()
        key = screen.getch()
curses.wrapper(main)
"""


def shell(sandbox, **fields):
    """A shell that is ready; its prompt is short and known."""
    fields.setdefault("shell", "/bin/bash")
    terminal = Terminal(sandbox.client, f"/v1/sandboxes/{sandbox.id}/pty", **fields)
    terminal.send("bind 'set enable-bracketed-paste off' 2>/dev/null; "
                  "PS1='$ ' PS2='> ' PROMPT_COMMAND=; echo re''ady\n")
    terminal.at = terminal.expect("ready\r\n$ ")
    return terminal


def ask(terminal, command, answer):
    terminal.send(command + "\n")
    terminal.at = terminal.expect(answer, after=terminal.at)


def test_shell(shared):
    with shell(shared, cols=91, rows=33) as t:
        started = t.message("started")
        assert started["process_id"] > 0 and started["pid"] > 1 and started["cursor"] == 0
        ask(t, "echo $((6*7))", "\r\n42\r\n")
        ask(t, "stty size", "\r\n33 91\r\n")
        ask(t, "tty", "/dev/pts/")
        ask(t, "echo $TERM", "xterm")
        t.send("exit 5\n")
        end, code = t.ended()
        assert (end["exit_code"], end["signal"], end["reason"]) == (5, None, "exited") and code == 1000
        path = f"/v1/sandboxes/{shared.id}/processes/{started['process_id']}"
        row = shared.client.call("GET", path)
        assert row["tty"] is True and (row["cols"], row["rows"]) == (91, 33)
        shared.client.call("DELETE", path)


def test_resize(shared):
    with shell(shared) as t:
        ask(t, "stty size", "\r\n24 80\r\n")
        t.control(type="resize", cols=132, rows=50)
        ask(t, "stty size", "\r\n50 132\r\n")
        process = t.message("started")["process_id"]
        path = f"/v1/sandboxes/{shared.id}/processes/{process}"
        shared.client.call("POST", path + "/resize", {"cols": 47, "rows": 13})
        ask(t, "stty size", "\r\n13 47\r\n")
        row = shared.client.call("GET", path)
        assert (row["cols"], row["rows"]) == (47, 13)


def test_interrupt(shared):
    with shell(shared) as t:
        mark = marker()
        t.send(f"bash -c 'exec -a {mark} sleep 300'\n")
        wait_for(lambda: alive_inside(shared, f"^{mark}"))
        t.send(b"\x03")
        t.at = t.expect("^C", after=t.at)
        ask(t, "echo status $?", "status 130")
        wait_for(lambda: not alive_inside(shared, f"^{mark}"))
        ask(t, "sleep 300 & echo; kill -0 $! && echo ali''ve", "alive")
        t.control(type="signal", signal="HUP")
        with contextlib.suppress(websockets.exceptions.ConnectionClosed):  # the first signal may have been enough
            t.control(type="signal", signal="KILL")
        end, code = t.ended()
        assert end["reason"] == "killed_by_request" and code == 1000


def test_job_control(shared):
    with shell(shared) as t:
        t.send("echo now''; cat\n")
        t.at = t.expect("now\r\n", after=t.at)
        time.sleep(0.3)  # a line typed while bash changes the terminal's modes gets lost, on any terminal
        t.send("echoed\n")
        t.at = t.expect("echoed\r\nechoed\r\n", after=t.at)
        t.send(b"\x1a")
        t.at = t.expect("Stopped", after=t.at)
        ask(t, "jobs", "[1]+  Stopped")
        ask(t, "fg", "cat\r\n")
        time.sleep(0.3)
        t.send("again\n")
        t.at = t.expect("again\r\nagain\r\n", after=t.at)
        t.send(b"\x04")
        t.at = t.expect("$ ", after=t.at)
        ask(t, "sleep 0.1 & wait %1; echo bg $?", "bg 0")


def test_bytes_pass_untouched(shared):
    """Every byte, bracketed paste among them, in both directions of a raw terminal."""
    paste = b"\x1b[200~pasted\ttext\n\x1b[201~"
    data = paste + bytes(range(256)) + os.urandom(20000) + b"\0\xff\r\n\x03\x1a\x11\x13"
    program = ("import os,sys,tty\ntty.setraw(0)\nos.write(1,b'RAW')\nleft=int(sys.argv[1])\n"
               "while left:\n d=os.read(0,min(left,4096)); left-=len(d)\n while d: d=d[os.write(1,d):]\n")
    with spawn(shared, ["python3", "-c", program, str(len(data))], tty={"cols": 80, "rows": 24}) as process, \
            Terminal(shared.client, process.path + "/attach") as t:
        t.expect("RAW")
        for at in range(0, len(data), 1777):
            t.send(data[at:at + 1777])
        end, _ = t.ended()
        assert end["exit_code"] == 0 and bytes(t.data[3:]) == data
        with process.raw(stream="stdout") as answer:
            assert answer.rest() == b"RAW" + data, "the ring holds the same"


def test_full_screen_program(shared):
    with shell(shared, cols=100, rows=30) as t:
        t.send(f"TERM=xterm python3 -c '{CURSES}'\n")
        t.at = t.expect("size 100x30", after=t.at)
        t.control(type="resize", cols=60, rows=20)
        t.at = t.expect("size 60x20", after=t.at)
        t.send("q")
        t.at = t.expect("\x1b[?1049l", after=t.at)
        ask(t, "echo ba''ck", "back")


def test_detach_and_reattach(shared):
    first = shell(shared, cols=80, rows=24)
    process = first.message("started")["process_id"]
    path = f"/v1/sandboxes/{shared.id}/processes/{process}"
    ask(first, "trap 'echo winched' WINCH; kept=yes; echo screen one", "\r\nscreen one\r\n")
    seen = bytes(first.data)
    first.cut()
    time.sleep(0.1)
    assert shared.client.call("GET", path)["state"] == "running", "a lost connection kills nothing"
    with Terminal(shared.client, path + "/attach") as second:
        assert second.message("started")["process_id"] == process
        second.expect(seen), "the screen is replayed"
        second.expect("winched", after=len(seen)), "and a full-screen program told to draw again"
        second.at = len(second.data)
        ask(second, "echo $kept", "yes\r\n")
        with Terminal(shared.client, path + "/attach") as third:
            third.expect("screen one")
            ask(second, "echo both''see", "bothsee")
            third.expect("bothsee")
    with Terminal(shared.client, path + "/attach", cursor=len(seen)) as fourth:
        fourth.expect("yes")
        assert b"screen one" not in fourth.data
        assert fourth.message("started")["cursor"] == len(seen)
    with Terminal(shared.client, path + "/attach", tail=0) as fifth:
        fifth.send("exit 3\n")
        end, code = fifth.ended()
        assert (end["exit_code"], code) == (3, 1000) and b"screen one" not in fifth.data
    with Terminal(shared.client, path + "/attach") as late:
        end, code = late.ended()
        assert end["exit_code"] == 3 and b"screen one" in late.data, "the last screen of a finished one"
    shared.client.call("DELETE", path)


def test_replay_is_the_last_64_kib(shared):
    with spawn(shared, "stty raw; head -c 200000 /dev/zero | tr '\\0' x; printf END; sleep 300",
               tty={"cols": 80, "rows": 24}) as process:
        wait_for(lambda: process.get()["stdout_cursor"] == 200003)
        with Terminal(shared.client, process.path + "/attach") as t:
            t.expect("END")
            assert len(t.data) == 65536 and t.message("started")["cursor"] == 200003 - 65536


def test_attach_to_pipes(shared):
    """Standard output in binary frames, standard error as messages."""
    with spawn(shared, "cat; echo to-err >&2; exit 4") as process, \
            Terminal(shared.client, process.path + "/attach") as t:
        t.send(b"\0\xff bytes\n")
        t.expect(b"\0\xff bytes\n")
        t.control(type="close_stdin")
        end, code = t.ended()
        assert (end["exit_code"], code) == (4, 1000)
        assert end["stdout_bytes"] == 9 and end["stderr_bytes"] == 7
        import base64
        errors = [m for m in t.messages if m["type"] == "stderr"]
        assert b"".join(base64.b64decode(m["data_b64"]) for m in errors) == b"to-err\n"


def test_many_small_messages_do_not_block_later_ones(shared):
    """Messages of a client that respects the window are always processed, however many the window contains."""
    go = marker()
    sent = b"".join(b"%07d\n" % i * 125 for i in range(900))  # 900 messages of 1000 bytes
    with spawn(shared, f"until [ -e /tmp/{go} ]; do sleep 0.02; done; cat", stdin_open=True) as process, \
            Terminal(shared.client, process.path + "/attach", hold="true", ack="true") as t:
        for at in range(0, len(sent), 1000):
            t.send(sent[at:at + 1000])
        t.control(type="close_stdin")
        t.control(type="nonsense")
        assert "type" in t.message("error")["message"]
        shared.exec(f"touch /tmp/{go}")
        acked = 0
        while acked < len(sent):
            wait_for(lambda: len(t.data) > acked)
            now = len(t.data)
            if now < len(sent):  # after the last byte the server may have closed the connection
                t.control(type="ack", bytes=now - acked)
            acked = now
        end, _ = t.ended()
        assert end["exit_code"] == 0 and bytes(t.data) == sent


def test_gap_of_an_attach(shared):
    with spawn(shared, "head -c 3000000 /dev/zero; echo END; sleep 300") as process:
        wait_for(lambda: process.get()["stdout_cursor"] == 3000004)
        begin = process.get()["stdout_begin"]
        with Terminal(shared.client, process.path + "/attach", cursor=0) as t:
            t.expect("END\n")
            gap = t.message("gap")
            assert gap["bytes"] == begin and len(t.data) == 3000004 - begin


@pytest.mark.parametrize("text", ["not json", "[]", "{}", '{"type":"nonsense"}', '{"type":"resize","cols":0,"rows":1}',
                                  '{"type":"resize"}', '{"type":"signal","signal":"NOPE"}', '{"type":7}'])
def test_bad_messages_are_answered(shared, text):
    """An error message or a close with a reason; the process is never affected."""
    with spawn(shared, ["cat"], tty={"cols": 80, "rows": 24}) as process, \
            Terminal(shared.client, process.path + "/attach") as t:
        t.message("started")
        t.text(text)
        error = t.message("error")
        assert error["code"] == "invalid_request" and error["message"]
        assert process.get()["state"] == "running"


def test_who_may_connect(shared):
    client = shared.client
    path = f"/v1/sandboxes/{shared.id}/pty"
    assert refusal(client, path, key=False) == 401
    assert refusal(client, path, key="cay_" + "0" * 40) == 401
    assert refusal(client, path, origin="http://evil.example") == 403
    assert refusal(client, path, origin="null") == 403
    assert refusal(client, path, headers={"Host": "evil.example"}) in (400, 403, 421)
    assert refusal(client, path, origin=f"http://{client.host}:{client.port}") is None
    assert refusal(client, f"/v1/sandboxes/{shared.id}/processes/999999/attach") == 404
    assert refusal(client, "/v1/sandboxes/nosuch/pty") == 404
    for bad in ("?cols=0", "?rows=70000", "?cols=x", "?cwd=/no/such", "?user=nobody-by-that-name",
                "?shell=/no/such/shell", "?nonsense=1"):
        assert refusal(client, path + bad) == 400, bad
    assert client.raw("GET", path)[0] in (400, 426), "without the upgrade"


def test_weak_key(api, shared):
    made = api.call("POST", "/v1/keys", {"name": "reader", "scopes": ["sandboxes:read"]})
    try:
        weak = Client(api.url, made["key"])
        assert refusal(weak, f"/v1/sandboxes/{shared.id}/pty") in (403, 404)
    finally:
        api.call("DELETE", f"/v1/keys/{made['id']}")


def test_pty_options(shared, needs):
    with shell(shared, cwd="/usr/lib", shell="/bin/sh") as t:
        ask(t, "pwd", "\r\n/usr/lib\r\n")
    needs("isolat")
    with shell(shared, user="root") as t:
        ask(t, "id -u", "\r\n0\r\n")
    with Terminal(shared.client, f"/v1/sandboxes/{shared.id}/pty") as t:
        t.expect("$ ")
        t.send("echo $0 $PWD\n")
        t.expect("bash")
        t.expect("/workspace")


def test_hang_up_by_delete(shared):
    process = spawn(shared, ["cat"], tty={"cols": 80, "rows": 24})
    with Terminal(shared.client, process.path + "/attach") as t:
        t.message("started")
        process.delete()
        end, code = t.ended()
        assert end["reason"] == "killed_by_request" and code == 1000


def test_sandbox_gone(api, engine):
    with api.sandbox(engine=engine) as box:
        t = shell(box)
        api.delete(box.id)
        end, _ = t.ended()
        assert end["reason"] == "sandbox_gone" and end["exit_code"] is None


def test_exec_stream_with_a_terminal(shared):
    from lib.commands import Collected, exec_stream
    with exec_stream(shared, "stty size; echo err >&2", tty={"cols": 40, "rows": 10}) as events:
        seen = Collected(events)
    assert seen.out == b"10 40\r\nerr\r\n" and seen.err == b""


def test_many_terminals_and_follows(shared):
    """A bounded part of the bench: a stalled reader among many affects no other stream."""
    follows, ptys = (60, 15) if tree.SANITIZED else (200, 50)
    with spawn(shared, "while read x; do echo $x; done") as probe, \
            spawn(shared, ["python3", "-c", "import os,time; b=bytes(262144)\nwhile True: os.write(1,b); time.sleep(0.02)"]) as noisy:
        streams = [probe.events(follow=True) for _ in range(follows)]
        stalled = noisy.events(follow=True, rcvbuf=4096)
        terminals = [Terminal(shared.client, f"/v1/sandboxes/{shared.id}/pty", shell="/bin/sh")
                     for _ in range(ptys)]
        try:
            for t in terminals:
                t.send("echo he''re\n")
            for t in terminals:
                t.expect("here", 20)
            for n in range(3):
                time.sleep(0.3)
                probe.stdin(f"beat {n}\n")
                for events in streams:
                    events.until_bytes(f"beat {n}\n".encode())
        finally:
            for t in terminals:
                t.send("exit\n")
            for t in terminals:
                t.closed(20)
            for s in streams + [stalled]:
                s.close()


def test_pings(quiet):
    """Opened at the start of the run; 15 s have passed by now, or nearly."""
    if quiet.terminal.code is not None and quiet.terminal.pings == 0:
        quiet.open()  # another test restarted the daemon before the first ping
    wait_for(lambda: quiet.terminal.pings >= 1 and quiet.events.comments >= 1,
             max(1.0, 18 - (time.monotonic() - quiet.since)), 0.1)


@pytest.mark.long
def test_a_client_without_pongs_is_disconnected(shared):
    """Without a pong for 45 s the connection is closed, and its process continues."""
    with spawn(shared, ["cat"], tty={"cols": 80, "rows": 24}) as process:
        terminal = Terminal(shared.client, process.path + "/attach")
        terminal.message("started")
        terminal.ws.deaf = True
        begin = time.monotonic()
        terminal.closed(70)
        assert 30 < time.monotonic() - begin < 65
        assert process.get()["state"] == "running"


def test_wrong_method_of_a_socket(shared):
    with pytest.raises(ApiError) as caught:
        shared.client.call("POST", f"/v1/sandboxes/{shared.id}/pty", {})
    assert caught.value.status in (404, 405)
