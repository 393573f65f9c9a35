# SPDX-License-Identifier: Apache-2.0
"""The frames of cay-tools (src/wire/tool.h), for tests that run the program directly."""
import os
import resource
import struct
import subprocess
import threading

TYPES = {1: "entry", 2: "data", 3: "line", 4: "match", 5: "event", 6: "item", 7: "progress",
         8: "ready", 9: "failed", 10: "end"}
KINDS = {1: "file", 2: "directory", 3: "symlink", 4: "fifo", 5: "socket", 6: "char_device",
         7: "block_device", 8: "unknown"}
ERRORS = ["ok", "invalid", "not_found", "is_a_directory", "not_a_directory", "not_a_file", "exists",
          "not_empty", "forbidden", "read_only", "disk_full", "quota", "name_too_long", "loop",
          "busy", "changed", "bad_range", "bad_pattern", "edit_no_match", "edit_many", "too_large",
          "too_deep", "too_many_watches", "archive_bad", "archive_escape", "archive_limit",
          "archive_kind", "incomplete", "unknown_user", "escape", "unreadable", "no_memory", "io"]
CHANGES = {1: "created", 2: "modified", 3: "deleted", 4: "renamed", 5: "overflow", 6: "gone"}
CUTS = ["none", "count", "bytes", "time"]
END_FIELDS = ("entries bytes matches files failed total_lines total_bytes offset first_line "
              "skipped_binary skipped_unreadable skipped_special skipped_deep skipped_limit "
              "duration_us").split()
DATA, FILE, OLD, NEW, COMMIT = 2, 64, 65, 66, 67
DATA_MAX = 1 << 18
MODE_DEFAULT = 0xffffffff


def frame(kind, payload=b""):
    return struct.pack("<IBBHI", len(payload), kind, 0, 0, 0) + payload


def pieces(kind, data):
    return b"".join(frame(kind, data[i:i + DATA_MAX]) for i in range(0, len(data), DATA_MAX))


def upload(data):
    return pieces(DATA, data) + frame(COMMIT)


def batch(files):
    """files: (path bytes, content, mode or None)"""
    out = b""
    for path, content, mode in files:
        out += frame(FILE, struct.pack("<I", MODE_DEFAULT if mode is None else mode) + path)
        out += pieces(DATA, content)
    return out + frame(COMMIT)


def edit(old, new):
    return pieces(OLD, old) + pieces(NEW, new) + frame(COMMIT)


def _entry(flags, p):
    kind, un, gn, _, pn, tn = struct.unpack_from("<BBBBHH", p)
    mode, uid, gid, links, depth, _ = struct.unpack_from("<6I", p, 8)
    size, disk, dev, ino, mtime, ctime, atime = struct.unpack_from("<4Q3q", p, 32)
    rest, names = p[88:], []
    for n in (pn, un, gn, tn):
        names.append(rest[:n])
        rest = rest[n:]
    assert not rest
    token = "-".join("%x" % (v & (1 << 64) - 1) for v in (dev, ino, size, mtime, ctime))
    return dict(kind=KINDS[kind], mode=mode, uid=uid, gid=gid, links=links, depth=depth, size=size,
                disk_bytes=disk, inode=ino, mtime_ns=mtime, ctime_ns=ctime, atime_ns=atime,
                path=names[0], user=names[1], group=names[2], target=names[3],
                target_is_directory=bool(flags), token=token)


def _failed(p):
    error, lines, mn, errno, limit, count, done, pn = struct.unpack_from("<HBBIQQQI", p)
    numbers = struct.unpack_from("<%dQ" % lines, p, 36)
    rest = p[36 + 8 * lines:]
    assert len(rest) == pn + mn
    return dict(error=ERRORS[error], errno=errno, limit=limit, count=count, done=done,
                lines=list(numbers), path=rest[:pn], message=rest[pn:].decode("ascii"))


