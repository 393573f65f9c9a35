# SPDX-License-Identifier: Apache-2.0
"""exec in all its modes, ps, logs, attach, kill, windows: against the scripted daemon."""
import base64
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # what the tests of the program share
sys.path.insert(0, HERE)
import scripted  # noqa: E402
from test_program import CAY, cay, daemon, environment, until  # noqa: E402,F401


@pytest.fixture
def web(daemon):
    daemon.cay("create", "--name", "web")
    daemon.calls.clear()
    return daemon


def start(web, *args, stdin=subprocess.DEVNULL, **kw):
    return subprocess.Popen([CAY, *args], env=environment(**web.env), stdin=stdin, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **kw)


# Streams

def test_exec_is_live(web):
    web.play_exec = lambda process: None
    p = start(web, "exec", "web", "--", "slow")
    until(lambda: web.processes)
    process = web.processes[1]
    process.write(b"first\n")
    assert p.stdout.readline() == b"first\n"
    process.write(b"wrong\n", "stderr")
    assert p.stderr.readline() == b"wrong\n"
    process.write(b"\0\xff")
    process.finish(4)
    assert p.communicate(timeout=10) == (b"\0\xff", b"") and p.returncode == 4


def test_exec_continues_after_a_lost_connection(web):
    data = bytes(range(256)) * 8
    web.exec_result = dict(web.exec_result, stdout_b64=base64.b64encode(data).decode(), stderr="e" * 99,
                           exit_code=9)
    web.on_start = lambda process: process.cut_at.extend([1, 100, 101, 1500])
    r = web.cay("exec", "web", "--", "x")
    assert r.stdout == data and r.returncode == 9
    assert r.stderr.replace(b"cay: reconnected\n", b"").replace(
        b"cay: the connection to the daemon was lost; reconnecting\n", b"") == b"e" * 99
    assert b"reconnected" in r.stderr
    assert len([c for c in web.calls if c[0] == "POST"]) == 1, "it is started once"


@pytest.mark.parametrize("end,status,words", [
    ({"reason": "oom", "exit_code": 137, "signal": "SIGKILL", "memory_limit_bytes": 64 << 20,
      "memory_peak_bytes": 64 << 20}, 137,
     b"cay: the command was killed by the memory limit (oom): limit 64 MB, peak 64 MB\n"),
    ({"reason": "timeout", "exit_code": 124}, 124, b"cay: the command was stopped by its time limit (timeout): 7 s\n"),
    ({"reason": "killed_by_request", "exit_code": 143, "signal": "SIGTERM"}, 143,
     b"cay: the command was killed on request (killed_by_request): SIGTERM\n"),
    ({"reason": "signaled", "exit_code": 139, "signal": "SIGSEGV"}, 139,
     b"cay: the command was ended by a signal (signaled): SIGSEGV\n"),
    ({"reason": "sandbox_gone", "exit_code": None, "message": "out of\033 memory"}, 125,
     b"cay: the sandbox ended while the command ran (sandbox_gone): out of? memory\n"),
    ({"reason": "exited", "exit_code": 124}, 124, b""),
])
def test_messages_of_ends(web, end, status, words):
    web.exec_result = dict(web.exec_result, **end)
    r = web.cay("exec", "--timeout", "7", "web", "--", "x")
    assert r.returncode == status
    assert r.stderr.replace("\ufffd".encode(), b"?") == words
    assert web.cay("-q", "exec", "web", "--", "x").stderr == b""


def test_first_interrupt_goes_to_the_command(web):
    web.exec_delay = 30
    p = start(web, "exec", "web", "--", "sleep", "30")
    until(lambda: web.processes)
    time.sleep(0.1)
    p.send_signal(signal.SIGINT)
    assert p.wait(10) == 130
    assert web.processes[1].signals == ["INT"]


def test_second_kills_third_leaves(web):
    web.exec_delay = 30
    web.on_start = lambda process: setattr(process, "signal", process.signals.append)
    p = start(web, "exec", "web", "--", "stubborn")
    until(lambda: web.processes)
    for n in range(3):
        time.sleep(0.1)
        p.send_signal(signal.SIGTERM)
        until(lambda: len(web.processes[1].signals) == min(n + 1, 2))
    assert p.wait(10) == 143
    assert web.processes[1].signals == ["TERM", "KILL"]
    assert b"continues as process 1" in p.stderr.read()


