# SPDX-License-Identifier: Apache-2.0
"""Connections that send the name of their target late, or in a disguised form: finding 1 of the audit.

The allow-list holds however long a client is silent, and whatever precedes its request.
"""

import time

import pytest

from lib import tree
from lib.world import GOOD
from test_net import PRELUDE, net, open_box  # noqa: F401

LATE = PRELUDE + """
import time
def late(port, pause, first, name=None, split=None):
    # Looks allowed.test up, connects, waits, speaks: what came back, or the error's name.
    socket.gethostbyname('allowed.test')
    s = socket.create_connection(('%s', port), 30); s.settimeout(30)
    try:
        time.sleep(pause)
        if name:
            c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
            s = c.wrap_socket(s, server_hostname=name)
        if split:
            s.sendall(first[:split]); time.sleep(pause); s.sendall(first[split:])
        else:
            s.sendall(first)
        return s.recv(65536).decode('latin-1')
    except OSError as e: return errno.errorcode.get(e.errno, type(e).__name__)
    finally: s.close()
""" % GOOD


def ask(host, path):
    return b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (path.encode(), host.encode())


@pytest.fixture(scope="module")
def box(net):
    with open_box(net, allow=["allowed.test", *(f"allowed.test:{n}" for n in (2053, 2525, 2587, 8080, 9000))]) as sandbox:
        yield sandbox


def said(box, call):
    done = box.sandbox.exec(["python3", "-c", LATE + f"say({call})"], user="root")
    assert done.exit_code == 0, done
    return done.stdout


@pytest.mark.parametrize("port,pause", [(2053, 1.2), (2053, 0)])
def test_late_server_name(net, box, port, pause):
    path = f"/late-{port}-{time.time_ns()}"
    got = said(box, f"late({port}, {pause}, {ask('evil.test', path)!r}, 'evil.test')")
    assert "200 OK" not in got and not net.seen("https", path=path), got
    assert box.denied(host="evil.test", port=port, protocol="tls", reason="not_allowed")
    got = said(box, f"late({port}, {pause}, {ask('allowed.test', path)!r}, 'allowed.test')")
    assert "200 OK" in got and net.seen("https", path=path), got


@pytest.mark.parametrize("pause", [0, 1.2])
@pytest.mark.parametrize("before", [b"", b"\r\n", b"\r\n\r\n"])
def test_late_request(net, box, pause, before):
    path = f"/late-{time.time_ns()}"
    got = said(box, f"late(9000, {pause}, {before + ask('evil.test', path)!r})")
    assert "403 Forbidden" in got and not net.seen("http", path=path), got
    assert box.denied(host="evil.test", port=9000, protocol="http", reason="not_allowed")
    got = said(box, f"late(9000, {pause}, {before + ask('allowed.test', path)!r})")
    if before:  # some servers skip empty lines before a request, others do not
        assert "403 Forbidden" not in got, got
    else:
        assert "200 OK" in got and net.seen("http", path=path), got


def test_late_request_where_the_client_speaks_first(net, box):
    """Port 8080: the timeout is longer, and bytes that arrive after it are checked, too."""
    path = f"/late-{time.time_ns()}"
    got = said(box, f"late(8080, 11, {ask('evil.test', path)!r})")
    assert "403 Forbidden" in got and not net.seen("http", path=path), got


@pytest.mark.parametrize("first", [
    b" GET %s HTTP/1.1\r\nHost: evil.test\r\n\r\n", b"\n\nGET %s HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    b"get %s HTTP/1.1\r\nHost: evil.test\r\n\r\n", b"ANY-method %s HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    b"GET  %s  HTTP/1.1\r\nHost: evil.test\r\n\r\n", b"GET %s\r\nHost: evil.test\r\n\r\n",
    b"PROXY TCP4 1.1.1.1 2.2.2.2 3 4\r\nGET %s HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    b"\x15\x03\x01\x00\x02\x01\x5a\x16\x03\x01",
], ids=range(8))
def test_disguises(net, box, first):
    path = f"/disguise-{time.time_ns()}"
    first = first.replace(b"%s", path.encode())
    for pause in (0, 1.2):
        got = said(box, f"late(9000, {pause}, {first!r})")
        assert "200 OK" not in got and "hello from" not in got, got
    assert not net.seen("http", path=path)


def test_pause_inside_the_request(net, box):
    """Held until it is whole, at every border that matters, on both sides of the time-out."""
    path = f"/split-{time.time_ns()}"
    whole = ask("evil.test", path)
    for split in (1, 3, 4, whole.index(b" HTTP"), whole.index(b"Host"), whole.index(b"evil") + 2, len(whole) - 1):
        got = said(box, f"late(9000, 0.7, {whole!r}, None, {split})")
        assert "200 OK" not in got, (split, got)
    assert not net.seen("http", path=path)
    whole = ask("allowed.test", path)
    assert "200 OK" in said(box, f"late(9000, 0.7, {whole!r}, None, {whole.index(b'Host')})")


