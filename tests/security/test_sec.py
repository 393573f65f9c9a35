# SPDX-License-Identifier: Apache-2.0
"""Secrets (SEC): where a value may be found, by whom, and when."""

import os
import pathlib
import subprocess
import uuid

import pytest

from lib.client import ApiError
from lib.commands import spawn, wait_for
from lib.daemon import Daemon

VALUE = f"planted-{uuid.uuid4().hex}-secret"


@pytest.fixture(scope="module")
def own():
    """A daemon with a value in its vault, a sandbox that has it, and debug logs."""
    with Daemon(env={"CAY_LOG_LEVEL": "debug"}) as daemon:
        daemon.secret = daemon.client.call("POST", "/v1/secrets", {"name": "PLANTED", "value": VALUE})
        daemon.box = daemon.client.create(secrets=["PLANTED"], timeout_sec=3600)["id"]
        yield daemon


def holders(root, needle):
    """Files of a tree that hold these bytes."""
    found = []
    for path in pathlib.Path(root).rglob("*"):
        if path.is_file() and not path.is_symlink() and path.name != "pool.btrfs" and "pool" not in path.parts:
            if needle in path.read_bytes():
                found.append(str(path))
    return found


def use(daemon):
    """Uses every interface that could write it down."""
    client, box = daemon.client, daemon.box
    client.exec(box, "echo $PLANTED; echo $PLANTED >&2")
    client.exec(box, ["echo", VALUE])
    for body in ({"argv": [VALUE]}, {"command": "x", "user": VALUE}, {"command": "x", VALUE: 1}, {"command": "x", "cwd": VALUE}):
        with pytest.raises(ApiError):
            client.call("POST", f"/v1/sandboxes/{box}/exec", body)
    for method, path, body in (("POST", "/v1/secrets", {"name": "PLANTED", "value": VALUE}),
                               ("POST", "/v1/secrets", {"name": "bad name", "value": VALUE}),
                               ("POST", "/v1/secrets", {"name": "A", "value": VALUE, "scope": "workspace"}),
                               ("POST", f"/v1/secrets/{daemon.secret['id']}/rotate", {"valu": VALUE})):
        with pytest.raises(ApiError) as caught:
            client.call(method, path, body)
        assert VALUE not in str(caught.value)


def test_sec_09_nothing_at_rest_holds_it(own):
    use(own)
    needle = VALUE.encode()
    assert holders(own.state, needle) == []
    key = pathlib.Path(own.state, "vault.key")
    assert key.stat().st_mode & 0o777 == 0o600
    assert holders(own.state, key.read_text().strip().encode()) == [str(key)]
    # The same bytes in encodings that a careless writer would leave.
    assert holders(own.state, needle.hex().encode()) == []


def test_sec_05_no_process_of_ours_shows_it(own):
    for name, pid in own.pids().items():
        for part in ("cmdline", "environ"):
            assert VALUE.encode() not in pathlib.Path(f"/proc/{pid}/{part}").read_bytes(), (name, part)


def test_sec_01_only_where_documented(own):
    """As a variable: in the processes that received it, and nowhere else inside."""
    client, box = own.client, own.box
    look = ("for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ 2>/dev/null | grep -q planted- && "
            "echo $(basename $p) $(cat $p/comm); done; true")
    out = client.exec(box, look, user="root").stdout
    agent = [line for line in out.splitlines() if line.startswith("1 ")]
    assert agent == [], out
    files = client.exec(box, ["grep", "-rslZ", "planted-", "/etc", "/home", "/root", "/tmp", "/run", "/var", "/workspace"],
                        user="root")
    assert files.stdout == ""


def test_sec_08_a_restart_forgets_no_value_and_revives_none(own):
    client, box = own.client, own.box
    api = lambda *a: own.client.call(*a)  # noqa: E731
    old = api("POST", "/v1/secrets", {"name": "TURNED", "value": VALUE + "-one"})
    gone = api("POST", "/v1/secrets", {"name": "GONE", "value": VALUE + "-gone"})
    api("PATCH", f"/v1/sandboxes/{box}", {"secrets": ["PLANTED", "TURNED", "GONE"]})
    process = spawn(type("S", (), {"client": client, "id": box})(),
                    "while read l; do echo $PLANTED $TURNED $GONE; done", stdin_open=True)
    api("POST", f"/v1/secrets/{old['id']}/rotate", {"value": VALUE + "-two"})
    api("DELETE", f"/v1/secrets/{gone['id']}")
    own.kill("cayd")
    own.wait_ready()
    client = own.client
    path = f"/v1/sandboxes/{box}/processes/{process.id}"
    client.call("POST", path + "/stdin", {"data": "x\n"})
    out = wait_for(lambda: (o := client.call("GET", path + "/output?format=json")["stdout"]) and "\n" in o and o,
                   timeout=20)
    assert out == " ".join("*" * len(VALUE + e) for e in ("", "-one", "-gone")) + "\n"
    assert client.exec(box, f'[ "$TURNED" = "{VALUE}-two" ] && [ -z "$GONE" ]').exit_code == 0
    client.call("DELETE", path)
    api("PATCH", f"/v1/sandboxes/{box}", {"secrets": ["PLANTED"]})


