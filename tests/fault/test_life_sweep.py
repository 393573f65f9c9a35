# SPDX-License-Identifier: Apache-2.0
"""kill -9 of cayd, of cay-warden, of both and of the whole host in every state transition. Fault builds of the
programs (ninja faults) die at numbered steps: cayd before and after each statement of its journal, the warden
before and after each call and at each step of its jobs (src/base/fault.h). Both builds are also killed at random
instants. After a restart, lib/sweep.py checks the result. CAY_LONG=1 runs all steps.
"""

import os
import random
import time

import pytest

from lib import tree
from lib.sweep import MOVES
from lib.victim import HOST, KILLERS, LONG, SEED, STEPS_MAX, all_steps, at_step, random_instants, some_steps, started

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
@pytest.mark.parametrize("name", ["snapshot-once", "process-once"])
def test_keyed_calls_hold_at_each_step(victim, name):
    """The daemon dies before and after every statement of its journal; the client sends its request again."""
    for step in range(1, STEPS_MAX):
        if not at_step(victim, MOVES, name, ("cayd",), step):
            break
    assert step > 4, "the call has a journal"


@pytest.mark.parametrize("victim", [tree.FAULTS], indirect=True, ids=["faults"])
def test_host_restarted_at_steps(victim):
    """Every transition in turn, interrupted at a step of the daemon or of the warden; CAY_LONG does all of them in the
    test above."""
    chance = random.Random(SEED)
    until = time.monotonic() + SECONDS * tree.SLACK
    for turn, name in enumerate(chance.sample(list(MOVES), len(MOVES)) * (3 if LONG else 1)):
        if turn and (turn >= REBOOTS or time.monotonic() > until) and not LONG:
            break
        at_step(victim, MOVES, name, chance.choice(HOST), chance.randrange(1, 12))


@pytest.mark.parametrize("victim", [tree.build_dir()], indirect=True, ids=["build"])
def test_killed_at_random_instants(victim):
    random_instants(victim, MOVES, RANDOM_KILLS, SECONDS, 0.03)
