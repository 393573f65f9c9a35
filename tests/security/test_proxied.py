# SPDX-License-Identifier: Apache-2.0
"""Egress over the link: sandboxes without any network reach the world through their agent's proxy, and the daemon
decides. The local engine, each agent in a net namespace that has only loopback, in a test world."""

import json
import pathlib
import shutil
import tempfile
import uuid

import pytest

from lib import tree, world
from lib.certs import Authority
from lib.daemon import Daemon
from lib.launcher import Launcher
from lib.world import EVIL, World
from test_broker import HOST, PORT, Server

VALUE = f"brokered-{uuid.uuid4().hex}-value"
CURL = "curl -sS -m 30"


@pytest.fixture(scope="module")
def net():
    place = pathlib.Path(tempfile.mkdtemp(prefix="cay-proxied-", dir="/var/tmp"))
    place.chmod(0o755)
    launcher = Launcher(tree.program("cay-agent"))
    server = None
    try:
        ca = Authority(place)
        with World() as outside:
            server = Server(outside, place, ca, HOST, world.GOOD, PORT)
            env = {"CAY_DNS_UPSTREAM": world.DNS, "CAY_EGRESS_CA_FILE": ca.cert, "CAY_AGENT": str(launcher.stub),
                   "CAY_ENGINE_LOCAL_PROXIED": "true"}
            with Daemon(args=["--engine-local"], env=env) as daemon:
                outside.daemon, outside.good = daemon, server
                daemon.client.call("POST", "/v1/secrets", {"name": "TOKEN", "value": VALUE, "hosts": [f"{HOST}:{PORT}"]})
                yield outside
    finally:
        if server:
            server.stop()
        launcher.close()
        shutil.rmtree(place)


@pytest.fixture
def box(net):
    network = {"mode": "restricted", "allow": ["allowed.test", "*.allowed.test"]}
    with net.daemon.client.sandbox(engine="local", network=network, timeout_sec=3600,
                                   secrets=[{"name": "TOKEN", "as": "broker"}]) as box:
        yield box


def denied(box, **match):
    rows = box.client.call("GET", f"/v1/sandboxes/{box.id}/denials")["data"]
    return [row for row in rows if all(row[k] == v for k, v in match.items())]


def test_capability(net):
    engines = {e["name"]: e["capabilities"]["network"] for e in net.daemon.client.options()["engines"]}
    assert engines["local"] == "proxied" and engines["native"] == "transparent"


def test_variables_and_no_other_way(box):
    out = box.exec("env | grep -i _proxy | sort").stdout
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        assert f"{name}=http://127.0.0.1:3128\n" in out
    assert "no_proxy=localhost,127.0.0.1,::1\n" in out and "NO_PROXY=" in out
    kept = box.exec("env | grep -i http_proxy", env={"HTTP_PROXY": "http://mine"}).stdout
    assert kept == "HTTP_PROXY=http://mine\n"
    assert box.exec(f"{CURL} --noproxy '*' http://{world.GOOD}/").exit_code != 0


def test_absolute_form(net, box):
    assert box.exec(f"{CURL} -o /dev/null -w '%{{http_code}}' http://allowed.test/one").stdout == "200"
    done = box.exec(f"{CURL} -w '\\n%{{http_code}}' http://evil.test/two")
    body, code = done.stdout.rsplit("\n", 1)
    error = json.loads(body)["error"]
    assert code == "403" and error["code"] == "egress_denied" and error["host"] == "evil.test"
    assert error["hint"] == f"cay net allow {box.id} evil.test:80"
    row = denied(box, host="evil.test", port=80)[0]
    assert (row["reason"], row["protocol"], row["count"]) == ("not_allowed", "http", 1)
    assert not net.seen("dns", name="evil.test") and not net.seen("http", host="evil.test")
    # Another host on the same client connection is another decision.
    both = box.exec(f"{CURL} -o /dev/null -o /dev/null -w '%{{http_code}} ' http://allowed.test/a http://evil.test/b")
    assert both.stdout == "200 403 "


