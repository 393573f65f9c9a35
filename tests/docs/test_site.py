# SPDX-License-Identifier: Apache-2.0
"""'make docs': the site is complete, its links work, and a broken document is rejected."""

import html.parser
import os
import pathlib
import shutil
import subprocess
import urllib.parse

import pytest

from lib import tree

PROGRAM = tree.SOURCE / "tools/docs/site"


def build(out, source=tree.SOURCE):
    # No network: 'make docs' must not need one.
    return subprocess.run(["unshare", "--net", PROGRAM, "--source", str(source), "--out", str(out)], capture_output=True, text=True, check=False)


class Reader(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.open = [], set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.links += [values[name] for name in ("href", "src") if name in values]
        if "id" in values:
            assert values["id"] not in self.anchors, f"the id {values['id']} is used twice"
            self.anchors.add(values["id"])
        if tag not in ("meta", "link", "img", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("docs") / "site"
    done = build(out)
    assert done.returncode == 0, done.stderr
    return {path.relative_to(out): Reader(path.read_text()) for path in out.rglob("*.html")}, out


def test_links(site):
    pages, out = site
    assert len(pages) > 50
    for name, page in pages.items():
        assert not page.open, f"{name}: {page.open} are never closed"
        for link in page.links:
            target = urllib.parse.urlsplit(link)
            if target.scheme:
                assert target.scheme in ("http", "https"), f"{name}: {link}"
                continue
            path = pathlib.Path(os.path.normpath(out / name.parent / target.path)) if target.path else out / name
            assert path.is_file(), f"{name}: {link} leads nowhere"
            if target.fragment:
                assert target.fragment in pages[path.relative_to(out)].anchors, f"{name}: {link} has no such heading"


def test_nothing_is_loaded_from_elsewhere(site):
    _, out = site
    for path in out.rglob("*.html"):
        text = path.read_text()
        assert 'name="viewport"' in text
        assert 'src="http' not in text and "<script" not in text and "@import" not in text, path
    style = (out / "site.css").read_text()
    assert "prefers-color-scheme: dark" in style and "url(" not in style


@pytest.mark.parametrize("page,text,problem", [
    ("docs/glossary.md", "\n[x](nowhere.md)\n", "there is no docs/nowhere.md"),
    ("docs/glossary.md", "\n[x](index.md#nothing)\n", "no heading 'nothing'"),
    ("docs/lonely.md", "# Lonely\n", "cannot be reached"),
], ids=["page", "heading", "orphan"])
def test_broken_documents(site, tmp_path, page, text, problem):
    """site: without the problem the same tree is accepted."""
    source = tmp_path / "tree"
    for name in subprocess.run(["git", "-C", str(tree.SOURCE), "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "docs"],
                               capture_output=True, text=True, check=True).stdout.split():
        if (tree.SOURCE / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree.SOURCE / name, source / name)
    with open(source / page, "a", encoding="utf-8") as f:
        f.write(text)
    done = build(tmp_path / "out", source)
    assert done.returncode != 0 and problem in done.stderr and done.stderr.count("\n") == 2, done.stderr
    assert not (tmp_path / "out").exists()
