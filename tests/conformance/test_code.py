# SPDX-License-Identifier: Apache-2.0
"""Code contexts: state between executions, results with their types, ends with a reason."""

import base64
import json
import os

import pytest

from lib import tree
from lib.client import ApiError, Client
from lib.commands import in_thread

pytestmark = pytest.mark.code

TEMPLATES = os.environ.get("CAY_TEMPLATES", "/var/lib/cay/templates")


@pytest.fixture(scope="module")
def box(api):
    """Kernels are part of a template, and only one engine here has templates."""
    if not os.path.exists(f"{TEMPLATES}/refs/code-interpreter-v1"):
        pytest.skip("the template code-interpreter-v1 is not built (cay-build code-interpreter-v1)")
    with api.sandbox(engine="native", template="code-interpreter-v1", timeout_sec=3600) as sandbox:
        yield sandbox


def path(box):
    return f"/v1/sandboxes/{box.id}"


def run(box, code, **fields):
    client = Client(box.client.url, box.client.key)
    client.timeout = 60 * tree.SLACK
    return client.call("POST", f"{path(box)}/code", dict(fields, code=code))


def contexts(box):
    return {c["id"]: c for c in box.client.call("GET", f"{path(box)}/code/contexts")["data"]}


def refused(call):
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value.status, caught.value.code


STATE = {
    "python": ("x = 41\nprint('out')\nimport sys; print('err', file=sys.stderr)\nx + 1", "x * 2", "42", "82"),
    "javascript": ("let x = 41; console.log('out'); console.error('err'); x + 1", "x * 2", "42", "82"),
    "bash": ("x=41; echo out; echo err >&2", "echo $((x * 2))", None, None),
}


@pytest.mark.parametrize("language", STATE)
def test_state_stays(box, language):
    first, second, value, later = STATE[language]
    answer = run(box, first, language=language)
    assert (answer["stdout"], answer["stderr"], answer["error"]) == ("out\n", "err\n", None)
    assert answer["context_id"] == language and answer["timed_out"] is answer["truncated"] is False
    assert [r["text"] for r in answer["results"] if r["is_main_result"]] == ([value] if value else [])
    again = run(box, second, language=language)
    assert again["execution_count"] == answer["execution_count"] + 1
    assert (again["results"][0]["text"] if later else again["stdout"]) == (later or "82\n")
    assert contexts(box)[language]["language"] == language


@pytest.mark.parametrize("language,code,name,value", [
    ("python", "def f():\n    return 1 / 0\nf()", "ZeroDivisionError", "division by zero"),
    ("python", "print(", "SyntaxError", None),
    ("javascript", "throw new TypeError('no')", "TypeError", "no"),
    ("javascript", "await Promise.reject(new Error('later'))", "Error", "later"),
    ("javascript", "let = 5 5", "SyntaxError", None),
    ("bash", "exit_with() { return 3; }; exit_with", "CommandFailed", "exit status 3"),
])
def test_errors_are_reported(box, language, code, name, value):
    error = run(box, code, language=language)["error"]
    assert error["name"] == name and (value is None or error["value"] == value)
    if language == "python":
        assert "line 1" in error["traceback"] or "line 2" in error["traceback"]
    assert run(box, "1" if language != "bash" else "true", language=language)["error"] is None, "it goes on"


def test_rich_results(box):
    answer = run(box, """
import matplotlib.pyplot as plt, pandas as pd
from IPython.display import display, HTML, JSON, Markdown, SVG, Latex, Javascript
plt.plot([1, 2, 3]); plt.show()
for shown in (HTML("<b>x</b>"), JSON({"k": [1]}), Markdown("*m*"), Latex("$x$"), Javascript("1"),
              SVG("<svg xmlns='http://www.w3.org/2000/svg'/>")):
    display(shown)
display({"application/x-own": "mine"}, raw=True)
pd.DataFrame({"a": [1, 2]})
""")
    assert answer["error"] is None, answer["error"]
    seen = {}
    for result in answer["results"]:
        for key, value in result.items():
            seen.setdefault(key, value)
    assert base64.b64decode(seen["png"]).startswith(b"\x89PNG") and "<b>x</b>" == seen["html"]
    assert seen["json"] == {"k": [1]} and seen["markdown"] == "*m*" and seen["latex"] == "$x$"
    assert seen["javascript"] == "1" and "<svg" in seen["svg"] and seen["extra"] == {"application/x-own": "mine"}
    last = answer["results"][-1]
    assert last["is_main_result"] and "dataframe" in last["html"] and "a" in last["text"]
    assert [r["is_main_result"] for r in answer["results"][:-1]] == [False] * (len(answer["results"]) - 1)


