# SPDX-License-Identifier: Apache-2.0
"""Snapshots, restore and fork through the API: their content, and the independence of copies."""

import time

import pytest

from lib.client import ApiError


@pytest.fixture(autouse=True)
def can_snapshot(needs):
    needs("snapshot")


@pytest.fixture
def forget(api):
    """Deletes the snapshots that a test made."""
    made = []
    yield made.append
    for row in made:
        try:
            api.call("DELETE", f"/v1/snapshots/{row['id']}")
        except ApiError as error:
            assert error.status == 404


def take(sandbox, **body):
    return sandbox.client.call("POST", f"/v1/sandboxes/{sandbox.id}/snapshots", body)


def test_restore_in_place(api, engine, forget):
    with api.sandbox(engine=engine, env={"K": "v"}) as sandbox:
        sandbox.exec("echo one > file; mkdir d; echo x > d/x").ok()
        row = take(sandbox, comment="first")
        forget(row)
        assert row["sandbox_id"] == sandbox.id and row["memory_preserved"] is False
        assert row["comment"] == "first" and row["size_bytes"] >= 0
        sandbox.exec("echo two > file; rm -r d; nohup sleep 62.1 >/dev/null 2>&1 &").ok()
        back = api.call("POST", f"/v1/sandboxes/{sandbox.id}/restore", {"snapshot_id": row["id"]})
        assert back["id"] == sandbox.id and back["state"] == "running"
        result = sandbox.exec("cat file d/x; echo $K; pgrep -fc 'sleep 62[.]1'; hostname")
        assert result.stdout == f"one\nx\nv\n0\n{sandbox.id}\n"


def test_new_sandboxes_from_one(api, engine, forget):
    with api.sandbox(engine=engine, memory_mb=256) as sandbox:
        sandbox.exec("echo data > file").ok()
        row = take(sandbox)
        forget(row)
    with api.sandbox(snapshot_id=row["id"]) as first, api.sandbox(snapshot_id=row["id"]) as second:
        assert first.row["boot_path"] == "snapshot" and first.row["memory_mb"] == 256
        first.exec("echo mine > file").ok()
        assert second.exec("cat file").stdout == "data\n"
        ids = {s.exec("cat /etc/machine-id").stdout for s in (first, second)}
        assert len(ids) == 2
        api.call("DELETE", f"/v1/snapshots/{row['id']}")
        assert first.exec("cat file").stdout == "mine\n"
        assert second.exec("cat file; echo more >> file").stdout == "data\n"


def test_lists(api, engine, forget):
    with api.sandbox(engine=engine) as sandbox:
        rows = [take(sandbox, comment=str(i)) for i in range(3)]
        for row in rows:
            forget(row)
        found = api.call("GET", f"/v1/sandboxes/{sandbox.id}/snapshots")["data"]
        assert [r["comment"] for r in found] == ["2", "1", "0"]
        assert api.call("GET", f"/v1/snapshots/{rows[0]['id']}") == rows[0]
        take_last = take(sandbox, keep_last=2)
        forget(take_last)
        found = api.call("GET", f"/v1/snapshots?sandbox_id={sandbox.id}")["data"]
        assert [r["id"] for r in found] == [take_last["id"], rows[2]["id"]]


def test_fork(api, engine):
    """Children have the files and the settings, and their own randomness and identity."""
    children = []
    with api.sandbox(engine=engine, metadata={"team": "a"}) as source:
        source.exec("echo shared > file").ok()
        counter = api.call("POST", f"/v1/sandboxes/{source.id}/processes", {"command": "sleep 62.3"})
        try:
            begun = time.monotonic()
            answer = api.call("POST", f"/v1/sandboxes/{source.id}/fork", {"count": 10, "name": "kid"})
            took = time.monotonic() - begun
            children = [c["id"] for c in answer["data"]]
            assert len(set(children)) == 10, answer
            print(f"10 children in {took:.3f} s")
            seen = set()
            for i, child in enumerate(answer["data"]):
                assert child["boot_path"] == "fork" and child["metadata"] == {"team": "a"}
                assert child["name"] == f"kid-{i + 1}"
                out = api.exec(child["id"], "cat file; hostname; od -An -N8 -tx8 /dev/urandom; cat /etc/machine-id "
                               "/proc/sys/kernel/random/boot_id; pgrep -fc 'sleep 62[.]3'").stdout.split("\n")
                assert out[0] == "shared" and out[1] == child["id"] and out[5] == "0"
                seen.update(out[2:5])
            assert len(seen) == 30, "every child draws its own numbers and has its own ids"
            state = api.call("GET", f"/v1/sandboxes/{source.id}/processes/{counter['process_id']}")["state"]
            assert state == "running", "the source went on"
        finally:
            for child in children:
                api.delete(child)


def test_fork_of_a_hibernated_one(api, engine):
    with api.sandbox(engine=engine) as source:
        source.exec("echo kept > file").ok()
        api.call("POST", f"/v1/sandboxes/{source.id}/pause", {"kind": "hibernate"})
        child = api.call("POST", f"/v1/sandboxes/{source.id}/fork", {})["data"][0]
        try:
            assert api.exec(child["id"], "cat file").stdout == "kept\n"
            assert api.get(source.id)["state"] == "paused"
        finally:
            api.delete(child["id"])


def test_survives_the_daemon(api, engine, engines_daemon, forget):
    with api.sandbox(engine=engine) as sandbox:
        sandbox.exec("echo kept > file").ok()
        row = take(sandbox)
        forget(row)
    old = engines_daemon.kill("cayd")
    until = time.monotonic() + 10
    while engines_daemon.pids().get("cayd") in (old, None) and time.monotonic() < until:
        time.sleep(0.02)
    fresh = engines_daemon.wait_ready()
    api.close()
    assert fresh.call("GET", f"/v1/snapshots/{row['id']}") == row
    with fresh.sandbox(snapshot_id=row["id"]) as sandbox:
        assert sandbox.exec("cat file").stdout == "kept\n"