def test_a_reader_that_goes_away(web):
    web.play_exec = lambda process: process.write(b"y\n" * 100000)
    p = start(web, "exec", "web", "--", "yes")
    assert p.stdout.readline() == b"y\n"
    p.stdout.close()
    assert p.wait(10) == 141
    assert web.processes[1].signals == ["PIPE"]


def test_daemon_that_stays_away(web):
    r = cay("logs", "-f", "web", "1", "--url", "http://127.0.0.1:1")
    assert r.returncode == 8 and b"not running" in r.stderr


def test_503_is_waited_for(web):
    web.play_exec = lambda process: process.write(b"one\n")
    web.on_start = lambda process: process.cut_at.append(4)
    p = start(web, "exec", "web", "--", "x")
    assert p.stdout.readline() == b"one\n"
    web.refuse = True
    time.sleep(0.4)
    web.processes[1].write(b"two\n")
    web.processes[1].finish(0)
    web.refuse = False
    assert p.communicate(timeout=10)[0] == b"two\n" and p.returncode == 0


# Input

def test_interactive_pipe(web):
    data = os.urandom(3 << 20)
    end = []

    def on_input(process):
        def take(piece):
            if process.input_closed:
                end.append(process.input == data)
                process.write(b"done\n")
                process.write(b"warned\n", "stderr")
                process.finish(0)
        process.on_input = take
    web.on_start = on_input
    r = web.cay("exec", "-i", "web", "--", "cat", stdin=data)
    assert (r.stdout, r.stderr, r.returncode) == (b"done\n", b"warned\n", 0)
    assert end == [True]
    body = web.calls[0][2]
    assert body == {"argv": ["cat"], "stdin_open": True, "hold": True}


def test_interactive_cut_is_an_error(web):
    def on_start(process):
        process.cut_at.append(3)
        process.on_input = lambda data: process.write(b"abcdef")
    web.on_start = on_start
    p = start(web, "exec", "-i", "web", "--", "cat", stdin=subprocess.PIPE)
    p.stdin.write(b"some")
    p.stdin.flush()
    assert p.wait(10) == 125
    err = p.stderr.read()
    assert b"only part of it" in err and b"cay logs web 1" in err


def test_interrupt_of_an_interactive_one(web):
    p = start(web, "exec", "-i", "web", "--", "cat", stdin=subprocess.PIPE)
    until(lambda: web.processes and web.processes[1].attached)
    time.sleep(0.1)
    p.send_signal(signal.SIGINT)
    assert p.wait(10) == 130
    assert web.processes[1].signals == ["INT"]


@pytest.mark.parametrize("args,part", [
    (("-it", "web", "--", "sh"), b"-t needs a terminal"),
    (("-d", "-t", "web", "--", "sh"), b"exclude"),
    (("-w", "x", "-d", "web", "--", "sh"), b"--window excludes"),
    (("web",), b"needs ID"),
    (("--name", "x", "web", "true"), b"--name needs -d"),
    (("-w", "x", "--timeout", "5", "web", "true"), b"--window and --timeout exclude"),
])
def test_options_that_exclude_each_other(web, args, part):
    r = web.cay("exec", *args)
    assert r.returncode == 125 and part in r.stderr
    assert not web.processes


# Detached

