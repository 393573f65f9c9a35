# SPDX-License-Identifier: Apache-2.0
"""Previews: bytes pass unchanged in both directions, on every engine."""

import hashlib
import json
import re
import shutil
import subprocess
import time

import pytest

from lib import tree
from lib.client import ApiError
from lib.commands import in_thread, wait_for
from lib.previews import Preview, free_port


@pytest.fixture(scope="module")
def preview(shared):
    return Preview(shared)


def echoed(answer):
    assert answer.status == 200, answer.body
    found = json.loads(answer.body)
    found["headers"] = {k.lower(): v for k, v in found["headers"]}
    return found


# ---- requests and answers ----

def test_round_trip(preview):
    answer = preview.ask("/echo?a=1&b=%20x", "POST", body=b"hello", headers={"X-Custom": "yes"})
    found = echoed(answer)
    assert found["request"] == "POST /echo?a=1&b=%20x HTTP/1.1"
    assert found["body"] == "hello"
    assert found["headers"]["x-custom"] == "yes"
    assert found["headers"]["host"] == preview.host
    assert found["headers"]["content-length"] == "5"
    assert found["peer"] == "127.0.0.1"


def test_forwarded_headers_are_ours(preview):
    found = echoed(preview.ask("/echo", headers={
        "X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil",
        "Forwarded": "for=6.6.6.6", "X-Real-IP": "6.6.6.6", "Cay-Hop": "x"}))["headers"]
    assert found["x-forwarded-for"] == "127.0.0.1"
    assert found["x-forwarded-proto"] == "http"
    assert found["x-forwarded-host"] == preview.host
    assert found["x-forwarded-port"] == "80"
    assert found["forwarded"] == f'for=127.0.0.1;host="{preview.host}";proto=http'
    assert found["x-real-ip"] == "127.0.0.1"


def test_hop_by_hop_stays(preview):
    found = echoed(preview.ask("/echo", headers={
        "Connection": "X-Secret, close", "X-Secret": "1", "Keep-Alive": "timeout=5",
        "Proxy-Authorization": "Basic eDp5", "TE": "gzip, trailers"}))["headers"]
    assert not {"x-secret", "keep-alive", "proxy-authorization"} & set(found)
    assert found["te"] == "trailers"


def test_answer_headers(preview):
    answer = preview.ask("/cookies")
    assert answer.status == 200
    cookies = answer.headers.get_all("Set-Cookie")
    assert cookies == ["a=1; Path=/; HttpOnly", "b=2"]
    assert answer.headers["X-End"] == "2"
    assert answer.headers["X-Hop"] is None and answer.headers["Alt-Svc"] is None
    assert len(answer.headers.get_all("Date") or []) <= 1


