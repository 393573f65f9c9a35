# SPDX-License-Identifier: Apache-2.0
"""A sandbox from creation to removal, compared with crun in the same machine."""
import json
import pathlib
import shutil
import statistics
import subprocess
import time

import pytest

from machines.guest.units import Units

TURNS = 15
AT_LEAST = 3


def timed(work):
    begun = time.monotonic()
    work()
    return (time.monotonic() - begun) * 1000


def crun_bundle(directory, rootfs):
    """crun's own default specification with our root file system and command."""
    subprocess.run(["crun", "spec"], cwd=directory, check=True)
    config = directory / "config.json"
    spec = json.loads(config.read_text(encoding="utf-8"))
    spec["process"].update(terminal=False, args=["/bin/echo", "hi"], cwd="/")
    spec["root"] = {"path": str(rootfs), "readonly": True}
    config.write_text(json.dumps(spec), encoding="utf-8")


@pytest.mark.skipif(not shutil.which("crun"), reason="needs crun")
def test_create_exec_destroy_is_faster_than_crun(tmp_path):
    templates = pathlib.Path("/var/lib/cay/templates")
    content = templates / (templates / "refs/base").read_text(encoding="utf-8").split()[-1]
    crun_bundle(tmp_path, content / "tree/rootfs")

    def crun():
        done = subprocess.run(["crun", "run", "--bundle", str(tmp_path), f"speed-{time.monotonic_ns()}"], capture_output=True, text=True, check=False)
        assert done.stdout == "hi\n", done

    with Units() as units:
        def cay():
            with units.client.sandbox() as sandbox:
                assert sandbox.exec(["/bin/echo", "hi"]).stdout == "hi\n"
        for work in (crun, cay):
            work()
        ours, theirs = zip(*[(timed(cay), timed(crun)) for _ in range(TURNS)])
    ratio = statistics.median(theirs) / statistics.median(ours)
    print(f"\ncreate, exec, destroy: {statistics.median(ours):.0f} ms; crun run: {statistics.median(theirs):.0f} ms; {ratio:.1f} times faster")
    assert ratio >= AT_LEAST, f"only {ratio:.1f} times faster than crun"
