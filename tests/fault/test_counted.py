# SPDX-License-Identifier: Apache-2.0
"""Every byte is accounted for: readers that connect and disconnect, daemons killed in the middle. Processes write a
sequence whose bytes are determined by their cursors. Each round continues where the last one stopped and ends in
some disorderly way. The bytes read must be the sequence, in order, none missing and none twice. A gap must be
reported with its correct size, and occur only if the ring was full.
"""

import base64
import http.client
import json
import os
import random
import threading
import time

import pytest
import websockets

from lib import census, counted
from lib.client import ApiError
from lib.commands import Collected, Window, b64, exec_stream, spawn
from lib.daemon import Daemon
from lib.terminal import Terminal

LONG = os.environ.get("CAY_LONG") == "1"
ROUNDS = int(os.environ.get("CAY_COUNTED_ROUNDS", "1000" if LONG else "60"))
SEED = int(os.environ.get("CAY_SEED", "0")) or random.randrange(1 << 30)
RING = 1 << 20
LOST = (OSError, http.client.HTTPException, websockets.exceptions.WebSocketException)
RESTART_SEC = 15


@pytest.fixture(scope="module")
def victim():
    before = census.take()
    with Daemon() as started:
        yield started
        state = started.state
    left = census.settle(before, states=[state])
    assert not left, "after the kills and 'cay down' the host differs:\n" + "\n".join(left)


class Box:
    """A sandbox that stays usable over restarts of its daemon."""

    def __init__(self, victim):
        self.victim = victim
        self.id = victim.client.create(timeout_sec=86400)["id"]

    @property
    def client(self):
        return self.victim.client

    def exec(self, command, **body):
        return self.client.exec(self.id, command, **body)


@pytest.fixture
def box(victim):
    victim.wait_ready()
    made = Box(victim)
    yield made
    victim.wait_ready().delete(made.id)


class Account:
    """One process that writes the sequence, and the position of its reader."""

    def __init__(self, box, label, most, pause_ms, fds=(1,), tty=None):
        self.label, self.tty = label, tty
        self.process = spawn(box, ["python3", "-c", counted.BURSTS, str(most), str(pause_ms)]
                             + [str(fd) for fd in fds], tty=tty, timeout_sec=0)
        self.base = 4 if tty else 0  # "RAW\n" comes first on a terminal
        self.at = {"stdout": 0, "stderr": 0}
        self.read = self.lost = 0
        self.unproved = []

    @property
    def cursor(self):
        return f"{self.at['stdout']}:{self.at['stderr']}"

    def take(self, stream, data):
        begin, end = self.at[stream], self.at[stream] + len(data)
        want = counted.expected(max(0, begin - self.base), max(0, end - self.base))
        if begin < self.base:
            want = b"RAW\n"[begin:end] + want
        if data != want:
            at = next(i for i in range(len(data)) if data[i] != want[i])
            raise AssertionError(f"{self.label} {stream}: wrong from byte {begin + at} on: "
                                 f"{data[at:at + 24].hex()}, should be {want[at:at + 24].hex()}")
        self.at[stream] = end
        self.read += len(data)

    def skip(self, stream, size):
        begin = self.at[stream]
        self.at[stream] += size
        self.lost += size
        self.unproved.append((stream, begin, self.at[stream]))

    def prove_gaps(self):
        """A gap is justified if the bytes after it filled most of a ring."""
        if self.unproved:
            row = self.process.get()
            for stream, begin, end in self.unproved:
                total = row[stream + "_cursor"]
                assert total - begin > RING and total - end >= RING // 2, \
                    f"{self.label} {stream}: bytes {begin}-{end} of {total} were said to be lost"
            self.unproved.clear()

    def event(self, event):
        if event.name == "gap":
            self.skip(event.data["stream"], event.data["bytes"])
        elif event.name in self.at:
            self.take(event.name, event.bytes)
            assert event.data["cursor"] == self.at[event.name], (event, self.at)
        return event.name


# -- ways to read ---------------------------------------------------------------------------------

def read_events(account, until):
    with account.process.events(cursor=account.cursor, follow=True) as events:
        while time.monotonic() < until() and (event := events.next()) is not None:
            assert account.event(event) != "exit", event
        events.cut()


def read_raw(account, until):
    stream = "stderr" if account.at["stderr"] and random.random() < 0.5 else "stdout"
    with account.process.raw(cursor=account.at[stream] if stream == "stdout" else f"0:{account.at[stream]}",
                             stream=stream, follow=True) as answer:
        begin = int(answer.headers["Cay-Cursor"])
        if begin > account.at[stream]:
            account.skip(stream, begin - account.at[stream])
        assert begin == account.at[stream]
        try:
            while time.monotonic() < until() and (data := answer.read_some()):
                account.take(stream, data)
        except LOST:
            # Raw bytes cannot show a gap: the connection is reset instead, and only then.
            if account.process.get()[stream + "_begin"] <= account.at[stream]:
                raise
        answer.cut()


