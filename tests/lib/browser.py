# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven by its DevTools protocol over a pair of pipes."""

import base64
import itertools
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

from lib import tree

PROGRAM = shutil.which("chromium")
# The host of the tests is the test's own: no sandbox (root), no GPU, nothing asked of the network.
WORDS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
         "--no-proxy-server", "--remote-debugging-pipe", "about:blank")


class Browser:
    """One page in a browser of its own, for the length of a with block."""

    def __init__(self):
        self.ids, self.left = itertools.count(1), b""
        self.session = None

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="cay-browser-")
        theirs_in, self.out = os.pipe()
        self.inn, theirs_out = os.pipe()
        # The protocol's pipes are descriptors 3 and 4 of the program; the shell puts them there.
        self.child = subprocess.Popen(
            ["bash", "-c", f'exec 8<&{theirs_in} 9>&{theirs_out} 3<&8 4>&9 8<&- 9>&-; exec "$@"', "-", PROGRAM,
             f"--user-data-dir={self.home}", *WORDS], pass_fds=(theirs_in, theirs_out),
            start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=open(pathlib.Path(self.home) / "stderr", "w"),
            env={"HOME": self.home, "PATH": os.environ["PATH"], "TMPDIR": self.home})
        os.close(theirs_in)
        os.close(theirs_out)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        return self

    def __exit__(self, *exc):
        os.close(self.out)
        os.close(self.inn)
        try:
            os.killpg(self.child.pid, 9)
        except ProcessLookupError:
            pass
        self.child.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def messages(self, deadline):
        while True:
            while b"\0" in self.left:
                text, self.left = self.left.split(b"\0", 1)
                yield json.loads(text)
            wait = deadline - time.monotonic()
            if wait <= 0 or not select.select([self.inn], [], [], wait)[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self.inn, 1 << 16)
            if not more:
                raise RuntimeError("the browser ended: " +
                                   (pathlib.Path(self.home) / "stderr").read_text()[-2000:])
            self.left += more

    def call(self, method, timeout=60, **params):
        number = next(self.ids)
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        for answer in self.messages(time.monotonic() + timeout * tree.SLACK):
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, url):
        failed = self.call("Page.navigate", url=url).get("errorText")
        assert not failed, f"{url}: {failed}"

    def value(self, expression, timeout=60):
        """The value of an expression in the page; waits for a promise."""
        answer = self.call("Runtime.evaluate", timeout=timeout, expression=expression, awaitPromise=True,
                           returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression, timeout=60):
        """Waits until it is true, in the page itself. It is evaluated again after a navigation."""
        script = ("new Promise((done, fail) => { const look = () => { const v = (" + expression + "); "
                  "if (v) done(v); else setTimeout(look, 20) }; look() })")
        end = time.monotonic() + timeout * tree.SLACK
        while True:
            try:
                return self.value(script, max(end - time.monotonic(), 0.1) / tree.SLACK)
            except RuntimeError as error:  # the page it was asked of is gone
                if "navigated" not in str(error) and "context" not in str(error).lower():
                    raise

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
