# SPDX-License-Identifier: Apache-2.0
"""What exec promises, on every engine."""

import base64
import os
import time

import pytest

from lib import tree
from lib.client import ApiError


def test_streams_and_status(shared):
    result = shared.exec("echo out; echo err >&2; exit 7")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 7)
    assert result.timed_out is False and result.signal is None
    assert result.body["duration_ms"] >= 0
    assert result.body["stdout_truncated"] is False and result.body["stderr_truncated"] is False


def test_argv_is_not_a_shell(shared):
    assert shared.exec(["/bin/echo", "$HOME", "a b", "*"]).stdout == "$HOME a b *\n"
    assert shared.exec(["echo", "found in PATH"]).stdout == "found in PATH\n"


def test_command_is_a_shell(shared):
    assert shared.exec("x=4; echo $((x * 2)) | tr 8 9").stdout == "9\n"


def test_signal_is_reported(shared):
    result = shared.exec("kill -TERM $$")
    assert result.signal in ("SIGTERM", "TERM", 15), repr(result)
    assert result.exit_code in (None, 143, 128 + 15), repr(result)


def test_timeout_kills_the_group(shared):
    begin = time.monotonic()
    result = shared.exec("echo before; sleep 77 & sleep 77; echo after", timeout_sec=1)
    assert time.monotonic() - begin < 3 * tree.SLACK
    assert result.exit_code == 124 and result.timed_out is True
    assert result.stdout == "before\n"
    time.sleep(0.2)
    assert shared.exec("pgrep -f 'sleep 7[7]'").exit_code == 1, "a member of the group lives on"


def test_background_children_do_not_hold_the_answer(shared):
    begin = time.monotonic()
    result = shared.exec("nohup sleep 5 >/dev/null 2>&1 & echo done")
    assert result.stdout == "done\n" and time.monotonic() - begin < 2 * tree.SLACK


def test_inherited_pipe_does_not_hold_the_answer_for_ever(shared):
    """A daemonised child that keeps stdout open must not hang the call beyond its timeout."""
    begin = time.monotonic()
    result = shared.exec("sleep 20 & echo done", timeout_sec=2)
    assert "done\n" in result.stdout and time.monotonic() - begin < 4 * tree.SLACK


def test_environment(shared):
    assert shared.exec("echo $FROM_CREATE $MORE", env={"MORE": "more"}).stdout == "yes more\n"
    assert shared.exec("echo $FROM_CREATE", env={"FROM_CREATE": "over"}).stdout == "over\n"


def test_no_stray_environment(shared):
    names = {line.split("=")[0] for line in shared.exec(["env"]).stdout.splitlines()}
    assert not [n for n in names if n.startswith(("CAY_STATE", "CAY_WARDEN", "HARNESS"))], names


def test_home_and_workdir(shared, needs):
    needs("isolat")
    assert shared.exec("echo $HOME $USER; pwd").stdout == "/home/sandbox sandbox\n/workspace\n"


@pytest.mark.parametrize("cwd", ["/", "/tmp", "/usr/bin"])
def test_cwd(shared, cwd):
    assert shared.exec("pwd", cwd=cwd).stdout.strip() == cwd


def test_missing_cwd(shared):
    with pytest.raises(ApiError) as caught:
        shared.exec("pwd", cwd="/no/such/place")
    assert caught.value.status == 400 and "cwd" in caught.value.error["message"]


@pytest.mark.parametrize("user,uid,home", [("sandbox", "1000", "/home/sandbox"), ("root", "0", "/root"),
                                           ("user", "1001", "/home/user")])
def test_users(shared, needs, user, uid, home):
    needs("isolat")
    assert shared.exec("id -u; echo $HOME; cd && pwd", user=user).stdout.split() == [uid, home, home]


def test_unknown_user(shared):
    with pytest.raises(ApiError) as caught:
        shared.exec("id", user="nobody-by-that-name")
    assert caught.value.status == 400


