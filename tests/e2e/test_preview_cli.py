# SPDX-License-Identifier: Apache-2.0
"""cay preview, tunnel and ports, as people use them, with curl on the address they print."""

import calendar
import json
import subprocess
import time

import pytest

from lib import tree
from lib.commands import spawn, wait_for


@pytest.fixture(scope="module")
def web(client):
    with client.sandbox(timeout_sec=900) as sandbox:
        sandbox.put("/workspace/index.html", b"shown\n")
        spawn(sandbox, ["python3", "-m", "http.server", "8080", "--bind", "127.0.0.1"])
        path = f"/v1/sandboxes/{sandbox.id}/ports"
        wait_for(lambda: client.call("GET", path)["data"], timeout=30)
        yield sandbox


def cay(daemon, *words, ok=True):
    done = subprocess.run([daemon.cay, "--state", daemon.state, *words], text=True, capture_output=True,
                          env=daemon.env, timeout=60 * tree.SLACK)
    assert not ok or done.returncode == 0, done
    return done


def curl(url, *words):
    """(status, body)"""
    done = subprocess.run(["curl", "-sS", "--noproxy", "*", "-w", "\n%{http_code}", *words, url], text=True,
                          capture_output=True, timeout=60 * tree.SLACK)
    assert done.returncode == 0, done
    body, status = done.stdout.rsplit("\n", 1)
    return int(status), body


def rows(daemon, web):
    return json.loads(cay(daemon, "--json", "preview", web.id).stdout)["data"]


def test_preview_is_an_address(daemon, web):
    assert "no previews" in cay(daemon, "preview", web.id).stderr + cay(daemon, "preview", web.id).stdout
    url = cay(daemon, "preview", web.id, "8080").stdout.strip()
    assert url.startswith(f"http://8080-{web.id}.") and url.count("\n") == 0
    assert curl(url + "/") == (200, "shown\n")
    row, = rows(daemon, web)
    assert (row["port"], row["visibility"], row["url"], row["requests"]) == (8080, "public", url, 1)
    table = cay(daemon, "preview", web.id).stdout
    assert row["id"] in table and url in table
    assert cay(daemon, "preview", web.id, "rm", row["id"]).stdout in ("", row["id"] + "\n")
    assert rows(daemon, web) == []
    assert curl(url + "/")[0] == 404
    assert cay(daemon, "preview", web.id, "rm", row["id"], ok=False).returncode != 0


def test_private_prints_an_address_that_opens(daemon, web):
    url = cay(daemon, "preview", web.id, "8080", "--private", "--expires", "10m").stdout.strip()
    plain, token = url.split("?")
    assert token.startswith("cay_token=cay_pv_")
    assert curl(plain)[0] == 401
    assert curl(url) == (200, "shown\n")
    row, = rows(daemon, web)
    assert (row["visibility"], row["share_tokens"]) == ("private", 1)
    other = cay(daemon, "preview", web.id, "share", row["id"]).stdout.strip()
    assert other != url and curl(other) == (200, "shown\n")
    # The administrator's key opens it, too.
    assert curl(plain, "-H", f"Authorization: Bearer {daemon.key}")[0] == 200
    cay(daemon, "preview", web.id, "rm", row["id"])
    assert curl(url)[0] == 404


def test_tunnel_ends_by_itself(daemon, web):
    now = time.time()
    url = cay(daemon, "tunnel", web.id, "8080").stdout.strip()
    assert curl(url + "/") == (200, "shown\n")
    row, = rows(daemon, web)
    ends = calendar.timegm(time.strptime(row["expires_at"][:19], "%Y-%m-%dT%H:%M:%S"))
    assert abs(ends - now - 3600) < 60 * tree.SLACK
    cay(daemon, "tunnel", web.id, "8080", "--expires", "1s")
    wait_for(lambda: curl(url + "/")[0] == 410, timeout=20)
    cay(daemon, "preview", web.id, "rm", row["id"])


def test_localhost_and_reserved(daemon, web):
    row = json.loads(cay(daemon, "--json", "preview", web.id, "8080", "--localhost").stdout)
    assert row["host_header"] == "localhost"
    cay(daemon, "preview", web.id, "rm", row["id"])
    done = cay(daemon, "preview", web.id, "22", ok=False)
    assert done.returncode != 0 and "port 22" in done.stderr
    row = json.loads(cay(daemon, "--json", "preview", web.id, "5901", "--reserved").stdout)
    cay(daemon, "preview", web.id, "rm", row["id"])
    for word in ("0", "65536", "http", "-1"):
        done = cay(daemon, "preview", "--", web.id, word, ok=False)
        assert done.returncode != 0 and word in done.stderr, done


def test_ports(daemon, web):
    table = cay(daemon, "ports", web.id).stdout.splitlines()
    assert table[0].split() == ["PORT", "ADDRESS", "UID", "PID", "PROCESS"]
    assert table[1].split()[:3] == ["8080", "127.0.0.1", "1000"] and "python3" in table[1]
    row, = json.loads(cay(daemon, "--json", "ports", web.id).stdout)["data"]
    assert row["port"] == 8080
    assert cay(daemon, "ports", "nosuchsandbox", ok=False).returncode != 0
