# SPDX-License-Identifier: Apache-2.0
"""The operator's settings: validation, the OpenAPI document and /v1/options follow them."""

import pytest

from lib.client import ApiError
from lib.daemon import Daemon

RAISED = {"cpu_count": ("max_cpu_count", 12, 0.05), "memory_mb": ("max_memory_mb", 16384, 1),
          "disk_size_mb": ("max_disk_size_mb", 20480, 1), "timeout_sec": ("max_timeout_sec", 8640000, 1),
          "idle_timeout_sec": ("max_timeout_sec", 8640000, 0)}


def settings(values):
    return {"CAY_" + name.upper(): str(value) for name, value in values.items()}


@pytest.fixture(scope="module")
def raised():
    with Daemon(env=settings({setting: value for setting, value, _low in RAISED.values()})) as daemon:
        yield daemon.client


@pytest.mark.parametrize("field", RAISED)
def test_raised_limits(raised, field):
    """The new bound is accepted by every layer, one more is refused with the range, and both are published."""
    _setting, most, least = RAISED[field]
    made = raised.create(**{field: most})
    assert made[field] == most
    raised.delete(made["id"])
    with pytest.raises(ApiError) as caught:
        raised.delete(raised.create(**{field: most + 1})["id"])
    assert caught.value.status == 400 and str(most) in caught.value.error["message"]
    shown = raised.call("GET", "/openapi.json")["paths"]["/v1/sandboxes"]["post"]["requestBody"]["content"][
        "application/json"]["schema"]["properties"][field]
    assert (shown["minimum"], shown["maximum"]) == (least, most)
    limit = raised.options()["limits"]["sandbox"][field]
    assert (limit["min"], limit["max"]) == (least, most)


def test_raised_times_of_later_calls(raised):
    """extend, patch, resume and fork have the same bound."""
    with raised.sandbox() as box:
        path = f"/v1/sandboxes/{box.id}"
        assert raised.call("POST", path + "/extend", {"timeout_sec": 8640000})["timeout_sec"] == 8640000
        assert raised.call("PATCH", path, {"idle_timeout_sec": 8640000})["idle_timeout_sec"] == 8640000
        for method, tail, body in (("POST", "/extend", {"timeout_sec": 8640001}),
                                   ("PATCH", "", {"timeout_sec": 8640001}),
                                   ("POST", "/resume", {"timeout_sec": 8640001}),
                                   ("POST", "/fork", {"timeout_sec": 8640001})):
            status, _h, data = raised.raw(method, path + tail, body)
            assert status == 400, (tail, data)


def test_raised_time_of_a_command(raised):
    """A command may run for as long as its sandbox."""
    with raised.sandbox(timeout_sec=8640000) as box:
        for tail, more in (("/exec", {"command": "true"}), ("/processes", {"command": "true"}),
                           ("/code", {"code": "1", "language": "bash"})):
            path = f"/v1/sandboxes/{box.id}{tail}"
            status, _h, data = raised.raw("POST", path, {**more, "timeout_sec": 8640001})
            assert status == 400 and b"8640000" in data, (tail, data)
            if tail != "/code":  # needs another template
                raised.call("POST", path, {**more, "timeout_sec": 8640000})
            shown = raised.call("GET", "/openapi.json")["paths"]["/v1/sandboxes/{id}" + tail]["post"]["requestBody"][
                "content"]["application/json"]["schema"]["properties"]["timeout_sec"]
            assert shown["maximum"] == 8640000, (tail, shown)
    assert raised.options()["limits"]["exec"]["timeout_sec"]["max"] == 8640000


def test_fractions(raised):
    """Fractions of a CPU are kept, counted and billed as such."""
    key = raised.call("POST", "/v1/keys", {"name": "half", "scopes": ["sandboxes:read", "sandboxes:write"],
                                           "max_vcpus": 1})
    client = type(raised)(raised.url, key["key"])
    first = client.create(cpu_count=0.25)
    second = client.create(cpu_count=0.5)
    assert (first["cpu_count"], second["cpu_count"]) == (0.25, 0.5)
    with pytest.raises(ApiError) as caught:
        client.create(cpu_count=0.5)
    assert caught.value.code == "quota_exceeded" and "0.75 of 1" in caught.value.error["message"]
    assert client.call("GET", "/v1/keys/self")["quota"]["vcpus"] == {"limit": 1, "used": 0.75}
    third = client.create(cpu_count=0.25)
    for made in (first, second, third):
        client.delete(made["id"])


def test_fraction_survives_a_restart():
    with Daemon() as daemon:
        made = daemon.client.create(cpu_count=1.5)
        daemon.kill("cayd")
        daemon.wait_ready()
        assert daemon.client.get(made["id"])["cpu_count"] == 1.5


def test_lowered_limits_lower_the_defaults():
    with Daemon(env=settings({"max_memory_mb": 256, "max_timeout_sec": 60})) as daemon:
        made = daemon.client.create()
        assert made["memory_mb"] == 256 and made["timeout_sec"] == 60
        with pytest.raises(ApiError):
            daemon.client.create(memory_mb=257)
