# SPDX-License-Identifier: Apache-2.0
"""Processes that no listed process is an ancestor of: visible and killable, also after a fork bomb."""

import pytest

from lib.client import ApiError
from lib.commands import alive_inside, marker, spawn, wait_for

# It leaves the list at once and keeps the sandbox at its limit of processes.
FULL = ("import os, time\n"
        "os.fork() and os._exit(0)\n"
        "while True:\n"
        "    try:\n"
        "        os.fork() or (time.sleep(600), os._exit(0))\n"
        "    except OSError:\n"
        "        time.sleep(0.05)\n")
# Each process starts two more and ends, so nothing that was started through the API stays.
BOMB = ("import os, time\n"
        "while True:\n"
        "    time.sleep(0.1)  # not for the processors: this is about processes\n"
        "    try:\n"
        "        os.fork() and os.fork() and os._exit(0)\n"
        "    except OSError:\n"
        "        pass\n")


def listed(sandbox):
    return sandbox.client.call("GET", f"/v1/sandboxes/{sandbox.id}/processes")


def kill_all(sandbox):
    sandbox.client.call("DELETE", f"/v1/sandboxes/{sandbox.id}/processes")


def leave(sandbox, mark, count=1):
    """Orphans with this name: their parent has ended."""
    one = f"(setsid bash -c 'exec -a {mark} sleep 600' </dev/null >/dev/null 2>&1 &)"
    sandbox.exec("; ".join([one] * count)).ok()
    return wait_for(lambda: len(found := [o for o in listed(sandbox)["orphans"]
                                          if o["command"].startswith(mark)]) == count and found)


def test_orphans_are_listed(shared):
    mark = marker()
    row = leave(shared, mark)[0]
    assert row["id"] == f"pid:{row['pid']}" and row["command"].startswith(mark), row
    assert row["user"] and row["started_at"].startswith("20"), row
    shared.client.call("DELETE", f"/v1/sandboxes/{shared.id}/processes/{row['id']}")
    wait_for(lambda: not alive_inside(shared, f"^{mark}"))
    assert not [o for o in listed(shared)["orphans"] if mark in o["command"]]


def test_children_of_listed_processes_are_not_orphans(shared):
    mark = marker()
    with spawn(shared, f"bash -c 'exec -a {mark} sleep 600'; true"):
        wait_for(lambda: alive_inside(shared, f"^{mark}"))
        assert not [o for o in listed(shared)["orphans"] if mark in o["command"]]


def test_signal_by_pid(shared):
    mark = marker()
    row = leave(shared, mark)[0]
    path = f"/v1/sandboxes/{shared.id}/processes/{row['id']}/signal"
    shared.client.call("POST", path, {"signal": "STOP"})
    wait_for(lambda: shared.exec(f"cut -d' ' -f3 /proc/{row['pid']}/stat").stdout.strip() in ("T", ""))
    shared.client.call("POST", path, {"signal": "KILL"})
    wait_for(lambda: not alive_inside(shared, f"^{mark}"))
    with pytest.raises(ApiError) as refused:
        shared.client.call("POST", path, {"signal": "TERM"})
    assert refused.value.code == "process_not_found"


@pytest.mark.parametrize("pid", ["pid:1", "pid:2147483647", "pid:0", "pid:-1", "pid:", "pid:1x", "pid:99999999999"])
def test_pids_that_cannot_be_killed(shared, pid):
    """The agent, processes of the host, and what is no pid."""
    with pytest.raises(ApiError) as refused:
        shared.client.call("DELETE", f"/v1/sandboxes/{shared.id}/processes/{pid}")
    assert refused.value.status == 404, refused.value
    shared.exec("true").ok()


def test_delete_by_pid_ends_the_tree(shared):
    mark = marker()
    shared.exec(f"(setsid bash -c 'exec -a {mark} bash -c \"for i in 1 2 3; do bash -c \\\"exec -a {mark} sleep 600\\\" & "
                f"done; wait\"' </dev/null >/dev/null 2>&1 &)").ok()
    wait_for(lambda: len(alive_inside(shared, f"^{mark}")) == 4)
    top = wait_for(lambda: [o for o in listed(shared)["orphans"] if mark in o["command"]])
    parents = [o for o in top if "for i in" in o["command"]]
    assert len(top) == 4 and len(parents) == 1, top
    shared.client.call("DELETE", f"/v1/sandboxes/{shared.id}/processes/{parents[0]['id']}")
    wait_for(lambda: not alive_inside(shared, f"^{mark}"))


