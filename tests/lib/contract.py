# SPDX-License-Identifier: Apache-2.0
"""Checks replies against the OpenAPI document: every JSON reply to a test must match it. Enabled for the conformance
suite (tests/conformance/conftest.py); lib.client passes each reply to it.
"""

import json
import re
import threading

try:
    import jsonschema
except ImportError:  # make deps installs it; without it nothing is checked
    jsonschema = None

LARGE = 256 * 1024  # larger replies are not checked: that takes too long


class Contract:
    """The document of one daemon."""

    def __init__(self, document):
        self.document = document
        self.paths = [(re.compile(re.sub(r"\\\{[a-z_]+\\\}", "[^/]+", re.escape(pattern))), pattern)
                      for pattern in document["paths"]]
        # A literal segment goes before one in braces: /v1/keys/self is no id.
        self.paths.sort(key=lambda row: row[1].count("{"))
        self.validators = {}
        self.seen = set()

    def operation(self, method, path):
        for pattern, text in self.paths:
            found = self.document["paths"][text].get(method.lower())
            if found and pattern.fullmatch(path):
                return text, found
        return None, None

    def validator(self, schema):
        key = json.dumps(schema, sort_keys=True)
        if key not in self.validators:
            whole = dict(schema, components=self.document["components"])
            self.validators[key] = jsonschema.Draft202012Validator(whole)
        return self.validators[key]

    def check(self, method, path, status, headers, data):
        text, operation = self.operation("GET" if method == "HEAD" else method, path.split("?")[0])
        if operation is None:
            return
        self.seen.add((method, text, status))
        answers = operation["responses"]
        answer = answers.get(str(status)) or answers.get(f"{status // 100}XX")
        where = f"{method} {text}: {status}"
        assert answer is not None, f"{where} is not in the document"
        media = (headers.get("Content-Type") or "").split(";")[0]
        if not data or method == "HEAD":
            return
        assert media in answer.get("content", {}), f"{where} with {media} is not in the document"
        if media != "application/json" or len(data) > LARGE:
            return
        errors = list(self.validator(answer["content"][media]["schema"]).iter_errors(json.loads(data)))
        assert not errors, f"{where}: " + "; ".join(explain(error) for error in errors[:3])


def explain(error):
    deeper = sorted(error.context or [], key=lambda e: len(e.absolute_path))
    more = f" ({'; '.join(e.message[:200] for e in deeper[:3])})" if deeper else ""
    return f"at {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}{more}"


class Contracts:
    """By the daemon's address."""

    def __init__(self):
        self.by_url, self.lock, self.seen = {}, threading.Lock(), set()

    def check(self, client, method, path, status, headers, data):
        if jsonschema is None or path.startswith("/openapi.json"):
            return
        with self.lock:
            if client.url not in self.by_url:
                got, _headers, text = client.plain("GET", "/openapi.json")
                if got != 200:
                    return
                self.by_url[client.url] = Contract(json.loads(text))
            contract = self.by_url[client.url]
        contract.check(method, path, status, headers, data)
