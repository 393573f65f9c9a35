# SPDX-License-Identifier: Apache-2.0
"""The storage pool: hosts without btrfs, a pool that cannot be mounted, and files planted by a hostile daemon."""

import os
import pathlib
import pwd
import subprocess
import tempfile
import time

import pytest

from lib import census, tree
from lib.client import ApiError
from lib.daemon import TEMPLATES, Daemon, clean_env, tell_janitor

DIRECTORY = {"CAY_STORAGE": "directory"}


@pytest.fixture
def unchanged_host():
    before, states = census.take(), []
    yield states
    left = census.settle(before, states=states)
    assert not left, "\n".join(left)


def start(states, **more):
    daemon = Daemon(**more)
    states.append(daemon.state)
    return daemon


def refused(daemon, *args, **env):
    """The warden alone, which must end by itself; returns its message."""
    done = subprocess.run([tree.program("cay-warden"), "--state", daemon.state, "--templates", TEMPLATES,
                           "--agent", tree.program("cay-agent"), *args],
                          env=clean_env(**env), capture_output=True, text=True, timeout=30 * tree.SLACK)
    assert done.returncode > 0, done
    return done.stderr


def native(client):
    return next(e for e in client.options()["engines"] if e["name"] == "native")


def test_plain_directories_say_so(unchanged_host):
    with start(unchanged_host, env=DIRECTORY) as daemon:
        capabilities = native(daemon.client)["capabilities"]
        assert capabilities["disk_limit"] == "unenforced"
        assert not capabilities["limit_disk"] and not capabilities["snapshot"]
        assert any("disk_limit: unenforced" in w for w in daemon.client.options()["warnings"])
        made = daemon.client.create(disk_size_mb=64, timeout_sec=600)
        assert made["disk_limit"] == "unenforced" and made["disk_size_mb"] == 64
        # There is indeed no limit: more than the size can be written.
        written = daemon.client.exec(made["id"], "head -c 80000000 /dev/zero > big && wc -c < big")
        assert written.stdout.strip() == "80000000"
        for path, body in ((f"/v1/sandboxes/{made['id']}/snapshots", {}), (f"/v1/sandboxes/{made['id']}/fork", {})):
            with pytest.raises(ApiError) as caught:
                daemon.client.call("POST", path, body)
            assert caught.value.code == "unsupported_by_engine" and "btrfs" in caught.value.error["message"]
        volumes = pathlib.Path(daemon.state, "volumes")
        assert not pathlib.Path(daemon.state, "pool.btrfs").exists() and os.listdir(volumes)
        info = os.stat(volumes)
        assert info.st_uid == 0 and info.st_mode & 0o777 == 0o700
        daemon.down()
        assert os.listdir(volumes) == ["owner"]


def test_sandboxes_on_directories_survive_the_warden(unchanged_host):
    with start(unchanged_host, env=DIRECTORY) as daemon:
        sandbox = daemon.client.create(timeout_sec=600)["id"]
        daemon.client.exec(sandbox, "echo kept > file")
        daemon.down("--keep")
        # Without the setting: existing storage is used, although btrfs is available.
        daemon.env.pop("CAY_STORAGE")
        daemon.up()
        assert native(daemon.client)["capabilities"]["disk_limit"] == "unenforced"
        assert daemon.client.exec(sandbox, "cat file").stdout == "kept\n"
        killed, until = daemon.kill("cay-warden"), time.monotonic() + 20 * tree.SLACK
        while daemon.pids().get("cay-warden") in (None, killed) and time.monotonic() < until:
            time.sleep(0.02)
        daemon.wait_ready()
        assert daemon.client.exec(sandbox, "cat file").stdout == "kept\n"


def test_a_small_disk_falls_back_to_directories(unchanged_host):
    """Not enough space for a pool: plain directories, and the log says why."""
    state = tempfile.mkdtemp(prefix="cay-test-", dir="/var/tmp")
    unchanged_host.append(state)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300m", "cay-test-small", state], check=True)
    try:
        daemon = Daemon(state=state, env={"CAY_STORAGE": None})
        daemon.env.pop("CAY_STORAGE", None)
        with daemon:
            assert native(daemon.client)["capabilities"]["disk_limit"] == "unenforced"
            assert "no btrfs here: No space left on device" in daemon.logs()
            sandbox = daemon.client.create(timeout_sec=600)["id"]
            assert daemon.client.exec(sandbox, "echo x > f; cat f").stdout == "x\n"
            assert not [n for n in os.listdir(state) if n.startswith("pool.btrfs")]
    finally:
        subprocess.run(["umount", "-l", state], check=True)
        os.rmdir(state)
        tell_janitor("-state", state)


def test_an_existing_pool_is_never_replaced(unchanged_host):
    """A pool that cannot be mounted ends the start: sandboxes and snapshots are in it."""
    daemon = start(unchanged_host, env={"CAY_STORAGE": "auto"})
    try:
        daemon.up()
        daemon.down()
        path = pathlib.Path(daemon.state, "pool.btrfs")
        with open(path, "r+b") as pool:  # the first superblock, and the copy at 64 MiB
            for offset in (65536, 64 << 20):
                pool.seek(offset)
                pool.write(bytes(4096))
        assert daemon.up(check=False) != 0
        assert "pool.btrfs cannot be mounted" in daemon.up_output + daemon.logs()
        assert "pool.btrfs cannot be mounted" in refused(daemon, "--storage", "btrfs")
        assert path.exists() and not pathlib.Path(daemon.state, "volumes").exists()
        assert "storage = directory, but pool.btrfs exists" in refused(daemon, "--storage", "directory")
        path.unlink()  # as the message advises
        daemon.env["CAY_STORAGE"] = "directory"
        daemon.up()
        assert native(daemon.client)["capabilities"]["disk_limit"] == "unenforced"
    finally:
        daemon.close()


@pytest.mark.parametrize("plant", ["link", "directory", "open directory"])
def test_planted_volumes_are_refused(unchanged_host, plant):
    """The state directory is writable by the daemon's group: a pool that it planted is not root's."""
    daemon = start(unchanged_host, env=DIRECTORY)
    cay = pwd.getpwnam("cay")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as victim:
        path = os.path.join(daemon.state, "volumes")
        if plant == "link":
            os.symlink(victim, path)
        else:
            os.mkdir(path)
            os.chown(path, cay.pw_uid if plant == "directory" else 0, cay.pw_gid)
            os.chmod(path, 0o770 if plant == "open directory" else 0o700)
        try:
            assert "must be a directory of root" in refused(daemon, **DIRECTORY)
            assert os.listdir(victim) == [] and (plant == "link" or os.listdir(path) == [])
        finally:
            daemon.close()


def test_an_unknown_kind_is_refused(unchanged_host):
    daemon = start(unchanged_host)
    try:
        assert "auto, btrfs or directory" in refused(daemon, CAY_STORAGE="zfs")
        assert "auto, btrfs or directory" in refused(daemon, "--storage", "")
    finally:
        daemon.close()


def test_the_settings_file_names_the_kind(unchanged_host, tmp_path):
    config = tmp_path / "cay.conf"
    config.write_text("storage = directory\n")
    daemon = start(unchanged_host, args=["--config", str(config)])
    daemon.env.pop("CAY_STORAGE", None)
    with daemon:
        assert native(daemon.client)["capabilities"]["disk_limit"] == "unenforced"
