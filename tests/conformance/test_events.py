# SPDX-License-Identifier: Apache-2.0
"""Events: live and replayed, per key, across a kill of the daemon."""

import http.client
import json
import os
import time

import pytest

from lib.client import ApiError
from lib.commands import spawn
from lib.daemon import Daemon


class Events:
    """A stream of events, read one by one."""

    def __init__(self, client, path, last=None, timeout=20):
        host = client.url.split("//")[1]
        self.connection = http.client.HTTPConnection(host, timeout=timeout)
        head = {"Authorization": f"Bearer {client.key}", "Accept": "text/event-stream"}
        if last is not None:
            head["Last-Event-ID"] = str(last)
        self.connection.request("GET", path, headers=head)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.headers["Content-Type"] == "text/event-stream"

    def __iter__(self):
        fields = {}
        while True:
            line = self.response.readline()
            if not line:
                return
            line = line.decode().rstrip("\n")
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
            elif not line and fields:
                yield fields["event"], int(fields["id"]), json.loads(fields["data"])
                fields = {}

    def until(self, kind):
        """Everything up to the first of a kind."""
        seen = []
        for event in self:
            seen.append(event)
            if event[0] == kind:
                return seen
        raise AssertionError(f"the stream ended before {kind}: {seen}")

    def close(self):
        self.connection.close()


def page(api, **query):
    text = "&".join(f"{k}={v}" for k, v in query.items())
    return api.call("GET", f"/v1/events?format=json&{text}")["data"]


def test_events_of_a_sandbox(api, engine):
    with api.sandbox(engine=engine, external_workspace_id="ws-1") as sandbox:
        events = Events(api, f"/v1/sandboxes/{sandbox.id}/events?after=0")
        sandbox.exec(["sh", "-c", "exit 7"])
    seen = events.until("sandbox.destroyed")
    assert not list(events)  # the stream ends with its sandbox
    kinds = [kind for kind, _, _ in seen if kind != "sandbox.provisioning"]
    assert kinds == ["sandbox.running", "process.started", "process.ended", "sandbox.destroyed"]
    ids = [number for _, number, _ in seen]
    assert ids == sorted(set(ids))
    assert all(e["sandbox_id"] == sandbox.id and e["external_workspace_id"] == "ws-1" for _, _, e in seen)
    ended = [e for kind, _, e in seen if kind == "process.ended"][0]
    assert ended["data"]["exit_code"] == 7 and ended["data"]["reason"] == "exited"
    assert seen[-1][2]["data"]["reason"] == "requested"
    assert [e["id"] for e in page(api, sandbox=sandbox.id)] == ids


def test_end_of_a_detached_process(api, engine):
    with api.sandbox(engine=engine) as sandbox:
        events = Events(api, f"/v1/sandboxes/{sandbox.id}/events?type=process.ended&after=0")
        spawn(sandbox, ["sh", "-c", "sleep 0.2; exit 5"])
        ended = next(iter(events))[2]["data"]
        assert ended["exit_code"] == 5 and ended["kind"] == "process"
        events.close()


def test_replay_continues_after_the_last_event(api, engine):
    with api.sandbox(engine=engine) as sandbox:
        for _ in range(5):
            sandbox.exec(["true"])
        all_ids = [e["id"] for e in page(api, sandbox=sandbox.id, type="process")]
        assert len(all_ids) == 10
        events = Events(api, f"/v1/events?sandbox={sandbox.id}&type=process", last=all_ids[3])
        got = [next(iter(events))[1] for _ in range(6)]
        assert got == all_ids[4:]
        sandbox.exec(["true"])
        assert next(iter(events))[1] > all_ids[-1]
        events.close()


def test_deadline_is_warned_of(api, engine):
    with api.sandbox(engine=engine, timeout_sec=3) as sandbox:
        seen = Events(api, f"/v1/sandboxes/{sandbox.id}/events?after=0").until("sandbox.destroyed")
    warnings = [e["data"] for kind, _, e in seen if kind == "sandbox.deadline"]
    assert len(warnings) == 1 and warnings[0]["reason"] == "timeout"
    assert warnings[0]["remaining_ms"] <= 300
    assert seen[-1][2]["data"]["reason"] == "timeout"


def test_a_page_unless_a_stream_is_asked_for(api):
    """A client that does not ask for a stream gets a page; each way to ask for a stream works."""
    with api.sandbox() as sandbox:
        path = f"/v1/sandboxes/{sandbox.id}/events"
        for accept in (None, "*/*", "application/json", "text/html, application/json;q=0.9"):
            status, headers, data = api.raw("GET", path + "?limit=1", headers={"Accept": accept})
            assert status == 200 and headers["Content-Type"] == "application/json"
            body = json.loads(data)
            assert len(body["data"]) == 1 and body["next_cursor"] == str(body["data"][0]["id"])
    for query, accept in (("follow=true", None), ("follow=1", "application/json"), ("format=sse", None),
                          ("", "text/event-stream"), ("", "application/json, Text/Event-Stream;q=0.5"),
                          ("follow=false&format=sse", None)):
        # The sandbox was removed, so its streams end.
        status, headers, data = api.raw("GET", f"{path}?after=0&{query}".rstrip("&"), headers={"Accept": accept})
        assert status == 200 and headers["Content-Type"] == "text/event-stream", (query, accept)
        assert b"event: sandbox.destroyed" in data
    with pytest.raises(ApiError):
        api.call("GET", path + "?format=json&follow=true")


def test_a_stream_that_does_not_follow_ends(api):
    with api.sandbox() as sandbox:
        status, _h, data = api.raw("GET", f"/v1/sandboxes/{sandbox.id}/events?format=sse&follow=false")
        assert status == 200 and b"event: sandbox.running" in data


def test_bad_queries(api):
    for query in ("type=nonsense", "after=x", "after=9223372036854775807", "format=xml", "limit=0", "what=1"):
        with pytest.raises(ApiError) as caught:
            api.call("GET", f"/v1/events?{query}")
        assert caught.value.status == 400, query
    with pytest.raises(ApiError) as caught:
        api.call("GET", "/v1/sandboxes/nosuchsandbox/events")
    assert caught.value.status == 404


def test_kill_of_the_daemon_repeats_no_id():
    """Published events exist afterwards, and no id is reused, however the daemon ended."""
    with Daemon() as daemon:
        told = {}
        for _ in range(3):
            client = daemon.client
            events = Events(client, "/v1/events?after=0")
            with client.sandbox() as sandbox:
                sandbox.exec(["true"])
                for kind, number, event in events:
                    assert told.setdefault(number, event) == event
                    if kind == "process.ended" and event["sandbox_id"] == sandbox.id:
                        break
                daemon.kill("cayd")
                events.close()
                time.sleep(0.1)
                daemon.wait_ready()
                sandbox.client = daemon.client
            kept = {e["id"]: e for e in page(daemon.client, limit=1000)}
            assert {k: v for k, v in kept.items() if k in told} == told
            assert len([k for k in kept if k not in told]) <= 4
