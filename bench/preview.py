# SPDX-License-Identifier: Apache-2.0
"""Previews compared with nginx: both listen on the host's loopback and forward to the same server inside one sandbox,
alternating. nginx runs in the sandbox's network namespace with a listening socket that it inherits from outside, so
only the proxy differs."""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import place
from lib.daemon import Daemon

CLONE_NEWNET = 0x40000000
PORT = 9000
CONF = """
worker_processes 1;
daemon off;
user root;
pid {dir}/pid;
error_log {dir}/error.log warn;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir};
    uwsgi_temp_path {dir}; scgi_temp_path {dir};
    keepalive_requests 1000000;
    upstream inside {{ server 127.0.0.1:{port}; keepalive 64; keepalive_requests 1000000; }}
    server {{
        listen 127.0.0.1:{listen};
        location / {{
            proxy_pass http://inside;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
            {more}
        }}
    }}
}}
"""


class Nginx:
    def __init__(self, pid, more=""):
        self.dir = tempfile.mkdtemp(prefix=place.PREFIX, dir=place.BASE)
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        self.port = listener.getsockname()[1]
        conf = os.path.join(self.dir, "nginx.conf")
        pathlib.Path(conf).write_text(CONF.format(dir=self.dir, port=PORT, listen=self.port,
                                                  more=more))
        netns = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)

        def enter():
            if ctypes.CDLL(None, use_errno=True).setns(netns, CLONE_NEWNET) != 0:
                os._exit(127)

        self.process = subprocess.Popen(
            ["/usr/sbin/nginx", "-e", f"{self.dir}/error.log", "-p", self.dir, "-c", conf],
            env={"NGINX": f"{listener.fileno()};", "PATH": os.environ["PATH"]},
            pass_fds=[listener.fileno()], preexec_fn=enter)
        listener.close()
        os.close(netns)

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.dir)


def server_pid(name):
    """The host's pid of the server inside."""
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [name.encode(), b"serve"]:
            return int(path.name)
    raise place.Trouble("the server inside is not to be found")


def probe(*words):
    return place.run_json([place.program("preview-probe"), *map(str, words)])


def pids_of(daemon):
    state = daemon.state.encode()
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/cayd") and state in words:
            return int(path.name)
    return None