@pytest.mark.parametrize("language,code", [
    ("python", "import os; print(os.environ.get('ONE'))"), ("bash", "echo ${ONE-None}"),
    ("javascript", "console.log(process.env.ONE ?? 'None')")])
def test_env_applies_to_one_run(box, language, code):
    assert run(box, code, language=language, env={"ONE": "it's 1"})["stdout"] == "it's 1\n"
    assert run(box, code, language=language)["stdout"] == "None\n"


@pytest.mark.parametrize("language,code", [
    ("python", "import time\nkept = 7\ntime.sleep(1000)"), ("bash", "kept=7; sleep 1000"),
    ("javascript", "var kept = 7; await new Promise(r => setTimeout(r, 1e6))")])
def test_timeout_interrupts_and_keeps_the_state(box, language, code):
    answer = run(box, code, language=language, timeout_sec=1)
    assert answer["timed_out"] and answer["error"], answer
    shown = {"python": "print(kept)", "bash": "echo $kept", "javascript": "console.log(kept)"}[language]
    assert run(box, shown, language=language)["stdout"] == "7\n"


@pytest.mark.parametrize("language,code", [("python", "import os; os._exit(3)"), ("bash", "exit 3"),
                                           ("javascript", "process.exit(3)")])
def test_a_dead_kernel_is_reported_and_replaced(box, language, code):
    made = box.client.call("POST", f"{path(box)}/code/contexts", {"language": language, "cwd": "/tmp"})
    assert run(box, code, context_id=made["id"])["error"]["name"] == "KernelDied"
    shown = {"python": "import os; print(os.getcwd())", "bash": "pwd", "javascript": "console.log(process.cwd())"}
    assert run(box, shown[language], context_id=made["id"])["stdout"] == "/tmp\n"
    box.client.call("DELETE", f"{path(box)}/code/contexts/{made['id']}")
    assert made["id"] not in contexts(box)


def test_contexts_are_apart(box):
    one, two = (box.client.call("POST", f"{path(box)}/code/contexts", {}) for _ in range(2))
    try:
        assert one["id"] != two["id"] and one["language"] == "python"
        run(box, "x = 'one'", context_id=one["id"])
        assert run(box, "x", context_id=two["id"])["error"]["name"] == "NameError"
        restarted = box.client.call("POST", f"{path(box)}/code/contexts/{one['id']}/restart", {})
        assert (restarted["id"], restarted["language"]) == (one["id"], "python")
        assert run(box, "x", context_id=one["id"])["error"]["name"] == "NameError"
    finally:
        for made in (one, two):
            box.client.call("DELETE", f"{path(box)}/code/contexts/{made['id']}")
    assert refused(lambda: run(box, "1", context_id=one["id"])) == (404, "context_not_found")
    for tail, verb in (("", "DELETE"), ("/restart", "POST"), ("/interrupt", "POST")):
        body = {} if verb == "POST" else None
        call = lambda p=tail, v=verb, b=body: box.client.call(v, f"{path(box)}/code/contexts/none{p}", b)
        assert refused(call) == (404, "context_not_found")


def test_interrupt(box):
    run(box, "import time")
    running = in_thread(lambda: run(box, "open('/tmp/begun', 'w').close(); time.sleep(1000)"))
    box.exec("until [ -e /tmp/begun ]; do sleep 0.02; done; rm /tmp/begun").ok()
    box.client.call("POST", f"{path(box)}/code/contexts/python/interrupt", {})
    answer = running.result()
    assert answer["error"]["name"] == "KeyboardInterrupt" and answer["timed_out"] is False


