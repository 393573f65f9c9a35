# SPDX-License-Identifier: Apache-2.0
"""The runner of code blocks fails where it should: tests/lib/blocks.py."""

import os

import pytest

from lib import blocks


def run(text, directory, **kw):
    page = blocks.Page(blocks.parse(text, "page.md"), str(directory), dict(os.environ), **kw)
    page.run()
    return page


def fenced(info, *lines):
    return "\n".join(["Text.", "", f"```{info}", *lines, "```", ""])


@pytest.mark.parametrize("info", ["", "bash", "sh runs", "c", "sh needs=luck", "python file"])
def test_unknown_marks(info):
    with pytest.raises(blocks.Broken):
        blocks.parse(fenced(info, "true"), "page.md")


def test_indented_code_is_rejected():
    with pytest.raises(blocks.Broken):
        blocks.parse("Text.\n\n    rm -rf /\n", "page.md")
    assert not blocks.parse("- item\n\n    its second paragraph\n", "page.md")


def test_open_fence():
    with pytest.raises(blocks.Broken):
        blocks.parse("```sh\ntrue\n", "page.md")


@pytest.mark.parametrize("text", [
    fenced("sh", "false"),
    fenced("sh", "false | cat"),
    fenced("sh", "false", "true"),
    fenced("console", "$ echo one", "two"),
    fenced("console", "$ echo one; echo two", "one"),
    fenced("console", "$ false"),
    fenced("console", "no command"),
    fenced("python", "raise SystemExit(1)"),
    fenced("python file=x.py", "pass"),
], ids=["status", "pipe", "first of two", "output", "missing line", "silent", "no prompt", "python", "unused file"])
def test_broken_blocks(tmp_path, text):
    with pytest.raises(blocks.Broken):
        run(text, tmp_path)


def test_a_broken_block_is_named(tmp_path):
    with pytest.raises(blocks.Broken, match=r"page\.md:8: exit status 3"):
        run(fenced("sh", "true") + fenced("sh", "exit 3"), tmp_path)


def test_good_blocks(tmp_path):
    text = (fenced("sh", "x=1; cd /tmp") + fenced("console", "$ echo $x; pwd", "1", "/tmp", "$ seq 3", "1", "...", "$ echo a-b-c", "a-...-c")
            + fenced("python", "print(1)") + fenced("text", "no $ command") + fenced("python file=x.py", "print(2)")
            + fenced("console", "$ python3 " + str(tmp_path) + "/x.py", "2") + fenced("sh tested-by=x", "false"))
    assert not run(text, tmp_path).left_out


def test_needs(tmp_path):
    text = fenced("sh needs=memory", "false")
    assert run(text, tmp_path).left_out
    os.rename(tmp_path / ".output", tmp_path / ".earlier")
    with pytest.raises(blocks.Broken):
        run(text, tmp_path, have=("memory",))


def test_json():
    document = {"paths": {"/x": {"post": {"requestBody": {"content": {"application/json": {"schema": {}}}}}}}, "components": {}}

    def check(text, error=None):
        blocks.check_json(blocks.parse(text, "page.md"), document, lambda value, schema: error)

    check(fenced("json", '{"a": 1}'))
    check(fenced("json POST /x", "{}"))
    for text, error in ((fenced("json", "{"), None), (fenced("json POST /y", "{}"), None), (fenced("json POST /x", "{}"), "wrong")):
        with pytest.raises(blocks.Broken):
            check(text, error)
