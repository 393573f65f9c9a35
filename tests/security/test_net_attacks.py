# SPDX-License-Identifier: Apache-2.0
"""Attacks on the egress decision that name, or seem to name, an allowed host: what reaches a server outside is counted there."""

import struct
import time

import pytest

from lib.world import EVIL, GOOD
from test_net import PRELUDE, code, net, open_box  # noqa: F401

TLS_PORT = 443


@pytest.fixture(scope="module")
def box(net):
    with open_box(net, allow=["allowed.test", "*.allowed.test", *(f"allowed.test:{n}" for n in (2053, 2587, 9000))]) as sandbox:
        yield sandbox


# ---- the ClientHello ----

def extension(kind, body):
    return struct.pack("!HH", kind, len(body)) + body


def names(*entries):
    """The extension server_name. An entry is (type, name)."""
    listed = b"".join(struct.pack("!BH", kind, len(name)) + name for kind, name in entries)
    return extension(0, struct.pack("!H", len(listed)) + listed)


def hello(*extensions, session=b""):
    """A ClientHello of TLS 1.2 as one handshake message; the random value is distinct."""
    ciphers = struct.pack("!6H", 0xC02F, 0xC030, 0xCCA8, 0x009C, 0x002F, 0x00FF)
    also = (extension(10, struct.pack("!HHH", 4, 0x001D, 0x0017)) + extension(11, b"\1\0")
            + extension(13, struct.pack("!H3H", 6, 0x0401, 0x0804, 0x0403)))
    body = b"".join(extensions) + also
    body = (b"\3\3" + struct.pack("!QQQQ", *[time.time_ns()] * 4) + bytes([len(session)]) + session
            + struct.pack("!H", len(ciphers)) + ciphers + b"\1\0" + struct.pack("!H", len(body)) + body)
    return b"\1" + len(body).to_bytes(3, "big") + body


def records(message, *cuts, version=b"\3\1"):
    """The message as TLS records, cut at these places."""
    edges = [0, *cuts, len(message)]
    return b"".join(b"\x16" + version + struct.pack("!H", end - begin) + message[begin:end]
                    for begin, end in zip(edges, edges[1:]))


ECH = extension(0xFE0D, b"\0" + struct.pack("!HHB", 1, 1, 7) + struct.pack("!H", 32) + b"k" * 32 + struct.pack("!H", 64) + b"p" * 64)
GOOD_NAME, EVIL_NAME = (0, b"allowed.test"), (0, b"evil.test")
LONG = (0, b"a" * 63 + b"." + b"b" * 63 + b"." + b"c" * 63 + b"." + b"d" * 50 + b".allowed.test")

# What is sent, and whether a server outside may see it.
HELLOS = {
    "allowed": (records(hello(names(GOOD_NAME))), True),
    "denied": (records(hello(names(EVIL_NAME))), False),
    "upper case": (records(hello(names((0, b"ALLOWED.Test")))), True),
    "in two records": (records(hello(names(GOOD_NAME)), 50), True),
    "denied, in records of one byte": (records(hello(names(EVIL_NAME)), *range(1, len(hello(names(EVIL_NAME))))), False),
    "two names, the second denied": (records(hello(names(GOOD_NAME, EVIL_NAME))), False),
    "two names, the first denied": (records(hello(names(EVIL_NAME, GOOD_NAME))), False),
    "two extensions of names": (records(hello(names(GOOD_NAME), names(EVIL_NAME))), False),
    "a name of another type": (records(hello(names((1, b"allowed.test")))), False),
    "no name": (records(hello()), False),
    "an empty name": (records(hello(names((0, b"")))), False),
    "NUL in the name": (records(hello(names((0, b"evil.test\0.allowed.test")))), False),
    "a Cyrillic letter": (records(hello(names((0, "\u0430llowed.test".encode())))), False),
    "punycode": (records(hello(names((0, b"xn--llowed-5nf.test")))), False),
    "an address as a name": (records(hello(names((0, EVIL.encode())))), False),
    "a number as a name": (records(hello(names((0, b"1572395074")))), False),
    "an address in hexadecimal": (records(hello(names((0, b"0x5db8d842")))), False),
    "an IPv6 address": (records(hello(names((0, b"::ffff:93.184.216.66")))), False),
    "a suffix": (records(hello(names((0, b"xallowed.test")))), False),
    "a name as a prefix": (records(hello(names((0, b"allowed.test.evil.test")))), False),
    "two dots": (records(hello(names((0, b"a..allowed.test")))), False),
    "a blank": (records(hello(names((0, b"evil.test .allowed.test")))), False),
    "too long": (records(hello(names(LONG))), False),
    "ECH outside a denied name": (records(hello(names(EVIL_NAME), ECH)), False),
    "ECH without a name": (records(hello(ECH)), False),
    "an alert before": (b"\x15\3\1\0\2\1\x5a" + records(hello(names(EVIL_NAME))), False),
    "an empty record before": (b"\x16\3\1\0\0" + records(hello(names(EVIL_NAME))), False),
    "SSL 2 before": (b"\x80\x2e\1\3\1" + b"\0" * 41 + records(hello(names(EVIL_NAME))), False),
    "two hellos": (records(hello(names(EVIL_NAME)) + hello(names(GOOD_NAME))), False),
}

