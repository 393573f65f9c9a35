# SPDX-License-Identifier: Apache-2.0
"""Rejected requests: invalid input by field name, and every limit just below, at and above."""

import time

import pytest

from lib.client import ApiError, Client
from lib.commands import Window, exec_stream, processes, spawn, wait_for, windows
from lib.counted import expected, writer
from lib.daemon import Daemon
from lib.terminal import Terminal

PROCESSES, WINDOWS, STREAMS, RING, KEEP_SEC = 4, 2, 5, 65536, 1
SMALL = {"CAY_PROCESSES_PER_SANDBOX": PROCESSES, "CAY_WINDOWS_PER_SANDBOX": WINDOWS,
         "CAY_STREAMS_PER_KEY": STREAMS, "CAY_OUTPUT_RING_BYTES": RING, "CAY_OUTPUT_KEEP_SEC": KEEP_SEC}
ROUTES = ("exec", "exec/stream", "processes")

BAD = [
    ({}, "command"),
    ({"command": ""}, "command"),
    ({"argv": []}, "argv"),
    ({"argv": [""]}, "argv"),
    ({"argv": ["true", 7]}, "argv"),
    ({"argv": "true"}, "argv"),
    ({"command": ["true"]}, "command"),
    ({"command": "true", "argv": ["true"]}, "argv"),
    ({"command": "tr\0ue"}, "command"),
    ({"argv": ["echo", "a\0b"]}, "argv"),
    ({"command": "true", "env": {"A": "x\0y"}}, "env"),
    ({"command": "true", "env": {"A=B": "x"}}, "env"),
    ({"command": "true", "env": {"": "x"}}, "env"),
    ({"command": "true", "env": {"A": 7}}, "env"),
    ({"command": "true", "env": ["A=1"]}, "env"),
    ({"command": "true", "cwd": "/no/such/place"}, "cwd"),
    ({"command": "true", "cwd": "/etc/passwd"}, "cwd"),
    ({"command": "true", "cwd": "/a\0b"}, "cwd"),
    ({"command": "true", "cwd": 7}, "cwd"),
    ({"command": "true", "user": "nobody-by-that-name"}, "user"),
    ({"command": "true", "user": "root\0"}, "user"),
    ({"command": "true", "user": "a:b"}, "user"),
    ({"command": "true", "timeout_sec": -1}, "timeout_sec"),
    ({"command": "true", "timeout_sec": 86401}, "timeout_sec"),
    ({"command": "true", "timeout_sec": "5"}, "timeout_sec"),
    ({"command": "true", "timeout_sec": 1e30}, "timeout_sec"),
    ({"command": "cat", "stdin": "a", "stdin_b64": "YQ=="}, "stdin"),
    ({"command": "cat", "stdin_b64": "no base64!"}, "stdin_b64"),
    ({"command": "true", "no_such_field": 1}, "no_such_field"),
    ({"argv": ["no-such-program"]}, "argv"),
    ({"argv": ["/etc/passwd"]}, "argv"),
    ({"command": "true", "cwd": "no-such-place"}, "cwd"),
    ({"command": "echo " + "x" * 200000}, "command"),
    ({"argv": ["true", "x" * 200000]}, "argv"),
    ({"command": "true", "env": {"A": "x" * (131072 - 2)}}, "env"),
    ({"argv": ["true", "x" * (1 << 20)]}, "argv"),
    ({"argv": ["true"] + ["x" * 1000] * 1050}, "argv"),
    ({"argv": ["true"] + ["x"] * 100000}, "argv"),
    ({"command": "true", "env": {f"K{i}": "v" for i in range(100000)}}, "env"),
]


def shape(value):
    text = str(value)
    return text if len(text) < 60 else text[:40] + "..."


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("body,field", BAD, ids=[shape(b) for b, _ in BAD])
def test_bad_input_names_the_field(shared, route, body, field):
    with pytest.raises(ApiError) as caught:
        shared.client.call("POST", f"/v1/sandboxes/{shared.id}/{route}", body)
    assert caught.value.status == 400, caught.value
    code = {"['no-such-program']": "command_not_found", "['/etc/passwd']": "command_not_executable"}
    assert caught.value.code == code.get(str(body.get("argv")), "invalid_request"), caught.value
    assert field in caught.value.error["message"]


TTY_BAD = [{"cols": 0, "rows": 24}, {"cols": 80, "rows": 4097}, {"cols": "80", "rows": 24}, True,
           {"cols": 80, "rows": 24, "depth": 8}]