def test_stdin(shared):
    assert shared.exec("cat", stdin="hello\nworld").stdout == "hello\nworld"
    assert shared.exec(["wc", "-c"], stdin="x" * 300000).stdout.strip() == "300000"
    assert shared.exec("cat").stdout == "", "without stdin a reader sees the end at once"
    assert shared.exec("echo ignored", stdin="x" * 200000).stdout == "ignored\n"


def test_largest_stdin(shared):
    """All of what is allowed, and one byte more."""
    text = "x" * (4 << 20)
    assert shared.exec(["wc", "-c"], stdin=text).stdout == "4194304\n"
    with pytest.raises(ApiError) as caught:
        shared.exec(["wc", "-c"], stdin=text + "x")
    assert caught.value.status == 413 and "stdin" in caught.value.error["message"]
    with pytest.raises(ApiError) as caught:
        shared.exec(["wc", "-c"], stdin="x" * (11 << 20))
    assert caught.value.status == 413, "the answer arrives although not all of the body was read"


def test_binary_stdin(shared):
    data = os.urandom(5000)
    result = shared.exec("cat", stdin_b64=base64.b64encode(data).decode())
    assert result.out == data


def test_binary_output(shared):
    result = shared.exec(["python3", "-c", "import os;os.write(1,bytes(range(256)));os.write(2,b'\\xff')"])
    assert result.out == bytes(range(256)) and result.err == b"\xff"
    assert "stdout_b64" in result.body and "stderr_b64" in result.body


def test_utf8_comes_as_text(shared):
    result = shared.exec("printf 'gr\\303\\274n \\342\\234\\223'")
    assert result.body["stdout"] == "grün ✓" and "stdout_b64" not in result.body


def test_large_output(shared):
    result = shared.exec("head -c 3000000 /dev/zero | tr '\\0' x", max_output_bytes=4 << 20).ok()
    assert len(result.out) == 3000000 and result.body["stdout_truncated"] is False


def test_truncated_output_is_reported(shared):
    result = shared.exec("head -c 100000 /dev/zero | tr '\\0' x; echo end >&2", max_output_bytes=1000)
    assert result.exit_code == 0 and len(result.out) == 1000
    assert result.body["stdout_truncated"] is True and result.body["stderr_truncated"] is False
    assert result.stderr == "end\n"


def test_not_found(shared):
    for argv in (["/no/such/program"], ["no-such-program"]):
        try:
            result = shared.exec(argv)
            assert result.exit_code == 127, repr(result)
        except ApiError as error:
            assert error.status in (400, 404), error
    assert shared.exec("no-such-program").exit_code == 127
    try:
        assert shared.exec(["/etc/passwd"]).exit_code == 126
    except ApiError as error:
        assert error.status == 400


def test_many_arguments(shared):
    assert shared.exec(["/bin/echo"] + ["word"] * 3000).stdout.count("word") == 3000


def test_parallel(shared):
    import threading
    seen = []
    def one(n):
        seen.append((n, shared.exec(f"sleep 0.2; echo {n}").stdout.strip()))
    threads = [threading.Thread(target=one, args=(n,)) for n in range(12)]
    begin = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=20)
    assert sorted(seen) == sorted((n, str(n)) for n in range(12))
    assert time.monotonic() - begin < 2 * tree.SLACK, "commands waited for each other"


def test_state_lives_between_commands(shared):
    shared.exec("echo kept > file; mkdir -p d; echo 'x=1' > d/more").ok()
    assert shared.exec("cat file d/more").stdout == "kept\nx=1\n"


def test_e2b_prefix_is_the_same_key(api):
    from lib.client import Client
    assert api.key.startswith("cay_")
    assert Client(api.url, "e2b_" + api.key[4:]).raw("GET", "/v1/sandboxes")[0] == 200
    plain = Client(api.url, None)
    assert plain.raw("GET", "/v1/sandboxes", headers={"X-API-Key": api.key})[0] == 200
