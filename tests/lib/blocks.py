# SPDX-License-Identifier: Apache-2.0
"""The code blocks of a document: parsed, checked for their marks, and run. HACKING.md describes the convention.

A page is one bash script: its blocks in their order, in a directory of their own. The output of each command of a
'console' block goes to a file and is compared afterwards.
"""

import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass, field

FENCE = re.compile(r"^( *)(```+)\s*(.*?)\s*$")
RUN = ("sh", "console", "python", "js")
SHAPE = ("json",)
# Never run: output and diagrams, requests as text, configuration of other programs.
SHOWN = ("text", "http", "ini", "nginx", "caddy", "yaml", "dockerfile", "html")
WORDS = {"file": str, "tested-by": str, "needs": str, "setup": None, "checked": None}
NEEDS = ("memory", "code", "e2b", "browser")
LIMIT_SEC = 90


class Broken(AssertionError):
    pass


@dataclass
class Block:
    page: str
    line: int
    language: str
    words: dict
    body: str
    request: str = ""  # of json: "POST /v1/sandboxes"
    outputs: list = field(default_factory=list)

    @property
    def where(self):
        return f"{self.page}:{self.line}"


def parse(text, page):
    """Every fenced block of a document; raises Broken on one without a known mark, and on indented code."""
    blocks, lines, i, before = [], text.split("\n"), 0, ""
    while i < len(lines):
        opened = FENCE.match(lines[i])
        if not opened:
            if lines[i].startswith("    ") and not before.strip() and not inside_list(lines, i):
                raise Broken(f"{page}:{i + 1}: indented code: use a fence")
            before = lines[i]
            i += 1
            continue
        indent, mark, info = opened.groups()
        start, body = i + 1, []
        i += 1
        while i < len(lines) and lines[i].strip() != mark:
            body.append(lines[i][len(indent):] if lines[i].startswith(indent) else lines[i])
            i += 1
        if i == len(lines):
            raise Broken(f"{page}:{start}: the fence is never closed")
        i += 1
        before = ""
        blocks.append(marked(page, start, info, "\n".join(body) + "\n"))
    return blocks


def inside_list(lines, i):
    while i > 0:
        i -= 1
        if lines[i].strip() and not lines[i].startswith(" "):
            return bool(re.match(r"([-*]|\d+\.) ", lines[i]))
    return False


def marked(page, line, info, body):
    language, *rest = info.split() or [""]
    if language not in RUN + SHAPE + SHOWN:
        raise Broken(f"{page}:{line}: the fence is marked '{info}'; known are {', '.join(RUN + SHAPE + SHOWN)}")
    request, words = "", {}
    if language == "json" and rest and rest[0].isupper():
        request, rest = " ".join(rest), []
    for word in rest:
        name, _, value = word.partition("=")
        if name not in WORDS or (WORDS[name] is None) != (value == ""):
            raise Broken(f"{page}:{line}: unknown word '{word}' after '{language}'")
        words[name] = value
    if words.get("needs") and words["needs"] not in NEEDS:
        raise Broken(f"{page}:{line}: needs={words['needs']}; known are {', '.join(NEEDS)}")
    return Block(page, line, language, words, body, request)


def commands(block):
    """A console block: [(command, expected output lines)]."""
    found = []
    for line in block.body.rstrip("\n").split("\n"):
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif not found:
            raise Broken(f"{block.where}: a console block begins with '$ COMMAND'")
        elif not found[-1][1] and (found[-1][0].endswith("\\") or open_quote(found[-1][0])):
            found[-1][0] += "\n" + line.removeprefix("> ")
        else:
            found[-1][1].append(line)
    return found


def open_quote(text):
    return subprocess.run(["bash", "-n"], input=text, text=True, stderr=subprocess.PIPE, check=False).returncode != 0


def matches(expected, got):
    """Line by line; '...' inside a line stands for anything, alone on a line for any lines. Blanks may differ."""
    parts = []
    for line in expected:
        if line.strip() == "...":
            parts.append(r"(?:[^\n]*\n)*")
        else:
            words = [re.escape(word) for word in re.split(r"\s+", line.strip()) if word]
            parts.append(r"\s*" + r"[ \t]+".join(words).replace(re.escape("..."), r"[^\n]*?") + r"[ \t]*\n")
    lines = [line for line in got.split("\n") if line.strip()]
    return re.fullmatch("".join(parts), "".join(line + "\n" for line in lines)) is not None


