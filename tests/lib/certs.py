# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made with the openssl program."""

import os
import subprocess


def run(*words, **kw):
    return subprocess.run(["openssl", *words], check=True, capture_output=True, **kw)


class Authority:
    """A certificate authority of a test's own in a directory."""

    def __init__(self, directory, name="cay test authority"):
        self.directory = str(directory)
        self.cert = os.path.join(self.directory, "ca.pem")
        self.key = os.path.join(self.directory, "ca.key")
        run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "30", "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.cert)

    def issue(self, *names, at=None):
        """Writes NAME.pem and NAME.key for the given names and addresses; returns both paths."""
        base = os.path.join(self.directory, at or names[0])
        alt = ",".join(("IP:" if n.replace(".", "").isdigit() else "DNS:") + n for n in names)
        run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={names[0]}", "-keyout", base + ".key", "-out", base + ".csr")
        with open(base + ".ext", "w") as f:
            f.write(f"subjectAltName={alt}\n")
        run("x509", "-req", "-in", base + ".csr", "-CA", self.cert, "-CAkey", self.key,
            "-CAcreateserial", "-days", "30", "-extfile", base + ".ext", "-out", base + ".pem")
        os.chmod(base + ".key", 0o644)  # the daemon's user reads it
        return base + ".pem", base + ".key"


def serial(pem):
    """The serial number of a certificate file, as s_client and Python show it."""
    text = subprocess.run(["openssl", "x509", "-noout", "-serial", "-in", pem], check=True,
                          capture_output=True, text=True).stdout
    return text.strip().split("=")[1]
