# SPDX-License-Identifier: Apache-2.0
"""A virtual machine: QEMU with a stock kernel, an overlay over a cached image, and commands in it.

Commands travel over virtio-serial ports (guest/agent has the protocol), so the machine needs no
network. Everything of one machine is in its directory: sockets, console.log, the overlay.
"""
import base64
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

import image

BOOT_LIMIT_SEC = 420
KVM_LIMIT_SEC = 30
CHUNK = 48 * 1024
MEMORY_MB = int(os.environ.get("CAY_MACHINE_MEMORY_MB", "3072"))


class Trouble(Exception):
    """The machine did not do what it was asked to do."""


def accel():
    """KVM if the caller says that it works: under another hypervisor it often starts and then hangs."""
    return "kvm" if os.environ.get("CAY_KVM") == "1" else "tcg"


def alive(pid):
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    return False


class Machine:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)

    def path(self, name):
        return str(self.directory / name)

    @property
    def pid(self):
        try:
            return int((self.directory / "pid").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def running(self):
        return self.pid is not None and alive(self.pid)

    def arguments(self, kernel, root, templates, accel, memory_mb):
        ports = []
        for number in range(image.PORTS):
            ports += ["-chardev", f"socket,id=port{number},path={self.path(f'port.{number}')},server=on,wait=off",
                      "-device", f"virtserialport,chardev=port{number},name=cay.{number},nr={number + 1}"]
        # QEMU 7.2 leaves garbage in RFLAGS after CMPXCHG16B, and Linux 6.12 panics; it emulates AVX slowly.
        processor = ["-accel", "kvm", "-cpu", "host"] if accel == "kvm" else ["-accel", "tcg,thread=multi", "-cpu", "Nehalem,-cx16"]
        disks = []
        for name, base in (("root", root / "root.img"), ("templates", templates)):
            overlay = self.path(f"{name}.qcow2")
            if not os.path.exists(overlay):
                subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(base), overlay], check=True)
            disks += ["-drive", f"file={overlay},format=qcow2,if=virtio,cache=unsafe,discard=unmap"]
        return ["qemu-system-x86_64", "-name", self.directory.name, "-M", "q35", *processor, "-smp", "2", "-m", str(memory_mb),
                "-nodefaults", "-no-user-config", "-display", "none", "-serial", f"file:{self.path('console.log')}",
                "-monitor", "none", "-qmp", f"unix:{self.path('qmp')},server=on,wait=off",
                "-kernel", str(root / "vmlinuz"), "-initrd", str(root / "initrd"),
                "-append", f"root=/dev/vda rw console=ttyS0 quiet net.ifnames=0 mitigations=off {kernel.command_line}".strip(),
                *disks, "-device", "virtio-serial-pci,max_ports=8", *ports, "-device", "virtio-rng-pci"]

    def boot(self, kernel, templates, accel="tcg", keep=False, memory_mb=MEMORY_MB):
        """Returns the seconds until the machine ran a command. Without keep it dies with this process.
        A machine that was stopped has its disks still."""
        root = image.root_image(kernel)
        self.directory.mkdir(parents=True, exist_ok=True)
        argv = self.arguments(kernel, root, templates, accel, memory_mb)
        if not keep:
            argv = ["setpriv", "--pdeathsig", "KILL", *argv]
        begun = time.monotonic()
        with open(self.path("qemu.log"), "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        (self.directory / "pid").write_text(str(self.process.pid), encoding="utf-8")
        (self.directory / "kernel").write_text(kernel.name, encoding="utf-8")
        try:
            self.wait_ready(KVM_LIMIT_SEC if accel == "kvm" else BOOT_LIMIT_SEC)
        except BaseException:
            self.stop()
            raise
        return time.monotonic() - begun

    def wait_ready(self, limit_sec=BOOT_LIMIT_SEC):
        """Waits until a command runs in it and systemd has started everything."""
        until = time.monotonic() + limit_sec
        while time.monotonic() < until:
            if "Kernel panic" in self.tail("console.log"):
                break
            if not self.running():
                raise Trouble(f"QEMU ended:\n{self.tail('qemu.log')}")
            try:
                # 'degraded' is an answer too: which units failed is for a test to say.
                if self.run(["systemctl", "is-system-running", "--wait"], limit_sec=10, quiet=True)[0] in (0, 1):
                    return
            except Trouble:
                pass
        raise Trouble(f"the machine did not start within {limit_sec} s; its console ends with:\n{self.tail('console.log')}")

    def tail(self, name, lines=30):
        try:
            return "\n".join((self.directory / name).read_text(errors="replace").splitlines()[-lines:])
        except OSError as error:
            return str(error)

    @contextlib.contextmanager
    def port(self):
        """A port that no other process uses."""
        for number in range(image.PORTS):
            with open(self.path(f"port.{number}.lock"), "w", encoding="utf-8") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                with socket.socket(socket.AF_UNIX) as channel:
                    try:
                        channel.connect(self.path(f"port.{number}"))
                    except OSError as error:
                        raise Trouble(f"the machine is not there: {error}") from error
                    yield channel
                    return
        raise Trouble(f"all {image.PORTS} ports of the machine are in use")

    def run(self, argv, data=b"", limit_sec=None, env=None, quiet=False, sink=None):
        """Runs a command as root. Returns its status and its output, both streams joined.
        sink(name, bytes) is given the output as it comes; without it and without quiet it is shown."""
        output = []

        def take(name, piece):
            output.append(piece)
            if sink:
                sink(name, piece)
            elif not quiet:
                out = sys.stdout.buffer if name == "out" else sys.stderr.buffer
                out.write(piece)
                out.flush()
        with self.port() as channel:
            status = Exchange(self, channel, argv, env).finish(data, take, limit_sec)
        return status, b"".join(output).decode(errors="replace")

    def script(self, path, *words, **kw):
        """Runs a script of the host in the machine."""
        code = pathlib.Path(path).read_bytes()
        return self.run(["/bin/sh", "-c", 'f=$(mktemp) && cat >"$f" && chmod +x "$f" && "$f" "$@" </dev/null; s=$?; rm -f "$f"; exit $s',
                         "sh", *words], data=code, **kw)

    def put(self, directory, destination, limit_sec=300):
        """Copies the contents of a directory of the host into one of the machine, as root's."""
        tar = subprocess.run(["tar", "-C", str(directory), "--owner=0", "--group=0", "-c", "."], check=True, capture_output=True).stdout
        status, output = self.run(["/bin/sh", "-c", 'mkdir -p "$1" && tar -C "$1" -x --no-overwrite-dir --keep-directory-symlink', "sh", destination],
                                  data=tar, limit_sec=limit_sec, quiet=True)
        if status != 0:
            raise Trouble(f"copying to {destination}: {output}")

    def monitor(self, command):
        """One command of QEMU's monitor protocol."""
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(10)
            channel.connect(self.path("qmp"))
            stream = channel.makefile("rw")
            stream.readline()
            for name in ("qmp_capabilities", command):
                stream.write(json.dumps({"execute": name}) + "\n")
                stream.flush()
                stream.readline()

    def wait_end(self, limit_sec=BOOT_LIMIT_SEC):
        """Waits until it has switched itself off."""
        until = time.monotonic() + limit_sec
        while self.running():
            if time.monotonic() > until:
                raise Trouble(f"the machine did not end within {limit_sec} s; its console ends with:\n{self.tail('console.log')}")
            time.sleep(0.2)
        self.stop()

    def stop(self):
        pid = self.pid
        if pid is not None and alive(pid):
            os.kill(pid, signal.SIGKILL)
            until = time.monotonic() + 10
            while alive(pid) and time.monotonic() < until:
                time.sleep(0.05)
        with contextlib.suppress(AttributeError):
            self.process.wait(10)
        with contextlib.suppress(OSError):
            (self.directory / "pid").unlink()

    def remove(self):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


class Exchange:
    """One command in the machine, from the host's side."""

    def __init__(self, machine, channel, argv, env):
        self.machine, self.channel = machine, channel
        self.id = f"{os.getpid()}-{time.monotonic_ns()}"
        self.buffer = b""
        self.outgoing = b"\n" + self.line(argv=argv, env=env or {})

    def line(self, **message):
        return json.dumps({"id": self.id, **message}).encode() + b"\n"

    def finish(self, data, take, limit_sec):
        pieces = [data[at:at + CHUNK] for at in range(0, len(data), CHUNK)] + [b""]
        until = None if limit_sec is None else time.monotonic() + limit_sec
        self.channel.setblocking(False)
        while True:
            left = 5 if until is None else max(0, min(5, until - time.monotonic()))
            readable, writable, _ = select.select([self.channel], [self.channel] if self.outgoing or pieces else [], [], left)
            if not self.machine.running():
                raise Trouble("the machine ended")
            if not readable and "Kernel panic" in self.machine.tail("console.log"):
                raise Trouble(f"the kernel panicked:\n{self.machine.tail('console.log', 60)}")
            if until is not None and time.monotonic() >= until:
                raise Trouble(f"no end within {limit_sec} s")
            if writable:
                if not self.outgoing:
                    self.outgoing = self.line(**{"in": base64.b64encode(pieces.pop(0)).decode()})
                self.outgoing = self.outgoing[self.channel.send(self.outgoing):]
            if readable:
                status = self.receive(take)
                if status is not None:
                    return status

    def receive(self, take):
        data = self.channel.recv(1 << 18)
        if not data:
            raise Trouble("the machine closed the port")
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if not isinstance(message, dict) or message.get("id") != self.id:
                continue
            for name in ("out", "err"):
                if name in message:
                    take(name, base64.b64decode(message[name]))
            if "status" in message:
                return message["status"]
        return None
