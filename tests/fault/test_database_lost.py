# SPDX-License-Identifier: Apache-2.0
"""A database that is missing, empty or replaced by another one: nothing is deleted because of it."""

import os
import shutil

import pytest

from lib.client import Client
from lib.daemon import Daemon

pytestmark = pytest.mark.skipif(os.environ.get("CAY_TEST_STORAGE") == "directory",
                                reason="snapshots need btrfs")
PARTS = ("cay.db", "cay.db-wal", "cay.db-shm")


def post(client, path, **body):
    return client.call("POST", path, body)


def read(client, sandbox):
    return post(client, f"/v1/sandboxes/{sandbox}/exec", command="cat /workspace/kept")["stdout"]


def write(client, sandbox, text):
    post(client, f"/v1/sandboxes/{sandbox}/exec", command=f"printf {text} > /workspace/kept")


def set_aside(state):
    """Moves the database away and returns a function that puts it back."""
    os.mkdir(f"{state}/aside", 0o700)
    for name in PARTS:
        if os.path.exists(f"{state}/{name}"):
            shutil.move(f"{state}/{name}", f"{state}/aside/{name}")

    def back():
        for name in PARTS:
            if os.path.exists(f"{state}/{name}"):
                os.unlink(f"{state}/{name}")
            if os.path.exists(f"{state}/aside/{name}"):
                shutil.move(f"{state}/aside/{name}", f"{state}/{name}")
        os.rmdir(f"{state}/aside")
    return back


def filled(daemon):
    """A running sandbox, a hibernated one and a snapshot, each with its own file."""
    client = daemon.client
    ids = {}
    for name in ("running", "hibernated"):
        ids[name] = client.create(timeout_sec=3600)["id"]
        write(client, ids[name], name)
    post(client, f"/v1/sandboxes/{ids['hibernated']}/pause", kind="hibernate")
    ids["snapshot"] = post(client, f"/v1/sandboxes/{ids['running']}/snapshots")["id"]
    return ids


def not_used(daemon):
    """The daemon answers, is not ready, and says what to do."""
    assert daemon.up(check=False) != 0
    assert "cay recover" in daemon.up_output, daemon.up_output
    client = Client(daemon.url, daemon.key)
    status, _, body = client.raw("GET", "/readyz")
    assert status == 409 and b"another database" in body, (status, body)
    return client


@pytest.fixture
def daemon():
    with Daemon(env={"CAY_POOL": "false"}) as started:
        yield started


@pytest.mark.parametrize("kind", ["gone", "empty"])
def test_put_back(daemon, kind):
    ids = filled(daemon)
    daemon.down("--keep")
    back = set_aside(daemon.state)
    if kind == "empty":
        owner = os.stat(f"{daemon.state}/aside/cay.db")
        open(f"{daemon.state}/cay.db", "w").close()
        os.chown(f"{daemon.state}/cay.db", owner.st_uid, owner.st_gid)
    not_used(daemon)
    daemon.down("--keep")
    back()
    daemon.up()
    client = daemon.client
    assert read(client, ids["running"]) == "running"
    post(client, f"/v1/sandboxes/{ids['hibernated']}/resume")
    assert read(client, ids["hibernated"]) == "hibernated"
    made = client.create(snapshot_id=ids["snapshot"])["id"]
    assert read(client, made) == "running"
    client.call("DELETE", f"/v1/snapshots/{ids['snapshot']}")
    for sandbox in (made, ids["running"], ids["hibernated"]):
        client.delete(sandbox)


def test_recover(daemon):
    ids = filled(daemon)
    daemon.down("--keep")
    set_aside(daemon.state)
    not_used(daemon)
    done = daemon.command("recover")
    assert done.returncode == 0, done
    assert "listed 2 snapshots; saved 1 running sandboxes" in done.stdout
    client = daemon.wait_ready()
    found = {row["sandbox_id"]: row["id"] for row in client.call("GET", "/v1/snapshots")["data"]
             if row["id"] != ids["snapshot"]}
    assert set(found) == {ids["running"], ids["hibernated"]}
    assert client.call("GET", f"/v1/snapshots/{ids['snapshot']}")["template_id"] == "base"
    assert not client.list(), "what ran is a snapshot now"
    for name in ("running", "hibernated"):
        made = client.create(snapshot_id=found[ids[name]])["id"]
        assert read(client, made) == name
        client.delete(made)
    again = daemon.command("recover")
    assert again.returncode != 0 and "nothing to recover" in again.stderr
    daemon.down("--keep")
    daemon.up()  # also after a restart
    for snapshot in (*found.values(), ids["snapshot"]):
        daemon.client.call("DELETE", f"/v1/snapshots/{snapshot}")


def test_empty_engine_is_taken(daemon):
    """The engine holds nothing, so a new database loses nothing."""
    daemon.down("--keep")
    for name in PARTS:
        if os.path.exists(f"{daemon.state}/{name}"):
            os.unlink(f"{daemon.state}/{name}")
    daemon.up()
    daemon.client.delete(daemon.client.create()["id"])
