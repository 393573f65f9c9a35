# SPDX-License-Identifier: Apache-2.0
"""kill -9 of cayd, of cay-warden, of both and of the whole host in every move of the life cycle.

In twins of the programs (ninja faults) at numbered steps: cayd dies on either side of each statement it
gives its journal, the warden on either side of each call and at each step of its jobs
(src/base/fault.h). In both builds at random instants. Then a restart, and lib/sweep.py says what
must be true. CAY_LONG=1 goes through all steps in turn.
"""

import os
import random
import time

import pytest

from lib import tree
from lib.sweep import MOVES
from lib.victim import HOST, KILLERS, LONG, SEED, all_steps, at_step, random_instants, some_steps, started

STEP_KILLS = int(os.environ.get("CAY_KILL_ROUNDS", "36"))
RANDOM_KILLS = 64 if LONG else 24
SECONDS = 45  # of each test, without CAY_LONG
REBOOTS = 10


@pytest.fixture
def victim(request):
    with started(request.param) as victim:
        yield victim


@pytest.mark.parametrize("victim", [tree.FAULTS], indirect=True, ids=["faults"])
def test_killed_at_steps(victim):
    if LONG:
        all_steps(victim, MOVES, KILLERS + HOST)
    else:
        some_steps(victim, MOVES, STEP_KILLS, SECONDS)


@pytest.mark.parametrize("victim", [tree.FAULTS], indirect=True, ids=["faults"])
def test_host_restarted_at_steps(victim):
    """Every move in turn, cut at a step of the daemon or of the warden; CAY_LONG does all of them in the test above."""
    chance = random.Random(SEED)
    until = time.monotonic() + SECONDS * tree.SLACK
    for turn, name in enumerate(chance.sample(list(MOVES), len(MOVES)) * (3 if LONG else 1)):
        if turn and (turn >= REBOOTS or time.monotonic() > until) and not LONG:
            break
        at_step(victim, MOVES, name, chance.choice(HOST), chance.randrange(1, 12))


@pytest.mark.parametrize("victim", [tree.build_dir()], indirect=True, ids=["build"])
def test_killed_at_random_instants(victim):
    random_instants(victim, MOVES, RANDOM_KILLS, SECONDS, 0.03)
