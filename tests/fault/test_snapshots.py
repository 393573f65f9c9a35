# SPDX-License-Identifier: Apache-2.0
"""Snapshots of the native engine, without a daemon: their content, cost and refusals."""

import os
import re
import secrets
import statistics
import subprocess
import threading
import time

import pytest

from lib import census, pool, tree
from lib.client import ApiError
from lib.direct import (CREATE, DESTROY, REPLY, SNAPSHOT, SNAPSHOT_DELETE, SNAPSHOT_LIST, Warden)

# Writes a number to one file and then to the other: the second is never ahead.
WRITER = """
import os
a, b = (os.open("/workspace/" + n, os.O_CREAT | os.O_WRONLY, 0o644) for n in "ab")
n = 0
while True:
    n += 1
    os.pwrite(a, b"%012d" % n, 0)
    os.pwrite(b, b"%012d" % n, 0)
"""


@pytest.fixture(scope="module")
def warden():
    host = census.take()
    with Warden() as started:
        yield started
        for name in started.names(SNAPSHOT_LIST):
            started.call(SNAPSHOT_DELETE, snapshot=name)
    left = census.settle(host, states=[started.state])
    assert not left, "\n".join(left)


@pytest.fixture(autouse=True)
def nothing_stays(warden):
    """Each test removes everything that it created, to the last subvolume."""
    yield
    for sandbox in list(warden.agents):
        warden.delete(sandbox)
    for name in warden.names(SNAPSHOT_LIST):
        warden.call(SNAPSHOT_DELETE, snapshot=name)
    assert pool.snapshots(warden) == set()


def spread(warden, sandbox, mib):
    warden.exec(sandbox, f"dd if=/dev/urandom of=/workspace/data bs=1M count={mib} status=none; sync").ok()


def timed(call, *args, **more):
    begin = time.perf_counter()
    result = call(*args, **more)
    return (time.perf_counter() - begin) * 1000, result


def test_a_writer_is_caught_at_one_instant(warden):
    source = warden.create()["id"]
    warden.exec(source, f"setsid -f python3 -c '{WRITER}' >/dev/null 2>&1 </dev/null; sleep 0.2").ok()
    last = 0
    for _ in range(8):
        name, size = warden.snapshot(source)
        assert size > 0
        copy = warden.create(snapshot=name)["id"]
        a, b = warden.exec(copy, "cat /workspace/a; echo; cat /workspace/b; echo; pgrep -c python3 || :").ok() \
            .stdout.split()[:2]
        assert int(b) <= int(a) <= int(b) + 1, f"torn: {a} {b}"
        assert int(a) > last, "the writer stood still"
        last = int(a)
        warden.delete(copy)
        warden.call(SNAPSHOT_DELETE, snapshot=name)
    assert warden.stat(source)[:2] == (True, False)


def test_copies_and_source_do_not_touch_each_other(warden):
    source = warden.create()["id"]
    warden.exec(source, "echo one > /workspace/f; rm -rf /usr/games /opt/none; ln -s x /workspace/l;"
                " mkfifo /workspace/p; chmod 4755 /workspace/f", user="root").ok()
    name, _size = warden.snapshot(source)
    warden.exec(source, "echo two > /workspace/f", user="root").ok()
    first, second = (warden.create(snapshot=name)["id"] for _ in range(2))
    warden.exec(first, "echo three > /workspace/f", user="root").ok()
    warden.delete(source)
    warden.call(SNAPSHOT_DELETE, snapshot=name)
    assert warden.exec(second, "cat /workspace/f; stat -c '%a %U %F' /workspace/f /workspace/l /workspace/p;"
                       "test -e /usr/games || echo gone").stdout.split("\n")[:5] == [
        "one", "4755 root regular file", "777 root symbolic link", "644 root fifo", "gone"]
    assert warden.exec(first, "cat /workspace/f").stdout == "three\n"


