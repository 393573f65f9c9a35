# SPDX-License-Identifier: Apache-2.0
"""df inside shows the disk limit and what is used of it (docs/guides/inside.md)."""

import pytest

from lib import memory
from lib.commands import wait_for

DISK_MB = 300
# Templates built with this version have it; others get it here.
LINK = "test -e /usr/local/bin/df || ln -s /run/cay/tools /usr/local/bin/df"


def row(sandbox, path="/", user="root"):
    """Size, used, available in KiB, and where it is mounted."""
    lines = sandbox.exec(f"df -k {path}", user=user).ok().stdout.splitlines()
    assert lines[0].split()[:4] == ["Filesystem", "1K-blocks", "Used", "Available"] and len(lines) == 2, lines
    fields = lines[1].split()
    return int(fields[1]), int(fields[2]), int(fields[3]), fields[5]


@pytest.fixture(scope="module")
def box(api, engine):
    """The quota counts committed data, which takes up to a second: the tests below wait for the used size."""
    if engine != "native":
        pytest.skip(f"engine {engine} shows the host: it does not isolate")
    with api.sandbox(engine=engine, timeout_sec=900, disk_size_mb=DISK_MB) as sandbox:
        if sandbox.state()["disk_limit"] != "enforced":
            pytest.skip("this storage has no quotas: df shows the file system")
        sandbox.sh(LINK)
        yield sandbox


@pytest.mark.parametrize("user", ["root", "sandbox"])
@pytest.mark.parametrize("path", ["/", "/workspace", "/usr/bin/env"])
def test_size_is_the_limit(box, user, path):
    size, used, available, target = row(box, path, user)
    assert (size, target) == (DISK_MB * 1024, "/")
    assert used + available == size


def test_used_follows_the_files(box):
    before = row(box)[1]
    box.sh("head -c 100M /dev/urandom > /workspace/data; sync")
    wait_for(lambda: 100 * 1024 <= row(box)[1] - before < 110 * 1024, step=0.2)
    box.sh("rm /workspace/data; sync")
    wait_for(lambda: row(box)[1] - before < 10 * 1024, step=0.2)


def test_forms(box):
    assert box.sh("df -h /").splitlines()[1].split()[1] == f"{DISK_MB}M"
    assert box.sh("df --output=size -BM /").split()[-1] == f"{DISK_MB}M"
    listed = [line.split() for line in box.sh("df -T").splitlines()[1:]]
    assert [fields for fields in listed if fields[6] == "/"][0][1:3] == ["overlay", str(DISK_MB * 1024)], listed
    assert any(fields[6] == "/dev/shm" for fields in listed), listed
    # /dev/shm is a separate file system: its numbers are the kernel's.
    assert box.sh("df -k /dev/shm") == box.sh("/usr/bin/df -k /dev/shm")
    for wrong in ("--nonsense", "-B 0", "/missing", "--output=nonsense"):
        result = box.exec(f"df {wrong}")
        assert result.exit_code == 1 and result.stderr.startswith("df: "), result


def test_every_sandbox_has_its_own(api, engine, box):
    with api.sandbox(engine=engine, disk_size_mb=DISK_MB // 2) as other:
        other.sh(LINK)
        assert row(other)[0] == DISK_MB * 512
    assert row(box)[0] == DISK_MB * 1024


def test_after_a_pause_and_in_a_copy(api, engine, box):
    with api.sandbox(engine=engine, disk_size_mb=DISK_MB) as sandbox:
        sandbox.sh(LINK + "; head -c 40M /dev/urandom > /workspace/data; sync")
        for kind in ("freeze", "hibernate"):
            api.call("POST", f"/v1/sandboxes/{sandbox.id}/pause", {"kind": kind})
            api.call("POST", f"/v1/sandboxes/{sandbox.id}/resume", {})
            assert row(sandbox)[0] == DISK_MB * 1024
            wait_for(lambda: 40 * 1024 <= row(sandbox)[1] < 50 * 1024, step=0.2)
        made = api.call("POST", f"/v1/sandboxes/{sandbox.id}/fork", {"count": 1})["data"][0]
        try:
            text = api.exec(made["id"], "df -k /").ok().stdout.splitlines()[1].split()
            assert int(text[1]) == DISK_MB * 1024
            assert 40 * 1024 <= int(text[2]) < 60 * 1024, "what it shares with its source counts"
        finally:
            api.delete(made["id"])


def test_with_memory(engine, box):
    """A process that has the numbers open stays; the agent finds the new quota group of its disk."""
    with memory.daemon() as daemon, daemon.client.sandbox(timeout_sec=900, disk_size_mb=DISK_MB) as sandbox:
        sandbox.sh(LINK)
        assert row(sandbox)[0] == DISK_MB * 1024
        paused = daemon.client.call("POST", f"/v1/sandboxes/{sandbox.id}/pause", {"kind": "hibernate"})
        assert paused["memory_preserved"] is True, paused["last_error"]
        daemon.client.call("POST", f"/v1/sandboxes/{sandbox.id}/resume", {})
        assert row(sandbox)[0] == DISK_MB * 1024
        before = row(sandbox)[1]
        sandbox.sh("head -c 20M /dev/urandom > /workspace/data; sync")
        wait_for(lambda: row(sandbox)[1] - before >= 20 * 1024, step=0.2)


def test_nothing_of_the_host_shows(box):
    """The numbers do not reveal the names of volumes in the pool."""
    assert "qgroups" not in box.sh("cat /proc/self/mountinfo")
    assert box.exec("cat /sys/fs/disk").ok().stdout.split()[0] == str(DISK_MB << 20)
    assert box.exec("echo 1 > /sys/fs/disk").exit_code != 0, "only root inside may write it"
    assert "qgroups" not in box.root("ls -l /proc/1/fd").stdout
