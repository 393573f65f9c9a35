# SPDX-License-Identifier: Apache-2.0
"""Two tenants: one abuses a shared resource within its limits, and the figures of the other are compared with its figures
alone in the same run.

Bars: throughput at least 0.8 times, p99 at most 3 times that of the worse of two baselines: alone, and beside processes of
the same number that only compute. What a neighbour loses because cores are shared is no defect; the kernel divides them by
weight, and the host of these tests may have two. Rounds of all loads take turns, so that a busy minute of the machine meets
all of them, and medians of rounds are compared. If the first rounds miss a bar, more are added before the verdict.

Inodes, locks and /proc are the subject of other suites.
"""

import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import time

import pytest

from lib import world
from lib.client import ApiError, Client
from lib.daemon import Daemon
from lib.world import EVIL, GOOD, World

pytestmark = pytest.mark.alone

SECONDS, ROUNDS, MOST_ROUNDS = 0.8, 3, 9
THROUGHPUT, SLOWEST = 0.8, 3.0
SCOPES = ["sandboxes:read", "sandboxes:write", "exec", "templates:read", "webhooks", "secrets"]
POLICY = {"mode": "restricted", "allow": [GOOD, EVIL, "allowed.test", "*.allowed.test"]}


# ---- the two tenants ----

class Tenant:
    def __init__(self, daemon, name):
        made = daemon.client.call("POST", "/v1/keys", {"name": name, "scopes": SCOPES})
        self.client = Client(daemon.url, made["key"])
        self.box = None

    def sh(self, command, **body):
        return self.box.exec(command, **body).ok().stdout


@pytest.fixture(scope="module")
def pair():
    with World() as outside, Daemon(env={"CAY_DNS_UPSTREAM": world.DNS}) as daemon, contextlib.ExitStack() as stack:
        noisy, victim = Tenant(daemon, "noisy"), Tenant(daemon, "victim")
        for tenant in (noisy, victim):
            tenant.box = stack.enter_context(tenant.client.sandbox(
                cpu_count=1, memory_mb=512, disk_size_mb=1024, network=POLICY, timeout_sec=3600))
        pair = Pair(outside, daemon, noisy, victim)
        victim.sh(f"nohup python3 -m http.server {PORT} --bind 0.0.0.0 >/dev/null 2>&1 & "
                  f"for i in $(seq 100); do curl -s -o /dev/null http://127.0.0.1:{PORT}/ && break; sleep 0.1; done")
        noisy.sh(f"head -c 50000000 /dev/zero > /tmp/large; cd /tmp; nohup python3 -m http.server {PORT} >/dev/null 2>&1 &")
        yield pair


PORT = 8123


