# SPDX-License-Identifier: Apache-2.0
"""Pause and resume: what is kept, which requests are refused meanwhile, and which resume the sandbox."""

import threading
import time

import pytest

from lib import commands
from lib.client import ApiError

COUNTER = "n=0; while :; do n=$((n+1)); echo $n > /workspace/n; sleep 0.02; done"


@pytest.fixture(autouse=True)
def can_pause(needs):
    needs("pause")


def pause(sandbox, kind="freeze"):
    return sandbox.client.call("POST", f"/v1/sandboxes/{sandbox.id}/pause", {"kind": kind})


def resume(sandbox, **body):
    return sandbox.client.call("POST", f"/v1/sandboxes/{sandbox.id}/resume", body)


def refused(call, *args, **kw):
    with pytest.raises(ApiError) as caught:
        call(*args, **kw)
    return caught.value


def test_frozen_processes_continue(api, engine):
    with api.sandbox(engine=engine) as sandbox:
        api.call("POST", f"/v1/sandboxes/{sandbox.id}/processes", {"command": COUNTER, "name": "counter"})
        until = time.monotonic() + 5
        while not sandbox.exec("cat n 2>/dev/null").stdout and time.monotonic() < until:
            time.sleep(0.05)
        row = pause(sandbox)
        assert (row["state"], row["pause_kind"], row["memory_preserved"]) == ("paused", "freeze", True)
        assert row["expires_at"] is None
        error = refused(sandbox.exec, "true")
        assert error.status == 409 and error.code == "wrong_state"
        before = api.call("GET", f"/v1/sandboxes/{sandbox.id}/metrics")["cpu_us"]
        time.sleep(0.5)
        assert api.call("GET", f"/v1/sandboxes/{sandbox.id}/metrics")["cpu_us"] - before < 20_000
        row = resume(sandbox)
        assert row["state"] == "running" and row["pause_kind"] is None and row["expires_at"]
        first = int(sandbox.exec("cat n").stdout)
        time.sleep(0.3)
        assert int(sandbox.exec("cat n").stdout) > first
        assert [p["name"] for p in api.call("GET", f"/v1/sandboxes/{sandbox.id}/processes")["data"]] == ["counter"]


def test_the_timeout_of_a_command_stops_during_a_freeze(api, engine):
    """The freeze takes as long as the timeout of two commands. It ends neither of them; the second one times out
    afterwards, by its own running time."""
    waits = "while [ ! -e go ]; do sleep 0.05; done; echo gone"
    with api.sandbox(engine=engine) as sandbox:
        for limit in (2, 4, 8, 16, 32):
            sandbox.exec("rm -f go").ok()
            begun = time.monotonic()
            first = commands.spawn(sandbox, waits, timeout_sec=limit)
            second = commands.spawn(sandbox, "sleep 1000", timeout_sec=limit)
            pause(sandbox)
            frozen = time.monotonic()
            time.sleep(limit + 0.5)
            begun += time.monotonic() - frozen
            resume(sandbox)
            states = first.get()["state"], second.get()["state"]
            sandbox.exec("touch go").ok()
            row = first.wait()
            # The commands ran out of time before the freeze: the machine is too slow for this limit, so the test
            # proves nothing.
            if time.monotonic() - begun < limit:
                break
        assert states == ("running", "running")
        assert (row["exit_code"], row["reason"]) == (0, "exited"), row
        assert row["duration_ms"] <= limit * 1000, "time that nobody lived was counted"
        assert second.wait(limit + 10)["reason"] == "timeout"


def test_repeated_pause_and_resume_succeed(api, engine):
    with api.sandbox(engine=engine) as sandbox:
        assert resume(sandbox)["state"] == "running"
        assert pause(sandbox)["state"] == "paused"
        assert pause(sandbox)["state"] == "paused"
        assert resume(sandbox)["state"] == "running"
        assert refused(pause, sandbox, "nap").status == 400


def test_an_exec_in_progress_continues(api, engine):
    """Nothing times out because the agent was silent, however long the freeze took."""
    with api.sandbox(engine=engine) as sandbox:
        results = []
        with_own = type(api)(api.url, api.key)
        thread = threading.Thread(target=lambda: results.append(
            with_own.exec(sandbox.id, "sleep 1; echo done", timeout_sec=30)))
        thread.start()
        time.sleep(0.3)
        pause(sandbox)
        time.sleep(1.5)
        assert thread.is_alive()
        resume(sandbox)
        thread.join(10)
        assert results and results[0].stdout == "done\n"


