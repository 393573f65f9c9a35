# SPDX-License-Identifier: Apache-2.0
"""cay without root: a user of the machine with the local engine, and the advice for others."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest

from lib import tree
from lib.daemon import clean_env

ROOT = pathlib.Path(__file__).resolve().parents[2]
UID = 54321  # no account of the machine


class User:
    """Runs programs as an ordinary user with a home directory."""

    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="cay-user-", dir="/var/tmp")
        self.temp = os.path.join(self.home, "tmp")
        os.mkdir(self.temp)
        for path in (self.home, self.temp):
            os.chown(path, UID, UID)

    def run(self, *words, check=True, **env):
        names = {"HOME": self.home, "TMPDIR": self.temp, "CAY_LISTEN": "127.0.0.1:0", **env}
        names = {k: v for k, v in clean_env(**names).items() if k != "XDG_STATE_HOME" or k in env}
        done = subprocess.run(["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--no-new-privs", "--",
                               *words], env=names, cwd=self.home, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60 * tree.SLACK)
        assert not check or done.returncode == 0, done
        return done

    def cay(self, *words, **kw):
        return self.run(tree.program("cay"), *words, **kw)

    def processes(self):
        return subprocess.run(["pgrep", "-u", str(UID), "-l"], capture_output=True, text=True).stdout


@pytest.fixture
def user():
    if subprocess.run(["setpriv", f"--reuid={UID}", "--clear-groups", "--", "test", "-x", tree.program("cay")],
                      check=False).returncode != 0:
        pytest.skip("the build directory cannot be read by other users")
    someone = User()
    yield someone
    down = someone.cay("down", "--yes", check=False)
    until = time.monotonic() + 5 * tree.SLACK  # 'cay down' returns when the daemon's lock is free, its processes end with that
    while (left := someone.processes()) and time.monotonic() < until:
        time.sleep(0.05)
    subprocess.run(["pkill", "-KILL", "-u", str(UID)], check=False)
    shutil.rmtree(someone.home, ignore_errors=True)
    assert left == "", (left, down)


def test_everything_without_root(user):
    up = user.cay("up", "--engine-local")
    state = os.path.join(user.home, ".local/state/cay")
    assert f"{state}/admin.key" in up.stdout and "isolates nothing" in up.stdout
    assert "CAY_STATE" not in up.stdout, "its own directory needs no variable"
    assert user.cay("run", "--", "id", "-u").stdout == f"{UID}\n"
    sandbox = json.loads(user.cay("--json", "create").stdout)["id"]
    assert user.cay("exec", sandbox, "--", "sh", "-c", "echo inside > file; cat file").stdout == "inside\n"
    with open(os.path.join(user.home, "up.txt"), "w") as f:
        f.write("from outside\n")
    user.cay("cp", "up.txt", f"{sandbox}:down.txt")
    assert user.cay("exec", sandbox, "--", "cat", "down.txt").stdout == "from outside\n"
    user.cay("cp", f"{sandbox}:file", "back.txt")
    with open(os.path.join(user.home, "back.txt")) as f:
        assert f.read() == "inside\n"
    status = user.cay("status").stdout
    assert "NO ISOLATION" in status
    refused = user.cay("snapshot", sandbox, check=False)
    assert refused.returncode != 0 and "local" in refused.stderr
    user.cay("rm", sandbox)
    user.cay("down", "--yes")
    assert user.processes() == ""
    assert "not running" in user.cay("down", "--yes").stderr


def test_the_state_directory_can_be_chosen(user):
    place = os.path.join(user.home, "xdg")
    user.cay("up", "--engine-local", XDG_STATE_HOME=place)
    assert os.path.exists(os.path.join(place, "cay", "admin.key"))
    assert user.cay("run", "--", "echo", "hi", XDG_STATE_HOME=place).stdout == "hi\n"
    user.cay("down", "--yes", XDG_STATE_HOME=place)


def test_plain_up_names_both_alternatives(user):
    done = user.cay("up", check=False)
    assert done.returncode != 0 and "needs root" in done.stderr
    assert "sudo cay up" in done.stderr and "cay up --engine-local" in done.stderr
    assert user.processes() == ""


def test_make_run_says_what_to_do(user):
    done = user.run(str(ROOT / "tools/demo"), "--check", check=False)
    assert done.returncode == 1
    assert "sudo make run" in done.stderr and "--engine-local" in done.stderr
