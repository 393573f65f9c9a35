# SPDX-License-Identifier: Apache-2.0
"""Keys, secrets, webhooks, templates, events and usage: what the program sends, and what it makes of answers."""
import json
import os
import pty
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # what the tests of the program share
sys.path.insert(0, HERE)
import scripted  # noqa: E402
from test_program import CAY, cay, daemon, environment  # noqa: E402,F401


@pytest.fixture
def account(daemon):
    """A daemon whose answers are in .answers: (method, path) -> (status, body)."""
    before = daemon.route
    daemon.answers = {}
    daemon.route = lambda method, path, query, body: daemon.answers.get((method, path)) or before(
        method, path, query, body)
    return daemon


def page(*rows):
    return 200, {"data": list(rows), "next_cursor": None}


def bodies(account, method):
    return [body for m, _, body in account.calls if m == method]


# Keys

def test_key_is_printed_alone(account):
    account.answers["POST", "/v1/keys"] = 201, {"id": "k1", "key": "cay_secret"}
    r = account.cay("key", "create")
    assert (r.returncode, r.stdout) == (0, b"cay_secret\n")
    assert b"not shown again" in r.stderr
    assert bodies(account, "POST") == [{"name": "cli", "scopes": ["sandboxes:read", "sandboxes:write", "exec",
                                                                  "templates:read"]}]


def test_key_limits_are_numbers_none_or_default(account):
    account.answers["POST", "/v1/keys"] = 201, {"id": "k1", "key": "x"}
    r = account.cay("key", "create", "--name", "ci", "--scope", "exec", "--max-sandboxes", "5", "--max-vcpus", "none",
                    "--max-memory-mb", "default")
    assert r.returncode == 0
    assert bodies(account, "POST") == [{"name": "ci", "scopes": ["exec"], "max_sandboxes": 5, "max_vcpus": -1,
                                        "max_memory_mb": 0}]
    account.calls.clear()
    for wrong in ("-1", "many", "", "1.5", "9223372036854775808"):
        r = account.cay("key", "create", "--max-sandboxes=" + wrong)
        assert r.returncode != 0 and b"--max-sandboxes takes a number" in r.stderr
    assert account.calls == []


def test_key_set_names_only_what_changes(account):
    account.answers["PATCH", "/v1/keys/k1"] = 200, {"id": "k1"}
    r = account.cay("key", "set", "k1", "--max-snapshots", "3")
    assert (r.returncode, r.stdout) == (0, b"")
    assert bodies(account, "PATCH") == [{"max_snapshots": 3}]


def test_key_info_without_an_id_is_ones_own(account):
    account.answers["GET", "/v1/keys/self"] = 200, {"id": "k1", "name": "mine"}
    r = account.cay("key", "info")
    assert r.returncode == 0 and b"mine" in r.stdout
    account.answers["GET", "/v1/keys/other"] = 404, scripted.error("key_not_found", "no key 'other'")
    r = account.cay("key", "info", "other")
    assert r.returncode != 0 and b"no key 'other'" in r.stderr


def test_keys_are_listed(account):
    account.answers["GET", "/v1/keys"] = page({"id": "k1", "name": "ci\x1b[31m", "scopes": ["exec", "keys"],
                                               "created_at": "2020-01-01T00:00:00.000Z", "last_used_at": None})
    r = account.cay("key", "ls")
    assert r.returncode == 0
    assert b"k1" in r.stdout and b"exec" in r.stdout and b"\x1b" not in r.stdout
    assert json.loads(account.cay("key", "ls", "--json").stdout)["data"][0]["id"] == "k1"
    account.answers["GET", "/v1/keys"] = page()
    r = account.cay("key", "ls")
    assert r.returncode == 0 and b"no keys" in r.stderr


# Secrets: the value never comes from the command line

def secret(**more):
    return dict({"id": "s1", "name": "TOKEN", "scope": "global", "version": 1, "scrubbed": True}, **more)


def test_secret_from_standard_input(account):
    account.answers["GET", "/v1/secrets"] = page()
    account.answers["POST", "/v1/secrets"] = 201, secret()
    r = account.cay("secret", "set", "TOKEN", "--host", "api.example.com", stdin=b"hunter2hunter2\n")
    assert (r.returncode, r.stdout) == (0, b"TOKEN version 1\n")
    assert bodies(account, "POST") == [{"name": "TOKEN", "scope": "global", "hosts": ["api.example.com"],
                                        "value": "hunter2hunter2"}]  # without what echo puts at the end


