# SPDX-License-Identifier: Apache-2.0
"""Webhooks from a real daemon to a real server: signed, in order, across kill -9, over TLS."""

import http.server
import importlib.util
import json
import pathlib
import queue
import ssl
import subprocess
import threading

import pytest

from lib import tree
from lib.daemon import Daemon

ROOT = pathlib.Path(__file__).resolve().parents[2]
WAIT = 30 * tree.SLACK


def example():
    spec = importlib.util.spec_from_file_location("receiver", ROOT / "docs/examples/webhook_receiver.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


verify = example().verify


class Receiver:
    """Replies with the given statuses, then 200; keeps the requests."""

    def __init__(self, context=None):
        self.got, self.answers = queue.Queue(), queue.Queue()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    status = outer.answers.get_nowait()
                except queue.Empty:
                    status = 200
                outer.got.put((dict(self.headers), body, self.path))
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.server.server_address[1]}/hook"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def take(self):
        headers, body, path = self.got.get(timeout=WAIT)
        return headers, json.loads(body), body, path

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """(key, certificate) for 127.0.0.1, its own authority."""
    at = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-keyout", at / "key", "-out", at / "cert", "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    public = pathlib.Path("/var/tmp") / f"cay-test-ca-{at.name}-{id(at)}.pem"
    public.write_bytes((at / "cert").read_bytes())
    public.chmod(0o644)  # the daemon's own user has to read it
    yield at / "key", at / "cert", public
    public.unlink()


@pytest.fixture(scope="module")
def daemon(certificate):
    env = {"CAY_WEBHOOK_ALLOW_PRIVATE": "true", "CAY_WEBHOOK_CA": str(certificate[2]),
           "CAY_WEBHOOK_RETRY_MS": "20", "CAY_WEBHOOK_ATTEMPTS": "3", "CAY_POOL": "false"}
    with Daemon(env=env) as started:
        yield started


@pytest.fixture
def receiver():
    one = Receiver()
    yield one
    one.close()


def add(daemon, url, **body):
    hook = daemon.client.call("POST", "/v1/webhooks", {"url": url, **body})
    return hook


def drop(daemon, hook):
    daemon.client.call("DELETE", f"/v1/webhooks/{hook['id']}")


def test_signed_and_in_order(daemon, receiver):
    hook = add(daemon, receiver.url, events=["sandbox"])
    with daemon.client.sandbox() as sandbox:
        pass
    types = []
    last = 0
    while not types or types[-1] != "sandbox.destroyed":
        headers, event, body, path = receiver.take()
        assert path == "/hook" and headers["Cay-Webhook-Id"] == hook["id"]
        assert verify(hook["secret"], headers, body)
        assert not verify("another secret, wrong", headers, body)
        assert not verify(hook["secret"], headers, body + b" ")
        assert headers["Cay-Event-Id"] == str(event["id"]) and event["id"] > last
        assert event["sandbox_id"] == sandbox.id
        last = event["id"]
        types.append(event["type"])
    assert types == ["sandbox.provisioning", "sandbox.running", "sandbox.destroyed"]
    drop(daemon, hook)


def test_retried_given_up_redelivered(daemon, receiver):
    for status in (500, 302, 404):
        receiver.answers.put(status)
    hook = add(daemon, receiver.url, events=["sandbox.running"])
    with daemon.client.sandbox():
        tries = [receiver.take() for _ in range(3)]
    assert len({t[1]["id"] for t in tries}) == 1, "the same event"
    assert [t[0]["Cay-Attempt"] for t in tries] == ["1", "2", "3"]
    with daemon.client.sandbox():
        _headers, event, _body, path = receiver.take()
    assert event["id"] != tries[0][1]["id"] and path == "/hook"
    at = f"/v1/webhooks/{hook['id']}/deliveries"
    dead = daemon.client.call("GET", at + "?state=dead")["data"]
    assert [row["event_id"] for row in dead] == [tries[0][1]["id"]] and dead[0]["status"] == 404
    result = daemon.client.call("POST", f"{at}/{dead[0]['event_id']}/redeliver", {})
    assert result["delivered"] and receiver.take()[1]["id"] == dead[0]["event_id"]
    assert daemon.client.call("GET", at + "?state=dead")["data"] == []
    drop(daemon, hook)


