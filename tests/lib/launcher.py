# SPDX-License-Identifier: Apache-2.0
"""Agents of the local engine in separate namespaces. The daemon and everything it starts may not create namespaces.
The engine therefore starts a stub as its agent: it passes its descriptor 3 and its arguments to this launcher,
which runs the real agent in a new net namespace that has only loopback. The stub lives as long as the agent, and
the agent as long as the stub.
"""

import array
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading

STUB = """#!/usr/bin/python3 -I
import array, json, os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect({path!r})
s.sendmsg([json.dumps(sys.argv[1:]).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [3]))])
os.close(3)
s.recv(1)  # until the agent has ended
"""
# As the stub's user: after its restart the daemon ends the agent itself.
SETUP = "ip link set lo up && exec setpriv --reuid={} --regid={} --clear-groups -- \"$@\""


class Launcher:
    def __init__(self, agent):
        self.agent = agent
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cay-launch-", dir="/var/tmp"))
        self.dir.chmod(0o755)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = self.dir / "socket"
        self.socket.bind(str(path))
        path.chmod(0o666)
        self.socket.listen(16)
        self.stub = self.dir / "agent"
        self.stub.write_text(STUB.format(path=str(path)))
        self.stub.chmod(0o755)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._run, args=(peer,), daemon=True).start()

    def _run(self, peer):
        words, ancillary, _, _ = peer.recvmsg(65536, socket.CMSG_SPACE(4))
        fds = array.array("i")
        fds.frombytes(ancillary[0][2])
        _, uid, gid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        command = ["unshare", "--net", "--", "sh", "-c", SETUP.format(uid, gid), "sh", self.agent, *json.loads(words)]
        agent = subprocess.Popen(command, pass_fds=[], preexec_fn=lambda: os.dup2(fds[0], 3, inheritable=True),
                                 close_fds=False, stdin=subprocess.DEVNULL, start_new_session=True)
        os.close(fds[0])

        def wait():
            agent.wait()
            peer.shutdown(socket.SHUT_RDWR)  # the other thread still waits on it
            peer.close()

        threading.Thread(target=wait, daemon=True).start()
        try:
            peer.recv(1)  # the stub has ended, or the agent
        except OSError:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(agent.pid, signal.SIGKILL)  # the session that it leads

    def close(self):
        self.socket.close()
        shutil.rmtree(self.dir, ignore_errors=True)
