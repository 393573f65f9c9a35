# SPDX-License-Identifier: Apache-2.0
"""Puts into a machine what 'make install' installs, and starts the units."""
import json
import os
import pathlib
import subprocess
import tempfile

import vm

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATES = os.environ.get("CAY_TEMPLATES", "/var/lib/cay/templates")

INSTALL_LIMIT_SEC = 400

START = """
set -e
systemd-sysusers
systemd-tmpfiles --create
systemctl daemon-reload
systemctl enable -q cay-warden.service cayd.service
systemctl restart cay-warden.service cayd.service
"""


def prefix(build):
    done = subprocess.run(["meson", "introspect", "--buildoptions", str(ROOT / build)], capture_output=True, text=True, check=True)
    return next(option["value"] for option in json.loads(done.stdout) if option["name"] == "prefix")


def tree(build, destination):
    """The tree of 'make install DESTDIR=...'."""
    done = subprocess.run(["meson", "install", "--quiet", "--no-rebuild", "-C", str(ROOT / build)], capture_output=True, text=True, check=False,
                          env=dict(os.environ, DESTDIR=str(destination)))
    if done.returncode != 0:
        raise vm.Trouble(f"meson install: {done.stderr or done.stdout}")


def install(machine, build):
    with tempfile.TemporaryDirectory(prefix="cay-install-", dir="/var/tmp") as directory:
        tree(build, directory)
        machine.put(directory, "/")
    status, output = machine.run(["/bin/sh", "-c", START], limit_sec=INSTALL_LIMIT_SEC, quiet=True)
    if status != 0:
        raise vm.Trouble(f"installing: status {status}\n{output}")
