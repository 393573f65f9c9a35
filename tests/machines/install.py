# SPDX-License-Identifier: Apache-2.0
"""Puts into a machine what 'make install' installs, and starts the units."""
import os
import pathlib
import subprocess
import tempfile

import vm

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATES = os.environ.get("CAY_TEMPLATES", "/var/lib/cay/templates")
PREFIX = "/usr"

START = """
set -e
systemd-sysusers
systemd-tmpfiles --create
systemctl daemon-reload
systemctl enable -q cay-warden.service cayd.service
systemctl restart cay-warden.service cayd.service
"""


def tree(build, destination):
    """The tree of 'make install DESTDIR=... PREFIX=/usr'; the build directory keeps its own prefix."""
    build = str((ROOT / build).resolve())
    probe = subprocess.run(["meson", "introspect", "--buildoptions", build], capture_output=True, text=True, check=True).stdout
    if f'"value": "{PREFIX}"' not in probe:
        raise vm.Trouble(f"{build} was not set up with --prefix={PREFIX}; run: meson configure {build} -Dprefix={PREFIX} && ninja -C {build}")
    subprocess.run(["meson", "install", "--quiet", "-C", build], check=True, env=dict(os.environ, DESTDIR=str(destination)))


def install(machine, build):
    with tempfile.TemporaryDirectory(prefix="cay-install-", dir="/var/tmp") as directory:
        tree(build, directory)
        machine.put(directory, "/")
    status, output = machine.run(["/bin/sh", "-c", START], limit_sec=120, quiet=True)
    if status != 0:
        raise vm.Trouble(f"installing: status {status}\n{output}")
