# SPDX-License-Identifier: Apache-2.0
"""Clients with conflicting requests to one sandbox at once: only states of the table, no hang."""

import os
import random
import secrets
import threading
import time

from lib import tree
from lib.client import ApiError, Client

LONG = os.environ.get("CAY_LONG") == "1"
STEPS = int(os.environ.get("CAY_RACE_STEPS", "10000" if LONG else "300"))
SEED = int(os.environ.get("CAY_SEED", "0")) or random.randrange(1 << 30)
CREATES = 64
CALL_SEC = 20
# The states that a sandbox may have after a successful request, until the next request.
AFTER = {"pause": {"paused"}, "hibernate": {"paused"}, "resume": {"running"}}


def test_one_key_makes_one_sandbox(api, engine):
    """64 requests at once with one key and one body: one sandbox, one reply."""
    key, tag = {"Idempotency-Key": "race-" + secrets.token_hex(8)}, secrets.token_hex(6)
    body = {"engine": engine, "metadata": {"race": tag}}
    gate, answers = threading.Barrier(CREATES), []

    def create():
        client = Client(api.url, api.key)
        gate.wait()
        try:
            answers.append(client.call("POST", "/v1/sandboxes", body, key))
        except (OSError, ApiError) as error:
            answers.append(error)
        client.close()

    threads = [threading.Thread(target=create) for _ in range(CREATES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60 * tree.SLACK)
    rows = api.list(**{"metadata.race": tag})
    try:
        assert len(answers) == CREATES
        assert not [a for a in answers if not isinstance(a, dict)], answers
        assert [r["id"] for r in rows] == [answers[0]["id"]]
        assert all(a == answers[0] for a in answers)
        assert api.call("POST", "/v1/sandboxes", body, key) == answers[0]
    finally:
        for row in rows:
            api.delete(row["id"])


class Racer:
    """One of the clients that share the sandbox; all of them run through its steps at the same time."""

    def __init__(self, race, seed):
        self.race = race
        self.client = Client(race.api.url, race.api.key, timeout=CALL_SEC * tree.SLACK)
        self.chance = random.Random(seed)
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            while self.race.next_step():
                self.step()
        except Exception as error:
            self.race.bad.append(repr(error))
        self.client.close()

    def step(self):
        sandbox, generation = self.race.current()
        word = self.chance.choices(self.race.words, self.race.weights)[0]
        before = self.race.begin(generation)
        try:
            answer = self.ask(word, sandbox)
        except ApiError as error:
            self.refused(word, generation, error)
            answer = None
        finally:
            alone = self.race.end(generation, before)
        if answer and word in AFTER and answer["state"] not in AFTER[word]:
            self.race.bad.append(f"{word} with success gave {answer['state']}")
        if answer and word == "get" and alone and answer["state"] not in ("running", "paused"):
            self.race.bad.append(f"{answer['state']} while nobody asked for anything")

    def ask(self, word, sandbox):
        path = f"/v1/sandboxes/{sandbox}"
        if word in ("pause", "hibernate"):
            return self.client.call("POST", path + "/pause", {"kind": "freeze" if word == "pause" else word})
        if word == "resume":
            return self.client.call("POST", path + "/resume", {})
        if word == "fork":
            for child in self.client.call("POST", path + "/fork", {})["data"]:
                if "id" in child:
                    self.client.delete(child["id"])
            return None
        if word == "exec":
            assert self.client.exec(sandbox, "cat /workspace/kept").stdout == "kept\n"
            return None
        if word == "destroy":
            self.client.delete(sandbox)
            self.race.renew(sandbox)
            return None
        row = self.client.get(sandbox)
        if row["state"] not in ("running", "paused", "destroyed"):
            self.race.bad.append(f"state {row['state']}: {row}")
        return row

    def refused(self, word, generation, error):
        """409 during another transition; gone once it is destroyed; 503 with its code."""
        if error.status == 409 and error.code == "wrong_state":
            return
        if error.status == 503 and error.code == "unavailable" and error.error.get("retryable", True):
            self.race.unavailable += 1
            return
        if error.status == 410 and word == "exec" and "hibernated" in str(error):
            return  # its processes have ended, but the sandbox exists
        if error.status in (404, 410) and self.race.is_over(generation):
            return
        self.race.bad.append(f"{word}: {error}")


class Race:
    words = ("pause", "hibernate", "resume", "fork", "exec", "get", "destroy")
    weights = (5, 2, 6, 1.5, 3, 5, 0.4)

    def __init__(self, api, engine, steps):
        self.api, self.engine = api, engine
        self.lock = threading.Lock()
        self.left, self.generation, self.bad, self.unavailable = steps, 0, [], 0
        self.busy, self.asked = 0, 0
        self.sandbox = self.fresh()

    def fresh(self):
        sandbox = self.api.create(engine=self.engine, timeout_sec=3600)["id"]
        self.api.exec(sandbox, "echo kept > /workspace/kept").ok()
        return sandbox

    def next_step(self):
        with self.lock:
            self.left -= 1
            return self.left >= 0 and not self.bad

    def current(self):
        with self.lock:
            return self.sandbox, self.generation

    def begin(self, generation):
        with self.lock:
            self.busy += 1
            self.asked += 1
            return self.asked if self.busy == 1 and generation == self.generation else -1

    def end(self, generation, before):
        with self.lock:
            self.busy -= 1
            return before == self.asked and generation == self.generation

    def renew(self, sandbox):
        with self.lock:
            if self.sandbox == sandbox:
                self.generation += 1
                self.sandbox = self.fresh()

    def wake(self):
        """A command that the last step has frozen continues only after a resume."""
        try:
            self.api.call("POST", f"/v1/sandboxes/{self.sandbox}/resume", {})
        except ApiError as error:
            if error.status not in (404, 409, 410):
                self.bad.append(f"resume: {error}")

    def is_over(self, generation):
        """The client that destroys it gets its reply shortly after the others were disconnected."""
        until = time.monotonic() + 5 * tree.SLACK
        while time.monotonic() < until:
            with self.lock:
                if generation != self.generation:
                    return True
            time.sleep(0.005)
        return False


def test_two_clients_against_the_model(api, engine, needs):
    needs("pause")
    needs("snapshot")
    print(f"seed {SEED}, {STEPS} steps")
    race = Race(Client(api.url, api.key), engine, STEPS)
    begin = time.monotonic()
    racers = [Racer(race, SEED + n) for n in range(2)]
    for racer in racers:
        racer.thread.start()
    until = begin + (60 + STEPS / 10) * tree.SLACK
    while any(r.thread.is_alive() for r in racers) and time.monotonic() < until:
        racers[0].thread.join(0.2)
        if race.left < 0:
            race.wake()
    hung = [r for r in racers if r.thread.is_alive()]
    print(f"{race.generation} destroyed, {race.unavailable} times unavailable, {time.monotonic() - begin:.1f} s")
    assert not hung and not race.bad, (hung, race.bad)
    with_own = race.api
    row = with_own.call("POST", f"/v1/sandboxes/{race.sandbox}/resume", {})
    assert row["state"] == "running"
    assert with_own.exec(race.sandbox, "cat /workspace/kept").stdout == "kept\n"
    with_own.delete(race.sandbox)
