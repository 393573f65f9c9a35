# SPDX-License-Identifier: Apache-2.0
"""A scripted daemon: enough of the public API on loopback to test the program. Run as a program, it plays cayd or
cay-warden for the supervisor's tests: it holds its lock file, writes its address, and obeys SIGTERM.
"""
import base64
import fcntl
import json
import os
import re
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from scripted_process import Process, Window, parse_query, send_events, serve_attach  # noqa: E402

KEY = "cay_" + "ab" * 20


def error(code, message, hint="do better"):
    return {"error": {"code": code, "message": message, "hint": hint, "request_id": "r1",
                      "retryable": False}}


class Daemon:
    """State and answers; every request is kept in .calls as (method, path, body)."""

    def __init__(self, port=0, on_shutdown=None):
        self.calls = []
        self.sandboxes = {}
        self.templates = {"base"}
        self.builds = 0
        self.exec_result = {"stdout": "", "stderr": "", "exit_code": 0, "signal": None,
                            "timed_out": False, "duration_ms": 1}
        self.exec_delay = 0
        self.processes = {}
        self.windows = {}
        self.on_start = lambda process: None
        self.refuse = False  # 503 for everything: on its way up
        self.page = 2
        self.on_shutdown = on_shutdown
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def answer(self, status, body):
                data = b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                if data:
                    self.send_header("Content-Type", "application/json")
                if status != 204:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def handle_any(self):
                length = int(self.headers.get("Content-Length") or 0)
                raw = self.rfile.read(length)
                body = json.loads(raw) if raw else None
                daemon.calls.append((self.command, self.path, body))
                path, _, query = self.path.partition("?")
                open_paths = ("/readyz", "/healthz")
                if path not in open_paths and self.headers.get("Authorization") != "Bearer " + KEY:
                    return self.answer(401, error("unauthenticated", "a key is needed"))
                if daemon.refuse:
                    return self.answer(503, error("unavailable", "not yet"))
                match = re.fullmatch(r"/v1/sandboxes/([^/]+)/(pty|processes/([^/]+)/(output|attach))", path)
                if match and daemon.find(match[1]):
                    return self.stream(match[2].split("/")[-1], match[3], parse_query(query), body)
                return self.answer(*daemon.route(self.command, path, query, body))

            def stream(self, kind, number, query, body):
                if kind == "pty":
                    process = daemon.start(dict(query, argv=["shell"], tty=query))
                    return serve_attach(self, process, {})
                process = daemon.process(number)
                if not process:
                    return self.answer(404, error("process_not_found", "no process '%s'" % number))
                if kind == "attach":
                    return serve_attach(self, process, query)
                if query.get("format") == "json":
                    return self.answer(200, {"stdout": process.streams["stdout"].decode(),
                                             "stderr": process.streams["stderr"].decode()})
                return send_events(self, process, query, False)

            do_GET = do_POST = do_PATCH = do_DELETE = handle_any

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *args: None  # clients may go away
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)  # looks for its end as often
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def make(self, body):
        number = len([c for c in self.calls if c[0] == "POST" and c[1] == "/v1/sandboxes"])
        sandbox = {"id": "sandbox%013d" % number, "name": body.get("name"), "state": "running",
                   "state_reason": None, "template_id": body.get("template", "base"),
                   "engine": "native", "cpu_count": body.get("cpu_count", 1),
                   "memory_mb": body.get("memory_mb", 1024), "metadata": body.get("metadata", {}),
                   "created_at": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
                   "expires_at": time.strftime("%Y-%m-%dT%H:%M:%S.000Z",
                                               time.gmtime(time.time() + 299))}
        self.sandboxes[sandbox["id"]] = sandbox
        return sandbox

    def route(self, method, path, query, body):
        if path in ("/readyz", "/healthz"):
            return 200, {"status": "ok", "version": "0.1.0", "uptime_sec": 5}
        if path == "/v1/options":
            return 200, {"engines": [{"name": "native", "label": "namespaces"}]}
        if (method, path) == ("POST", "/v1/sandboxes"):
            if body.get("name") == "taken":
                return 409, error("conflict", "the name 'taken' is in use")
            if body.get("name") == "quota":
                return 429, error("quota_exceeded", "too many sandboxes")
            return 201, self.make(body)
        if (method, path) == ("GET", "/v1/sandboxes"):
            ids = sorted(self.sandboxes)
            start = int(dict(p.split("=") for p in query.split("&") if p).get("cursor", 0))
            more = start + self.page < len(ids)
            return 200, {"data": [self.sandboxes[i] for i in ids[start:start + self.page]],
                         "next_cursor": str(start + self.page) if more else None}
        if path == "/v1/templates/base":
            return ((200, {"name": "base", "version": 1}) if "base" in self.templates else
                    (404, error("template_not_found", "no template base")))
        if path.startswith("/v1/templates/base/builds"):
            return self.build(method, query)
        if path.startswith("/v1/templates/busy/builds"):
            if method == "POST":
                return 409, error("conflict", "a build is at work")
            status, build = self.build(method, query)
            return (200, {"data": [build], "next_cursor": None}) if path.endswith("s") else (
                status, build)
        if (method, path) == ("POST", "/v1/admin/shutdown"):
            if self.on_shutdown:
                threading.Timer(0.1, self.on_shutdown).start()
            return 202, {"destroy": body["destroy"]}
        return self.sandbox_route(method, path, query, body)

    def build(self, method, query):
        if method == "POST":
            self.builds = 1
            return 202, {"id": "b1", "state": "building", "log": "", "log_cursor": 0}
        self.builds = min(self.builds + 1, 4)
        log = "".join("step %d\n" % i for i in range(1, self.builds))[:-2]  # ends inside a line
        state = "building"
        if self.builds >= 4:
            self.templates.add("base")
            state, log = "ready", log + "x\n"
        start = int(query.partition("=")[2] or 0)
        piece = log[start:start + 9]
        return 200, {"id": "b1", "state": state, "log": piece, "log_cursor": start + len(piece)}

    def find(self, name):
        return [s for s in self.sandboxes.values() if name in (s["id"], s["name"])]

    def process(self, number):
        return next((p for p in self.processes.values() if number in (str(p.number), p.body.get("name"))), None)

    def start(self, body):
        process = Process(len(self.processes) + 1, body)
        self.processes[process.number] = process
        self.on_start(process)
        return process

    def play_exec(self, process):
        """Replies with exec_result after exec_delay."""
        def play():
            time.sleep(self.exec_delay)
            result = self.exec_result
            for name in ("stdout", "stderr"):
                coded = result.get(name + "_b64")
                process.write(base64.b64decode(coded) if coded else result[name].encode(), name)
            process.finish(result["exit_code"], signal=result["signal"],
                           reason=result.get("reason", "timeout" if result["timed_out"] else
                                             "signaled" if result["signal"] else "exited"),
                           **{k: result[k] for k in ("memory_limit_bytes", "memory_peak_bytes", "message")
                              if k in result})
        threading.Thread(target=play, daemon=True).start()

    def process_route(self, method, words, body):
        if not words:
            if method == "POST":
                process = self.start(body)
                if body.get("hold") and not body.get("stdin_open"):
                    self.play_exec(process)  # a plain exec
                return 201, process.row()
            return 200, {"data": [p.row() for p in self.processes.values()], "next_cursor": None}
        process = self.process(words[0])
        if not process:
            return 404, error("process_not_found", "no process '%s'" % words[0])
        if method == "DELETE":
            process.finish(143, signal="SIGTERM", reason="killed_by_request")
            del self.processes[process.number]
            return 204, None
        if words[1:] == ["signal"]:
            if process.end:
                return 409, error("wrong_state", "it has ended")
            process.signal(body["signal"])
            return 204, None
        return 200, process.row()

    def window_route(self, method, words, query, body):
        if not words:
            return 200, {"data": [{"name": w.name, "state": "busy" if w.busy else "idle", "run": w.run,
                                   "exit_code": w.exit_code, "idle_sec": 3.7, "process_id": 99}
                                  for w in self.windows.values()], "next_cursor": None}
        if words[1:] == ["run"]:
            window = self.windows.setdefault(words[0], Window(words[0]))
            return 200, window.start_run(body)
        if words[0] not in self.windows:
            return 404, error("window_not_found", "no window '%s'" % words[0])
        window = self.windows[words[0]]
        if words[1:] == ["input"]:
            window.input += body["data"].encode()
            return 204, None
        if method == "DELETE":
            del self.windows[words[0]]
            return 204, None
        return 200, window.read(query)

    def sandbox_route(self, method, path, query, body):
        match = re.fullmatch(r"/v1/sandboxes/([^/]+)(/exec|/(processes|windows)(/.*)?)?", path)
        if not match:
            return 404, error("route_not_found", "no such route")
        found = self.find(match[1])
        if found and match[3]:
            words = [w for w in (match[4] or "").split("/") if w]
            if match[3] == "processes":
                return self.process_route(method, words, body)
            return self.window_route(method, words, parse_query(query), body)
        if not found:
            return 404, error("sandbox_not_found", "no sandbox '%s'" % match[1], "look at cay ls")
        if match[2]:
            time.sleep(self.exec_delay)
            return 200, self.exec_result
        if method == "DELETE":
            del self.sandboxes[found[0]["id"]]
            return 204, None
        return 200, found[0]


