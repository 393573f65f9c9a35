# SPDX-License-Identifier: Apache-2.0
"""What users of other command lines expect, with the program and a real daemon."""

import hashlib
import io
import json
import os
import re
import secrets
import socket
import subprocess
import tarfile

import pytest

from lib import tree

HTTP_WORDS = re.compile(r"\b(GET|POST|PUT|PATCH|DELETE) [./]|\bSend |\b[a-z]+_(mb|sec|count)\b|%3A|/v1/|\bargv\b")


@pytest.fixture
def cay(daemon):
    return daemon.command


def ok(done):
    assert done.returncode == 0, done
    return done.stdout


@pytest.fixture
def box(client):
    """A sandbox with a unique name, and its id."""
    made = client.create(name="box" + secrets.token_hex(3), timeout_sec=600)
    yield made
    client.raw("DELETE", f"/v1/sandboxes/{made['id']}")


@pytest.fixture
def other(client):
    made = client.create(name="oth" + secrets.token_hex(3), timeout_sec=600)
    yield made
    client.raw("DELETE", f"/v1/sandboxes/{made['id']}")


def bytes_of(daemon, *words, **kw):
    """As daemon.command(), for output that is not text."""
    return subprocess.run([daemon.cay, "--state", daemon.state, *words], capture_output=True, env=daemon.env,
                          timeout=60 * tree.SLACK, **kw)


# -- words ----------------------------------------------------------------------------------------

def test_mistyped_commands_and_options(cay):
    for words, said in ((["stop", "x"], "cay pause"), (["stop", "x"], "cay rm"), (["start", "x"], "cay resume"),
                        (["crate"], "cay create"), (["exce", "x"], "cay exec"), (["sl"], "cay ls"),
                        (["template", "biuld"], "cay template build"),
                        (["create", "--tmeout", "5"], "--timeout"), (["exec", "x", "--workdir", "/", "ls"], "-C"),
                        (["run", "--rm", "ls"], "--keep"), (["create", "--network", "internet"], "none, restricted or full"),
                        (["create", "--on-timeout", "stop"], "destroy, pause or hibernate"),
                        (["net", "mode", "x", "open"], "none, restricted or full")):
        done = cay(*words)
        # exec and run have separate statuses for failures of cay itself
        assert done.returncode in (2, 125) and said in done.stderr, (words, done)
    assert "cay down" not in cay("stop", "x").stderr, "that would destroy everything"


def test_errors_use_the_terms_of_the_command_line(cay, box, client):
    name = box["name"]
    client.call("POST", f"/v1/sandboxes/{box['id']}/pause", {"kind": "freeze"})
    asleep = cay("exec", name, "--", "true")
    assert "cay resume" in asleep.stderr and "--auto-resume" in asleep.stderr, asleep
    client.call("POST", f"/v1/sandboxes/{box['id']}/resume")
    shadow = cay("cp", f"{name}:/etc/shadow", "-")
    assert shadow.returncode == 5 and "exec -u root" in shadow.stderr, shadow
    init = cay("create", "--init", "false")
    assert init.returncode == 8 and "--retain-on-failure" in init.stderr, init
    refused = cay("create", "--name", "Not_Allowed")
    assert refused.returncode == 2 and refused.stderr.startswith("cay: --name "), refused
    for done in (asleep, shadow, init, refused, cay("cat", f"{name}:/nosuch"), cay("cat", f"{name}:/tmp"),
                 cay("logs", name, "99"), cay("preview", name, "22"), cay("info", "nosuch"), cay("ls", "nosuch:/x"),
                 cay("create", "--template", "nosuch"), cay("create", "--snapshot", "nosuch"),
                 cay("create", "--allow", "not a host"), cay("windows", name, "read", "nosuch"),
                 cay("exec", name, "--", "nosuch"), cay("exec", name, "--", ""), cay("run", "--", *["x"] * 5000),
                 cay("ls", "--key", "cay_wrong"), cay("webhook", "info", "nosuch"), cay("secret", "rm", "nosuch")):
        assert done.returncode != 0 and not HTTP_WORDS.search(done.stderr), done.stderr


def test_json_errors_are_the_daemons_own(cay):
    error = json.loads(cay("create", "--json", "--name", "Not_Allowed").stderr)["error"]
    assert error["message"].startswith("name ") and error["request_id"]


