# SPDX-License-Identifier: Apache-2.0
"""Up and down, two daemons in parallel, one state directory for one daemon."""

import fcntl
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

import pytest

from lib import census, tree
from lib.daemon import Daemon, TEMPLATES


def test_down_leaves_the_host_clean():
    """With running sandboxes and commands, 'cay down' removes everything."""
    before = census.take()
    with Daemon() as one:
        for _ in range(4):
            sandbox = one.client.create()["id"]
            one.client.exec(sandbox, "nohup sleep 100 >/dev/null 2>&1 & echo x > /workspace/x")
        begin = time.monotonic()
        one.down()
        assert time.monotonic() - begin < 8 * tree.SLACK
        assert not one.pids()
        left = census.settle(before, states=[one.state])
        assert not left, "\n".join(left)
        assert one.down(check=False).returncode in (0, 3, 8), "a second down is no accident"


def test_down_keep_and_up_again():
    """--keep leaves the sandboxes running, the next up finds them."""
    with Daemon() as one:
        sandbox = one.client.create(timeout_sec=600)["id"]
        one.client.exec(sandbox, "echo kept > /workspace/x; nohup sleep 100 >/dev/null 2>&1 &")
        one.down("--keep")
        assert not one.pids()
        one.up()
        assert one.client.exec(sandbox, "cat /workspace/x; pgrep -c sleep").stdout == "kept\n1\n"


def test_two_daemons_side_by_side():
    before = census.take()
    with Daemon() as one, Daemon() as two:
        assert one.url != two.url and one.key != two.key
        a, b = one.client.create(), two.client.create()
        assert one.client.exec(a["id"], "echo 1").stdout == "1\n"
        assert two.client.exec(b["id"], "echo 2").stdout == "2\n"
        maps = [int(c.exec(s["id"], "cat /proc/self/uid_map").stdout.split()[1])
                for c, s in ((one.client, a), (two.client, b))]
        assert abs(maps[0] - maps[1]) >= 65536, "two daemons gave the same ids away"
        assert one.client.raw("GET", f"/v1/sandboxes/{b['id']}")[0] == 404
        assert two.client.raw("GET", f"/v1/sandboxes/{a['id']}")[0] == 404
        from lib.client import Client
        assert Client(two.url, one.key).raw("GET", "/v1/sandboxes")[0] == 401
        one.down()
        assert two.client.exec(b["id"], "echo still").stdout == "still\n", "one took the other down"
    assert not census.settle(before, states=[one.state, two.state])


def test_second_daemon_on_the_same_state_is_refused(daemon):
    """CRA-17: cayd and cay-warden started by hand on a state that is in use exit by themselves."""
    before = daemon.pids()
    for name, args in (("cayd", ["--listen", "127.0.0.1:0"]),
                       ("cay-warden", ["--agent", tree.program("cay-agent"), "--user", "cay"])):
        done = subprocess.run([tree.program(name), "--state", daemon.state, "--templates", TEMPLATES, *args],
                              capture_output=True, text=True, env=daemon.env, timeout=15)
        assert done.returncode != 0, name
    assert daemon.pids() == before
    assert daemon.client.healthz() == 200


def test_port_in_use_is_explained():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        one = Daemon()
        try:
            done = subprocess.run([one.cay, "up", "--state", one.state, "--templates", TEMPLATES,
                                   "--listen", f"127.0.0.1:{port}"], capture_output=True, text=True,
                                  env=one.env, timeout=40, stdin=subprocess.DEVNULL)
            assert done.returncode == 8
            assert done.stderr.count(f"cannot listen on 127.0.0.1:{port}") == 2, "in the log's end and the message"
            assert "--listen" in done.stderr.splitlines()[-2], done
        finally:
            one.close()


