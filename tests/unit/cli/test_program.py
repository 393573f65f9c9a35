# SPDX-License-Identifier: Apache-2.0
"""The program itself: against a scripted daemon, and its supervisor with scripted programs."""
import base64
import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import scripted  # noqa: E402

CAY = os.environ.get("CAY", os.path.join(HERE, "../../../build/src/cli/cay"))
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="'cay up' needs root")


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CAY_")}
    env.update(more)
    return env


def cay(*args, env=None, stdin=b"", timeout=60):
    return subprocess.run([CAY, *args], input=stdin, capture_output=True, timeout=timeout,
                          env=environment(**(env or {})))


@pytest.fixture
def daemon():
    d = scripted.Daemon()
    d.env = {"CAY_URL": d.url, "CAY_API_KEY": scripted.KEY}
    d.cay = lambda *args, **kw: cay(*args, env=d.env, **kw)
    yield d
    d.stop()


# Finding the daemon

def test_no_daemon_says_how_to_start_it():
    r = cay("ls", "--url", "http://127.0.0.1:1")
    assert r.returncode == 8
    assert r.stderr.decode() == ("cay: the daemon is not running (http://127.0.0.1:1)\n"
                                 "hint: Start it with: cay up\n")


def test_no_daemon_in_json():
    r = cay("--json", "ls", "--url", "http://127.0.0.1:1")
    assert r.returncode == 8
    assert json.loads(r.stderr)["error"]["code"] == "unavailable"
    assert r.stdout == b""


def test_state_directory_gives_address_and_key(daemon, tmp_path):
    (tmp_path / "url").write_text(daemon.url + "\n")
    (tmp_path / "admin.key").write_text(scripted.KEY + "\n")
    assert cay("ls", "--state", str(tmp_path)).returncode == 0
    assert cay("ls", env={"CAY_STATE": str(tmp_path)}).returncode == 0
    # A flag overrides the environment.
    r = cay("ls", "--state", str(tmp_path), env={"CAY_URL": "http://127.0.0.1:1"})
    assert r.returncode == 0
    # And the environment the directory.
    r = cay("ls", env={"CAY_STATE": str(tmp_path), "CAY_URL": "http://127.0.0.1:1"})
    assert r.returncode == 8


def test_state_without_daemon(tmp_path):
    r = cay("ls", "--state", str(tmp_path))
    assert r.returncode == 8
    assert b"cay up --state " + str(tmp_path).encode() in r.stderr


def test_wrong_key(daemon):
    r = daemon.cay("ls", "--key", "cay_wrong")
    assert r.returncode == 4
    # The hint is this program's own: the daemon's speaks of headers.
    assert r.stderr.startswith(b"cay: a key is needed\nhint: Pass a key with --key or CAY_API_KEY")


# Sandboxes

def test_create_ls_info_rm(daemon):
    made = daemon.cay("create", "--name", "web", "--memory", "1536", "--metadata", "a=b")
    assert made.returncode == 0
    name = made.stdout.decode().strip()
    for _ in range(4):
        daemon.cay("create")
    r = daemon.cay("ls")
    lines = r.stdout.decode().splitlines()
    assert lines[0].split() == ["ID", "NAME", "STATE", "TEMPLATE", "ENGINE", "AGE", "EXPIRES",
                                "CPU", "MEMORY"]
    assert len(lines) == 6, "all pages are followed"
    assert lines[1].split()[:4] == [name, "web", "running", "base"]
    assert lines[1].endswith("1.5 GB")
    assert b"\033" not in r.stdout
    listed = json.loads(daemon.cay("ls", "--json").stdout)
    assert len(listed["data"]) == 5 and listed["next_cursor"] is None
    assert daemon.cay("ls", "-q").stdout.decode().split() == sorted(daemon.sandboxes)
    info = daemon.cay("info", "web").stdout.decode()
    assert "memory_mb" in info and "1536" in info
    assert json.loads(daemon.cay("info", "web", "--json").stdout)["id"] == name
    assert daemon.cay("rm", "web").stdout == b"web\n"
    assert len(daemon.sandboxes) == 4
    assert daemon.cay("rm", "--all").returncode == 0
    assert daemon.sandboxes == {}
    empty = daemon.cay("ls")
    assert empty.stdout == b"" and b"no sandboxes" in empty.stderr


