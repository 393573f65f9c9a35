# SPDX-License-Identifier: Apache-2.0
"""cay secret, as people use it."""

import json
import os
import pty
import subprocess
import uuid

import pytest

from lib import tree
from lib.daemon import Daemon


@pytest.fixture(scope="module")
def own():
    with Daemon() as daemon:
        yield daemon


def cay(daemon, *words, text=None, env=None, **kw):
    return subprocess.run([daemon.cay, "--state", daemon.state, *words], input=text, text=True, capture_output=True,
                          env=dict(daemon.env, **(env or {})), timeout=60 * tree.SLACK, **kw)


def test_set_use_rotate_remove(own, tmp_path):
    value = f"first-{uuid.uuid4().hex}"
    done = cay(own, "secret", "set", "API_TOKEN", "--host", "api.example.com", text=value + "\n")
    assert done.returncode == 0 and done.stdout == "API_TOKEN version 1\n", done
    assert value not in done.stdout + done.stderr
    # Inside a sandbox the value is set, but its output is masked.
    done = cay(own, "run", "--secret", "API_TOKEN", "--secret", "API_TOKEN=COPY", "--", "sh", "-c",
               f'[ "$API_TOKEN" = "{value}" ] && [ "$COPY" = "{value}" ] && echo $API_TOKEN')
    assert (done.returncode, done.stdout) == (0, "*" * len(value) + "\n"), done
    done = cay(own, "run", "--broker", "API_TOKEN=TOKEN", "--", "sh", "-c", "echo $TOKEN")
    assert done.stdout.startswith("cay-secret-") and value not in done.stdout, done
    # set again is a new version; from a file and from a variable.
    path = tmp_path / "value"
    path.write_text(value + "-2\n")
    assert cay(own, "secret", "set", "API_TOKEN", "--from-file", str(path)).stdout == "API_TOKEN version 2\n"
    done = cay(own, "secret", "rotate", "API_TOKEN", "--from-env", "NEXT", env={"NEXT": value + "-3"})
    assert done.stdout == "API_TOKEN version 3\n", done
    listed = cay(own, "secret", "ls")
    assert "API_TOKEN" in listed.stdout and "api.example.com" in listed.stdout and value not in listed.stdout
    rows = json.loads(cay(own, "--json", "secret", "ls").stdout)["data"]
    assert [r["version"] for r in rows] == [3]
    assert cay(own, "secret", "rm", "API_TOKEN").stdout == "API_TOKEN\n"
    assert cay(own, "secret", "ls").stdout.strip() in ("", "no secrets")
    assert cay(own, "secret", "rm", "API_TOKEN").returncode != 0


def test_mistakes_are_explained(own, tmp_path):
    path = tmp_path / "binary"
    path.write_bytes(bytes(range(128, 160)))
    done = cay(own, "secret", "set", "BIN", "--from-file", str(path))
    assert done.returncode != 0 and "not UTF-8" in done.stderr
    path.write_text("x" * 20000)
    done = cay(own, "secret", "set", "LONG", "--from-file", str(path))
    assert done.returncode != 0 and "longer than" in done.stderr
    done = cay(own, "secret", "set", "BAD", "--from-file", "/nonexistent")
    assert done.returncode != 0 and "/nonexistent" in done.stderr
    done = cay(own, "secret", "set", "BAD", "--from-env", "NOT_SET_AT_ALL")
    assert done.returncode != 0 and "NOT_SET_AT_ALL" in done.stderr
    done = cay(own, "secret", "set", "1BAD", text="x" * 10)
    assert done.returncode != 0 and "name" in done.stderr
    done = cay(own, "create", "--secret", "NOBODY")
    assert done.returncode != 0 and "NOBODY" in done.stderr


def test_a_terminal_is_asked_without_echo(own):
    master, slave = pty.openpty()
    child = subprocess.Popen([own.cay, "--state", own.state, "secret", "set", "TYPED"], stdin=slave, stderr=slave,
                             stdout=subprocess.PIPE, text=True, env=own.env, close_fds=True)
    os.close(slave)
    seen = b""
    while b"value of TYPED: " not in seen:
        seen += os.read(master, 1024)
    os.write(master, b"typed-by-hand\n")
    out, _ = child.communicate(timeout=60 * tree.SLACK)
    while True:
        try:
            piece = os.read(master, 1024)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(master)
    assert child.returncode == 0 and out == "TYPED version 1\n"
    assert b"typed-by-hand" not in seen
    cay(own, "secret", "rm", "TYPED")
