# SPDX-License-Identifier: Apache-2.0
"""State transitions that are interrupted by a kill, and what must hold afterwards. A transition is prepared, requested
while a program dies, and checked with the next daemon: whatever was acknowledged holds, and whatever was not is
complete or absent.
"""

import http.client
import secrets
import time

from lib import tree
from lib.client import ApiError

BROKEN = (OSError, ValueError, http.client.HTTPException)
PROCESS = "setsid -f sleep 1234.5 >/dev/null 2>&1 </dev/null"


def patiently(call, seconds=15):
    """Retries while the daemon is not running, or replies that the last transition has not ended."""
    until = time.monotonic() + seconds * tree.SLACK
    while True:
        try:
            return call()
        except BROKEN as error:
            last = error
        except ApiError as error:
            if error.status < 500 and error.code != "wrong_state":
                raise
            last = error
        if time.monotonic() > until:
            raise AssertionError(f"still {last!r} after {seconds} s")
        time.sleep(0.02)


class Move:
    """The sandbox has an acknowledged file and a process before the transition is requested."""

    rebooted = False  # the host was rebooted meanwhile: of running sandboxes only the files are left

    def __init__(self, daemon):
        self.daemon = daemon
        self.token = secrets.token_hex(6)
        self.id = self.snapshot = None
        self.answer = None  # of the move; None: not acknowledged
        self.error = None
        self.prepare()

    @property
    def client(self):
        return self.daemon.client

    def post(self, what, _headers=None, **body):
        return self.client.call("POST", f"/v1/sandboxes/{self.id}/{what}", body, _headers)

    def prepare(self):
        self.id = self.client.create(timeout_sec=3600, pool={"mode": "bypass"})["id"]
        self.client.exec(self.id, f"echo {self.token} > /workspace/f; {PROCESS}").ok()

    def ask(self):
        raise NotImplementedError

    def run(self):
        """Sends one request without a retry, so that no reply belongs to a second attempt."""
        self.client.close()
        try:
            self.answer = self.ask()
            if self.answer is None:
                self.answer = True
        except BROKEN as error:
            self.error = error
        except ApiError as error:
            assert error.status in (409, 410, 500, 503), error
            self.error = error
        finally:
            self.client.close()

    def state(self):
        return patiently(lambda: self.client.get(self.id))

    def runs(self, sandbox=None):
        """Running; after a reboot it may be hibernated, with a reason."""
        row = patiently(lambda: self.client.get(sandbox or self.id))
        if self.rebooted and row["state"] == "paused":
            assert row["pause_kind"] == "hibernate" and not row["memory_preserved"], row
            row = patiently(lambda: self.client.call("POST", f"/v1/sandboxes/{row['id']}/resume", {}))
        assert row["state"] == "running", row

    def woken(self):
        """Running again, however it was left; never in error, never lost."""
        row = patiently(lambda: self.post("resume"))
        assert row["state"] == "running", row

    def content(self, sandbox=None):
        return patiently(lambda: self.client.exec(sandbox or self.id, "cat /workspace/f")).stdout.strip()

    def process_lives(self, sandbox=None):
        return self.rebooted or patiently(lambda: self.client.exec(
            sandbox or self.id, "pgrep -fc 'sleep 1234[.]5' || :")).stdout.strip() == "1"

    def judge(self):
        raise NotImplementedError

    def whole(self):
        row = self.state()
        assert row["state"] in ("running", "paused"), row
        self.woken()
        assert self.content() == self.token, "an acknowledged file is not there"

    def tidy(self):
        """Removes everything of the round, only through the API."""
        for row in patiently(self.client.list):
            self.remove("sandboxes", row["id"])
        for row in patiently(lambda: self.client.call("GET", "/v1/snapshots"))["data"]:
            self.remove("snapshots", row["id"])

    def remove(self, kind, name):
        try:
            patiently(lambda: self.client.call("DELETE", f"/v1/{kind}/{name}"))
        except ApiError as error:
            assert error.status == 404, error


class Create(Move):
    """One idempotency key, sent again after the kill: one sandbox."""

    def prepare(self):
        self.head = {"Idempotency-Key": self.token}

    def ask(self):
        return self.client.call("POST", "/v1/sandboxes", {"pool": {"mode": "bypass"}, "name": "n" + self.token},
                                self.head)

    def judge(self):
        if self.answer:
            self.runs(self.answer["id"])
        again = patiently(self.ask)
        assert not self.answer or again["id"] == self.answer["id"]
        self.runs(again["id"])
        rows = patiently(self.client.list)
        assert [(r["id"], r["state"]) for r in rows if r["state"] != "error"] == [(again["id"], "running")], rows
        assert patiently(lambda: self.client.exec(again["id"], "echo x")).stdout == "x\n"


class Initialize(Create):
    """It runs only after all its initializers, each of which ran once."""

    def ask(self):
        body = {"pool": {"mode": "bypass"}, "name": "n" + self.token,
                "initializers": ["echo one >> /workspace/f", {"command": "echo two >> /workspace/f"}]}
        return self.client.call("POST", "/v1/sandboxes", body, self.head)

    def judge(self):
        super().judge()
        assert self.content("n" + self.token) == "one\ntwo"


class Retain(Create):
    """One whose initializer failed is kept and usable, or absent."""

    def ask(self):
        body = {"pool": {"mode": "bypass"}, "timeout_sec": 3600, "retain_on_failure": True,
                "initializers": ["echo kept > /workspace/f; exit 3"]}
        try:
            return self.client.call("POST", "/v1/sandboxes", body)
        except ApiError as error:
            if error.code != "initializer_failed":
                raise
            return {"kept": error.error["message"]}

    def judge(self):
        rows = patiently(self.client.list)
        assert len(rows) <= 1, rows
        if self.answer:
            assert [r["state"] for r in rows] == ["error"] and rows[0]["id"] in self.answer["kept"], (rows, self.answer)
        for row in rows:
            assert row["state"] == "error", row
            if self.rebooted or "initializer" not in row["last_error"]:
                continue  # what ran of it has ended with the host, or before its initializer did
            assert self.content(row["id"]) == "kept"


