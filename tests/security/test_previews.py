# SPDX-License-Identifier: Apache-2.0
"""API-04, -05, -07, -19, -20, -21, -23 for previews: attacks by a visitor or a server inside."""

import json
import re
import socket

import pytest

from lib import tree
from lib.commands import wait_for
from lib.previews import Preview
from lib.preview_server import LYING, RUDE
from lib.rawhttp import exchange, statuses


@pytest.fixture(scope="module")
def preview(client):
    with client.sandbox(timeout_sec=3600) as sandbox:
        yield Preview(sandbox)


@pytest.fixture(scope="module")
def private(client):
    with client.sandbox(timeout_sec=3600) as sandbox:
        yield Preview(sandbox, visibility="private")


def seen(answer):
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


# ---- smuggling: what two parsers could interpret differently ----

SMUGGLES = {
    "cl-te": b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
    "te-identity": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "te-x": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "te-tab": b"Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n",
    "te-vt": b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "te-twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "cl-twice": b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "cl-plus": b"Content-Length: +1\r\n\r\na",
    "cl-list": b"Content-Length: 1, 1\r\n\r\na",
    "chunk-0x": b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "chunk-space": b"Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n",
    "chunk-17": b"Transfer-Encoding: chunked\r\n\r\n00000000000000005\r\nhello\r\n0\r\n\r\n",
    "chunk-lf": b"Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
    "chunk-ext-lf": b"Transfer-Encoding: chunked\r\n\r\n5;a\n\r\nhello\r\n0\r\n\r\n",
    "fold": b"X-A: 1\r\n 2\r\n\r\n",
    "nul": b"X-A: a\0b\r\n\r\n",
    "cr": b"X-A: a\rb\r\n\r\n",
    "space-colon": b"X-A : 1\r\n\r\n",
    "no-name": b": 1\r\n\r\n",
    "two-hosts": b"Host: other\r\n\r\n",
}


@pytest.mark.parametrize("name", SMUGGLES)
def test_smuggling(preview, name):
    before = seen(preview.ask("/echo"))["served"]
    tail = b"GET /smuggled HTTP/1.1\r\nHost: " + preview.host.encode() + b"\r\n\r\n"
    got = exchange(preview.client, b"POST /echo HTTP/1.1\r\nHost: " + preview.host.encode() + b"\r\n" +
                   SMUGGLES[name] + tail, timeout=5 * tree.SLACK)
    codes = statuses(got)
    assert len(codes) <= 1 and (not codes or codes[0] in (400, 413, 431, 501, 502)), got[:300]
    assert b"no such path" not in got, "the tail was taken for a request"
    assert before >= 1


def test_targets(preview):
    host = preview.host.encode()
    for line in (b"GET http://evil.test/echo HTTP/1.1", b"GET evil.test:80 HTTP/1.1", b"GET echo HTTP/1.1",
                 b"GET /a b HTTP/1.1", b"GET /\x01 HTTP/1.1", b"GET /echo HTTP/2.0"):
        got = exchange(preview.client, line + b"\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n", timeout=5 * tree.SLACK)
        assert statuses(got)[0] in (400, 505), (line, got[:200])
    for method in ("TRACE", "CONNECT"):
        got = exchange(preview.client, f"{method} /echo HTTP/1.1\r\nHost: {preview.host}\r\nConnection: close\r\n\r\n".encode(),
                       timeout=5 * tree.SLACK)
        assert statuses(got)[0] in (400, 405)


def test_requests_are_serialized_again(preview):
    """Whatever the client's spelling, the server sees ours, and one request."""
    with preview.raw() as sock:
        sock.sendall(f"POST /echo HTTP/1.1\r\nhOsT:{preview.host}\r\ntransfer-ENCODING: Chunked\r\n"
                     "X-Odd:   spaced \t \r\nConnection: close\r\n\r\n"
                     "3;ext=1\r\nabc\r\n0\r\nX-T: 1\r\n\r\n".encode())
        got = b"".join(iter(lambda: sock.recv(65536), b""))
    found = json.loads(got.split(b"\r\n\r\n", 1)[1])
    headers = [k for k, _ in found["headers"]]
    assert found["body"] == "abc"
    assert headers.count("Host") == 1 and "Transfer-Encoding" in headers
    assert dict(map(tuple, found["headers"]))["X-Odd"] == "spaced"