class Page:
    """Runs the blocks of one document. rewrite: what stands for the reader's daemon, as (pattern, replacement)."""

    def __init__(self, blocks, directory, env, rewrite=(), setup="", have=()):
        self.blocks, self.directory, self.env = blocks, directory, env
        self.rewrite, self.setup, self.have = rewrite, setup, have
        self.left_out = []
        self.output = os.path.join(directory, ".output")
        os.mkdir(self.output)

    def text(self, body):
        for pattern, replacement in self.rewrite:
            body = re.sub(pattern, replacement, body)
        return body

    def wanted(self, block):
        if "tested-by" in block.words or block.language not in RUN:
            return False
        need = block.words.get("needs")
        if need and need not in self.have:
            self.left_out.append(f"{block.where} needs {need}")
            return False
        return True

    def script(self):
        lines = ["set -eo pipefail", self.text(self.setup)]
        for number, block in enumerate(self.blocks):
            name = block.words.get("file")
            if name and block.language in RUN + SHAPE + SHOWN:
                path = os.path.join(self.directory, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as f:
                    f.write(self.text(block.body))
                self.must_be_used(number, name)
                continue
            if not self.wanted(block) or "setup" in block.words:
                continue
            lines.append(f"echo {number} >{self.output}/at")
            if block.language == "console":
                for i, (command, _) in enumerate(commands(block)):
                    lines += [f"exec >{self.output}/{number}.{i} 2>&1", self.text(command)]
                continue
            lines.append(f"exec >{self.output}/{number}.0 2>&1")
            if block.language == "sh":
                lines.append(self.text(block.body))
                continue
            program = os.path.join(self.directory, f"block-{number}." + {"python": "py", "js": "mjs"}[block.language])
            with open(program, "w", encoding="utf-8") as f:
                f.write(self.text(block.body))
            lines.append(f"{'/usr/bin/python3' if block.language == 'python' else 'node'} {program}")
        return "\n".join(lines) + "\n"

    def must_be_used(self, number, name):
        stem = name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        if not any(re.search(rf"\b{re.escape(stem)}\b", block.body) for block in self.blocks[number + 1:] if block.language in RUN):
            raise Broken(f"{self.blocks[number].where}: no later block uses {name}")

    def run(self, slack=1.0):
        path = os.path.join(self.output, "script")
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.script())
        with open(os.path.join(self.output, "first"), "w+b") as first:
            child = subprocess.Popen(["bash", path], cwd=self.directory, env=self.env, stdin=subprocess.DEVNULL,
                                     stdout=first, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = child.wait(timeout=LIMIT_SEC * slack)
            except subprocess.TimeoutExpired:
                status = "none: it did not end"
            finally:
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()
        self.compare()
        if status != 0:
            at = self.said("at").strip()
            block = self.blocks[int(at)] if at else self.blocks[0]
            number = at or "first"
            outputs = "".join(self.said(name) for name in self.files(number)) if at else self.said("first")
            raise Broken(f"{block.where}: exit status {status}\n{block.body}--- output:\n{outputs[-3000:]}")

    def files(self, number):
        names = [name for name in os.listdir(self.output) if name.startswith(f"{number}.")]
        return sorted(names, key=lambda name: int(name.split(".")[1]))

    def said(self, name):
        try:
            with open(os.path.join(self.output, name), encoding="utf-8", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def compare(self):
        for number, block in enumerate(self.blocks):
            if block.language != "console":
                continue
            for i, (command, expected) in enumerate(commands(block)):
                name = f"{number}.{i}"
                if not expected or not os.path.exists(os.path.join(self.output, name)):
                    continue
                got = self.said(name)
                if not matches([self.text(line) for line in expected], got):
                    raise Broken(f"{block.where}: {command}\n--- expected:\n" + "\n".join(expected) + f"\n--- printed:\n{got}")


def check_json(blocks, document, validate):
    """json blocks parse; one with a request ('json POST /v1/keys') fits the schema of its body."""
    for block in blocks:
        if block.language != "json":
            continue
        try:
            value = json.loads(block.body)
        except ValueError as error:
            raise Broken(f"{block.where}: {error}") from None
        if not block.request:
            continue
        method, path, *reply = block.request.split()
        try:
            operation = document["paths"][path][method.lower()]
        except KeyError:
            raise Broken(f"{block.where}: there is no {method} {path}") from None
        if reply:
            schema = operation["responses"][reply[0]]["content"]["application/json"]["schema"]
        else:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
        error = validate(value, dict(schema, components=document["components"]))
        if error:
            raise Broken(f"{block.where}: not a {block.request}: {error}")
