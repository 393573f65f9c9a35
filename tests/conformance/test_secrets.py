# SPDX-License-Identifier: Apache-2.0
"""Secrets as variables, and their masking in output, on every engine."""

import base64
import json
import urllib.parse
import uuid

import pytest

from lib.client import Client
from lib.commands import Collected, Window, exec_stream, marker, processes, spawn, wait_for
from lib.files import Files, refused
from lib.terminal import Terminal


def fresh(n=12):
    """A unique value, with bytes that encodings treat specially."""
    return f"s3cr+t/{uuid.uuid4().hex[:n]}&=~ é"


def make(api, name=None, value=None, **fields):
    name = name or "T_" + uuid.uuid4().hex[:12].upper()
    value = value or fresh()
    row = api.call("POST", "/v1/secrets", dict(fields, name=name, value=value))
    row["value"] = value
    return row


@pytest.fixture
def secret(api):
    row = make(api)
    yield row
    try:
        api.call("DELETE", f"/v1/secrets/{row['id']}")
    except Exception:  # noqa: BLE001 - the test may have deleted it
        pass


@pytest.fixture
def box(api, engine, secret):
    with api.sandbox(engine=engine, timeout_sec=600, secrets=[{"name": secret["name"], "env": "TOKEN"}]) as sandbox:
        yield sandbox


def stars(value):
    return "*" * len(value.encode())


# -- the vault ------------------------------------------------------------------------------------

def test_a_value_is_never_returned(api, secret):
    value = secret.pop("value")
    assert secret["version"] == 1 and secret["scope"] == "global" and secret["scrubbed"]
    for path in (f"/v1/secrets/{secret['id']}", f"/v1/secrets/{secret['name']}", "/v1/secrets?limit=1000"):
        status, _, body = api.raw("GET", path)
        assert status == 200 and value.encode() not in body and json.dumps(value).encode() not in body
    assert api.call("GET", f"/v1/secrets/{secret['name']}")["id"] == secret["id"]
    assert secret["id"] in {row["id"] for row in api.call("GET", "/v1/secrets?limit=1000")["data"]}


def test_names_values_and_scopes_are_checked(api, secret):
    post = lambda **body: api.call("POST", "/v1/secrets", body)  # noqa: E731
    for name in ("", "1A", "A-B", "A B", "é", "A" * 129):
        refused("invalid_request", post, name=name, value="x" * 10)
    refused("invalid_request", post, name="OK", value="")
    refused("invalid_request", post, name="OK", value="x" * 16385)
    refused("invalid_request", post, name="OK", value="a\0bcdefgh")
    refused("invalid_request", post, name="OK", value="x" * 10, scope="workspace")
    refused("invalid_request", post, name="OK", value="x" * 10, external_workspace_id="w")
    refused("sandbox_not_found", post, name="OK", value="x" * 10, scope="sandbox", sandbox_id="nobody")
    for host in ("A.com", "a..b", "https://a", "*.", "a:0", "a b"):
        refused("invalid_request", post, name="OK", value="x" * 10, hosts=[host])
    refused("conflict", post, name=secret["name"], value="x" * 10)
    refused("secret_not_found", api.call, "GET", "/v1/secrets/nobody")


def test_the_daemons_own_keys_are_never_injected(api):
    error = refused("invalid_request", api.call, "POST", "/v1/secrets", {"name": "K", "value": api.key})
    assert api.key not in str(error)


def test_other_keys_see_nothing(api, secret):
    row = api.call("POST", "/v1/keys", {"name": "other", "scopes": ["secrets", "sandboxes:write", "sandboxes:read"]})
    other = Client(api.url, row["key"])
    try:
        assert other.call("GET", "/v1/secrets")["data"] == []
        for ref in (secret["id"], secret["name"]):
            refused("secret_not_found", other.call, "GET", f"/v1/secrets/{ref}")
            refused("secret_not_found", other.call, "POST", f"/v1/secrets/{ref}/rotate", {"value": "x" * 9})
            refused("secret_not_found", other.call, "DELETE", f"/v1/secrets/{ref}")
        refused("secret_not_found", other.create, secrets=[secret["name"]])
        none = Client(api.url, api.call("POST", "/v1/keys", {"name": "n", "scopes": ["exec"]})["key"])
        refused("forbidden", none.call, "GET", "/v1/secrets")
    finally:
        api.call("DELETE", f"/v1/keys/{row['id']}")


