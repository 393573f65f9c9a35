# SPDX-License-Identifier: Apache-2.0
"""A sandbox that was made again with its memory is as closed as a fresh one, although CRIU made its namespaces."""

import pytest

import attacks
from lib import memory

ATTACKS = (attacks.dangerous_syscalls, attacks.foreign_abis, attacks.socket_families, attacks.namespaces_closed,
           attacks.mounts_closed, attacks.root_stays, attacks.handles_closed, attacks.keys_closed, attacks.clocks_closed,
           attacks.terminal_ioctls, attacks.capability_sets, attacks.uid_map, attacks.idmapped_root, attacks.init_protected,
           attacks.proc_masked, attacks.oom_score_floor, attacks.cgroup_view, attacks.agent_groups_closed,
           attacks.network_none, attacks.mount_flags, attacks.mknod_refused)


def mark_stays(box):
    """Who it is cannot be changed by root inside, nor what tells a process that it is a copy."""
    was = box.sh("cat /run/cay/forked /etc/machine-id")
    box.root("umount /run/cay/forked; rm -f /run/cay/forked; echo x > /run/cay/forked; mv /run/cay/forked /tmp; "
             "umount -l /run/cay; mount -t tmpfs x /run/cay; umount /etc/machine-id; rm -f /etc/machine-id")
    assert box.sh("cat /run/cay/forked /etc/machine-id") == was and box.id in was


def resumed(daemon, box):
    row = daemon.client.call("POST", f"/v1/sandboxes/{box.id}/pause", {"kind": "hibernate"})
    assert row["memory_preserved"] is True, row
    daemon.client.call("POST", f"/v1/sandboxes/{box.id}/resume", {})
    return box


def forked(daemon, box):
    child = daemon.client.sandbox()
    child.id = daemon.client.call("POST", f"/v1/sandboxes/{box.id}/fork", {"memory": True})["data"][0]["id"]
    return child


@pytest.fixture(scope="module", params=[resumed, forked], ids=lambda f: f.__name__)
def woken(request):
    with memory.daemon() as daemon:
        with daemon.client.sandbox(timeout_sec=3600) as box:
            box.exec("setsid -f sleep 1000 >/dev/null 2>&1 </dev/null").ok()
            made = request.param(daemon, box)
            assert made.exec("pgrep -c sleep").stdout == "1\n"
            yield made
            if made is not box:
                daemon.client.delete(made.id)


@pytest.mark.parametrize("attack", (*ATTACKS, mark_stays), ids=lambda a: a.__name__)
def test_woken(woken, attack):
    attack(woken)
