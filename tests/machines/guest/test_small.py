# SPDX-License-Identifier: Apache-2.0
"""A machine with 512 MiB of memory: everything works there, and what is too large ends without affecting the rest."""
import re
import subprocess

import pytest

from lib.commands import wait_for
from machines.guest.units import UNITS, Units, systemctl

AT_ONCE = 3
EATER = "kept = [b'x' * (4 << 20) for _ in range(500)]\nprint('all of it')"  # one large piece would be refused at once


@pytest.fixture(scope="module")
def units():
    for unit in UNITS.values():
        wait_for(lambda unit=unit: systemctl("is-active", unit, check=False).strip() == "active", 60)
    with Units() as started:
        yield started


@pytest.fixture(autouse=True)
def nothing_was_killed(units):
    """Neither a unit nor a process outside of the sandboxes."""
    yield
    for unit in UNITS.values():
        assert systemctl("show", "-P", "NRestarts", unit).strip() == "0", units.logs()
    messages = subprocess.run(["journalctl", "--no-pager", "-b", "-k", "-o", "cat"], capture_output=True, text=True, check=True).stdout
    strays = [line for line in messages.splitlines() if "oom-kill:" in line and "cay-sandboxes.service" not in line]
    assert not strays


def test_the_machine_is_small():
    with open("/proc/meminfo", encoding="utf-8") as file:
        assert int(re.search(r"MemTotal:\s+(\d+)", file.read())[1]) < 512 * 1024


def test_doctor_has_no_failures(units):
    done = subprocess.run(["cay", "doctor"], capture_output=True, text=True, check=False)
    assert not re.search(r"^\s*fail\b", done.stdout, re.M) and done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"memory\s+[34]\d\d MiB", done.stdout), done.stdout


def test_from_creation_to_end(units):
    for _ in range(AT_ONCE):
        with units.client.sandbox() as sandbox:
            assert sandbox.exec("echo kept > f; cat f").ok().stdout == "kept\n"


def test_several_at_once(units):
    """Each with a Python process that keeps running."""
    with units.client.sandbox() as one, units.client.sandbox() as two, units.client.sandbox() as three:
        for number, sandbox in enumerate((one, two, three)):
            sandbox.exec(f"echo {number} > f; setsid -f python3 -c 'import time; time.sleep(999)' >/dev/null 2>&1 </dev/null").ok()
        for number, sandbox in enumerate((one, two, three)):
            assert sandbox.exec("cat f; pgrep -c python3").ok().stdout == f"{number}\n1\n"


def test_memory_runs_out_inside_only(units):
    """A limit above the machine's memory: the limit of all sandboxes together applies."""
    with units.client.sandbox(memory_mb=2048) as large, units.client.sandbox() as other:
        other.exec("echo here > f").ok()
        done = large.exec(["python3", "-c", EATER], timeout_sec=300)
        assert done.body["reason"] == "oom" and "all of it" not in done.stdout, done.body
        assert wait_for(lambda: (done := other.exec("cat f")).exit_code == 0 and done, 20).stdout == "here\n"
        assert large.exec("echo lives").ok().stdout == "lives\n"