def test_many_at_once(box):
    """Executions of one context run one after the other, each with its own output; also if it must be created first."""
    box.client.call("DELETE", f"{path(box)}/code/contexts/javascript") if "javascript" in contexts(box) else None
    started = [in_thread(lambda n=n: run(box, f"console.log('only {n}')", language="javascript")) for n in range(8)]
    answers = [running.result() for running in started]
    assert [a["stdout"] for a in answers] == [f"only {n}\n" for n in range(8)]
    assert sorted(a["execution_count"] for a in answers) == list(range(1, 9))


def test_much_output(box):
    answer = run(box, "print('x' * 3_000_000)")
    assert answer["stdout"] == "x" * 3_000_000 + "\n" and not answer["truncated"]
    answer = run(box, "for i in range(40): print('y' * 1_000_000)")
    assert answer["truncated"] and answer["error"] is None and len(answer["stdout"]) <= 8 << 20
    assert "not shown" in run(box, "'z' * 9_000_000")["results"][0]["text"]


@pytest.mark.long
def test_a_quiet_stream_has_heartbeats(box):
    """Heartbeats keep proxies from closing a quiet stream."""
    text = box.client.raw("POST", f"{path(box)}/code/stream",
                          {"code": "import time; time.sleep(31); print('now')"})[2].decode()
    assert text.count(": beat\n\n") >= 2
    assert "event: stdout" in text and "event: end" in text


def test_stream(box):
    text = box.client.raw("POST", f"{path(box)}/code/stream",
                          {"code": "echo a; echo b >&2; false", "language": "bash"})[2].decode()
    events = [(block.split("\n")[0][7:], json.loads(block.split("\n")[1][6:]))
              for block in text.split("\n\n") if block.startswith("event: ")]
    kinds = [kind for kind, _ in events]
    assert kinds[0] == "number_of_executions" and kinds[-1] == "end"
    assert ("stdout", "a\n") in [(k, d.get("text")) for k, d in events]
    assert ("stderr", "b\n") in [(k, d.get("text")) for k, d in events]
    assert [d["value"] for k, d in events if k == "error"] == ["exit status 1"]


def test_refusals(box, api):
    assert refused(lambda: run(box, "1", language="cobol")) == (400, "invalid_request")
    assert refused(lambda: box.client.call("POST", f"{path(box)}/code", {})) == (400, "invalid_request")
    assert refused(lambda: run(box, "x" * (1024 * 1024 + 1)))[0] == 400
    assert refused(lambda: run(box, "1", context_id="../x")) == (400, "invalid_request")
    with api.sandbox(engine="native") as plain:
        with pytest.raises(ApiError) as caught:
            run(plain, "1")
        assert caught.value.status == 422 and "code-interpreter-v1" in str(caught.value)


def test_hostile_kernel_output(box):
    """Code that writes to its kernel's channel affects at most its own replies."""
    code = """
import os, signal
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        line = open(f'/proc/{pid}/cmdline').read()
        if 'cay-code' in line and 'ipykernel' not in line:
            with open(f'/proc/{pid}/fd/1', 'wb', 0) as f:
                f.write(b'not json\\n{"type":5}\\n[]\\n{"id":"x","type":"end_of_execution"}\\n\\xff\\xfe\\n' + b'[' * 100000 + b'\\n')
    except OSError:
        pass
print('still here')
"""
    assert run(box, code)["stdout"] == "still here\n"
    assert run(box, "1 + 1")["results"][0]["text"] == "2"


def test_survives_the_daemon(box, engines_daemon):
    """Contexts are processes: a new daemon finds them with their variables."""
    run(box, "before = 'kept'")
    engines_daemon.kill("cayd")
    engines_daemon.wait_ready()
    assert run(box, "before")["results"][0]["text"] == "'kept'"
