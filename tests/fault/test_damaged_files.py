# SPDX-License-Identifier: Apache-2.0
"""Files of the state directory that are lost or damaged while the programs are not running.

Two things hold for each file and each kind of damage:

- the start either works or names the damaged file; it deletes nothing that it cannot account for;
- when the file is put back, everything that clients were promised (lib/ledger.py) is there again.

CAY_LONG=1 tries all kinds of damage with each file.
"""

import os
import random
import shutil

import pytest

from lib import census
from lib.daemon import Daemon
from lib.ledger import Caller, Ledger, Worker, judge_account
from lib.reboot import another_boot, kill_daemons, power_off

SEED = int(os.environ.get("CAY_SEED", "0")) or random.randrange(1 << 30)
LONG = os.environ.get("CAY_LONG") == "1"
DATABASE = ("cay.db", "cay.db-wal", "cay.db-shm")
PARTS = {"cay.db": DATABASE}  # files that are lost together


def gone(path):
    os.unlink(path)


def empty(path):
    os.truncate(path, 0)


def half(path):
    os.truncate(path, os.path.getsize(path) // 2)


def garbage(path):
    """Its beginning, and where a btrfs has its superblocks."""
    size = os.path.getsize(path)
    with open(path, "r+b") as f:
        for at in (0, 65536, 64 << 20):
            if at < size:
                f.seek(at)
                f.write(random.Random(SEED).randbytes(min(size - at, 4096)))


DAMAGES = (gone, empty, half, garbage)
FILES = ("cay.db", "warden.slots", "snapshot.key", "vault.key", "admin.key", "url", "pool.btrfs")
USUAL = (("cay.db", gone), ("cay.db", garbage), ("warden.slots", garbage), ("snapshot.key", gone), ("vault.key", half),
         ("admin.key", gone), ("url", garbage), ("pool.btrfs", gone), ("pool.btrfs", garbage))
CASES = [(name, damage) for name in FILES for damage in DAMAGES] if LONG else USUAL


class Aside:
    """Copies of a file and its companions, to be put back with owner and mode."""

    def __init__(self, state, name):
        self.paths = [f"{state}/{part}" for part in PARTS.get(name, (name,)) if os.path.exists(f"{state}/{part}")]
        self.all = [f"{state}/{part}" for part in PARTS.get(name, (name,))]
        self.place = f"{state}.aside"
        os.mkdir(self.place, 0o700)
        for path in self.paths:
            kept = f"{self.place}/{os.path.basename(path)}"
            os.rename(path, kept)
            shutil.copyfile(kept, path) if name != "pool.btrfs" else sparse_copy(kept, path)
            info = os.stat(kept)
            os.chown(path, info.st_uid, info.st_gid)
            os.chmod(path, info.st_mode & 0o7777)

    def put_back(self):
        for path in self.all:
            if os.path.exists(path):
                os.unlink(path)
        for path in self.paths:
            os.rename(f"{self.place}/{os.path.basename(path)}", path)
        os.rmdir(self.place)


def sparse_copy(source, target):
    """Only the blocks that the damage concerns; the copy is never read for more."""
    with open(source, "rb") as old, open(target, "wb") as new:
        new.truncate(os.path.getsize(source))
        for at in (0, 64 << 20):
            old.seek(at)
            new.seek(at)
            new.write(old.read(1 << 20))


@pytest.fixture
def host():
    before, states = census.take(), []
    yield states
    left = census.settle(before, states=states)
    assert not left, "\n".join(left)


def prepare(worker):
    """One of everything that a file of the state directory stands for."""
    worker.op_create()
    worker.op_create()
    for box in worker.boxes:
        worker.op_file(box)
        worker.op_process(box)
    first, second = worker.boxes
    worker.op_snapshot(first)
    worker.op_preview(first)
    for account in (worker.op_key, worker.op_secret, worker.op_webhook):
        account(first)
    hibernated = worker.caller.ask("POST", second.path("/pause"), {"kind": "hibernate"})
    assert hibernated.acknowledged, hibernated
    assert not worker.ledger.complaints, worker.ledger.complaints


def judge(worker, killed):
    """killed: processes ended with the damage; files did not."""
    for box in worker.boxes:
        row = worker.caller.get(box.path())
        if row and row["state"] == "paused":
            resumed = worker.caller.ask("POST", box.path("/resume"), {})
            assert resumed.acknowledged, (resumed, resumed.body)
            box.restart()
        if killed:
            box.restart()
        worker.judge_box(box)
    rows = judge_account(worker.ledger, worker.caller)
    assert set(rows) == set(worker.ledger.boxes), rows
    worker.op_create_from_snapshot()
    worker.judge_box(worker.boxes[-1])
    assert not worker.ledger.complaints, "\n".join(worker.ledger.complaints)


@pytest.mark.long  # ten to thirty seconds for each file
@pytest.mark.skipif(os.environ.get("CAY_TEST_STORAGE") == "directory", reason="there is no pool")
@pytest.mark.parametrize("name,damage", [pytest.param(*case, id=f"{case[0]}-{case[1].__name__}")
                                         for case in CASES])
def test_nothing_is_lost_when_it_is_put_back(host, name, damage):
    daemon = Daemon(env={"CAY_POOL": "false", "CAY_OUTPUT_KEEP_SEC": "86400"})
    host.append(daemon.state)
    with daemon:
        worker = Worker(daemon, Ledger(SEED), 0)
        prepare(worker)
        if name == "pool.btrfs":  # a pool in use cannot be replaced, so the host counts as rebooted
            power_off(daemon)
            another_boot(daemon)
        else:
            kill_daemons(daemon)
        aside = Aside(daemon.state, name)
        damage(f"{daemon.state}/{name}")
        status = daemon.up(check=False)
        said = daemon.up_output + daemon.logs()
        print(f"{name} {damage.__name__}: status {status}, {daemon.up_output}")
        assert status == 0 or name in said or "cay recover" in said, f"the message names no file\n{said}"
        if (name, damage) == ("pool.btrfs", gone):  # an empty one in its place would be the loss of everything
            assert status != 0 and "put it back" in said and not os.path.exists(f"{daemon.state}/{name}")
        kill_daemons(daemon)
        aside.put_back()
        daemon.up()
        daemon.wait_ready(30)
        judge(worker, killed=name in ("warden.slots", "pool.btrfs"))
