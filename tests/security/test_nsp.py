# SPDX-License-Identifier: Apache-2.0
"""Namespaces and identities (NSP)."""

import os
import time

import attacks
from lib import census, tree


def test_NSP_01_nested_user_namespaces(box):
    """NSP-01: unshare by the tools people use; refused without harm."""
    for command in ("unshare -U true", "unshare -Urn true", "unshare -m true", "sudo -n unshare -p true"):
        assert box.exec(command).exit_code != 0, command


def test_NSP_01_sysctl_limit(box):
    """NSP-01: even a call that passed the filter cannot create another user namespace."""
    value = box.sh("cat /proc/sys/user/max_user_namespaces 2>/dev/null || echo 0")
    assert value.strip() == "0", value


def test_NSP_02_id_maps(box):
    """NSP-02: one private range, not writable again."""
    attacks.uid_map(box)
    for target in ("self/uid_map", "1/uid_map", "self/gid_map", "1/gid_map"):
        assert box.root(f"echo '0 0 1' > /proc/{target}").exit_code != 0, target
    attacks.uid_map(box)
    assert box.root("echo deny > /proc/1/setgroups").exit_code != 0


def test_NSP_04_ranges_are_disjoint(client, box, neighbour):
    """NSP-04: no two sandboxes share host ids."""
    with client.sandbox() as third, client.sandbox(pool={"mode": "bypass"}) as fourth:
        bases = [attacks.uid_map(b) for b in (box, neighbour, third, fourth)]
        assert len(set(bases)) == 4
        assert all(abs(a - b) >= 65536 for i, a in enumerate(bases) for b in bases[i + 1:])


def test_NSP_05_owners_on_the_host(box):
    """NSP-05: processes of root, sandbox and nobody are the range's ids on the host."""
    base = attacks.uid_map(box)
    for user, uid in (("root", 0), ("sandbox", 1000), ("user", 1001)):
        box.exec("nohup sleep 20 >/dev/null 2>&1 &", user=user)
        owners, until = set(), time.monotonic() + 5 * tree.SLACK
        while base + uid not in owners and time.monotonic() < until:  # it may not be sleep yet
            for pid in census.sandbox_pids(box.id):
                try:
                    if open(f"/proc/{pid}/comm").read() == "sleep\n":
                        owners.add(os.stat(f"/proc/{pid}").st_uid)
                except OSError:
                    pass
        assert base + uid in owners, (user, owners)
        box.root("pkill sleep")


def test_NSP_05_files(box):
    """NSP-05: files made inside never belong to host root or host nobody."""
    box.sh("cd /tmp && for u in 0 1 1000 65534 65535; do touch own-$u && chown $u:$u own-$u; done")
    assert box.sh("cd /tmp && stat -c %u own-0 own-1 own-1000 own-65534 own-65535").split() == \
        ["0", "1", "1000", "65534", "65535"]
    attacks.idmapped_root(box)
    root = f"/proc/{min(census.sandbox_pids(box.id))}/root/tmp"
    owners = {n: os.stat(f"{root}/own-{n}").st_uid for n in (0, 1, 1000, 65534, 65535)}
    assert not {0, 65534} & set(owners.values()), owners
    base = attacks.uid_map(box)
    # Either the view through the mount (idmapped) or the private range; both are not the host's.
    assert all(v == base + n for n, v in owners.items()), owners


def test_NSP_06_clock(box):
    """NSP-06: the host's clock cannot be set."""
    before = time.time() - time.monotonic()
    attacks.clocks_closed(box)
    assert box.exec("sudo -n date -s '2001-01-01'").exit_code != 0
    assert abs(time.time() - time.monotonic() - before) < 1


def test_NSP_07_network_is_none(box):
    """NSP-07, NET-01: loopback only, no route, nothing leaves."""
    attacks.network_none(box)
    # 192.0.2.0/24 is for documentation; without a route no packet is made.
    result = box.exec(["python3", "-c", "import socket\ns=socket.socket()\ns.settimeout(2)\n"
                       "try: s.connect(('192.0.2.1',9))\nexcept OSError as e: print(e.errno)"])
    assert result.stdout.strip() in ("101", "113"), repr(result)
    assert box.exec("sudo -n ip link add veth0 type veth 2>&1 || echo refused").stdout.count("refused")