def test_detached_ps_logs_kill(web):
    r = web.cay("exec", "-d", "--name", "srv", "-e", "A=1", "web", "--", "server", "--port", "1")
    assert (r.stdout, r.returncode) == (b"1\n", 0)
    assert web.calls[-1][2] == {"argv": ["server", "--port", "1"], "name": "srv", "env": {"A": "1"}}
    process = web.processes[1]
    process.write(b"out\n")
    process.write(b"err\n", "stderr")
    r = web.cay("logs", "web", "srv")
    assert (r.stdout, r.stderr, r.returncode) == (b"out\n", b"err\n", 0)
    rows = web.cay("ps", "web").stdout.decode().splitlines()
    assert rows[0].split() == ["ID", "NAME", "STATE", "USER", "TTY", "AGE", "END", "COMMAND"]
    assert "server --port 1" in rows[1] and "running" in rows[1]
    assert web.cay("ps", "-q", "web").stdout == b"1\n"
    assert web.cay("kill", "-s", "sigterm", "web", "1").returncode == 0
    assert process.signals == [15]
    r = web.cay("ps", "web")
    assert r.stdout == b"" and b"-a shows" in r.stderr
    assert "143 killed_by_request" in web.cay("ps", "-a", "web").stdout.decode()
    assert json.loads(web.cay("ps", "web", "--json").stdout)["data"][0]["state"] == "exited"
    assert web.cay("kill", "web", "1").returncode == 7
    assert web.cay("kill", "-s", "NOPE", "web", "1").returncode == 2
    assert web.cay("kill", "web", "77").returncode == 3
    assert web.cay("logs", "web", "77").returncode == 3
    assert web.cay("kill", "--stop", "web", "srv").returncode == 0
    assert web.processes == {}


def test_logs_follow_cut_gap_and_json(web):
    web.cay("exec", "-d", "web", "--", "x")
    process = web.processes[1]
    process.write(b"0123456789abcdefghij")
    process.gap = 5
    p = start(web, "logs", "-f", "web", "1")
    assert p.stdout.read(15) == b"56789abcdefghij"
    process.cut_at.append(23)
    process.write(b"klmnop\n")
    process.finish(3)
    out, err = p.communicate(timeout=10)
    assert out == b"klmnop\n" and p.returncode == 125
    assert err.startswith(b"cay: output lost: 5 bytes were overwritten before they were read "
                          b"(process 1, stdout, offset 0)\n")
    lines = [json.loads(line) for line in web.cay("logs", "-f", "--json", "web", "1").stdout.splitlines()]
    assert lines[0] == {"type": "gap", "stream": "stdout", "bytes": 5, "cursor": 5}
    assert lines[-1]["type"] == "exit" and lines[-1]["exit_code"] == 3
    assert json.loads(web.cay("logs", "--json", "web", "1").stdout)["stdout"].startswith("0123")
    web.cay("logs", "--cursor", "20:0", "web", "1")
    assert "cursor=20%3A0" in web.calls[-1][1]
    assert web.cay("logs", "--cursor", "x", "web", "1").returncode == 2
    assert web.cay("logs", "--cursor", "1", "--tail", "2", "web", "1").returncode == 2


# Terminals

class Screen:
    """The program on a terminal of its own."""

    @staticmethod
    def own_terminal():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):  # the caller of the tests may ignore them
            signal.signal(signum, signal.SIG_DFL)

    def __init__(self, web, *args, cols=91, rows=33):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.slave = slave
        self.before = termios.tcgetattr(slave)
        self.p = subprocess.Popen([CAY, *args], stdin=slave, stdout=slave, stderr=slave,
                                  env=environment(TERM="xterm-strange", **web.env), start_new_session=True,
                                  preexec_fn=self.own_terminal)
        self.seen = b""

    def expect(self, text, seconds=10):
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.master], [], [], 0.05)[0]:
                self.seen += os.read(self.master, 65536)

    def type(self, data):
        os.write(self.master, data)

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def resize(self, cols, rows):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def end(self, seconds=10):
        status = self.p.wait(seconds)
        while select.select([self.master], [], [], 0.05)[0]:
            self.seen += os.read(self.master, 65536)
        restored = termios.tcgetattr(self.slave) == self.before
        os.close(self.master)
        os.close(self.slave)
        assert restored, "the terminal is as it was"
        return status


@pytest.fixture
def screen(web):
    made = []

    def make(*args, **kw):
        made.append(Screen(web, *args, **kw))
        return made[-1]
    yield make
    for one in made:
        if one.p.poll() is None:
            one.p.kill()
            one.p.wait()


