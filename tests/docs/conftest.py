# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import time

import pytest

from lib import census, memory, node, tree
from lib.daemon import TEMPLATES, Daemon

E2B = pathlib.Path(__file__).parents[1] / "e2e/e2b"


@pytest.fixture(scope="session")
def reader():
    """The daemon of the documents' reader; with memory where this host supports it."""
    before = census.take()
    with Daemon(env=memory.ENV) as started:
        yield started
        state = started.state
    left = census.settle(before, states=[state])
    assert not left, "after 'cay down' the host differs:\n" + "\n".join(left)


def keeps_memory(client):
    """The warden's check of CRIU ends some time after its start."""
    if not os.access(f"{memory.CRIU}/usr/sbin/criu", os.X_OK) or tree.SANITIZED:
        return False
    until = time.monotonic() + 10 * tree.SLACK
    while "snapshot_memory" not in (client.capabilities("native") or ()):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture(scope="session")
def have(reader):
    """What blocks may need ('needs=' in HACKING.md): {need: its path}."""
    found = {}
    if keeps_memory(reader.client):
        found["memory"] = memory.CRIU
    if os.path.exists(os.path.join(TEMPLATES, "refs/code-interpreter-v1")):
        found["code"] = TEMPLATES
    try:
        found["e2b"] = node.project(E2B)
        found["node"] = node.node(tree.build_dir() / "node-own")
    except (pytest.skip.Exception, OSError):
        found.pop("e2b", None)
    return found


@pytest.fixture(scope="session")
def programs(tmp_path_factory, have):
    """A directory for PATH: cay as it was built, node, and a sudo that needs no password."""
    directory = tmp_path_factory.mktemp("bin")
    os.symlink(tree.program("cay"), directory / "cay")
    if "node" in have:
        os.symlink(have["node"], directory / "node")
    (directory / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (directory / "sudo").chmod(0o755)
    return directory