def test_sec_08_a_deleted_value_leaves_with_its_last_sandbox(own):
    client = own.client
    row = client.call("POST", "/v1/secrets", {"name": "LAST", "value": VALUE + "-last"})
    with client.sandbox(secrets=["LAST"]) as box:
        client.call("DELETE", f"/v1/secrets/{row['id']}")
        assert box.exec(["echo", VALUE + "-last"]).stdout == "*" * len(VALUE + "-last") + "\n"
    database = pathlib.Path(own.state, "cay.db")

    def count():
        text = ("import sqlite3,sys; d=sqlite3.connect(f'file:{sys.argv[1]}?mode=ro',uri=True);"
                "print(d.execute('select count(*) from secret_versions where secret_id=?',(sys.argv[2],)).fetchone()[0])")
        return subprocess.run(["/usr/bin/python3", "-c", text, str(database), row["id"]], check=True,
                              capture_output=True, text=True).stdout.strip()
    wait_for(lambda: count() == "0", timeout=20)


def test_sec_09_a_row_cannot_stand_in_for_another(own):
    """Sealed values are bound to their id and version: swapped rows do not open."""
    client = own.client
    rows = [client.call("POST", "/v1/secrets", {"name": f"SWAP{i}", "value": f"{VALUE}-swap-{i}"}) for i in (1, 2)]
    own.down("--keep")
    swap = ("import sqlite3,sys; d=sqlite3.connect(sys.argv[1]); a,b=sys.argv[2:];"
            "v=lambda i: d.execute('select sealed from secret_versions where secret_id=?',(i,)).fetchone()[0];"
            "x,y=v(a),v(b);"
            "d.execute('update secret_versions set sealed=? where secret_id=?',(y,a));"
            "d.execute('update secret_versions set sealed=? where secret_id=?',(x,b)); d.commit()")
    subprocess.run(["/usr/bin/python3", "-c", swap, str(pathlib.Path(own.state, "cay.db")), *(r["id"] for r in rows)],
                   check=True)
    own.up()
    client = own.client
    with pytest.raises(ApiError):
        with client.sandbox(secrets=["SWAP1"]) as box:
            box.exec("printenv SWAP1")
    for row in rows:
        client.call("DELETE", f"/v1/secrets/{row['id']}")


def test_sec_09_another_key_opens_nothing(own):
    own.down("--keep")
    key = pathlib.Path(own.state, "vault.key")
    kept = key.read_text()
    try:
        key.write_text("ab" * 32 + "\n")
        assert own.up(check=False) != 0
        assert "the vault's key is not the one" in own.up_output + own.logs()
        key.unlink()
        own.env["CAY_VAULT_KEY"] = kept.strip()
        own.up()
        assert not key.exists()
        assert own.client.exec(own.box, f'[ "$PLANTED" = "{VALUE}" ]').exit_code == 0
    finally:
        own.env.pop("CAY_VAULT_KEY", None)
        fd = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(fd, kept.encode())
        os.close(fd)
        os.chown(key, *(os.stat(os.path.join(own.state, "cay.db")).st_uid,
                        os.stat(os.path.join(own.state, "cay.db")).st_gid))


def test_sec_06_snapshots_hold_no_variable(own):
    client = own.client
    caps = client.capabilities("native") or set()
    if "snapshot" not in caps:
        pytest.skip(f"no snapshots here: {sorted(caps)}")
    snap = client.call("POST", f"/v1/sandboxes/{own.box}/snapshots", {})
    with client.sandbox(snapshot_id=snap["id"]) as box:
        assert box.row["secrets"] == []
        assert box.exec("printenv PLANTED").exit_code == 1
        assert box.root(["grep", "-rslZ", "planted-", "/etc", "/home", "/root", "/tmp", "/var", "/workspace"]).stdout == ""
    client.call("DELETE", f"/v1/snapshots/{snap['id']}")
