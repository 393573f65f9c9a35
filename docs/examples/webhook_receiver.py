#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A receiver of webhooks that believes only what is signed: webhook_receiver.py PORT SECRET

Prints one line per event, once, whatever is delivered again. Only Python's own library is used.
"""

import hashlib
import hmac
import http.server
import json
import sys
import time

TOLERANCE_SEC = 300


def verify(secret, headers, body, now=None):
    """True when the body was signed with this secret, a short while ago."""
    timestamp = headers.get("Cay-Timestamp", "")
    if not timestamp.isdigit() or abs((now or time.time()) - int(timestamp)) > TOLERANCE_SEC:
        return False  # a replayed old request
    mac = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return hmac.compare_digest("v1=" + mac.hexdigest(), headers.get("Cay-Signature", ""))


class Receiver(http.server.BaseHTTPRequestHandler):
    secret = ""
    seen = set()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not verify(self.secret, self.headers, body):
            self.answer(401)
            return
        event = json.loads(body)
        if event["id"] not in self.seen:  # it may be delivered twice: ids are unique
            print(event["id"], event["type"], event["sandbox_id"], flush=True)
            if event["id"]:
                self.seen.add(event["id"])
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    Receiver.secret = sys.argv[2]
    with http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver) as server:
        print("listening on", server.server_address[1], flush=True)
        server.serve_forever()
