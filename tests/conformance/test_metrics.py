# SPDX-License-Identifier: Apache-2.0
"""GET /v1/sandboxes/ID/metrics: usage beside the limits that apply to it."""


def metrics(sandbox):
    return sandbox.client.call("GET", f"/v1/sandboxes/{sandbox.id}/metrics")


def test_limits_are_those_of_the_sandbox(api, engine):
    with api.sandbox(engine=engine, memory_mb=256, disk_size_mb=512) as sandbox:
        row = metrics(sandbox)
        assert row["memory_limit_bytes"] == 256 << 20
        assert row["disk_limit_bytes"] == 512 << 20


def test_limits_of_a_default_sandbox(api, engine):
    with api.sandbox(engine=engine) as sandbox:
        info = api.call("GET", f"/v1/sandboxes/{sandbox.id}")
        row = metrics(sandbox)
        assert row["memory_limit_bytes"] == info["memory_mb"] << 20 > 0
        assert row["disk_limit_bytes"] == info["disk_size_mb"] << 20 > 0
