# SPDX-License-Identifier: Apache-2.0
"""Does the suite detect a missing control? With a control switched off, its attack must succeed. The warden's fault
build (ninja faults) honours CAY_WARDEN_DISABLE, a comma-separated list of controls. The warden and the agent are
driven directly (lib/direct.py), because the controls are theirs alone.
"""

import json

import pytest

import attacks
from lib import tree
from lib.client import ApiError
from lib.direct import Warden

SMALL = {"memory_mb": 256, "disk_size_mb": 64}

MATTERS = [
    # control switched off, the attacks that must then succeed
    ("seccomp", [attacks.dangerous_syscalls, attacks.keys_closed, attacks.foreign_abis,
                 attacks.terminal_ioctls, attacks.namespaces_closed]),
    ("caps", [attacks.capability_sets, attacks.agent_groups_closed]),
    ("userns", [attacks.uid_map]),
    ("procmask", [attacks.proc_masked]),
    ("covers", [attacks.proc_covered]),
    ("devices,nodev", [attacks.planted_node]),
    ("pids", [attacks.fork_limit]),
    ("memory", [lambda box: attacks.memory_limit(box, 256)]),
    ("cpu", [lambda box: attacks.cpu_limit(box, 1)]),
    ("disk", [lambda box: attacks.disk_limit(box, 64)]),
    ("netns", [attacks.network_none]),
    ("egress", [attacks.host_service]),
    ("idmap", [attacks.idmapped_root]),
    ("sockets", [attacks.socket_families]),
    ("ptsmax", [attacks.pty_limit]),
    ("nodev", [attacks.mount_flags]),
    ("cgroupns", [attacks.cgroup_view]),
    ("oomscore", [attacks.oom_score_floor]),
]

pytestmark = pytest.mark.skipif(
    bool({"cay-warden", "cay-agent"} & set(tree.missing_programs(tree.FAULTS))),
    reason=tree.NO_FAULTS)


@pytest.mark.parametrize("control,tries", MATTERS, ids=[m[0] for m in MATTERS])
def test_attack_wins_without_control(control, tries):
    """With the control off, at least one of its attacks is no longer refused."""
    with Warden(build=tree.FAULTS, env={"CAY_WARDEN_DISABLE": control}) as weak:
        try:
            with weak.client.sandbox(**SMALL) as box:
                noticed = [name_of(a) for a in tries if attack_wins(a, box)]
        except ApiError as error:
            # Without this control the sandbox cannot even be created, so it is effective.
            pytest.skip(f"no sandbox can be made without {control}: {error}")
    assert noticed, f"with {control} off every attack was still refused: the tests would not notice"


def test_nothing_off_attacks_lose():
    """The same build with all controls on refuses everything, so the switch made the difference."""
    with Warden(build=tree.FAULTS) as whole, whole.client.sandbox(**SMALL) as box:
        for _control, tries in MATTERS:
            for attack in tries:
                attack(box)


@pytest.mark.parametrize("control", ["devices", "nodev"])
def test_either_of_two_suffices(control):
    """Device files are stopped twice; each control alone holds."""
    with Warden(build=tree.FAULTS, env={"CAY_WARDEN_DISABLE": control}) as weak, \
            weak.client.sandbox(**SMALL) as box:
        attacks.planted_node(box)


def test_release_build_ignores_the_switch():
    """The product keeps every control, whatever the environment says."""
    options = json.loads((tree.build_dir() / "meson-info/intro-buildoptions.json").read_text())
    if [o for o in options if o["name"] == "faults" and o["value"]]:
        pytest.skip(f"{tree.build_dir().name} is itself a test build")
    with Warden(env={"CAY_WARDEN_DISABLE": "seccomp,procmask"}) as whole, \
            whole.client.sandbox(**SMALL) as box:
        attacks.dangerous_syscalls(box)
        attacks.proc_masked(box)


def name_of(attack):
    return getattr(attack, "__name__", "attack")


def attack_wins(attack, box):
    # A busy machine can hold a burner back as a quota would: three tries.
    for _ in range(3):
        try:
            attack(box)
        except AssertionError:
            return True
    return False
