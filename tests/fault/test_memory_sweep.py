# SPDX-License-Identifier: Apache-2.0
"""kill -9 in the middle of a hibernation that keeps memory, and of waking up from it.

As test_life_sweep, on a daemon with CRIU: whoever dies, and at whatever step, the process that ran
before runs after the next resume.
"""

import os
import random
import threading
import time

import pytest

from fault.test_life_sweep import KILLERS, LONG, SEED, STEPS_MAX, Victim, finish, journal_is_closed
from lib import memory, tree
from lib.sweep import MEMORY_MOVES

STEP_KILLS = 10
RANDOM_KILLS = 40 if LONG else 6
SECONDS = 40


class MemoryVictim(Victim):
    def __init__(self, build):
        super().__init__(build)
        self.env.update(memory.ENV)

    def wait_ready(self, timeout=10):
        client = super().wait_ready(timeout)
        memory.claimed(client)
        return client


@pytest.fixture
def victim(request):
    memory.need()
    if not os.access(tree.program("cay-warden", request.param), os.X_OK):
        pytest.skip(tree.NO_FAULTS)
    with MemoryVictim(request.param) as started:
        memory.claimed(started.client)
        yield started
        journal_is_closed(started)


def at_step(victim, name, names, step):
    """One kill at one step; False when the move has fewer."""
    move = MEMORY_MOVES[name](victim)
    old = victim.pids()
    counter = victim.counters[names[0]]
    counter.set(step)
    move.run()
    until = time.monotonic() + 0.1
    while counter.left() > 0 and time.monotonic() < until:
        time.sleep(0.005)  # what it does after the answer
    died = counter.left() <= 0
    counter.set(0)
    if died:
        for other in names[1:]:
            victim.kill(other)
        victim.restarted(old, names)
    finish(victim, move, f"{name}, {'+'.join(names)} at step {step}")
    return died


@pytest.mark.parametrize("victim", [tree.FAULTS], indirect=True, ids=["faults"])
def test_killed_at_steps(victim):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    if LONG:
        for names in KILLERS:
            for name in MEMORY_MOVES:
                step = 1
                while at_step(victim, name, names, step):
                    step += 1
                    assert step < STEPS_MAX
                print(f"{name}: {'+'.join(names)} at each of {step - 1} steps", flush=True)
        return
    until = time.monotonic() + SECONDS * tree.SLACK
    while victim.kills < STEP_KILLS and time.monotonic() < until:
        for name in MEMORY_MOVES:
            at_step(victim, name, chance.choice(KILLERS), chance.randrange(1, 24))
    print(f"{victim.kills} kills")


@pytest.mark.parametrize("victim", [tree.build_dir()], indirect=True, ids=["build"])
def test_killed_at_random_instants(victim):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    until = time.monotonic() + SECONDS * tree.SLACK
    while victim.kills < RANDOM_KILLS and (LONG or time.monotonic() < until):
        name, names = chance.choice(list(MEMORY_MOVES)), chance.choice(KILLERS)
        move = MEMORY_MOVES[name](victim)
        old = victim.pids()
        wait = chance.random() * 0.3
        asking = threading.Thread(target=move.run)
        asking.start()
        time.sleep(wait)
        for victim_name in names:
            victim.kill(victim_name)
        victim.restarted(old, names)
        asking.join(60)
        assert not asking.is_alive(), f"{name} hangs"
        finish(victim, move, f"{name}, {'+'.join(names)} after {wait * 1000:.1f} ms")
    print(f"{victim.kills} kills")