# ---- hostile servers ----

@pytest.mark.parametrize("name", RUDE)
def test_rude_answers(preview, name):
    answer = preview.ask(f"/rude?{name}")
    assert answer.status == 502, answer.body
    assert json.loads(answer.body)["error"]["code"] == "upstream_failed"
    assert seen(preview.ask("/echo"))  # other clients are not affected


@pytest.mark.parametrize("name", LYING)
def test_lying_lengths(preview, name):
    """A body that does not match its head is reset, and nothing of it reaches another client."""
    with preview.raw() as sock:
        sock.sendall(f"GET /rude?{name} HTTP/1.1\r\nHost: {preview.host}\r\nConnection: close\r\n\r\n"
                     .encode())
        got = b""
        try:
            got = b"".join(iter(lambda: sock.recv(65536), b""))
        except ConnectionResetError:
            pass
    body = got.split(b"\r\n\r\n", 1)[1] if b"\r\n\r\n" in got else b""
    assert b"second" not in got
    if name == "short":
        assert len(body) < 100
    if "chunk" in name:
        assert not got.endswith(b"0\r\n\r\n")
    for _ in range(3):
        assert b"second" not in preview.ask("/echo").body


def test_header_injection(preview):
    """A server cannot split the answer; our errors do not echo markup."""
    answer = preview.ask("/", host="80-%3cscript%3e.cay.localhost", headers={"Accept": "text/html"})
    assert b"<script" not in answer.body
    answer = preview.ask("/cookies")
    assert all("domain" not in c.lower() for c in answer.headers.get_all("Set-Cookie"))
    assert not any(c.startswith("cay_preview") for c in answer.headers.get_all("Set-Cookie"))


# ---- keys, tokens, origins ----

def test_keys_stay_outside(preview):
    key = preview.client.key
    for headers in ({"Authorization": f"Bearer {key}"}, {"X-API-Key": key},
                    {"Authorization": f"bearer  {key}"}, {"X-API-Key": "e2b_" + key[4:]},
                    {"Authorization": "Bearer cay_" + "0" * 40}):
        assert key[4:] not in preview.ask("/echo", headers=headers).body.decode()
        assert "0" * 40 not in preview.ask("/echo", headers=headers).body.decode()
    # Other credentials are forwarded to the server.
    assert "Basic eDp5" in preview.ask("/echo", headers={"Authorization": "Basic eDp5"}).body.decode()
    assert "Bearer other" in preview.ask("/echo", headers={"Authorization": "Bearer other"}).body.decode()


def share(preview, **body):
    return preview.client.call("POST", f"{preview.path}/{preview.row['id']}/share", body)


def test_private(private, client):
    assert private.ask("/echo").status == 401
    assert private.ask("/echo", headers={"Authorization": f"Bearer {client.key}"}).status == 200
    token = share(private)["token"]
    ways = (("/echo?a=1&cay_token=" + token + "&b=2", {}), ("/echo", {"Cay-Preview-Token": token}),
            ("/echo", {"Cookie": f"x=1; cay_preview={token}; y=2"}))
    for path, headers in ways:
        answer = private.ask(path, headers={"Referer": f"http://x/?cay_token={token}", **headers})
        assert answer.status == 200
        assert token not in answer.body.decode(), "the token went inside"
    assert seen(private.ask(ways[0][0]))["request"] == "GET /echo?a=1&b=2 HTTP/1.1"
    cookie = dict(map(tuple, seen(private.ask(*ways[2][:1], headers=ways[2][1]))["headers"]))["Cookie"]
    assert cookie == "x=1; y=2"


def test_token_becomes_a_cookie(private):
    token = share(private)["token"]
    answer = private.ask(f"/echo?cay_token={token}&q=1", headers={"Accept": "text/html"})
    assert answer.status == 302 and answer.headers["Location"] == "/echo?q=1"
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"cay_preview={token};")
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Domain" not in cookie


def test_tokens_end(private):
    short = share(private, ttl_sec=1)["token"]
    long = share(private)["token"]
    wait_for(lambda: private.ask("/echo", headers={"Cay-Preview-Token": short}).status == 410)
    assert private.ask("/echo", headers={"Cay-Preview-Token": long}).status == 200
    private.client.call("DELETE", f"{private.path}/{private.row['id']}/share")
    assert private.ask("/echo", headers={"Cay-Preview-Token": long}).status == 401


