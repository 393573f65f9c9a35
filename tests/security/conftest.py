# SPDX-License-Identifier: Apache-2.0
import pytest

from lib import census, tree

HARD = ("mounts", "links", "loops", "ipc", "devices", "sysctls")


@pytest.fixture(scope="module", autouse=True)
def unchanged_host(request):
    """The attacks of a module leave the host unchanged: settings, mounts, links, our programs. Processes, groups and
    namespaces are compared when the session's daemon ends, because pools grow with demand in between.
    """
    if "daemon" not in request.fixturenames and "client" not in request.fixturenames:
        yield
        return
    daemon = request.getfixturevalue("daemon")
    programs = [tree.program(n, daemon.build) for n in tree.WHERE]
    before, hashes = census.take(daemon), census.sha256_of(programs)
    yield
    others = [c for c in before if c not in HARD]
    assert not census.settle(before, daemon, ignore=others)
    assert census.sha256_of(programs) == hashes, "a program of ours was changed on disk"
