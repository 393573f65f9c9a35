# SPDX-License-Identifier: Apache-2.0
"""Records what a daemon acknowledged to its clients while faults are injected.

A Worker is one client. It performs random operations of every kind that creates something, repeats them as a real
client does (the same Idempotency-Key, back-off, Retry-After), and records each outcome:

- acknowledged: the client received a reply of success. The operation must have happened, exactly once if it had a key;
- refused: the last reply was an error that is not worth a repetition. The operation happened at most once;
- unknown: no reply within the client's patience. The same.

The model is independent of lib/sweep.py: it knows nothing of steps, and judges by the API, files and events alone.
The operations of a worker follow from its seed; at which of them a fault strikes does not.
"""

import collections
import http.client
import json
import random
import time

from lib import tree
from lib.client import Client

BROKEN = (OSError, ValueError, http.client.HTTPException)
PATIENCE_SEC = 25  # for one operation, over all of its tries
TRY_SEC = 10
STARTS = "/workspace/starts"  # one line per command that ran, with the token of its operation
BOX_OPS = 10  # after that many operations a sandbox is checked and deleted
RETRY_CODES = ("wrong_state",)  # a transition of the last try is still in progress


class Outcome:
    """Of one operation; body is that of the last reply."""

    def __init__(self, token):
        self.token = token
        self.status = 0
        self.body = None
        self.tries = []

    @property
    def acknowledged(self):
        return 200 <= self.status < 300

    @property
    def code(self):
        error = self.body.get("error") if isinstance(self.body, dict) else None
        return error.get("code") if isinstance(error, dict) else None

    def __repr__(self):
        return f"{self.token}: {self.status} {self.code or ''} after {self.tries}"


class Caller:
    """Repeats a call until a reply says that repeating is of no use."""

    def __init__(self, daemon, chance):
        self.daemon, self.chance = daemon, chance

    def once(self, method, path, body, head, key=None):
        client = Client(self.daemon.url, key or self.daemon.key, timeout=TRY_SEC * tree.SLACK)
        try:
            return client.raw(method, path, body, head)
        finally:
            client.close()

    def ask(self, method, path, body=None, token=None, patience=PATIENCE_SEC):
        """token: the Idempotency-Key of every try."""
        outcome, wait = Outcome(token), 0.02
        until = time.monotonic() + patience * tree.SLACK
        while True:
            pause = wait * self.chance.uniform(0.5, 1.5)
            try:
                status, head, data = self.once(method, path, body, {"Idempotency-Key": token} if token else None)
                outcome.status, outcome.body = status, json.loads(data) if data else None
                error = (outcome.body or {}).get("error") or {} if status >= 400 else {}
                outcome.tries.append(f"{status} {error.get('code', '')}".strip())
                if not error.get("retryable") and error.get("code") not in RETRY_CODES:
                    return outcome
                pause = max(pause, min(float(head.get("Retry-After", 0)), 1))
            except BROKEN as error:
                outcome.status, outcome.body = 0, None
                outcome.tries.append(type(error).__name__)
            if time.monotonic() > until:
                return outcome
            time.sleep(pause)
            wait = min(wait * 2, 0.5)

    def get(self, path):
        """A read that must succeed in the end; None: not found."""
        outcome = self.ask("GET", path)
        if outcome.status == 404:
            return None
        assert outcome.acknowledged, f"GET {path}: {outcome}"
        return outcome.body

    def pages(self, path, cursor="cursor", start=None):
        rows, mark, sign = [], start, "&" if "?" in path else "?"
        while True:
            page = self.get(path + ("" if mark is None else f"{sign}{cursor}={mark}"))
            rows += page["data"]
            mark = page.get("next_cursor")
            if not mark:
                return rows


class Box:
    """What is known of one sandbox and its content."""

    def __init__(self, sandbox, files=(), lines=()):
        self.id = sandbox
        self.files = dict(files)  # path below w/ -> content, all acknowledged
        self.lines = dict(lines)  # token -> most lines it may have; acknowledged, so at least one
        self.maybe = {}  # the same of operations without an acknowledgement
        self.outputs = {}  # process_id -> text
        self.previews = {}  # port -> (id, share tokens)
        self.contexts, self.context_tries = set(), 0
        self.windows = set()
        self.ops = 0
        self.paused = False
        self.lost = False  # an operation on the whole sandbox has an unknown outcome, so its content is not checked

    def path(self, rest=""):
        return f"/v1/sandboxes/{self.id}{rest}"

    def restart(self):
        """Its processes ended, with the memory of them."""
        self.outputs.clear()
        self.windows.clear()
        self.contexts.clear()
        self.context_tries = None


