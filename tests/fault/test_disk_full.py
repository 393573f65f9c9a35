# SPDX-License-Identifier: Apache-2.0
"""A full disk below the state directory: the storage pool survives it, and everything continues when space is free
again."""

import contextlib
import os
import subprocess
import tempfile

import pytest

from lib import census, pool
from lib.client import ApiError
from lib.commands import wait_for
from lib.daemon import Daemon, tell_janitor

pytestmark = pytest.mark.skipif(os.environ.get("CAY_TEST_STORAGE") == "directory", reason="there is no pool")


@contextlib.contextmanager
def small_disk(size_mb):
    """An ext4 of this size, mounted."""
    image = tempfile.mktemp(prefix="cay-test-disk-", dir="/var/tmp")
    point = tempfile.mkdtemp(prefix="cay-test-", dir="/var/tmp")
    with open(image, "wb") as f:
        f.truncate(size_mb << 20)
    try:
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, point], check=True)
        try:
            yield point
        finally:
            subprocess.run(["umount", point], check=True)
    finally:
        os.unlink(image)
        os.rmdir(point)
        tell_janitor("-state", point)


@contextlib.contextmanager
def full(point):
    """Fills all free space with a file that is unrelated to sandboxes."""
    path = os.path.join(point, "filler")
    with open(path, "wb") as f:
        space = os.statvfs(point)
        os.posix_fallocate(f.fileno(), 0, space.f_bavail * space.f_frsize // 100 * 99)
        with contextlib.suppress(OSError):
            while True:
                os.write(f.fileno(), bytes(1 << 16))
        with contextlib.suppress(OSError):
            os.fsync(f.fileno())
    try:
        yield
    finally:
        os.unlink(path)


@pytest.fixture
def daemon():
    with small_disk(2048) as point:
        started = Daemon(state=point, env={"CAY_POOL": "false"})
        with started:
            yield started


def run(daemon, sandbox, command):
    return daemon.client.exec(sandbox, command)


def test_pool_survives(daemon):
    client = daemon.client
    writer, idle = (client.create(timeout_sec=3600)["id"] for _ in range(2))
    run(daemon, idle, "head -c 20000000 /dev/urandom > kept; sync")
    before = run(daemon, idle, "sha256sum < kept").stdout
    with full(daemon.state):
        # Write until it fails: every successful write must be present afterwards.
        out = run(daemon, writer, "i=0; while head -c 8000000 /dev/urandom > f$i 2>/dev/null && sync f$i 2>/dev/null; "
                                  "do i=$((i+1)); done; rm f$i; sha256sum f* | sort > /tmp/sums; echo $i")
        assert int(out.stdout) > 0
        assert run(daemon, idle, "sha256sum < kept").stdout == before
        with pytest.raises(ApiError) as caught:
            client.create()
        assert caught.value.code == "capacity_exceeded", caught.value
        # What can be deleted makes space, while the disk is still full.
        run(daemon, writer, "rm f0")
        wait_for(lambda: run(daemon, idle, "echo small > small && cat small").stdout == "small\n", timeout=20)
    wait_for(lambda: run(daemon, writer, "head -c 30000000 /dev/zero > more && sync more; echo $?").stdout == "0\n",
             timeout=20)
    assert run(daemon, writer, "grep -v ' f0$' /tmp/sums | sha256sum -c --quiet; echo $?").stdout == "0\n"
    daemon.down("--keep")
    daemon.up()
    assert run(daemon, idle, "cat small; sha256sum < kept").stdout == "small\n" + before
    for sandbox in (writer, idle):
        daemon.client.delete(sandbox)


def test_all_of_the_pool_is_allocated(daemon):
    """Its file system never covers a hole of its file, also after it grew and after files were deleted."""
    sandbox = daemon.client.create(timeout_sec=3600, disk_size_mb=4096)["id"]
    path = os.path.join(daemon.state, "pool.btrfs")

    def size():
        with pool.directory(daemon.pids()["cay-warden"], "snapshots") as point:
            space = os.statvfs(point)
            return space.f_blocks * space.f_frsize

    first = size()
    assert os.stat(path).st_blocks * 512 >= first
    for i in range(40):
        run(daemon, sandbox, f"head -c 16000000 /dev/urandom > f{i} && sync f{i}")
        if size() > first:
            break
    wait_for(lambda: size() > first, timeout=20)
    assert os.stat(path).st_blocks * 512 >= size()
    run(daemon, sandbox, "rm f*; sync")
    assert os.stat(path).st_blocks * 512 >= size()
    daemon.client.delete(sandbox)


def test_ends_are_never_refused(daemon):
    """Deleting frees space on a full disk: DELETE works and timeouts take effect although nothing can be recorded."""
    client = daemon.client
    deleted, kept = (client.create(timeout_sec=3600)["id"] for _ in range(2))
    client.create(timeout_sec=15)
    with full(daemon.state):
        # The database uses its remaining free pages; after that every write fails.
        def refused():
            try:
                client.call("PATCH", f"/v1/sandboxes/{kept}", {"metadata": {"x": os.urandom(400).hex()}})
            except ApiError as error:
                return error.status >= 500
            return False
        wait_for(refused, timeout=60, step=0)
        assert client.raw("DELETE", f"/v1/sandboxes/{deleted}")[0] == 204
        wait_for(lambda: len(census.grouped(daemon.state)) == 1, timeout=30)
        assert [row["id"] for row in client.list()] == [kept]
    client.delete(kept)
    wait_for(lambda: not census.grouped(daemon.state), timeout=20)
    daemon.down("--keep")
    daemon.up()
    assert not daemon.client.list(), "the rows went when there was space again"


def figure(client, name):
    text = client.raw("GET", "/metrics")[2].decode()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith(f"cay_storage_{name}_bytes ")))