class Pair:
    def __init__(self, outside, daemon, noisy, victim):
        self.outside, self.daemon, self.noisy, self.victim = outside, daemon, noisy, victim
        self.samples = {}  # meter -> load -> rows of (rate, p99 in ms)

    # -- loads --

    @contextlib.contextmanager
    def inside(self, *commands):
        """Commands in the noisy sandbox for as long as the block lasts."""
        call, path = self.noisy.client.call, f"/v1/sandboxes/{self.noisy.box.id}/processes"
        ids = [call("POST", path, {"command": command})["process_id"] for command in commands]
        try:
            yield
        finally:
            for number in ids:
                with contextlib.suppress(ApiError):
                    call("DELETE", f"{path}/{number}")

    @contextlib.contextmanager
    def outside_process(self, code):
        """A client of the noisy tenant as a process of its own; it says when it has begun."""
        setup = (f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parents[1])!r})\n"
                 "import contextlib, http.client, itertools, json, socket, time\n"
                 "from lib.client import ApiError, Client\n"
                 f"client, box = Client({self.daemon.url!r}, {self.noisy.client.key!r}), {self.noisy.box.id!r}\n")
        process = subprocess.Popen([sys.executable, "-c", setup + code], stdout=subprocess.PIPE)
        try:
            assert process.stdout.readline() == b"begun\n"
            yield
            assert process.poll() is None, "the load ended"
        finally:
            process.kill()
            process.wait()

    def load(self, name):
        kind, what = LOADS[name]
        if kind == "none":
            return contextlib.nullcontext()
        return self.inside(*what) if kind == "inside" else self.outside_process(what)

    # -- figures --

    def measure(self, meter, load):
        with self.load(load):
            time.sleep(0.3)  # the load's own start is not what is measured
            return METERS[meter](self)

    def more_rounds(self, meter, loads, rounds):
        rows = self.samples.setdefault(meter, {})
        for _ in range(rounds):
            for load in loads:
                rows.setdefault(load, []).append(self.measure(meter, load))

    def figures(self, meter, load):
        rate, p99 = zip(*self.samples[meter][load])
        return statistics.median(rate), statistics.median(p99)

    def verdict(self, meter, load):
        """None, or what misses a bar."""
        alone, control = self.figures(meter, "alone"), self.figures(meter, BASELINE[LOADS[load][0]])
        found = self.figures(meter, load)
        if found[0] < THROUGHPUT * min(alone[0], control[0]):
            return f"throughput {found[0]:.0f}/s; alone {alone[0]:.0f}, beside computing {control[0]:.0f}"
        if found[1] > SLOWEST * max(alone[1], control[1]):
            return f"p99 {found[1]:.2f} ms; alone {alone[1]:.2f}, beside computing {control[1]:.2f}"
        return None

    def hold(self, meter, load):
        loads = ["alone", BASELINE[LOADS[load][0]], load]
        self.samples.pop(meter, None)
        self.more_rounds(meter, loads, ROUNDS)
        missed = self.verdict(meter, load)
        while missed and len(self.samples[meter][load]) < MOST_ROUNDS:
            self.more_rounds(meter, loads, ROUNDS)
            missed = self.verdict(meter, load)
        assert not missed, f"{load}, {meter}: {missed}; rounds: {json.dumps(self.samples[meter])}"


# ---- what the victim measures ----