class Snapshot:
    def __init__(self, snapshot, box):
        self.id, self.files, self.lines = snapshot, dict(box.files), dict(box.lines)
        self.maybe = dict(box.maybe)


class Ledger:
    """Shared by all workers: objects outside of sandboxes, and the violations found."""

    def __init__(self, seed):
        self.seed = seed
        self.complaints = []
        self.done = collections.Counter()  # acknowledged operations by kind
        self.refused = collections.Counter()
        self.marks = {}  # token of a create or fork -> ids that the reply named; None: not acknowledged
        self.most = {}  # the same -> how many it may have made
        self.deleted = set()  # sandboxes
        self.events = set()  # (type, id of the object)
        self.boxes, self.snapshots, self.keys, self.secrets, self.webhooks = {}, {}, {}, {}, {}
        self.gone = set()  # (kind, id) of other deleted objects
        self.unsure = set()  # (kind, token) without an acknowledgement

    def complain(self, text):
        self.complaints.append(text)


class Worker:
    """One client with sandboxes of its own. disk_full: files inside may fail to be written."""

    def __init__(self, daemon, ledger, number, disk_full=False, template=None):
        self.ledger, self.number = ledger, number
        self.chance = random.Random(f"{ledger.seed}/{number}")
        self.caller = Caller(daemon, random.Random(f"{ledger.seed}/{number}/waits"))
        self.disk_full, self.template = disk_full, template
        self.boxes, self.snapshots, self.count = [], [], 0

    def token(self, kind):
        self.count += 1
        return f"{kind}-{self.number}-{self.count}-{self.ledger.seed}"

    def keyed(self, kind, path, **body):
        """A creating call with a key of its own; body values may contain {token}."""
        token = self.token(kind)
        body = json.loads(json.dumps(body).replace("{token}", token))
        outcome = self.caller.ask("POST", path, body, token)
        self.note(kind, outcome)
        return outcome

    def note(self, kind, outcome):
        (self.ledger.done if outcome.acknowledged else self.ledger.refused)[kind] += 1
        if not outcome.acknowledged and outcome.status in (400, 404, 405, 422):
            self.ledger.complain(f"{kind} refused: {outcome} {outcome.body}")

    # Operations that make sandboxes.

    def adopt(self, outcome, most, source=None):
        """Boxes for the sandboxes of a reply."""
        rows = outcome.body.get("data", [outcome.body]) if outcome.acknowledged else []
        made = [row["id"] for row in rows if "id" in row]
        self.ledger.marks[outcome.token] = made if outcome.acknowledged else None
        self.ledger.most[outcome.token] = most
        if outcome.acknowledged and not made:
            self.ledger.complain(f"acknowledged, and nothing was made: {outcome} {outcome.body}")
        for sandbox in made:
            box = Box(sandbox, source.files if source else (), source.lines if source else ())
            if source:
                box.maybe, box.context_tries = dict(source.maybe), None
            self.boxes.append(box)
            self.ledger.boxes[sandbox] = box
            self.ledger.events.add(("sandbox.running", sandbox))

    def create(self, **body):
        if self.template:
            body["template"] = self.template
        body.update(timeout_sec=3600, memory_mb=256, disk_size_mb=256, metadata={"mark": "{token}"})
        if body.get("snapshot_id"):
            del body["memory_mb"], body["disk_size_mb"]
        return self.keyed("create", "/v1/sandboxes", **body)

    def op_create(self):
        self.adopt(self.create(pool={"mode": self.chance.choice(["prefer", "bypass"])}), 1)

    def op_create_count(self):
        self.adopt(self.create(count=3), 3)

    def op_create_from_snapshot(self):
        snapshot = self.chance.choice(self.snapshots)
        self.adopt(self.create(snapshot_id=snapshot.id), 1, snapshot)

    def op_fork(self, box):
        outcome = self.keyed("fork", box.path("/fork"), count=2, metadata={"mark": "{token}"})
        self.adopt(outcome, 2, box)

    def op_delete(self, box):
        self.judge_box(box)
        outcome = self.caller.ask("DELETE", box.path())
        self.boxes.remove(box)
        if outcome.status in (204, 404):
            self.ledger.done["delete"] += 1
            self.ledger.deleted.add(box.id)
            self.ledger.events.add(("sandbox.destroyed", box.id))
            del self.ledger.boxes[box.id]
        else:
            self.ledger.refused["delete"] += 1
            box.lost = True

    # Operations on a whole sandbox.

    def op_snapshot(self, box):
        outcome = self.keyed("snapshot", box.path("/snapshots"), comment="{token}")
        if not outcome.acknowledged:
            self.ledger.unsure.add(("snapshot", outcome.token))
            return
        snapshot = Snapshot(outcome.body["id"], box)
        self.snapshots.append(snapshot)
        self.ledger.snapshots[outcome.token] = snapshot.id
        self.ledger.events.add(("snapshot.created", snapshot.id))

    def op_restore(self, box):
        snapshot = self.chance.choice(self.snapshots)
        outcome = self.keyed("restore", box.path("/restore"), snapshot_id=snapshot.id)
        box.restart()
        if outcome.acknowledged:
            box.files, box.lines, box.maybe = dict(snapshot.files), dict(snapshot.lines), dict(snapshot.maybe)
        else:
            box.lost = True

    def op_pause(self, box):
        kind = self.chance.choice(["freeze", "hibernate"])
        outcome = self.caller.ask("POST", box.path("/pause"), {"kind": kind})
        if kind == "hibernate":
            box.restart()
        if outcome.acknowledged:
            self.ledger.done[kind] += 1
            row = self.caller.get(box.path())
            if not row or row["state"] != "paused":
                self.ledger.complain(f"{box.id} was paused ({kind}, {outcome}) and is not: {row}")
        outcome = self.caller.ask("POST", box.path("/resume"), {})
        if not outcome.acknowledged:
            box.lost = True
            self.note("resume", outcome)

    # Operations inside.

    def op_process(self, box):
        outcome = self.keyed("process", box.path("/processes"),
                             command=f"echo {{token}} >> {STARTS}; echo out {{token}}")
        if not outcome.acknowledged:
            box.maybe[outcome.token] = 1
            return
        box.lines[outcome.token] = 1
        number = outcome.body["process_id"]
        box.outputs[number] = f"out {outcome.token}\n"
        self.ledger.events.add(("process.started", f"{box.id}/{number}"))
        row = self.ended(box, number)
        if row is None:
            self.ledger.complain(f"{box.id}: process {number} was acknowledged and is not there: {outcome}")

    def ended(self, box, number):
        until = time.monotonic() + PATIENCE_SEC * tree.SLACK
        while True:
            row = self.caller.get(box.path(f"/processes/{number}"))
            if row is None or row["state"] == "exited" or time.monotonic() > until:
                return row
            time.sleep(0.02)

    def unkeyed(self, kind, box, path, **body):
        """A call without idempotency: each try may have run."""
        token = self.token(kind)
        outcome = self.caller.ask("POST", box.path(path), json.loads(json.dumps(body).replace("{token}", token)))
        outcome.token = token
        self.note(kind, outcome)
        (box.lines if outcome.acknowledged else box.maybe)[token] = len(outcome.tries)
        return outcome

    def op_exec(self, box):
        outcome = self.unkeyed("exec", box, "/exec", command=f"echo {{token}} >> {STARTS}; echo {{token}}")
        if outcome.acknowledged and outcome.body["stdout"] != outcome.token + "\n":
            self.ledger.complain(f"{box.id}: output of {outcome} is {outcome.body}")

    def op_window(self, box):
        outcome = self.unkeyed("window", box, "/windows/w/run", command=f"echo {{token}} >> {STARTS}")
        if outcome.acknowledged:
            box.windows.add("w")

    def op_file(self, box):
        token = self.token("file")
        content = token * self.chance.choice([1, 40, 2000])
        outcome = self.caller.ask("POST", box.path("/files"), {"path": f"/workspace/w/{token}", "content": content})
        outcome.token = token
        self.note("file", outcome)
        if outcome.acknowledged:
            box.files[token] = content

    def op_preview(self, box):
        port = 2000 + self.count
        outcome = self.keyed("preview", box.path("/previews"), port=port, visibility="private")
        if not outcome.acknowledged:
            return
        preview, shares = outcome.body["id"], 0
        self.ledger.events.add(("preview.created", preview))
        outcome = self.keyed("share", box.path(f"/previews/{preview}/share"), ttl_sec=3600)
        shares = 1 if outcome.acknowledged else None
        box.previews[port] = (preview, shares)

    def op_context(self, box):
        if box.context_tries is None:
            return
        box.context_tries += 1
        outcome = self.keyed("context", box.path("/code/contexts"), language="bash")
        if outcome.acknowledged:
            box.contexts.add(outcome.body["id"])
            self.unkeyed("code", box, "/code", code=f"echo {{token}} >> {STARTS}",
                         context_id=outcome.body["id"])

    # Operations on the account.

    def op_key(self, _box):
        outcome = self.keyed("key", "/v1/keys", name="{token}", scopes=["sandboxes:read"])
        self.account("key", self.ledger.keys, outcome)
        if outcome.acknowledged:
            status = self.as_key(outcome.body["key"])
            if status != 200:
                self.ledger.complain(f"the new key of {outcome} is answered with {status}")

    def as_key(self, key):
        until = time.monotonic() + PATIENCE_SEC * tree.SLACK
        while True:
            try:
                status = self.caller.once("GET", "/v1/keys/self", None, None, key)[0]
                if status < 500 or time.monotonic() > until:
                    return status
            except BROKEN:
                if time.monotonic() > until:
                    raise
            time.sleep(0.05)

    def op_secret(self, _box):
        outcome = self.keyed("secret", "/v1/secrets", name=f"S_{self.number}_{self.count}", value="{token}-value")
        self.account("secret", self.ledger.secrets, outcome)

    def op_webhook(self, _box):
        outcome = self.keyed("webhook", "/v1/webhooks", url="https://example.com/", description="{token}",
                             enabled=False)
        self.account("webhook", self.ledger.webhooks, outcome)

    def account(self, kind, table, outcome):
        if outcome.acknowledged:
            table[outcome.token] = outcome.body["id"]
        else:
            self.ledger.unsure.add((kind, outcome.token))
        mine = [t for t in table if t.split("-")[1] == str(self.number)]
        if len(mine) > 3:  # the oldest goes
            deleted = self.caller.ask("DELETE", f"/v1/{kind}s/{table[mine[0]]}")
            if deleted.status in (204, 404):
                self.ledger.gone.add((kind, table.pop(mine[0])))

    # The day.

    INSIDE = ("process", "process", "process", "exec", "window", "file", "file", "preview", "pause", "snapshot",
              "restore", "fork", "key", "secret", "webhook")

    def step(self):
        """One operation; returns what it was."""
        usable = [box for box in self.boxes if not box.lost]
        for box in [box for box in self.boxes if box.lost or box.ops >= BOX_OPS][:1]:
            self.op_delete(box)
            return "delete"
        if not usable or (len(usable) < 3 and self.chance.random() < 0.1):
            several = self.chance.random()
            if self.snapshots and several < 0.3:
                self.op_create_from_snapshot()
            elif several < 0.5 and not self.template:
                self.op_create_count()
            else:
                self.op_create()
            return "create"
        box = self.chance.choice(usable)
        box.ops += 1
        kind = self.chance.choice(self.INSIDE + (("context",) * 3 if self.template else ()))
        if kind in ("restore",) and not self.snapshots or kind == "fork" and len(usable) > 3:
            kind = "snapshot"
        if kind == "snapshot" and len(self.snapshots) >= 3:
            self.forget_snapshot()
            return "snapshot"
        getattr(self, "op_" + kind)(box)
        return kind

    def forget_snapshot(self):
        snapshot = self.snapshots.pop(0)
        outcome = self.caller.ask("DELETE", f"/v1/snapshots/{snapshot.id}")
        if outcome.status in (204, 404):
            self.ledger.snapshots = {t: i for t, i in self.ledger.snapshots.items() if i != snapshot.id}
            self.ledger.gone.add(("snapshot", snapshot.id))

    # Judgement of one sandbox, by what its owner can see.

    def judge_box(self, box):
        if box.lost:
            return
        row = self.caller.get(box.path())
        if not row or row["state"] != "running":
            self.ledger.complain(f"acknowledged sandbox {box.id} is not running: {row}")
            return
        self.judge_files(box)
        for number, text in box.outputs.items():
            got = self.caller.get(box.path(f"/processes/{number}/output?format=json"))
            if got is None or got.get("stdout") != text:
                self.ledger.complain(f"{box.id}: output of process {number} is {got}, not {text!r}")
        found = {row["port"]: row for row in self.caller.get(box.path("/previews"))["data"]}
        for port, (preview, shares) in box.previews.items():
            row = found.get(port)
            if not row or row["id"] != preview or shares not in (None, row["share_tokens"]):
                self.ledger.complain(f"{box.id}: preview {preview} of port {port} with {shares} shares is {row}")
        names = {row["name"] for row in self.caller.get(box.path("/windows"))["data"]}
        if box.windows - names:
            self.ledger.complain(f"{box.id}: windows {box.windows} are {names}")
        if self.template and box.context_tries is not None:
            ids = {row["id"] for row in self.caller.get(box.path("/code/contexts"))["data"]}
            if box.contexts - ids or len(ids) > box.context_tries:
                self.ledger.complain(f"{box.id}: contexts {box.contexts} of {box.context_tries} asked for are {ids}")

    def judge_files(self, box):
        script = f"cat {STARTS} 2>/dev/null; echo =; cd /workspace/w 2>/dev/null && for f in *; do " \
                 'echo "$f $(cat "$f")"; done; :'
        outcome = self.caller.ask("POST", box.path("/exec"), {"command": script, "max_output_bytes": 8 << 20})
        if not outcome.acknowledged:
            self.ledger.complain(f"{box.id}: its files cannot be read: {outcome} {outcome.body}")
            return
        lines, _, files = outcome.body["stdout"].partition("=\n")
        lines = collections.Counter(lines.split())
        for token, most in {**box.maybe, **box.lines}.items():
            least = 0 if self.disk_full or token not in box.lines else 1
            if not least <= lines[token] <= most:
                self.ledger.complain(f"{box.id}: {token} ran {lines[token]} times, not {least} to {most}")
        unknown = set(lines) - set(box.maybe) - set(box.lines)
        if unknown:
            self.ledger.complain(f"{box.id}: commands of another time ran: {unknown}")
        found = dict(line.split(" ", 1) for line in files.splitlines() if " " in line)
        for name, content in box.files.items():
            if found.get(name) != content:
                self.ledger.complain(f"{box.id}: acknowledged file {name} has {len(found.get(name) or '')} bytes of "
                                     f"{len(content)}")


