# SPDX-License-Identifier: Apache-2.0
"""Transitions of lib/sweep.py on an engine that keeps memory: processes that ran before still run afterwards."""

from lib.sweep import Fork, Hibernate, Move, Restore, Snapshot, Wake, patiently


class HibernateMemory(Hibernate):
    def judge(self):
        super().judge()
        assert self.process_lives(), "hibernated or not, it goes on"


class WakeMemory(Wake):
    def judge(self):
        super().judge()
        assert self.process_lives(), "its memory waits until it is resumed"


class SnapshotMemory(Snapshot):
    def ask(self):
        return self.post("snapshots", memory=True)

    def judge(self):
        assert not self.answer or self.answer["memory_preserved"], self.answer
        for row in patiently(lambda: self.client.call("GET", "/v1/snapshots"))["data"]:
            copy = patiently(lambda: self.client.create(snapshot_id=row["id"]))["id"]
            assert not row["memory_preserved"] or self.process_lives(copy), "what is listed is whole"
            self.remove("sandboxes", copy)
        super().judge()


class RestoreMemory(Restore):
    """The process is in the snapshot only."""

    def prepare(self):
        Move.prepare(self)
        self.snapshot = self.post("snapshots", memory=True)["id"]
        self.client.exec(self.id, f"echo later{self.token} > /workspace/f; pkill -f 'sleep 1234[.]5'").ok()

    def judge(self):
        super().judge()
        assert self.process_lives() == (self.content() == self.token), "files and processes are of one instant"


class CreateMemory(Move):
    """One idempotency key, sent again after the kill: one copy."""

    def prepare(self):
        super().prepare()
        self.snapshot = self.post("snapshots", memory=True)["id"]

    def ask(self):
        return self.client.call("POST", "/v1/sandboxes", {"snapshot_id": self.snapshot}, {"Idempotency-Key": self.token})

    def judge(self):
        again = patiently(self.ask)
        assert not self.answer or again["id"] == self.answer["id"]
        self.runs(again["id"])
        assert self.content(again["id"]) == self.token and self.process_lives(again["id"])
        assert {row["id"] for row in patiently(self.client.list)} == {self.id, again["id"]}
        self.whole()
        assert self.process_lives(), "its source goes on"


class ForkMemory(Fork):
    count = 2

    def ask(self):
        return self.post("fork", {"Idempotency-Key": self.token}, count=self.count, memory=True)

    def judge(self):
        super().judge()
        for child in patiently(self.client.list):
            assert self.process_lives(child["id"]), "a child goes on with what it was forked with"


MEMORY_MOVES = {"hibernate": HibernateMemory, "wake": WakeMemory, "snapshot": SnapshotMemory, "restore": RestoreMemory,
                "create": CreateMemory, "fork": ForkMemory}