def test_destroy_while_frozen(api, engine):
    with api.sandbox(engine=engine) as sandbox:
        sandbox.exec("nohup sleep 1000 >/dev/null 2>&1 &")
        pause(sandbox)


def test_auto_resume(api, engine):
    with api.sandbox(engine=engine, auto_resume=True) as sandbox:
        pause(sandbox)
        assert api.get(sandbox.id)["state"] == "paused"
        api.call("GET", f"/v1/sandboxes/{sandbox.id}/processes")
        assert api.get(sandbox.id)["state"] == "running"
        pause(sandbox)
        assert api.call("GET", f"/v1/sandboxes/{sandbox.id}/files/read?path=/etc/hostname")["path"]
        assert api.get(sandbox.id)["state"] == "running"
        pause(sandbox)
        assert sandbox.exec("echo woken").stdout == "woken\n"
        assert api.get(sandbox.id)["state"] == "running"


def test_on_timeout(api, engine):
    with api.sandbox(engine=engine, timeout_sec=1, on_timeout="pause") as sandbox:
        sandbox.wait_state(("paused",))
        row = resume(sandbox, timeout_sec=100)
        assert row["timeout_sec"] == 100


def test_frozen_over_a_restart(api, engine, engines_daemon, needs):
    needs("surviv")
    with api.sandbox(engine=engine) as sandbox:
        sandbox.exec("nohup sleep 61.7 >/dev/null 2>&1 &").ok()
        pause(sandbox)
        old = engines_daemon.kill("cayd")
        until = time.monotonic() + 10
        while engines_daemon.pids().get("cayd") in (old, None) and time.monotonic() < until:
            time.sleep(0.02)
        fresh = engines_daemon.wait_ready()
        api.close()
        assert fresh.get(sandbox.id)["state"] == "paused"
        fresh.call("POST", f"/v1/sandboxes/{sandbox.id}/resume", {})
        assert fresh.exec(sandbox.id, "pgrep -fc 'sleep 61[.]7'").stdout == "1\n"


def test_hibernate(api, engine, needs):
    needs("snapshot")
    with api.sandbox(engine=engine, auto_resume=True) as sandbox:
        sandbox.exec("echo kept > kept; mkdir -p d/e; ln -s ../kept d/l; nohup sleep 61.9 >/dev/null 2>&1 &").ok()
        row = pause(sandbox, "hibernate")
        assert (row["state"], row["pause_kind"], row["memory_preserved"]) == ("paused", "hibernate", False)
        assert sandbox.exec("cat d/l; pgrep -fc 'sleep 61[.]9'").stdout == "kept\n0\n"
        row = api.get(sandbox.id)
        assert row["state"] == "running" and row["id"] == sandbox.id
        assert sandbox.exec("hostname").stdout.strip() == sandbox.id
        sandbox.exec("echo more >> kept").ok()
        pause(sandbox, "hibernate")
        resume(sandbox)
        assert sandbox.exec("cat kept").stdout == "kept\nmore\n"


def test_hibernated_over_a_restart(api, engine, engines_daemon, needs):
    needs("snapshot")
    with api.sandbox(engine=engine) as sandbox:
        sandbox.exec("echo kept > kept").ok()
        pause(sandbox, "hibernate")
        old = engines_daemon.kill("cayd")
        until = time.monotonic() + 10
        while engines_daemon.pids().get("cayd") in (old, None) and time.monotonic() < until:
            time.sleep(0.02)
        fresh = engines_daemon.wait_ready()
        api.close()
        assert fresh.get(sandbox.id)["pause_kind"] == "hibernate"
        fresh.call("POST", f"/v1/sandboxes/{sandbox.id}/resume", {})
        assert fresh.exec(sandbox.id, "cat kept").stdout == "kept\n"


@pytest.mark.parametrize("kind", ["freeze", "hibernate"])
def test_storage_is_metered_from_the_first_second(api, engine, needs, kind):
    """Bytes that the kernel has not written to disk yet count, too."""
    needs("disk")
    if kind == "hibernate":
        needs("snapshot")
    size = 48 << 20
    with api.sandbox(engine=engine) as sandbox:
        sandbox.exec(f"head -c {size} /dev/urandom > data").ok()
        pause(sandbox, kind)

        def bytes_per_second():
            usage = api.call("GET", f"/v1/sandboxes/{sandbox.id}/usage")
            time = usage["paused_seconds"]
            return usage["paused_storage_gib_seconds"] / time * (1 << 30) if time > 0.1 else 0
        # The kernel writes it out after 30 s.
        metered = commands.wait_for(lambda: (got := bytes_per_second()) > size * 0.95 and got, timeout=2)
        assert metered < size * 1.5, metered
