# SPDX-License-Identifier: Apache-2.0
"""Escape attempts (ESC)."""

import hashlib
import os

import pytest

import attacks
from lib import census, tree
from lib.client import ApiError


def test_ESC_01_exec_of_self_exe_script(box):
    """ESC-01: a command that is '#!/proc/self/exe' and writers on our helper's exe."""
    box.put("/tmp/trap", b"#!/proc/self/exe\n")
    result = box.root(["/tmp/trap"], timeout_sec=5)
    assert result.exit_code != 0
    script = """for i in $(seq 200); do for p in /proc/[0-9]*; do
        (exec 3>>$p/exe) 2>/dev/null && echo "open $p $(readlink $p/exe)"; done; done | sort -u"""
    opened = box.root(script, timeout_sec=20).stdout
    assert "cay" not in opened and "memfd" not in opened, opened


def test_ESC_01_agent_binary_is_not_the_hosts(box):
    """ESC-01: pid 1's program is no writable inode shared with the host."""
    pid = min(census.sandbox_pids(box.id))
    inside = os.stat(f"/proc/{pid}/exe")
    outside = os.stat(tree.program("cay-agent"))
    script = "chmod u+w /proc/1/exe 2>&1; (exec 3>>/proc/1/exe) 2>/dev/null && echo open; true"
    assert "open" not in box.sh(script)
    if (inside.st_dev, inside.st_ino) == (outside.st_dev, outside.st_ino):
        # The same inode is fine only when the sandbox sees it read-only.
        where = box.sh("stat -c '%m' /proc/1/exe 2>/dev/null; true").strip()
        assert where, "pid 1 runs the host's inode from a place the sandbox can name"


def test_ESC_02_init_memory_and_exe(box):
    """ESC-02: trace, read and write our pid 1, and take its descriptors."""
    attacks.init_protected(box)
    assert box.exec(["/bin/true"]).exit_code == 0


@pytest.mark.parametrize("cwd", ["/proc/self/fd/%d" % n for n in (3, 4, 5, 6, 7, 8, 9, 10, 31, 63)] +
                         ["/proc/1/root", "/proc/self/cwd/../..", "/proc/1/cwd"])
def test_ESC_03_leaked_descriptor_as_cwd(box, cwd):
    """ESC-03 (CVE-2024-21626): a working directory through a leaked descriptor."""
    try:
        result = box.root("pwd -P; stat -c %d:%i /; ls / | head -30", cwd=cwd)
    except ApiError as error:
        assert 400 <= error.status < 500, error
        return
    assert "(unreachable)" not in result.stdout
    assert result.stdout.splitlines()[1] == box.sh("stat -c %d:%i /").strip(), "another root"


def test_ESC_03_only_three_descriptors(box):
    """ESC-03: a command starts with 0, 1 and 2, nothing else."""
    for user in ("root", "sandbox"):
        listed = box.exec(["python3", "-c", "import os;print(sorted(map(int,os.listdir('/proc/self/fd'))))"],
                          user=user).ok().stdout
        assert listed.strip() in ("[0, 1, 2, 3]", "[0, 1, 2]"), listed  # 3: the listing itself


def test_ESC_04_cwd_after_pivot(box):
    """ESC-04: the first working directory lies inside the root."""
    assert box.exec("pwd -P").ok().stdout.strip() == "/workspace"
    assert box.exec("cd / && ls -d ..").ok().stdout.strip() == ".."
    assert box.sh("stat -c %i /").strip() == box.sh("stat -c %i /..").strip()


@pytest.mark.parametrize("victim,target", [
    ("/dev/null", "/proc/sys/kernel/core_pattern"), ("/dev/pts", "/proc/sysrq-trigger"),
    ("/dev/ptmx", "/proc/sys/kernel/core_pattern"), ("/proc", "/tmp/x")])
def test_ESC_05_06_07_replaced_nodes(client, victim, target):
    """ESC-05, ESC-06, ESC-07: what the engine set up cannot be replaced by links at run time."""
    with client.sandbox() as box:
        box.root(f"rm -rf {victim} && ln -s {target} {victim}")
        # Later commands still work and nothing was written through the link.
        result = box.root("echo pwned > /dev/null; head -c 5 /proc/sys/kernel/core_pattern")
        assert "pwned" not in result.stdout
    with open("/proc/sys/kernel/core_pattern") as f:
        assert "pwned" not in f.read()