def decode(kind, flags, p):
    name = TYPES[kind]
    if name == "entry":
        d = _entry(flags, p)
    elif name == "data":
        d = dict(bytes=p)
    elif name == "line":
        number, size = struct.unpack_from("<QQ", p)
        d = dict(number=number, bytes=size, text=p[16:], cut=bool(flags & 1), cr=bool(flags & 2),
                 open=bool(flags & 4))
    elif name == "match":
        line, start, column, length, n = struct.unpack_from("<QQIIH", p)
        d = dict(line=line, start=start, column=column, length=length, path=p[26:26 + n],
                 text=p[26 + n:], context=bool(flags & 1), cut=bool(flags & 2), gap=bool(flags & 4))
    elif name == "event":
        change, what, n, at = struct.unpack_from("<BBHQ", p)
        d = dict(change=CHANGES[change], kind=KINDS[what], at_ns=at, path=p[12:12 + n],
                 old=p[12 + n:], attributes=bool(flags))
    elif name == "item":
        error, errno, index, size = struct.unpack_from("<HIQQ", p)
        d = dict(error=ERRORS[error], errno=errno, index=index, bytes=size, path=p[22:],
                 created=bool(flags))
    elif name == "progress":
        d = dict(zip(("entries", "bytes", "total_bytes"), struct.unpack("<QQQ", p)))
    elif name == "failed":
        d = _failed(p)
    elif name == "end":
        d = dict(zip(END_FIELDS, struct.unpack_from("<15Q", p, 4)))
        d.update(cut=CUTS[struct.unpack_from("<I", p)[0]], binary=bool(flags & 1),
                 created=bool(flags & 2), replaced=bool(flags & 4), no_final_eol=bool(flags & 8),
                 crlf=bool(flags & 16))
    else:
        d = {}
    d["type"] = name
    return d


def frames(stream):
    """Decodes frames from a file object until its end; an incomplete one raises."""
    while True:
        head = stream.read(12)
        if not head:
            return
        size, kind, flags, zero, process = struct.unpack("<IBBHI", head)
        assert zero == 0 and process == 0 and size <= DATA_MAX + 64
        payload = stream.read(size)
        assert len(payload) == size, "torn frame"
        yield decode(kind, flags, payload)


class Answer(list):
    """The frames of one run; last is END or FAILED, or None if it was interrupted."""

    def __init__(self, items, status):
        super().__init__(items)
        self.status = status
        self.last = self[-1] if self and self[-1]["type"] in ("end", "failed") else None

    def of(self, name):
        return [f for f in self if f["type"] == name]

    @property
    def data(self):
        return b"".join(f["bytes"] for f in self if f["type"] == "data")

    @property
    def error(self):
        return self.last["error"] if self.last and self.last["type"] == "failed" else None


def program():
    return os.environ.get("CAY_TOOLS") or os.path.join(os.environ.get("CAY_BUILD", "build"),
                                                       "src/tools/cay-tools")


def argv(op, **keys):
    out = [os.path.abspath(program()).encode(), op.encode()]
    for key, value in keys.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, bool):
                one = int(one)
            out.append(key.encode() + b"=" + (one if isinstance(one, bytes) else str(one).encode()))
    return out


def run(op, stdin=b"", cwd=None, timeout=60, user=None, limits=(), **keys):
    extra = dict(user=user, group=user, extra_groups=[]) if user is not None else {}
    if limits:
        extra["preexec_fn"] = lambda: [resource.setrlimit(which, (n, n)) for which, n in limits]
    p = subprocess.Popen(argv(op, **keys), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=cwd,
                         **extra)
    timer = threading.Timer(timeout, p.kill)
    timer.start()

    def feed():
        try:
            p.stdin.write(stdin)
            p.stdin.close()
        except BrokenPipeError:
            pass
    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        got = list(frames(p.stdout))
        status = p.wait()
    finally:
        timer.cancel()
        feeder.join()
        p.stdout.close()
    return Answer(got, status)
