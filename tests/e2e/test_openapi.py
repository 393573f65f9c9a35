# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document: complete, and accepted by a strict linter. tests/conformance checks replies against it."""

import json
import pathlib
import re
import subprocess

import pytest

from lib import node
from lib.daemon import Daemon

PROJECT = pathlib.Path(__file__).parent / "openapi"


@pytest.fixture(scope="module")
def document():
    with Daemon() as daemon:
        return daemon.client.call("GET", "/openapi.json")


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_operations(document):
    ids = [operation["operationId"] for _name, operation in operations(document)]
    assert len(ids) == len(set(ids)) > 100
    assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", one) for one in ids), ids
    known = {tag["name"] for tag in document["tags"]}
    assert document["servers"] and document["info"]["version"]
    for name, operation in operations(document):
        assert set(operation["tags"]) <= known and operation["summary"], name
        answers = operation["responses"]
        assert {"4XX", "5XX"} <= set(answers), name
        assert [code for code in answers if code.startswith("2") or code == "101"], name


def test_answers_say_what_is_always_there(document):
    schemas = document["components"]["schemas"]
    assert "id" in schemas["Sandbox"]["required"] and "state" in schemas["Sandbox"]["required"]
    error = schemas["Error"]["properties"]["error"]
    assert {"field", "limit", "used", "request_id"} <= set(error["properties"])
    assert set(error["required"]) == {"code", "message", "hint", "retryable"}
    created = document["paths"]["/v1/sandboxes"]["post"]["responses"]["201"]["content"]["application/json"]["schema"]
    assert len(created["anyOf"]) == 2  # one sandbox, or a list with count
    output = document["paths"]["/v1/sandboxes/{id}/processes/{pid}/output"]["get"]["responses"]["200"]["content"]
    assert set(output) == {"application/json", "text/event-stream"}
    reason = document["paths"]["/v1/sandboxes/{id}/files"]["get"]["responses"]["200"]["content"]["application/json"][
        "schema"]["properties"]["reason"]
    assert None in reason["enum"] and "null" in reason["type"]
    options = document["paths"]["/v1/options"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert "x-not-supported-yet" not in json.dumps(options)


def lint(document, tmp_path):
    at = node.project(PROJECT)
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document))
    return subprocess.run([node.node(at), "lint.mjs", str(file)], cwd=at, capture_output=True, text=True, timeout=120)


def test_strict_linter(document, tmp_path):
    done = lint(document, tmp_path)
    assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr
    # The linter works: a document with an error does not pass.
    del document["paths"]["/v1/sandboxes"]["get"]["operationId"]
    done = lint(document, tmp_path)
    assert done.returncode == 1 and "operationId" in done.stdout, done.stdout + done.stderr