def test_terminal(web, screen):
    s = screen("exec", "-it", "web", "--", "bash")
    until(lambda: web.processes and web.processes[1].sizes)
    process = web.processes[1]
    assert web.calls[0][2] == {"argv": ["bash"], "env": {"TERM": "xterm-256color"}, "tty": {"cols": 91, "rows": 33},
                               "stdin_open": True, "hold": True}
    until(s.is_raw)
    s.type(b"\x03\x1a\x1c\x04\0\xff")
    until(lambda: process.input == b"\x03\x1a\x1c\x04\0\xff")
    s.expect(b"\x03\x1a\x1c\x04\0\xff")
    s.resize(60, 20)
    until(lambda: process.sizes[-1] == (60, 20))
    s.type(b"exit 7\r")
    assert s.end() == 7


def test_output_that_comes_with_the_opening(web, screen):
    web.on_start = lambda process: process.write(b"early")
    s = screen("exec", "-it", "web", "--", "bash")
    s.expect(b"early")
    s.type(b"exit 0\r")
    assert s.end() == 0


def test_terminal_survives_a_cut(web, screen):
    s = screen("exec", "-it", "web", "--", "bash")
    until(lambda: web.processes and web.processes[1].sizes)
    process = web.processes[1]
    process.cut_at.append(5)
    process.write(b"0123456789")
    s.expect(b"56789")
    assert s.seen.replace(b"\r\ncay: the connection to the daemon was lost; reconnecting\r\n", b"").replace(
        b"\r\ncay: reconnected\r\n", b"") == b"0123456789"
    s.type(b"exit 3\r")
    assert s.end() == 3


def test_detach_and_attach(web, screen):
    s = screen("exec", "-it", "web", "--", "bash")
    until(lambda: web.processes and web.processes[1].sizes)
    until(s.is_raw)
    process = web.processes[1]
    process.write(b"\033[?1049h\033[?25l\033[?2004hhello")
    s.expect(b"hello")
    s.type(b"\x10a\x10")
    until(lambda: process.input == b"\x10a\x10")  # the last one after a moment
    s.type(b"\x10\x11")
    assert s.end() == 0
    assert process.input == b"\x10a\x10" and process.end is None
    assert b"cay attach web 1" in s.seen
    for undo in (b"\033[?1049l", b"\033[?25h", b"\033[?2004l"):
        assert undo in s.seen
    assert b"\033[?1000l" not in s.seen, "only what was switched on"
    s = screen("attach", "web", "1")
    s.expect(b"hello")
    s.type(b"exit 5\r")
    assert s.end() == 5


def test_shell_without_a_command(web, screen):
    s = screen("exec", "-it", "web", "-u", "root")
    until(lambda: web.processes and web.processes[1].sizes)
    assert web.calls[0][:2] == ("GET", "/v1/sandboxes/web/pty?cols=91&ack=true&rows=33&user=root")
    until(s.is_raw)
    s.type(b"exit 2\r")
    assert s.end() == 2


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT])
def test_terminal_is_given_back(web, screen, signum):
    s = screen("exec", "-it", "web", "--", "bash")
    until(lambda: web.processes and web.processes[1].sizes)
    until(s.is_raw)
    web.processes[1].write(b"\033[?1hx")
    s.expect(b"x")
    s.p.send_signal(signum)
    assert s.end() == -signum
    assert b"cay attach web 1" in s.seen and b"\033[?1l" in s.seen
    assert web.processes[1].end is None


def test_stopped_and_continued(web, screen):
    s = screen("exec", "-it", "web", "--", "bash")
    until(lambda: web.processes and web.processes[1].sizes)
    until(s.is_raw)
    s.p.send_signal(signal.SIGTSTP)
    until(lambda: not s.is_raw())
    s.resize(50, 10)
    s.p.send_signal(signal.SIGCONT)
    until(s.is_raw)
    until(lambda: web.processes[1].sizes[-1] == (50, 10))
    s.type(b"exit 0\r")
    assert s.end() == 0


