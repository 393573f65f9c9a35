# SPDX-License-Identifier: Apache-2.0
"""The command line keeps every byte: output, input, statuses."""

import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from lib import node, tree
from lib.commands import wait_for

MB = 1_000_000
LONG = os.environ.get("CAY_LONG") == "1"
SANITIZED = os.environ.get("CAY_TEST_SANITIZED") == "1"
SIZES = (200 * MB, 1 << 30) if LONG else (200 * MB,)


def ok(done):
    assert done.returncode == 0, done
    return done.stdout


@pytest.fixture
def box(client):
    with client.sandbox(timeout_sec=3600, memory_mb=1024) as sandbox:
        yield sandbox


@pytest.fixture
def words(daemon):
    """words("exec", ...): the command line of our cay."""
    return lambda *more: [daemon.cay, "--state", daemon.state, *more]


def spawn(daemon, words, **kw):
    kw.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen(words, env=daemon.env, **kw)


def digest(stream, pause=None):
    """(bytes, sha256) of everything; pause(n) is called after each piece."""
    sums, n = hashlib.sha256(), 0
    while data := stream.read1(1 << 18):
        sums.update(data)
        n += len(data)
        if pause:
            pause(n)
    return n, sums.hexdigest()


def fill(box, path, size):
    """A file of random bytes inside; its sum."""
    done = box.client.exec(box.id, f"head -c {size} /dev/urandom > {path} && sha256sum {path}", timeout_sec=600)
    assert done.exit_code == 0, done.body
    return done.stdout.split()[0]


def peak_kb(pid):
    """0 for a process that has ended and was not waited for: it no longer has memory."""
    peak = re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(peak.group(1)) if peak else 0


def rss_kb(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))


# -- output ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("size", SIZES)
def test_output_is_complete(daemon, words, box, size):
    wanted = fill(box, "/tmp/r", size)
    cayd, highest = daemon.pids()["cayd"], 0
    before = rss_kb(cayd)

    def watch(_):
        nonlocal highest
        highest = max(highest, peak_kb(child.pid))

    child = spawn(daemon, words("exec", "--timeout", "0", box.id, "--", "cat", "/tmp/r"), stdout=subprocess.PIPE)
    assert digest(child.stdout, watch) == (size, wanted)
    assert child.wait() == 0
    if SANITIZED:
        return
    assert highest < 32_000, f"cay took {highest} kB"
    assert rss_kb(cayd) - before < 32_000, "cayd grew with the output"


def test_archive_is_whole(daemon, words, box):
    done = subprocess.run(["bash", "-c", 'set -o pipefail; "$@" | gzip -1 | gzip -t', "-",
                           *words("exec", "--timeout", "0", box.id, "-c", "tar c /usr/lib/x86_64-linux-gnu /usr/bin 2>/dev/null")],
                          env=daemon.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=240 * tree.SLACK)
    assert done.returncode == 0, done


def test_last_line(daemon, words, box):
    done = subprocess.run(["bash", "-c", 'set -o pipefail; "$@" | tail -1', "-",
                           *words("exec", box.id, "--", "seq", "3000000")],
                          env=daemon.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120 * tree.SLACK)
    assert (done.returncode, done.stdout) == (0, b"3000000\n"), done


def test_both_streams(daemon, words, box, tmp_path):
    """Each may fill its ring; neither loses a byte or stops the other permanently."""
    script = "head -c 20000000 /dev/zero & head -c 20000000 /dev/zero >&2; wait"
    with open(tmp_path / "err", "wb") as err:
        child = spawn(daemon, words("exec", box.id, "-c", script), stdout=subprocess.PIPE, stderr=err)
        assert digest(child.stdout)[0] == 20 * MB
        assert child.wait() == 0
    assert (tmp_path / "err").stat().st_size == 20 * MB


def test_slow_reader_and_its_neighbours(daemon, words, client, box):
    """A reader that takes 1 KB/s: the program waits for it, other clients do not, no byte is missing."""
    size = 5 * MB
    wanted = fill(box, "/tmp/r", size)
    slow = spawn(daemon, words("exec", "--timeout", "0", box.id, "-c", "cat /tmp/r; touch /tmp/written"),
                 stdout=subprocess.PIPE)
    sums, n = hashlib.sha256(), 0
    for _ in range(3):  # seconds
        data = slow.stdout.read(1000)
        sums.update(data)
        n += len(data)
        time.sleep(1)
    with client.sandbox() as other:
        for neighbour in (box, other):
            started = time.monotonic()
            quick = spawn(daemon, words("exec", neighbour.id, "--", "head", "-c", str(20 * MB), "/dev/zero"),
                          stdout=subprocess.PIPE)
            assert digest(quick.stdout)[0] == 20 * MB and quick.wait() == 0
            assert time.monotonic() - started < 20 * tree.SLACK
    assert client.exec(box.id, "test -e /tmp/written").exit_code == 1, "it should be blocked in write(2)"
    while data := slow.stdout.read1(1 << 18):
        sums.update(data)
        n += len(data)
    assert (n, sums.hexdigest(), slow.wait()) == (size, wanted, 0)