def test_a_path_where_a_sandbox_is_meant(cay, box):
    name = box["name"]
    ok(cay("exec", name, "-c", "mkdir d; echo needle > d/hay"))
    assert ok(cay("grep", f"{name}:d", "needle")) == ok(cay("grep", name, "needle", "d")) == "d/hay:1:needle\n"
    assert ok(cay("glob", f"{name}:d", "*")) == "d/hay\n"
    assert cay("watch", f"{name}:/nosuch").returncode == 3, "the path is looked at"
    assert cay("grep", f"{name}:d", "needle", "d").returncode == 2
    for words in (["info"], ["ps"], ["rm"], ["pause"], ["exec"], ["logs"], ["snapshot"], ["fork"], ["ports"], ["events"],
                  ["net", "allow"], ["windows"], ["shell"]):
        rest = ["--", "ls"] if words == ["exec"] else ["1"] if words == ["logs"] else []
        done = cay(*words, f"{name}:/tmp", *rest)
        assert done.returncode in (2, 125) and f"{name} instead of {name}:/tmp" in done.stderr, done
        assert "route" not in done.stderr
    assert "-C /tmp" in cay("exec", f"{name}:/tmp", "--", "ls").stderr
    done = cay("ls", name)
    assert done.returncode == 2 and f"{name}:." in done.stderr


@pytest.mark.parametrize("name", ["./my.recipe", "my.recipe", "/tmp/x/my.recipe"])
def test_template_build_of_a_file(cay, name):
    done = cay("template", "build", name)
    assert done.returncode == 2 and "name of a recipe" in done.stderr and "cay template build my" in done.stderr, done


def test_the_other_protocol_is_recognised(daemon, cay):
    done = cay("status", "--url", daemon.url.replace("http:", "https:"))
    assert done.returncode == 2 and f"Use {daemon.url} " in done.stderr, done
    assert "it speaks http\n" in done.stderr and "Try again" not in done.stderr


