# SPDX-License-Identifier: Apache-2.0
"""The generated reference is current, its examples are correct, and the page of settings is complete."""

import json
import re
import subprocess

import jsonschema
import pytest

from lib import tree

EXAMPLES = json.loads((tree.SOURCE / "docs/reference/examples.json").read_text())


def test_generated_pages_are_current():
    done = subprocess.run([tree.SOURCE / "tools/docs/reference", "--check", "--build", str(tree.build_dir())], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_settings():
    """Every setting of 'cayd --help' is on the page, with its default."""
    text = (tree.SOURCE / "docs/reference/config.md").read_text()
    shown = subprocess.run([tree.program("cayd"), "--help"], capture_output=True, text=True, check=True).stdout
    settings = re.findall(r"^  --([a-z-]+) .*\(([^()]*)\)$", shown, re.M)
    assert len(settings) > 40
    for flag, default in settings:
        name = flag.replace("-", "_")
        row = re.search(rf"^\| (?:`\w+`, )*`{name}`(?:, `\w+`)* \| ([^|]*)\|", text, re.M)
        assert row, f"docs/reference/config.md lacks {name}"
        if default:
            assert f"`{default}`" in row[1], f"docs/reference/config.md: the default of {name} is {default}"


def fits(want, got, where):
    """want is part of got; "..." in a string matches anything."""
    if isinstance(want, dict):
        assert isinstance(got, dict), where
        for name, value in want.items():
            assert name in got, f"{where}: the reply lacks {name}: {got}"
            fits(value, got[name], f"{where}.{name}")
    elif isinstance(want, list):
        assert isinstance(got, list) and len(got) >= len(want), f"{where}: {got}"
        for i, value in enumerate(want):
            fits(value, got[i], f"{where}[{i}]")
    elif isinstance(want, str) and "..." in want:
        assert isinstance(got, str) and re.fullmatch(".*".join(map(re.escape, want.split("..."))), got, re.S), f"{where}: {got!r} is not {want!r}"
    else:
        assert want == got, f"{where}: {got!r} is not {want!r}"


def test_examples(reader):
    """Runs the examples in order. "{name}" in a path is the id that the example called name returned."""
    document = reader.client.call("GET", "/openapi.json")
    made = {}
    try:
        for one in EXAMPLES:
            where = f"{one['method']} {one['path']}"
            path = re.sub(r"\{(\w+)\}", lambda match: made[match[1]], one["path"])
            operation = document["paths"][one["operation"]][one["method"].lower()]
            got = reader.client.call(one["method"], path, one.get("body"))
            if "reply" in one:
                fits(one["reply"], got, where)
                schema = next(answer["content"]["application/json"]["schema"] for code, answer in operation["responses"].items()
                              if code[0] == "2" and "content" in answer)
                jsonschema.Draft202012Validator(dict(schema, components=document["components"])).validate(got)
            if "as" in one:
                made[one["as"]] = str(got["id"])
    finally:
        for one in reader.client.call("GET", "/v1/sandboxes")["data"]:
            reader.client.call("DELETE", f"/v1/sandboxes/{one['id']}")


@pytest.mark.parametrize("want,got", [({"a": 1}, {}), ([1], []), ("a...", "b"), (1, 2)])
def test_fits_can_fail(want, got):
    with pytest.raises(AssertionError):
        fits(want, got, "x")