SEND = PRELUDE + """
import time
def send(port, pieces, pause=0):
    socket.gethostbyname('allowed.test')
    s = socket.create_connection((sys.argv[1], port), 20); s.settimeout(12); s.setsockopt(6, 1, 1)
    try:
        for piece in pieces:
            s.sendall(piece); time.sleep(pause)
        return s.recv(65536).decode('latin-1')
    except OSError as e: return type(e).__name__
    finally: s.close()
"""


def test_hellos(net, box):
    """Each on port 443 and on another one that the policy opens; a server outside sees the allowed ones only."""
    for port in (443, 2053):
        for what, (data, passes) in HELLOS.items():
            before = len(net.seen("hello"))
            box.py(SEND + f"say(send({port}, [{data!r}]))", GOOD)
            seen = net.seen("hello")[before:]
            assert bool(seen) == passes, (port, what, seen)
            assert all(e["name"] is None or e["name"].lower() == "allowed.test" for e in seen), (port, what, seen)


def test_hello_with_a_pause_at_every_byte(net, box):
    """The name arrives in two pieces, wherever they are cut."""
    data = records(hello(names(EVIL_NAME)))
    before = len(net.seen("hello"))
    cuts = [1, 2, 3, 4, 5, 6, 9, 11, 43, 44, data.index(b"evil.test"), data.index(b"evil.test") + 4, len(data) - 1]
    got = box.py(SEND + f"say([send(2053, [{data!r}[:cut], {data!r}[cut:]], 0.05) for cut in {cuts}])", GOOD)
    assert len(got) == len(cuts) and len(net.seen("hello")) == before, got


# ---- requests ----

H2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
UPGRADE = b"GET /up HTTP/1.1\r\nHost: allowed.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
INNER = b"GET /inner HTTP/1.1\r\nHost: evil.test\r\n\r\n"


@pytest.mark.parametrize("port", [80, 9000])
@pytest.mark.parametrize("data", [
    H2, H2[:10] + b"\r\n" + INNER, UPGRADE + INNER,
    b"CONNECT allowed.test:80 HTTP/1.1\r\nHost: allowed.test:80\r\n\r\n" + INNER,
    b"CONNECT allowed.test:80 HTTP/1.1\r\nHost: allowed.test:80\r\n\r\nCONNECT evil.test:80 HTTP/1.1\r\nHost: evil.test\r\n\r\n" + INNER,
    b"GET http://allowed.test@evil.test/inner HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    b"GET //evil.test/inner HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    b"GET /inner HTTP/1.1\r\nHost: [::ffff:93.184.216.66]\r\n\r\n",
    b"GET /inner HTTP/1.1\r\nHost: 1572395074\r\n\r\n", b"GET /inner HTTP/1.1\r\nHost: 0x5db8d842\r\n\r\n",
    b"GET /inner HTTP/1.1\r\nHost: 0135.0270.0330.0102\r\n\r\n", b"GET /inner HTTP/1.1\r\nHost: evil.test.\r\n\r\n",
    b"GET /inner HTTP/1.1\r\nHost: xn--llowed-5nf.test\r\n\r\n", b"GET /inner HTTP/1.1\r\nHost: allowed.test\tevil.test\r\n\r\n",
    b"GET /inner HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + INNER,
    b"GET /inner HTTP/1.1\r\nHost: allowed.test, evil.test\r\n\r\n",
    b"GET /inner HTTP/1.1\r\nHost:\x0ballowed.test\r\n\r\n", b"GET /inner HTTP/3.0\r\nHost: allowed.test\r\n\r\n",
], ids=range(18))
def test_requests(net, box, port, data):
    before = len(net.seen("http", path="/inner"))
    got = box.py(SEND + f"say(send({port}, [{data!r}]))", GOOD)
    assert len(net.seen("http", path="/inner")) == before, got