@pytest.mark.parametrize("args,status,code", [
    (("info", "nosuch"), 3, "sandbox_not_found"),
    (("create", "--name", "taken"), 7, "conflict"),
    (("create", "--name", "quota"), 6, "quota_exceeded"),
    (("info", "a/../../keys"), 3, "sandbox_not_found"),
])
def test_refusals(daemon, args, status, code):
    r = daemon.cay(*args)
    assert r.returncode == status
    assert r.stderr.startswith(b"cay: ") and b"\nhint: " in r.stderr
    r = daemon.cay("--json", *args)
    assert r.returncode == status
    answer = json.loads(r.stderr)
    assert answer["error"]["code"] == code and answer["error"]["request_id"] == "r1"


def test_abbreviated_ids(daemon):
    for _ in range(12):
        daemon.cay("create")
    ids = sorted(daemon.sandboxes)
    r = daemon.cay("info", "sandbox00")
    assert r.returncode == 3 and r.stderr.startswith(b"cay: 12 ids begin with 'sandbox00': ")
    listed = [i for i in ids if i.encode() in r.stderr]
    assert len(listed) == 5 and b", ..." in r.stderr, "some of them"
    assert daemon.cay("rm", "sandbox00").returncode == 3 and len(daemon.sandboxes) == 12
    assert json.loads(daemon.cay("--json", "info", "sandbox00").stderr)["error"]["code"] == "sandbox_not_found"
    # A whole id or name costs no second call; an abbreviated id is looked up once.
    daemon.calls.clear()
    daemon.cay("info", ids[0])
    assert len(daemon.calls) == 1
    del daemon.sandboxes[ids[10]], daemon.sandboxes[ids[11]]
    short = ids[9][:-1]
    daemon.calls.clear()
    assert daemon.cay("rm", short, short).returncode == 3, "the second time it is gone"
    assert sorted(daemon.sandboxes) == ids[:9]
    assert [c[1] for c in daemon.calls if c[0] == "DELETE"] == ["/v1/sandboxes/" + i for i in (short, ids[9], ids[9])]


def test_rm_continues_after_a_failure(daemon):
    one = daemon.cay("create").stdout.decode().strip()
    r = daemon.cay("rm", "nosuch", one)
    assert r.returncode == 3
    assert daemon.sandboxes == {}
    assert daemon.cay("rm").returncode == 2
    assert daemon.cay("rm", "--all", "x").returncode == 2


def test_hostile_names_do_not_drive_the_terminal(daemon):
    daemon.make({"name": "a\033]0;x\007b\u009b31m"})
    r = daemon.cay("ls", "--color", "never")
    assert b"\033" not in r.stdout and b"\007" not in r.stdout and b"\xc2\x9b" not in r.stdout


# Commands

def test_exec_passes_bytes_and_status(daemon):
    daemon.cay("create", "--name", "web")
    daemon.exec_result = dict(daemon.exec_result, stdout="", stderr="oops\n", exit_code=7,
                              stdout_b64=base64.b64encode(bytes(range(256))).decode())
    r = daemon.cay("exec", "web", "-u", "root", "-e", "A=1", "--cwd", "/tmp", "--", "cat", "--json",
                   stdin=b"\0\xff" * 10)
    assert (r.stdout, r.stderr, r.returncode) == (bytes(range(256)), b"oops\n", 7)
    assert daemon.calls[-2][2] == {"argv": ["cat", "--json"], "user": "root", "cwd": "/tmp", "env": {"A": "1"},
                                   "stdin_open": False, "hold": True, "timeout_sec": 120}
    assert daemon.calls[-2][1].endswith("/processes")
    assert daemon.calls[-1][1].endswith("/processes/1/attach?hold=true&ack=true&cursor=0:0")


