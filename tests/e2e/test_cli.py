# SPDX-License-Identifier: Apache-2.0
"""The command line: every command, its exit status, its JSON."""

import json
import os
import re
import secrets
import subprocess

import pytest

from lib import tree
from lib.daemon import clean_env


@pytest.fixture
def cay(daemon):
    return daemon.command


def ok(done):
    assert done.returncode == 0, done
    return done.stdout


def test_status_version_doctor(cay):
    assert "running" in ok(cay("status")).lower()
    assert re.search(r"\d+\.\d+", ok(cay("version")))
    assert json.loads(ok(cay("status", "--json")))
    assert json.loads(ok(cay("version", "--json")))
    done = cay("doctor")
    assert done.returncode in (0, 8) and len(done.stdout) > 200, done
    json.loads(cay("doctor", "--json").stdout)


def test_up_twice_does_no_harm(daemon):
    pids = daemon.pids()
    assert daemon.up() == 0
    assert daemon.pids() == pids


def test_life_of_a_sandbox(cay):
    name = "cli" + secrets.token_hex(3)
    sandbox = ok(cay("create", "--name", name, "--memory", "256", "--timeout", "10m",
                     "--metadata", "k=v", "--env", "A=1")).strip()
    assert re.fullmatch(r"[a-z0-9]+", sandbox)
    assert sandbox in ok(cay("ls")) and name in ok(cay("ls"))
    assert [r["id"] for r in json.loads(ok(cay("ls", "--json", "--metadata", "k=v")))["data"]
            if r["name"] == name] == [sandbox]
    info = json.loads(ok(cay("info", name, "--json")))
    assert info["id"] == sandbox and info["memory_mb"] == 256 and info["metadata"] == {"k": "v"}
    assert sandbox in ok(cay("info", name))
    assert ok(cay("exec", name, "--", "/bin/echo", "-n", "a  b")) == "a  b"
    assert ok(cay("exec", name, "-c", "echo $A; pwd")) == "1\n/workspace\n"
    assert ok(cay("exec", name, "--user", "root", "--", "id", "-u")) == "0\n"
    assert ok(cay("exec", name, "--cwd", "/tmp", "--", "pwd")) == "/tmp\n"
    assert ok(cay("exec", "-i", name, "--", "tr", "a", "b", input="banana")) == "bbnbnb"
    ok(cay("rm", name))
    assert cay("info", name).returncode == 3


def test_run(cay):
    assert ok(cay("run", "--", "python3", "-c", "print(6*7)")) == "42\n"
    assert ok(cay("run", "-c", "echo x; echo y >&2")) == "x\n"
    done = cay("run", "--", "sh", "-c", "exit 9")
    assert done.returncode == 9
    assert cay("run", "--", "sh", "-c", "kill -9 $$").returncode == 137
    assert cay("run", "--exec-timeout", "1", "--", "sleep", "20").returncode == 124


def test_run_leaves_nothing(cay, client):
    before = {r["id"] for r in client.list()}
    ok(cay("run", "--", "true"))
    cay("run", "--", "false")
    assert {r["id"] for r in client.list()} == before
    kept = ok(cay("run", "--keep", "--json", "--", "true"))
    fresh = {r["id"] for r in client.list()} - before
    assert len(fresh) == 1, kept
    client.delete(fresh.pop())


