# SPDX-License-Identifier: Apache-2.0
"""Named windows: a shell that keeps its state, and replies that contain only the command's own bytes."""

import secrets
import time

import pytest

from lib import tree
from lib.client import ApiError, Client
from lib.commands import Window, alive_inside, in_thread, marker, spawn, wait_for, windows


@pytest.fixture
def window(shared):
    made = Window(shared, "w-" + secrets.token_hex(4))
    yield made
    in_thread(lambda: Client(shared.client.url, shared.client.key).raw("DELETE", made.path))  # takes 0.3 s


@pytest.fixture(scope="module")
def kept(shared):
    """One window for the many commands whose output is compared."""
    with Window(shared, "kept") as made:
        made.run("PS1='prompt> '; PS2='more> '")
        yield made


def beside(window, command, **fields):
    """run() in a thread, with a separate connection."""
    client = Client(window.sandbox.client.url, window.sandbox.client.key)
    other = Window(window.sandbox, window.name)
    return in_thread(lambda: other._answer(client.call("POST", other.path + "/run",
                                                       dict(fields, command=command))))


# -- the answer -----------------------------------------------------------------------------------

def test_first_use_makes_it(window):
    first = window.run("echo one; exit_code() { return 3; }; exit_code")
    assert first["made"] is True and first["cancelled"] is False and first["state"] == "exited"
    assert (first["out"], first["exit_code"], first["reason"]) == (b"one\n", 3, "exited")
    assert first["window"] == window.name and first["run"] == 1 and first["process_id"] > 0
    assert first["gap_bytes"] == 0 and first["truncated"] is False and first["duration_ms"] >= 0
    second = window.run("echo two")
    assert second["made"] is False and second["run"] == 2
    assert second["process_id"] == first["process_id"]
    assert second["cursor"] == first["cursor"] + 4, "the cursor counts the window's output"


OUTPUTS = [
    ("true", b""), ("echo x", b"x\n"), ("printf x", b"x"), ("printf ''", b""), ("printf '\\n'", b"\n"),
    ("printf '\\n\\n'", b"\n\n"), ("printf ' x '", b" x "), ("echo a; echo b >&2; echo c", b"a\nb\nc\n"),
    ("printf '\\0\\377\\r\\n\\t\\001\\033[31m\\007'", b"\0\xff\r\n\t\x01\x1b[31m\x07"),
    ("printf 'gr\\303\\274n'", "grün".encode()), ("echo one\necho two", b"one\ntwo\n"),
    ("for i in 1 2 3\ndo\n  echo $i\ndone", b"1\n2\n3\n"),
    ("cat <<E\nhere $((1+1))\n  doc\nE", b"here 2\n  doc\n"), ("cat <<'E'\n$x `y`\nE\n", b"$x `y`\n"),
    ("echo 'it''s'; echo \"a\\\"b\"; echo \\\\", b"its\na\"b\n\\\n"), ("echo '", None), ("if true; then", None),
    (")", None), ("echo a #comment", b"a\n"), ("#comment", b""), ("echo '!' !! '$!'", b"! !! $!\n"),
    ("echo '\t tab'", b"\t tab\n"), ("echo \"$(printf '%s\\n' a b)\"", b"a\nb\n"), ("( exit 4 )", b""),
    ("echo a && echo b || echo c", b"a\nb\n"), ("seq 1 5000", b"".join(b"%d\n" % i for i in range(1, 5001))),
    ("printf '%s' \"$PS1\"", b"prompt> "), ("echo $-", None), ("set | head -0", b""), ("  echo lead", b"lead\n"),
    ("echo trail   \n\n\n", b"trail\n"), ("echo\\\n joined", b"joined\n"), ("echo $LINENO >/dev/null", b""),
    ("{ echo grouped; }", b"grouped\n"), ("coproc cat; kill $COPROC_PID; wait 2>/dev/null", None),
    ("printf 'prompt> '", b"prompt> "), ("eval 'echo evaluated'", b"evaluated\n"),
    ("bash -c 'echo child'", b"child\n"), ("echo $'\\e]133;C\\a'", b"\x1b]133;C\x07\n"),
    ("head -c 60000 /dev/zero | tr '\\0' y", b"y" * 60000), ("echo ünï", "ünï\n".encode()),
    ("echo before; false; echo after $?", b"before\nafter 1\n"), ("x=5 y=6; echo $x$y", b"56\n"),
    ("f() {\n echo in f\n}\nf", b"in f\n"), ("case x in x) echo case;; esac", b"case\n"),
    ("alias hi='echo hello'\nhi", None), ("stty size | wc -w", b"2\n"), ("history | wc -l | tr -d ' '", None),
]


