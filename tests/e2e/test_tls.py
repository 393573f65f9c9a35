# SPDX-License-Identifier: Apache-2.0
"""https:// as users meet it: curl, openssl s_client, Python, nginx in front, a renewed certificate."""

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time

import pytest

from lib import tree
from lib.certs import Authority, serial
from lib.daemon import Daemon

NAME = "cay.test"


@pytest.fixture(scope="module")
def place():
    path = tempfile.mkdtemp(prefix="cay-tls-", dir="/var/tmp")
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def ca(place):
    return Authority(place)


@pytest.fixture(scope="module")
def secure(place, ca):
    cert, key = ca.issue(NAME, "127.0.0.1", at="server")
    with Daemon(args=["--tls-cert", cert, "--tls-key", key],
                env={"CAY_ALLOWED_HOSTS": NAME}) as daemon:
        daemon.cert, daemon.cert_key = cert, key
        daemon.port = int(daemon.url.rsplit(":", 1)[1])
        yield daemon


def curl(*words):
    return subprocess.run(["curl", "-sS", "-m", str(int(30 * tree.SLACK)), *words],
                          capture_output=True, text=True)


def resolve(daemon):
    return ["--resolve", f"{NAME}:{daemon.port}:127.0.0.1"]


def s_client(daemon, *words):
    return subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{daemon.port}",
                           "-servername", NAME, *words], input="", capture_output=True, text=True,
                          timeout=30 * tree.SLACK)


def connect(daemon, ca):
    context = ssl.create_default_context(cafile=ca.cert)
    raw = socket.create_connection(("127.0.0.1", daemon.port), timeout=30 * tree.SLACK)
    return context.wrap_socket(raw, server_hostname=NAME)


def get(conn, daemon):
    conn.request("GET", "/v1/options", headers={"Host": f"{NAME}:{daemon.port}",
                                                "Authorization": f"Bearer {daemon.key}"})
    answer = conn.getresponse()
    return answer.status, answer.read()


def keep_alive(daemon, ca):
    conn = http.client.HTTPSConnection(NAME, daemon.port)
    conn.sock = connect(daemon, ca)
    return conn


def serial_served(daemon, ca):
    with connect(daemon, ca) as sock:
        return sock.getpeercert()["serialNumber"].lstrip("0")


def test_curl_is_served_over_tls(secure, ca):
    done = curl("--cacert", ca.cert, *resolve(secure), "-H", f"Authorization: Bearer {secure.key}",
                f"https://{NAME}:{secure.port}/v1/options")
    assert done.returncode == 0, done.stderr
    assert "engines" in json.loads(done.stdout)


def test_plain_http_is_sent_to_https(secure):
    done = curl("-o", "/dev/null", "-w", "%{http_code} %{redirect_url}", *resolve(secure),
                "-d", "{}", f"http://{NAME}:{secure.port}/v1/sandboxes?a=b")
    assert done.stdout == f"308 https://{NAME}:{secure.port}/v1/sandboxes?a=b"


def test_this_hosts_command_line_stays_plain(secure):
    assert curl("-o", "/dev/null", "-w", "%{http_code}", secure.url + "/readyz").stdout == "200"
    assert secure.command("ls").returncode == 0