def test_names_with_a_dot_behind(net, box):
    """One name in both forms: in the policy, in DNS and in requests."""
    with open_box(net, allow=["allowed.test."]) as dotted:
        for host in ("allowed.test", "allowed.test."):
            assert code(dotted, f"http://{host}/") == ("200", 0)
            assert code(dotted, f"http://{host.replace('allowed', 'evil')}/")[0] != "200"
    with open_box(net, allow=["*.allowed.test"], deny=["www.allowed.test"]) as denied:
        assert code(denied, "http://api.allowed.test./") == ("200", 0)
        for host in ("www.allowed.test", "www.allowed.test.", "WWW.allowed.test."):
            assert code(denied, f"http://{host}/")[0] != "200"


# ---- addresses that change ----

def test_rebinding(net, box):
    """The second question of a name leads inside. The policy's address is used, and the inner one never."""
    name = f"flip-{time.time_ns()}.allowed.test"
    got = box.py(f"""
def ask():
    try: return socket.gethostbyname('{name}')
    except OSError: return None
def get(host):
    return tcp(host, 80, b'GET /flip HTTP/1.1\\r\\nHost: {name}\\r\\nConnection: close\\r\\n\\r\\n')[:12]
first = ask(); one = get(first)
second = ask(); two = get('10.9.9.9')
say([first, one, second, two, get(first)])
""")
    assert got[0] == GOOD and got[1] == "HTTP/1.1 200", got
    assert got[2] != "10.9.9.9" and "200" not in got[3], got
    assert not net.seen("http", address="10.9.9.9", path="/flip")


@pytest.mark.parametrize("size", [1, 1200])
def test_quic(net, box, size):
    """Datagrams to port 443 of an allowed name do not leave: there is no name in them that could be judged."""
    before = len(net.seen("udp"))
    got = box.py("s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)\n"
                 "socket.gethostbyname('allowed.test')\n"
                 f"s.connect(('{GOOD}', 443))\n"
                 f"try: s.send(b'\\xc3' * {size}); s.send(b'\\xc3' * {size}); say(len(s.recv(9)))\n"
                 "except OSError as e: say(type(e).__name__)")
    assert got in ("ConnectionRefusedError", "PermissionError", "OSError", "timeout", "TimeoutError"), got
    assert len(net.seen("udp")) == before


def test_mapped_addresses(net, box):
    """IPv4 in IPv6 form is the same connection, and is judged the same way."""
    got = box.py("out = []\n"
                 f"for host in ('::ffff:{EVIL}', '::ffff:10.9.9.9', '::ffff:169.254.169.254', '::ffff:127.0.0.1', '::{EVIL}'):\n"
                 "  s = socket.socket(socket.AF_INET6); s.settimeout(15)\n"
                 "  try:\n"
                 "    s.connect((host, 80)); s.sendall(b'GET /mapped HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n')\n"
                 "    out.append(s.recv(99).decode()[:12])\n"
                 "  except OSError as e: out.append(errno.errorcode.get(e.errno, type(e).__name__))\n"
                 "say(out)")
    assert "HTTP/1.1 200" not in got and len(got) == 5, got
    assert not net.seen("http", path="/mapped")