@pytest.mark.parametrize("mode", [[], ["--foreground"], ["--json"]], ids=["background", "foreground", "json"])
def test_wrong_settings_end_at_once(mode):
    """Not retried, named in the message, nothing left behind, the lock free for the next one."""
    one = Daemon()
    try:
        done = subprocess.run([one.cay, "up", *mode, "--state", one.state, "--templates", TEMPLATES,
                               "--listen", "nowhere"], capture_output=True, text=True, env=one.env,
                              timeout=40, stdin=subprocess.DEVNULL)
        assert done.returncode == 2, done
        assert "'nowhere' is not HOST:PORT" in done.stderr
        assert not one.pids()
        with open(f"{one.state}/supervisor.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if mode == ["--json"]:
            assert json.loads(done.stderr)["error"]["code"] == "invalid_request"
    finally:
        one.close()


def test_state_and_templates_from_the_file(tmp_path):
    """'cay up' and every other command read the file; the environment overrides it."""
    one = Daemon()
    try:
        file = tmp_path / "cay.conf"
        file.write_text(f"state = {one.state}\ntemplates = {TEMPLATES}\nlisten = 127.0.0.1:0\n")

        def cay(*words, **more):
            return subprocess.run([one.cay, *words], capture_output=True, text=True, timeout=60,
                                  env={**one.env, **more}, stdin=subprocess.DEVNULL)

        done = cay("up", "--json", "--config", str(file))
        assert done.returncode == 0 and json.loads(done.stdout)["state"] == one.state, done
        again = cay("up", "--config", str(file), "--listen", "127.0.0.1:1")
        assert again.returncode == 0 and "--listen has no effect" in again.stderr, again
        assert cay("ls", CAY_CONFIG=str(file)).returncode == 0
        assert cay("ls", CAY_CONFIG=str(file), CAY_STATE=str(tmp_path / "other")).returncode == 8
        assert cay("down", CAY_CONFIG=str(file)).returncode == 0
    finally:
        one.close()


def test_foreground_stops_on_ctrl_c():
    before = census.take()
    one = Daemon()
    try:
        process = subprocess.Popen([one.cay, "up", "--foreground", "--state", one.state, "--templates",
                                    TEMPLATES, "--listen", "127.0.0.1:0"], env=one.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        client = one.wait_ready(20)
        sandbox = client.create()["id"]
        assert client.exec(sandbox, "echo x").stdout == "x\n"
        client.close()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
        assert not one.pids()
    finally:
        one.close()
    assert not census.settle(before, states=[one.state])


def test_up_without_root():
    """The advice of a refused 'cay up' works: the local engine alone, without waiting for a warden."""
    one = Daemon()
    somebody = {"user": 1234, "group": 1234, "extra_groups": [], "env": one.env, "timeout": 60,
                "stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    try:
        os.chown(one.state, 1234, 1234)
        try:
            refused = subprocess.run([one.cay, "up", "--state", one.state], **somebody)
        except PermissionError:
            pytest.skip("the build directory is root's alone")
        assert refused.returncode == 5 and "--engine-local" in refused.stderr
        done = subprocess.run([one.cay, "up", "--engine-local", "--state", one.state, "--listen", "127.0.0.1:0"],
                              **somebody)
        assert done.returncode == 0 and "isolates nothing" in done.stdout, done
        done = subprocess.run([one.cay, "status", "--json", "--state", one.state], **somebody)
        assert [e["name"] for e in json.loads(done.stdout)["options"]["engines"]] == ["local"]
        assert subprocess.run([one.cay, "down", "--state", one.state], **somebody).returncode == 0
    finally:
        one.close()


def test_users_and_privileges_of_the_programs(daemon):
    """cayd is user cay, without capabilities, filtered, no_new_privs; it can dump no process of ours."""
    pids = daemon.pids()
    def status(name):
        with open(f"/proc/{pids[name]}/status") as f:
            return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    cayd, warden = status("cayd"), status("cay-warden")
    assert set(cayd["Uid"].split()) != {"0"} and "0" not in cayd["Uid"].split()
    assert "0" not in cayd["Gid"].split() and cayd["Groups"].strip() in ("", cayd["Gid"].split()[0])
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(cayd[name], 16) == 0 or name == "CapBnd", (name, cayd[name])
    assert cayd["NoNewPrivs"] == "1" and cayd["Seccomp"] == "2"
    assert int(warden["Threads"]) == 1 and int(warden["VmRSS"].split()[0]) < 8192 * tree.SLACK * 4
    socket_mode = os.stat(os.path.join(daemon.state, "warden.sock"))
    assert socket_mode.st_mode & 0o007 == 0, "others may talk to the warden"


def test_warden_refuses_strangers(daemon):
    """Only cayd's user may connect to the warden; invalid bytes close the connection, not the warden."""
    path = os.path.join(daemon.state, "warden.sock")
    pid = daemon.pids()["cay-warden"]
    script = ("import socket,sys\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\n"
              f"s.connect({path!r})\ns.send(b'x'*168)\ns.settimeout(2)\nprint(len(s.recv(4096)))")
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                           "/usr/bin/python3", "-c", script], capture_output=True, text=True, timeout=10)
    assert done.returncode != 0 or done.stdout.strip() == "0", done
    for size in (0, 1, 167, 168, 169, 65000):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            try:
                sock.connect(path)
                sock.send(os.urandom(size))
            except OSError:
                pass
    time.sleep(0.2)
    assert daemon.pids()["cay-warden"] == pid
    daemon.wait_ready()
    assert daemon.client.healthz() == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
def test_public_pages(daemon, path):
    from lib.client import Client
    status, _headers, data = Client(daemon.url, None).raw("GET", path)
    assert status == 200 and data


def test_openapi_is_complete(daemon):
    import json
    document = json.loads(daemon.client.raw("GET", "/openapi.json")[2])
    assert document["openapi"].startswith("3.")
    text = json.dumps(document["paths"])
    for word in ("sandboxes", "exec", "keys", "options"):
        assert word in text + json.dumps(list(document["paths"]))


def test_template_removed():
    """By the builder, as root, with all its versions."""
    daemon = Daemon(args=["--no-build"], env={"CAY_POOL": "false"})
    templates = pathlib.Path(daemon.state, "templates")
    daemon.args += ["--templates", str(templates)]
    for digit, version in (("a", 1), ("b", 2)):
        (templates / (digit * 64) / "tree" / "rootfs").mkdir(parents=True)
        (templates / (digit * 64) / "meta.json").write_text(json.dumps({"name": "mine", "version": version}))
    (templates / "refs").mkdir()
    (templates / "refs" / "mine").write_text("2 " + "b" * 64 + "\n")
    with daemon:
        done = daemon.command("template", "rm", "mine")
        assert (done.stdout, done.returncode) == ("mine\n", 0), done
        assert daemon.command("template", "rm", "mine").returncode == 3
        assert sorted(p.name for p in templates.iterdir()) == [".lock", "refs"]
        assert list((templates / "refs").iterdir()) == []
