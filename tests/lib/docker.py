# SPDX-License-Identifier: Apache-2.0
"""A separate Docker Engine for the test, and an image with cay in it. No registry is used. The engine runs in the net
and mount namespaces of the caller ('make test-docker' creates them), in its own directory and with its own control
group, so that nothing of it is left when the caller ends.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from lib import tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
MORE_PACKAGES = ("btrfs-progs", "iproute2", "kmod", "procps", "passwd")
# runc, without the capabilities that the machine does not have: Docker asks for all of them.
RUNTIME = '''#!/usr/bin/python3 -I
import json, os, sys
args = sys.argv[1:]
bound = int(next(l.split()[1] for l in open("/proc/self/status") if l.startswith("CapBnd")), 16)
for flag, name in (("--bundle", "config.json"), ("--process", "")):
    if flag in args and not bound >> 24 & 1:
        path = os.path.join(args[args.index(flag) + 1], name).rstrip("/")
        spec = json.load(open(path))
        kinds = spec.get("process", spec).get("capabilities") or {}
        for kind, names in kinds.items():
            kinds[kind] = [n for n in names if n != "CAP_SYS_RESOURCE"]
        json.dump(spec, open(path, "w"))
os.execvp("runc", ["runc", *args])
'''


def run(*words, **kw):
    kw.setdefault("timeout", 300 * tree.SLACK)
    return subprocess.run(list(words), capture_output=True, text=True, **kw)


def runtime_packages():
    """Those that own the libraries of our programs, by the names this release has for them."""
    found = set()
    for name in ("cay", "cayd", "cay-warden"):
        for path in re.findall(r"/\S+", run("ldd", tree.program(name), check=True).stdout):
            for place in (path, "/usr" + path, os.path.realpath(path)):
                owner = run("dpkg-query", "-S", place).stdout.split(":")[0]
                if owner:
                    found.add(owner)
                    break
    return sorted(found)


def cache_of_tree():
    """In the build directory, for the next run: what it was made of, and where it is."""
    cache = ROOT / tree.build_dir() / "docker-image"
    return cache / "packages", cache / "tree"


def find_tree():
    """The tree of make_tree() when it has what the programs need now, else None."""
    mark, place = cache_of_tree()
    return place if mark.exists() and mark.read_text() == wanted_packages() else None


def wanted_packages():
    return ",".join([*runtime_packages(), *MORE_PACKAGES])


def make_tree():
    """A minimal system of the host's own release."""
    mark, place = cache_of_tree()
    release = dict(line.split("=", 1) for line in open("/etc/os-release").read().splitlines() if "=" in line)
    if find_tree():
        return
    shutil.rmtree(mark.parent, ignore_errors=True)
    os.makedirs(mark.parent)
    packages = wanted_packages()
    run("mmdebstrap", "--variant=minbase", f"--include={packages}", release["VERSION_CODENAME"].strip('"'),
        str(place), check=True)
    mark.write_text(packages)


class Engine:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="cay-docker-", dir="/var/tmp")
        self.parent = os.path.basename(self.dir)
        self.env = dict(os.environ, DOCKER_HOST=f"unix://{self.dir}/docker.sock")
        self.process = None

    def docker(self, *words, check=True, **kw):
        done = run("docker", *words, env=self.env, **kw)
        assert not check or done.returncode == 0, f"docker {words}: {done}\n{self.log()}"
        return done

    def log(self):
        path = pathlib.Path(self.dir, "log")
        return "\n".join(path.read_text(errors="replace").splitlines()[-20:]) if path.exists() else ""

    def __enter__(self):
        runtime = pathlib.Path(self.dir, "runtime")
        runtime.write_text(RUNTIME)
        runtime.chmod(0o755)
        self.process = subprocess.Popen(
            ["dockerd", "--data-root", f"{self.dir}/root", "--exec-root", f"{self.dir}/exec",
             "--pidfile", f"{self.dir}/pid", "-H", f"unix://{self.dir}/docker.sock",
             "--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false",
             "--add-runtime", f"here={runtime}", "--default-runtime", "here",
             "--cgroup-parent", self.parent],
            stdout=open(f"{self.dir}/log", "w"), stderr=subprocess.STDOUT)
        until = time.monotonic() + 30 * tree.SLACK
        while run("docker", "info", env=self.env).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > until:
                log = self.log()
                self.__exit__()
                raise RuntimeError(log)
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        for name in self.docker("ps", "-aq", check=False).stdout.split():
            self.docker("rm", "-f", name, check=False)
        self.process.terminate()
        try:
            self.process.wait(30 * tree.SLACK)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for line in reversed(open("/proc/self/mounts").read().splitlines()):
            if line.split()[1].startswith(self.dir + "/"):
                run("umount", "-l", line.split()[1])
        shutil.rmtree(self.dir, ignore_errors=True)
        for top in pathlib.Path("/sys/fs/cgroup").glob(f"**/{self.parent}"):
            for path, _dirs, _files in os.walk(top, topdown=False):
                try:
                    os.rmdir(path)
                except OSError:
                    pass

    def import_tree(self, place, name):
        """With what 'make install' installs, over that of the last run."""
        run("meson", "install", "-C", os.path.join(ROOT, tree.build_dir()), "--no-rebuild",
            env=dict(os.environ, DESTDIR=str(place)), check=True)
        archive = subprocess.Popen(["tar", "-C", str(place), "-c", "."], stdout=subprocess.PIPE)
        done = run("docker", "import", "-", name, env=self.env, stdin=archive.stdout)
        archive.stdout.close()
        assert archive.wait() == 0 and done.returncode == 0, done
