# SPDX-License-Identifier: Apache-2.0
import pytest

from lib import census
from lib.daemon import Daemon


@pytest.fixture
def own():
    """A separate daemon that the test may break; afterwards the host must be as before."""
    before = census.take()
    with Daemon() as started:
        yield started
        state = started.state
    left = census.settle(before, states=[state])
    assert not left, "after 'cay down' the host differs:\n" + "\n".join(left)
