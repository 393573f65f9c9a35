# SPDX-License-Identifier: Apache-2.0
"""The API from web pages: cors_origins, tickets, and what pages of other origins cannot do."""

import http.server
import json
import threading
import time

import pytest

from lib import browser
from lib.client import ApiError, Client
from lib.daemon import Daemon
from lib.terminal import refusal


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"<!doctype html><title>page</title>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words):
        pass


@pytest.fixture(scope="module")
def origins():
    """Two sites: the first is in cors_origins, the second is not."""
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) for _ in range(2)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield [f"http://127.0.0.1:{server.server_port}" for server in servers]
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def own(origins):
    with Daemon(env={"CAY_CORS_ORIGINS": f"https://app.example, {origins[0]}", "CAY_LOG_LEVEL": "debug"}) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def box(own):
    with own.client.sandbox(timeout_sec=3600) as sandbox:
        yield sandbox


def ticket(client, path, **more):
    return client.call("POST", "/v1/tickets", dict({"path": path}, **more))["ticket"]


# ---- CORS ----

def preflight(client, origin, **more):
    head = {"Origin": origin, "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type", "Authorization": None}
    return client.raw("OPTIONS", "/v1/sandboxes", headers=dict(head, **more))


def test_preflight(own, origins):
    status, headers, _data = preflight(own.client, origins[0])
    assert status == 204 and headers["Access-Control-Allow-Origin"] == origins[0]
    assert "POST" in headers["Access-Control-Allow-Methods"] and "Authorization" in headers["Access-Control-Allow-Headers"]
    assert headers["Vary"] == "Origin" and "Access-Control-Allow-Credentials" not in headers
    assert "Access-Control-Allow-Private-Network" not in headers
    _status, headers, _data = preflight(own.client, "https://app.example",
                                        **{"Access-Control-Request-Private-Network": "true"})
    assert headers["Access-Control-Allow-Private-Network"] == "true"
    for origin in (origins[1], "null", "http://app.example", "https://app.example.evil", "https://APP.example", ""):
        status, headers, _data = preflight(own.client, origin)
        assert status in (401, 403, 405) and "Access-Control-Allow-Origin" not in headers, origin


def test_answers_name_the_page(own, origins):
    """Also for errors: a page must be able to read the reason."""
    for path, status in (("/v1/sandboxes", 200), ("/v1/sandboxes/nosuch", 404), ("/v1/events?follow=false&format=sse", 200)):
        got, headers, _data = own.client.raw("GET", path, headers={"Origin": origins[0]})
        assert got == status and headers["Access-Control-Allow-Origin"] == origins[0] and headers["Vary"] == "Origin"
        _got, headers, _data = own.client.raw("GET", path, headers={"Origin": origins[1]})
        assert "Access-Control-Allow-Origin" not in headers and headers["Vary"] == "Origin"
    status, headers, data = own.client.raw("POST", "/v1/sandboxes", {}, headers={"Origin": origins[1]})
    assert status == 403 and json.loads(data)["error"]["code"] == "origin_not_allowed"
    assert "cors_origins" in json.loads(data)["error"]["hint"]


def test_without_the_setting_nothing_changes(origins):
    with Daemon() as daemon:
        status, headers, _data = daemon.client.raw("GET", "/v1/sandboxes", headers={"Origin": origins[0]})
        assert status == 200 and "Vary" not in headers and "Access-Control-Allow-Origin" not in headers
        assert preflight(daemon.client, origins[0])[0] in (401, 405)


@pytest.mark.parametrize("setting", ["*", "app.example", "https://app.example/", "https://App.example", "null", "ftp://x"])
def test_bad_setting(setting):
    daemon = Daemon(env={"CAY_CORS_ORIGINS": setting})
    try:
        assert daemon.up(check=False) != 0 and "cors_origins" in daemon.up_output + daemon.logs()
    finally:
        daemon.close()


# ---- tickets ----

def test_ticket_is_single_use_and_bound(own, box):
    client, nobody = own.client, Client(own.url, None)
    path = f"/v1/sandboxes/{box.id}/events"
    query = "follow=false&format=sse&ticket="
    text = ticket(client, path)
    assert nobody.raw("GET", f"{path}?{query}{text}")[0] == 200
    assert nobody.raw("GET", f"{path}?{query}{text}")[0] == 401  # used up
    text = ticket(client, path)
    assert nobody.raw("GET", f"/v1/events?{query}{text}")[0] == 401  # another path, which uses it up, too
    assert nobody.raw("GET", f"{path}?{query}{text}")[0] == 401
    text = ticket(client, path)
    for method, tail in (("DELETE", f"/v1/sandboxes/{box.id}"), ("GET", "/v1/sandboxes"), ("HEAD", path)):
        assert nobody.raw(method, f"{tail}?ticket={text}")[0] == 401, (method, tail)
    assert nobody.raw("GET", f"{path}?{query}{text}")[0] == 200  # those requests did not use a ticket
    for bad in ("", "x", "cayt_", "cayt_" + "0" * 40, own.key, text):
        assert nobody.raw("GET", f"{path}?{query}{bad}")[0] == 401, bad
    # With a key, the ticket is ignored.
    text = ticket(client, path)
    assert client.raw("GET", f"{path}?{query}{text}")[0] == 200
    assert nobody.raw("GET", f"{path}?{query}{text}")[0] == 200
    assert text not in own.logs(100000) and "cayt_" not in own.logs(100000)


