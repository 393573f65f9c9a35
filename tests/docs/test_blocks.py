# SPDX-License-Identifier: Apache-2.0
"""Every command and code block of README.md, the tutorials and the guides, run in order against a real daemon."""

import os
import re
import subprocess

import jsonschema
import pytest

from lib import blocks, tree

PAGES = ["README.md", *sorted(str(path.relative_to(tree.SOURCE)) for folder in ("tutorials", "guides")
                              for path in (tree.SOURCE / "docs" / folder).glob("*.md"))]
HTTP = "docs/guides/http.md"  # defines the shell function 'api' for all others
LISTS = ("webhooks", "snapshots", "secrets")


def read(page):
    return blocks.parse((tree.SOURCE / page).read_text(), page)


@pytest.fixture(scope="module")
def document(reader):
    return reader.client.call("GET", "/openapi.json")


@pytest.fixture(autouse=True)
def emptied(reader):
    """Each page starts with an empty daemon."""
    yield
    for one in reader.client.call("GET", "/v1/sandboxes?limit=1000")["data"]:
        reader.client.call("DELETE", f"/v1/sandboxes/{one['id']}")
    for name in LISTS:
        for one in reader.client.call("GET", f"/v1/{name}")["data"]:
            reader.client.call("DELETE", f"/v1/{name}/{one['id']}")
    for one in reader.client.call("GET", "/v1/keys")["data"]:
        if "admin" not in one["scopes"]:
            reader.client.call("DELETE", f"/v1/keys/{one['id']}")


def environment(reader, programs, home):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CAY_", "E2B_", "NODE_"))}
    return dict(env, CAY_STATE=reader.state, PATH=f"{programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", HOME=str(home),
                NO_COLOR="1", LC_ALL="C.UTF-8", CAY_SOURCE=str(tree.SOURCE), PYTHONDONTWRITEBYTECODE="1")


def rewrite(reader):
    """Replaces the reader's usual paths and addresses."""
    port = reader.url.rsplit(":", 1)[1]
    return ((r"/var/lib/cay/(?=admin\.key|url\b)", reader.state + "/"), (r":7070\b", ":" + port))


@pytest.mark.parametrize("page", PAGES)
def test_page(reader, programs, have, document, tmp_path, page):
    try:
        left_out = run_page(reader, programs, have, document, tmp_path, page)
    except blocks.Broken as error:
        broken = str(error)
    else:
        broken = None
    if broken:
        pytest.fail(broken, pytrace=False)
    if left_out:
        pytest.skip("all but: " + "; ".join(left_out))


def run_page(reader, programs, have, document, tmp_path, page):
    found = read(page)
    for block in found:
        named = block.words.get("tested-by")
        if named and not (tree.SOURCE / named).exists():
            raise blocks.Broken(f"{block.where}: there is no {named}")
    blocks.check_json(found, document, validate)
    for block in found:
        if block.language == "ini" and "checked" in block.words:
            check_settings(block, tmp_path)
    place = tmp_path / "page"
    place.mkdir()
    if any(block.words.get("needs") == "e2b" for block in found) and "e2b" in have:
        os.symlink(os.path.join(have["e2b"], "node_modules"), place / "node_modules")
    text = (tree.SOURCE / page).read_text()
    setup = ""
    if page == HTTP or re.search(r"\]\((\.\./guides/)?http\.md", text):
        setup = "".join(block.body for block in read(HTTP) if "setup" in block.words)
    run = blocks.Page(found, str(place), environment(reader, programs, tmp_path), rewrite(reader), setup, have)
    run.run(tree.SLACK)
    return run.left_out


def validate(value, schema):
    errors = jsonschema.Draft202012Validator(schema).iter_errors(value)
    return next((f"{'.'.join(map(str, error.path))}: {error.message}" for error in errors), None)


def check_settings(block, tmp_path):
    """A settings file that the daemon accepts."""
    path = tmp_path / "cay.conf"
    path.write_text(block.body)
    done = subprocess.run([tree.program("cayd"), "--config", str(path), "--print-config"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise blocks.Broken(f"{block.where}: {done.stderr}")