def test_exec_json_is_the_whole_answer(daemon):
    daemon.cay("create", "--name", "web")
    daemon.exec_result = dict(daemon.exec_result, stdout="x", exit_code=3)
    r = daemon.cay("--json", "exec", "web", "--", "true")
    assert r.returncode == 3 and json.loads(r.stdout)["stdout"] == "x"
    assert daemon.calls[-1][1].endswith("/exec")


@pytest.mark.parametrize("result,status", [
    ({"signal": "SIGKILL", "exit_code": None}, 137),
    ({"timed_out": True, "exit_code": 124}, 124),
    ({"exit_code": 255}, 255),
])
def test_exec_status(daemon, result, status):
    daemon.cay("create", "--name", "web")
    daemon.exec_result = dict(daemon.exec_result, **result)
    assert daemon.cay("exec", "web", "-c", "true; false").returncode == status
    assert daemon.calls[-2][2] == {"command": "true; false", "stdin_open": False, "hold": True, "timeout_sec": 120}


def test_exec_refuses_too_much_input(daemon):
    """If it is sent in one piece."""
    daemon.cay("create", "--name", "web")
    assert daemon.cay("exec", "-i", "--json", "web", "--", "cat", stdin=b"x" * (1 << 20)).returncode == 0
    assert base64.b64decode(daemon.calls[-1][2]["stdin_b64"]) == b"x" * (1 << 20)
    r = daemon.cay("exec", "-i", "--json", "web", "--", "cat", stdin=b"x" * ((1 << 20) + 1))
    assert r.returncode == 125 and b"longer than" in r.stderr
    assert daemon.cay("exec", "-d", "-i", "web", "--", "cat", stdin=b"abc").returncode == 0
    assert daemon.calls[-1][2]["stdin_b64"] == base64.b64encode(b"abc").decode()


def test_run_removes_what_it_made(daemon):
    daemon.exec_result = dict(daemon.exec_result, stdout="42\n", exit_code=3)
    r = daemon.cay("run", "--memory", "256", "--", "python3", "-c", "print(42)")
    assert (r.stdout, r.stderr, r.returncode) == (b"42\n", b"", 3)
    assert daemon.sandboxes == {}
    assert [c[0] for c in daemon.calls] == ["POST", "POST", "GET", "DELETE"]
    assert daemon.calls[0][2] == {"memory_mb": 256}


def test_run_keep(daemon):
    r = daemon.cay("run", "--keep", "true")
    assert r.returncode == 0 and len(daemon.sandboxes) == 1
    assert list(daemon.sandboxes)[0].encode() in r.stderr


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_run_interrupted(daemon, signum):
    daemon.exec_delay = 30
    p = subprocess.Popen([CAY, "run", "sleep", "30"], env=environment(**daemon.env),
                         stdin=subprocess.DEVNULL)
    while not any("/attach" in c[1] for c in daemon.calls):
        time.sleep(0.01)
    start = time.monotonic()
    p.send_signal(signum)
    assert p.wait(30) == 128 + signum
    assert time.monotonic() - start < 20
    assert daemon.sandboxes == {}


def test_version_and_status(daemon):
    assert daemon.cay("version").stdout.decode().split() == [
        "client", "0.1.0", "server", "0.1.0", "(%s)" % daemon.url]
    assert b"not running" in cay("version", "--url", "http://127.0.0.1:1").stdout
    daemon.cay("create")
    status = daemon.cay("status").stdout.decode()
    assert "running" in status and "1 (1 running)" in status and "native: namespaces" in status
    assert json.loads(daemon.cay("status", "--json").stdout)["sandboxes"]["total"] == 1


# Help, completion, manual

