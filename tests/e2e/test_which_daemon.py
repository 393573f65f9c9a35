# SPDX-License-Identifier: Apache-2.0
"""One rule selects the daemon of a command, and 'cay down' ends exactly that one."""

import contextlib
import json
import os
import pwd
import re
import signal
import socket
import subprocess
import time

import pytest

from lib import census, janitor, tree
from lib.commands import wait_for
from lib.daemon import Daemon, TEMPLATES, clean_env


def cay(one, *words, **env):
    """Without --state on the line: the environment names the daemon."""
    return subprocess.run([one.cay, *words], env={**one.env, **env}, capture_output=True, text=True,
                          timeout=60 * tree.SLACK, stdin=subprocess.DEVNULL)


def start_foreground(one, *words):
    process = subprocess.Popen([one.cay, "up", "--foreground", "--state", one.state, "--templates", TEMPLATES,
                                "--listen", "127.0.0.1:0", *words], env=one.env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    one.wait_ready(20)
    return process


def await_pending(pid, signum):
    until = time.monotonic() + 30 * tree.SLACK
    while time.monotonic() < until:
        with open(f"/proc/{pid}/status") as status:
            if int(re.search(r"ShdPnd:\s*(\w+)", status.read())[1], 16) >> (signum - 1) & 1:
                return
        time.sleep(0.01)
    raise AssertionError(f"signal {signum} has not reached process {pid}")


def test_two_daemons_named_at_once():
    """CAY_URL overrides CAY_STATE for every command; 'cay down' refuses instead of stopping another one."""
    with Daemon() as one, Daemon() as two:
        both = {"CAY_URL": one.url, "CAY_API_KEY": one.key, "CAY_STATE": two.state}
        mine, other = one.client.create()["id"], two.client.create()["id"]
        assert one.url in cay(one, "status", **both).stdout
        assert json.loads(cay(one, "status", "--json", **both).stdout)["supervised"] is False, "the locks are the other's"
        assert cay(one, "ls", "-q", **both).stdout.split() == [mine]
        for words in (["down"], ["down", "--yes"], ["down", "--keep"]):
            done = cay(one, *words, **both)
            assert done.returncode == 2, done
            assert one.url in done.stderr and two.url in done.stderr and two.state in done.stderr, "it says both"
            assert "CAY_URL" in done.stderr and "--state" in done.stderr
        done = cay(one, "down", "--yes", "--url", one.url, "--state", two.state)
        assert done.returncode == 2 and "--url" in done.stderr
        assert one.client.get(mine)["state"] == two.client.get(other)["state"] == "running"
        # A directory on the line wins over the variable.
        assert cay(one, "ls", "-q", "--state", two.state, **both).stdout.split() == [other]
        assert cay(one, "down", "--yes", "--state", two.state, **both).returncode == 0
        assert not two.pids() and one.client.get(mine)["state"] == "running"
        # The same daemon by another name of the loopback interface is no contradiction.
        same = {"CAY_URL": one.url.replace("127.0.0.1", "localhost"), "CAY_STATE": one.state}
        assert cay(one, "ls", "-q", **same).stdout.split() == [mine]
        assert cay(one, "down", "--yes", **same).returncode == 0
        assert not one.pids()


def test_the_key_of_a_directory_goes_to_its_own_daemon_only(daemon):
    """Another server at CAY_URL must not receive the administrator's key."""
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        url = f"http://127.0.0.1:{stranger.getsockname()[1]}"
        process = subprocess.Popen([daemon.cay, "ls"], env={**daemon.env, "CAY_URL": url, "CAY_STATE": daemon.state},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stranger.settimeout(20)
        visitor = stranger.accept()[0]
        head = visitor.recv(65536)
        visitor.close()
        process.wait(20)
    assert b"GET /v1/sandboxes" in head and b"uthorization" not in head, head


def test_the_key_stays_when_a_stranger_has_the_usual_port(tmp_path):
    """The daemon of the default directory is not running, and another program listens at its address."""
    script = tmp_path / "try.sh"
    script.write_text(f"""set -e
mount -t tmpfs none /var/lib; mkdir /var/lib/cay; echo cay_{'ab' * 20} > /var/lib/cay/admin.key
ip link set lo up
exec /usr/bin/python3 - <<'END'
import socket, subprocess
s = socket.create_server(("127.0.0.1", 7070)); s.settimeout(20)
p = subprocess.Popen([{tree.program("cay")!r}, "ls"], stderr=subprocess.DEVNULL)
c = s.accept()[0]; print(c.recv(65536).decode()); c.close(); p.wait()
END
""")
    done = subprocess.run(["unshare", "--mount", "--net", "bash", str(script)], capture_output=True, text=True,
                          env=clean_env(), timeout=60 * tree.SLACK, stdin=subprocess.DEVNULL)
    assert "GET /v1/sandboxes" in done.stdout and "uthorization" not in done.stdout, done


def test_up_takes_no_url(daemon):
    done = daemon.command("up", "--url", daemon.url)
    assert done.returncode == 2 and "--listen" in done.stderr
    done = cay(daemon, "up", "--state", daemon.state, CAY_URL="http://127.0.0.1:1")
    assert done.returncode == 0 and "CAY_URL names http://127.0.0.1:1" in done.stderr


def test_down_lists_and_refuses_without_yes():
    with Daemon() as one:
        sandbox = one.client.create(name="precious")["id"]
        asleep = one.client.create(name="asleep")["id"]
        one.client.call("POST", f"/v1/sandboxes/{asleep}/pause", {"kind": "hibernate"})
        done = one.command("down", stdin=subprocess.DEVNULL)
        assert done.returncode == 7, done
        assert re.search(rf"{sandbox} +precious +running", done.stderr), done.stderr
        assert re.search(rf"{asleep} +asleep +hibernated", done.stderr), done.stderr
        assert "--yes" in done.stderr and "--keep" in done.stderr
        assert one.client.get(sandbox)["state"] == "running", "nothing was touched"
        done = one.command("down", "--json", stdin=subprocess.DEVNULL)
        assert done.returncode == 7 and json.loads(done.stderr)["error"]["code"] == "conflict"
        assert one.command("down", "--yes", "--keep").returncode == 2
        for box in (sandbox, asleep):
            one.client.delete(box)
        assert one.command("down", stdin=subprocess.DEVNULL).returncode == 0, "nothing to lose: no question"


@pytest.mark.parametrize("answer,status", [("n", 7), ("", 7), ("y", 0)])
def test_down_asks_on_a_terminal(answer, status):
    with Daemon() as one:
        sandbox = one.client.create(name="precious")["id"]
        ours, theirs = os.openpty()
        process = subprocess.Popen([one.cay, "down", "--state", one.state], env=one.env, stdin=theirs,
                                   stdout=theirs, stderr=theirs)
        os.close(theirs)
        text = b""
        while b"[y/N]" not in text:
            text += os.read(ours, 4096)
        assert b"precious" in text
        os.write(ours, answer.encode() + b"\n")
        assert process.wait(30 * tree.SLACK) == status
        os.close(ours)
        if status:
            assert one.client.get(sandbox)["state"] == "running"
        else:
            assert not one.pids()


def test_down_after_the_foreground_was_terminated():
    """TERM keeps the sandboxes for the next start; 'cay down' can end them, including the loop device."""
    before = census.take()
    one = Daemon()
    try:
        process = start_foreground(one)
        sandbox = one.client.create(name="left")["id"]
        one.client.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30 * tree.SLACK) == 0 and not one.pids()
        assert janitor.instances(one.state), "the sandbox is gone already: this test shows nothing"
        done = one.command("down", "--keep")
        assert done.returncode == 0 and "sandboxes are" in done.stderr, done
        done = one.command("down", stdin=subprocess.DEVNULL)
        assert done.returncode == 7 and sandbox in done.stderr and "--yes" in done.stderr, done
        assert not one.pids() and janitor.instances(one.state), "as it was found"
        done = one.command("down", "--yes")
        assert done.returncode == 0 and "cay is down" in done.stderr, done
        assert not one.pids() and not janitor.instances(one.state)
        done = one.command("down")
        assert done.returncode == 0 and "not running" in done.stderr
        left = census.settle(before, states=[one.state])
        assert not left, "\n".join(left)
    finally:
        one.close()


def test_down_right_after_the_warden_died():
    """The daemon needs a warden to destroy sandboxes, so the supervisor still starts one."""
    before = census.take()
    one = Daemon()
    try:
        one.up()
        one.client.create()
        one.client.close()
        # The supervisor is informed about the death and the request at the same time.
        supervisor = one.kill("cay", signal.SIGSTOP)
        one.kill("cay-warden")
        down = subprocess.Popen([one.cay, "down", "--yes", "--state", one.state], env=one.env, text=True,
                                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        await_pending(supervisor, signal.SIGUSR1)
        os.kill(supervisor, signal.SIGCONT)
        text = down.communicate(timeout=120 * tree.SLACK)[1]
        assert down.returncode == 0 and "cay is down" in text, text
        assert not one.pids() and not janitor.instances(one.state)
        left = census.settle(before, states=[one.state])
        assert not left, "\n".join(left)
    finally:
        one.close()


def empty_group(place, home):
    """Whether the group could be removed. Children that the daemon made while it was inside leave, too; some just ended."""
    for pid in open(place + "/cgroup.procs", encoding="utf-8").read().split():
        with contextlib.suppress(ProcessLookupError):
            with open(home + "/cgroup.procs", "w", encoding="utf-8") as procs:
                procs.write(pid)
    with contextlib.suppress(OSError):
        os.rmdir(place)
    return not os.path.exists(place)


def test_down_leaves_daemons_of_systemd_alone():
    """systemd would restart them: the message names its commands. Only the group's name identifies them."""
    mounts = [line.split() for line in open("/proc/mounts", encoding="utf-8")]
    root = next((words[1] for words in mounts if words[2] == "cgroup2"), None)
    if not root:
        pytest.skip("no hierarchy of version 2")
    with Daemon() as one:
        sandbox = one.client.create()["id"]
        slice_dir = f"{root}/cay-test-{os.path.basename(one.state)}"
        home = root + re.search(r"^0::(/.*)$", open(f"/proc/{one.pids()['cayd']}/cgroup", encoding="utf-8").read(), re.M)[1]
        for name, unit in (("cayd", "cayd.service"), ("cay-warden", "cay-warden.service")):
            pids, place = one.pids(), f"{slice_dir}/{unit}"
            os.makedirs(place)
            try:
                open(place + "/cgroup.procs", "w", encoding="utf-8").write(str(pids[name]))
                for words in (["--yes"], ["--keep"], []):
                    done = one.command("down", *words, stdin=subprocess.DEVNULL)
                    assert done.returncode == 7 and f"{name} is run by systemd ({unit})" in done.stderr, done
                    assert "systemctl stop cayd cay-warden" in done.stderr
                    assert "systemctl stop cayd cay-sandboxes" in done.stderr
                assert one.pids() == pids and one.client.get(sandbox)["state"] == "running"
            finally:
                wait_for(lambda: empty_group(place, home))
                os.rmdir(slice_dir)
        assert one.command("down", "--yes").returncode == 0 and not one.pids()


def test_the_lock_belongs_to_the_daemons_user():
    """systemd starts cayd as that user, 'cay up' as root: each can take over the state directory of the other."""
    user = pwd.getpwnam("cay").pw_uid
    with Daemon() as one:
        path = os.path.join(one.state, "cayd.lock")
        assert os.stat(path).st_uid == user
        for owner in (0, user):
            one.down()
            os.chown(path, owner, -1)
            one.up()
            assert os.stat(path).st_uid == user and one.command("status").returncode == 0


def test_foreground_on_a_port_in_use_ends_with_the_reason():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        one = Daemon()
        try:
            done = subprocess.run([one.cay, "up", "--foreground", "--state", one.state, "--templates", TEMPLATES,
                                   "--listen", address], capture_output=True, text=True, env=one.env,
                                  timeout=40 * tree.SLACK, stdin=subprocess.DEVNULL)
            assert done.returncode == 8, done
            assert done.stderr.count(f"cannot listen on {address}: Address already in use") == 1, done.stderr
            assert "ss -ltnp" in done.stderr and "--listen" in done.stderr
            assert not one.pids()
        finally:
            one.close()


def test_down_on_an_address_that_is_not_loopback():
    """The daemon knows its own address; other names are still refused."""
    address = "192.0.2.77"
    if subprocess.run(["ip", "addr", "add", address + "/32", "dev", "lo"], capture_output=True).returncode:
        pytest.skip("no address can be added here")
    try:
        with Daemon(args=["--listen", address + ":0"]) as one:
            assert one.url.startswith(f"http://{address}:")
            one.client.create()
            assert one.command("status").returncode == 0
            assert one.client.raw("GET", "/healthz", headers={"Host": "evil.example"})[0] == 421
            assert one.client.raw("GET", "/healthz", headers={"Host": "192.0.2.78"})[0] == 421
            assert one.command("down", "--yes").returncode == 0
            assert not one.pids()
    finally:
        subprocess.run(["ip", "addr", "del", address + "/32", "dev", "lo"], check=True)