def test_NSP_07_loopback_is_private(box, client):
    """NSP-07, NET-12: the daemon's port on the host's loopback is not reachable, own loopback works."""
    script = (f"import socket\ns=socket.socket()\ns.settimeout(2)\n"
              f"try: s.connect(('127.0.0.1',{client.port})); print('open')\n"
              "except OSError as e: print(e.errno)")
    assert box.exec(["python3", "-c", script]).stdout.strip() == "111"
    box.exec(["python3", "-c", "import socket\na=socket.socket();a.bind(('127.0.0.1',0));a.listen()\n"
              "socket.create_connection(a.getsockname(),2)"]).ok()


def test_NSP_08_kill_everything(client, neighbour):
    """NSP-08: kill -1 as root and signals to pid 1 end at most the sandbox itself."""
    with client.sandbox() as box:
        box.probe("kill", timeout_sec=5)
        row = box.wait_state(("running", "error", "destroyed"), 1)
        if row and row["state"] == "running":
            assert box.exec(["/bin/echo", "alive"]).stdout == "alive\n"
    assert neighbour.exec(["/bin/true"]).exit_code == 0


def test_NSP_08_other_processes_not_signalled(box, daemon):
    """NSP-08: the host's pids mean nothing inside."""
    pids = daemon.pids()
    box.root("kill -9 " + " ".join(str(p) for p in pids.values()))
    assert daemon.pids() == pids


def test_NSP_09_ipc_is_private(box, neighbour):
    """NSP-09: System V objects of one sandbox are not seen by another nor by the host."""
    box.sh("ipcmk -M 4096 -p 0666; ipcmk -Q -p 0666")
    assert neighbour.sh("tail -n +2 /proc/sysvipc/shm; tail -n +2 /proc/sysvipc/msg").strip() == ""
    assert not census.ipc()


def test_NSP_10_churn_leaves_no_namespaces(client, daemon):
    """NSP-10: creates and destroys (a short form of the long run) leave no namespace behind."""
    for _ in range(3):
        with client.sandbox():
            pass
    time.sleep(0.5)
    before = len(census.take(daemon)["namespaces"])
    for _ in range(40):
        with client.sandbox(pool={"mode": "bypass"}):
            pass
    until = time.monotonic() + 6 * tree.SLACK
    while True:
        now = len(census.take(daemon)["namespaces"])
        if now <= before + 24 or time.monotonic() > until:
            break
        time.sleep(0.2)
    # The pool may have grown with demand; forty sandboxes would be 320 namespaces.
    assert now <= before + 8 * 8, f"{before} namespaces before, {now} after"


MARKS = {
    "nothing": "",
    "loopback": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
    "loopback6": "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('::1', 9))",
    "unreachable": "socket.socket().connect_ex(('8.8.8.8', 9))",
    "listener": "s = socket.socket(); s.bind(('127.0.0.1', 7777)); s.listen(); socket.create_connection(('127.0.0.1', 7777))",
    "name": "s = socket.socket(socket.AF_UNIX); s.bind('\\0left-behind'); s.listen(); os.fork() or (os.close(1), os.close(2), time.sleep(600))",
    "ipc": "c = ctypes.CDLL(None); c.shmget(77, 4096, 0o1666); c.mq_open(b'/left', 0o102, 0o666, None)",
}
TRACES = "cd /proc/net && cat dev snmp snmp6 netstat tcp tcp6 udp udp6 ip6_flowlabel && grep -c left unix; cat /proc/sysvipc/*"


def test_NSP_11_nothing_is_left_for_the_next(client):
    """NSP-11: slots and net namespaces are reused; the next sandbox cannot see what the last one did there."""
    clean = None
    for number, (name, mark) in enumerate(list(MARKS.items()) * 2):
        with client.sandbox(pool={"mode": "bypass"}) as box:
            seen = box.exec(TRACES, user="root").stdout
            clean = clean or seen
            assert seen == clean, (number, name)
            assert "left" not in box.sh("ls /dev/mqueue 2>/dev/null; true")
            if mark:
                box.exec(["python3", "-c", f"import ctypes, os, socket, time\n{mark}"], user="root")
                if name in ("loopback", "unreachable", "listener"):  # so the check above would have detected it
                    assert box.exec(TRACES, user="root").stdout != clean, name