def timed(work, seconds=SECONDS):
    """Calls per second of their own time, and p99. The pause keeps the victim below its own request rate."""
    took, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        took.append(time.perf_counter() - begin)
        time.sleep(0.002)
    took.sort()
    return len(took) / sum(took), took[len(took) * 99 // 100] * 1000


def api(pair):
    return timed(lambda: pair.victim.client.call("GET", f"/v1/sandboxes/{pair.victim.box.id}"))


def execs(pair):
    return timed(lambda: pair.victim.box.exec(["true"]).ok())


def creates(pair):
    client = pair.victim.client
    return timed(lambda: client.delete(client.create()["id"]))


def previews(pair):
    if not hasattr(pair, "preview"):
        pair.preview = pair.victim.client.call("POST", f"/v1/sandboxes/{pair.victim.box.id}/previews",
                                               {"port": PORT, "visibility": "public"})
    host = pair.preview["url"].split("//")[1].split("/")[0].split(":")[0]
    visitor = Client(pair.daemon.url, None)
    return timed(lambda: visitor.raw("GET", "/", headers={"Host": host}))


INSIDE = """
import os, socket, sys, time
end, took = time.perf_counter() + float(sys.argv[1]), []
%s
while time.perf_counter() < end:
    begin = time.perf_counter()
    work()
    took.append(time.perf_counter() - begin)
took.sort()
print(len(took) / sum(took), took[len(took) * 99 // 100] * 1000)
"""


def inside_meter(work):
    def meter(pair):
        rate, p99 = pair.victim.sh(["python3", "-c", INSIDE % work, str(SECONDS)]).split()
        return float(rate), float(p99)
    return meter


METERS = {
    "api": api, "exec": execs, "create": creates, "preview": previews,
    "disk": inside_meter("f = os.open('/home/sandbox/x', os.O_CREAT | os.O_WRONLY)\n"
                         "def work(): os.pwrite(f, b'x' * 65536, 0); os.fdatasync(f)"),
    "cached": inside_meter("f = os.open('/usr/bin/python3', os.O_RDONLY)\ndef work(): os.pread(f, 1 << 20, 0)"),
    "fork": inside_meter("def work():\n    pid = os.fork()\n    if not pid: os._exit(0)\n    os.waitpid(pid, 0)"),
    "network": inside_meter(f"""
def work():
    s = socket.create_connection(('{GOOD}', 80), 20)
    s.sendall(b'GET / HTTP/1.1\\r\\nHost: {GOOD}\\r\\nConnection: close\\r\\n\\r\\n')
    while s.recv(65536): pass"""),
    "names": inside_meter("def work(): socket.gethostbyname('allowed.test')"),
}

# ---- what the other tenant does ----

BUSY = "while :; do :; done"
AGAIN = "print('begun', flush=True)\nfor i in itertools.count():\n"
# (where it runs, what): commands inside the noisy sandbox, or a client process outside.
LOADS = {
    "alone": ("none", None),
    "compute inside": ("inside", [BUSY] * 4),
    "compute outside": ("outside", "print('begun', flush=True)\nwhile True: pass"),

    "pool": ("inside", ["while :; do dd if=/dev/zero of=/home/sandbox/a bs=1M count=64 conv=fsync 2>/dev/null; done",
                        "while :; do rm -rf /home/sandbox/b; cp -r /etc /home/sandbox/b; sync -f /home/sandbox; done"]),
    "page cache": ("inside", ["head -c 700000000 /dev/zero > /home/sandbox/c; while :; do cat /home/sandbox/c > /dev/null; done"]),
    "processes": ("inside", ["while :; do /bin/true & done"]),
    "descriptors": ("inside", ["python3 -c 'import os\nwhile True:\n  held = []\n  try:\n    while True: held.append(os.open(\"/etc/passwd\", 0))\n"
                               "  except OSError: [os.close(f) for f in held]'"]),
    "downloads": ("inside", [f"while :; do curl -sS -o /dev/null http://{EVIL}/bytes/100000000; done"] * 4),
    "connects": ("inside", [f"python3 -c 'import socket\nwhile True:\n  s = socket.socket(); s.setblocking(False); s.connect_ex((\"{EVIL}\", 7001)); s.close()'"]),
    "resolver": ("inside", ["python3 -c 'import socket, struct\ns = socket.socket(2, 2); s.connect((\"192.0.2.53\", 53)); n = 0\n"
                            "while True:\n  n += 1; s.send(struct.pack(\"!6H\", n & 65535, 256, 1, 0, 0, 0) + b\"\\x08%08d\\x07allowed\\x04test\\0\\0\\1\\0\\1\" % n)'"]),
    "link output": ("outside", "body = json.dumps({'command': 'yes', 'timeout_sec': 3600})\n"
                               "c = http.client.HTTPConnection(client.host, client.port)\n"
                               "c.request('POST', f'/v1/sandboxes/{box}/exec/stream', body, {'Authorization': 'Bearer ' + client.key, 'Content-Type': 'application/json'})\n"
                               "a = c.getresponse(); assert a.status == 200, a.status\nprint('begun', flush=True)\nwhile a.read(65536): pass\n"),
    "requests": ("outside", AGAIN + "    client.raw('GET', '/v1/sandboxes?limit=100')\n"),
    "database": ("outside", AGAIN + "    client.raw('POST', f'/v1/sandboxes/{box}/exec', {'argv': ['true']}, {'Idempotency-Key': f'k{i}-{time.time_ns()}'})\n"),
    "streams": ("outside", "held = []\n"
                           "for i in range(300):\n"
                           "    c = http.client.HTTPConnection(client.host, client.port); held.append(c)\n"
                           "    c.request('GET', '/v1/events', headers={'Authorization': 'Bearer ' + client.key, 'Accept': 'text/event-stream'}); c.getresponse()\n"
                + AGAIN + "    client.raw('POST', f'/v1/sandboxes/{box}/exec', {'argv': ['true']})\n"),
    "connections": ("outside", AGAIN + "    socket.create_connection((client.host, client.port)).close()\n"),
    "files": ("outside", "body = json.dumps({'path': '/home/sandbox/f', 'content': 'x' * (1 << 20)})\n" + AGAIN +
              "    assert client.raw('POST', f'/v1/sandboxes/{box}/files', body)[0] < 300\n"),
    "warden": ("outside", AGAIN + "    with contextlib.suppress(ApiError): client.delete(client.create()['id'])\n"),
    "preview proxy": ("outside", "made = client.call('POST', f'/v1/sandboxes/{box}/previews', {'port': 8123, 'visibility': 'public'})\n"
                                 "host = made['url'].split('//')[1].split('/')[0].split(':')[0]\n"
                      + AGAIN + "    client.raw('GET', '/large', headers={'Host': host, 'Authorization': None})\n"),
    "webhooks": ("outside", f"for n in range(10): client.raw('POST', '/v1/webhooks', {{'url': 'http://{GOOD}:7009/', 'events': ['process.ended']}})\n"
                 + AGAIN + "    client.raw('POST', f'/v1/sandboxes/{box}/exec', {'argv': ['true']})\n"),
}
BASELINE = {"inside": "compute inside", "outside": "compute outside", "none": "alone"}

CASES = [("pool", "disk"), ("pool", "api"), ("page cache", "cached"), ("page cache", "api"), ("processes", "fork"),
         ("processes", "exec"), ("descriptors", "api"), ("downloads", "api"), ("downloads", "network"), ("connects", "network"),
         ("connects", "api"), ("resolver", "names"), ("link output", "api"), ("link output", "exec"), ("requests", "api"),
         ("database", "exec"), ("streams", "api"), ("connections", "api"), ("files", "exec"), ("warden", "create"),
         ("preview proxy", "preview"), ("webhooks", "exec")]


# ---- what can be seen ----

VIEWS = ("/v1/sandboxes?limit=100", "/v1/snapshots", "/v1/webhooks", "/v1/secrets")


def test_no_signal(pair):
    """Whatever the one does, no answer to the other changes, and its own denials and ports are its own."""
    def seen():
        return [pair.victim.client.raw("GET", path)[2] for path in VIEWS]

    noisy, box = pair.noisy.client, pair.noisy.box
    before = seen()
    made = noisy.create(name="a-secret-name", metadata={"a": "b"})
    noisy.call("POST", "/v1/webhooks", {"url": f"http://{GOOD}:7009/", "events": ["sandbox"]})
    box.exec("curl -s -m 5 http://evil.test/; true")
    assert seen() == before
    events = pair.victim.client.call("GET", "/v1/events?limit=1000")["data"]
    assert events and {e["sandbox_id"] for e in events} == {pair.victim.box.id}
    for method, path in (("GET", f"/v1/sandboxes/{made['id']}"), ("GET", "/v1/sandboxes/a-secret-name"),
                         ("DELETE", f"/v1/sandboxes/{made['id']}"), ("GET", f"/v1/sandboxes/{box.id}/denials"),
                         ("GET", f"/v1/sandboxes/{box.id}/events")):
        status, _, answer = pair.victim.client.raw(method, path)
        missing = pair.victim.client.raw(method, path.replace(made["id"], "x" * len(made["id"])).replace(box.id, "x" * len(box.id))
                                         .replace("a-secret-name", "no-such-name"))
        assert (status, json.loads(answer)["error"]["code"]) == (missing[0], json.loads(missing[2])["error"]["code"]), path
    # A name that the other tenant uses is free, and no refusal tells of it.
    pair.victim.client.delete(pair.victim.client.create(name="a-secret-name")["id"])
    noisy.delete(made["id"])


# They take minutes and need a quiet host. resolver-names, requests-api, pool-api and warden-create do not reach the bar yet.
@pytest.mark.long
@pytest.mark.parametrize("load,meter", [pytest.param(a, b, id=f"{a}-{b}".replace(" ", "_")) for a, b in CASES])
def test_neighbour(pair, load, meter):
    pair.hold(meter, load)
