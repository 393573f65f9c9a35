# SPDX-License-Identifier: Apache-2.0
"""kill -9 of cay-warden at chosen system calls of create and destroy (CRA-01, NSP-09).

strace delivers the signal exactly at the N-th call of the named set; a second warden on the same
state directory must keep living sandboxes, sweep unfinished ones, and leave nothing when it ends.
"""

import os
import random
import shutil
import socket
import struct
import subprocess
import time

import pytest

from lib import census, tree
from lib.client import ApiError
from lib.daemon import TEMPLATES
from lib.direct import Warden

pytestmark = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")

SEED = int(os.environ.get("CAY_SEED", "0")) or random.randrange(1 << 30)
POINTS = int(os.environ.get("CAY_KILL_POINTS", "16"))
CALLS = "clone3,openat,write,mkdirat,ioctl,setns,unshare,fsopen,fsmount,move_mount,open_tree,mount_setattr," \
        "sendmsg,unlinkat,close,pidfd_open,pwrite64,fcntl,kill,pidfd_send_signal"


class Traced(Warden):
    """A warden that dies at a chosen call once it is up."""

    def arm(self, when):
        # Attached only now, so that only the calls of the following requests are counted.
        self.tracer = subprocess.Popen(
            ["strace", "-q", "-o", "/dev/null", "-p", str(self.process.pid), "-e", f"trace={CALLS}",
             "-e", f"inject={CALLS}:signal=KILL:when={when}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 5
        while time.monotonic() < until:
            with open(f"/proc/{self.process.pid}/status") as f:
                if [li for li in f if li.startswith("TracerPid") and li.split()[1] != "0"]:
                    return
            time.sleep(0.005)

    def disarm(self):
        self.tracer.terminate()
        self.tracer.wait()


def switches(tracer):
    """How often the traced process has gone to sleep."""
    try:
        with open(f"/proc/{tracer.pid}/task/{tracer.pid}/children") as f:
            pid = f.read().split()[0]
        with open(f"/proc/{pid}/status") as f:
            return next(line for line in f if line.startswith("voluntary"))
    except (OSError, IndexError, StopIteration):
        return ""


def until_quiet(tracer, state):
    """Waits until the warden is dead, or up and idle; three seconds at most."""
    up, before, same = False, "", 0
    until = time.monotonic() + 3
    while tracer.poll() is None and same < 10 and time.monotonic() < until:
        time.sleep(0.02)
        now = switches(tracer)
        same = same + 1 if up and now == before else 0
        before = now
        if not up:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                up = sock.connect_ex(os.path.join(state, "warden.sock")) == 0


def pick_points():
    chance = random.Random(SEED)
    return sorted(chance.sample(range(1, 160), POINTS))


def test_killed_in_create_and_destroy():
    """At each point: no partial sandbox survives, the complete ones do, and the end is clean."""
    print(f"seed {SEED}, points {pick_points()}")
    host = census.take()
    with Traced() as warden:
        with open(os.path.join(warden.state, "kept"), "w"):
            pass
        for when in pick_points():
            keeper = warden.create()["id"]
            warden.exec(keeper, "echo kept > /workspace/kept")
            warden.arm(when)
            asked = []
            try:
                for _ in range(3):
                    asked.append(warden.create()["id"])
                for sandbox in asked:
                    warden.delete(sandbox)
            except (OSError, ApiError, struct.error, AssertionError):
                pass
            warden.disarm()
            warden.again()
            names = warden.names()
            assert keeper in names, f"when={when}: a whole sandbox was lost\n{warden.logs()}"
            pids = census.sandbox_pids(keeper)
            assert pids, f"when={when}: the kept sandbox does not run"
            for sandbox in names:
                warden.call(4, sandbox=sandbox)
            until = time.monotonic() + 5 * tree.SLACK
            while time.monotonic() < until and census.sandbox_pids(keeper):
                time.sleep(0.05)
            assert warden.names() == [], f"when={when}"
            with warden.sandbox() as box:
                assert box.exec(["/bin/echo", "x"]).stdout == "x\n", f"when={when}"
    left = census.settle(host, states=[warden.state])
    assert not left, "\n".join(left)


def test_killed_while_starting():
    """A warden killed at any point of its start leaves nothing that disturbs the next one."""
    host = census.take()
    chance = random.Random(SEED)
    with Traced() as warden:
        for when in sorted(chance.sample(range(1, 220), 10)):
            warden.sock.close()
            warden.process.kill()
            warden.process.wait()
            dying = subprocess.Popen(
                ["strace", "-q", "-o", "/dev/null", "-e", f"trace={CALLS}", "-e",
                 f"inject={CALLS}:signal=KILL:when={when}", tree.program("cay-warden", warden.build),
                 "--state", warden.state, "--templates", TEMPLATES, "--agent",
                 tree.program("cay-agent", warden.build), "--user", "root"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until_quiet(dying, warden.state)
            if dying.poll() is None:  # the warden does not make the chosen call
                subprocess.run(["pkill", "-KILL", "-P", str(dying.pid)])
                dying.wait()
            warden.retry_start()
            with warden.sandbox() as box:
                assert box.exec(["/bin/echo", "x"]).stdout == "x\n", f"when={when}"
    left = census.settle(host, states=[warden.state])
    assert not left, "\n".join(left)