def test_token_of_another_preview(private, preview):
    preview.client.call("POST", preview.path, {"port": preview.port, "visibility": "private"})
    try:
        token = share(preview)["token"]
        assert private.ask("/echo", headers={"Cay-Preview-Token": token}).status == 401
    finally:
        preview.client.call("POST", preview.path, {"port": preview.port, "visibility": "public"})


def test_hosts(preview, client):
    """Only names below our domain lead inside; the API's own names do not."""
    host = preview.host
    for name in (f"{preview.port}-{preview.sandbox.id}.evil.test", f"{host}.evil.test", "evil.test",
                 f"x{host}"):
        assert preview.ask("/echo", host=name).status in (404, 421), name
    for name in (host.upper(), host + ":80", host + "."):
        assert preview.ask("/echo", host=name).status == 200, name
    by_header = {"Cay-Sandbox-Id": preview.sandbox.id, "Cay-Sandbox-Port": str(preview.port)}
    assert preview.ask("/echo", host=f"127.0.0.1:{client.port}", headers=by_header).status == 200
    assert preview.ask("/echo", host="evil.test", headers=by_header).status == 421
    for port in ("0", "65536", "-1", "80@evil", "", "8080 "):
        answer = preview.ask("/echo", host="127.0.0.1", headers={**by_header, "Cay-Sandbox-Port": port})
        assert answer.status in (400, 404) or port == "8080 ", port


def test_api_is_another_origin(preview, client):
    """A page of a preview has no rights in the API, and the API's paths are the server's own there."""
    answer = preview.ask("/v1/sandboxes", headers={"Authorization": f"Bearer {client.key}"})
    assert b"no such path" in answer.body
    status, headers, _ = client.raw("POST", "/v1/sandboxes", {}, {"Origin": f"http://{preview.host}"})
    assert status == 403 and "Access-Control-Allow-Origin" not in headers


def test_redirects_are_not_followed(preview):
    got = preview.ask("/echo", "HEAD")
    assert got.status == 200


def test_guessing_is_slowed_down(client):
    """Last, because this client is blocked for a minute."""
    with client.sandbox() as sandbox:
        preview = Preview(sandbox, visibility="private")
        good = share(preview)["token"]
        codes = [preview.ask("/echo", headers={"Cay-Preview-Token": f"cay_pv_{n:040x}"}).status
                 for n in range(70)]
        assert codes[0] == 401 and 429 in codes
        answer = preview.ask("/echo", headers={"Cay-Preview-Token": f"cay_pv_{99:040x}"})
        assert answer.status in (401, 429)
        if answer.status == 429:
            assert answer.headers["Retry-After"]
        # A key is not a guess, and public previews are open to everyone.
        assert preview.ask("/echo", headers={"Authorization": f"Bearer {client.key}"}).status == 200
        assert good


def test_sandbox_cannot_pass_another_socket(preview):
    """Nothing that a sandbox does to its own connections stops the daemon."""
    script = ("import socket,struct,threading\n"
              "l=socket.create_server(('127.0.0.1',0)); print(l.getsockname()[1],flush=True)\n"
              "while 1:\n"
              " c,_=l.accept(); c.setsockopt(socket.SOL_SOCKET,socket.SO_LINGER,struct.pack('ii',1,0)); c.close()\n")
    sandbox = preview.sandbox
    process = sandbox.client.call("POST", f"/v1/sandboxes/{sandbox.id}/processes",
                                  {"argv": ["python3", "-c", script]})["process_id"]

    def port():
        rows = sandbox.client.call("GET", f"/v1/sandboxes/{sandbox.id}/ports")["data"]
        return [r["port"] for r in rows if r["port"] != preview.port]

    rude = Preview(sandbox, port=wait_for(port, timeout=20)[0], start=False)
    for _ in range(20):
        assert rude.ask("/").status == 502
    assert seen(preview.ask("/echo"))
    assert sandbox.exec("echo still here").stdout == "still here\n"
    sandbox.client.call("DELETE", f"/v1/sandboxes/{sandbox.id}/processes/{process}")