def test_a_flood_does_not_hold_up_the_keys(web, screen):
    s = screen("exec", "-it", "web", "--", "yes")
    until(lambda: web.processes and web.processes[1].sizes)
    process = web.processes[1]
    process.on_input = lambda data: process.finish(130) if data == b"\x03" else None
    process.write(b"y\r\n" * 200000)
    s.expect(b"y\r\n")
    s.type(b"\x03")
    until(lambda: process.input == b"\x03" or not select.select([s.master], [], [], 0)[0] or
          not os.read(s.master, 1 << 16), 20)


def test_attach_without_a_terminal(web):
    web.cay("exec", "-d", "web", "--", "x")
    web.processes[1].write(b"before\n")
    web.processes[1].on_input = lambda data: data and (web.processes[1].write(b"got " + data),
                                                       web.processes[1].finish(6))
    r = web.cay("attach", "web", "1", stdin=b"typed\n")
    assert (r.stdout, r.returncode) == (b"before\ngot typed\n", 6)


def test_attach_without_input_leaves_stdin_open(web):
    web.cay("exec", "-d", "web", "--", "x")
    process = web.processes[1]
    p = start(web, "attach", "web", "1")
    until(lambda: process.attached)
    time.sleep(0.2)
    assert not process.input_closed
    process.finish(0)
    assert p.wait(10) == 0


# Windows

def test_window(web):
    state = {"looks": 0}

    def step(w):
        state["looks"] += 1
        if state["looks"] == 1:
            w.out += b"first line of it\n"
        elif state["looks"] == 4:
            w.out += b"\0\xff second\n"
            w.finish(9)
    web.windows["build"] = w = scripted.Window("build")
    w.step = step
    w.out = b"older output"
    r = web.cay("exec", "-w", "build", "web", "--", "make", "a  b", "$x", "it's", "")
    assert (r.stdout, r.stderr, r.returncode) == (b"first line of it\n\0\xff second\n", b"", 9)
    assert w.commands == ["make 'a  b' '$x' 'it'\\''s' ''"]
    r = web.cay("exec", "-w", "build", "--json", "web", "-c", "cd /; pwd")
    assert json.loads(r.stdout)["run"] == 2 and w.commands[-1] == "cd /; pwd"


def test_window_interrupted(web):
    web.windows["w"] = w = scripted.Window("w")
    w.step = lambda w: w.finish(130) if w.input else None
    p = start(web, "exec", "-w", "w", "web", "-c", "sleep 100")
    until(lambda: w.commands)
    time.sleep(0.2)
    p.send_signal(signal.SIGINT)
    assert p.wait(10) == 130 and w.input == b"\x03"


def test_window_taken_by_another(web):
    web.windows["w"] = w = scripted.Window("w")
    w.step = lambda w: w.finish(0) if w.run == 2 else None
    p = start(web, "exec", "-w", "w", "web", "-c", "sleep 100")
    until(lambda: w.commands)
    r = web.cay("exec", "-w", "w", "web", "-c", "true")
    assert r.returncode == 0 and b"was cancelled" in r.stderr
    assert p.wait(10) == 130 and b"cancelled by another" in p.stderr.read()


def test_windows(web):
    r = web.cay("windows", "web")
    assert r.returncode == 0 and b"no windows" in r.stderr
    web.windows["build"] = w = scripted.Window("build")
    w.step = lambda w: (setattr(w, "out", w.out + b"some output that is long\n"), w.finish(4))
    web.cay("exec", "-w", "build", "web", "-c", "x")
    rows = web.cay("windows", "web").stdout.decode().splitlines()
    assert rows[1].split() == ["build", "idle", "1", "4", "3s", "99"]
    assert web.cay("windows", "web", "read", "build").stdout == b"some output that is long\n"
    assert web.cay("windows", "web", "read", "build", "--cursor", "5").stdout == b"output that is long\n"
    assert json.loads(web.cay("windows", "--json", "web").stdout)["data"][0]["name"] == "build"
    assert web.cay("windows", "web", "read").returncode == 2
    assert web.cay("windows", "web", "burn", "build").returncode == 2
    assert web.cay("windows", "web", "read", "nosuch").returncode == 3
    assert web.cay("windows", "web", "close", "build").returncode == 0
    assert web.windows == {}