@pytest.mark.parametrize("command,out", OUTPUTS, ids=[c[:25].encode("unicode_escape").decode() for c, _ in OUTPUTS])
def test_output_is_the_commands_own(kept, command, out):
    """No prompt, no echo, no marker; and the window still works afterwards."""
    answer = kept.run(command, max_output_bytes=1 << 20)
    assert answer["state"] == "exited", answer
    if out is not None:
        assert answer["out"] == out
    for leak in (b"prompt> ", b"more> ", b"CAY", b"cay_", b"__", b"PS1", b"PROMPT"):
        assert leak not in answer["out"] or leak in (out or b""), answer
    after = kept.run("echo fine")
    assert after["out"] == b"fine\n" and after["exit_code"] == 0 and after["made"] is False


@pytest.mark.parametrize("command", ["echo '", "if true; then", ")", "cat <<E\nnever ends", "echo $((", "((", "a='"])
def test_syntax_errors(kept, command):
    """An error of the command, not a window that waits for the rest of it."""
    answer = kept.run(command, wait_ms=3000)
    assert answer["state"] == "exited" and kept.run("echo next")["out"] == b"next\n", answer
    if not command.startswith("cat"):
        assert answer["exit_code"] not in (0, None) and answer["out"], "bash says what is wrong"


# -- state ----------------------------------------------------------------------------------------

def test_state_persists(window):
    window.run("cd /usr/lib; x='a b'; export Y=z; f() { echo \"f $1\"; }; alias ll='echo aliased'; set -o noclobber; umask 027")
    assert window.run("pwd; echo \"$x\"; bash -c 'echo $Y'; f 1")["out"] == b"/usr/lib\na b\nz\nf 1\n"
    assert window.run("ll")["out"] == b"aliased\n"
    assert window.run("umask; [[ -o noclobber ]] && echo kept")["out"] == b"0027\nkept\n"
    assert window.run("cd -")["out"].endswith(b"\n") and window.run("pwd")["out"] != b"/usr/lib\n"
    window.run("arr=(1 2 3); trap 'echo trapped' USR1; kill -USR1 $$")
    assert window.run("echo ${#arr[@]}; kill -USR1 $$")["out"] == b"3\ntrapped\n"


def test_exit_codes(window):
    assert window.run("false")["exit_code"] == 1
    assert window.run("echo $?")["out"] == b"1\n", "$? is the last command's, not ours"
    assert window.run("true; echo $?")["out"] == b"0\n"
    assert window.run("(exit 42)")["exit_code"] == 42
    assert window.run("echo $?")["out"] == b"42\n"
    assert window.run("no-such-program-here")["exit_code"] == 127
    assert window.run("bash -c 'kill -TERM $$'")["exit_code"] == 143
    assert window.run("false | true")["exit_code"] == 0
    assert window.run("set -o pipefail; false | true")["exit_code"] == 1
    window.run("echo a b c >/dev/null")
    assert window.run("echo ${PIPESTATUS[0]} $_")["exit_code"] == 0