def test_help_of_every_command():
    overview = cay("help").stdout.decode()
    for name in ("up", "down", "template build", "key create", "completion"):
        assert "\n  %s " % name in overview
        r = cay(*name.split(), "--help")
        assert r.returncode == 0 and b"Usage: cay " + name.encode() in r.stdout
    assert cay().returncode == 2
    assert max(map(len, overview.splitlines())) <= 90


def test_bash_completion(tmp_path, daemon):
    script = tmp_path / "cay.bash"
    script.write_bytes(cay("completion", "bash").stdout)
    daemon.cay("create", "--name", "web")
    os.symlink(CAY, tmp_path / "cay")

    def complete(*words):
        words = " ".join("'%s'" % w for w in words)
        r = subprocess.run(
            ["bash", "-c", "source %s; COMP_WORDS=(cay %s); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); "
             "compopt() { :; }; _cay; printf '%%s\\n' \"${COMPREPLY[@]}\"" % (script, words)],
            capture_output=True, env=environment(PATH="%s:/usr/bin:/bin" % tmp_path, **daemon.env))
        assert r.stderr == b""
        return r.stdout.decode().split()

    assert complete("st") == ["status"]
    assert complete("template", "") == ["ls", "build", "rm", "info"]
    assert complete("run", "--mem") == ["--memory"]
    assert complete("exec", "we") == ["web"]
    assert complete("help", "do") == ["down", "doctor"]
    daemon.cay("exec", "-d", "--name", "server", "web", "--", "x")
    assert complete("logs", "we") == ["web"]
    assert complete("logs", "-f", "web", "") == ["server", "1"]
    assert complete("kill", "web", "se") == ["server"]


def test_manual_is_clean_roff():
    r = cay("help", "--man")
    assert r.returncode == 0 and b".SH EXIT STATUS" in r.stdout
    groff = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8"], input=r.stdout,
                           capture_output=True)
    assert groff.stderr == b""


def test_doctor():
    r = cay("doctor", "--json")
    report = json.loads(r.stdout)
    assert {c["level"] for c in report["checks"]} <= {"ok", "warn", "fail"}
    assert r.returncode == (8 if report["fail"] else 0)
    assert all(c["next"] for c in report["checks"] if c["level"] != "ok")


def storage_row(state, **env):
    r = subprocess.run([CAY, "doctor", "--json", "--state", str(state)], env=environment(**env), capture_output=True)
    rows = {c["name"]: c for c in json.loads(r.stdout)["checks"] if c["group"] == "Storage"}
    assert {"overlayfs", "btrfs", "loop devices", "mkfs.btrfs", "storage"} == set(rows)
    return rows["storage"]["level"], rows["storage"]["detail"], rows["storage"]["next"]


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has the local engine")
def test_doctor_says_which_storage(tmp_path):
    level, detail, more = storage_row(tmp_path, CAY_STORAGE="directory")
    assert (level, detail) == ("warn", "plain directories (storage = directory)")
    assert "disk_limit: unenforced" in more and "Snapshots" in more
    settings = tmp_path / "cay.conf"
    settings.write_text("storage = directory\n")
    assert storage_row(tmp_path, CAY_CONFIG=str(settings))[0] == "warn", "the file is read too"
    (tmp_path / "volumes").mkdir()
    empty = storage_row(tmp_path)
    assert "began with" not in empty[1], "an empty directory decides nothing"
    (tmp_path / "volumes/v1").mkdir()
    assert storage_row(tmp_path)[:2] == ("warn", "plain directories (the state directory began with them)")
    (tmp_path / "pool.btrfs").touch()
    assert storage_row(tmp_path, CAY_STORAGE="directory")[0] == "fail", "the warden refuses, too"
    level, detail, _ = storage_row(tmp_path)
    assert level in ("ok", "fail") and "btrfs pool" in detail and "new" not in detail