def judge_account(ledger, caller):
    """Compares a list of the daemon with what was acknowledged: nothing is lost, duplicated or undeleted."""
    rows = {row["id"]: row for row in caller.pages("/v1/sandboxes?limit=1000")}
    by_mark = collections.defaultdict(set)
    for row in rows.values():
        by_mark[(row["metadata"] or {}).get("mark")].add(row["id"])
    for token, made in ledger.marks.items():
        if made is None:
            if len(by_mark[token]) not in (0, ledger.most[token]):
                ledger.complain(f"{token} has no reply and made a part: {by_mark[token]}")
        elif by_mark[token] - set(made):
            ledger.complain(f"{token} made {made} and also {by_mark[token] - set(made)}")
    for lost in set(ledger.boxes) - set(rows):
        ledger.complain(f"acknowledged sandbox {lost} is gone")
    for back in ledger.deleted & set(rows):
        ledger.complain(f"deleted sandbox {back} is there: {rows[back]}")
    for kind, name, table in (("snapshot", "comment", ledger.snapshots), ("key", "name", ledger.keys),
                              ("secret", None, ledger.secrets), ("webhook", "description", ledger.webhooks)):
        found = caller.pages(f"/v1/{kind}s")
        ids = {row["id"] for row in found}
        for token, one in table.items():
            if one not in ids:
                ledger.complain(f"acknowledged {kind} {one} ({token}) is gone")
        for one in {i for k, i in ledger.gone if k == kind} & ids:
            ledger.complain(f"deleted {kind} {one} is there")
        times = collections.Counter(row[name] for row in found if name)
        for token, count in times.items():
            if count > 1:
                ledger.complain(f"{kind} {token} is there {count} times")
    return rows


def judge_events(ledger, caller, after):
    """Every acknowledged change has its event."""
    seen = set()
    for event in caller.pages("/v1/events?format=json&limit=1000", cursor="after", start=after):
        data = event["data"]
        seen.add((event["type"], event["sandbox_id"]))
        seen.add((event["type"], data.get("snapshot_id") or data.get("preview_id")))
        seen.add((event["type"], f"{event['sandbox_id']}/{data.get('process_id')}"))
    for kind, one in sorted(ledger.events - seen):
        ledger.complain(f"no event {kind} of {one}")
    return seen