def test_server_speaks_first_and_client_late(box):
    got = box.py("socket.gethostbyname('allowed.test')\nimport time\n"
                 f"s = socket.create_connection(('{GOOD}', 2525), 30); s.settimeout(30); got = s.recv(99)\n"
                 "time.sleep(1)\n"
                 "for word in (b'EHLO x\\r\\n', b'\\0\\1\\2', b'plain'):\n"
                 "  s.sendall(word); got += s.recv(99)\n"
                 "s.shutdown(1); got += s.recv(99); say(got.decode())")
    assert got == "220 banner\r\nEHLO x\r\n\0\1\2plain"


def test_nameless_needs_an_entry_with_its_port(net):
    with open_box(net, allow=["allowed.test"]) as box:
        got = box.py("socket.gethostbyname('allowed.test'); say(tcp('%s', 2525))" % GOOD)
        assert got == "ECONNRESET"
        row = box.denied(host=GOOD, port=2525, protocol="tcp", reason="no_name")
        assert row and row[0]["rule"] == "allowed.test", box.denials()
        box.patch(allow=["allowed.test:2525"])
        assert box.py("socket.gethostbyname('allowed.test'); say(tcp('%s', 2525))" % GOOD) == "220 banner\r\n"
        box.patch(allow=[GOOD])  # an entry by address allows every protocol
        assert box.py("say(tcp('%s', 2525))" % GOOD) == "220 banner\r\n"


STARTTLS = """
def starttls(name):
    socket.gethostbyname('allowed.test')
    s = socket.create_connection(('%s', 2587), 30); s.settimeout(30)
    try:
        got = s.recv(99); s.sendall(b'EHLO x\\r\\n'); got += s.recv(99); s.sendall(b'STARTTLS\\r\\n'); got += s.recv(99)
        c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
        s = c.wrap_socket(s, server_hostname=name); s.sendall(b'inside'); return s.recv(99).decode()
    except OSError as e: return errno.errorcode.get(e.errno, type(e).__name__)
    finally: s.close()
""" % GOOD


def test_starttls_names_count(net, box):
    assert box.py(STARTTLS + "say(starttls('allowed.test'))") == "inside"
    assert box.py(STARTTLS + "say(starttls(None))") == "inside"
    before = len(net.seen("starttls", name="evil.test"))
    assert box.py(STARTTLS + "say(starttls('evil.test'))") != "inside"
    assert len(net.seen("starttls", name="evil.test")) == before
    assert box.denied(host="evil.test", port=2587, protocol="tls", reason="not_allowed")


def test_names_are_checked_after_a_policy_change(net):
    """A connection whose bytes were not checked under one policy ends when the policy begins to check names."""
    with open_box(net, mode="full", allow=[]) as box:
        box.sh("nohup python3 -c 'import socket; s=socket.create_connection((\"allowed.test\",2525)); s.recv(99)\n"
               "print(\"up\",flush=True)\ntry:\n  s.recv(9)\n  print(\"end\",flush=True)\n"
               "except OSError as e: print(\"reset\",flush=True)' > /tmp/out 2>&1 &")
        until = time.monotonic() + 20 * tree.SLACK
        while box.sh("cat /tmp/out").stdout != "up\n" and time.monotonic() < until:
            time.sleep(0.05)
        box.patch(mode="restricted", allow=["allowed.test:2525"])
        while "up\n" == box.sh("cat /tmp/out").stdout and time.monotonic() < until:
            time.sleep(0.05)
        assert box.sh("cat /tmp/out").stdout.split()[-1] in ("reset", "end")


PIECES = """
import time
def question(number, name):
    q = struct.pack('!HHHHHH', number, 0x100, 1, 0, 0, 0) + name + struct.pack('!HH', 1, 1)
    return struct.pack('!H', len(q)) + q
def answer(f): return f.read(struct.unpack('!H', f.read(2))[0])
good, evil = question(7, b'\\7allowed\\4test\\0'), question(8, b'\\4evil\\4test\\0')
out = []
for at in range(1, len(good)):
    s = socket.create_connection(('192.0.2.53', 53), 20); s.setsockopt(6, 1, 1); s.settimeout(20); f = s.makefile('rb')
    s.sendall(good[:at]); time.sleep(0.01); s.sendall(good[at:] + evil[:at]); first = answer(f)
    s.sendall(evil[at:]); out.append([socket.inet_ntoa(first[-4:]), socket.inet_ntoa(answer(f)[39:43])]); s.close()
say(out)
"""


def test_dns_over_tcp_in_pieces(net, box):
    """A question with a pause at every byte, and a second one cut at the same place: each its own answer."""
    before = len(net.seen("dns", name="evil.test"))
    got = box.py(PIECES)
    assert len(got) > 25 and all(first == GOOD and second != GOOD for first, second in got), got
    assert len(net.seen("dns", name="evil.test")) == before
