# SPDX-License-Identifier: Apache-2.0
"""cay exec -it and similar on a real terminal (tmux), and the other commands for processes."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from lib import tree
from lib.commands import wait_for
from lib.daemon import Daemon
from lib.tmux import PROMPT, Tmux


def terminal_of(daemon):
    path = f"{pathlib.Path(daemon.cay).parent}:/usr/local/bin:/usr/bin:/bin"
    return Tmux(dict(daemon.env, CAY_STATE=daemon.state, PATH=path, NO_COLOR="1"))


@pytest.fixture
def pane(daemon):
    with terminal_of(daemon) as tmux:
        yield tmux


@pytest.fixture(scope="module")
def name(client):
    with client.sandbox(timeout_sec=3600) as sandbox:
        yield sandbox.id


@pytest.fixture
def cay(daemon):
    def run(*words, **kw):
        return daemon.command(*words, **kw)
    return run


@pytest.fixture(scope="module", autouse=True)
def orphan(tmp_path_factory):
    """A terminal whose daemon is permanently gone. The client retries for a while: the other tests run meanwhile."""
    path = tmp_path_factory.mktemp("orphan")
    with Daemon() as own:
        sandbox = own.client.create(timeout_sec=600)["id"]
        with terminal_of(own) as pane:
            pane.before = pane.settings(path / "before")
            pane.after = path / "after"
            pane.type(f"cay exec -it {sandbox} -- bash -c 'echo on''line; exec sleep 300'; echo status $?")
            pane.wait("online")
            own.kill("cay")  # no supervisor: it is not restarted
            own.kill("cayd")
            yield pane
        own.up()


def ok(done):
    assert done.returncode == 0, done
    return done.stdout


def inside(client, name, command):
    return client.exec(name, command).stdout


def clients_of(tmux):
    """Pids of the cay programs that run in the pane."""
    shell = tmux.run("list-panes", "-F", "#{pane_pid}").strip()
    found = subprocess.run(["pgrep", "-x", "cay", "-P", shell], capture_output=True, text=True).stdout
    return [int(pid) for pid in found.split()]


# -- -it ------------------------------------------------------------------------------------------

def test_vim(pane, client, name, tmp_path):
    if client.exec(name, "command -v vim").exit_code != 0:
        pytest.skip("the base template was built before vim was in its recipe: cay template build base")
    before = pane.settings(tmp_path / "before")
    pane.type(f"cay exec -it {name} -- vim -n -u NONE /workspace/note.txt")
    pane.wait("note.txt")
    pane.type("ifirst line", enter=True)
    pane.type("second, gr\u00fcn", enter=False)
    pane.wait("second, gr\u00fcn")
    pane.keys("Escape")
    pane.resize(72, 18)
    pane.type(":set lines? columns?")
    pane.wait(lambda s: "lines=18" in s and "columns=72" in s)
    pane.keys("Enter")
    pane.type(":wq")
    pane.wait(lambda s: s.rstrip().endswith(PROMPT) and "lines=18" not in s)
    assert inside(client, name, "cat /workspace/note.txt") == "first line\nsecond, gr\u00fcn\n"
    assert pane.settings(tmp_path / "after") == before


def test_top_and_resize(pane, name, tmp_path):
    before = pane.settings(tmp_path / "before")
    pane.type(f"cay exec -it {name} -- top -d 30")
    pane.wait(lambda s: "load average" in s and "PID" in s)
    pane.resize(60, 20)
    # The header is redrawn with the new width: the bar of column names is as wide as the pane.
    pane.wait(lambda s: any(line.lstrip().startswith("PID") and len(line.rstrip()) <= 60 for line in s.splitlines()))
    pane.resize(120, 40)
    pane.wait("COMMAND")
    pane.type("q", enter=False)
    pane.wait(lambda s: s.rstrip().endswith(PROMPT))
    assert pane.settings(tmp_path / "after") == before


def test_shell_resize_interrupt_and_status(pane, name, tmp_path):
    before = pane.settings(tmp_path / "before")
    pane.type(f"cay exec -it {name} -- bash --norc; echo status $?")
    pane.type("PS1='in> '; echo he''re; stty size")
    pane.wait("30 100")
    pane.resize(90, 25)
    pane.type("clear; stty size")
    pane.wait("25 90")
    pane.type("sleep 300")
    time.sleep(0.3)
    pane.keys("C-c")
    pane.type("echo slept $?")
    pane.wait("slept 130")
    pane.type("cat")
    pane.keys("C-z")
    pane.wait("Stopped")
    pane.type("fg")
    time.sleep(0.3)
    pane.keys("C-d")
    pane.type("exit 7")
    pane.wait("status 7")
    assert pane.settings(tmp_path / "after") == before


def test_statuses(pane, name):
    for command, status in (("true", 0), ("sh -c 'exit 255'", 255), ("sh -c 'kill -TERM $$'", 143),
                            ("/no/such/program", None)):
        out = pane.shell(f"cay exec -it {name} -- {command}; echo status=$?")
        got = int(re.findall(r"status=(\d+)", out)[-1])
        assert got == status if status is not None else got != 0, (command, out)


def test_run_on_a_terminal(pane, client, tmp_path):
    """cay run -it: a sandbox of its own with this terminal, removed when the shell ends."""
    before = pane.settings(tmp_path / "before")
    pane.type("cay run -it --name on-a-terminal -- bash --norc; echo status $?")
    pane.type("PS1='in> '; tty; stty size")
    pane.wait(lambda s: "/dev/pts/" in s and "30 100" in s)
    assert inside(client, "on-a-terminal", "pgrep -c bash") == "1\n"
    pane.type("sleep 300")
    wait_for(lambda: inside(client, "on-a-terminal", "pgrep -c sleep") == "1\n")
    pane.keys("C-c")
    pane.type("echo slept $?; exit 7")
    pane.wait(lambda s: "slept 130" in s and "status 7" in s)
    assert client.raw("GET", "/v1/sandboxes/on-a-terminal")[0] in (404, 410)
    assert pane.settings(tmp_path / "after") == before


def test_bytes_of_a_terminal(pane, client, name):
    """Bracketed paste and function keys arrive as they are typed."""
    pane.type(f"cay exec -it {name} -- bash --norc -c 'stty raw -echo; echo g\"\"o; head -c 16 > /workspace/keys'")
    pane.wait("go")
    pane.keys("F5", "Up", "M-x", "C-c", "C-z", "C-\\")
    pane.type("12345", enter=False)
    pane.wait(lambda s: s.rstrip().endswith(PROMPT))
    assert inside(client, name, "xxd -p /workspace/keys || od -An -tx1 /workspace/keys | tr -d ' \\n'").strip()[:32] == \
        (b"\x1b[15~" + b"\x1b[A" + b"\x1bx" + b"\x03\x1a\x1c" + b"12345")[:16].hex()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL],
                         ids=lambda n: n.name)
def test_terminal_is_restored_when_the_client_dies(pane, client, name, tmp_path, number):
    before = pane.settings(tmp_path / "before")
    pane.type(f"cay exec -it {name} -- bash -c 'echo on''line; exec sleep 3000'")
    pane.wait("online")
    pid = wait_for(lambda: clients_of(pane))[0]
    os.kill(pid, number)
    wait_for(lambda: not clients_of(pane))
    time.sleep(0.2)
    assert pane.settings(tmp_path / "after") == before
    client.exec(name, "pkill -f 'sleep 3000'")


# -- detached -------------------------------------------------------------------------------------

def test_detached_ps_logs_kill(cay, name):
    process = ok(cay("exec", "-d", name, "--", "sh", "-c", "echo one; echo two >&2; sleep 300")).strip()
    assert process.isdigit()
    wait_for(lambda: "one" in cay("logs", name, process).stdout)
    done = cay("logs", name, process)
    assert done.stdout == "one\n" and "two\n" in done.stderr
    listing = ok(cay("ps", name))
    assert process in listing and "sleep 300" in listing
    rows = json.loads(ok(cay("ps", name, "--json")))["data"]
    assert [r["state"] for r in rows if r["process_id"] == int(process)] == ["running"]
    ok(cay("kill", "-s", "TERM", name, process))
    row = wait_for(lambda: next((r for r in json.loads(ok(cay("ps", name, "--json")))["data"]
                                 if r["process_id"] == int(process) and r["state"] == "exited"), None))
    assert row["reason"] == "killed_by_request" and row["exit_code"] == 143
    assert cay("kill", name, process).returncode == 7, "it has ended already"
    assert cay("kill", "-s", "NOPE", name, process).returncode == 2
    assert cay("kill", name, "999999").returncode == 3
    assert cay("logs", name, "999999").returncode == 3


def test_logs_follow(daemon, cay, name):
    process = ok(cay("exec", "-d", name, "--", "bash", "-c", "for i in 1 2 3; do echo $i; sleep 0.3; done; exit 5")).strip()
    begin = time.monotonic()
    follow = subprocess.Popen([daemon.cay, "--state", daemon.state, "logs", "-f", name, process], env=daemon.env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert follow.stdout.readline() == b"1\n" and time.monotonic() - begin < 0.9 * tree.SLACK, "live, not at the end"
    out, _ = follow.communicate(timeout=10 * tree.SLACK)
    assert out == b"2\n3\n"


def test_logs_follow_survives_the_daemon(tmp_path):
    """The daemon is killed during 'logs -f': the output continues where it was, nothing is lost."""
    with Daemon() as own:
        sandbox = own.client.create(timeout_sec=600)["id"]
        process = ok(own.command("exec", "-d", sandbox, "--", "bash", "-c",
                                 "for i in $(seq 1 30); do echo $i; sleep 0.1; done")).strip()
        # The state directory by environment: a 'cay' with it in its arguments would be taken for the supervisor.
        follow = subprocess.Popen([own.cay, "logs", "-f", sandbox, process], env=dict(own.env, CAY_STATE=own.state),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert follow.stdout.readline() == b"1\n"
        own.kill("cayd")
        time.sleep(0.02)
        own.forgive()
        out, err = follow.communicate(timeout=20 * tree.SLACK)
        assert out.split() == [b"%d" % i for i in range(2, 31)], (out, err)


def test_attach(pane, cay, name):
    process = ok(cay("exec", "-d", name, "--", "bash", "-c", "read x; echo got $x; read y; exit 6")).strip()
    pane.type(f"cay attach {name} {process}; echo status $?")
    pane.type("typed")
    pane.wait("got typed")
    pane.type("more")
    pane.wait("status 6")


def test_detach_and_attach_again(pane, client, cay, name):
    """The client is disconnected; the terminal's program continues and can be attached again."""
    pane.type(f"cay exec -it {name} -- bash --norc")
    pane.type("PS1='in> '; kept=yes; echo he''re")
    pane.wait("here")
    os.kill(wait_for(lambda: clients_of(pane))[0], signal.SIGTERM)
    wait_for(lambda: not clients_of(pane))
    row = [r for r in client.call("GET", f"/v1/sandboxes/{name}/processes")["data"]
           if r["tty"] and r["state"] == "running" and not r["window"]][-1]
    pane.shell("clear")
    pane.type(f"cay attach {name} {row['process_id']}; echo status $?")
    pane.wait("here")
    pane.type("echo kept=$kept")
    pane.wait("kept=yes")
    pane.type("exit 4")
    pane.wait("status 4")


