# SPDX-License-Identifier: Apache-2.0
"""Runs before the machine reboots; test_after_reboot.py checks the result."""
import json
import pathlib
import subprocess

from machines.guest.units import Units

NOTES = pathlib.Path("/var/lib/machine-reboot.json")
LIFETIME_SEC = 3600


def test_sandboxes_are_prepared():
    with Units() as units:
        made = {}
        for kind in ("running", "frozen", "hibernated"):
            sandbox = units.client.create(timeout_sec=LIFETIME_SEC, metadata={"kind": kind})["id"]
            units.client.exec(sandbox, f"echo {kind} > /workspace/word").ok()
            made[kind] = sandbox
        units.client.call("POST", f"/v1/sandboxes/{made['frozen']}/pause", {"kind": "freeze"})
        units.client.call("POST", f"/v1/sandboxes/{made['hibernated']}/pause", {"kind": "hibernate"})
        gone = units.client.create()["id"]
        units.client.delete(gone)
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")
        NOTES.unlink(missing_ok=True)
        NOTES.write_text(json.dumps({"made": made, "gone": gone, "boot": boot}), encoding="utf-8")
        # A power failure may follow. It may cost the last seconds; older data must be there.
        subprocess.run(["sync"], check=True)