def test_every_copy_has_its_own_identity(warden):
    """Machine id, boot id, host name; the same sandbox keeps its machine id."""
    def ids(sandbox):
        return warden.exec(sandbox, "cat /etc/machine-id /proc/sys/kernel/random/boot_id; hostname;"
                           "cat /run/cay/forked").ok().stdout.split()
    source = warden.create()["id"]
    plain = ids(source)
    assert len(plain) == 3 and plain[2] == source, "the mark of a copy on one that is none"
    assert re.fullmatch(r"[0-9a-f]{32}", plain[0]) and re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", plain[1])
    with open("/proc/sys/kernel/random/boot_id") as f:
        assert plain[1] != f.read().strip(), "the host's boot id"
    name, _size = warden.snapshot(source)
    seen = [plain]
    for _ in range(10):
        copy = warden.create(snapshot=name)["id"]
        seen.append(ids(copy))
        assert seen[-1][3] == seen[-1][2] == copy
        warden.delete(copy)
    for place in range(3):
        assert len({words[place] for words in seen}) == len(seen)
    warden.delete(source)
    again = ids(warden.create(snapshot=name, id=source)["id"])
    assert again[0] == plain[0] and again[1] != plain[1] and again[2] == source
    result = warden.exec(source, "umount /etc/machine-id; echo x > /etc/machine-id; echo y > /proc/sys/kernel/random/boot_id; "
                         "rm -f /etc/machine-id; cat /etc/machine-id", user="root")
    assert result.stdout.strip() == plain[0]


def test_cost_does_not_follow_size(warden):
    small, large = warden.create()["id"], warden.create()["id"]
    spread(warden, small, 5)
    spread(warden, large, 500)
    times = {small: [], large: []}
    for sandbox in (small, large):
        warden.snapshot(sandbox)  # writes out
    for _ in range(15):
        for sandbox in (small, large):
            ms, (name, size) = timed(warden.snapshot, sandbox)
            times[sandbox].append(ms)
            warden.call(SNAPSHOT_DELETE, snapshot=name)
            assert size >> 20 in range(5, 7) if sandbox == small else size >> 20 in range(500, 503)
    middle = [statistics.median(times[s]) for s in (small, large)]
    print(f"snapshot p50: 5 MiB {middle[0]:.1f} ms, 500 MiB {middle[1]:.1f} ms")
    assert middle[1] <= middle[0] * 1.5 + 1


def test_size_is_that_of_the_files(warden):
    """Small files are inside the metadata, sparse ones occupy nothing, links count once."""
    source = warden.create()["id"]
    base = warden.snapshot(source)[1]
    warden.exec(source, "cd /workspace; for i in $(seq 400); do head -c $((i * 5)) /dev/urandom > f$i; done; "
                "truncate -s 900G sparse; yes | head -c 3000000 > data; ln data link; cp --reflink=never data copy").ok()
    grown = warden.snapshot(source)[1] - base
    assert 6000000 + 400 * 1000 <= grown <= 6000000 + 400 * 2000, grown


def test_depth_costs_nothing(warden):
    """Sixty generations, each a sandbox from the snapshot of the previous one, which is then removed."""
    times = {}

    def measure(who, source):
        taking, (name, _size) = timed(warden.snapshot, source)
        making, row = timed(warden.create, snapshot=name)
        times.setdefault("snapshot of " + who, []).append(taking)
        times.setdefault("create from " + who, []).append(making)
        warden.call(SNAPSHOT_DELETE, snapshot=name)
        return row["id"]

    shallow, deep = warden.create()["id"], warden.create()["id"]
    for generation in range(60):
        warden.exec(deep, f"echo {generation} >> /workspace/log").ok()
        child = measure("the deep", deep)
        warden.delete(deep)
        deep = child
        warden.exec(shallow, f"echo {generation} >> /workspace/log").ok()
        warden.delete(measure("the shallow", shallow))  # at the same time: the machine may be busy
    assert warden.exec(deep, "cat /workspace/log").stdout.split() == [str(n) for n in range(60)]
    for what in ("snapshot of", "create from"):
        low, high = (statistics.quantiles(times[f"{what} the {who}"][-20:])[0] for who in ("shallow", "deep"))
        print(f"{what} generation 1: p25 {low:.1f} ms, 40-60: {high:.1f} ms")
        assert high <= low * 1.5 + 2