@pytest.mark.parametrize("tty", TTY_BAD, ids=[shape(t) for t in TTY_BAD])
def test_bad_terminals(shared, tty):
    with pytest.raises(ApiError) as caught:
        spawn(shared, ["sleep", "9"], tty=tty).delete()
    assert caught.value.status == 400
    assert any(w in caught.value.error["message"] for w in ("tty", "cols", "rows", "depth"))


@pytest.fixture(scope="module")
def sleeper(shared):
    with spawn(shared, "echo 12345; sleep 600") as process:
        wait_for(lambda: process.get()["stdout_cursor"] == 6)
        yield process


@pytest.mark.parametrize("fields,name", [
    ({"cursor": 7}, "cursor"), ({"cursor": "0:1"}, "cursor"), ({"cursor": -1}, "cursor"),
    ({"cursor": "x"}, "cursor"), ({"cursor": "1:2:3"}, "cursor"), ({"cursor": "99999999999999999999999"}, "cursor"),
    ({"cursor": ""}, "cursor"), ({"tail": -1}, "tail"), ({"tail": "1k"}, "tail"), ({"tail": 1, "cursor": 0}, "tail"),
    ({"stream": "stdin"}, "stream"), ({"format": "xml"}, "format"),
    ({"format": "raw", "stream": "both"}, "stream"), ({"follow": "perhaps"}, "follow"), ({"nonsense": 1}, "nonsense")],
    ids=shape)
def test_bad_output_queries(sleeper, fields, name):
    with pytest.raises(ApiError) as caught:
        sleeper.events(**fields).close()
    assert caught.value.status == 400 and name in caught.value.error["message"], caught.value


@pytest.mark.parametrize("route,body,name", [
    ("stdin", {}, "data"), ("stdin", {"data": "a", "data_b64": "YQ=="}, "data"), ("stdin", {"data": 7}, "data"),
    ("stdin", {"data_b64": "!"}, "data_b64"), ("signal", {}, "signal"), ("resize", {"cols": 80}, "rows"),
    ("resize", {"cols": 0, "rows": 1}, "cols"), ("resize", {"cols": 80, "rows": 70000}, "rows")])
def test_bad_bodies(sleeper, route, body, name):
    with pytest.raises(ApiError) as caught:
        sleeper.client.call("POST", f"{sleeper.path}/{route}", body)
    assert caught.value.status == 400 and name in caught.value.error["message"], caught.value


def test_no_terminal_to_resize(sleeper):
    with pytest.raises(ApiError) as caught:
        sleeper.resize(80, 24)
    assert caught.value.status in (400, 409) and "tty" in str(caught.value) or "terminal" in str(caught.value)


@pytest.mark.parametrize("body,name", [
    ({}, "command"), ({"command": ""}, "command"), ({"command": "a\0b"}, "command"), ({"command": 7}, "command"),
    ({"command": "true", "wait_ms": -1}, "wait_ms"), ({"command": "true", "wait_ms": 600001}, "wait_ms"),
    ({"command": "true", "max_output_bytes": -1}, "max_output_bytes"), ({"command": "true", "cwd": "/no/such"}, "cwd"),
    ({"command": "true", "user": "nobody-by-that-name"}, "user"), ({"command": "true", "surprise": 1}, "surprise")],
    ids=shape)
def test_bad_window_runs(shared, body, name):
    with pytest.raises(ApiError) as caught:
        shared.client.call("POST", f"/v1/sandboxes/{shared.id}/windows/never-made/run", body)
    assert caught.value.status == 400 and name in caught.value.error["message"], caught.value
    assert "never-made" not in {w["name"] for w in windows(shared)}


@pytest.mark.parametrize("name", ["a%20b", "x" * 65, "%C3%BC", "a%2Fb", "%00", ".", "..", "..."])
def test_bad_window_names(shared, name):
    status, _, body = shared.client.raw("POST", f"/v1/sandboxes/{shared.id}/windows/{name}/run", {"command": "true"})
    assert status == 400 and b"name" in body, (status, body)


