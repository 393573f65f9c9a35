# SPDX-License-Identifier: Apache-2.0
"""Create, get, list, delete: the same on every engine."""

import re
import secrets
import time

import pytest

from lib import census, tree
from lib.client import ApiError
from lib.commands import wait_for


def test_create_answers_the_sandbox(api, engine):
    row = api.create(engine=engine, metadata={"a": "b"}, timeout_sec=60)
    try:
        assert re.fullmatch(r"[a-z0-9]+", row["id"])
        assert row["state"] == "running" and row["engine"] == engine
        assert row["cpu_count"] == 1 and row["memory_mb"] == 1024 and row["disk_size_mb"] == 3072
        assert row["boot_path"] in ("cold", "pool") and row["boot_ms"] >= 0
        assert row["metadata"] == {"a": "b"}
        stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
        assert re.fullmatch(stamp, row["created_at"]) and re.fullmatch(stamp, row["expires_at"])
        again = api.get(row["id"])
        assert {k: again[k] for k in ("id", "state", "created_at")} == \
            {k: row[k] for k in ("id", "state", "created_at")}
    finally:
        api.delete(row["id"])


def test_provider_is_engine(api, engine):
    with api.sandbox(provider=engine) as sandbox:
        assert sandbox.row["engine"] == engine


def test_names(api, engine):
    name = "n" + secrets.token_hex(4)
    with api.sandbox(engine=engine, name=name) as sandbox:
        assert api.get(name)["id"] == sandbox.id
        assert api.exec(name, ["/bin/echo", "x"]).stdout == "x\n"
        with pytest.raises(ApiError) as caught:
            api.delete(api.create(engine=engine, name=name)["id"])
        assert caught.value.status == 409
    with api.sandbox(engine=engine, name=name) as sandbox:  # free again
        api.delete(name)
        with pytest.raises(ApiError) as caught:
            api.get(sandbox.id)
        assert caught.value.status == 404


def test_list_filters_and_pages(api, engine):
    tag = secrets.token_hex(4)
    boxes = [api.sandbox(engine=engine, metadata={"tag": tag}).__enter__() for _ in range(5)]
    try:
        ids = {b.id for b in boxes}
        assert {r["id"] for r in api.list(**{"metadata.tag": tag})} == ids
        assert {r["id"] for r in api.list(**{"metadata.tag": tag, "limit": 2})} == ids
        assert ids <= {r["id"] for r in api.list(state="running", engine=engine)}
        assert not api.list(**{"metadata.tag": tag, "state": "paused"})
        first = api.call("GET", f"/v1/sandboxes?limit=2&metadata.tag={tag}")
        assert len(first["data"]) == 2 and first["next_cursor"]
        # Stable under changes: one that was already seen is removed, and each of the others appears exactly once.
        gone = first["data"][0]["id"]
        api.delete(gone)
        rest = []
        cursor = first["next_cursor"]
        while cursor:
            page = api.call("GET", f"/v1/sandboxes?limit=2&metadata.tag={tag}&cursor={cursor}")
            rest += [r["id"] for r in page["data"]]
            cursor = page["next_cursor"]
        assert sorted(rest) == sorted(ids - {r["id"] for r in first["data"]})
    finally:
        for b in boxes:
            b.__exit__()


def test_delete_is_final(api, engine):
    with api.sandbox(engine=engine) as sandbox:
        status, _headers, data = api.raw("DELETE", f"/v1/sandboxes/{sandbox.id}")
        assert status == 204 and data == b""
        for method, tail, body in (("GET", "", None), ("DELETE", "", None),
                                   ("POST", "/exec", {"command": "true"})):
            assert api.raw(method, f"/v1/sandboxes/{sandbox.id}{tail}", body)[0] == 404


def test_delete_ends_a_running_command(api, engine):
    import threading
    with api.sandbox(engine=engine) as sandbox:
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            api.raw("POST", f"/v1/sandboxes/{sandbox.id}/exec", {"command": "sleep 30"})[0]))
        thread.start()
        time.sleep(0.3)
        api.delete(sandbox.id)
        thread.join(timeout=5)
        assert answers and answers[0] in (200, 404, 409, 410), answers


def test_timeout_destroys(api, engine):
    with api.sandbox(engine=engine, timeout_sec=1) as sandbox:
        row = sandbox.wait_state(("destroyed",), 4 * tree.SLACK)
        assert row is None or row["state"] == "destroyed", row


def test_destroy_leaves_nothing(api, engine, engines_daemon):
    """Processes of the sandbox end at once; the rest is removed within seconds."""
    with api.sandbox(engine=engine) as sandbox:
        marker = str(20000 + secrets.randbelow(9999))
        sandbox.exec(f"for i in 1 2 3; do setsid nohup sleep {marker} >/dev/null 2>&1 & done")
        def alive():
            return [p for p in census.all_pids() if census._argv(p)[:2] == ["sleep", marker]]
        wait_for(lambda: len(alive()) == 3)
    wait_for(lambda: not alive())


def test_two_at_once_are_apart(api, engine, needs):
    needs("isolat")
    with api.sandbox(engine=engine) as one, api.sandbox(engine=engine) as two:
        one.exec("echo one > /workspace/f; echo one > /tmp/f").ok()
        assert two.exec("ls /workspace/f /tmp/f").exit_code != 0


