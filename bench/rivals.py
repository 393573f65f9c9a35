# SPDX-License-Identifier: Apache-2.0
"""The alternatives that are installed here, each as a command that prints "hi"."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import place

PACKAGES = {"bwrap": "bubblewrap", "crun": "crun", "runc": "runc", "dockerd": "docker.io"}
POLICY = pathlib.Path("/usr/sbin/policy-rc.d")
DOCKER_START_SEC = 60
ECHO = ["/bin/echo", "hi"]


def install(names):
    wanted = [PACKAGES[n] for n in names if shutil.which(n) is None]
    if not wanted:
        return
    place.say(f"installing {' '.join(wanted)}")
    # Docker's package would start its own dockerd, with its bridge and firewall rules.
    made = not POLICY.exists()
    if made:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    try:
        subprocess.run(["apt-get", "install", "-q", "-y", "--no-install-recommends", "-o",
                        "DPkg::Lock::Timeout=120", *wanted], env=env, check=True,
                       stdout=subprocess.DEVNULL)
    except (subprocess.CalledProcessError, OSError) as error:
        place.say(f"could not install {' '.join(wanted)}: {error}")
    finally:
        if made:
            POLICY.unlink()


def version(*argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stdout or done.stderr).strip().splitlines()[0] if done.stdout or done.stderr else None


def bwrap(_place):
    return ["bwrap", "--unshare-all", "--ro-bind", place.rootfs(), "/", "--proc", "/proc", "--dev",
            "/dev", *ECHO]


def bundle(where, tool):
    """The tool's default spec ('spec') with our root and command."""
    path = os.path.join(where.path, f"bundle-{tool}")
    os.mkdir(path)
    subprocess.run([tool, "spec"], cwd=path, check=True, capture_output=True)
    config = os.path.join(path, "config.json")
    with open(config) as f:
        spec = json.load(f)
    spec["process"]["terminal"] = False
    spec["process"]["args"] = ECHO
    spec["process"]["cwd"] = "/"
    spec["root"] = {"path": place.rootfs(), "readonly": True}
    spec["linux"]["cgroupsPath"] = f"/cay-bench-{tool}"
    with open(config, "w") as f:
        json.dump(spec, f)
    return path


def runc(where):
    return ["runc", "--root", os.path.join(where.path, "runc"), "run", "--bundle",
            bundle(where, "runc"), "bench-{n}"]


def crun(where):
    return ["crun", "--root", os.path.join(where.path, "crun"), "run", "--bundle",
            bundle(where, "crun"), "bench-{n}"]


def in_own_mounts(argv):
    """crun 1.8 refuses hosts whose v2 hierarchy has a controller beside v1 ones: hides it."""
    return ["unshare", "-m", "sh", "-c",
            'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"', "sh", *argv]


class Docker:
    """A separate dockerd: its own data, socket and containerd, no bridge, no firewall rules."""

    def __init__(self, where):
        self.path = os.path.join(where.path, "docker")
        self.socket = f"unix://{self.path}/docker.sock"
        self.process = None
        os.mkdir(self.path)
        self.log = open(os.path.join(self.path, "log"), "w+")

    def client(self, *words):
        binary = "/usr/bin/docker" if os.path.exists("/usr/bin/docker") else "docker"
        return [binary, "-H", self.socket, *words]

    def start(self):
        config = os.path.join(self.path, "daemon.json")
        pathlib.Path(config).write_text("{}")
        self.process = subprocess.Popen(
            ["dockerd", "--config-file", config, "-H", self.socket, "--data-root",
             f"{self.path}/data", "--exec-root", f"{self.path}/exec", "--pidfile",
             f"{self.path}/pid", "--bridge=none", "--iptables=false", "--ip6tables=false",
             "--ip-forward=false", "--ip-masq=false", "--exec-opt", "native.cgroupdriver=cgroupfs"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        until = time.monotonic() + DOCKER_START_SEC
        while subprocess.run(self.client("version"), capture_output=True).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > until:
                raise place.Trouble(f"dockerd did not start:\n{self.tail()}")
            time.sleep(0.2)
        self.make_image()

    def make_image(self):
        """echo and its libraries from the base template: the smallest image docker could have."""
        tar = subprocess.run(
            ["tar", "-C", place.rootfs(), "-c", "--dereference", "--hard-dereference", "bin/echo",
             "lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/libc.so.6"],
            check=True, capture_output=True)
        subprocess.run(self.client("import", "-", "bench"), input=tar.stdout, check=True,
                       capture_output=True)

    def command(self):
        return self.client("run", "--rm", "--network", "none", "bench", *ECHO)

    def tail(self):
        self.log.seek(0)
        return "".join(self.log.readlines()[-15:])

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        place.stop_by_path(self.path)  # a containerd or shim that outlived it
        place.put_away(self.path)


def check(argv):
    """One trial run: None, or why this alternative cannot be measured here."""
    argv = [word.replace("{n}", "check") for word in argv]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode != 0 or done.stdout != "hi\n":
        return (done.stderr or done.stdout).strip()[-300:] or f"status {done.returncode}"
    return None