def test_the_disk_limit_holds_in_copies(warden):
    """The initial content of a copy counts; data that only snapshots hold does not."""
    def room(sandbox):
        out = warden.exec(sandbox, "dd if=/dev/zero of=/workspace/fill bs=1M 2>/dev/null; "
                          "sync; stat -c %s /workspace/fill; rm -f /workspace/fill; sync").stdout
        return int(out.split()[0]) >> 20
    source = warden.create(disk_size_mb=64)["id"]
    spread(warden, source, 40)
    assert 38 <= warden.stat(source)[2] >> 20 <= 42
    name, size = warden.snapshot(source)
    assert 40 <= size >> 20 <= 42
    copy = warden.create(snapshot=name, disk_size_mb=64)["id"]
    assert 38 <= warden.stat(copy)[2] >> 20 <= 42
    assert room(copy) <= 30, "the copy has more room than its limit"
    warden.exec(source, "rm /workspace/data; sync").ok()
    for _ in range(6):  # deleted and written again: only snapshots hold the old ones
        warden.snapshot(source)
        spread(warden, source, 30)
    name, size = warden.snapshot(source)
    assert 30 <= size >> 20 <= 32 and 28 <= warden.stat(source)[2] >> 20 <= 33
    assert room(source) <= 40
    large = warden.create(snapshot=name, disk_size_mb=16)["id"]
    assert warden.exec(large, "echo ok > /workspace/small; cat /workspace/small").stdout == "ok\n"
    assert room(large) <= 4


def test_space_of_deleted_files_is_freed(warden):
    """In a copy, and after a snapshot: without another snapshot, soon."""
    source = warden.create(disk_size_mb=64)["id"]
    spread(warden, source, 50)
    name, _size = warden.snapshot(source)
    copy = warden.create(snapshot=name, disk_size_mb=64)["id"]
    for sandbox in (source, copy):
        warden.exec(sandbox, "rm /workspace/data; sync").ok()
        warden.exec(sandbox, "dd if=/dev/zero of=/workspace/a bs=1M count=11 status=none; sync").ok()
        time.sleep(2)
        warden.exec(sandbox, "dd if=/dev/zero of=/workspace/b bs=1M count=30 status=none; sync").ok()
        assert 39 <= warden.stat(sandbox)[2] >> 20 <= 44
        over = warden.exec(sandbox, "dd if=/dev/zero of=/workspace/c bs=1M count=60; sync").exit_code
        assert over != 0 or warden.exec(sandbox, "stat -c %s /workspace/c").stdout.strip() != str(60 << 20)


def busy(sandbox):
    """Ticks that the sandbox's processes have used."""
    total = 0
    for pid in census.sandbox_pids(sandbox):
        with open(f"/proc/{pid}/stat") as f:
            words = f.read().rsplit(")", 1)[1].split()
        total += int(words[11]) + int(words[12])
    return total


def is_still(sandbox):
    before = busy(sandbox)
    time.sleep(0.3)
    return busy(sandbox) == before


def spin(warden, sandbox):
    warden.exec(sandbox, "setsid -f sh -c 'while :; do :; done' >/dev/null 2>&1 </dev/null").ok()


def test_paused_stays_paused(warden):
    source = warden.create()["id"]
    warden.exec(source, "echo x > /workspace/f").ok()
    spin(warden, source)
    warden.pause(source)
    name, _size = warden.snapshot(source)
    assert warden.stat(source)[1] and is_still(source)
    copy = warden.create(snapshot=name)["id"]
    assert warden.exec(copy, "cat /workspace/f").stdout == "x\n"
    warden.pause(source, False)
    assert not warden.stat(source)[1] and not is_still(source)


