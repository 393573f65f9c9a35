# SPDX-License-Identifier: Apache-2.0
"""The systemd units: they take away nothing that cayd needs."""

import pathlib
import re
import shutil
import subprocess

import pytest

from lib import tree

ROOT = pathlib.Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")


def system_calls(name, sets):
    """The calls in one of systemd's sets, including nested sets."""
    if not name.startswith("@"):
        return {name}
    return {call for member in sets[name] for call in system_calls(member, sets)}


def allowed_by(unit, sets):
    """Later lines add to the first or take away from it, as systemd.exec(5) says."""
    allowed = system_calls("@default", sets)
    for line in re.findall(r"^SystemCallFilter=(.*)$", unit, re.M):
        names = {call for word in line.lstrip("~").split() for call in system_calls(word, sets)}
        allowed = allowed - names if line.startswith("~") else allowed | names
    return allowed


def test_cayd_may_call_what_it_calls():
    sets, name = {}, None
    told = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], capture_output=True, text=True, check=True)
    for line in told.stdout.splitlines():
        if line.startswith("@"):
            name = line.strip()
            sets[name] = []
        elif line.startswith("    ") and not line.strip().startswith("#"):
            sets[name].append(line.strip())
    source = (ROOT / "src/daemon/filter.c").read_text()
    own = set(re.findall(r"SCMP_SYS\((\w+)\)", re.search(r"allowed\[\] = \{(.*?)\};", source, re.S)[1]))
    assert len(own) > 50
    unit = pathlib.Path(tree.build_dir(), "packaging/cayd.service").read_text()
    missing = (own | {"capset", "seccomp"}) - allowed_by(unit, sets)
    assert not missing, f"cayd would be killed for {sorted(missing)}"