def test_set_e_and_u_are_the_users_own(window):
    window.run("set -u")
    assert window.run("echo $not_set_anywhere")["exit_code"] != 0
    assert window.run("set +u; echo ${not_set_anywhere-empty}")["out"] == b"empty\n"


def test_a_trace_shows_only_the_users_own(window):
    """set -x stays on, and none of our steps is traced; the shell's state is the user's."""
    window.run("false; x=5")
    first = window.run("set -x; echo one; (exit 4)")
    assert first["exit_code"] == 4
    traced = window.run("echo $? $x")
    assert traced["out"].lstrip(b"+") == b" echo 4 5\n4 5\n"
    assert window.run("sleep 60", wait_ms=100)["out"].lstrip(b"+") == b" sleep 60\n"
    assert window.run("echo two")["out"].lstrip(b"+") == b" echo two\ntwo\n", "also after a cancel"
    window.run("set +x")
    assert window.run("echo three; [[ $- == *x* ]] || echo off")["out"] == b"three\noff\n"


def test_exit_closes_the_window(window):
    window.run("x=1")
    answer = window.run("echo bye; exit 3")
    assert (answer["out"], answer["exit_code"], answer["state"]) == (b"bye\n", 3, "exited")
    again = window.run("echo ${x-new}")
    assert again["made"] is True and again["out"] == b"new\n", "the next run has a new shell"


def test_first_use_options(shared, needs):
    with Window(shared, "options") as made:
        answer = made.run("pwd; echo $A", cwd="/usr", env={"A": "given"})
        assert answer["out"] == b"/usr\ngiven\n"
        needs("isolat")
    with Window(shared, "options") as made:
        assert made.run("id -un", user="root")["out"] == b"root\n"


# -- busy windows ---------------------------------------------------------------------------------

def test_wait_and_read(window):
    answer = window.run("echo begun; sleep 0.5; echo done; (exit 6)", wait_ms=100)
    assert answer["state"] == "running" and answer["exit_code"] is None and answer["out"] == b"begun\n"
    row = window.row()
    assert row["state"] == "busy" and row["run"] == 1 and row["process_id"] == answer["process_id"]
    assert window.read()["state"] == "busy"
    row = window.wait_idle()
    assert row["exit_code"] == 6 and row["reason"] == "exited"
    rest = window.read(cursor=answer["cursor"])
    assert rest["out"] == b"done\n" and rest["exit_code"] == 6 and rest["gap_bytes"] == 0
    assert window.read()["out"] == b"begun\ndone\n", "without a cursor: from the last run's start"
    assert window.read(cursor=rest["cursor"])["out"] == b""
    assert window.read(cursor=answer["cursor"], max_bytes=2)["out"] == b"do"
    with pytest.raises(ApiError) as caught:
        window.read(cursor=rest["cursor"] + 1)
    assert caught.value.status == 400 and "cursor" in caught.value.error["message"]


def test_wait_zero_returns_at_once(window):
    window.run("true")
    begin = time.monotonic()
    answer = window.run("sleep 5", wait_ms=0)
    assert answer["state"] == "running" and time.monotonic() - begin < 1 * tree.SLACK


def test_cut_output(window):
    answer = window.run("seq 1 1000", max_output_bytes=100)
    whole = b"".join(b"%d\n" % i for i in range(1, 1001))
    assert answer["truncated"] is True and answer["state"] == "exited" and len(answer["out"]) == 100
    assert answer["out"] in whole
    assert window.read(max_bytes=1 << 20)["out"] == whole, "the rest is read by cursor"


def test_run_cancels_what_runs(window):
    mark = marker()
    window.run("kept=1")
    first = beside(window, f"echo begun; bash -c 'exec -a {mark} sleep 300'; echo never", wait_ms=20000)
    wait_for(lambda: alive_inside(window.sandbox, f"^{mark}"))
    answer = window.run("echo second $kept")
    assert answer["cancelled"] is True and answer["made"] is False and answer["out"] == b"second 1\n"
    assert answer["exit_code"] == 0
    ended = first.result()
    assert ended["out"].startswith(b"begun\n") and b"never" not in ended["out"]
    assert ended["state"] == "exited" and ended["exit_code"] not in (0, None)
    wait_for(lambda: not alive_inside(window.sandbox, f"^{mark}"))


