# SPDX-License-Identifier: Apache-2.0
"""One check for both sides of a wire: the layers below accept whatever the HTTP face accepts. The OpenAPI document is
the generator: for every field of every request that reaches the warden, the agent or the file tool, the values at
its bounds and some unusual ones are sent. Each reply must be a success or a typed error. Afterwards the engine is
available, the link to the sandbox is the same one, and no program reported a protocol violation.
"""

import json
import re
import urllib.parse

import pytest

from lib.daemon import Daemon

BROKEN = re.compile(r"broke the protocol|no request|is malformed|is lost|link .*(lost|broke)|rejected the request")
TEXTS = ["", "a", "a.b", "a_b", "a-b", "-a", ".a", "..", "A", "a b", "a/b", "/", "a\nb", "ä", "\U0001f600", "a=b", "%00",
         "a:b", "'", "x" * 63, "x" * 64, "x" * 255, "x" * 256, "x" * 4095, "x" * 4096, "x" * 4097]
MAPS = [{}, {"A": ""}, {"A": "x" * 65536}, {"a.b": "c"}, {"A=B": "x"}, {"": "x"}, {"A" * 128: "x"}, {"A" * 129: "x"},
        {"ä": "ä"}, {f"K{i}": "v" for i in range(64)}, {f"K{i}": "v" for i in range(65)}, {"A\n": "x"}]
LONG_TEXT = 70000
# What a body must have besides the field under test.
BASE = {
    "/exec": {"argv": ["true"]}, "/exec/stream": {"argv": ["true"]}, "/processes": {"argv": ["true"]},
    "/windows/{name}/run": {"command": "true"}, "/windows/{name}/input": {"data": "x"},
    "/processes/{pid}/stdin": {"data": "x"}, "/processes/{pid}/signal": {"signal": 0}, "/code": {"code": "1"},
    "/processes/{pid}/resize": {"cols": 80, "rows": 24}, "/code/stream": {"code": "1"}, "/code/contexts": {},
    "/files": {"path": "f", "content": "x"}, "/files/batch": {"files": [{"path": "b", "content": "x"}]},
    "/files/edit": {"path": "f", "old_string": "x", "new_string": "x"}, "/files/glob": {"pattern": "*"},
    "/files/grep": {"pattern": "x"}, "/files/mkdir": {"path": "d"}, "/files/move": {"from": "f", "to": "g"},
    "/files/copy": {"from": "f", "to": "c"}, "/files/remove": {"path": "gone", "force": True},
    "/files/chmod": {"path": "f", "mode": "644"}, "/files/chown": {"path": "f", "user": "sandbox"},
    "/previews": {"port": 8080}, "/extend": {},
}
SLOW = {("/windows/{name}/run", "wait_ms"), ("/exec", "stdin_timeout")}


@pytest.fixture(scope="module")
def own():
    with Daemon() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def box(own):
    with own.client.sandbox(timeout_sec=3600) as sandbox:
        sandbox.exec(["sh", "-c", "echo x >f"]).ok()
        yield sandbox


@pytest.fixture(scope="module")
def document(own):
    return own.client.call("GET", "/openapi.json")


def kinds(schema):
    kind = schema.get("type", [])
    return {kind} if isinstance(kind, str) else set(kind)


def numbers(schema):
    low, high = schema.get("minimum", -1), schema.get("maximum", 2 ** 31)
    found = [low - 1, low, low + 1, high - 1, high, high + 1, 0, 2 ** 32, 2 ** 63 - 1]
    return found + ([low + 0.5, 0.5, 1e308] if "number" in kinds(schema) else [])


def texts(schema):
    most = schema.get("maxLength", 256)
    sized = ["x" * n for n in (schema.get("minLength", 0), most, most + 1) if n <= LONG_TEXT]
    return sized + TEXTS + schema.get("enum", []) + ["s"]


def values(schema):
    """At the bounds of one field, and odd ones."""
    found = [None, {}, [], True]
    if kinds(schema) & {"integer", "number"}:
        found += numbers(schema)
    if "string" in kinds(schema):
        found += texts(schema)
    if "object" in kinds(schema):
        found += MAPS
    if "array" in kinds(schema):
        most = min(schema.get("maxItems", 64), 2000)
        found += [["x"], ["x"] * most, ["x"] * (most + 1), [""], ["x" * LONG_TEXT], [["x"]], [{}]]
    return found


def bodies(document):
    """(path below a sandbox, field, schema) of everything that is sent into it."""
    for pattern, methods in document["paths"].items():
        tail = pattern.removeprefix("/v1/sandboxes/{id}")
        if tail == pattern or tail not in BASE:
            continue
        schema = methods["post"]["requestBody"]["content"]["application/json"]["schema"]
        for name, field in schema["properties"].items():
            if (tail, name) not in SLOW:
                yield tail, name, field