def test_secret_from_a_file_or_a_variable(account, tmp_path):
    account.answers["GET", "/v1/secrets"] = page()
    account.answers["POST", "/v1/secrets"] = 201, secret(scrubbed=False)
    (tmp_path / "value").write_text("two\n\n")
    r = account.cay("secret", "set", "TOKEN", "--from-file", tmp_path / "value")
    assert r.returncode == 0 and b"less than 8 bytes" in r.stderr
    assert bodies(account, "POST")[-1]["value"] == "two\n"
    env = dict(account.env, VALUE="from there")
    r = cay("secret", "set", "TOKEN", "--from-env", "VALUE", env=env)
    assert r.returncode == 0 and bodies(account, "POST")[-1]["value"] == "from there"
    account.calls.clear()
    for args, part in ((("--from-env", "UNSET"), b"the variable UNSET is not set"),
                       (("--from-file", tmp_path / "missing"), b"missing"),
                       (("--from-file", tmp_path), b"cannot read"),
                       (("--from-file", "a", "--from-env", "b"), b"not both"),
                       (("--workspace", "w", "--sandbox", "s"), b"not both")):
        r = account.cay("secret", "set", "TOKEN", *args)
        assert r.returncode != 0 and part in r.stderr, r.stderr
    assert account.calls == []


@pytest.mark.parametrize("value, part", [(b"x" * 16385, b"longer than 16384 bytes"), (b"\xff\xfe", b"not UTF-8")])
def test_secret_that_cannot_be_one(account, value, part):
    r = account.cay("secret", "set", "TOKEN", stdin=value)
    assert r.returncode != 0 and part in r.stderr
    assert account.calls == []


def test_secret_of_the_largest_size(account):
    account.answers["POST", "/v1/secrets/s1/rotate"] = 200, secret(version=2)
    r = account.cay("secret", "rotate", "s1", stdin=b'"' * 16384)
    assert (r.returncode, r.stdout) == (0, b"TOKEN version 2\n")
    assert bodies(account, "POST") == [{"value": '"' * 16384}]


def test_secret_set_again_makes_a_version(account):
    account.answers["GET", "/v1/secrets"] = page(secret(id="other", scope="workspace", external_workspace_id="w2"),
                                                 secret(id="mine", scope="workspace", external_workspace_id="w1"))
    account.answers["POST", "/v1/secrets/mine/rotate"] = 200, secret(version=7)
    r = account.cay("secret", "set", "TOKEN", "--workspace", "w1", stdin=b"hunter2hunter2")
    assert (r.returncode, r.stdout) == (0, b"TOKEN version 7\n")
    assert bodies(account, "POST") == [{"value": "hunter2hunter2"}]


