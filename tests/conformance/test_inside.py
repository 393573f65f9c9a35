# SPDX-License-Identifier: Apache-2.0
"""What a user finds inside: tools, users, effective limits."""

import pytest

from lib.client import ApiError

LIMITS = {"memory_mb": 192, "disk_size_mb": 96}


@pytest.fixture(scope="module")
def small(api, engine):
    with api.sandbox(engine=engine, timeout_sec=600, **LIMITS) as sandbox:
        yield sandbox


@pytest.mark.parametrize("command,expect", [
    ("python3 -c 'print(6*7)'", "42"), ("node -e 'console.log(6*7)'", "42"),
    ("gcc --version | head -1", "gcc"), ("git --version", "git version"), ("pip --version", "pip"),
    ("curl --version | head -1", "curl"), ("make --version | head -1", "GNU Make"),
    ("npm --version", "."), ("ps --version", "procps"), ("sudo --version | head -1", "Sudo"),
    ("which python3", "/opt/venv/bin/python3"), ("echo $SHELL; bash --version | head -1", "bash"),
    ("ls /etc/ssl/certs/ca-certificates.crt", "ca-certificates"),
])
def test_tools_of_base(shared, needs, command, expect):
    needs("isolat")  # the local engine has the host's tools
    assert expect in shared.exec(command).ok().stdout


def test_venv_is_writable(shared, needs):
    needs("isolat")
    shared.exec("touch /opt/venv/x && rm /opt/venv/x && python3 -c 'import sys; "
                "assert sys.prefix == \"/opt/venv\", sys.prefix'").ok()


def test_sudo(shared, needs):
    needs("isolat")
    for user in ("sandbox", "user"):
        assert shared.exec("sudo -n id -u", user=user).ok().stdout == "0\n"
    shared.exec("sudo -n sh -c 'echo x > /etc/cay-test && rm /etc/cay-test'").ok()


def test_dpkg_works(shared, needs):
    """Package managers change owners, groups and modes; they must work as root inside."""
    needs("isolat")
    shared.root("cd /tmp && mkdir -p p/DEBIAN p/opt/p && printf 'Package: cay-p\\nVersion: 1\\n"
                "Architecture: all\\nMaintainer: x <x@y>\\nDescription: x\\n' > p/DEBIAN/control && "
                "chown -R 33:33 p/opt && dpkg-deb --build p >/dev/null && dpkg -i p.deb && "
                "stat -c %u /opt/p && dpkg -r cay-p", timeout_sec=60).ok()


def test_workdir_and_hostname(shared, needs):
    needs("isolat")
    assert shared.exec("hostname; pwd; stat -c %U /workspace; getent hosts $(hostname) | wc -l") \
        .ok().stdout.split()[:3] == [shared.id, "/workspace", "sandbox"]


def test_memory_limit(small, needs):
    needs("memory")
    try:
        result = small.probe("bomb-mem", LIMITS["memory_mb"] * 2, timeout_sec=30)
        assert "mem.all" not in result.probe() and result.exit_code != 0, repr(result)
    except ApiError as error:
        assert error.code in ("sandbox_gone",), error
    row = small.wait_state(("running", "error"), 2)
    if row is None or row["state"] != "running":
        assert row and row["state_reason"] == "oom", f"an OOM death must be typed: {row}"


def test_memory_is_usable_up_to_the_limit(api, engine, needs):
    needs("memory")
    with api.sandbox(engine=engine, memory_mb=256) as sandbox:
        assert "mem.all" in sandbox.probe("bomb-mem", 200, timeout_sec=30).ok().probe()


def test_cpu_quota(api, engine, needs):
    needs("cpu")
    with api.sandbox(engine=engine, cpu_count=1) as sandbox:
        for _ in range(10):  # other processes may use the processors; the share is then smaller
            used = int(sandbox.probe("bomb-cpu", 4, 1000).ok().probe()["cpu_ms"].split(":")[1])
            assert used < 1350, f"{used} ms of CPU in one second with cpu_count 1"
            if used > 400:
                return
        pytest.fail(f"only {used} ms: the quota is too tight")


def test_half_a_cpu(api, engine, needs):
    needs("cpu")
    with api.sandbox(engine=engine, cpu_count=0.5) as sandbox:
        assert api.get(sandbox.id)["cpu_count"] == 0.5
        used = int(sandbox.probe("bomb-cpu", 4, 1000).ok().probe()["cpu_ms"].split(":")[1])
        assert used < 700, f"{used} ms of CPU in one second with cpu_count 0.5"


def test_pids_limit(api, engine, needs):
    needs("pids")
    with api.sandbox(engine=engine) as sandbox:
        lines = sandbox.probe("bomb-fork", 20000, timeout_sec=30).probe()
        assert lines["fork"] == "EAGAIN" and int(lines["forked"].split(":")[1]) >= 100, lines


def test_disk_limit(api, engine, needs):
    needs("disk")
    with api.sandbox(engine=engine, disk_size_mb=64) as sandbox:
        lines = sandbox.probe("bomb-disk", "/workspace/fill", 128, timeout_sec=60).probe()
        assert {"ENOSPC", "EDQUOT"} & set(lines.values()), lines
        assert 16 <= int(lines["written_mb"].split(":")[1]) <= 64, lines
        sandbox.exec("rm /workspace/fill; echo x > /workspace/y").ok()


def test_limits_differ_per_sandbox(api, engine, needs):
    """Also for pool members: the requested size is effective."""
    needs("disk")
    with api.sandbox(engine=engine, disk_size_mb=32) as one, \
            api.sandbox(engine=engine, disk_size_mb=128) as two:
        fill = ("bomb-disk", "/workspace/fill", 100)
        assert {"ENOSPC", "EDQUOT"} & set(one.probe(*fill, timeout_sec=60).probe().values())
        assert two.probe(*fill, timeout_sec=60).probe()["written_mb"] == "ok:100"


def test_loopback_server(shared):
    shared.exec("python3 - <<'E'\nimport socket,threading\ns=socket.socket();s.bind(('127.0.0.1',0));s.listen()\n"
                "c=socket.create_connection(s.getsockname());c.send(b'x')\n"
                "assert s.accept()[0].recv(1)==b'x'\nE").ok()


def test_locale_and_time(shared):
    assert shared.exec("date +%Y").stdout.strip().isdigit()
    shared.exec("python3 -c 'import os,time; assert abs(time.time()-os.stat(\"/proc/self\").st_mtime)<5'").ok()