def test_connect(net, box):
    assert box.exec(f"{CURL} -k -o /dev/null -w '%{{http_code}}' https://allowed.test/").stdout == "200"
    done = box.exec(f"{CURL} -k -v https://evil.test/")
    assert done.exit_code != 0 and "403" in done.stderr
    assert denied(box, host="evil.test", port=443)[0]["reason"] == "not_allowed"
    # An allowed name in CONNECT does not allow another name inside the connection.
    lie = box.exec(f"{CURL} -k --connect-to evil.test:443:allowed.test:443 https://evil.test/")
    assert lie.exit_code != 0 or json.loads(lie.stdout)["error"]["code"] == "egress_denied"
    assert denied(box, host="evil.test", port=443)[0]["count"] == 2


def test_socks(net, box):
    socks = "--proxy socks5h://127.0.0.1:3128"
    assert box.exec(f"{CURL} {socks} -o /dev/null -w '%{{http_code}}' http://allowed.test/").stdout == "200"
    assert box.exec(f"{CURL} {socks} -k -o /dev/null -w '%{{http_code}}' https://allowed.test/").stdout == "200"
    assert box.exec(f"{CURL} {socks} http://evil.test/").exit_code == 97  # refused by the proxy
    assert box.exec(f"{CURL} --proxy socks5://127.0.0.1:3128 http://{EVIL}/").exit_code == 97


def test_private_and_rebound(box):
    for name in ("rebind.allowed.test", "meta.allowed.test", "loop.allowed.test", "host.allowed.test"):
        assert box.exec(f"{CURL} -o /dev/null -w '%{{http_code}}' http://{name}/").stdout in ("403", "502")
    for address in ("127.0.0.1", world.PRIVATE, world.METADATA, world.HOST):
        done = box.exec(f"{CURL} --noproxy '' -o /dev/null -w '%{{http_code}}' http://{address}/")
        assert done.stdout == "403", address


def test_broker(net, box):
    assert VALUE not in box.exec("echo $TOKEN").stdout
    # -k: an engine that shares the host's files has no trust store for the sandbox's own authority.
    box.exec(f'{CURL} -k -H "Authorization: Bearer $TOKEN" https://{HOST}:{PORT}/x').ok()
    assert net.good.last()["authorization"] == f"Bearer {VALUE}"


def test_policy_changes_while_running(box):
    code = f"{CURL} -o /dev/null -w '%{{http_code}}'"
    box.client.call("PATCH", f"/v1/sandboxes/{box.id}", {"network": {"mode": "none"}})
    assert box.exec(f"{code} http://allowed.test/").stdout == "403"
    box.client.call("PATCH", f"/v1/sandboxes/{box.id}", {"network": {"mode": "full"}})
    assert box.exec(f"{code} http://evil.test/").stdout == "200"


def test_nonsense(net, box):
    out = box.exec("""python3 - <<'END'
import socket
for words in (b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n", b"CONNECT nowhere HTTP/1.1\\r\\n\\r\\n", b"\\x04\\x01", b"\\x05\\x01\\x02",
              b"\\x05\\x01\\x00\\x05\\x02\\x00\\x01\\x01\\x02\\x03\\x04\\x00\\x50", b"GET http://" + b"a" * 9000):
    s = socket.create_connection(("127.0.0.1", 3128))
    s.settimeout(20)
    s.sendall(words)
    got = b""
    try:
        while (piece := s.recv(4096)):
            got += piece
    except ConnectionError:
        pass
    print(got[:24])
END""").ok().stdout.splitlines()
    assert out[0].startswith("b'HTTP/1.1 400") and out[1].startswith("b'HTTP/1.1 400")
    assert out[3] == "b'\\x05\\xff'" and out[4].startswith("b'\\x05\\x00\\x05\\x07")
    assert box.exec(f"{CURL} -o /dev/null -w '%{{http_code}}' http://allowed.test/").stdout == "200"


def test_daemon_restarted(net, box):
    net.daemon.kill("cayd")
    net.daemon.wait_ready(30)
    assert box.exec(f"{CURL} --retry 3 --retry-all-errors -o /dev/null -w '%{{http_code}}' http://allowed.test/").stdout == "200"
