# SPDX-License-Identifier: Apache-2.0
"""The system call surface (SYS)."""

import pytest

import attacks


@pytest.fixture(scope="module")
def table(box):
    return attacks.syscall_table(box)


def test_SYS_01_table(table):
    """SYS-01: numbers 0 to 600 with null arguments against the policy."""
    attacks.judge_table(table)
    reached = sum(v not in ("ENOSYS", "EPERM") for v in table.values())
    print(f"system calls that answer: {reached} of {len(table)}")


@pytest.mark.parametrize("how", ["thread", "handler", "nnp", "exec"])
def test_SYS_02_same_table_everywhere(box, table, how):
    """SYS-02: the same from an older thread, a signal handler, after no_new_privs, after exec."""
    other = attacks.syscall_table(box, how)
    attacks.judge_table(other)
    refused = {n for n, v in table.items() if v in ("ENOSYS", "EPERM")}
    now = {n for n, v in other.items() if v in ("ENOSYS", "EPERM")}
    # landlock_restrict_self asks for no_new_privs and then for a descriptor: both are refusals.
    assert not refused - now - {446}, f"reachable this way: {refused - now}"


def test_SYS_02_as_ordinary_user(box):
    """SYS-02: the filter is the same for the unprivileged user."""
    attacks.judge_table(attacks.syscall_table(box, user="sandbox"))


def test_SYS_03_arguments_that_reach_further(box):
    """SYS-03: the dangerous calls with arguments past the first check."""
    attacks.dangerous_syscalls(box)


def test_SYS_04_own_filter(box):
    """SYS-04: a sandbox may filter itself; that affects only itself and allows nothing more."""
    lines = box.probe("seccomp").ok().probe()
    assert lines["parent.getppid"].startswith("ok"), lines
    assert lines["parent.io_uring"] in attacks.REFUSED, lines
    assert box.exec(["/bin/true"]).exit_code == 0, "our pid 1 is unaffected"


def test_SYS_05_foreign_abis(box):
    """SYS-05: int 0x80, x32 numbers and an i386 program."""
    attacks.foreign_abis(box)
    assert box.exec(["/bin/true"]).exit_code == 0


@pytest.mark.parametrize("user", ["root", "sandbox"])
def test_SYS_06_namespaces(box, user):
    """SYS-06, NSP-01: clone, clone3, unshare and setns with every namespace flag."""
    attacks.namespaces_closed(box, user)


def test_SYS_07_futex_requeue(table):
    """SYS-07: futex_requeue (456) is closed."""
    assert table[456] in ("EPERM", "ENOSYS")


def test_SYS_08_seccomp_is_on_for_everything(box):
    """SYS-08: every process inside runs under a filter."""
    text = box.sh("grep -h ^Seccomp: /proc/[0-9]*/status | sort | uniq -c")
    assert [line.split()[1:] for line in text.splitlines()] == [["Seccomp:", "2"]], text


@pytest.mark.parametrize("command", [
    "python3 -c 'import threading,ssl,sqlite3,subprocess,multiprocessing as m; "
    "p=m.Pool(2); print(p.map(abs,[-1])); p.close(); p.join()'",
    "node -e 'const w=require(\"worker_threads\");require(\"fs\").readdirSync(\"/\");"
    "console.log(require(\"child_process\").execSync(\"echo hi\").toString())'",
    "cd $(mktemp -d) && printf 'int main(void){return 0;}' > a.c && gcc -O2 a.c -o a && ./a",
    "cd $(mktemp -d) && git init -q . && git -c user.name=x -c user.email=x@y commit -q "
    "--allow-empty -m x && git log --oneline",
    "apt-get --version && dpkg -l | head -3 && apt-cache policy bash | head -2",
    "pip --version && npm --version", "tar c /etc/hostname | gzip | zcat | tar t",
    "bash -c 'coproc cat; echo $!; wait' < /dev/null & sleep 0.1; ps aux | head -3",
])
def test_SYS_08_compatibility(box, command):
    """SYS-08: ordinary tools work under the filter."""
    box.exec(command, timeout_sec=60).ok()
