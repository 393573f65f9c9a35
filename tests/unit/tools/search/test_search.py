# SPDX-License-Identifier: Apache-2.0
"""glob and grep, with hostile patterns and hostile files."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from program import bad, good, run, view  # noqa: E402


def globbed(path, *patterns, **keys):
    return sorted(e["path"].decode() for e in
                  run("glob", path, pattern=list(patterns), **keys).of("entry"))


def test_glob(tmp_path):
    for name in ("a.ts", "src/b.ts", "src/x/c.ts", "src/x/d.js", ".h/e.ts", "node_modules/m/i.ts"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert globbed(tmp_path, "*.ts") == [".h/e.ts", "a.ts", "node_modules/m/i.ts", "src/b.ts",
                                         "src/x/c.ts"]
    assert globbed(tmp_path, "src/*.ts") == ["src/b.ts"]
    assert globbed(tmp_path, "src/**/*.ts") == ["src/b.ts", "src/x/c.ts"]
    assert globbed(tmp_path, "**/x") == ["src/x"]
    assert globbed(tmp_path, "src/**") == ["src/b.ts", "src/x", "src/x/c.ts", "src/x/d.js"]
    assert globbed(tmp_path, "*.{ts,js}", "!node_modules/**", "!.h/**") == [
        "a.ts", "src/b.ts", "src/x/c.ts", "src/x/d.js"]
    assert globbed(tmp_path, "/*.ts") == ["a.ts"]
    assert globbed(tmp_path, "[a-b].ts") == ["a.ts", "src/b.ts"]
    (tmp_path / ".gitignore").write_text("node_modules/\n*.js\n!d.js\n/.h\n")
    assert globbed(tmp_path, "*.{ts,js}", gitignore=1) == ["a.ts", "src/b.ts", "src/x/c.ts",
                                                            "src/x/d.js"]
    bad(run("glob", tmp_path, pattern="[a"), "bad_pattern")
    bad(run("glob", tmp_path, pattern="{a"), "bad_pattern")
    bad(run("glob", tmp_path, pattern="{a,b}" * 20), "bad_pattern")
    start = time.monotonic()
    (tmp_path / ("a" * 200)).write_text("x")
    assert globbed(tmp_path, "*a" * 90 + "b") == []
    assert globbed(tmp_path, "**/*a" * 90 + "b") == []
    assert time.monotonic() - start < 30


def grep(path, pattern, **keys):
    a = run("grep", path, pattern=pattern, **keys)
    return a, [(m["path"].decode(), m["line"], m["text"].decode(), m["context"])
               for m in a.of("match")]


def test_grep(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/c.py").write_text("def two():\r\n    TWO = 2\r\nlast two")
    (tmp_path / "bin").write_bytes(b"two\0two")
    a, m = grep(tmp_path, "two")
    assert m == [("a.txt", 2, "two", False), ("b/c.py", 1, "def two():", False),
                 ("b/c.py", 3, "last two", False)]
    end = good(a)
    assert (end["matches"], end["files"], end["skipped_binary"]) == (3, 3, 1)
    hit = a.of("match")[1]
    assert (hit["column"], hit["length"]) == (5, 3)
    assert len(grep(tmp_path, "TWO", ignore_case=1)[1]) == 4
    assert [x[0] for x in grep(tmp_path, "two", include="*.py")[1]] == ["b/c.py"] * 2
    assert [x[0] for x in grep(tmp_path, "two", include="!*.py")[1]] == ["a.txt"]
    assert grep(tmp_path, "two():", fixed=1)[1] == [("b/c.py", 1, "def two():", False)]
    a, m = grep(tmp_path / "a.txt", "two|five", before=1, after=1)
    assert [(x[1], x[3]) for x in m] == [(1, True), (2, False), (3, True), (4, True), (5, False)]
    a, m = grep(tmp_path / "a.txt", "^one|^five", before=1, after=1)
    assert [(x[1], x[3]) for x in m] == [(1, False), (2, True), (4, True), (5, False)]
    assert [x["gap"] for x in a.of("match")] == [False, False, True, False]
    a, m = grep(tmp_path, "t", max_matches=2)
    assert len(m) == 2 and good(a)["cut"] == "count"
    a, m = grep(tmp_path, "t", max_bytes=10)
    assert good(a)["cut"] == "bytes"
    for pattern in ("(", "[z-a]", "a{2,1}", "(?<=a+)b", "*"):
        last = bad(run("grep", tmp_path, pattern=pattern), "bad_pattern")
        assert last["message"]
    (tmp_path / ".gitignore").write_text("b/\n")
    assert [x[0] for x in grep(tmp_path, "two", gitignore=1)[1]] == ["a.txt"]


def test_grep_long_lines(tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"x" * 3_000_000 + b"needle" + b"y" * 3_000_000 + b"\nneedle two\n")
    a, m = grep(f, "needle")
    assert [x[1] for x in m] == [1, 2]
    hit = a.of("match")[0]
    assert hit["cut"] and hit["text"][hit["column"] - 1:][:6] == b"needle"
    assert hit["start"] + hit["column"] - 1 == 3_000_000
    f.write_bytes(b"\n" * 2_000_000 + b"needle")
    assert grep(f, "needle", before=2)[1][-1][1] == 2_000_001
    f.write_bytes(b"".join(b"%07d\n" % i for i in range(400000)))
    a, m = grep(f, "^0(150000|299999|300000)$", before=3, after=2)
    assert [x[1] for x in m] == [149998 + i for i in range(6)] + [299997 + i for i in range(7)]


def gnu_grep(path, pattern):
    out = subprocess.run(["grep", "-rnPI", "--", pattern, "."], cwd=path, capture_output=True,
                         env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}).stdout
    found = set()
    for line in out.split(b"\n"):
        if line:
            name, number, _ = line.split(b":", 2)
            found.add((name[2:], int(number)))
    return found


def test_grep_finds_what_grep_finds(tmp_path):
    words = ["foo", "foobar", "bar foo", "  foo", "foo  ", "", "x", "'quoted'", "\"foo\"", "a\tb",
             "été", "ünder_score", "foo.bar()", "10%", "end\r", "\u2028", "A1 b2", "]["]
    import random
    rng = random.Random(7)
    for i in range(5):
        lines = [" ".join(rng.choice(words) for _ in range(rng.randrange(4))) for _ in range(200)]
        (tmp_path / f"f{i}").write_text("\n".join(lines) + ("" if i % 2 else "\n"))
    for pattern in ("foo", "^foo", "foo$", r"\bfoo\b", r"foo\s+bar", r"\S+\s\S+", "[^f]oo", "^$",
                    "^.{3}$", "(?i)FOO", "a.b", "é", "[éü]", r"\d+", "foo(?!bar)",
                    r"(?<=foo)bar", r"^\s*$", r"\s$", r"x*", "(foo).*\\1", r"[\s]foo", r"\Afoo",
                    r"foo\z", "[^\"]+$", r"\h", "foo|bar", r"[[:alpha:]]+_", "\\]\\[", r"\x66oo",
                    r"[^\w]$", r"foo\Z", r"\R", "(?s)o.x", r"\p{Lu}", "o++", "[^a-z]*+$"):
        a = run("grep", tmp_path, pattern=pattern, max_matches=100000)
        good(a)
        got = {(m["path"], m["line"]) for m in a.of("match")}
        assert got == gnu_grep(tmp_path, pattern), pattern


def test_hostile_patterns_end_in_time(tmp_path):
    (tmp_path / "a").write_text("x" * 20000 + "\n")
    (tmp_path / "b").write_text("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n" * 20000)
    for pattern in ("(x+x+)+y", "(a+)+$", "(a|aa)+$", "(a|a?)+$", "(.*)*z", "^(([a-z])+.)+[A-Z]+$",
                    r"(.*)\1\1\1\1\1y", "((a{1,100}){1,100}){1,100}"):
        start = time.monotonic()
        a = run("grep", tmp_path, pattern=pattern, time_ms=500, timeout=20)
        assert a.error == "bad_pattern" or good(a)
        assert time.monotonic() - start < 30, pattern


def test_grep_sparse_and_swapped(tmp_path):
    with open(tmp_path / "sparse", "wb") as f:
        f.truncate(1 << 42)
    with open(tmp_path / "text_then_hole", "wb") as f:
        f.write(b"needle\n" * 10)
        f.truncate(1 << 42)
    start = time.monotonic()
    end = good(run("grep", tmp_path, pattern="needle"))
    assert end["skipped_binary"] == 2
    assert good(view(tmp_path / "sparse")[0])["binary"]
    assert time.monotonic() - start < 30


def test_glob_without_hidden_names(tmp_path):
    (tmp_path / ".d").mkdir()
    for name in ("a", ".b", ".d/c"):
        (tmp_path / name).write_text("x")
    answer = run("glob", tmp_path, pattern="*", hidden=0)
    good(answer)
    assert [x["path"] for x in answer if x["type"] == "entry"] == [b"a"]