def test_versions_and_ciphers(secure):
    for version in ("-tls1_2", "-tls1_3"):
        assert "Cipher is (NONE)" not in s_client(secure, version).stdout
    old = s_client(secure, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    assert "Cipher is (NONE)" in old.stdout
    weak = s_client(secure, "-tls1_2", "-cipher", "AES128-SHA:AES256-SHA:@SECLEVEL=0")
    assert "Cipher is (NONE)" in weak.stdout


def test_protocols_we_do_not_speak_are_refused_by_name(secure):
    assert "ALPN protocol: http/1.1" in s_client(secure, "-alpn", "h2,http/1.1").stdout
    assert "no application protocol" in s_client(secure, "-alpn", "h2").stderr


def test_garbage_and_slow_handshakes_do_no_harm(secure, ca):
    for noise in (b"\x16", b"\x16\x03\x01\xff\xff" + b"a" * 4000, b"\x16" * 70000):
        with socket.create_connection(("127.0.0.1", secure.port), timeout=30) as sock:
            try:
                sock.sendall(noise[:65000])
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
            except OSError:
                pass  # the daemon closes the connection, as expected
    with connect(secure, ca) as sock:
        for byte in f"GET /readyz HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode():
            sock.sendall(bytes([byte]))  # each in a separate record
        assert sock.recv(64).startswith(b"HTTP/1.1 200")


def test_the_command_line_speaks_https(secure, ca):
    env = dict(secure.env, SSL_CERT_FILE=ca.cert)
    words = [secure.cay, "--url", f"https://127.0.0.1:{secure.port}", "--key", secure.key]
    done = subprocess.run([*words, "run", "--", "echo", "over tls"], env=env, capture_output=True,
                          text=True, timeout=60 * tree.SLACK)
    assert done.returncode == 0 and done.stdout == "over tls\n", done
    done = subprocess.run([*words, "ls"], env=secure.env, capture_output=True, text=True)
    assert done.returncode != 0 and "not trusted" in done.stderr


def wait_for(what):
    until = time.monotonic() + 30 * tree.SLACK
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_new_certificate_does_not_end_connections(secure, ca, place):
    old = keep_alive(secure, ca)
    assert get(old, secure)[0] == 200
    before = serial_served(secure, ca)
    new_cert, new_key = ca.issue(NAME, "127.0.0.1", at="renewed")
    os.replace(new_cert, secure.cert)
    os.replace(new_key, secure.cert_key)
    secure.kill("cayd", signal.SIGHUP)
    wait_for(lambda: serial_served(secure, ca) == serial(secure.cert).lstrip("0"))
    assert serial_served(secure, ca) != before
    assert get(old, secure)[0] == 200  # the same connection, opened with the old certificate

    # An invalid certificate: the current one stays, and the log has the reason.
    good = open(secure.cert).read()
    with open(secure.cert, "w") as f:
        f.write("this is no certificate\n")
    secure.kill("cayd", signal.SIGHUP)
    wait_for(lambda: "the certificate in force stays" in secure.logs(400))
    assert serial_served(secure, ca) != before
    # Repaired: noticed without a signal.
    with open(secure.cert, "w") as f:
        f.write(good)
    count = secure.logs(400).count("serving with the new certificate")
    wait_for(lambda: secure.logs(400).count("serving with the new certificate") > count)
    assert get(old, secure)[0] == 200


@pytest.mark.parametrize("what", ["missing", "nonsense", "other-key", "alone"])
def test_a_bad_certificate_is_a_clear_error_at_start(place, ca, what):
    cert, key = ca.issue(NAME, at=f"bad-{what}")
    args = ["--tls-cert", cert, "--tls-key", key]
    if what == "missing":
        os.unlink(cert)
    elif what == "nonsense":
        open(cert, "w").write("nonsense\n")
    elif what == "other-key":
        args[3] = ca.key
        os.chmod(ca.key, 0o644)
    else:
        args = args[:2]
    daemon = Daemon(args=args)
    try:
        assert daemon.up(check=False) != 0
        assert ("certificate" in daemon.up_output or "key" in daemon.up_output
                or "together" in daemon.up_output or cert in daemon.up_output)
    finally:
        daemon.close()


NGINX = """
daemon off; pid {place}/nginx.pid; error_log {place}/error.log; worker_processes 1; user root;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {place}/b; proxy_temp_path {place}/p; fastcgi_temp_path {place}/f;
  uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
  map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {cert}; ssl_certificate_key {key};
    location / {{
      proxy_pass http://127.0.0.1:{upstream};
      proxy_http_version 1.1;
      proxy_set_header Host $host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_buffering off; proxy_request_buffering off;
      proxy_read_timeout 1h; client_max_body_size 0;
    }}
  }}
}}
"""


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture(scope="module")
def nginx(place, ca, secure):
    """A real nginx that ends TLS in front of the daemon, configured as docs/guides/tls.md says."""
    cert, key = ca.issue(NAME, at="nginx")
    port = free_port()
    conf = os.path.join(place, "nginx.conf")
    with open(conf, "w") as f:
        f.write(NGINX.format(place=place, port=port, cert=cert, key=key, upstream=secure.port))
    server = subprocess.Popen(["/usr/sbin/nginx", "-c", conf, "-p", place])
    def up():
        assert server.poll() is None, open(os.path.join(place, "error.log")).read()
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", port)) == 0
    wait_for(up)
    yield port
    server.terminate()
    server.wait(30)


def through(nginx, daemon, ca, *words):
    return curl("--cacert", ca.cert, "--resolve", f"{NAME}:{nginx}:127.0.0.1",
                "-H", f"Authorization: Bearer {daemon.key}", *words)


def test_headers_of_an_untrusted_proxy_are_ignored(nginx, secure, ca):
    done = through(nginx, secure, ca, "-o", "/dev/null", "-w", "%{http_code}",
                   f"https://{NAME}:{nginx}/v1/options")
    assert done.stdout == "308"  # the daemon sees plain HTTP for a public name


def test_behind_nginx(place, ca):
    """A trusted nginx in front, streams included."""
    cert, key = ca.issue(NAME, at="front")
    with Daemon(env={"CAY_ALLOWED_HOSTS": NAME, "CAY_TRUSTED_PROXIES": "127.0.0.1"},
                args=["--tls-cert", cert, "--tls-key", key]) as daemon:
        port, upstream = free_port(), int(daemon.url.rsplit(":", 1)[1])
        conf = os.path.join(place, "front.conf")
        with open(conf, "w") as f:
            f.write(NGINX.format(place=place, port=port, cert=cert, key=key,
                                 upstream=upstream).replace("nginx.pid", "front.pid"))
        server = subprocess.Popen(["/usr/sbin/nginx", "-c", conf, "-p", place])
        try:
            def up():
                assert server.poll() is None, open(os.path.join(place, "error.log")).read()
                with socket.socket() as sock:
                    return sock.connect_ex(("127.0.0.1", port)) == 0
            wait_for(up)
            base = f"https://{NAME}:{port}"
            done = through(port, daemon, ca, base + "/v1/options")
            assert "engines" in json.loads(done.stdout)  # X-Forwarded-Proto: https is believed
            with daemon.client.sandbox() as box:
                done = through(port, daemon, ca, "-N", "-H", "Content-Type: application/json",
                               "-d", json.dumps({"command": "echo one; echo two"}),
                               f"{base}/v1/sandboxes/{box.id}/exec/stream")
                assert "one" in done.stdout and "exit" in done.stdout
                env = dict(daemon.env, SSL_CERT_FILE=ca.cert)
                words = [daemon.cay, "--url", f"https://localhost:{port}", "--key", daemon.key]
                done = subprocess.run([*words, "ls"], env=env, capture_output=True, text=True)
                assert "not trusted" in done.stderr  # the certificate is for another name
        finally:
            server.terminate()
            server.wait(30)