@pytest.mark.parametrize("paused_before", [False, True])
def test_pause_and_resume_while_it_is_taken(warden, paused_before):
    """Whatever overlaps with it, the last request for pause or resume holds."""
    source = warden.create()["id"]
    spin(warden, source)
    for wait_ms in (0, 1, 2, 3, 5, 8):
        warden.pause(source, paused_before)
        tag = warden.send(SNAPSHOT, sandbox=source, snapshot=secrets.token_hex(8))
        time.sleep(wait_ms / 1000)
        warden.pause(source, not paused_before)
        warden.finish(tag)
        assert is_still(source) == (not paused_before), f"{wait_ms} ms"
        assert warden.stat(source)[1] == (not paused_before)


def test_cancelled_while_it_is_taken(warden):
    """Deleted, or its sandbox destroyed, or its client disconnected, while it is taken: nothing is left."""
    for wait_ms in (0, 1, 2, 4, 6, 10):
        source, name = warden.create()["id"], secrets.token_hex(8)
        spin(warden, source)
        taking = warden.send(SNAPSHOT, sandbox=source, snapshot=name)
        time.sleep(wait_ms / 1000)
        warden.call(SNAPSHOT_DELETE, snapshot=name)
        fields = REPLY.unpack(warden.receive(taking)[0])
        assert name not in warden.names(SNAPSHOT_LIST)
        assert pool.snapshots(warden) == set(), f"{wait_ms} ms, error {fields[4]}"
        assert not is_still(source), "left frozen"
        taking = warden.send(SNAPSHOT, sandbox=source, snapshot=name)
        time.sleep(wait_ms / 1000)
        warden.call(DESTROY, sandbox=source)
        fields = REPLY.unpack(warden.receive(taking)[0])
        if fields[4] == 0:
            warden.call(SNAPSHOT_DELETE, snapshot=name)
        warden.agents.pop(source).sock.close()
        until = time.monotonic() + 20 * tree.SLACK  # the pool may be writing other data
        while census.sandbox_pids(source) and time.monotonic() < until:
            time.sleep(0.02)
        assert not census.sandbox_pids(source), "a frozen one does not die"
        assert pool.snapshots(warden) == set()


def test_a_client_that_goes_away(warden):
    source, name = warden.create()["id"], secrets.token_hex(8)
    keep, _size = warden.snapshot(source)
    volumes = pool.volumes(warden)
    for wait_ms in (0, 1, 2, 4, 6):
        warden.send(SNAPSHOT, sandbox=source, snapshot=name)
        for _ in range(6):
            warden.send(CREATE, sandbox=secrets.token_hex(10), template=warden.template, snapshot=keep)
        time.sleep(wait_ms / 1000)
        warden.sock.close()
        warden.sock = warden.connect()
        warden.answers.clear()
        for sandbox in set(warden.names()) - {source}:  # snapshots whose reply was already sent
            warden.call(DESTROY, sandbox=sandbox)
        warden.call(SNAPSHOT_DELETE, snapshot=name)  # also of a process that was killed but is not dead yet
        assert warden.names(SNAPSHOT_LIST) == [keep]
        until = time.monotonic() + 5 * tree.SLACK
        while time.monotonic() < until and (pool.snapshots(warden) != {keep} or
                                            len(pool.volumes(warden)) > len(volumes) + 40):
            time.sleep(0.02)
        assert pool.snapshots(warden) == {keep}
        assert warden.names() == [source]
    warden.attach(source)
    assert warden.exec(source, "echo alive").stdout == "alive\n"