def test_admission():
    """The pool overcommits its capacity by a fixed factor, and no more."""
    with small_disk(2048) as point:
        with Daemon(state=point, env={"CAY_POOL": "false", "CAY_DISK_OVERCOMMIT": "1"}) as daemon:
            client = daemon.client
            capacity = wait_for(lambda: figure(client, "capacity"), timeout=20)
            size_mb = (capacity >> 20) * 2 // 3
            first = client.create(disk_size_mb=size_mb, timeout_sec=3600)["id"]
            wait_for(lambda: figure(client, "promised") >= size_mb << 20, timeout=20)
            with pytest.raises(ApiError) as caught:
                client.create(disk_size_mb=size_mb, timeout_sec=3600)
            assert caught.value.code == "capacity_exceeded"
            assert "disk_overcommit" in caught.value.error["message"]
            small = client.create(disk_size_mb=16, timeout_sec=3600)["id"]
            for sandbox in (first, small):
                client.delete(sandbox)


def low_events(client):
    return [e["data"] for e in client.call("GET", "/v1/events?format=json&after=0&limit=1000")["data"]
            if e["type"] == "storage.low"]


def warned(client, word):
    return [text for text in client.options()["warnings"] if text.startswith(word)]


@pytest.mark.long  # writers of a nearly full pool wait for btrfs for more than a minute, and the test fails then
def test_low_pool_is_reported(daemon):
    """The event, the warning and the metrics come before the pool refuses anything, and the warning ends again."""
    client = daemon.client
    sandbox = client.create(timeout_sec=3600, disk_size_mb=4096)["id"]
    capacity = wait_for(lambda: figure(client, "capacity"), timeout=20)
    assert not low_events(client) and not warned(client, "storage")
    for i in range(capacity * 82 // 100 >> 24):  # in parts of 16 MiB, so that the pool can grow meanwhile
        run(daemon, sandbox, f"head -c 16777216 /dev/urandom > f{i} && sync f{i}")
    low = wait_for(lambda: [e for e in low_events(client) if e["disk"] == "pool"], timeout=20)
    assert len(low) == 1 and low[0]["engine"] == "native"
    assert low[0]["used_bytes"] * 100 >= low[0]["capacity_bytes"] * 80
    assert "Delete" in warned(client, "storage")[0]
    other = client.create(timeout_sec=3600)["id"]  # it is low, not full
    run(daemon, sandbox, "rm f*; sync")
    wait_for(lambda: not warned(client, "storage"), timeout=30)
    assert len([e for e in low_events(client) if e["disk"] == "pool"]) == 1
    for one in (sandbox, other):
        client.delete(one)


def test_low_state_disk_is_reported(daemon):
    """Also if the pool is empty: the database needs space, too."""
    client = daemon.client

    def free():
        text = client.raw("GET", "/metrics")[2].decode()
        return int(next((x.split()[1] for x in text.splitlines() if x.startswith("cay_state_disk_free_bytes ")), 0))

    assert wait_for(free, timeout=20) > 200 << 20
    assert not low_events(client) and not warned(client, "state directory")
    path = os.path.join(daemon.state, "filler")
    with open(path, "wb") as f:
        space = os.statvfs(daemon.state)
        os.posix_fallocate(f.fileno(), 0, space.f_bavail * space.f_frsize - (60 << 20))
    low = wait_for(lambda: [e for e in low_events(client) if e["disk"] == "state"], timeout=20)
    assert len(low) == 1 and low[0]["capacity_bytes"] - low[0]["used_bytes"] < 128 << 20, low
    assert "Free space" in warned(client, "state directory")[0]
    assert free() < 128 << 20
    os.unlink(path)
    wait_for(lambda: not warned(client, "state directory"), timeout=20)


@pytest.mark.skipif(os.statvfs("/var/tmp").f_bavail * os.statvfs("/var/tmp").f_frsize < 24 << 30,
                    reason="needs 24 GiB of free disk: the pool takes 60 % of it")
def test_one_fast_writer_reaches_its_own_limit():
    """The pool has less free at first than the limit of the sandbox, which fills the page cache at once."""
    with Daemon() as daemon:
        api = daemon.client
        sandbox = api.create(disk_size_mb=4096, memory_mb=4096)["id"]
        api.exec(sandbox, "head -c 3G /dev/zero > /workspace/large", timeout_sec=300).ok()
        over = api.exec(sandbox, "head -c 2G /dev/zero > /workspace/more", timeout_sec=300)
        assert over.exit_code != 0 and "quota" in over.stderr, over