def read_json(account, until):
    while time.monotonic() < until():
        body = account.process.output(cursor=account.cursor)
        for stream in ("stdout", "stderr"):
            gap = body.get(stream + "_gap_bytes") or 0
            if gap:
                account.skip(stream, gap)
            coded = body.get(stream + "_b64")
            account.take(stream, base64.b64decode(coded) if coded is not None else body[stream].encode())
            assert body[stream + "_cursor"] == account.at[stream]
        time.sleep(0.01)


def read_socket(account, until):
    """Binary frames have no cursor: they follow the started message."""
    with Terminal(account.process.client, account.process.path + "/attach", cursor=account.cursor) as t:
        start = t.message("started")["cursor"]
        while time.monotonic() < until() and t.code is None:
            time.sleep(0.01)
        t.cut()
        t.reader.result(10)
        order = t.order
    assert start >= account.at["stdout"]
    for message in order:
        if isinstance(message, bytes):
            account.take("stdout", message)
        elif message["type"] == "gap":
            account.skip(message.get("stream", "stdout"), message["bytes"])
        elif message["type"] == "stderr":
            account.take("stderr", base64.b64decode(message["data_b64"]))
        else:
            assert message["type"] == "started", message


WAYS = (read_events, read_events, read_raw, read_json, read_socket)


# -- rounds ---------------------------------------------------------------------------------------

def kill_soon(victim, name, delay):
    def kill():
        victim.kill(name)
        time.sleep(0.01)
        victim.forgive()
    timer = threading.Timer(delay, kill)
    timer.start()
    return timer


def one_round(victim, chance, account, tally):
    dice = chance.random()
    action = "warden" if dice < 0.1 else "cayd" if dice < 0.5 else "reader"
    way = chance.choice(WAYS)
    tally[action] = tally.get(action, 0) + 1
    length = chance.uniform(0.0, 0.12)
    end = time.monotonic() + length + (0.1 if action != "reader" else 0)
    killer = kill_soon(victim, {"warden": "cay-warden"}.get(action, action), length) if action != "reader" else None
    try:
        way(account, lambda: end)
    except LOST as error:
        assert action == "cayd", f"{way.__name__}: {error!r} though nobody killed the daemon"
    except ApiError as error:
        assert action == "cayd" and error.status in (502, 503), error
    if killer:
        killer.join()
        victim.wait_ready(RESTART_SEC)
    account.prove_gaps()


def finish(account):
    """Ends the writer and reads what is left of its output, to the last byte."""
    account.process.stdin("q")
    with account.process.events(cursor=account.cursor, follow=True) as events:
        for event in events:
            if account.event(event) == "exit":
                end = event.data
    assert end["exit_code"] == 0, end
    assert (end["stdout_bytes"], end["stderr_bytes"]) == (account.at["stdout"], account.at["stderr"])
    account.prove_gaps()
    total = account.at["stdout"] + account.at["stderr"]
    assert account.read + account.lost == total
    return total


def test_every_byte_is_accounted_for(victim, box):
    chance = random.Random(SEED)
    random.seed(SEED)
    accounts = [Account(box, "fast, two pipes", 32768, 10, (1, 2)), Account(box, "calm pipe", 2048, 10),
                Account(box, "terminal", 4096, 10, tty={"cols": 80, "rows": 24})]
    tally = {}
    print(f"seed {SEED}, {ROUNDS} rounds")
    for _ in range(ROUNDS):
        one_round(victim, chance, chance.choice(accounts), tally)
    for account in accounts:
        total = finish(account)
        print(f"{account.label}: {total} bytes, {account.read} read, {account.lost} told as lost")
        assert total > 10000
    print(f"rounds by kind: {tally}")


def test_finished_output_survives_the_daemon(victim, box):
    process = spawn(box, counted.writer(500000))
    process.wait()
    for name in ("cayd", "cay-warden"):
        victim.kill(name)
        time.sleep(0.02)
        victim.forgive()
        victim.wait_ready(RESTART_SEC)
        seen = process.collect(follow=True)
        assert seen.out == counted.expected(0, 500000) and seen.exit["exit_code"] == 0 and not seen.gaps


def test_calls_wait_for_the_link(victim, box):
    """The first call after a restart succeeds: it waits for the link."""
    for _ in range(3):
        victim.kill("cayd")
        time.sleep(0.02)
        victim.forgive()
        client = victim.wait_ready(RESTART_SEC)
        assert client.exec(box.id, ["/bin/echo", "x"]).stdout == "x\n"


