# SPDX-License-Identifier: Apache-2.0
"""For the tests of cay-tools over pipes: one run of an operation, and what is expected of its answer."""
import io
import os
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
import toolframes as t  # noqa: E402

ROOT = os.getuid() == 0
# Its check looks at the whole text for every one of a million matches.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":intercept_memmem=0"


def run(op, path, **keys):
    return t.run(op, path=path if isinstance(path, bytes) else str(path), **keys)


def good(answer):
    assert answer.last and answer.last["type"] == "end", answer.last
    assert answer.status == 0
    return answer.last


def bad(answer, error):
    assert answer.error == error, answer.last
    assert answer.status == 1
    return answer.last


def left_behind(path):
    return [n for _, dirs, files in os.walk(path) for n in dirs + files if n.startswith(".cay-")]


def view(path, **keys):
    a = run("read-view", path, **keys)
    return a, [(line["number"], line["text"]) for line in a.of("line")]


def make_tar(entries, fmt=tarfile.PAX_FORMAT):
    """entries: (name, kind, content or target, extra attributes)"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as tar:
        for name, kind, value, *extra in entries:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.mode = 0o644 if kind == tarfile.REGTYPE else 0o755
            info.mtime = 1_000_000_000
            if kind == tarfile.REGTYPE:
                info.size = len(value)
            else:
                info.linkname = value or ""
            for key, v in (extra[0] if extra else {}).items():
                setattr(info, key, v)
            tar.addfile(info, io.BytesIO(value) if kind == tarfile.REGTYPE else None)
    return out.getvalue()


REG, DIR, SYM, LNK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
