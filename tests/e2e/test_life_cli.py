# SPDX-License-Identifier: Apache-2.0
"""pause, hibernate, resume, extend, snapshot, restore and fork on the command line."""

import json

import pytest


@pytest.fixture
def cay(daemon):
    return daemon.command


def ok(done):
    assert done.returncode == 0, done
    return done.stdout


@pytest.fixture
def sandbox(cay):
    made = ok(cay("create", "--timeout", "10m", "--auto-resume")).strip()
    yield made
    cay("rm", made)


def test_pause_and_resume(cay, sandbox):
    assert ok(cay("pause", sandbox)) == sandbox + "\n"
    assert json.loads(ok(cay("info", "--json", sandbox)))["pause_kind"] == "freeze"
    assert json.loads(ok(cay("resume", "--json", "--timeout", "20m", sandbox)))["timeout_sec"] == 1200
    assert ok(cay("hibernate", "-q", sandbox)) == ""
    assert ok(cay("exec", sandbox, "--", "echo", "woken")) == "woken\n"
    assert json.loads(ok(cay("extend", "--json", "--timeout", "1h", sandbox)))["timeout_sec"] == 3600
    done = cay("pause", "no-such-one", sandbox)
    assert done.returncode == 3 and done.stdout == sandbox + "\n"


def test_snapshots(cay, sandbox):
    ok(cay("exec", sandbox, "-c", "echo one > file"))
    snapshot = ok(cay("snapshot", sandbox, "--comment", "first", "--keep-last", "3")).strip()
    try:
        ok(cay("exec", sandbox, "-c", "echo two > file"))
        shown = ok(cay("snapshot", "ls", sandbox))
        assert snapshot in shown and "first" in shown
        assert ok(cay("snapshot", "ls", "-q", sandbox)).split() == [snapshot]
        assert json.loads(ok(cay("snapshot", "ls", "--json")))["data"]
        ok(cay("restore", sandbox, snapshot))
        assert ok(cay("exec", sandbox, "--", "cat", "file")) == "one\n"
        other = ok(cay("create", "--snapshot", snapshot)).strip()
        assert ok(cay("exec", other, "--", "cat", "file")) == "one\n"
        ok(cay("rm", other))
    finally:
        ok(cay("snapshot", "rm", snapshot))
    assert cay("restore", sandbox, snapshot).returncode == 3


def test_fork(cay, sandbox):
    ok(cay("exec", sandbox, "-c", "echo one > file"))
    children = ok(cay("fork", sandbox, "--count", "3", "--metadata", "k=v")).split()
    try:
        assert len(set(children)) == 3
        for child in children:
            assert ok(cay("exec", child, "--", "cat", "file")) == "one\n"
    finally:
        ok(cay("rm", *children))


def test_help_and_usage(cay):
    for command in ("pause", "hibernate", "resume", "extend", "snapshot", "restore", "fork"):
        assert command in ok(cay(command, "--help"))
        assert cay(command).returncode == 2
    assert "--keep-last" in ok(cay("help", "snapshot"))
    assert cay("fork", "x", "--count", "101").returncode == 2
    assert cay("create", "--on-timeout", "explode").returncode == 2


def test_memory_on_a_host_without_criu(cay, sandbox):
    """This daemon has no CRIU: a snapshot reports what it lacks, a fork is refused."""
    taken = cay("snapshot", sandbox, "--memory")
    snapshot = ok(taken).strip()
    try:
        assert "memory was not saved: " in taken.stderr and "filesystem" in ok(cay("snapshot", "ls", sandbox))
        ok(cay("restore", sandbox, snapshot, "--no-memory"))
        ok(cay("rm", ok(cay("create", "--snapshot", snapshot, "--no-memory")).strip()))
        refused = cay("fork", sandbox, "--memory")
        assert refused.returncode != 0 and "cannot keep memory" in refused.stderr
    finally:
        ok(cay("snapshot", "rm", snapshot))
