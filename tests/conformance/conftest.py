# SPDX-License-Identifier: Apache-2.0
"""One suite for every engine. Tests of capabilities that an engine does not claim are skipped, with a message."""

import http.client
import os
import re
import threading
import time

import pytest

from lib.client import Client
from lib.commands import spawn
from lib.contract import Contracts
from lib.daemon import Daemon
from lib.terminal import Terminal

ENGINES = os.environ.get("CAY_TEST_ENGINES", "native local").split()


@pytest.fixture(scope="session", autouse=True)
def contract():
    """Every reply of this suite must match the OpenAPI document of its daemon."""
    Client.contracts = Contracts()
    yield
    Client.contracts = None


@pytest.fixture(scope="session")
def engines_daemon():
    """A daemon in which the operator also enabled the engine without isolation."""
    more = {f"CAY_ENGINE_{name.upper()}": "true" for name in ENGINES if name not in ("native", "local")}
    with Daemon(args=["--engine-local"], env=more) as started:
        yield started
        # The supervisor would hide a crash; only the test itself uses kill -9.
        crashed = re.findall(r"\(pid \d+\) (?:was ended by signal (?!9$)|ended).*", started.logs(1000), re.M)
        assert not crashed, f"{crashed}\n{started.logs()}"


@pytest.fixture(scope="session", params=ENGINES)
def engine(request, engines_daemon):
    if engines_daemon.client.capabilities(request.param) is None:
        pytest.skip(f"engine {request.param} is not offered on this host")
    return request.param


@pytest.fixture(scope="session")
def api(engines_daemon):
    return engines_daemon.client


@pytest.fixture(scope="session")
def shared(api, engine):
    """A sandbox for tests that leave it usable."""
    with api.sandbox(engine=engine, timeout_sec=3600, env={"FROM_CREATE": "yes"}) as sandbox:
        yield sandbox


@pytest.fixture
def needs(api, engine):
    """needs("memory") skips unless the engine claims the capability."""
    def check(word):
        names = api.capabilities(engine)
        if not [n for n in names if word in n.replace("-", "_")]:
            pytest.skip(f"engine {engine} does not claim {word}; it claims {sorted(names)}")
    return check


class Quiet:
    """An idle terminal and an idle stream."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.open()

    def open(self):
        self.since = time.monotonic()
        process = spawn(self.sandbox, ["sleep", "3600"])
        self.terminal = Terminal(self.sandbox.client, process.path + "/attach")
        self.events = process.events(follow=True, timeout=60)
        threading.Thread(target=self.drain, args=(self.events,), daemon=True).start()

    @staticmethod
    def drain(events):
        try:
            list(events)
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass


@pytest.fixture(scope="session", autouse=True)
def quiet(api):
    """Opened before everything else: pings take 15 s."""
    with api.sandbox(timeout_sec=3600) as sandbox:
        idle = Quiet(sandbox)
        yield idle
        idle.terminal.close()