def test_largest_that_passes(shared):
    """Just below the rejected sizes everything works."""
    assert shared.exec(["bash", "-c", "echo ${#1}", "x", "y" * 131071]).stdout == "131071\n"
    with Window(shared, "large") as window:
        assert window.run("echo ${#x} #" + "x" * 500000)["out"] == b"0\n"
    assert shared.exec("env | grep -c ^K", env={f"K{i}": "v" for i in range(2000)}).stdout == "2000\n"
    assert shared.exec("true", timeout_sec=86400).exit_code == 0
    with exec_stream(shared, "sleep 0.1; echo x", timeout_sec=0) as events:
        events.until_bytes(b"x\n")
        assert events.until("exit")[-1].data["exit_code"] == 0, "0: no limit"


# -- a daemon with small limits -------------------------------------------------------------------

@pytest.fixture(scope="module")
def small():
    with Daemon(args=["--engine-local"], env={k: str(v) for k, v in SMALL.items()}) as started:
        yield started


@pytest.fixture
def box(small, engine):
    with small.client.sandbox(engine=engine, timeout_sec=600) as sandbox:
        yield sandbox


def quota(call):
    with pytest.raises(ApiError) as caught:
        call()
    assert caught.value.status == 429 and caught.value.code == "quota_exceeded", caught.value
    return caught.value.error["message"]


def test_processes_per_sandbox(box):
    made = [spawn(box, ["sleep", "300"]) for _ in range(PROCESSES)]
    for call in (lambda: spawn(box, ["sleep", "300"]), lambda: box.exec(["true"]),
                 lambda: exec_stream(box, ["true"])):
        assert str(PROCESSES) in quota(call)
    made.pop().delete()
    assert box.exec(["true"]).exit_code == 0, "one gone, one place free"
    made[0].signal("KILL")
    made[0].wait()
    with spawn(box, ["sleep", "300"]), spawn(box, ["sleep", "300"]):
        assert len([p for p in processes(box) if p["state"] == "running"]) == PROCESSES
        assert "process" in quota(lambda: spawn(box, ["sleep", "300"]))


def test_windows_per_sandbox(box):
    made = [Window(box, f"w{n}") for n in range(WINDOWS)]
    for window in made:
        assert window.run("echo x")["out"] == b"x\n"
    assert str(WINDOWS) in quota(lambda: Window(box, "more").run("true"))
    assert made[0].run("echo again")["out"] == b"again\n", "those that are there go on"
    made[0].close()
    assert Window(box, "more").run("echo y")["out"] == b"y\n"


def test_streams_per_key(small, box, api):
    made = small.client.call("POST", "/v1/keys", {"name": "streams", "scopes": ["sandboxes:read", "sandboxes:write", "exec"]})
    client = Client(small.url, made["key"])
    with client.sandbox(engine=box.body["engine"]) as own:
        process = spawn(own, ["sleep", "300"], name="it")
        streams = [process.events(follow=True) for _ in range(STREAMS - 2)]
        streams.append(process.raw(stream="stdout", follow=True))
        streams.append(Terminal(client, process.path + "/attach"))
        quota(lambda: process.events(follow=True))
        quota(lambda: exec_stream(own, ["true"]))
        assert own.exec(["true"]).exit_code == 0, "an exec is no stream"
        assert process.output()["stdout"] == "", "a single look neither"
        with spawn(box, ["sleep", "300"]) as other, other.events(follow=True) as events:
            assert events.headers, "another key has its own"
        streams.pop().close()
        streams.pop(0).cut()

        def again():
            try:
                return [process.events(follow=True), process.events(follow=True)]
            except ApiError as error:
                assert error.status == 429
                return None
        streams += wait_for(again)
        quota(lambda: process.events(follow=True))
        for stream in streams:
            stream.close()
    small.client.call("DELETE", f"/v1/keys/{made['id']}")


@pytest.mark.parametrize("total", [RING - 8, RING, RING + 8])
def test_ring_size(box, total):
    with spawn(box, writer(total)) as process, process.events(follow=True) as events:
        events.until("exit")
        row = process.get()
        lost = max(0, total - RING)
        assert row["stdout_begin"] == lost
        seen = process.collect()
        assert seen.gaps == ([("stdout", lost)] if lost else []) and seen.out == expected(lost, total)


def test_finished_output_is_kept_for_a_while(box):
    process = spawn(box, "echo kept; exit 4")
    process.wait()
    assert process.output()["stdout"] == "kept\n"
    time.sleep(KEEP_SEC * 0.4)
    assert process.get()["exit_code"] == 4

    def forgotten():
        try:
            process.get()
        except ApiError as error:
            return error.status == 404
    wait_for(forgotten, KEEP_SEC + 2)
    assert process.id not in {p["process_id"] for p in processes(box)}