def test_the_narrower_scope_is_used(api, engine):
    name = "S_" + uuid.uuid4().hex[:10].upper()
    rows = [make(api, name, f"value-global-{name}"),
            make(api, name, f"value-workspace-{name}", scope="workspace", external_workspace_id="w1")]
    try:
        check = f'[ "$({"printenv"} {name} | cut -d- -f2)" = WANT ]'
        for workspace, want in ((None, "global"), ("w1", "workspace"), ("w2", "global")):
            fields = {"external_workspace_id": workspace} if workspace else {}
            with api.sandbox(engine=engine, secrets=[name], **fields) as box:
                assert box.exec(check.replace("WANT", want)).exit_code == 0
                if want == "global" and not workspace:
                    own = make(api, name, f"value-sandbox-{name}", scope="sandbox", sandbox_id=box.id)
                    api.call("PATCH", f"/v1/sandboxes/{box.id}", {"secrets": [name]})
                    assert box.exec(check.replace("WANT", "sandbox")).exit_code == 0
        wait_for(lambda: own["id"] not in [row["id"] for row in api.call("GET", "/v1/secrets?limit=1000")["data"]])
        refused("conflict", api.call, "GET", f"/v1/secrets/{name}")
    finally:
        for row in rows:
            api.call("DELETE", f"/v1/secrets/{row['id']}")


# -- as a variable --------------------------------------------------------------------------------

def test_new_processes_have_it(box, secret):
    want = base64.b64encode(secret["value"].encode()[::-1]).decode()  # reversed output is not scrubbed
    show = "printf %s \"$TOKEN\" | python3 -c 'import sys,base64; print(base64.b64encode(sys.stdin.buffer.read()[::-1]).decode())'"
    alternative = "printf %s \"$TOKEN\" | rev | base64 -w0"
    if box.exec("command -v python3").exit_code != 0:
        show, want = alternative, base64.b64encode(secret["value"][::-1].encode()).decode()
    assert want in box.exec(show, env={"LC_ALL": "C.UTF-8"}).stdout
    with Window(box, "w") as window:
        assert want.encode() in window.run("export LC_ALL=C.UTF-8; " + show, wait_ms=10000)["out"].replace(b"\r\n", b"")
    row = box.client.get(box.id)
    assert row["secrets"] == [{"name": secret["name"], "secret_id": secret["id"], "as": "env", "env": "TOKEN",
                               "hosts": [], "deleted": False}]


def test_grants_are_checked(api, engine, secret):
    create = lambda *s: api.create(engine=engine, secrets=list(s))  # noqa: E731
    refused("secret_not_found", create, "NOBODY_HAS_THIS")
    refused("invalid_request", create, 7)
    refused("invalid_request", create, {"name": secret["name"], "as": "file"})
    refused("invalid_request", create, {"name": secret["name"], "env": "A B"})
    refused("invalid_request", create, {"name": secret["name"], "hosts": ["a.com"]})
    refused("invalid_request", create, {"name": secret["name"], "as": "broker"})
    refused("invalid_request", create, secret["name"], {"name": secret["name"], "env": secret["name"]})


def test_a_change_applies_to_new_processes(api, box, secret):
    other = make(api)
    with spawn(box, "while read l; do printenv TOKEN; done", stdin_open=True) as old:
        api.call("PATCH", f"/v1/sandboxes/{box.id}", {"secrets": [{"name": other["name"], "env": "OTHER"}]})
        assert box.exec("printenv TOKEN").exit_code == 1
        assert box.exec("printenv OTHER").stdout == stars(other["value"]) + "\n"
        old.stdin("x\n")
        # A secret that the sandbox no longer has is still scrubbed.
        out = wait_for(lambda: (o := old.output()["stdout"]) and "\n" in o and o)
        assert out == stars(secret["value"]) + "\n"
    api.call("DELETE", f"/v1/secrets/{other['id']}")