@pytest.mark.parametrize("command", [
    "while :; do sleep 0.1; done", "while :; do :; done", "cat", "read x", "python3 -c 'import time; time.sleep(99)'",
    "bash -c 'trap \"\" INT; while :; do sleep 0.1; done'", "bash -c 'trap \"\" INT TERM QUIT HUP; while :; do sleep 0.1; done'",
    "stty raw -isig; sleep 99", "sleep 99 | sleep 98", "(trap '' INT; sleep 97; sleep 96)", "yes", "bash", "wait & sleep 99; wait",
], ids=["loop", "spin", "cat", "read", "python", "ignores-int", "ignores-all", "raw-tty", "pipeline", "subshell",
        "floods", "inner-shell", "wait"])
def test_any_command_can_be_cancelled(window, command):
    window.run("cd /usr; kept=1")
    window.run(command, wait_ms=150)
    answer = window.run("pwd; echo $kept", wait_ms=20000)
    assert answer["cancelled"] is True and answer["state"] == "exited"
    assert answer["out"] == b"/usr\n1\n" and answer["made"] is False, "the shell lived on"


def test_background_jobs_survive_a_cancel(window):
    mark = marker()
    window.run(f"bash -c 'exec -a {mark} sleep 300' >/dev/null 2>&1 &")
    window.run("sleep 300", wait_ms=100)
    assert window.run("echo next")["cancelled"] is True
    assert len(alive_inside(window.sandbox, f"^{mark}")) == 1
    assert mark.encode() in window.run("jobs")["out"]
    window.run("kill %1; wait")


def test_background_output_is_not_lost(window):
    """Background output belongs to the window; between runs it is read by cursor."""
    answer = window.run("(sleep 0.3; echo late) & echo now")
    assert answer["out"].endswith(b"now\n")
    wait_for(lambda: b"late\n" in window.read(cursor=answer["cursor"])["out"])


def test_input(window):
    window.run("read -p 'name? ' name; echo \"hello $name\"", wait_ms=200)
    wait_for(lambda: window.read()["out"].startswith(b"name? "))
    window.input("wörld\n")
    window.wait_idle()
    assert window.read()["out"].endswith("hello wörld\n".encode())
    assert window.run("echo $name")["out"] == "wörld\n".encode()
    window.run("cat", wait_ms=100)
    window.input(b"line\n")
    wait_for(lambda: b"line\n" in window.read()["out"])
    window.input(b"\x04")
    assert window.wait_idle()["exit_code"] == 0
    with pytest.raises(ApiError) as caught:
        window.input("echo sneaked in\n")
    assert caught.value.status == 409 and caught.value.code == "wrong_state"
    assert "run" in caught.value.error["message"] + (caught.value.error.get("hint") or "")


def test_early_input_does_not_become_a_command(window):
    window.run("sleep 0.4", wait_ms=50)
    window.input("echo LEAKED\n")
    window.wait_idle()
    time.sleep(0.1)
    assert b"LEAKED\n" not in window.run("echo clean")["out"].replace(b"echo LEAKED\n", b"")


def test_parallel(shared):
    with Window(shared, "p1") as one, Window(shared, "p2") as two, Window(shared, "p3") as three:
        begin = time.monotonic()
        started = [beside(w, f"sleep 0.5; echo {w.name}") for w in (one, two, three)]
        for window, running in zip((one, two, three), started):
            assert running.result()["out"] == f"{window.name}\n".encode()
        assert time.monotonic() - begin < 1.4 * tree.SLACK, "they waited for each other"