def test_colors_on_a_terminal_only(daemon):
    daemon.cay("create")
    master, slave = pty.openpty()
    p = subprocess.Popen([CAY, "ls"], stdout=slave, env=environment(TERM="xterm", **daemon.env))
    assert p.wait(10) == 0
    os.close(slave)
    assert b"\033[32mrunning\033[0m" in os.read(master, 65536)
    os.close(master)


# The supervisor

@pytest.fixture
def house(tmp_path):
    """A state directory and a libexec directory full of scripted programs."""
    libexec = tmp_path / "libexec"
    libexec.mkdir()
    for name in ("cayd", "cay-warden", "cay-agent", "cay-tools", "cay-build"):
        program = libexec / name
        program.write_text(
            "#!/usr/bin/python3\nimport sys\nsys.path.insert(0, %r)\n"
            "import scripted\nscripted.play(%r)\n" % (HERE, name))
        program.chmod(0o755)
    tmp_path.chmod(0o755)
    state = tmp_path / "state"

    class House:
        pass

    h = House()
    h.state = state
    h.env = {"CAY_LIBEXEC": str(libexec), "CAY_TEMPLATES": str(tmp_path / "templates")}
    h.cay = lambda *args, **kw: cay(*args, "--state", str(state), env=h.env, **kw)

    def pid(name):
        """'cay up' waits only for cayd; the scripted warden may still be starting."""
        found = []
        until(lambda: found.append(int((state / (name + ".lock")).read_text())) or True)
        return found[0]
    h.pid = pid
    yield h
    h.cay("down", "--yes")
    for name in ("supervisor", "cayd", "warden"):
        lock = state / (name + ".lock")
        if lock.exists() and lock.read_text():  # a program that was killed may not have written its pid
            assert not alive(h.pid(name)), name