def test_ticket_expires_and_ends_with_its_key(own, box):
    path = f"/v1/sandboxes/{box.id}/events"
    made = own.client.call("POST", "/v1/keys", {"name": "page", "scopes": ["admin"]})
    text = ticket(Client(own.url, made["key"]), path)
    own.client.call("DELETE", f"/v1/keys/{made['id']}")
    nobody = Client(own.url, None)
    assert nobody.raw("GET", f"{path}?follow=false&format=sse&ticket={text}")[0] == 401
    answer = own.client.call("POST", "/v1/tickets", {"path": path, "ttl_sec": 1})
    assert answer["path"] == path and answer["method"] == "GET" and answer["expires_at"]
    time.sleep(1.2)  # the expiry of a ticket causes no event to wait for
    assert nobody.raw("GET", f"{path}?follow=false&format=sse&ticket={answer['ticket']}")[0] == 401


def test_ticket_needs_the_scope_of_its_path(own, box):
    made = own.client.call("POST", "/v1/keys", {"name": "reader", "scopes": ["sandboxes:read"]})
    client = Client(own.url, made["key"])
    pty = f"/v1/sandboxes/{box.id}/pty"
    with pytest.raises(ApiError) as caught:
        ticket(client, pty)
    assert caught.value.status == 403
    assert ticket(client, "/v1/events", scope="sandboxes:read")
    for body in ({"path": "/v1/sandboxes"}, {"path": "/v1/events?after=0"}, {"path": "/nosuch"}, {"path": pty, "method": "POST"},
                 {"path": pty, "scope": "admin"}, {"path": pty, "ttl_sec": 301}, {"path": pty, "ttl_sec": 0}, {}, {"paths": pty}):
        with pytest.raises(ApiError) as caught:
            own.client.call("POST", "/v1/tickets", body)
        assert caught.value.status == 400, body
    own.client.call("DELETE", f"/v1/keys/{made['id']}")


def test_tickets_are_bounded(own, box):
    made = own.client.call("POST", "/v1/keys", {"name": "many", "scopes": ["sandboxes:read"]})
    client = Client(own.url, made["key"])
    for _ in range(256):
        ticket(client, "/v1/events", ttl_sec=1)
    with pytest.raises(ApiError) as caught:
        ticket(client, "/v1/events")
    assert caught.value.code == "quota_exceeded"
    own.client.call("DELETE", f"/v1/keys/{made['id']}")


def test_socket_origins(own, box, origins):
    path = f"/v1/sandboxes/{box.id}/pty"
    assert refusal(own.client, path, origin=origins[1]) == 403
    assert refusal(own.client, path, origin=origins[0]) is None


# ---- a real browser ----

FETCH = """fetch(%(url)r + %(path)r, {headers: {Authorization: 'Bearer ' + %(key)r}, method: %(method)r,
    ...(%(body)s ? {body: JSON.stringify(%(body)s), headers: {Authorization: 'Bearer ' + %(key)r, 'Content-Type': 'application/json'}} : {})})
    .then(async r => ({status: r.status, body: await r.text()})).catch(e => ({error: e.name}))"""
STREAM = """new Promise(done => { const s = new EventSource(%(url)r);
    s.addEventListener('sandbox.running', e => { s.close(); done(JSON.parse(e.data).sandbox_id) });
    s.onerror = () => { s.close(); done('error') } })"""
SOCKET = """new Promise(done => { const s = new WebSocket(%(url)r);
    s.onmessage = e => { if (typeof e.data === 'string') { s.close(); done(JSON.parse(e.data).type) } };
    s.onerror = () => done('error') })"""


def fetch(page, own, method, path, body=None):
    words = {"url": own.url, "path": path, "key": own.key, "method": method, "body": json.dumps(body)}
    return page.value(FETCH % words)


@pytest.mark.skipif(not browser.PROGRAM, reason="no chromium")
def test_pages_in_a_browser(own, box, origins):
    """A page of an allowed origin uses fetch, EventSource and WebSocket; one of another origin none of them."""
    events, pty = f"/v1/sandboxes/{box.id}/events", f"/v1/sandboxes/{box.id}/pty"
    with browser.Browser() as page:
        page.open(origins[0] + "/")
        page.until("document.title === 'page'")
        answer = fetch(page, own, "GET", f"/v1/sandboxes/{box.id}")
        assert answer["status"] == 200 and json.loads(answer["body"])["id"] == box.id
        answer = fetch(page, own, "POST", f"/v1/sandboxes/{box.id}/exec", {"argv": ["echo", "from a page"]})
        assert json.loads(answer["body"])["stdout"] == "from a page\n"
        text = json.loads(fetch(page, own, "POST", "/v1/tickets", {"path": events})["body"])["ticket"]
        assert page.value(STREAM % {"url": f"{own.url}{events}?after=0&ticket={text}"}) == box.id
        assert page.value(STREAM % {"url": f"{own.url}{events}?after=0&ticket={text}"}) == "error"
        text = json.loads(fetch(page, own, "POST", "/v1/tickets", {"path": pty})["body"])["ticket"]
        socket = own.url.replace("http:", "ws:") + pty + "?ticket="
        assert page.value(SOCKET % {"url": socket + text}) == "started"
        assert page.value(SOCKET % {"url": socket + text}) == "error"
        page.open(origins[1] + "/")
        page.until(f"document.title === 'page' && location.origin === '{origins[1]}'")
        assert fetch(page, own, "GET", "/v1/sandboxes") == {"error": "TypeError"}
        assert fetch(page, own, "POST", f"/v1/sandboxes/{box.id}/exec", {"argv": ["touch", "/tmp/seen"]}) == {"error": "TypeError"}
        assert page.value(STREAM % {"url": f"{own.url}{events}?after=0&ticket={ticket(own.client, events)}"}) == "error"
        assert page.value(SOCKET % {"url": socket + ticket(own.client, pty)}) == "error"
    assert box.exec(["ls", "/tmp/seen"]).exit_code != 0