def test_many_at_once(warden):
    """A hundred children of one snapshot, all requested at once."""
    source = warden.create()["id"]
    spread(warden, source, 20)
    name, _size = warden.snapshot(source)
    ids = [secrets.token_hex(10) for _ in range(100)]
    begin = time.perf_counter()
    tags = [warden.send(CREATE, sandbox=i, template=warden.template, snapshot=name) for i in ids]
    made = [warden.finish(tag) for tag in tags]
    took = time.perf_counter() - begin
    for _data, fds in made:
        for fd in fds:
            os.close(fd)
    print(f"100 copies: {took * 1000:.0f} ms")
    assert took < 3 * tree.SLACK
    for sandbox in ids:
        warden.call(DESTROY, sandbox=sandbox)


def test_other_requests_do_not_wait_for_a_snapshot(warden):
    """Much must be written out first: that takes time, but no other request waits."""
    source, other = warden.create()["id"], warden.create()["id"]
    warden.exec(source, "dd if=/dev/urandom of=/workspace/data bs=1M count=400 status=none").ok()
    begin = time.perf_counter()
    tag = warden.send(SNAPSHOT, sandbox=source, snapshot=secrets.token_hex(8))
    waits = [timed(warden.stat, other)[0] for _ in range(5)]
    warden.finish(tag)
    took = (time.perf_counter() - begin) * 1000
    print(f"snapshot {took:.0f} ms, stat meanwhile at most {max(waits):.1f} ms")
    assert max(waits) < max(took / 2, 20 * tree.SLACK)


def test_names(warden):
    source = warden.create()["id"]
    name, _size = warden.snapshot(source)
    with pytest.raises(ApiError, match="exists"):
        warden.snapshot(source, name)
    with pytest.raises(ApiError, match="No data"):
        warden.create(snapshot="never-was")
    with pytest.raises(ApiError, match="No such"):
        warden.snapshot("nobody")
    with pytest.raises(ApiError, match="exists"):
        warden.create(snapshot=name, id=source)
    warden.call(SNAPSHOT_DELETE, snapshot="never-was")
    assert warden.names(SNAPSHOT_LIST) == [name]
    assert warden.stat(source)[0]


def test_pause_and_resume_are_quick(warden):
    """With processes in groups below the sandbox's: freezing includes the whole tree."""
    source = warden.create()["id"]
    for _ in range(8):
        spin(warden, source)
    times = []
    for _ in range(40):
        begin = time.perf_counter()
        warden.pause(source)
        warden.pause(source, False)
        times.append((time.perf_counter() - begin) * 1000)
    print(f"pause + resume p50 {statistics.median(times):.3f} ms, max {max(times):.3f} ms")
    assert statistics.median(times) < 5 * tree.SLACK
    warden.pause(source)
    assert is_still(source)


def test_threads_of_requests(warden):
    """Snapshots and copies of several sandboxes at once, each reply for its own request."""
    failed = []

    def one(number):
        try:
            box = warden.create()["id"]
            warden.exec(box, f"echo {number} > /workspace/n").ok()
            for _ in range(3):
                name, _size = warden.snapshot(box)
                copy = warden.create(snapshot=name)["id"]
                assert warden.exec(copy, "cat /workspace/n").stdout == f"{number}\n"
                warden.delete(copy)
                warden.call(SNAPSHOT_DELETE, snapshot=name)
        except Exception as error:  # noqa: BLE001 - reported by the main thread
            failed.append(repr(error))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def tamper_byte(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 0x55]))


