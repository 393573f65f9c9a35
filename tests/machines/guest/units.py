# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: suites that start a daemon of their own use the one that systemd started.

    python3 -m pytest -p machines.guest.units tests/conformance ...

A suite that wants a daemon with settings or a state directory of its own still starts one.
"""
import os
import shutil
import signal
import subprocess
import time

import lib.daemon
from lib import tree
from lib.client import Client

STATE = "/var/lib/cay"
UNITS = {"cayd": "cayd.service", "cay-warden": "cay-warden.service"}
Started = lib.daemon.Daemon


def systemctl(*words, check=True):
    return subprocess.run(["systemctl", *words], capture_output=True, text=True, check=check).stdout


class Units(Started):
    """The interface of lib.daemon.Daemon over the two units."""

    def __init__(self):  # pylint: disable=super-init-not-called
        self.build = tree.build_dir()
        self.cay = shutil.which("cay")
        self.state = STATE
        self.args, self.env, self.own_state = [], lib.daemon.clean_env(), False
        self.client = None

    def up(self, timeout=None, check=True):
        systemctl("start", *UNITS.values(), check=check)
        self.wait_ready(timeout or 30)
        return 0

    def down(self, *_args, check=True):
        systemctl("stop", *reversed(UNITS.values()), check=check)

    def pids(self):
        found = {name: int(systemctl("show", "-P", "MainPID", unit)) for name, unit in UNITS.items()}
        return {name: pid for name, pid in found.items() if pid}

    def forgive(self):
        systemctl("reset-failed", *UNITS.values(), check=False)

    def kill(self, name, sig=signal.SIGKILL):
        self.forgive()
        pid = self.pids().get(name)
        if pid:
            os.kill(pid, sig)
        return pid

    def logs(self, lines=40):
        words = [word for unit in UNITS.values() for word in ("-u", unit)]
        return subprocess.run(["journalctl", "--no-pager", "-n", str(lines), *words], capture_output=True, text=True, check=False).stdout

    def close(self):
        if self.client:
            self.client.close()
        return True

    def wait_restarted(self, name, old, timeout=20):
        """Waits until systemd has started another process for the unit, and the daemon is ready."""
        until = time.monotonic() + timeout * tree.SLACK
        while self.pids().get(name) in (old, None):
            assert time.monotonic() < until, f"{name} was not restarted\n{self.logs()}"
            time.sleep(0.1)
        return self.wait_ready(timeout)


def choose(build=None, args=(), env=None, state=None):
    if build is None and state is None and not env and set(args) <= {"--engine-local"}:
        return Units()
    return Started(build, args, env, state)


lib.daemon.Daemon = choose
__all__ = ["Units", "Client"]
