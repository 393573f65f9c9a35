# SPDX-License-Identifier: Apache-2.0
"""The working directory of a bench run, its storage and programs, and their removal."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests"))

from lib import janitor, tree  # noqa: E402

PREFIX = "cay-bench-"
BASE = "/var/tmp"
TEMPLATES = os.environ.get("CAY_TEMPLATES", "/var/lib/cay/templates")
CGROUPS = "/sys/fs/cgroup"
# The limit's own groups, and those the container tools make and leave empty.
GROUPS = ("cay-limit.", "cay-bench", "docker")


class Trouble(Exception):
    """An error that is shown to the user without a traceback."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def program(name):
    path = tree.build_dir() / "bench" / name
    if not path.exists():
        raise Trouble(f"{path} is missing: run 'make' first")
    return str(path)


def rootfs(name="base"):
    ref = pathlib.Path(TEMPLATES, "refs", name)
    if not ref.exists():
        raise Trouble(f"no template '{name}' under {TEMPLATES}: run 'make run' once")
    tree_hash = ref.read_text().split()[1]
    return str(pathlib.Path(TEMPLATES, tree_hash, "tree", "rootfs"))


def run_json(argv, timeout=600):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout)
    if done.returncode != 0 or not done.stdout.strip():
        raise Trouble(f"{' '.join(argv)}: status {done.returncode}: {done.stderr.strip()[-600:]}")
    return json.loads(done.stdout)


def group_dirs(names=GROUPS):
    """Control groups at the top of any hierarchy with one of our names."""
    found = []
    for top in pathlib.Path(CGROUPS).glob("*"):
        if top.is_dir() and not top.is_symlink():
            found += [d for d in top.iterdir() if d.is_dir() and d.name.startswith(names)]
    return found


def remove_groups(keep=()):
    for top in group_dirs():
        if str(top) in keep:
            continue
        for path, _dirs, _files in os.walk(top, topdown=False):
            try:
                os.rmdir(path)
            except OSError:
                pass  # belongs to another user of the machine, and is in use


class Place:
    """A directory of this run; a loop-backed btrfs in it is the limit program's storage."""

    def __init__(self):
        self.sweep_stale()
        self.groups_before = {str(d) for d in group_dirs()}
        self.path = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=BASE)
        self.storage = os.path.join(self.path, "storage")
        image = os.path.join(self.path, "storage.btrfs")
        try:
            os.mkdir(self.storage)
            with open(image, "wb") as f:
                f.truncate(4 << 30)
            subprocess.run(["mkfs.btrfs", "-q", image], check=True, capture_output=True)
            subprocess.run(["mount", "-o", "loop,noatime", image, self.storage], check=True)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def sweep_stale():
        """Removes the directory of a killed run, whose process has ended."""
        for path in pathlib.Path(BASE).glob(PREFIX + "*"):
            pid = path.name[len(PREFIX):].split("-")[0]
            if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                say(f"removing what an earlier run left: {path}")
                stop_by_path(str(path))
                put_away(str(path))
                remove_groups()

    def limit(self, mode, count, *more, storage=None):
        return [program("limit"), "--template", rootfs(), "--storage", storage or self.storage, "--init",
                program("limit-init"), *more, mode, str(count)]

    def close(self):
        put_away(self.path)
        remove_groups(keep=self.groups_before)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def put_away(path):
    janitor.unmount_below(path)
    janitor.detach_loops(path)
    shutil.rmtree(path, ignore_errors=True)


def stop_by_path(path):
    """Ends processes that were started with this run's directory in their arguments."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as f:
                words = f.read()
        except OSError:
            continue
        if path.encode() in words:
            try:
                os.kill(int(entry), 9)
            except ProcessLookupError:
                pass