@pytest.mark.parametrize("field,value", [
    ("volumes", [{"path": "/proc/sys"}]), ("volumes", [{"path": "/dev/../proc"}]),
    ("volumes", [{"path": "/"}]), ("volumes", [{"path": ""}]), ("volumes", ["\u0000"]),
    ("privileged", True), ("devices", ["/dev/kvm"]), ("cap_add", ["SYS_ADMIN"]),
    ("host_path", "/"), ("hostPath", "/"), ("mounts", [{"source": "/"}]), ("pid_mode", "host"),
    ("network_mode", "host"), ("sysctls", {"kernel.core_pattern": "|/x"}), ("runtime", "x"),
    ("docker_socket", True), ("security_opt", ["seccomp=unconfined"]), ("userns", "host")])
def test_ESC_10_25_unsafe_configuration_cannot_be_asked_for(client, field, value):
    """ESC-10, ESC-25: the API cannot express the unsafe configurations."""
    with pytest.raises(ApiError) as caught:
        client.delete(client.create(**{field: value})["id"])
    assert caught.value.status in (400, 422)
    if caught.value.status == 400:
        assert field in caught.value.error["message"], "the error names the field"


def test_ESC_11_socket_families(box):
    """ESC-11: every family and type; only unix, inet, inet6 and route netlink open."""
    attacks.socket_families(box)


def test_ESC_11_as_ordinary_user(box):
    """ESC-11: the same for the unprivileged user (root's answer could hide a capability check)."""
    lines = box.probe("sockets", user="sandbox").ok().probe()
    assert not [k for k, v in lines.items()
                if v.startswith("ok") and k.startswith(("socket.40.", "socket.38.", "socket.44."))]


def test_ESC_13_shared_layer_is_immutable(box, neighbour):
    """ESC-13: splice, vmsplice and sendfile of a shared file; the neighbour's copy is unchanged."""
    paths = ["/bin/ls", "/usr/bin/env", "/etc/passwd"]
    sums = neighbour.sh("sha256sum " + " ".join(paths))
    for path in paths:
        lines = box.probe("splice", path).ok().probe()
        assert lines["mmap.shared"] in attacks.REFUSED, lines
        assert lines["vmsplice"] in attacks.REFUSED, lines
    assert neighbour.sh("sha256sum " + " ".join(paths)) == sums
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("1")
    assert neighbour.sh("sha256sum " + " ".join(paths)) == sums


def test_ESC_13_writes_stay_private(box, neighbour):
    """ESC-13: changing, deleting and truncating template files changes only one's own copy."""
    before = neighbour.sh("sha256sum /etc/hosts /usr/bin/env")
    box.sh("echo poison >> /etc/hosts; rm -f /etc/hosts; cp /bin/ls /usr/bin/env.new; "
           "cat /bin/ls > /usr/bin/env.new")
    assert neighbour.sh("sha256sum /etc/hosts /usr/bin/env") == before


@pytest.mark.parametrize("user", ["root", "sandbox", "user"])
def test_ESC_15_capability_sets(box, user):
    """ESC-15: bounding, permitted, effective, inheritable, ambient equal the policy."""
    attacks.capability_sets(box, user)


def test_ESC_15_file_capabilities_and_ambient(box):
    """ESC-15: ambient raises and file capabilities give nothing outside the policy."""
    lines = box.probe("caps").probe()
    raised = {int(k.split(".")[1]) for k, v in lines.items()
              if k.startswith("ambient.") and v.startswith("ok")}
    assert not raised - attacks.ALLOWED_CAPS, raised
    # VFS_CAP_REVISION_2, permitted = inheritable = SYS_ADMIN, effective bit set.
    box.sh("cp /usr/local/bin/probe /tmp/capped")
    box.root(["python3", "-c",
              "import os;os.setxattr('/tmp/capped','security.capability',"
              "bytes.fromhex('0100000200002000')+bytes(4)+bytes.fromhex('00000000')+bytes(4))"])
    try:
        result = box.exec(["/tmp/capped", "caps"], user="sandbox", env={"CAY_PROBE_INSIDE": "1"})
    except ApiError as error:
        assert error.status == 400, error  # the kernel refuses to run it at all: EPERM
        return
    held = result.probe().get("CapEff", "0")
    assert int(held, 16) & (1 << 21) == 0, "a file capability gave SYS_ADMIN"


def test_ESC_17_file_handles(box):
    """ESC-17: shocker, guessed and own handles."""
    attacks.handles_closed(box)