def test_nothing_lost_across_kill(daemon, receiver):
    hook = add(daemon, receiver.url, events=["sandbox.running", "sandbox.destroyed"])
    made = []
    for _ in range(3):
        for _ in range(3):
            made.append(daemon.client.call("POST", "/v1/sandboxes", {})["id"])
        daemon.client.call("GET", "/v1/events?format=json&limit=1")  # the position is recorded with the reply
        daemon.kill("cayd")
        daemon.forgive()
        daemon.wait_ready()
    for id_ in made:
        daemon.client.call("DELETE", f"/v1/sandboxes/{id_}")
    seen, last = {}, 0
    while len(seen) < 2 * len(made):
        _headers, event, _body, _path = receiver.take()
        key = (event["sandbox_id"], event["type"])
        if seen.get(key) == event["id"]:
            continue  # at least once
        assert event["id"] > last, "in order"
        last = event["id"]
        seen.setdefault(key, event["id"])
    assert {key[0] for key in seen} == set(made)
    drop(daemon, hook)


def test_tls(daemon, certificate):
    key, cert, _ca = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    secure = Receiver(context)
    try:
        hook = add(daemon, secure.url)
        result = daemon.client.call("POST", f"/v1/webhooks/{hook['id']}/test", {})
        assert result["delivered"], result
        headers, event, body, _path = secure.take()
        assert event["type"] == "webhook.test" and verify(hook["secret"], headers, body)
        # Its certificate is for another name.
        daemon.client.call("PATCH", f"/v1/webhooks/{hook['id']}",
                           {"url": secure.url.replace("127.0.0.1", "localhost")})
        result = daemon.client.call("POST", f"/v1/webhooks/{hook['id']}/test", {})
        assert not result["delivered"] and "certificate" in result["error"], result
        drop(daemon, hook)
    finally:
        secure.close()


def test_private_addresses_are_refused(api, receiver):
    """The daemon of the other tests has the default setting."""
    for host in ("127.0.0.1", "localhost", "[::1]", "2130706433", "169.254.169.254", "10.0.0.1"):
        port = receiver.url.split(":")[2]
        hook = api.call("POST", "/v1/webhooks", {"url": f"http://{host}:{port}"})
        result = api.call("POST", f"/v1/webhooks/{hook['id']}/test", {})
        assert not result["delivered"] and "webhook_allow_private" in result["error"], (host, result)
        api.call("DELETE", f"/v1/webhooks/{hook['id']}")
    assert receiver.got.empty()


def test_cli(daemon, receiver):
    added = daemon.command("webhook", "add", receiver.url, "--event", "sandbox.error", "--description", "mine")
    assert added.returncode == 0, added
    id_, secret = added.stdout.split()
    assert secret.startswith("whsec_")
    assert id_ in daemon.command("webhook", "ls").stdout
    tested = daemon.command("webhook", "test", id_)
    assert tested.returncode == 0 and "delivered" in tested.stdout, tested
    headers, _event, body, _path = receiver.take()
    assert verify(secret, headers, body)
    receiver.answers.put(503)
    assert daemon.command("webhook", "test", id_).returncode == 8
    assert daemon.command("webhook", "deliveries", id_, "--status", "dead").returncode == 0
    assert daemon.command("webhook", "set", id_, "--disable").returncode == 0
    assert json.loads(daemon.command("--json", "webhook", "info", id_).stdout)["enabled"] is False
    assert daemon.command("webhook", "rm", id_).stdout.strip() == id_
    assert daemon.command("webhook", "info", id_).returncode == 3