def test_bypass_is_cold(api, engine):
    with api.sandbox(engine=engine, pool={"mode": "bypass"}) as sandbox:
        assert sandbox.row["boot_path"] == "cold"
        assert sandbox.exec(["/bin/echo", "x"]).stdout == "x\n"


def test_unsupported_fields_are_refused(api, engine):
    """Fields of later versions are rejected by name, not ignored."""
    for field, value in (("snapshot_id", "x"), ("volumes", [{"name": "v", "path": "/v"}]),
                         ("secrets", ["x"])):
        with pytest.raises(ApiError) as caught:
            api.delete(api.create(engine=engine, **{field: value})["id"])
        assert caught.value.status in (400, 404, 422), caught.value


def test_network_none_is_accepted(api, engine):
    with api.sandbox(engine=engine, network={"mode": "none"}) as sandbox:
        assert sandbox.row["network"] == {"mode": "none", "allow": [], "deny": [], "learn": False}


def test_network_is_given_or_refused(api, engine):
    """An engine with the capability provides a link; another one rejects the request. Entries have one canonical form."""
    policy = {"mode": "restricted", "allow": ["Example.COM.", "*.example.com:443", "0x7f.1", "10.0.0.0/8:22"],
              "deny": ["bad.example.com"]}
    if "network" not in api.capabilities(engine):
        with pytest.raises(ApiError) as caught:
            api.delete(api.create(engine=engine, network=policy)["id"])
        assert caught.value.status == 422 and caught.value.code == "unsupported_by_engine"
        return
    with api.sandbox(engine=engine, network=policy) as sandbox:
        assert sandbox.row["network"]["allow"] == ["example.com", "*.example.com:443", "127.0.0.1", "10.0.0.0/8:22"]
        assert "eth0" in sandbox.sh("cat /proc/net/dev")
        row = api.call("PATCH", f"/v1/sandboxes/{sandbox.id}", {"network": {"learn": True}})
        assert row["network"]["learn"] and row["network"]["deny"] == ["bad.example.com"]
        row = api.call("PATCH", f"/v1/sandboxes/{sandbox.id}", {"network": {"mode": "none"}})
        assert row["network"]["mode"] == "none"


def test_network_is_given_later(api, engine):
    if "network" not in api.capabilities(engine):
        pytest.skip(f"engine {engine} has no network")
    with api.sandbox(engine=engine) as sandbox:
        assert "eth0" not in sandbox.sh("cat /proc/net/dev")
        api.call("PATCH", f"/v1/sandboxes/{sandbox.id}", {"network": {"mode": "restricted"}})
        assert "eth0" in sandbox.sh("cat /proc/net/dev")


def test_a_slow_sandbox_gets_its_certificate(api, engine, needs):
    """The first command of a sandbox with a network waits until its authority is installed, also where that takes longer
    than calls wait for a connection (10 s)."""
    needs("isolat")
    if "network" not in api.capabilities(engine):
        pytest.skip(f"engine {engine} has no network")
    with api.sandbox(engine=engine) as sandbox:
        slow = "printf '#!/bin/sh\\n/usr/bin/sleep 12\\nexec /usr/bin/mkdir \"$@\"\\n' > /usr/sbin/mkdir; chmod 755 /usr/sbin/mkdir"
        sandbox.sh(slow)
        api.call("PATCH", f"/v1/sandboxes/{sandbox.id}", {"network": {"mode": "restricted"}})
        assert "BEGIN CERTIFICATE" in sandbox.sh("cat /usr/local/share/ca-certificates/cay.crt")


@pytest.mark.parametrize("entry", ["*", "*.com", "a b", "-a.test", "a..b", "x.test:0", "x.test:65536", "10.0.0.1/8",
                                   "1.2.3.4/33", "a_é.test", "[::1", "http://x.test", "x.test/24", "300.1.1.1", ""])
def test_network_entries_are_checked(api, engine, entry):
    with pytest.raises(ApiError) as caught:
        api.delete(api.create(engine=engine, network={"mode": "restricted", "allow": ["ok.test", entry]})["id"])
    assert caught.value.status == 400 and "network.allow[1]" in str(caught.value)


def test_unknown_template(api, engine):
    with pytest.raises(ApiError) as caught:
        api.delete(api.create(engine=engine, template="no-such-template")["id"])
    assert caught.value.status == 404 and caught.value.code == "template_not_found"


def test_restart_survival(api, engine, engines_daemon, needs):
    needs("surviv")
    with api.sandbox(engine=engine) as sandbox:
        sandbox.exec("echo kept > kept; nohup sleep 61.5 >/dev/null 2>&1 &").ok()
        old = engines_daemon.kill("cayd")
        until = time.monotonic() + 10
        while engines_daemon.pids().get("cayd") in (old, None) and time.monotonic() < until:
            time.sleep(0.02)
        fresh = engines_daemon.wait_ready()
        assert fresh.port == api.port, "the restarted daemon moved to another port"
        api.close()
        result = fresh.exec(sandbox.id, "cat kept; pgrep -fc 'sleep 61[.]5'").ok()
        assert result.stdout == "kept\n1\n"
