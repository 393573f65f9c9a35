# SPDX-License-Identifier: Apache-2.0
"""The paths of the programs under test, and the probe that is built for them."""

import hashlib
import os
import pathlib
import secrets
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
WHERE = {
    "cay": "src/cli/cay",
    "cayd": "src/daemon/cayd",
    "cay-warden": "src/warden/cay-warden",
    "cay-agent": "src/agent/cay-agent",
    "cay-tools": "src/tools/cay-tools",
}
# Sanitizer builds and slow machines: all time bounds are multiplied by this.
SLACK = float(os.environ.get("CAY_TEST_SLACK", "1"))
# Sanitizer programs also use several times the memory.
SANITIZED = "CAY_TEST_SANITIZED" in os.environ


def build_dir(name=None):
    """The build tree: CAY_BUILD, or build/ beside the sources; name selects a sibling of it."""
    if name:
        return SOURCE / name
    chosen = os.environ.get("CAY_BUILD", "build")
    path = pathlib.Path(chosen)
    return path if path.is_absolute() else SOURCE / path


# cayd and cay-warden that die where a test requests it: tests/fault/meson.build.
FAULTS = build_dir() / "tests/fault/tree"
NO_FAULTS = f"needs {FAULTS.relative_to(SOURCE) if FAULTS.is_relative_to(SOURCE) else FAULTS} (ninja faults)"


def program(name, build=None):
    return str((build or build_dir()) / WHERE[name])


def missing_programs(build=None):
    return [n for n in WHERE if not os.access(program(n, build), os.X_OK)]


def probe_path():
    """Builds tests/probe once per content and returns the static program's path."""
    sources = sorted((SOURCE / "tests/probe").glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()[:16]
    target = pathlib.Path(tempfile.gettempdir()) / f"cay-probe-{os.getuid()}-{digest}"
    if not target.exists():
        fresh = str(target) + f".{secrets.token_hex(6)}"  # lanes have the same pids
        subprocess.run(
            ["musl-gcc", "-static", "-D_GNU_SOURCE", "-Os", "-s", "-w",
             # musl's wrapper hides the kernel's headers; these come after its own.
             "-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu",
             "-o", fresh] + [str(p) for p in sources if p.suffix == ".c"],
            check=True)
        os.rename(fresh, target)
    return str(target)
