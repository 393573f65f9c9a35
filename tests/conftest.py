# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the suites that need the real programs. Run with Debian's python3:

    CAY_BUILD=build /usr/bin/python3 -m pytest tests/security tests/conformance tests/e2e tests/fault

CAY_BUILD is the build tree, CAY_TEMPLATES the template directory, CAY_TEST_SLACK a factor on time
bounds (sanitizer builds), CAY_LONG=1 turns the long runs on.
"""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from lib import census, flags, tree  # noqa: E402
from lib.daemon import Daemon, tell_janitor  # noqa: E402
from lib.direct import Warden  # noqa: E402

NEEDS_DAEMON = ("security", "conformance", "e2e", "fault", "docs")
# Tests that compare times or processor shares, or effects of neighbours on each other.
MEASURING = ("security/test_cgr.py", "e2e/test_cycles.py", "test_cpu_quota", "test_cost_does_not_follow_size",
             "test_others_are_answered_while_one_is_slow")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: only with CAY_LONG=1")
    config.addinivalue_line("markers", "alone: measures; nothing else may run beside it")
    config.addinivalue_line("markers", "code: needs the template of the code interpreter")
    # Always show why a test was skipped.
    if "s" not in (config.option.reportchars or ""):
        config.option.reportchars = (config.option.reportchars or "") + "s"


def pytest_collection_modifyitems(items):
    reason = None
    if os.getuid() != 0:
        reason = "needs root: the warden makes namespaces, mounts and control groups"
    elif tree.missing_programs() and not os.environ.get("CAY_TEST_DIRECT"):
        reason = f"not built in {tree.build_dir()}: {', '.join(tree.missing_programs())}"
    for item in items:
        if any(word in item.nodeid for word in MEASURING):
            item.add_marker(pytest.mark.alone)
        if reason and any(part in item.path.relative_to(tree.SOURCE).parts for part in NEEDS_DAEMON):
            item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("long") and os.environ.get("CAY_LONG") != "1":
            item.add_marker(pytest.mark.skip(reason="long run: set CAY_LONG=1"))


@pytest.fixture(scope="session")
def host_flag():
    """A secret file of the host's root."""
    flag = flags.plant("a host file of root")
    path = f"/root/flag-{flag[4:12]}"
    tell_janitor("+file", path)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as f:
        f.write(flag + "\n")
    yield path
    os.unlink(path)
    tell_janitor("-file", path)
    flags.forget(flag)


@pytest.fixture(scope="session")
def daemon(host_flag):
    """One daemon for all tests that do not break it; its environment contains a flag."""
    before = census.take()
    flag = flags.plant("the daemon's environment")
    # CAY_TEST_DIRECT=1: the engine alone; the harness takes cayd's place (lib/direct.py).
    kind = Warden if os.environ.get("CAY_TEST_DIRECT") else Daemon
    with kind(env={"HARNESS_FLAG": flag}) as started:
        yield started
        state = started.state
    left = census.settle(before, states=[state])
    flags.forget(flag)
    assert not left, "after 'cay down' the host differs:\n" + "\n".join(left)


@pytest.fixture(scope="session")
def client(daemon):
    return daemon.client


@pytest.fixture(scope="module")
def neighbour(client):
    """Another sandbox with its own secrets: in its home, its environment and the database."""
    planted = [flags.plant("the neighbour's " + place) for place in ("home", "env", "metadata")]
    with client.sandbox(env={"NEIGHBOUR_SECRET": planted[1]}, metadata={"secret": planted[2]},
                        timeout_sec=3600) as other:
        for flag in planted:
            flags.planted[flag] = (flags.planted[flag][0], other.id)
        other.sh(f"echo {planted[0]} > /home/sandbox/secret; cp /home/sandbox/secret /tmp/")
        yield other
    for flag in planted:
        flags.forget(flag)


@pytest.fixture(scope="module")
def box(client):
    """A sandbox for the attacks of one module that do not destroy it."""
    with client.sandbox(timeout_sec=3600, memory_mb=512, disk_size_mb=512) as sandbox:
        yield sandbox
