# SPDX-License-Identifier: Apache-2.0
"""Several sandboxes created by one call, and the limits of a key, on a real engine."""

import concurrent.futures
import contextlib

import pytest

from lib.client import ApiError, Client


@contextlib.contextmanager
def key(api, **limits):
    """A client with a separate key; its sandboxes are removed with it."""
    row = api.call("POST", "/v1/keys", {"name": "quota", "scopes": ["sandboxes:read", "sandboxes:write", "exec"],
                                        **limits})
    client = Client(api.url, row["key"])
    client.key_id = row["id"]
    try:
        yield client
    finally:
        for sandbox in client.call("GET", "/v1/sandboxes?limit=1000")["data"]:
            client.call("DELETE", f"/v1/sandboxes/{sandbox['id']}")
        api.call("DELETE", f"/v1/keys/{row['id']}")
        client.close()


def used(api, client, what):
    return api.call("GET", f"/v1/keys/{client.key_id}")["quota"][what]["used"]


def test_each_is_its_own(api, engine):
    with key(api) as client:
        answer = client.call("POST", "/v1/sandboxes", {"count": 6, "name": "many", "engine": engine, "memory_mb": 64},
                             {"Idempotency-Key": "six"})
        rows = answer["data"]
        assert [row["name"] for row in rows] == [f"many-{n}" for n in range(1, 7)]
        for row in rows:
            done = client.call("POST", f"/v1/sandboxes/{row['id']}/exec", {"command": "hostname; echo mine > f; cat f"})
            assert done["stdout"].splitlines()[-1] == "mine"
        again = client.call("POST", "/v1/sandboxes", {"count": 6, "name": "many", "engine": engine, "memory_mb": 64},
                            {"Idempotency-Key": "six"})
        assert again == answer
        assert used(api, client, "sandboxes") == 6


def test_quota_under_concurrency(api, engine):
    with key(api, max_memory_mb=640) as client:
        def make(n):
            try:
                body = {"engine": engine, "memory_mb": 64, **({"count": 3} if n % 3 == 0 else {})}
                got = client.call("POST", "/v1/sandboxes", body)
                return len([row for row in got.get("data", [got]) if "error" not in row])
            except ApiError as error:
                assert error.status == 429 and error.code == "quota_exceeded", error
                assert error.error["field"] == "max_memory_mb" and error.error["limit"] == 640
                return 0

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            made = sum(pool.map(make, range(12)))
        assert made == 10
        assert used(api, client, "memory_mb") == 640
        with pytest.raises(ApiError) as caught:
            client.call("POST", "/v1/sandboxes", {"engine": engine, "memory_mb": 1})
        assert caught.value.error["used"] == 640
