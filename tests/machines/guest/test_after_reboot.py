# SPDX-License-Identifier: Apache-2.0
"""After the machine restarted: the units run again and the files of every sandbox are there."""
import datetime
import json
import pathlib
import subprocess
import time

import pytest

from lib.client import ApiError
from lib.commands import wait_for
from machines.guest.test_before_reboot import LIFETIME_SEC, NOTES
from machines.guest.units import UNITS, Units, systemctl


@pytest.fixture(scope="module")
def notes():
    return json.loads(NOTES.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def units():
    for unit in UNITS.values():  # not started by the test: they are enabled
        wait_for(lambda unit=unit: systemctl("is-active", unit, check=False).strip() == "active", 60)
    with Units() as started:
        yield started


def test_it_is_another_boot(notes):
    assert pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8") != notes["boot"]


def test_the_daemon_noticed(units):
    text = subprocess.run(["journalctl", "--no-pager", "-b", "-u", "cayd", "-o", "cat"], capture_output=True, text=True, check=True).stdout
    assert text.splitlines().count("the host was rebooted") == 1, text


def left_sec(row):
    return datetime.datetime.fromisoformat(row["expires_at"].replace("Z", "+00:00")).timestamp() - time.time()


@pytest.mark.parametrize("kind", ["running", "frozen", "hibernated"])
def test_files_are_kept(units, notes, kind):
    api, sandbox = units.client, notes["made"][kind]
    row = wait_for(lambda: (row := api.get(sandbox))["state"] in ("paused", "running") and row, 60)
    assert row["metadata"] == {"kind": kind}
    if row["state"] == "paused":
        row = api.call("POST", f"/v1/sandboxes/{sandbox}/resume", {})
    assert 0 < left_sec(row) <= LIFETIME_SEC, "its time stood still while the machine was off"
    assert api.exec(sandbox, "cat /workspace/word").ok().stdout == f"{kind}\n"
    api.delete(sandbox)


def test_what_was_destroyed_stays_so(units, notes):
    with pytest.raises(ApiError) as caught:
        units.client.get(notes["gone"])
    assert caught.value.status == 404


def test_new_ones_can_be_made(units):
    with units.client.sandbox() as sandbox:
        assert sandbox.exec("echo new").ok().stdout == "new\n"