def alive(pid):
    try:
        os.kill(pid, 0)
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(") ", 1)[1][0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def until(check, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if check():
                return
        except (FileNotFoundError, ValueError):
            pass
        time.sleep(0.02)
    raise AssertionError("has not happened within %d s" % seconds)


@root_only
def test_up_and_down(house):
    r = house.cay("up", "--listen", "127.0.0.1:0")
    assert r.returncode == 0, r.stderr
    assert b"cay is up at http://127.0.0.1:" in r.stdout and b"admin.key" in r.stdout
    assert house.cay("status").returncode == 0
    pids = [house.pid(n) for n in ("supervisor", "cayd", "warden")]
    again = house.cay("up")
    assert again.returncode == 0 and b"already up" in again.stdout
    assert pids == [house.pid(n) for n in ("supervisor", "cayd", "warden")]
    r = house.cay("down")
    assert r.returncode == 0 and b"cay is down" in r.stderr
    assert not any(map(alive, pids))
    assert not (house.state / "url").exists()
    seen = json.loads((house.state / "seen.json").read_text())
    assert ["POST", "/v1/admin/shutdown", {"destroy": True}] in seen
    r = house.cay("down")
    assert r.returncode == 0 and b"not running" in r.stderr
    log = (house.state / "logs/warden.log").read_text()
    assert "--agent" in log and "--user cay" in log and "cay-warden ends" in log


@root_only
def test_either_program_is_restarted(house):
    assert house.cay("up", "--listen", "127.0.0.1:0").returncode == 0
    url = (house.state / "url").read_text()
    for name in ("cayd", "warden"):
        old = house.pid(name)
        os.kill(old, signal.SIGKILL)
        until(lambda: house.pid(name) != old and alive(house.pid(name)))
    until(lambda: house.cay("status").returncode == 0)
    assert (house.state / "url").read_text() == url, "the port that was picked stays"


@root_only
def test_a_new_supervisor_takes_over(house):
    assert house.cay("up").returncode == 0
    before = [house.pid(n) for n in ("cayd", "warden")]
    os.kill(house.pid("supervisor"), signal.SIGKILL)
    until(lambda: not alive(house.pid("supervisor")))
    assert house.cay("status").returncode == 0, "the programs outlive their supervisor"
    assert house.cay("up").returncode == 0
    assert before == [house.pid(n) for n in ("cayd", "warden")]
    # It watches what it did not start, too.
    os.kill(before[0], signal.SIGKILL)
    until(lambda: house.pid("cayd") != before[0] and alive(house.pid("cayd")))
    assert "already running" in (house.state / "logs/supervisor.log").read_text()


@root_only
def test_down_keep(house):
    assert house.cay("up").returncode == 0
    r = house.cay("down", "--keep")
    assert r.returncode == 0 and b"still running" in r.stderr
    seen = json.loads((house.state / "seen.json").read_text())
    assert ["POST", "/v1/admin/shutdown", {"destroy": False}] in seen


@root_only
def test_down_without_daemon(house):
    assert house.cay("up").returncode == 0
    (house.state / "refuse-cayd").write_text("")
    os.kill(house.pid("cayd"), signal.SIGKILL)
    pids = [house.pid(n) for n in ("supervisor", "warden")]
    time.sleep(0.3)
    r = house.cay("down")
    assert r.returncode == 8
    assert b"not every sandbox was destroyed" in r.stderr and b"cay up --state" in r.stderr
    assert not any(map(alive, pids))


@root_only
def test_down_without_supervisor(house):
    assert house.cay("up").returncode == 0
    pids = [house.pid(n) for n in ("cayd", "warden")]
    os.kill(house.pid("supervisor"), signal.SIGKILL)
    assert house.cay("down").returncode == 0
    assert not any(map(alive, pids))


@root_only
def test_up_that_fails_leaves_nothing(house):
    house.state.mkdir()
    (house.state / "refuse-cayd").write_text("")
    r = house.cay("up")
    assert r.returncode == 8
    assert b"address already in use" in r.stderr and b"cayd did not start" in r.stderr
    assert not alive(house.pid("supervisor")) and not alive(house.pid("warden"))


@root_only
def test_up_builds_the_missing_template(house):
    house.state.mkdir()
    (house.state / "no-template").write_text("")
    r = house.cay("up", "--no-build")
    assert r.returncode == 0 and b"building" not in r.stderr
    assert house.cay("down").returncode == 0
    r = house.cay("up")
    assert r.returncode == 0
    assert r.stderr.count(b"step 1\n") == 1 and b"step 2\n" in r.stderr
    assert b"built template base" in r.stderr


@root_only
def test_foreground(house):
    p = subprocess.Popen([CAY, "up", "--foreground", "--state", str(house.state)],
                         env=environment(**house.env), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    assert p.stdout.readline().startswith(b"cay is up at ")
    pids = [house.pid(n) for n in ("supervisor", "cayd", "warden")]
    assert pids[0] == p.pid
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == 0
    log = p.stderr.read()
    assert b"cayd ends" in log and log.index(b"cayd ends") < log.index(b"cay-warden ends")
    assert not any(map(alive, pids))


@root_only
def test_following_a_build_of_another_client(house):
    assert house.cay("up").returncode == 0
    house.cay("template", "build", "base")
    r = house.cay("template", "build", "base")
    assert r.returncode == 0
    r = house.cay("template", "build", "busy")
    assert r.returncode == 0 and b"following it" in r.stderr


@root_only
def test_two_at_once(house, tmp_path):
    other = str(tmp_path / "other")
    assert house.cay("up").returncode == 0
    assert cay("up", "--state", other, env=house.env).returncode == 0
    assert (tmp_path / "other/url").read_text() != (house.state / "url").read_text()
    assert cay("down", "--state", other, env=house.env).returncode == 0
    assert house.cay("status").returncode == 0


@root_only
def test_concurrent_ups(house):
    runs = [subprocess.Popen([CAY, "up", "-q", "--state", str(house.state)],
                             env=environment(**house.env), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE) for _ in range(4)]
    out = [p.communicate(timeout=60) for p in runs]
    assert [p.returncode for p in runs] == [0] * 4, out
    assert len({o[0] for o in out}) == 1