def test_rotation_and_deletion(api, box, secret):
    new = fresh()
    with spawn(box, "while read l; do printenv TOKEN; done", stdin_open=True) as old:
        row = api.call("POST", f"/v1/secrets/{secret['id']}/rotate", {"value": new})
        assert row["version"] == 2
        assert box.exec(f'[ "$TOKEN" = "{new}" ]').exit_code == 0
        assert box.exec(f'echo "{new}" "{secret["value"]}"').stdout == f"{stars(new)} {stars(secret['value'])}\n"
        old.stdin("x\n")
        out = wait_for(lambda: (o := old.output()["stdout"]) and "\n" in o and o)
        assert out == stars(secret["value"]) + "\n"
        api.call("DELETE", f"/v1/secrets/{secret['id']}")
        assert box.exec("printenv TOKEN").exit_code == 1
        assert box.exec(f'echo "{new}"').stdout == stars(new) + "\n"
        refused("secret_not_found", api.call, "GET", f"/v1/secrets/{secret['id']}")
        assert api.get(box.id)["secrets"][0]["deleted"]


def test_children_and_copies_do_not_inherit(api, box, needs):
    needs("snapshot")
    row = api.call("POST", f"/v1/sandboxes/{box.id}/fork", {"count": 1})["data"][0]
    try:
        assert row["secrets"] == []
        assert api.exec(row["id"], "printenv TOKEN").exit_code == 1
    finally:
        api.delete(row["id"])


def test_what_copies_find_in_their_files_is_scrubbed(api, box, needs):
    """Values that were written to files before: forks, sandboxes from a snapshot and restored ones mask them like the
    source."""
    needs("snapshot")
    size = int(box.exec("printenv TOKEN | tee /workspace/kept | wc -c").ok().stdout)
    snapshot = api.call("POST", f"/v1/sandboxes/{box.id}/snapshots", {})["id"]
    made = [api.call("POST", f"/v1/sandboxes/{box.id}/fork", {"count": 1})["data"][0]["id"]]
    try:
        made.append(api.create(engine=box.row["engine"], snapshot_id=snapshot)["id"])
        made.append(api.create(engine=box.row["engine"])["id"])
        api.call("POST", f"/v1/sandboxes/{made[-1]}/restore", {"snapshot_id": snapshot})
        grandchild = api.call("POST", f"/v1/sandboxes/{made[0]}/fork", {"count": 1})["data"][0]["id"]
        made.append(grandchild)
        for one in made:
            out = api.exec(one, "cat /workspace/kept").stdout
            assert out == "*" * (size - 1) + "\n", out
            assert api.get(one)["secrets"] == []
    finally:
        for one in made:
            api.delete(one)
        api.call("DELETE", f"/v1/snapshots/{snapshot}")


# -- output ---------------------------------------------------------------------------------------

def test_every_way_out_is_scrubbed(box, secret):
    value = secret["value"]
    want = stars(value).encode()
    show = "printf '%s\\n' \"$TOKEN\""
    assert box.exec(show).out == want + b"\n"
    assert box.exec(show + " >&2").err == want + b"\n"
    with exec_stream(box, show + "; " + show + " >&2") as events:
        seen = Collected(events)
    assert (seen.out, seen.err) == (want + b"\n", want + b"\n")
    with spawn(box, show) as process:
        process.wait()
        assert process.output()["stdout"] == want.decode() + "\n"
        assert process.collect().out == want + b"\n"
        assert process.raw().rest() == want + b"\n"
    with Window(box, "scrub") as window:
        ran = window.run(show)
        assert want in ran["out"] and value.encode() not in ran["out"]
        read = window.read(cursor=0)
        assert want in read["out"] and value.encode() not in read["out"]
    with Terminal(box.client, f"/v1/sandboxes/{box.id}/pty") as terminal:
        terminal.send(show + "; echo en''d\n")
        terminal.expect(want)
        terminal.expect("end")
        assert value.encode() not in bytes(terminal.data)
    files = Files(box)
    path = box.exec("pwd").ok().stdout.strip() + "/secret-" + marker()  # /tmp is the host's on a local engine
    box.exec(f"printf 'one\\n%s\\n' \"$TOKEN\" > {path}").ok()
    assert want.decode() in files.get("read", path=path)["content"]
    found = files.post("grep", path=path, pattern="cr")["data"]
    assert [m["text"] for m in found] == [want.decode()]
    assert value.encode() in files.read(path)  # bytes stay bytes: documented
    with spawn(box, ["sleep", "60", value]):
        assert any(want.decode() in p["command"] for p in processes(box))
        assert value not in json.dumps(processes(box))
    events = box.client.raw("GET", f"/v1/sandboxes/{box.id}/events?format=json")[2]
    assert value.encode() not in events and json.dumps(value).encode() not in events