def play(name):
    """cayd or cay-warden, as the supervisor starts them."""
    options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    state = options["--state"]
    lock = open(os.path.join(state, "cayd.lock" if name == "cayd" else "warden.lock"), "a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("%s: already running" % name)
    lock.truncate(0)
    lock.write("%d\n" % os.getpid())
    lock.flush()
    if os.path.exists(os.path.join(state, "refuse-" + name)):
        sys.exit("%s: cannot bind: address already in use" % name)
    print(name, "runs with", " ".join(sys.argv[1:]), flush=True)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *a: ended.set())
    if name == "cayd":
        daemon = Daemon(int(options.get("--listen", ":0").rpartition(":")[2]), ended.set)
        if os.path.exists(os.path.join(state, "no-template")):
            daemon.templates.clear()
        with open(os.path.join(state, "admin.key"), "w") as key:
            key.write(KEY + "\n")
        with open(os.path.join(state, "url.new"), "w") as url:
            url.write(daemon.url + "\n")
        os.rename(os.path.join(state, "url.new"), os.path.join(state, "url"))
    ended.wait()
    print(name, "ends", flush=True)
    if name == "cayd":
        with open(os.path.join(state, "seen.json"), "w") as seen:
            json.dump([c[:3] for c in daemon.calls if c[1] != "/readyz"], seen)
    os._exit(0)


if __name__ == "__main__":
    play(os.path.basename(sys.argv[0]))