def test_secret_is_asked_for_without_echo(account):
    account.answers["POST", "/v1/secrets/s1/rotate"] = 200, secret(version=2)
    master, slave = pty.openpty()
    p = subprocess.Popen([CAY, "secret", "rotate", "s1"], env=environment(**account.env), stdin=slave,
                         stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    shown = b""
    while b"value of s1: " not in shown:
        shown += os.read(master, 1000)
    os.write(master, b"typed-in-secret\n")
    assert p.communicate(timeout=30)[0] == b"TOKEN version 2\n" and p.returncode == 0
    shown += os.read(master, 1000)
    os.close(master)
    assert b"typed" not in shown
    assert bodies(account, "POST") == [{"value": "typed-in-secret"}]


# Webhooks

def test_webhook_shows_its_secret_once(account):
    account.answers["POST", "/v1/webhooks"] = 201, {"id": "w1", "secret": "whsec_1"}
    r = account.cay("webhook", "add", "https://example.com/hook", "--event", "sandbox.created", "--event",
                    "sandbox.destroyed", "--disabled")
    assert (r.returncode, r.stdout) == (0, b"w1\nwhsec_1\n")
    assert bodies(account, "POST") == [{"url": "https://example.com/hook",
                                        "events": ["sandbox.created", "sandbox.destroyed"], "enabled": False}]
    r = account.cay("webhook", "add", "https://example.com/hook", "--secret", "mine")
    assert r.stdout == b"w1\n"  # it is known


def test_webhook_set(account):
    account.answers["PATCH", "/v1/webhooks/w1"] = 200, {"id": "w1"}
    assert account.cay("webhook", "set", "w1", "--enable", "--to", "https://example.org/").returncode == 0
    assert bodies(account, "PATCH") == [{"url": "https://example.org/", "enabled": True}]
    r = account.cay("webhook", "set", "w1", "--enable", "--disable")
    assert r.returncode != 0 and b"exclude each other" in r.stderr


def test_webhook_states(account):
    account.answers["GET", "/v1/webhooks"] = page(
        {"id": "w1", "url": "https://a", "events": [], "enabled": True, "failing_since": None, "dead": 0},
        {"id": "w2", "url": "https://b", "events": ["x"], "enabled": True, "failing_since": "2020", "dead": 3,
         "last_error": "timeout"},
        {"id": "w3", "url": "https://c", "events": [], "enabled": False, "disabled_reason": "by hand"})
    lines = account.cay("webhook", "ls").stdout.decode().splitlines()
    assert lines[1].split()[:5] == ["w1", "https://a", "all", "ok", "0"]
    assert "failing" in lines[2] and "timeout" in lines[2] and " 3 " in lines[2]
    assert "disabled" in lines[3] and "by hand" in lines[3]


def test_webhook_attempt_is_the_exit_status(account):
    account.answers["POST", "/v1/webhooks/w1/test"] = 200, {"delivered": True, "status": 204}
    r = account.cay("webhook", "test", "w1")
    assert (r.returncode, r.stdout) == (0, b"delivered, status 204\n")
    account.answers["POST", "/v1/webhooks/w1/deliveries/9/redeliver"] = 200, {"delivered": False, "error": "refused"}
    r = account.cay("webhook", "redeliver", "w1", "9")
    assert r.returncode != 0 and r.stdout == b"not delivered: refused\n"
    r = account.cay("webhook", "redeliver", "w1", "9", "--json")
    assert r.returncode != 0 and json.loads(r.stdout)["error"] == "refused"


def test_webhook_deliveries_by_state(account):
    account.answers["GET", "/v1/webhooks/w1/deliveries"] = page()
    r = account.cay("webhook", "deliveries", "w1", "--status", "dead")
    assert r.returncode == 0 and b"no delivery is in progress" in r.stderr
    assert any("state=dead" in path for _, path, _ in account.calls)


# Templates

def test_templates_are_listed(account):
    account.answers["GET", "/v1/templates"] = page(
        {"name": "base", "version": 3, "hash": "0123456789abcdef", "size_bytes": 1 << 20,
         "created_at": "2020-01-01T00:00:00.000Z"}, {"name": "old", "version": None})
    lines = account.cay("template", "ls").stdout.decode().splitlines()
    assert lines[1].split()[:3] == ["base", "3", "0123456789ab"]
    assert lines[2].split() == ["old", "-", "-", "-", "-"]


def test_template_build_takes_no_file(account):
    for name in ("./mine.recipe", "dir/mine", "mine.recipe"):
        r = account.cay("template", "build", name)
        assert r.returncode != 0 and b"is a file" in r.stderr and b"cay template build mine" in r.stderr
    assert account.calls == []


def test_template_build_that_fails(account):
    answers = iter([{"id": "b1", "state": "building", "log": "step 1\nste", "log_cursor": 10},
                    {"id": "b1", "state": "failed", "log": "p 2\n\n", "log_cursor": 15, "error": "no disk"},
                    {"id": "b1", "state": "failed", "log": "", "log_cursor": 15, "error": "no disk"}])
    account.answers["POST", "/v1/templates/mine/builds"] = 202, {"id": "b1", "state": "building"}
    before = account.route
    account.route = lambda method, path, query, body: (
        (200, next(answers)) if path == "/v1/templates/mine/builds/b1" else before(method, path, query, body))
    r = account.cay("template", "build", "mine")
    assert r.returncode != 0
    assert r.stderr.decode().splitlines()[:2] == ["step 1", "step 2"]
    assert b"the build of template mine failed: no disk" in r.stderr
    assert [path.partition("cursor=")[2] for m, path, _ in account.calls if m == "GET"] == ["0", "10", "15"]


def test_template_build_without_an_id(account):
    account.answers["POST", "/v1/templates/mine/builds"] = 202, {"state": "building"}
    r = account.cay("template", "build", "mine")
    assert r.returncode != 0 and b"without a valid id" in r.stderr


# Events and usage

EVENT = {"id": 7, "type": "process.exited", "sandbox_id": "box", "at": "2020-01-01T00:00:00.000Z",
         "data": {"process_id": 3, "exit_code": 1, "name": None, "message": "a\x1b[2Jb", "other": "hidden"}}


def test_events_are_lines(account):
    account.answers["GET", "/v1/events"] = page(EVENT)
    r = account.cay("events", "--type", "process.exited", "--after", "6")
    assert r.returncode == 0
    line = r.stdout.decode()
    assert "process_id=3" in line and "exit_code=1" in line and "name=" not in line and "hidden" not in line
    assert "\x1b" not in line
    path = account.calls[-1][1]
    assert "type=process.exited" in path and "after=6" in path and "format=json" in path
    assert account.cay("events", "--quiet").stdout == b"7\n"


def test_usage_filters_and_totals(account):
    row = {"key_id": "k1", "external_workspace_id": None, "sandboxes": 2, "running_seconds": 1.4e-07,
           "vcpu_seconds": 3, "memory_gib_seconds": 4.5, "paused_seconds": 0, "paused_storage_gib_seconds": 0}
    account.answers["GET", "/v1/usage"] = 200, {"data": [row], "total": dict(row, key_id=None)}
    r = account.cay("usage", "--from", "2020-01-01T00:00:00Z", "--owner", "k1")
    assert r.returncode == 0
    assert b"k1" in r.stdout and b"0.000" in r.stdout and b"e-07" not in r.stdout
    path = account.calls[-1][1]
    assert "key=k1" in path and "from=2020" in path
    account.answers["GET", "/v1/sandboxes/gone/usage"] = 404, scripted.error("sandbox_not_found", "no sandbox 'gone'")
    assert account.cay("usage", "gone").returncode != 0
