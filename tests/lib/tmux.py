# SPDX-License-Identifier: Apache-2.0
"""A terminal like a person's: tmux on a separate socket."""

import os
import secrets
import subprocess
import time

from lib import tree

PROMPT = "ready%"  # the screen is read without trailing blanks


class Tmux:
    def __init__(self, env, cols=100, rows=30):
        self.socket = f"cay-test-{os.getpid()}-{secrets.token_hex(3)}"
        self.env = dict(env, TERM="xterm-256color")
        self.env.pop("TMUX", None)
        self.run("-f", "/dev/null", "new-session", "-d", "-x", str(cols), "-y", str(rows),
                 "env", f"PS1={PROMPT} ", "bash", "--norc", "--noprofile")
        self.run("set", "-g", "history-limit", "5000")
        try:
            self.wait(PROMPT)
        except BaseException:
            self.close()
            raise

    def run(self, *words):
        done = subprocess.run(["tmux", "-L", self.socket, *words], env=self.env, text=True,
                              capture_output=True, timeout=20)
        assert done.returncode == 0, done
        return done.stdout

    def keys(self, *keys):
        """Keys by tmux's names: Enter, Escape, C-c."""
        self.run("send-keys", *keys)

    def type(self, text, enter=True):
        self.run("send-keys", "-l", text)
        if enter:
            self.keys("Enter")

    def screen(self, back=0):
        return self.run("capture-pane", "-p", "-S", str(-back))

    def wait(self, what, timeout=10, back=0):
        """Waits until the text is there (or a function of the screen is true); returns the screen."""
        until = time.monotonic() + timeout * tree.SLACK
        while True:
            screen = self.screen(back)
            if what(screen) if callable(what) else what in screen:
                return screen
            assert time.monotonic() < until, f"no {what!r} on the screen within {timeout} s:\n{screen}"
            time.sleep(0.05)

    def resize(self, cols, rows):
        self.run("resize-window", "-x", str(cols), "-y", str(rows))
        time.sleep(0.4)  # tmux tells the program up to 250 ms later

    def shell(self, line, timeout=10):
        """One line in the shell of the pane; its output."""
        token = secrets.token_hex(4)
        self.type(f"{line}; echo e''nd-{token}-$?")
        screen = self.wait(f"end-{token}-", timeout, back=2000)
        return screen[:screen.index(f"end-{token}-")].rsplit("\n", 1)[0]

    def settings(self, path):
        """What stty says, but for the size, which a test may change."""
        self.shell(f"stty -a | tail -n +2 > {path}")
        with open(path) as f:
            text = f.read()
        assert "icanon" in text, text
        return text

    def close(self):
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], env=self.env, capture_output=True,
                       timeout=20)
        try:
            os.unlink(f"/tmp/tmux-{os.getuid()}/{self.socket}")
        except FileNotFoundError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
