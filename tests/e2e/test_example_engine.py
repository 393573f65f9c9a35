# SPDX-License-Identifier: Apache-2.0
"""The engine that docs/internals/engine.md shows passes the core of the conformance suite."""

import os
import subprocess
import sys

import pytest

from lib import tree

# What every engine must do: life cycle, commands, processes. Tests of capabilities skip themselves.
CORE = ("test_lifecycle.py", "test_exec.py", "test_processes.py", "test_streams.py", "test_previews.py")


def test_core_of_the_conformance_suite():
    build = tree.build_dir() / "tests/fault/example/tree"
    if not (build / "src/daemon/cayd").exists():
        pytest.skip("no tree with the example engine: ninja faults")
    env = dict(os.environ, CAY_BUILD=str(build), CAY_TEST_ENGINES="example")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                           *(str(tree.SOURCE / "tests/conformance" / name) for name in CORE)],
                          cwd=tree.SOURCE, env=env, capture_output=True, text=True, timeout=600 * tree.SLACK)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
