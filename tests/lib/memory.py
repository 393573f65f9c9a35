# SPDX-License-Identifier: Apache-2.0
"""Daemons whose sandboxes keep their memory when they are hibernated: with CRIU, where there is one."""

import os
import time

import pytest

from lib import tree

CRIU = os.environ.get("CAY_CRIU", "/var/lib/cay/criu")
ENV = {"CAY_CRIU": CRIU}


def need():
    if os.environ.get("CAY_TEST_SANITIZED") == "1":
        pytest.skip("CRIU cannot save a sanitized agent: its shadow memory has no end")
    if not os.access(f"{CRIU}/usr/sbin/criu", os.X_OK):
        pytest.skip(f"no CRIU in {CRIU} (src/build/cay-criu fetches it): hibernating keeps files only")


def claimed(client, timeout=30):
    """Its own check is known some time after the start. Skips where CRIU does not work on this kernel."""
    until = time.monotonic() + timeout * tree.SLACK
    while "snapshot_memory" not in (client.capabilities("native") or ()):
        if time.monotonic() > until:
            pytest.skip("CRIU is there and does not work on this kernel")
        time.sleep(0.05)
