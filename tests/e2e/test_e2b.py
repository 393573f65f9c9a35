# SPDX-License-Identifier: Apache-2.0
"""The unmodified npm packages of E2B against our daemon, with three variables set.

The tests themselves are in tests/e2e/e2b; each is named by the SDK's method it shows. The results are the table in
docs/guides/e2b.md; CAY_E2B_TABLE=write updates it.
"""

import collections
import json
import os
import pathlib
import subprocess

import pytest

from lib import node, tree

pytestmark = pytest.mark.code
HERE = pathlib.Path(__file__).parent / "e2b"
DOCUMENT = tree.SOURCE / "docs/guides/e2b.md"
BEGIN, END = "<!-- methods:begin -->\n", "<!-- methods:end -->"
RUNS = {"code": ("code.test.mjs", ""), "control": ("control.test.mjs", ""), "wire": ("wire.test.mjs", ""),
        "pooled": ("inside.test.mjs", "pooled"), "cold": ("inside.test.mjs", "cold"),
        "forked": ("inside.test.mjs", "forked")}
# Members of the SDK's classes that are not for users (private in its types), with what covers them.
INTERNAL = {
    "Sandbox.createSandbox", "Sandbox.forkSandbox", "Sandbox.connectSandbox", "sandbox.resolveApiOpts",
    "sandbox.fileUrl", "commands.start", "git.runGit", "git.runShell", "git.getRemoteUrl",
    "sandbox.getJupyterRequestUrl", "sandbox.handleRequestError", "git.resolveRemoteName", "git.withRemoteCredentials", "git.hasUpstream",
}
ORDER = ("Sandbox", "sandbox", "commands", "commandHandle", "pty", "files", "watchHandle", "git", "paginator",
         "snapshotPaginator", "secretPaginator", "Template", "Secret", "Volume", "envd", "legacy paths")


@pytest.fixture(scope="module")
def project():
    return node.project(HERE)


@pytest.fixture(scope="module")
def runs(project, daemon, tmp_path_factory):
    """All test files at once, because each mostly waits. {name: (status, output, rows)}"""
    results = tmp_path_factory.mktemp("e2b")
    program = node.node(tree.build_dir() / "node-own")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("E2B_", "NODE_"))}
    env.update(E2B_API_URL=daemon.url, E2B_SANDBOX_URL=daemon.url,
               E2B_API_KEY=daemon.key.replace("cay_", "e2b_", 1), CAY_E2B_RESULTS=str(results),
               CAY_TEST_SLACK=str(tree.SLACK))
    started, ended = {}, {}
    for name, (file, kind) in RUNS.items():
        started[name] = subprocess.Popen([program, "--test-force-exit", "--test-reporter=tap", file], cwd=project,
                                         env=dict(env, CAY_E2B_KIND=kind), text=True,
                                         stdout=open(results / f"{name}.out", "w"),
                                         stderr=subprocess.STDOUT)
    for name, child in started.items():
        try:
            status = child.wait(timeout=180 * tree.SLACK)
        except subprocess.TimeoutExpired:
            child.kill()
            status = child.wait()
        file, kind = RUNS[name]
        rows = results / f"{file}-{kind}.json"
        ended[name] = (status, (results / f"{name}.out").read_text(),
                       json.loads(rows.read_text()) if rows.exists() else [])
    return ended


@pytest.mark.parametrize("name", RUNS)
def test_sdk(runs, name):
    status, output, rows = runs[name]
    bad = [row for row in rows if not row["ok"]]
    assert status == 0 and rows and not bad, f"status {status}\n{output}"


def shown(runs):
    methods = collections.defaultdict(lambda: {"states": [], "titles": []})
    for _, _, rows in runs.values():
        for row in rows:
            of = methods[row["method"]]
            of["states"].append(row["state"] if row["ok"] else "broken")
            if row["title"] not in of["titles"] and row["title"] != "refused":
                of["titles"].append(row["title"])
    return methods


def table(methods):
    def place(name):
        prefix = name.split(".")[0]
        return (ORDER.index(prefix) if prefix in ORDER else len(ORDER), name)

    lines = ["| method | state | shown by |", "|---|---|---|"]
    for name in sorted(methods, key=place):
        states = sorted(set(methods[name]["states"]))
        lines.append(f"| `{name}` | {', '.join(states)} | {'; '.join(methods[name]['titles'])} |")
    return "\n".join(lines) + "\n"


def test_every_method_is_shown(runs, project):
    program = node.node(tree.build_dir() / "node-own")
    done = subprocess.run([program, "methods.mjs"], cwd=project, capture_output=True, text=True,
                          timeout=60 * tree.SLACK)
    offered = set(json.loads(done.stdout)) - INTERNAL
    assert not offered - set(shown(runs)), "methods of the SDK without a test"


def test_the_table_is_what_was_shown(runs):
    text = DOCUMENT.read_text()
    head, rest = text.split(BEGIN)
    written, tail = rest.split(END)
    now = table(shown(runs))
    if os.environ.get("CAY_E2B_TABLE") == "write":
        DOCUMENT.write_text(head + BEGIN + now + END + tail)
    else:
        assert written == now, "docs/guides/e2b.md is not what the tests show: CAY_E2B_TABLE=write"