@pytest.mark.long
def test_a_stopped_reader_is_still_connected(daemon, words, box):
    """Pings are answered while standard output is full: longer than the daemon waits for a silent client."""
    child = spawn(daemon, words("exec", "--timeout", "0", box.id, "--", "seq", "1000000"), stdout=subprocess.PIPE)
    time.sleep(60)
    assert digest(child.stdout)[0] == 6888896 and child.wait() == 0


def test_reader_that_leaves(daemon, words, client, box):
    """A closed pipe ends the command by SIGPIPE; a killed client leaves it running, detached."""
    done = subprocess.run(["bash", "-c", '"$@" | head -1; echo ${PIPESTATUS[0]}', "-",
                           *words("exec", box.id, "-c", "trap 'touch /tmp/piped' PIPE; yes; yes")],
                          env=daemon.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.stdout == "y\n141\n", done
    child = spawn(daemon, words("exec", "--timeout", "0", box.id, "-c", "echo $$; head -c 30000000 /dev/zero; touch /tmp/past"),
                  stdout=subprocess.PIPE)
    child.stdout.read(1)
    time.sleep(0.3)
    assert client.exec(box.id, "test -e /tmp/past").exit_code == 1, "it should be blocked"
    child.send_signal(signal.SIGKILL)
    child.wait()
    wait_for(lambda: client.exec(box.id, "test -e /tmp/past").exit_code == 0, timeout=20)


def test_kill_of_the_daemon_loses_nothing(own):
    size = 200 * MB
    with own.client.sandbox(timeout_sec=3600) as box:
        wanted = fill(box, "/tmp/r", size)
        killed = []

        def pause(n):
            if len(killed) < 2 and n > (len(killed) + 1) * size // 3:
                killed.append(own.pids()["cayd"])
                os.kill(killed[-1], signal.SIGKILL)

        child = spawn(own, [own.cay, "--state", own.state, "exec", "--timeout", "0", box.id, "--", "cat", "/tmp/r"],
                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert digest(child.stdout, pause) == (size, wanted)
        err = child.stderr.read().decode()
        assert child.wait() == 0, err
        assert len(set(killed)) == 2 and err.count("reconnected") == 2, err


def test_what_is_overwritten_is_an_error(cay_text, client, box):
    """A detached process may overwrite output. A reader that requested those bytes gets an error status."""
    process = ok(cay_text("exec", "-d", box.id, "--", "sh", "-c", "head -c 3000000 /dev/zero; sleep 600")).strip()
    wait_for(lambda: client.call("GET", f"/v1/sandboxes/{box.id}/processes/{process}")["stdout_cursor"] == 3000000)
    begin = client.call("GET", f"/v1/sandboxes/{box.id}/processes/{process}")["stdout_begin"]
    lost = (f"cay: output lost: {begin} bytes were overwritten before they were read "
            f"(process {process}, stdout, offset 0)\n")
    done = cay_text("logs", box.id, process)
    assert done.returncode == 125 and done.stderr == lost and len(done.stdout) == 3000000 - begin
    assert cay_text("logs", "--tail", "100", box.id, process).returncode == 0
    attached = subprocess.Popen([*cay_text.words, "attach", "--cursor", "0", box.id, process], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=cay_text.env)
    assert attached.stderr.readline() == lost
    ok(cay_text("kill", box.id, process))
    assert attached.wait(timeout=20 * tree.SLACK) == 125


@pytest.fixture
def cay_text(daemon):
    def call(*words, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        return daemon.command(*words, **kw)
    call.words, call.env = [daemon.cay, "--state", daemon.state], daemon.env
    return call


# -- input ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("size", SIZES)
def test_input_is_complete(daemon, words, box, tmp_path, size):
    wanted, highest = hashlib.sha256(), 0
    with open(tmp_path / "in", "wb") as out:
        for _ in range(size // MB):
            block = os.urandom(MB)
            wanted.update(block)
            out.write(block)
        rest = os.urandom(size % MB)
        wanted.update(rest)
        out.write(rest)
    before = rss_kb(daemon.pids()["cayd"])
    with open(tmp_path / "in", "rb") as data:
        child = spawn(daemon, words("exec", "-i", box.id, "--", "sha256sum"), stdin=data, stdout=subprocess.PIPE)
        while child.poll() is None:
            try:
                highest = max(highest, peak_kb(child.pid))
            except (OSError, AttributeError):
                pass
            time.sleep(0.05)
    assert child.stdout.read().decode() == f"{wanted.hexdigest()}  -\n" and child.wait() == 0
    os.unlink(tmp_path / "in")
    if SANITIZED:
        return
    assert highest < 32_000, f"cay took {highest} kB"
    assert rss_kb(daemon.pids()["cayd"]) - before < 32_000, "cayd grew with the input"


def test_both_directions_at_once(daemon, words, box):
    """Both directions at once, each larger than all buffers: no deadlock."""
    data = os.urandom(30 * MB)
    done = subprocess.run(words("exec", "-i", box.id, "--", "cat"), input=data, env=daemon.env, capture_output=True,
                          timeout=120 * tree.SLACK)
    assert done.returncode == 0 and hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()
    done = subprocess.run(words("run", "-i", "--", "cat"), input=data, env=daemon.env, capture_output=True,
                          timeout=120 * tree.SLACK)
    assert done.returncode == 0 and hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()


def test_a_reader_that_waits_while_input_flows(daemon, words, box):
    """The program echoes more than every buffer holds while our reader sleeps; then all of it arrives."""
    data = os.urandom(8 * MB)
    child = spawn(daemon, words("exec", "-i", box.id, "--", "cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    writer = subprocess.Popen(["python3", "-c", "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"],
                              stdin=subprocess.PIPE, stdout=child.stdin)
    child.stdin.close()
    writer.stdin.write(data)
    writer.stdin.close()
    time.sleep(1)
    assert digest(child.stdout) == (len(data), hashlib.sha256(data).hexdigest())
    assert child.wait() == 0 and writer.wait() == 0


def test_input_is_not_touched_without_i(daemon, words, box):
    loop = 'while read x; do "$@" echo $x; done'
    for command in (words("exec", box.id, "--"), words("run", "--")):
        done = subprocess.run(["bash", "-c", loop, "-", *command], input=b"a\nb\nc\n", env=daemon.env,
                              capture_output=True, timeout=60 * tree.SLACK)
        assert done.stdout == b"a\nb\nc\n", done
    # The program's input is empty, and the input of cay is not read.
    done = subprocess.run(words("exec", box.id, "--", "wc", "-c"), input=b"abc", env=daemon.env, capture_output=True,
                          timeout=60)
    assert done.stdout == b"0\n", done


@pytest.mark.parametrize("verb", ["exec", "run"])
def test_starts_before_input_ends(daemon, words, box, verb):
    """An open pipe as standard input, as Popen and execFile make it: without -i it is not waited for, with -i the
    program runs before its input is complete."""
    place = [box.id] if verb == "exec" else []
    child = spawn(daemon, words(verb, *place, "--", "echo", "hi"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.read() == b"hi\n" and child.wait() == 0
    child = spawn(daemon, words(verb, "-i", *place, "--", "sh", "-c", "echo ready; read x; echo got $x"),
                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    child.stdin.write(b"it\n")
    child.stdin.flush()
    assert child.stdout.readline() == b"got it\n"
    child.stdin.close()
    assert child.wait() == 0


def test_node_exec_file(daemon, words, box):
    program = node.node(tree.build_dir() / "node-own")
    script = """
        const [command, ...rest] = JSON.parse(process.argv[1]);
        require('node:child_process').execFile(command, rest, {timeout: 60000}, (error, out) => {
            console.log(JSON.stringify([error && error.message, out]));
        });"""
    done = subprocess.run([program, "-e", script, json.dumps(words("exec", box.id, "--", "echo", "hi"))],
                          env=daemon.env, capture_output=True, text=True, timeout=90 * tree.SLACK)
    assert json.loads(done.stdout) == [None, "hi\n"], done


def test_standard_files_that_the_caller_closed(daemon, words, box):
    """A connection must not get the number 0, 1 or 2."""
    def run(closed, *more):
        return subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *words(*more)], env=daemon.env, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True)

    done = run("<&-", "exec", "-i", box.id, "--", "cat")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), done
    done = run("<&-", "exec", box.id, "--", "echo", "out")
    assert (done.returncode, done.stdout) == (0, b"out\n"), done
    done = run(">&-", "exec", box.id, "--", "echo", "out")
    assert done.returncode == 125 and b"Bad file descriptor" in done.stderr, done
    done = run(">&-", "exec", box.id, "--", "sh", "-c", "echo err >&2; exit 3")
    assert (done.returncode, done.stderr) == (3, b"err\n"), "nothing was lost"
    done = run("2>&-", "exec", box.id, "--", "sh", "-c", "echo err >&2; echo out; exit 3")
    assert (done.returncode, done.stdout) == (3, b"out\n"), done
    assert run("<&- >&- 2>&-", "exec", box.id, "--", "sh", "-c", "exit 4").returncode == 4
    assert run(">&-", "ls").returncode == 1


def test_program_that_stops_reading(daemon, words, box):
    """The exit status is that of the program, as with a pipe."""
    for command, status in ((["head", "-c", "10"], 0), (["sh", "-c", "head -c 10 >/dev/null; exit 7"], 7),
                            (["sh", "-c", "exec <&-; sleep 0.5; exit 3"], 3)):
        child = spawn(daemon, words("exec", "-i", box.id, "--", *command), stdin=subprocess.PIPE,
                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        writer = subprocess.Popen(["head", "-c", "50000000", "/dev/zero"], stdout=child.stdin)
        child.stdin.close()
        assert child.wait(timeout=60 * tree.SLACK) == status, child.stderr.read()
        writer.kill()
        writer.wait()


def test_json_takes_input_with_i(daemon, words, box):
    done = subprocess.run(words("exec", "-i", "--json", box.id, "--", "cat"), input=b"abc", env=daemon.env,
                          capture_output=True, timeout=60)
    assert json.loads(done.stdout)["stdout"] == "abc", done


# -- statuses -------------------------------------------------------------------------------------

def test_statuses(cay_text, client, box):
    for words, status, said in (
            (["exec", box.id, "--", "sh", "-c", "exit 3"], 3, ""),
            (["exec", box.id, "--", "/no/such"], 127, "no such program"),
            (["exec", box.id, "--", "no-such"], 127, "no such program"),
            (["exec", box.id, "--", "/etc/passwd"], 126, "may not execute"),
            (["exec", box.id, "--json", "--", "no-such"], 127, "command_not_found"),
            (["exec", "-C", "/no/dir", box.id, "--", "true"], 125, "no such directory"),
            (["exec", "nosuch", "--", "true"], 125, "nosuch"),
            (["exec", "--no-such-option", box.id, "--", "true"], 125, "no-such-option"),
            (["exec", "--key", "cay_" + "0" * 40, box.id, "--", "true"], 125, ""),
            (["attach", box.id, "99999"], 125, "no such process"),
            (["exec", "--timeout", "1", box.id, "--", "sleep", "20"], 124, "time limit"),
            (["exec", box.id, "--", "sh", "-c", "kill -TERM $$"], 143, "SIGTERM"),
            (["run", "--timeout", "2", "--", "sleep", "20"], 124, ""),
            (["run", "--timeout", "2", "--json", "--", "sleep", "20"], 124, ""),
            (["run", "--exec-timeout", "1", "--", "sleep", "20"], 124, "time limit"),
            (["run", "--", "no-such"], 127, "no such program"),
            (["run", "--template", "nosuch", "--", "true"], 125, "nosuch"),
            (["run", "-t", "--", "true"], 125, "--template"),
            (["run"], 125, "run"),
            (["info", "nosuch"], 3, "nosuch")):
        done = cay_text(*words)
        assert done.returncode == status and said in done.stderr, (words, done)


def test_a_blocked_command_runs_out_of_time(daemon, words, box):
    child = spawn(daemon, words("exec", "--timeout", "1", box.id, "--", "yes"), stdout=subprocess.PIPE,
                  stderr=subprocess.PIPE)
    wait_for(lambda: not [p for p in box.client.call("GET", f"/v1/sandboxes/{box.id}/processes")["data"]
                          if p["command"] == "yes" and p["pid"] and box.client.exec(
                              box.id, f"kill -0 {p['pid']}", user="root").exit_code == 0], timeout=20)
    digest(child.stdout)
    assert child.wait() == 124 and b"time limit" in child.stderr.read()


def test_sandbox_that_ends(daemon, words, client):
    with client.sandbox() as box:
        child = spawn(daemon, words("exec", box.id, "-c", "echo on; sleep 100"), stdout=subprocess.PIPE,
                      stderr=subprocess.PIPE)
        assert child.stdout.readline() == b"on\n"
        client.delete(box.id)
        assert child.wait(timeout=20 * tree.SLACK) == 125 and b"sandbox_gone" in child.stderr.read()


def test_relative_directory(cay_text, box):
    ok(cay_text("exec", box.id, "--", "mkdir", "-p", "some/where"))
    assert ok(cay_text("exec", "-C", "some/where", box.id, "--", "pwd")) == "/workspace/some/where\n"
    assert ok(cay_text("run", "-C", "..", "--", "pwd")) == "/\n"