def test_http_to_a_port_that_speaks_tls(daemon, tmp_path):
    from lib.certs import Authority
    import ssl
    import threading
    cert, key = Authority(str(tmp_path)).issue("127.0.0.1", at="server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(30)

    def serve():
        for _ in range(2):  # the call, and the question whether TLS is spoken
            try:
                with context.wrap_socket(server.accept()[0], server_side=True) as link:
                    link.recv(1000)
            except OSError:
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    address = "127.0.0.1:%d" % server.getsockname()[1]
    done = daemon.command("status", "--url", "http://" + address)
    thread.join()
    server.close()
    assert done.returncode == 2 and f"Use https://{address} " in done.stderr, done


def test_run_and_create_have_the_same_flags(cay):
    def flags(command):
        text = ok(cay(command, "--help")).split("Options of every command")[0]
        return set(re.findall(r"(--[a-z-]+)", text[text.index("Options"):]))
    assert flags("create") - flags("run") == {"--count"}


def test_limits_are_the_daemons(cay, client):
    """Fractions of a processor, and no limit of our own: an operator may have raised the daemon's."""
    made = ok(cay("create", "--cpu", "0.5", "--memory", "256")).strip()
    assert client.get(made)["cpu_count"] == 0.5
    assert re.search(rf"{made} .* 0\.5 +256 MB", ok(cay("ls")))
    ok(cay("rm", made))
    for words, flag in ((["--cpu", "5000"], "--cpu"), (["--memory", "100000g"], "--memory"), (["--timeout", "20000d"], "--timeout")):
        done = cay("create", *words)
        assert done.returncode == 2 and done.stderr.startswith(f"cay: {flag} must be "), done


# -- lists ----------------------------------------------------------------------------------------

def test_quiet_lists_names_only(cay, box, client):
    key = client.call("POST", "/v1/keys", {"name": "quiet", "scopes": ["sandboxes:read"]})
    hook = client.call("POST", "/v1/webhooks", {"url": "http://127.0.0.1:1/x", "enabled": False})
    client.call("POST", "/v1/secrets", {"name": "QUIET", "scope": "global", "value": "12345678"})
    snapshot = ok(cay("snapshot", box["name"])).strip()
    process = ok(cay("exec", "-d", box["name"], "--", "sleep", "100")).strip()
    ok(cay("exec", "-w", "shop", box["name"], "-c", "true"))
    preview = client.call("POST", f"/v1/sandboxes/{box['id']}/previews", {"port": 8080})
    try:
        for words, name in ((["ls"], box["id"]), (["template", "ls"], "base"), (["key", "ls"], key["id"]),
                            (["snapshot", "ls"], snapshot), (["snapshot", "ls", box["name"]], snapshot),
                            (["ps", box["name"]], process), (["webhook", "ls"], hook["id"]), (["secret", "ls"], "QUIET"),
                            (["windows", box["name"]], "shop"), (["preview", box["name"]], preview["id"])):
            done = cay(*words, "-q")
            lines = ok(done).splitlines()
            assert name in lines, (words, done)
            assert not [line for line in lines if re.search(r"\s", line)], (words, "only names", lines)
            whole = json.loads(ok(cay(*words, "--json")))["data"]
            assert len(lines) <= len(whole), words
        assert ok(cay("webhook", "deliveries", hook["id"], "-q")) == ""
        assert all(line.isdigit() for line in ok(cay("events", "-q", box["name"])).splitlines())
    finally:
        for path in (f"/v1/keys/{key['id']}", f"/v1/webhooks/{hook['id']}", "/v1/secrets/QUIET", f"/v1/snapshots/{snapshot}"):
            client.raw("DELETE", path)


def test_hibernated_is_shown(cay, box):
    ok(cay("pause", box["name"]))
    assert re.search(rf"{box['id']} +{box['name']} +paused ", ok(cay("ls")))
    ok(cay("resume", box["name"]))
    ok(cay("hibernate", box["name"]))
    assert re.search(rf"{box['id']} +{box['name']} +hibernated ", ok(cay("ls")))
    for words in (["ls", "-q"], ["ls", "--json"], ["ls"]):
        assert box["id"] in ok(cay(*words, "--status", "hibernated")), "what is shown can be asked for"
        assert box["id"] not in ok(cay(*words, "--status", "running"))
    ok(cay("resume", box["name"]))
    ok(cay("pause", box["name"]))
    assert box["id"] not in ok(cay("ls", "-q", "--status", "hibernated"))
    assert box["id"] in ok(cay("ls", "-q", "--status", "paused"))


def test_tree_says_that_it_stops(cay, box):
    ok(cay("exec", box["name"], "-c", "mkdir -p t/a/b/c; touch t/f"))
    done = cay("tree", f"{box['name']}:t", "--depth", "2")
    assert done.returncode == 0 and "stopped at depth 2" in done.stderr and "--depth" in done.stderr, done
    done = cay("tree", f"{box['name']}:t", "--depth", "5")
    assert done.stderr == "" and "c" in done.stdout.split()


def test_update(cay, box):
    ok(cay("update", box["name"], "--auto-resume", "on", "--idle-timeout", "10m", "--on-timeout", "pause", "--metadata", "a=b"))
    info = json.loads(ok(cay("info", box["name"], "--json")))
    assert info["auto_resume"] is True and info["idle_timeout_sec"] == 600 and info["on_timeout"] == "pause"
    assert info["metadata"] == {"a": "b"} and info["timeout_sec"] == 600, "what is not named stays"
    ok(cay("pause", box["name"]))
    assert ok(cay("exec", box["name"], "--", "echo", "awake")) == "awake\n"
    ok(cay("update", box["name"], "--auto-resume", "off"))
    ok(cay("pause", box["name"]))
    assert cay("exec", box["name"], "--", "true").returncode in (7, 125)
    ok(cay("resume", box["name"]))
    done = cay("update", box["name"])
    assert done.returncode == 2 and "nothing to change" in done.stderr
    assert cay("update", "nosuch", "--auto-resume", "on").returncode == 3
    assert "on or off" in cay("update", box["name"], "--auto-resume", "maybe").stderr


# -- abbreviated ids ---------------------------------------------------------------------------

def test_abbreviated_ids(cay, box, client):
    short = box["id"][:6]
    assert json.loads(ok(cay("info", short, "--json")))["id"] == box["id"]
    assert ok(cay("exec", short, "--", "echo", "hi")) == "hi\n"
    ok(cay("cp", str(tree.SOURCE / "README.md"), f"{short}:"))
    assert ok(cay("cat", f"{short}:README.md")) == (tree.SOURCE / "README.md").read_text()
    assert ok(cay("grep", f"{short}:README.md", "-F", "cay up"))
    snapshot = ok(cay("snapshot", short)).strip()
    assert ok(cay("restore", short, snapshot[:6])).strip() == box["id"]
    made = ok(cay("create", "--snapshot", snapshot[:6])).strip()
    assert ok(cay("rm", made[:6])).strip() == made[:6]
    assert ok(cay("snapshot", "rm", snapshot[:6])) and client.raw("GET", f"/v1/snapshots/{snapshot}")[0] == 404
    for words in (["info", box["id"][:2]], ["info", "zzzzzz"], ["info", box["id"] + "x"]):
        assert cay(*words).returncode == 3, words


def test_a_name_has_precedence_over_an_abbreviated_id(cay, box, client):
    named = client.create(name=box["id"][:6], timeout_sec=600)["id"]
    try:
        assert json.loads(ok(cay("info", box["id"][:6], "--json")))["id"] == named
    finally:
        client.delete(named)
    assert json.loads(ok(cay("info", box["id"][:6], "--json")))["id"] == box["id"]


def test_sandboxes_of_other_keys_are_not_found_by_abbreviated_ids(cay, box, client):
    key = client.call("POST", "/v1/keys", {"name": "weak", "scopes": ["sandboxes:read", "sandboxes:write"]})
    try:
        done = cay("info", box["id"][:6], "--key", key["key"])
        assert done.returncode == 3 and box["id"] not in done.stderr, done
        assert cay("rm", box["id"][:6], "--key", key["key"]).returncode == 3
    finally:
        client.raw("DELETE", f"/v1/keys/{key['id']}")


# -- copies ---------------------------------------------------------------------------------------

def test_copy_between_sandboxes(cay, box, other):
    ok(cay("exec", box["name"], "-c", "mkdir -p d/e; head -c 5000000 /dev/urandom > big; cp big d/e/b; ln -s e/b d/l; "
           "chmod 750 big; sha256sum big d/e/b > sums"))
    sums = ok(cay("cat", f"{box['name']}:sums"))
    ok(cay("cp", f"{box['name']}:big", f"{box['name']}:sums", f"{other['name']}:."))
    ok(cay("cp", "-r", f"{box['name']}:d", f"{other['name']}:"))
    assert ok(cay("exec", other["name"], "-c", "sha256sum big d/e/b; stat -c %a big; readlink d/l")) == sums + "750\ne/b\n"
    ok(cay("cp", f"{box['name']}:big", f"{other['name']}:renamed"))
    ok(cay("cp", f"{box['name']}:b*", f"{other['name']}:d/"))
    assert ok(cay("exec", other["name"], "-c", "sha256sum < renamed; sha256sum < d/big")).split()[0::2] == [sums.split()[0]] * 2
    assert json.loads(ok(cay("cp", "--json", f"{box['name']}:big", f"{other['name']}:x"))) == {"copied": 1, "bytes": 5000000}


def test_copy_between_sandboxes_fails_completely(cay, box, other):
    ok(cay("exec", other["name"], "-c", "echo precious > kept"))
    for source, target, status in ((f"{box['name']}:nosuch", "kept", 3), (f"{box['name']}:/etc/shadow", "kept", 5),
                                   (f"{box['name']}:/etc/passwd", "/root/x", 5), (f"{box['name']}:/etc", "kept", 7)):
        done = cay("cp", source, f"{other['name']}:{target}")
        assert done.returncode == status and done.stderr.startswith("cay: "), (source, target, done)
    assert cay("cp", f"{box['name']}:/etc/passwd", "nosuch:/x").returncode == 3
    assert cay("cp", "nosuch:/x", f"{other['name']}:kept").returncode == 3
    assert cay("cp", "/etc/passwd", "/tmp/x").returncode == 2
    assert ok(cay("cat", f"{other['name']}:kept")) == "precious\n"


def test_archives_on_standard_streams(daemon, cay, box, other):
    ok(cay("exec", box["name"], "-c", "mkdir -p d/e; echo one > d/1; echo two > d/e/2; ln -s 1 d/l"))
    done = bytes_of(daemon, "cp", f"{box['name']}:d", "-")
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(["tar", "t"], input=done.stdout, capture_output=True, timeout=60)
    assert listed.returncode == 0 and not listed.stderr, listed
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        names = {os.path.normpath(m.name) for m in archive}
        assert {"1", "e", "e/2", "l"} <= names, names
        assert archive.extractfile([m for m in archive if m.name.endswith("e/2")][0]).read() == b"two\n"
    ok(cay("exec", other["name"], "-c", "mkdir in"))
    again = bytes_of(daemon, "cp", "-", f"{other['name']}:in", input=done.stdout)
    assert again.returncode == 0, again.stderr
    assert ok(cay("exec", other["name"], "-c", "cat in/1 in/e/2; readlink in/l")) == "one\ntwo\n1\n"
    # Files go as they are.
    data = os.urandom(100000)
    assert bytes_of(daemon, "cp", "-", f"{other['name']}:f", input=data).returncode == 0
    assert hashlib.sha256(bytes_of(daemon, "cp", f"{other['name']}:f", "-").stdout).digest() == hashlib.sha256(data).digest()
    wrong = bytes_of(daemon, "cp", "-", f"{other['name']}:in", input=b"no archive")
    assert wrong.returncode == 2 and b"tar archive" in wrong.stderr, wrong


# -- shell ----------------------------------------------------------------------------------------

def test_shell(daemon, box, client):
    def shell(*words, typed=b"echo $((6*7)) $USER $PWD; exit 3\n"):
        ours, theirs = os.openpty()
        process = subprocess.Popen([daemon.cay, "--state", daemon.state, "shell", *words], env={**daemon.env, "TERM": "xterm"},
                                   stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        os.write(ours, typed)
        text = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            text += piece
        os.close(ours)
        return process.wait(30 * tree.SLACK), text.decode(errors="replace")

    status, text = shell(box["name"])
    assert status == 3 and "42 sandbox /workspace" in text, text
    status, text = shell("-u", "root", "-C", "/tmp", box["id"][:8])
    assert status == 3 and "42 root /tmp" in text, text
    name = "sh" + secrets.token_hex(3)
    status, text = shell(name)
    assert status in (3, 125) and "--create" in text and "42 " not in text, text
    status, text = shell("--create", "--memory", "256", name)
    made = client.get(name)
    client.delete(made["id"])
    assert status == 3 and "42 sandbox" in text and made["memory_mb"] == 256, text
    done = daemon.command("shell", box["name"], stdin=subprocess.DEVNULL)
    assert done.returncode in (2, 125) and "exec -i" in done.stderr


# -- completion -----------------------------------------------------------------------------------

def test_completion(daemon, cay, box, tmp_path):
    name = box["name"]
    ok(cay("exec", name, "-c", "mkdir sub; touch sub/one sub/only 'sub/$(touch hacked)' sub.txt"))
    script = tmp_path / "cay.bash"
    script.write_text(ok(cay("completion", "bash")))
    os.symlink(daemon.cay, tmp_path / "cay")

    def complete(line):
        """As typed: bash itself splits the words, at ':' and '=', too."""
        words = [w for w in re.split(r"([:=])| +", line) if w] + ([""] if line[-1] == " " else [])
        quoted = " ".join("'%s'" % w for w in words)
        done = subprocess.run(
            ["bash", "-c", f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); compopt() {{ :; }}; "
             "_cay; printf '%s\\n' \"${COMPREPLY[@]}\""], capture_output=True, text=True, cwd=tmp_path,
            env={**daemon.env, "PATH": f"{tmp_path}:/usr/bin:/bin", "CAY_STATE": daemon.state})
        assert done.stderr == "", done
        return done.stdout.split("\n")[:-1]

    assert complete("cay sta") == ["status"]
    assert complete("cay exec " + name[:5]) == [name]
    assert complete("cay exec " + box["id"][:8]) == [box["id"]]
    assert complete("cay create --template ba") == ["base"]
    assert complete("cay create -t ba") == ["base"]
    assert complete("cay create --network ") == ["none", "restricted", "full"]
    assert complete("cay create --network=re") == ["restricted"]
    assert complete("cay net mode " + name + " f") == ["full"]
    assert complete("cay template build ba") == ["base"]
    assert complete("cay cat " + name[:5]) == [name + ":"]
    assert sorted(complete(f"cay cat {name}:sub")) == ["sub.txt", "sub/"]
    assert sorted(complete(f"cay cat {name}:sub/o")) == ["sub/one", "sub/only"]
    assert complete(f"cay ls {name}:/et") == ["/etc/"]
    assert complete(f"cay grep {name}:su") == ["sub/", "sub.txt"] or complete(f"cay grep {name}:su") == ["sub.txt", "sub/"]
    assert sorted(complete(f"cay cat {name}:sub/")) == ["sub/one", "sub/only"], "a hostile name is not offered"
    assert complete("cay cp cay.b") == ["cay.bash"], "local files, too"
    assert complete(f"cay exec {name} ls --us") == [""] and complete(f"cay exec {name} --us") == ["--user"]
    assert complete("cay exec --user r") == ["root"]
    assert complete(f"cay --state {daemon.state} exec {name[:5]}") == [name]
    assert complete(f"cay --state {tmp_path} exec ") == [""], "no daemon there: nothing, at once"
    for shell in ("bash", "zsh", "fish"):
        assert "cay complete --" in ok(cay("completion", shell)) or "complete --" in ok(cay("completion", shell))