def test_bodies_of_every_framing(preview):
    answer = preview.ask("/chunked")
    assert answer.body == b"one,two,three"
    answer = preview.ask("/until-close")
    assert answer.body == b"y" * 100000
    for n in (0, 1, 65536, 5_000_000):
        answer = preview.ask(f"/big?{n}")
        assert len(answer.body) == n
        assert answer.body == (bytes(range(256)) * (n // 256 + 1))[:n]
    assert preview.ask("/204").status == 204
    assert preview.ask("/304").status == 304
    answer = preview.ask("/echo", "HEAD")
    assert answer.status == 200 and answer.headers["Content-Length"] == "12345"


def test_trailers(preview):
    with preview.raw() as sock:
        sock.sendall(f"POST /echo HTTP/1.1\r\nHost: {preview.host}\r\nTransfer-Encoding: chunked\r\n"
                     "Trailer: X-Mine\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n"
                     "X-Mine: 7\r\nX-Forwarded-For: 1.1.1.1\r\n\r\n".encode())
        got = b"".join(iter(lambda: sock.recv(65536), b""))
    assert b'"trailers": ["X-Mine: 7"]' in got
    with preview.raw() as sock:
        sock.sendall(f"GET /chunked HTTP/1.1\r\nHost: {preview.host}\r\nTE: trailers\r\n"
                     "Connection: close, TE\r\n\r\n".encode())
        got = b"".join(iter(lambda: sock.recv(65536), b""))
    assert got.endswith(b"0\r\nX-Sum: 42\r\n\r\n"), got[-200:]
    assert b"tossed" not in got


def test_uploads_of_any_size(preview):
    data = hashlib.sha256(b"seed").digest() * 200000
    want = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    assert json.loads(preview.ask("/upload", "PUT", body=data).body) == want
    pieces = (data[i:i + 70000] for i in range(0, len(data), 70000))
    answer = preview.ask("/upload", "POST", body=pieces, encode_chunked=True,
                         headers={"Transfer-Encoding": "chunked"})
    assert json.loads(answer.body) == want


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
def test_expect_continue(preview, tmp_path):
    """curl waits for the server's own 100, or receives its refusal before it sends."""
    data = tmp_path / "data"
    data.write_bytes(b"x" * 300000)

    def curl(path):
        return subprocess.run(
            ["curl", "-sv", "--expect100-timeout", "60", "-H", "Expect: 100-continue", "-H",
             f"Host: {preview.host}", "-T", str(data), f"{preview.client.url}{path}"],
            capture_output=True, text=True, timeout=60 * tree.SLACK)

    done = curl("/upload")
    assert "100 Continue" in done.stderr
    assert json.loads(done.stdout)["bytes"] == 300000
    done = curl("/upload?refuse")
    assert "413" in done.stderr  # asked first; a slow server gets the body anyway


def test_connections_are_kept(preview):
    conn = preview.connect()
    served = [echoed(preview.ask("/echo", conn=conn))["served"] for _ in range(5)]
    conn.close()
    # The same connection inside, counting up; others may have used it before.
    assert served == list(range(served[0], served[0] + 5))


def test_dead_kept_connection_is_retried(preview):
    """The server may close a kept connection at any time."""
    assert preview.ask("/until-close").status == 200
    for _ in range(3):
        assert preview.ask("/hang-up").status == 502
        assert echoed(preview.ask("/echo"))["request"].startswith("GET /echo")


def test_events_come_at_once(preview):
    conn = preview.connect()
    conn.request("GET", "/events", headers={"Host": preview.host})
    answer = conn.getresponse()
    assert answer.readline() == b"data: first\n"  # the second is sent only after /go
    assert preview.ask("/go").status == 200
    assert b"second" in answer.read()
    conn.close()


def test_upgrade(preview):
    with preview.raw() as sock:
        sock.sendall(f"GET /socket HTTP/1.1\r\nHost: {preview.host}\r\nUpgrade: custom/1\r\n"
                     "Connection: Upgrade\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"hello\n"):
            more = sock.recv(4096)
            assert more, head
            head += more
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"\r\nUpgrade: custom/1\r\n" in head
        blob = bytes(range(256)) * 4000
        sender = in_thread(lambda: sock.sendall(blob))  # bytes must not wait for a full buffer
        got = b""
        while len(got) < len(blob):
            more = sock.recv(65536)
            assert more, len(got)
            got += more
        assert got == blob
        sender.result()
        sock.shutdown(1)
        assert sock.recv(1) == b""  # the end is passed on too
    wait_for(lambda: preview.client.call("GET", preview.path)["data"][0]["open"] == 0)


def test_counters(preview):
    before = preview.client.call("GET", f"{preview.path}/{preview.row['id']}")
    preview.ask("/upload", "PUT", body=b"x" * 1000)
    preview.ask("/big?5000")
    after = preview.client.call("GET", f"{preview.path}/{preview.row['id']}")
    assert after["requests"] == before["requests"] + 2
    assert after["bytes_in"] == before["bytes_in"] + 1000
    assert after["bytes_out"] >= before["bytes_out"] + 5000


def test_slow_client_does_not_fill_the_daemon(preview, engines_daemon):
    """A client that does not read stops the server; the daemon buffers at most its watermark."""
    def rss():
        pid = engines_daemon.pids()["cayd"]
        text = open(f"/proc/{pid}/status").read()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1])

    if "asan" in str(engines_daemon.build):
        pytest.skip("the sanitizer keeps freed memory")
    before = rss()
    with preview.raw() as sock:
        sock.sendall(f"GET /big?200000000 HTTP/1.1\r\nHost: {preview.host}\r\n\r\n".encode())
        assert sock.recv(1000)
        end, last = time.monotonic() + 2, 0
        while time.monotonic() < end:
            last = max(last, rss())
            time.sleep(0.05)
    assert last - before < 20000, f"{before} -> {last} KiB"


# ---- missing targets ----

@pytest.mark.parametrize("accept, kind", [("text/html,*/*", "text/html"), ("*/*", "application/json")])
def test_pages_by_accept(preview, api, shared, accept, kind):
    def look(host, code, status):
        answer = preview.ask("/", headers={"Accept": accept}, host=host)
        assert answer.status == status, answer.body
        assert answer.headers["Content-Type"].startswith(kind)
        assert code in answer.body.decode()

    look("80-nosuchsandbox.cay.localhost", "sandbox_not_found", 404)
    look(f"1-{shared.id}.cay.localhost", "preview_not_found", 404)
    look("nonsense.cay.localhost", "preview_not_found", 404)
    closed = Preview(shared, start=False)
    look(closed.host, "port_closed", 502)
    api.call("DELETE", f"{closed.path}/{closed.row['id']}")
    look(closed.host, "preview_not_found", 404)
    look(f"22-{shared.id}.cay.localhost", "port_refused", 403)


def test_reserved_ports(preview, api, shared):
    for port in (22, 5900, 5999):
        with pytest.raises(ApiError) as caught:
            api.call("POST", preview.path, {"port": port})
        assert caught.value.code == "port_refused"
    row = api.call("POST", preview.path, {"port": 5901, "allow_reserved": True})
    api.call("DELETE", f"{preview.path}/{row['id']}")


def test_just_started_server(shared):
    """Requested before it listens: the daemon waits."""
    preview = Preview(shared, start=False)
    script = f"sleep 0.4; exec python3 preview_server.py {preview.port}"
    preview.put_server()
    shared.client.call("POST", f"/v1/sandboxes/{shared.id}/processes", {"command": script})
    wait_for(lambda: preview.ask("/echo").status == 200, timeout=20)


def test_expiry(shared, api):
    preview = Preview(shared)
    assert preview.ask("/echo").status == 200
    api.call("POST", preview.path, {"port": preview.port, "expires_in_sec": 1})
    wait_for(lambda: preview.ask("/echo").status == 410, timeout=10)
    assert "preview_expired" in preview.ask("/echo").body.decode()


def test_ports_and_events(api, shared, engine):
    preview = Preview(shared)
    row = preview.listens()[0]
    assert row["address"] == "127.0.0.1"
    if engine == "native":
        assert row["process"] == "python3" and row["pid"] > 0

    if engine != "native":
        return  # without a network namespace, ports of other processes are not reported

    def told():
        page = api.call("GET", f"/v1/sandboxes/{shared.id}/events?format=json&type=port&limit=1000")
        return [e for e in page["data"] if e["data"]["port"] == preview.port]

    assert wait_for(told, timeout=15)[0]["type"] == "port.opened"


def test_dead_sandbox(api, engine):
    with api.sandbox(engine=engine) as sandbox:
        preview = Preview(sandbox)
        assert preview.ask("/echo").status == 200
        api.call("POST", f"/v1/sandboxes/{sandbox.id}/extend", {"timeout_sec": 1})
        wait_for(lambda: preview.ask("/echo").status == 410, timeout=20)
        answer = preview.ask("/echo")
        assert answer.status == 410 and "timeout" in answer.body.decode()


def test_paused_sandbox_is_resumed(api, engine, needs):
    needs("pause")
    with api.sandbox(engine=engine, auto_resume=True) as sandbox:
        preview = Preview(sandbox)
        assert preview.ask("/echo").status == 200
        api.call("POST", f"/v1/sandboxes/{sandbox.id}/pause", {"kind": "freeze"})
        assert preview.ask("/echo").status == 200
        assert sandbox.state()["state"] == "running"
        api.call("PATCH", f"/v1/sandboxes/{sandbox.id}", {"auto_resume": False})
        api.call("POST", f"/v1/sandboxes/{sandbox.id}/pause", {"kind": "freeze"})
        answer = preview.ask("/echo")
        assert answer.status == 409 and "paused" in answer.body.decode()


def test_node_server(shared, engine):
    """A server other than Python's: keep-alive by its own rules."""
    if shared.exec("command -v node").exit_code != 0:
        pytest.skip("no node inside")
    port = free_port()
    shared.client.call("POST", f"/v1/sandboxes/{shared.id}/processes", {"argv": [
        "node", "-e", "require('http').createServer((q,s)=>{let n=0;q.on('data',d=>n+=d.length);"
        f"q.on('end',()=>s.end(JSON.stringify({{n,u:q.url}})))}}).listen({port},'127.0.0.1')"]})
    preview = Preview(shared, port=port, start=False)
    wait_for(preview.listens, timeout=20)
    for n in (0, 10, 1000000):
        answer = preview.ask("/x?y", "POST", body=b"z" * n)
        assert json.loads(answer.body) == {"n": n, "u": "/x?y"}


def test_survives_a_restart(api, engine, engines_daemon, needs):
    needs("survive")
    with api.sandbox(engine=engine) as sandbox:
        preview = Preview(sandbox, visibility="private")
        token = api.call("POST", f"{preview.path}/{preview.row['id']}/share", {})["token"]
        engines_daemon.kill("cayd")
        engines_daemon.wait_ready()
        answer = preview.ask("/echo", headers={"Cay-Preview-Token": token})
        assert answer.status == 200, answer.body

