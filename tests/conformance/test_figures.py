# SPDX-License-Identifier: Apache-2.0
"""GET /metrics as Prometheus reads it."""

import os
import re
import shutil
import subprocess

import pytest

from lib.daemon import Daemon

PROMTOOL = os.environ.get("CAY_PROMTOOL") or shutil.which("promtool")
LINE = re.compile(r'(cay_[a-z_]+)(?:\{([a-z]+="[^"]*")\})? (\S+)')


@pytest.fixture(scope="module")
def own():
    with Daemon() as daemon:
        yield daemon


def read(daemon):
    """{name: {"help":, "type":, "values": {labels: number}}}, with every rule of the format checked."""
    status, headers, data = daemon.client.raw("GET", "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found, current = {}, None
    for line in data.decode().splitlines():
        if line.startswith("# HELP "):
            current = line.split()[2]
            assert current not in found, f"{current} twice"
            found[current] = {"help": line.split(None, 3)[3], "values": {}}
        elif line.startswith("# TYPE "):
            assert line.split()[2] == current
            found[current]["type"] = line.split()[3]
        else:
            name, labels, value = LINE.fullmatch(line).groups()
            family = re.sub("_(bucket|sum|count)$", "", name) if found[current]["type"] == "histogram" else name
            assert family == current, line
            found[current]["values"][name + ("{%s}" % labels if labels else "")] = float(value)
    return found


def test_families(own):
    for name, family in read(own).items():
        assert family["help"].endswith(".") or name == "cay_build_info", name
        assert family["type"] in ("counter", "gauge", "histogram") and family["values"], name
        assert (family["type"] == "counter") == name.endswith("_total"), name
        if family["type"] == "histogram":
            assert name.endswith("_seconds")


def test_histograms_count_what_happens(own):
    before = read(own)
    with own.client.sandbox() as box:
        box.exec(["sleep", "0.3"]).ok()
    after = read(own)
    for name, least in (("cay_create_duration_seconds", 1), ("cay_exec_duration_seconds", 1),
                        ("cay_http_request_duration_seconds", 3)):
        old, new = before[name]["values"], after[name]["values"]
        assert new[name + "_count"] - old[name + "_count"] >= least, name
        buckets = [value for key, value in new.items() if "_bucket" in key]
        assert buckets == sorted(buckets) and buckets[-1] == new[name + "_count"]
        assert list(new)[-3] == name + '_bucket{le="+Inf"}'
    took = after["cay_exec_duration_seconds"]["values"], before["cay_exec_duration_seconds"]["values"]
    assert took[0]["cay_exec_duration_seconds_sum"] - took[1]["cay_exec_duration_seconds_sum"] >= 0.3
    assert took[0]['cay_exec_duration_seconds_bucket{le="0.25"}'] == took[1]['cay_exec_duration_seconds_bucket{le="0.25"}']


@pytest.mark.skipif(not PROMTOOL, reason="promtool is not installed (Debian package prometheus)")
def test_promtool(own):
    _status, _headers, data = own.client.raw("GET", "/metrics")
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=data, capture_output=True)
    assert done.returncode == 0 and not done.stdout and not done.stderr, (done.stdout, done.stderr)
