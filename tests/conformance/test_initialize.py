# SPDX-License-Identifier: Apache-2.0
"""Initializers on a real engine; tests/component/test_initialize.c has their rules."""

import pytest

from lib.client import ApiError


def create(api, engine, **body):
    return api.call("POST", "/v1/sandboxes", {"engine": engine, "timeout_sec": 300, **body})


@pytest.mark.parametrize("mode", ["prefer", "bypass"])
def test_done_before_it_runs(api, engine, mode):
    row = create(api, engine, pool={"mode": mode}, env={"WHAT": "said"},
                 initializers=["echo $WHAT > f", {"command": "cat f f > g; echo $MORE >> g", "env": {"MORE": "more"}}])
    assert row["state"] == "running"
    try:
        assert api.exec(row["id"], "cat g").stdout == "said\nsaid\nmore\n"
    finally:
        api.delete(row["id"])


def test_a_failure_can_be_looked_into(api, engine):
    with pytest.raises(ApiError) as caught:
        create(api, engine, name="gone", initializers=["exit 5"])
    assert (caught.value.status, caught.value.code) == (422, "initializer_failed")
    assert "gone" not in [row["name"] for row in api.list()]
    with pytest.raises(ApiError) as caught:
        create(api, engine, name="kept", retain_on_failure=True,
               initializers=[{"name": "setup", "command": "seq 1 100000; echo left > f; echo it broke; exit 5"}])
    row = api.get("kept")
    try:
        assert (row["state"], row["state_reason"]) == ("error", "boot_failed")
        assert row["last_error"].startswith("initializer 1 of 1 (setup) ended with exit code 5")
        assert row["last_error"].endswith("it broke") and "it broke" in caught.value.error["message"]
        assert api.exec("kept", "cat f").stdout == "left\n"
        assert api.call("GET", "/v1/sandboxes/kept/files/read?path=f")["total_lines"] == 1
    finally:
        api.delete("kept")