def test_run_interrupted_removes_its_sandbox(daemon, client):
    import signal
    import time
    before = {r["id"] for r in client.list()}
    process = subprocess.Popen([daemon.cay, "run", "--state", daemon.state, "--", "sleep", "60"],
                               env=daemon.env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    assert {r["id"] for r in client.list()} - before
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 130
    assert {r["id"] for r in client.list()} == before


def test_binary_passes_through(daemon):
    sandbox = ok(daemon.command("create")).strip()
    data = os.urandom(50000)
    done = subprocess.run([daemon.cay, "exec", "-i", "--state", daemon.state, sandbox, "--", "cat"],
                          input=data, capture_output=True, env=daemon.env, timeout=20)
    assert done.returncode == 0 and done.stdout == data
    ok(daemon.command("rm", sandbox))


def test_keys(cay, daemon):
    made = json.loads(ok(cay("key", "create", "--json", "--name", "cli-test", "--scope", "sandboxes:read")))
    assert made["key"].startswith("cay_")
    assert "cli-test" in ok(cay("key", "ls"))
    assert made["key"] not in ok(cay("key", "ls", "--json")), "a key is shown once"
    ok(cay("key", "rm", made["id"]))
    assert cay("ls", "--key", made["key"]).returncode == 4


def test_templates(cay):
    assert "base" in ok(cay("template", "ls"))
    assert json.loads(ok(cay("template", "info", "base", "--json")))["name"] == "base"
    assert cay("template", "info", "no-such").returncode == 3


# -- exit codes -----------------------------------------------------------------------------------

def test_exit_2_usage(cay):
    for words in (["no-such-command"], ["create", "--no-such-option"], ["info"],
                  ["create", "--memory", "lots"], ["create", "--memory", "0"],
                  ["create", "--cpu", "99"]):
        done = cay(*words)
        assert done.returncode == 2, (words, done)
        assert done.stderr and not done.stdout, (words, done)
    for words, status in ((["exec", "-d", "-t", "x", "--", "true"], 125), (["logs", "--cursor", "x", "x", "y"], 2),
                          (["kill", "-s", "FOO", "x", "y"], 2)):
        done = cay(*words)
        assert done.returncode == status and f"hint: cay {words[0]} --help" in done.stderr, (words, done)


def test_exit_3_not_found(cay):
    for words in (["info", "nosuch"], ["rm", "nosuch"], ["ps", "nosuch"],
                  ["create", "--template", "nosuch"]):
        done = cay(*words)
        assert done.returncode == 3, words
        assert "GET /" not in done.stderr and "'cay " in done.stderr, "advice for who types commands"


def test_exit_4_unauthenticated(cay):
    assert cay("ls", "--key", "cay_" + "0" * 40).returncode == 4


def test_exit_5_permission(cay, client):
    made = client.call("POST", "/v1/keys", {"name": "weak", "scopes": ["sandboxes:read"]})
    assert cay("create", "--key", made["key"]).returncode == 5
    assert cay("ls", "--key", made["key"]).returncode == 0
    client.call("DELETE", f"/v1/keys/{made['id']}")


def test_exit_7_conflict(cay):
    name = "twice" + secrets.token_hex(3)
    ok(cay("create", "--name", name))
    assert cay("create", "--name", name).returncode == 7
    ok(cay("rm", name))


def test_exit_8_no_daemon(tmp_path):
    done = subprocess.run([tree.program("cay"), "ls", "--url", "http://127.0.0.1:1", "--key",
                           "cay_" + "0" * 40], capture_output=True, text=True, env=clean_env(), timeout=20)
    assert done.returncode == 8, done
    assert "cay up" in done.stderr, "the error says what to do"


def test_errors_as_json(cay):
    done = cay("info", "nosuch", "--json")
    text = done.stdout or done.stderr
    assert done.returncode == 3 and json.loads(text)["error"]["code"] == "sandbox_not_found", done


def test_help_for_everything(cay):
    text = ok(cay("help"))
    for word in ("up", "down", "status", "doctor", "run", "create", "ls", "info", "exec", "rm", "version"):
        assert re.search(rf"^\s+{word}\b", text, re.M), word
        assert len(ok(cay(word, "--help"))) > 60
    assert "complete" in ok(cay("completion", "bash"))
    subprocess.run(["bash", "-n"], input=ok(cay("completion", "bash")), text=True, check=True)


def test_environment_and_flags(daemon):
    """CAY_URL and CAY_API_KEY find the daemon; a flag overrides the environment."""
    env = clean_env(CAY_URL=daemon.url, CAY_API_KEY=daemon.key)
    done = subprocess.run([daemon.cay, "ls", "--json"], env=env, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done
    env["CAY_API_KEY"] = "cay_" + "0" * 40
    done = subprocess.run([daemon.cay, "ls"], env=env, capture_output=True, text=True, timeout=20)
    assert done.returncode == 4
    done = subprocess.run([daemon.cay, "ls", "--key", daemon.key], env=env, capture_output=True,
                          text=True, timeout=20)
    assert done.returncode == 0


def test_key_file_mode(daemon):
    assert os.stat(os.path.join(daemon.state, "admin.key")).st_mode & 0o777 == 0o600