def rss_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def hold_sockets(port, host, count):
    held = subprocess.Popen([place.program("preview-probe"), "sockets", "127.0.0.1", str(port),
                             host, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True)
    opened = json.loads(held.stdout.readline() or "{}")
    return held, opened.get("open", 0)


def open_box(daemon):
    """A sandbox with the server inside: its id, the port and host name to reach it, and the server's path."""
    client = daemon.client
    box = client.create(timeout_sec=3600)["id"]
    inside = f"/workspace/{place.PREFIX}probe-{os.getpid()}"
    client.raw("PUT", f"/v1/sandboxes/{box}/files/raw?path={inside}&mode=755",
               pathlib.Path(place.program("preview-probe")).read_bytes(),
               {"Content-Type": "application/octet-stream"})
    client.call("POST", f"/v1/sandboxes/{box}/processes", {"argv": [inside, "serve", str(PORT)]})
    client.call("POST", f"/v1/sandboxes/{box}/previews", {"port": PORT})
    ours = int(daemon.url.rsplit(":", 1)[1])
    host = f"{PORT}-{box}.cay.localhost"
    end = time.monotonic() + 10
    while probe_quietly(ours, host) is None:
        if time.monotonic() > end:
            raise place.Trouble("the server inside does not answer")
    return box, ours, host, inside


def measure(daemon, streams, options):
    box, ours, host, inside = open_box(daemon)
    other, other_port, other_host, _ = open_box(streams)
    nginx = Nginx(server_pid(inside))
    try:
        targets = [("cay", ours, host), ("nginx", nginx.port, host), ("streams", other_port, other_host)]
        return rounds(options, targets, pids_of(daemon))
    finally:
        nginx.close()
        daemon.client.delete(box)
        streams.client.delete(other)


def probe_quietly(port, host):
    try:
        return probe("load", "127.0.0.1", port, host, 1, 50)
    except place.Trouble:
        return None


def rounds(options, targets, pid):
    found = {name: {"many": [], "one": [], "big": []} for name, _, _ in targets}
    for number in range(options.rounds):
        for name, port, host in targets if number % 2 else targets[::-1]:
            place.say(f"round {number + 1}/{options.rounds}: {name}")
            of = found[name]
            of["many"].append(probe("load", "127.0.0.1", port, host, options.clients, options.ms))
            of["one"].append(probe("load", "127.0.0.1", port, host, 1, options.ms))
            of["big"].append(probe("fetch", "127.0.0.1", port, host, options.bytes))
    _, ours, host = targets[0]
    before = rss_kib(pid)
    held, opened = hold_sockets(ours, host, options.sockets)
    after = rss_kib(pid)
    out, _ = held.communicate("")
    echoed = json.loads(out.splitlines()[-1])["echoed"] if out.strip() else 0
    found["sockets"] = {"open": opened, "echoed": echoed, "kib_each": (after - before) / max(opened, 1)}
    return found


def median(rows, key):
    return statistics.median(row[key] for row in rows)


def bars(found, options):
    cay, nginx = found["cay"], found["nginx"]
    table = [
        ("requests/s, %d clients" % options.clients, median(cay["many"], "per_sec"),
         median(nginx["many"], "per_sec"), lambda a, b: a / b),
        ("p50 us, 1 client", median(cay["one"], "p50_us"), median(nginx["one"], "p50_us"),
         lambda a, b: b / a),
        ("p50 us, %d clients" % options.clients, median(cay["many"], "p50_us"),
         median(nginx["many"], "p50_us"), lambda a, b: b / a),
        ("MiB/s of %d MiB" % (options.bytes >> 20), median(cay["big"], "mib_per_sec"),
         median(nginx["big"], "mib_per_sec"), lambda a, b: a / b),
    ]
    good = True
    print(f"{'':28}{'cay':>12}{'nginx':>12}{'ratio':>8}  bar 0.9")
    for text, a, b, ratio in table:
        value = ratio(a, b)
        good &= value >= 0.9
        print(f"{text:28}{a:12.1f}{b:12.1f}{value:8.2f}  {'pass' if value >= 0.9 else 'MISS'}")
    print(f"{'over the link as streams':28}{'streams':>12}{'passed':>12}{'ratio':>8}  bar 0.33 for MiB/s")
    for text, key, value in (("requests/s, %d clients" % options.clients, "many", "per_sec"),
                             ("MiB/s of %d MiB" % (options.bytes >> 20), "big", "mib_per_sec")):
        a, b = median(found["streams"][key], value), median(cay[key], value)
        passed = key != "big" or a / b >= 0.33
        good &= passed
        print(f"{text:28}{a:12.1f}{b:12.1f}{a / b:8.2f}  {'pass' if passed else 'MISS'}")
    held = found["sockets"]
    whole = held["open"] == held["echoed"] == options.sockets
    print(f"idle WebSockets: {held['open']} open, {held['echoed']} echoed, "
          f"{held['kib_each']:.1f} KiB each in cayd  {'pass' if whole else 'MISS'}")
    return good and whole


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--ms", type=int, default=2000)
    parser.add_argument("--bytes", type=int, default=1 << 30)
    parser.add_argument("--sockets", type=int, default=2000)
    parser.add_argument("--json")
    options = parser.parse_args()
    if not os.path.exists("/usr/sbin/nginx"):
        raise place.Trouble("nginx is not installed: apt-get install nginx-light")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    daemon, streams = Daemon(), Daemon(env={"CAY_LINK_STREAMS": "true"})
    try:
        daemon.up()
        streams.up()
        found = measure(daemon, streams, options)
    finally:
        daemon.close()
        streams.close()
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=1))
    return 0 if bars(found, options) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except place.Trouble as trouble:
        place.say(f"bench: {trouble}")
        sys.exit(2)
