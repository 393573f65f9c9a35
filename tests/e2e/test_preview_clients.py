# SPDX-License-Identifier: Apache-2.0
"""Previews as real programs use them: a development server in a browser, and WebSockets.

The packages (tests/e2e/preview) are installed outside and put into the sandbox as an archive: it has
no network.
"""

import io
import os
import subprocess
import tarfile

import pytest

from lib import browser, node, tree
from lib.browser import Browser
from lib.commands import spawn, wait_for
from lib.files import Files
from lib.previews import Preview

PAGE = """<!doctype html><title>vite</title><h1 id="text">nothing yet</h1>
<script type="module" src="/main.js"></script>"""
MAIN = """import { text } from './text.js'
const show = (t) => { document.querySelector('#text').textContent = t }
show(text)
window.loads = Math.random()
if (import.meta.hot) import.meta.hot.accept('./text.js', (m) => show(m.text))
"""
STYLE = "h1 { color: rgb(%s) }"


@pytest.fixture(scope="module")
def project():
    return node.project(tree.SOURCE / "tests/e2e/preview")


@pytest.fixture(scope="module")
def site(client, project):
    """A sandbox with the packages in it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(project / "node_modules", "node_modules")
        for path in project.glob("*.mjs"):
            archive.add(path, path.name)
    with client.sandbox(memory_mb=1024, timeout_sec=900, network={"mode": "none"}) as sandbox:
        Files(sandbox).put("site", packed.getvalue(), op="archive")
        yield sandbox


def start(site, *argv):
    return spawn(site, argv, cwd="/workspace/site")


@pytest.mark.skipif(not browser.PROGRAM, reason="no chromium")
def test_vite_with_hot_reload_in_a_browser(site):
    files = Files(site)
    for name, text in (("index.html", PAGE), ("main.js", MAIN + "import './style.css'\n"),
                       ("style.css", STYLE % "255, 0, 0"), ("text.js", "export const text = 'first words'\n")):
        files.put("site/" + name, text.encode())
    preview = Preview(site, port=5173, start=False)
    start(site, "node", "node_modules/vite/bin/vite.js", "--port", "5173", "--strictPort")
    wait_for(preview.listens, timeout=60)
    with Browser() as page:
        page.open(preview.row["url"] + "/")
        page.until("document.querySelector('#text')?.textContent === 'first words'")
        page.until("getComputedStyle(document.querySelector('#text')).color === 'rgb(255, 0, 0)'")
        loads = page.until("window.loads")
        # The following change arrives over the WebSocket.
        wait_for(lambda: site.client.call("GET", preview.path)["data"][0]["open"] >= 1, timeout=60)
        files.put("site/text.js", "export const text = 'second words'\n".encode())
        page.until("document.querySelector('#text').textContent === 'second words'")
        files.put("site/style.css", (STYLE % "0, 0, 255").encode())
        page.until("getComputedStyle(document.querySelector('#text')).color === 'rgb(0, 0, 255)'")
        assert page.value("window.loads") == loads, "the page was loaded again"
        if os.environ.get("CAY_SCREENSHOT"):
            page.screenshot(os.environ["CAY_SCREENSHOT"])


def test_websockets(site, project):
    preview = Preview(site, port=8765, start=False)
    process = start(site, "node", "socket.mjs", "8765")
    wait_for(preview.listens, timeout=60)
    program = node.node(tree.build_dir() / "node-own")
    done = subprocess.run([program, "client.mjs", f"{site.client.host}:{site.client.port}", preview.host],
                          cwd=project, capture_output=True, text=True, timeout=120 * tree.SLACK)
    assert done.returncode == 0, done.stdout + done.stderr
    # Close codes reach the server as they were sent, and a dead client appears as one without a close.
    wait_for(lambda: all(f"closed {code}" in process.output()["stdout"] for code in ("4321 enough", "1006")))
    row = wait_for(lambda: [row for row in site.client.call("GET", preview.path)["data"]
                            if row["port"] == 8765 and row["open"] == 0])[0]
    assert row["bytes_in"] > 16 << 20 and row["bytes_out"] > 16 << 20