def check(own, box, what, status, data):
    if status >= 400:
        error = json.loads(data)["error"]
        assert status < 500, (what, error)
        assert error["code"] not in ("engine_lost", "internal", "sandbox_gone"), (what, error)


def undisturbed(own, box, logs):
    own.client.call("GET", "/readyz")
    assert box.exec(["echo", "there"]).ok().stdout == "there\n"
    assert own.client.capabilities("native") is not None
    said = [line for line in own.logs(100000).splitlines()[logs:] if BROKEN.search(line)]
    assert not said, said[:5]


def shown(value):
    text = json.dumps(value)
    return text if len(text) < 80 else text[:60] + f"... ({len(text)})"


def test_every_body_field(own, box, document):
    """Each field of each body at its bounds: accepted by all layers, or rejected by name."""
    pid = own.client.call("POST", f"/v1/sandboxes/{box.id}/processes", {"argv": ["sleep", "600"]})["process_id"]
    logs, sent = len(own.logs(100000).splitlines()), 0
    for tail, name, schema in bodies(document):
        path = f"/v1/sandboxes/{box.id}" + tail.replace("{pid}", str(pid)).replace("{name}", "w")
        for value in values(schema):
            status, _h, data = own.client.raw("POST", path, dict(BASE[tail], **{name: value}))
            check(own, box, (tail, name, shown(value)), status, data)
            sent += 1
        undisturbed(own, box, logs)
    assert sent > 1000


def test_every_query(own, box, document):
    """The same for query parameters: files, ports, windows, output."""
    logs, sent = len(own.logs(100000).splitlines()), 0
    for pattern, methods in document["paths"].items():
        tail = pattern.removeprefix("/v1/sandboxes/{id}")
        if tail == pattern or not tail.startswith(("/files", "/windows/{name}")) or tail == "/files/watch":
            continue
        if "get" not in methods:
            continue
        for parameter in methods["get"]["parameters"]:
            if parameter["in"] != "query":
                continue
            for value in values(parameter["schema"]):
                query = {"path": "f"} if tail.startswith("/files") else {}
                query[parameter["name"]] = value if isinstance(value, str) else json.dumps(value)
                path = f"/v1/sandboxes/{box.id}" + tail.replace("{name}", "w") + "?" + urllib.parse.urlencode(query)
                if len(path) > 8000:
                    continue
                status, _h, data = own.client.raw("GET", path)
                check(own, box, (tail, parameter["name"], shown(value)), status, data)
                sent += 1
        undisturbed(own, box, logs)
    assert sent > 200


def test_every_size(own, box, document):
    """Sizes at the published bounds: the warden accepts each of them."""
    fields = document["paths"]["/v1/sandboxes"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    logs = len(own.logs(100000).splitlines())
    for name in ("cpu_count", "memory_mb", "disk_size_mb", "timeout_sec", "idle_timeout_sec"):
        schema = fields["properties"][name]
        for value in (schema["minimum"], schema["maximum"]):
            # A memory limit of 1 MiB is accepted, but nothing can start in it: the sandbox then ends by itself.
            status, _h, data = own.client.raw("POST", "/v1/sandboxes", {name: value})
            assert status == 201 or (name, value) == ("memory_mb", 1), (name, value, data)
            if status == 201:
                row = json.loads(data)
                assert row[name] == value
                own.client.delete(row["id"])
        for value in (schema["minimum"] - 0.001 if name == "cpu_count" else schema["minimum"] - 1,
                      schema["maximum"] + 1):
            status, _h, data = own.client.raw("POST", "/v1/sandboxes", {name: value})
            assert status == 400 and name in json.loads(data)["error"]["message"], (name, value, data)
    undisturbed(own, box, logs)


def test_template_names(own, box):
    """A build of any name is rejected or started, and the engine stays available."""
    logs = len(own.logs(100000).splitlines())
    for name in ("a.b", "a_b", "a-b", "0", "a" * 63, "a" * 64, "-a", ".a", "_a", "a..b", "A", "base.", "nosuch"):
        status, _h, data = own.client.raw("POST", f"/v1/templates/{name}/builds", {})
        good = re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", name)
        assert status == (404 if good else 400), (name, status, data)
        assert json.loads(data)["error"]["code"] == ("template_not_found" if good else "invalid_request")
        status, _h, data = own.client.raw("GET", f"/v1/templates/{name}/builds")
        assert status == (404 if good else 400), (name, status, data)
    undisturbed(own, box, logs)


def test_build_reads_its_body(own):
    """Unknown fields are refused before anything is built."""
    status, _h, data = own.client.raw("POST", "/v1/templates/base/builds", {"from": "scratch"})
    assert status == 400 and "from" in json.loads(data)["error"]["message"], data