def test_ESC_18_mount_calls(box):
    """ESC-18: old and new mount calls, remounts and unmounts of every mount point."""
    attacks.mounts_closed(box)


def test_ESC_19_root_changes(box):
    """ESC-19: pivot_root, chroot and the walk up."""
    attacks.root_stays(box)


def test_ESC_21_terminal_injection(box):
    """ESC-21, DEV-08: TIOCSTI and TIOCLINUX, also with bits above the 32nd."""
    attacks.terminal_ioctls(box)


def test_ESC_22_core_dumps(box):
    """ESC-22: a crash leaves no core and starts no helper."""
    result = box.root("ulimit -c; ulimit -c unlimited 2>/dev/null; cd /tmp && rm -f core*; "
                      "sh -c 'kill -SEGV $$'; ls /tmp/core* 2>/dev/null; true")
    assert result.stdout.splitlines()[0] == "0", result.stdout
    assert "/tmp/core" not in result.stdout
    assert not [n for n in os.listdir("/") if n.startswith("core")]


def test_ESC_23_key_rings(box):
    """ESC-23: kernel keys."""
    attacks.keys_closed(box)
    attacks.proc_masked(box)


def test_ESC_25_no_engine_socket_inside(box):
    """ESC-25, NET-20: no socket file of host or daemon, no docker.sock, no kubelet token."""
    found = box.sh("find / -xdev -type s 2>/dev/null; ls -d /var/run/docker.sock "
                   "/run/containerd /var/run/secrets 2>/dev/null; true")
    assert found.strip() == "", found


def test_ESC_25_abstract_sockets(box):
    """ESC-25: no abstract Unix socket of the host is visible or can be dialled."""
    names = box.sh("cut -c 54- /proc/net/unix")
    with open("/proc/net/unix") as f:
        host = {line.split()[-1] for line in f if "@" in line.split()[-1]}
    assert not [n for n in names.split() if n in host], names


def test_ESC_25_flag_hunt(box, neighbour, host_flag):
    """ESC-25: reads everything readable; the flags of host, daemon and neighbour are not there."""
    # Client.exec() fails by itself when a flag shows up in the output.
    box.root("cat /root/flag-* /proc/*/environ /proc/*/cmdline /proc/self/mountinfo "
             "/home/*/secret /tmp/secret /var/lib/cay/* 2>/dev/null | tr '\\0' '\\n'")
    box.root("grep -rsa FLAG /proc/1/ /proc/self /root /home /tmp /run /dev /var/lib 2>/dev/null"
             " --max-count=3 | head -c 100000", timeout_sec=30)
    name = os.path.basename(host_flag)
    for prefix in ("/proc/1/root", "/proc/self/root", "/..", "/proc/self/cwd/../../..",
                   "/dev/fd/../../..", "/proc/1/cwd"):
        out = box.root(f"cat {prefix}/root/{name} {prefix}{host_flag}").stdout
        assert out == ""


def test_ESC_25_template_tree_not_reachable(box):
    """ESC-25: no path of the host shows in the mount table."""
    text = box.sh("cat /proc/self/mountinfo /proc/mounts")
    for word in ("/var/lib/cay", "/var/tmp/cay-test", "pool.btrfs", "/tree/rootfs"):
        assert word not in text, f"{word} shows in the mount table:\n{text}"


def test_ESC_26_symlink_and_hardlink_tricks(box, host_flag):
    """ESC: links that point outside stay inside; magic links of other processes are refused."""
    box.sh(f"ln -sf /proc/1/root{host_flag} /tmp/l1; ln -sf ../../../../../..{host_flag} /tmp/l2; "
           "cat /tmp/l1 /tmp/l2 2>/dev/null; true")
    result = box.exec("ls -l /proc/1/fd /proc/1/cwd /proc/1/root 2>&1", user="sandbox")
    assert "ermission denied" in result.stdout, result.stdout


def test_ESC_27_sudo_is_root_inside_only(box, host_flag):
    """ESC: sudo gives root inside, and that root is nobody outside."""
    assert box.exec("sudo -n id -u").ok().stdout.strip() == "0"
    assert box.exec(f"sudo -n cat {host_flag}").exit_code != 0
    digest = hashlib.sha256(box.exec("sudo -n cat /proc/self/uid_map").out).hexdigest()
    assert digest == hashlib.sha256(box.root("cat /proc/self/uid_map").out).hexdigest()