def test_windows(cay, name):
    assert ok(cay("exec", "-w", "build", name, "-c", "cd /usr; x=5; echo made")) == "made\n"
    done = cay("exec", "-w", "build", name, "-c", "pwd; echo $x; (exit 9)")
    assert done.returncode == 9 and done.stdout == "/usr\n5\n"
    assert ok(cay("exec", "-w", "build", name, "--", "echo", "a  b", "$x", "it's")) == "a  b $x it's\n"
    listing = ok(cay("windows", name))
    assert "build" in listing and "idle" in listing
    rows = json.loads(ok(cay("windows", name, "--json")))["data"]
    assert [(r["name"], r["state"]) for r in rows] == [("build", "idle")]
    assert ok(cay("windows", "-q", name)) == "build\n"


def test_plain_exec_streams(daemon, name):
    """Output arrives as it is written, byte for byte, both streams separate, and the status is passed on."""
    child = subprocess.Popen([daemon.cay, "--state", daemon.state, "exec", name, "--", "bash", "-c",
                              "echo first; sleep 0.6; printf '\\0\\377'; echo err >&2; exit 3"], env=daemon.env,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    begin = time.monotonic()
    assert child.stdout.readline() == b"first\n"
    live = time.monotonic() - begin
    out, err = child.communicate(timeout=10 * tree.SLACK)
    assert (out, child.returncode) == (b"\0\xff", 3) and err == b"err\n"
    assert live < 0.5 * tree.SLACK, "the first line came before the end"


def test_messages_of_ends(cay, client, name):
    """The same terms as in the API, for people."""
    done = cay("exec", "--timeout", "1", name, "--", "sleep", "20")
    assert done.returncode == 124 and "timeout" in done.stderr.lower()
    with client.sandbox(memory_mb=128) as small:
        done = cay("exec", small.id, "--", "python3", "-c", "x = b'x' * (300 << 20)")
        assert done.returncode == 137 and "oom" in done.stderr.lower() or "memory" in done.stderr.lower()


def test_terminal_is_restored_when_the_daemon_dies(orphan):
    screen = orphan.wait(lambda s: re.search(r"^status \d", s, re.M), 60)
    assert "status 125" in screen and "daemon" in screen
    assert orphan.settings(orphan.after) == orphan.before