def test_kill_all_ends_everything_and_nothing_else(api, engine):
    mark = marker()
    with api.sandbox(engine=engine) as sandbox:
        sandbox.exec("echo kept > file").ok()
        leave(sandbox, mark, 3)
        process = spawn(sandbox, f"bash -c 'exec -a {mark} sleep 600'; true", name="web")
        process.client.call("POST", f"/v1/sandboxes/{sandbox.id}/windows/w/run",
                            {"command": f"(exec -a {mark} sleep 600) & true"})
        kill_all(sandbox)
        answer = listed(sandbox)
        assert answer["orphans"] == [], answer
        rows = {row["process_id"]: row for row in answer["data"]}
        assert rows[process.id]["reason"] == "killed_by_request" and rows[process.id]["state"] == "exited", rows
        assert not [row for row in answer["data"] if row["state"] == "running"], answer
        assert not alive_inside(sandbox, f"^{mark}")
        assert sandbox.exec("cat file").ok().stdout == "kept\n"
        kill_all(sandbox)  # nothing is left to kill


def test_after_a_fork_bomb(api, engine, needs):
    """The sandbox is full, its first process has ended: it is seen, ended and works again."""
    needs("pids")
    with api.sandbox(engine=engine) as sandbox:
        spawn(sandbox, ["python3", "-c", FULL])
        wait_for(lambda: len(listed(sandbox)["orphans"]) > 100, timeout=20)

        def blocked():
            try:
                sandbox.exec("true", timeout_sec=10)
            except ApiError as error:
                return error
            return None
        refused = wait_for(blocked, timeout=10)
        assert refused.code == "quota_exceeded" and "DELETE processes" in str(refused), refused
        kill_all(sandbox)
        assert sandbox.exec("echo works").ok().stdout == "works\n"
        assert listed(sandbox)["orphans"] == []


def test_while_a_fork_bomb_runs(api, engine, needs):
    """One request ends all of them, however fast they fork."""
    needs("pids")
    with api.sandbox(engine=engine) as sandbox:
        spawn(sandbox, ["python3", "-c", BOMB])
        wait_for(lambda: api.call("GET", f"/v1/sandboxes/{sandbox.id}/metrics")["pids"] > 20, timeout=20)
        listed(sandbox)  # answers, with what can be found in a second
        kill_all(sandbox)
        assert sandbox.exec("echo works").ok().stdout == "works\n"
        assert listed(sandbox)["orphans"] == []


# -- descendants of a process that has ended -------------------------------------------------------

def left_behind(sandbox, mark, ignore_term=False):
    trap = "trap \"\" TERM; " if ignore_term else ""
    process = spawn(sandbox, f"bash -c '{trap}exec -a {mark} sleep 600' </dev/null >/dev/null 2>&1 & "
                             f"setsid bash -c '{trap}exec -a {mark} sleep 600' </dev/null >/dev/null 2>&1 & "
                             f"sleep 0.2")
    wait_for(lambda: process.get()["state"] == "exited" and len(alive_inside(sandbox, f"^{mark}")) == 2)
    return process


@pytest.mark.parametrize("ignore_term", [False, True])
def test_delete_of_an_ended_process_ends_its_children(shared, ignore_term):
    mark = marker()
    process = left_behind(shared, mark, ignore_term)
    shared.client.call("DELETE", process.path)
    wait_for(lambda: not alive_inside(shared, f"^{mark}"))
    with pytest.raises(ApiError):
        process.get()


def test_signals_reach_the_children_of_an_ended_process(shared):
    mark = marker()
    process = left_behind(shared, mark)
    shared.client.call("POST", process.path + "/signal", {"signal": "TERM"})
    wait_for(lambda: not alive_inside(shared, f"^{mark}"))
    with pytest.raises(ApiError) as refused:
        shared.client.call("POST", process.path + "/signal", {"signal": "TERM"})
    assert refused.value.code == "wrong_state"
    shared.client.call("DELETE", process.path)


def test_children_of_another_process_stay(shared):
    mine, other = marker(), marker()
    process, neighbour = left_behind(shared, mine), left_behind(shared, other)
    shared.client.call("DELETE", process.path)
    wait_for(lambda: not alive_inside(shared, f"^{mine}"))
    assert len(alive_inside(shared, f"^{other}")) == 2
    shared.client.call("DELETE", neighbour.path)
    wait_for(lambda: not alive_inside(shared, f"^{other}"))