def test_altered_and_foreign_ones_are_refused():
    """An attacker with root modifies the pool; each change is reported, and an intact snapshot still works."""
    host = census.take()
    with Warden() as warden:
        source = warden.create()["id"]
        warden.exec(source, "echo x > /workspace/f").ok()
        names = {why: warden.snapshot(source)[0] for why in
                 ("whole", "altered", "unknown", "damaged", "missing", "another snapshot", "files were altered",
                  "files are missing", "another installation", "those of another")}
        warden.delete(source)
        warden.sock.close()
        warden.process.terminate()
        assert warden.process.wait(timeout=20 * tree.SLACK) == 0
        with pool.mounted(warden.state) as point:
            def path(why, rest=""):
                return f"{point}/snapshots/{names[why]}{rest}"
            tamper_byte(path("altered", "/manifest"), 250)
            tamper_byte(path("unknown", "/manifest"), 8)
            os.truncate(path("damaged", "/manifest"), 100)
            os.unlink(path("missing", "/manifest"))
            os.replace(path("another snapshot", "/manifest"), path("another snapshot", "/manifest.old"))
            subprocess.run(["cp", path("whole", "/manifest"), path("another snapshot", "/manifest")], check=True)
            os.unlink(path("another snapshot", "/manifest.old"))
            data = path("files were altered", "/data")
            subprocess.run(["btrfs", "property", "set", data, "ro", "false"], check=True)
            with open(f"{data}/upper/workspace/f", "a") as f:
                f.write("planted\n")
            subprocess.run(["btrfs", "property", "set", data, "ro", "true"], check=True)
            subprocess.run(["btrfs", "-q", "subvolume", "delete", path("files are missing", "/data")], check=True)
            tamper_byte(path("another installation", "/manifest"), 20)
            data = path("those of another", "/data")
            subprocess.run(["btrfs", "-q", "subvolume", "delete", data], check=True)
            subprocess.run(["btrfs", "-q", "subvolume", "snapshot", "-r", path("whole", "/data"), data], check=True)
        warden.retry_start()
        expect = dict(zip(names, names), missing="damaged")
        for why, name in names.items():
            if why == "whole":
                copy = warden.create(snapshot=name)["id"]
                assert warden.exec(copy, "cat /workspace/f").stdout == "x\n"
                warden.delete(copy)
                continue
            with pytest.raises(ApiError, match=why if why != "missing" else expect[why]) as caught:
                warden.create(snapshot=name)
            assert "rejected" in str(caught.value), caught.value
        assert warden.names() == []
        for name in names.values():
            warden.call(SNAPSHOT_DELETE, snapshot=name)
        assert pool.snapshots(warden) == set()
    left = census.settle(host, states=[warden.state])
    assert not left, "\n".join(left)


def test_a_power_cut_after_the_answer():
    """The pool as it is on disk when the reply arrives, without anything that was only in memory."""
    with Warden() as warden:
        source = warden.create()["id"]
        warden.exec(source, "echo kept > /workspace/f; head -c 5000000 /dev/urandom > /workspace/g").ok()
        name, _size = warden.snapshot(source)
        subprocess.run(["cp", "--sparse=always", f"{warden.state}/pool.btrfs", f"{warden.state}/cut"], check=True)
        digest = warden.exec(source, "md5sum < /workspace/g").stdout.split()[0]
        warden.delete(source)
        warden.sock.close()
        warden.process.terminate()
        assert warden.process.wait(timeout=20 * tree.SLACK) == 0
        with pool.mounted(warden.state, "cut") as point:
            assert os.listdir(f"{point}/snapshots") == [name]
            assert os.path.getsize(f"{point}/snapshots/{name}/manifest") == 384
            top = f"{point}/snapshots/{name}/data/upper/workspace"
            with open(f"{top}/f") as f:
                assert f.read() == "kept\n"
            assert subprocess.run(["md5sum", f"{top}/g"], capture_output=True, text=True).stdout.split()[0] == digest
        os.replace(f"{warden.state}/cut", f"{warden.state}/pool.btrfs")
        warden.retry_start()
        copy = warden.create(snapshot=name)["id"]
        assert warden.exec(copy, "md5sum < /workspace/g").stdout.split()[0] == digest


def test_without_btrfs_it_says_so():
    plain = Warden(env={"CAY_STORAGE": "directory"})
    with plain as weak:
        source = weak.create()["id"]
        for call in (lambda: weak.snapshot(source), lambda: weak.create(snapshot="s1")):
            with pytest.raises(ApiError, match="not supported"):
                call()
        assert weak.names(SNAPSHOT_LIST) == []
        weak.call(SNAPSHOT_DELETE, snapshot="s1")
        assert weak.exec(source, "echo ok").stdout == "ok\n"