def test_racing_runs_in_one_window(window):
    """Each request gets a reply with its own run; the last one ended by itself."""
    window.run("true")
    racing = [beside(window, f"sleep 0.3; echo r{n}", wait_ms=20000) for n in range(6)]
    answers = [r.result() for r in racing]
    assert sorted(a["run"] for a in answers) == list(range(2, 8))
    last = max(answers, key=lambda a: a["run"])
    assert last["exit_code"] == 0 and last["out"].startswith(b"r")
    assert window.run("echo sane")["out"] == b"sane\n"


# -- the list, the end ----------------------------------------------------------------------------

def test_list_and_close(shared):
    before = {w["name"] for w in windows(shared)}
    a, b = Window(shared, "list-a"), Window(shared, "list-b")
    a.run("echo x")
    b.run("sleep 300", wait_ms=0)
    rows = {w["name"]: w for w in windows(shared)}
    assert {"list-a", "list-b"} <= set(rows) and not before & {"list-a", "list-b"}
    assert rows["list-a"]["state"] == "idle" and rows["list-a"]["exit_code"] == 0 and rows["list-a"]["run"] == 1
    assert rows["list-a"]["cursor"] == 2 and rows["list-a"]["begin"] == 0 and rows["list-a"]["idle_sec"] >= 0
    assert rows["list-b"]["state"] == "busy" and rows["list-b"]["exit_code"] is None
    a.close()
    b.close()
    assert not {w["name"] for w in windows(shared)} & {"list-a", "list-b"}
    for call in (a.close, a.read, lambda: a.input("x")):
        with pytest.raises(ApiError) as caught:
            call()
        assert caught.value.status == 404 and caught.value.code == "window_not_found"


def test_closing_ends_what_runs(shared):
    mark = marker()
    window = Window(shared, "closing")
    window.run(f"bash -c 'exec -a {mark} sleep 300' & bash -c 'trap \"\" HUP TERM; exec -a {mark} sleep 300'", wait_ms=50)
    wait_for(lambda: len(alive_inside(shared, f"^{mark}")) == 2)
    window.close()
    wait_for(lambda: not alive_inside(shared, f"^{mark}"), 8)


def test_windows_and_processes_are_distinct(shared, window):
    answer = window.run("echo x")
    path = f"/v1/sandboxes/{shared.id}/processes"
    rows = {p["process_id"]: p for p in shared.client.call("GET", path)["data"]}
    assert rows[answer["process_id"]]["window"] == window.name and rows[answer["process_id"]]["tty"] is True
    with spawn(shared, ["sleep", "300"], name=window.name) as process:
        assert process.get()["window"] is None, "names of processes and windows are different things"
        assert window.run("echo y")["out"] == b"y\n"


def test_long_command_and_env(window):
    """64 KiB of command do not pass through the terminal's line discipline of 4 KiB."""
    text = "x" * 65000
    assert window.run(f"v={text}; echo ${{#v}}")["out"] == b"65000\n"
    lines = "\n".join(f"v{i}={i}" for i in range(3000))
    assert window.run(lines + "\necho $v2999")["out"] == b"2999\n"


def test_overrun_is_counted(window):
    answer = window.run("head -c 3000000 /dev/zero | tr '\\0' z; echo; echo END", wait_ms=10000)
    assert answer["state"] == "exited" and answer["truncated"] is True
    read = window.read(max_bytes=1 << 20)
    assert read["gap_bytes"] + len(read["out"]) == 3000005 and read["out"].endswith(b"z\nEND\n")
    assert read["gap_bytes"] > 0


def test_window_survives_the_client(shared, window):
    window.run("kept=1")
    beside(window, "echo a; sleep 0.3; echo b", wait_ms=5000)  # its thread is not joined
    wait_for(lambda: window.row()["state"] == "busy")
    window.wait_idle()
    assert window.read()["out"] == b"a\nb\n" and window.run("echo $kept")["out"] == b"1\n"