def test_a_window_survives_the_daemon(victim, box):
    window = Window(box, "w")
    window.run("cd /usr; kept='a b'; f() { echo \"f $kept\"; }")
    began = window.run("echo begun; sleep 0.5; echo done; (exit 7)", wait_ms=0)
    for name in ("cayd", "cay-warden"):
        victim.kill(name)
    time.sleep(0.02)
    victim.forgive()
    victim.wait_ready(RESTART_SEC)
    row = window.wait_idle()
    assert row["exit_code"] == 7 and row["run"] == 2 and row["process_id"] == began["process_id"]
    assert window.read()["out"] == b"begun\ndone\n"
    after = window.run("pwd; f; echo $?")
    assert after["out"] == b"/usr\nf a b\n0\n" and after["made"] is False and after["run"] == 3


# -- random chunkings -----------------------------------------------------------------------------

REPLAY = """
import base64, json, os, sys, time, tty
data = {1: base64.b64decode(os.environ["OUT"]), 2: base64.b64decode(os.environ["ERR"])}
if os.isatty(0):
    tty.setraw(0)
for fd, size, pause in json.loads(os.environ["PLAN"]):
    piece, data[fd] = data[fd][:size], data[fd][size:]
    while piece:
        piece = piece[os.write(fd, piece):]
    time.sleep(pause / 1000)
"""


def random_text(chance, size):
    """Bytes of all kinds: text of several scripts, escapes, noise, and mixtures split anywhere."""
    parts, n = [], 0
    while n < size:
        kind = chance.randrange(4)
        part = ("äöü€✓🌊\u0300\u200d漢字" * 3).encode() if kind == 0 else b"plain text\n" * 2 if kind == 1 else \
            chance.randbytes(20) if kind == 2 else b"\0\x1b[1m\xff\r\n"
        parts.append(part[:chance.randint(1, len(part))])
        n += len(parts[-1])
    return b"".join(parts)[:size]


def plan(chance, out, err):
    """[[descriptor, bytes, pause ms]...]: the same bytes in pieces of any size."""
    steps = []
    for fd, left in ((1, len(out)), (2, len(err))):
        while left:
            size = min(left, chance.choice((1, 2, 3, 7, 64, 4095, 4096, 4097, 20000)))
            steps.append([fd, size, chance.choice((0, 0, 0, 0, 0.2, 2))])
            left -= size
    steps = steps if len(steps) < 400 else steps[:400] + [[1, len(out), 0], [2, len(err), 0]]
    chance.shuffle(steps)
    return steps + [[1, len(out), 0], [2, len(err), 0]]


@pytest.fixture(scope="module")
def box_of_module(victim):
    victim.wait_ready()
    made = Box(victim)
    yield made
    victim.wait_ready().delete(made.id)


@pytest.mark.parametrize("round", range(40 if LONG else 6))
def test_bytes_out_are_bytes_in(box_of_module, round):
    box = box_of_module
    chance = random.Random(SEED + round)
    out, err = random_text(chance, chance.choice((1, 100, 9000, 40000))), random_text(chance, chance.choice((0, 5, 9000)))
    env = {"OUT": b64(out), "ERR": b64(err), "PLAN": json.dumps(plan(chance, out, err))}
    program = ["python3", "-c", REPLAY]
    result = box.exec(program, env=env)
    assert (result.out, result.err, result.exit_code) == (out, err, 0), f"exec, seed {SEED + round}"
    with exec_stream(box, program, env=env) as events:
        seen = Collected(events)
    assert (seen.out, seen.err, seen.gaps) == (out, err, []), f"stream, seed {SEED + round}"
    with spawn(box, program, env=env) as process:
        seen = process.collect(follow=True)
        assert (seen.out, seen.err) == (out, err), f"follow, seed {SEED + round}"
        cut = chance.randint(0, len(out))
        with process.raw(cursor=cut, stream="stdout") as answer:
            assert answer.rest() == out[cut:]
    with spawn(box, program, env=dict(env, ERR=""), tty={"cols": 80, "rows": 24}) as process:
        with Terminal(box.client, process.path + "/attach") as live:
            live.ended()
            assert bytes(live.data) == out, f"terminal, seed {SEED + round}"
        with Terminal(box.client, process.path + "/attach") as again:
            again.ended()
            assert bytes(again.data) == out[-65536:], f"replay, seed {SEED + round}"


@pytest.mark.parametrize("way", ["json", "raw", "socket"])
def test_bytes_in_are_bytes_out(box_of_module, way):
    chance = random.Random(SEED)
    data = random_text(chance, 120000)
    with spawn(box_of_module, ["cat"]) as process:
        terminal = Terminal(box_of_module.client, process.path + "/attach") if way == "socket" else None
        at = 0
        while at < len(data):
            part = data[at:at + chance.choice((1, 5, 500, 4096, 30000))]
            at += len(part)
            if terminal:
                terminal.send(part)
            else:
                process.stdin(part, raw=way == "raw")
        if terminal:
            terminal.control(type="close_stdin")
        else:
            process.close_stdin()
        process.wait()
        with process.raw(stream="stdout") as answer:
            assert answer.rest() == data
        if terminal:
            terminal.ended()
            assert bytes(terminal.data) == data