FORMS = {
    "base64": lambda v: base64.b64encode(v).decode(),
    "base64 behind one byte": lambda v: base64.b64encode(b"u" + v).decode(),
    "basic auth": lambda v: base64.b64encode(b"us:" + v + b":x").decode(),
    "url-safe": lambda v: base64.urlsafe_b64encode(v).decode(),
    "hex": lambda v: v.hex(),
    "HEX": lambda v: v.hex().upper(),
    "percent": lambda v: urllib.parse.quote(v, safe=""),
    "quote": lambda v: urllib.parse.quote(v),
    "form": lambda v: urllib.parse.quote_plus(v),
}


@pytest.mark.parametrize("form", FORMS)
def test_encoded_forms_are_scrubbed(box, secret, form):
    text = FORMS[form](secret["value"].encode())
    out = box.exec(["printf", "%s", text]).stdout
    assert len(out) == len(text)
    # Encoded digits at the edges, which also encode neighbouring bytes, may stay visible.
    assert out.count("*") >= len(text) - 14 and text not in out


def test_short_values_are_not_scrubbed_and_say_so(api, engine):
    row = make(api, value="1234567")
    assert row["scrubbed"] is False
    with api.sandbox(engine=engine, secrets=[row["name"]]) as box:
        assert box.exec(f"printenv {row['name']}; echo 11234567").stdout == "1234567\n11234567\n"
    api.call("DELETE", f"/v1/secrets/{row['id']}")


def test_pieces_are_put_together(box, secret):
    """One byte per write, and every split in two: nothing of it is visible."""
    value = secret["value"].encode()
    script = ("t=$TOKEN; export LC_ALL=C; n=${#t}; i=0; "
              "while [ $i -lt $n ]; do printf %s \"${t:$i:1}\"; i=$((i+1)); done; echo; "
              "i=1; while [ $i -lt $n ]; do printf %s \"${t:0:$i}\"; printf '%s\\n' \"${t:$i}\"; i=$((i+1)); done")
    with exec_stream(box, ["bash", "-c", script]) as events:
        seen = Collected(events)
    lines = seen.out.split(b"\n")[:-1]
    assert len(lines) == len(value)
    assert set(lines) == {b"*" * len(value)}, lines[:3]


@pytest.mark.parametrize("limit", [4, 7, 12])
def test_output_that_is_cut_shows_no_start(box, secret, limit):
    """A limit inside the value: the rest that would complete it never arrives; three bytes are shown at most."""
    for command in ('printf %s "$TOKEN"', 'printf %s "$TOKEN" >&2'):
        done = box.exec(command, max_output_bytes=limit)
        shown = (done.stdout + done.stderr).encode()
        assert len(shown) == limit and set(shown[3:]) == {ord("*")}, shown


def test_slow_pieces_show_three_bytes_at_most(box, secret):
    """With long pauses, a start that is too short to recognize is passed on, and the rest is still masked."""
    value = secret["value"].encode()
    script = ("t=$TOKEN; export LC_ALL=C; printf %s \"${t:0:3}\"; sleep 1; printf %s \"${t:3:5}\"; sleep 0.2; "
              "printf '%s\\n' \"${t:8}\"")
    with exec_stream(box, ["bash", "-c", script]) as events:
        out = Collected(events).out
    assert len(out) == len(value) + 1 and out[3:] == b"*" * (len(value) - 3) + b"\n"


def test_cursors_stay_true(box, secret):
    """Reading from any byte on yields the same bytes: a reader cannot start inside a value."""
    value = secret["value"].encode()
    with spawn(box, "printf 'before %s after' \"$TOKEN\"") as process:
        process.wait()
        whole = b"before " + b"*" * len(value) + b" after"
        assert process.collect().out == whole
        for cursor in range(0, len(whole)):
            assert process.raw(cursor=cursor, stream="stdout").rest() == whole[cursor:]


def test_ordinary_output_is_not_delayed(box, secret):
    """A prompt that ends like the start of a value is delivered without the rest of the line."""
    start = secret["value"][:3]
    with spawn(box, f"printf 'name? {start}'; read l; echo got", stdin_open=True) as process:
        with process.events(follow=True) as events:
            assert events.until_bytes(start.encode())
            process.stdin("x\n")
            assert b"got" in events.until_bytes(b"got")
