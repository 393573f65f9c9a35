# SPDX-License-Identifier: Apache-2.0
"""A sandbox that was made again with its memory is as closed as a fresh one, although CRIU made its namespaces."""

import pytest

import attacks
from lib import memory
from lib.daemon import Daemon


ATTACKS = (attacks.dangerous_syscalls, attacks.foreign_abis, attacks.socket_families, attacks.namespaces_closed,
           attacks.mounts_closed, attacks.root_stays, attacks.handles_closed, attacks.keys_closed, attacks.clocks_closed,
           attacks.terminal_ioctls, attacks.capability_sets, attacks.uid_map, attacks.idmapped_root, attacks.init_protected,
           attacks.proc_masked, attacks.oom_score_floor, attacks.cgroup_view, attacks.agent_groups_closed,
           attacks.network_none, attacks.mount_flags, attacks.mknod_refused)


@pytest.fixture(scope="module")
def woken():
    memory.need()
    with Daemon(env=dict(memory.ENV, CAY_POOL="false")) as daemon:
        memory.claimed(daemon.client)
        with daemon.client.sandbox(timeout_sec=3600) as box:
            box.exec("setsid -f sleep 1000 >/dev/null 2>&1 </dev/null").ok()
            path = f"/v1/sandboxes/{box.id}"
            row = daemon.client.call("POST", path + "/pause", {"kind": "hibernate"})
            assert row["memory_preserved"] is True, row
            daemon.client.call("POST", path + "/resume", {})
            assert box.exec("pgrep -c sleep").stdout == "1\n"
            yield box


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.__name__)
def test_woken(woken, attack):
    attack(woken)
