# SPDX-License-Identifier: Apache-2.0
"""kill -9 in the middle of every transition that saves, copies or restores memory. Like test_life_sweep, on a daemon
with CRIU: whichever program dies at whatever step, running processes still run afterwards, and a copy is complete
or absent.
"""

import pytest

from lib import memory, tree
from lib.sweep_memory import MEMORY_MOVES
from lib.victim import KILLERS, LONG, Victim, all_steps, random_instants, some_steps, started

STEP_KILLS = 12
RANDOM_KILLS = 60 if LONG else 8
SECONDS = 45


class MemoryVictim(Victim):
    def __init__(self, build):
        super().__init__(build, **memory.ENV)

    def wait_ready(self, timeout=10):
        client = super().wait_ready(timeout)
        memory.claimed(client)
        return client


@pytest.fixture
def victim(request):
    memory.need()
    with started(request.param, MemoryVictim) as victim:
        memory.claimed(victim.client)
        yield victim


@pytest.mark.parametrize("victim", [tree.FAULTS], indirect=True, ids=["faults"])
def test_killed_at_steps(victim):
    if LONG:
        all_steps(victim, MEMORY_MOVES, KILLERS)
    else:
        some_steps(victim, MEMORY_MOVES, STEP_KILLS, SECONDS)


@pytest.mark.parametrize("victim", [tree.build_dir()], indirect=True, ids=["build"])
def test_killed_at_random_instants(victim):
    random_instants(victim, MEMORY_MOVES, RANDOM_KILLS, SECONDS, 0.3)