class Key(Create):
    """An API key: one, with the same secret in the second reply, although it is not stored in clear."""

    def ask(self):
        return self.client.call("POST", "/v1/keys", {"name": self.token, "scopes": ["exec"]}, self.head)

    def judge(self):
        again = patiently(self.ask)
        assert not self.answer or again == self.answer
        rows = patiently(lambda: self.client.call("GET", "/v1/keys"))["data"]
        assert [r["id"] for r in rows if r["name"] == self.token] == [again["id"]], rows
        self.remove("keys", again["id"])


class Pause(Move):
    def ask(self):
        return self.post("pause", kind="freeze")

    def judge(self):
        assert not self.answer or self.state()["state"] == "paused"
        self.whole()
        assert self.process_lives(), "a freeze keeps the processes"


class Hibernate(Move):
    def ask(self):
        return self.post("pause", kind="hibernate")

    def judge(self):
        row = self.state()
        if self.answer:
            assert (row["state"], row["pause_kind"]) == ("paused", "hibernate"), row
        self.whole()


class Thaw(Pause):
    def prepare(self):
        super().prepare()
        self.post("pause", kind="freeze")

    def ask(self):
        return self.post("resume")

    def judge(self):
        if self.answer:
            self.runs()
        self.whole()
        assert self.process_lives(), "a freeze keeps the processes"


class Wake(Thaw):
    def prepare(self):
        Move.prepare(self)
        self.post("pause", kind="hibernate")

    def judge(self):
        if self.answer:
            self.runs()
        self.whole()


class Snapshot(Move):
    def ask(self):
        return self.post("snapshots")

    def judge(self):
        self.runs()
        rows = patiently(lambda: self.client.call("GET", "/v1/snapshots"))["data"]
        assert len(rows) <= 1 and (not self.answer or [r["id"] for r in rows] == [self.answer["id"]]), rows
        for row in rows:  # listed is usable, acknowledged or not
            copy = patiently(lambda: self.client.create(snapshot_id=row["id"]))["id"]
            assert self.content(copy) == self.token
        self.whole()
        assert self.process_lives()


class SnapshotOnce(Move):
    """One idempotency key, sent again after the kill: one snapshot, which both replies name."""

    def ask(self):
        return self.post("snapshots", {"Idempotency-Key": self.token})

    def judge(self):
        self.runs()
        again = patiently(self.ask)
        assert not self.answer or again["id"] == self.answer["id"], again
        rows = patiently(lambda: self.client.call("GET", "/v1/snapshots"))["data"]
        assert [row["id"] for row in rows] == [again["id"]], rows
        self.whole()


class ProcessOnce(Move):
    """The same with a process: it ran once."""

    def ask(self):
        return self.post("processes", {"Idempotency-Key": self.token}, command="echo x >> /workspace/ran; sleep 300")

    def judge(self):
        self.runs()
        again = patiently(self.ask)
        assert not self.answer or again["process_id"] == self.answer["process_id"], again
        ran = patiently(lambda: self.client.exec(self.id, "cat /workspace/ran")).stdout.split()
        rows = patiently(lambda: self.client.call("GET", f"/v1/sandboxes/{self.id}/processes"))["data"]
        assert len(ran) <= 1 and len([row for row in rows if "ran" in row["command"]]) <= 1, (ran, rows)
        self.whole()


class Restore(Move):
    def prepare(self):
        super().prepare()
        self.snapshot = self.post("snapshots")["id"]
        self.client.exec(self.id, f"echo later{self.token} > /workspace/f").ok()

    def ask(self):
        return self.post("restore", snapshot_id=self.snapshot)

    def judge(self):
        assert self.state()["state"] in ("running", "paused")
        self.woken()
        assert self.content() in ([self.token] if self.answer else [self.token, "later" + self.token])


class Fork(Move):
    count = 3

    def ask(self):
        return self.post("fork", {"Idempotency-Key": self.token}, count=self.count)

    def judge(self):
        self.runs()
        children = [r for r in patiently(self.client.list) if r["id"] != self.id]
        if self.answer:  # what failed has its error in its place
            assert {c["id"] for c in self.answer["data"] if "id" in c} == {c["id"] for c in children}
        else:
            assert len(children) in (0, self.count), "a fork nobody was told of is all of its children or none"
        for child in children:
            self.runs(child["id"])
            assert self.content(child["id"]) == self.token
        self.whole()
        assert self.process_lives(), "the source goes on"


class Destroy(Move):
    def ask(self):
        return self.client.delete(self.id)

    def judge(self):
        rows = patiently(self.client.list)
        assert not self.answer or not rows, rows
        self.remove("sandboxes", self.id)
        assert patiently(self.client.list) == []


class DestroyHibernated(Destroy):
    def prepare(self):
        super().prepare()
        self.post("pause", kind="hibernate")


MOVES = {"create": Create, "initialize": Initialize, "retain": Retain, "key": Key, "pause": Pause,
         "hibernate": Hibernate, "thaw": Thaw, "wake": Wake, "snapshot": Snapshot,
         "snapshot-once": SnapshotOnce, "process-once": ProcessOnce,
         "restore": Restore, "fork": Fork, "destroy": Destroy, "destroy-hibernated": DestroyHibernated}
