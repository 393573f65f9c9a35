# SPDX-License-Identifier: Apache-2.0
"""A separate daemon for a test, started by 'cay up' on a temporary state directory."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from lib import janitor, tree
from lib.client import Client

TEMPLATES = os.environ.get("CAY_TEMPLATES", "/var/lib/cay/templates")
_janitor = None


def tell_janitor(*words):
    global _janitor
    if _janitor is None:
        _janitor = subprocess.Popen([sys.executable, janitor.__file__], stdin=subprocess.PIPE,
                                    start_new_session=True, text=True)
    _janitor.stdin.write("\t".join(words) + "\n")
    _janitor.stdin.flush()


def clean_env(**more):
    """The caller's CAY_* settings must not affect the daemon under test."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("CAY_") or k == "CAY_WITHOUT"}
    env["CAY_CRIU"] = "none"  # tests of memory enable CRIU: lib/memory.py
    if os.environ.get("CAY_TEST_STORAGE"):  # "directory": a host without btrfs, for a whole run
        env["CAY_STORAGE"] = os.environ["CAY_TEST_STORAGE"]
    if os.environ.get("CAY_TEST_LINK") == "streams":  # as if every agent were on another host
        env["CAY_LINK_STREAMS"] = "true"
    env.update({k: v for k, v in more.items() if v is not None})
    return env


class Daemon:
    def __init__(self, build=None, args=(), env=None, state=None):
        self.build = build or tree.build_dir()
        self.cay = tree.program("cay", self.build)
        self.args = list(args)
        self.env = clean_env(**(env or {}))
        self.own_state = state is None
        self.state = state or tempfile.mkdtemp(prefix="cay-test-", dir="/var/tmp")
        os.chmod(self.state, 0o755)  # the daemon's user must be able to enter
        tell_janitor("+state", self.state, self.cay)
        self.client = None

    def command(self, *words, **kw):
        """Runs the CLI against this daemon."""
        kw.setdefault("timeout", 60)
        kw.setdefault("env", self.env)
        return subprocess.run([self.cay, "--state", self.state, *words],
                              capture_output=True, text=True, **kw)

    def up(self, timeout=None, check=True):
        built = os.path.exists(os.path.join(TEMPLATES, "refs/base"))
        timeout = timeout or (30 * tree.SLACK if built else 1500)
        args = ["--listen", "127.0.0.1:0", "--templates", TEMPLATES, *self.args]
        # Not captured through pipes: a process that outlives 'cay up' would keep them open.
        with open(os.path.join(self.state, "up.out"), "w+") as out:
            done = subprocess.run([self.cay, "up", "--state", self.state, *args], env=self.env,
                                  stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                  timeout=timeout)
            out.seek(0)
            self.up_output = out.read()
        os.unlink(out.name)
        if done.returncode != 0 and check:
            raise RuntimeError(f"cay up: status {done.returncode}\n{self.up_output}\n{self.logs()}")
        if done.returncode == 0:
            self.client = Client(self.url, self.key)
        return done.returncode

    @property
    def url(self):
        return pathlib.Path(self.state, "url").read_text().strip()

    @property
    def key(self):
        return pathlib.Path(self.state, "admin.key").read_text().strip()

    def logs(self, lines=40):
        text = ""
        for path in sorted(pathlib.Path(self.state, "logs").glob("*")):
            tail = path.read_text(errors="replace").splitlines()[-lines:]
            text += f"--- {path.name}\n" + "\n".join(tail) + "\n"
        return text

    def pids(self):
        """{"cay": pid of the supervisor, "cayd": pid, "cay-warden": pid}; absent ones are not there."""
        return {name: pid for pid, name in janitor.state_pids(self.state).items()}

    def kill(self, name, sig=signal.SIGKILL):
        pid = self.pids().get(name)
        if pid:
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass
        return pid

    def forgive(self):
        """Makes the supervisor forget the deaths so far, so that it does not wait longer each time."""
        self.kill("cay", signal.SIGUSR2)

    def wait_ready(self, timeout=10):
        """Until /readyz answers 200, reading the address again: a restart may choose another port."""
        until = time.monotonic() + timeout * tree.SLACK
        last = None
        while time.monotonic() < until:
            try:
                self.client = Client(self.url, self.key)
                last = self.client.raw("GET", "/readyz")[0]
                if last == 200:
                    return self.client
            except (OSError, ValueError) as error:
                last = error
            time.sleep(0.02)
        raise AssertionError(f"not ready within {timeout} s: {last}\n{self.logs()}")

    def down(self, *args, check=True):
        done = self.command("down", *(args if "--keep" in args else ("--yes", *args)))
        if check:
            assert done.returncode == 0, f"cay down: {done}\n{self.logs()}"
        return done

    def close(self):
        """'cay down', then force for what is left; True if force was not needed."""
        try:
            clean = self.down(check=False).returncode == 0
        except subprocess.TimeoutExpired:
            clean = False
        left = self.pids()
        if self.own_state:
            if left:
                janitor.take_down(self.state, self.cay)
            janitor.clean(self.state)
            tell_janitor("-state", self.state)
        return clean and not left

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc):
        self.close()
