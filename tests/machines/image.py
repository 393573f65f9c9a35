# SPDX-License-Identifier: Apache-2.0
"""Disk images of virtual machines: a root tree with a distribution's kernel, and the templates.

Images are kept in a cache directory under the hash of everything that determines them. A run never
writes to one: QEMU puts an overlay over it.
"""
import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("CAY_MACHINES", "")
                     or (os.path.join(os.environ["XDG_CACHE_HOME"], "cay-machines") if os.environ.get("XDG_CACHE_HOME")
                         else "/var/cache/cay/machines"))
ROOT_SIZE = "12G"
BUILD_LIMIT_SEC = 900
KEEP_SEC = 24 * 3600
PORTS = 4  # commands of the host that can run at the same time

# What the programs link with and what they call; names differ where Debian 13 has 64-bit time.
LIBRARIES = {
    "bookworm": ["libuv1", "libssl3"],
    "trixie": ["libuv1t64", "libssl3t64"],
}
PACKAGES = ["systemd", "systemd-sysv", "udev", "dbus", "kmod", "initramfs-tools", "iproute2", "nftables", "procps",
            "libsqlite3-0", "libjansson4", "libsodium23", "libseccomp2", "zlib1g",
            "btrfs-progs", "e2fsprogs", "util-linux", "mount", "curl", "jq", "ca-certificates", "openssl",
            "python3", "python3-pytest", "python3-requests", "python3-websockets", "tmux", "strace", "crun",
            "less"]
# With Ubuntu's kernel its defaults too: AppArmor with its service, and no user namespaces without privileges.
UBUNTU_PACKAGES = ["apparmor"]
UBUNTU_SYSCTLS = "kernel.apparmor_restrict_unprivileged_userns = 1\nkernel.unprivileged_userns_clone = 1\n"
# What is of no use in a machine without a network, and only delays its start.
MASKED = ["apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer",
          "e2scrub_reap.service", "getty@tty1.service", "serial-getty@ttyS0.service", "systemd-logind.service",
          "systemd-binfmt.service", "systemd-timesyncd.service", "systemd-pstore.service"]


class Failure(Exception):
    """An image could not be made; for a test run, a reason to skip."""


class Kernel:
    def __init__(self, name, suite, package, extra_suite=None, ubuntu=None, command_line=""):
        self.name, self.suite, self.package = name, suite, package
        self.extra_suite, self.ubuntu, self.command_line = extra_suite, ubuntu, command_line


KERNELS = {kernel.name: kernel for kernel in (
    Kernel("bookworm", "bookworm", "linux-image-cloud-amd64"),
    Kernel("noble", "bookworm", "linux-image-virtual", ubuntu="noble"),
    Kernel("trixie", "trixie", "linux-image-cloud-amd64"),
    # Not of a stable distribution: the newest kernel that Debian has for one.
    Kernel("newest", "trixie", "linux-image-cloud-amd64", extra_suite="trixie-backports"),
)}


def say(text):
    print(text, flush=True)


def debian_mirror():
    """The one this host is configured to use."""
    done = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT) $(ORIGIN)",
                           "Created-By: Packages"], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        uri, component, origin = (line.split() + ["", "", ""])[:3]
        if component == "main" and origin == "Debian":
            return uri
    raise Failure("this host has no Debian source of packages (try: apt-get update)")


def ubuntu_mirror(suite):
    """CAY_UBUNTU_MIRROR, else the one beside the Debian mirror, else Ubuntu's own: the first that has the suite."""
    beside = re.sub(r"/debian/?$", "/ubuntu", debian_mirror())
    tried = [os.environ.get("CAY_UBUNTU_MIRROR"), beside, "http://archive.ubuntu.com/ubuntu"]
    for uri in filter(None, tried):
        if subprocess.run(["curl", "-sfL", "-m", "20", "-o", "/dev/null", f"{uri}/dists/{suite}/InRelease"], check=False).returncode == 0:
            return uri
    raise Failure(f"no archive has Ubuntu's {suite}: tried {', '.join(filter(None, tried))}; set CAY_UBUNTU_MIRROR")


def proxy_options():
    done = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False)
    return [f"--aptopt={line}" for line in done.stdout.splitlines() if re.match(r'Acquire::https?::[Pp]roxy "', line)]


def mmdebstrap(*words):
    """Its mounts are in a namespace of its own and go away with it."""
    env = dict(os.environ, LC_ALL="C.UTF-8", DEBIAN_FRONTEND="noninteractive", TMPDIR="/var/tmp")
    argv = ["setpriv", "--pdeathsig", "TERM", "unshare", "--mount", "--propagation", "private", "--", "mmdebstrap", "--mode=root",
            "--dpkgopt=force-unsafe-io", '--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Languages "none"',
            '--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=Acquire::Retries "2"', *proxy_options(), *words]
    try:
        done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=BUILD_LIMIT_SEC, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"mmdebstrap: {error}") from error
    if done.returncode != 0:
        raise Failure("mmdebstrap failed:\n" + "\n".join(done.stdout.splitlines()[-25:]))


def ubuntu_sources(kernel, work):
    """Ubuntu's archive for the kernel alone; its keys come in a package of Debian's."""
    keys = work / "keys"
    mmdebstrap("--variant=extract", "--format=directory", "--include=ubuntu-archive-keyring", "trixie", str(keys), debian_mirror())
    ring = keys / "usr/share/keyrings/ubuntu-archive-keyring.gpg"
    mirror = ubuntu_mirror(kernel.ubuntu)
    (work / "ubuntu.sources").write_text(
        f"Types: deb\nURIs: {mirror}\nSuites: {kernel.ubuntu} {kernel.ubuntu}-updates\nComponents: main\nSigned-By: {ring}\n")
    (work / "preferences").write_text(
        "Package: *\nPin: release o=Ubuntu\nPin-Priority: -10\n\n"
        "Package: linux-image-* linux-modules-*\nPin: release o=Ubuntu\nPin-Priority: 990\n\n"
        "Package: linux-image-* linux-modules-*\nPin: release o=Debian\nPin-Priority: -10\n")
    return work / "ubuntu.sources"


PREPARE = r"""#!/bin/sh
set -e
root=$1
# A small initial RAM disk: these devices and no others.
mkdir -p "$root/etc/initramfs-tools/conf.d" "$root/etc/initramfs-tools/hooks"
echo MODULES=list >"$root/etc/initramfs-tools/conf.d/machine"
cat >"$root/etc/initramfs-tools/hooks/machine" <<'END'
#!/bin/sh
[ "$1" = prereqs ] && exit 0
. /usr/share/initramfs-tools/hook-functions
manual_add_modules virtio_pci virtio_blk ext4
END
chmod +x "$root/etc/initramfs-tools/hooks/machine"
"""

CLEAN = r"""#!/bin/sh
set -e
root=$1
rm -rf "$root/var/cache/apt" "$root/var/lib/apt/lists" "$root/usr/share/doc" "$root/usr/share/locale"
mkdir -p "$root/var/lib/apt/lists" "$root/var/cache/apt"
chroot "$root" passwd -q -d root
"""

# TREE GUEST OUT PORTS SYSCTLS MASKED...
FURNISH = r"""
set -e
root=$1 guest=$2 out=$3 ports=$4 sysctls=$5
shift 5
mkdir -p "$root/usr/lib/machine" "$root/var/lib/cay/templates" "$root/etc/udev/rules.d" "$root/etc/systemd/journald.conf.d"
install -m 755 "$guest/agent" "$root/usr/lib/machine/agent"
install -m 644 "$guest/machine-agent@.service" "$root/etc/systemd/system/"
for port in $(seq 0 $((ports - 1))); do
	echo "SUBSYSTEM==\"virtio-ports\", ATTR{name}==\"cay.$port\", TAG+=\"systemd\", ENV{SYSTEMD_WANTS}+=\"machine-agent@$port.service\""
done >"$root/etc/udev/rules.d/99-machine.rules"
printf '/dev/vda / ext4 defaults,noatime 0 1\n/dev/vdb /var/lib/cay/templates ext4 defaults,x-systemd.device-timeout=180 0 0\n' >"$root/etc/fstab"
echo machine >"$root/etc/hostname"
echo '127.0.0.1 localhost machine' >"$root/etc/hosts"
: >"$root/etc/machine-id"
[ -z "$sysctls" ] || printf %s "$sysctls" >"$root/etc/sysctl.d/10-machine.conf"
for unit; do ln -sf /dev/null "$root/etc/systemd/system/$unit"; done
printf '[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\n' >"$root/etc/systemd/journald.conf.d/machine.conf"
# Without devices of its own for long: a busy host must not make the start fail.
printf '[Manager]\nDefaultDeviceTimeoutSec=180\nDefaultTimeoutStartSec=180\n' >"$root/etc/systemd/system.conf"
cp "$root"/boot/vmlinuz-* "$out/vmlinuz"
cp "$root"/boot/initrd.img-* "$out/initrd"
ls "$root/lib/modules" >"$out/release"
"""


def digest(*parts):
    return hashlib.sha256("\0".join(map(repr, parts)).encode()).hexdigest()[:16]


def tree_key(kernel):
    return digest(vars(kernel), LIBRARIES, PACKAGES, UBUNTU_PACKAGES, PREPARE, CLEAN)


def image_key(kernel):
    guest = [path.read_bytes() for path in sorted((HERE / "guest").glob("*agent*"))]
    return digest(tree_key(kernel), FURNISH, MASKED, PORTS, ROOT_SIZE, UBUNTU_SYSCTLS, guest)


@contextlib.contextmanager
def locked(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{path}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_file_system(tree, path, size, label):
    with open(path, "wb") as image:
        image.truncate(0)
    done = subprocess.run(["mke2fs", "-q", "-t", "ext4", "-F", "-L", label, "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1",
                           "-d", str(tree), str(path), size], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"mke2fs: {done.stderr.strip()}")


def build_tree(kernel, target):
    """The packages of the distribution, as a tar."""
    say(f"==> downloading and installing the packages of {kernel.name} (once, about two minutes)")
    with tempfile.TemporaryDirectory(prefix=f".{kernel.name}-", dir=CACHE) as name:
        work = pathlib.Path(name)
        work.chmod(0o755)  # apt reads the keys as a user of its own
        for script, text in (("prepare", PREPARE), ("clean", CLEAN)):
            (work / script).write_text(text)
            (work / script).chmod(0o755)
        sources = [f"deb {debian_mirror()} {suite} main" for suite in filter(None, (kernel.suite, kernel.extra_suite))]
        hooks = [f"--essential-hook={work}/prepare", f"--customize-hook={work}/clean"]
        if kernel.ubuntu:
            sources.append(str(ubuntu_sources(kernel, work)))
        if kernel.extra_suite:
            (work / "preferences").write_text(f"Package: linux-*\nPin: release n={kernel.extra_suite}\nPin-Priority: 990\n")
        if (work / "preferences").exists():
            hooks.append(f'--setup-hook=mkdir -p "$1/etc/apt/preferences.d" && cp {work}/preferences "$1/etc/apt/preferences.d/machine"')
        names = [*PACKAGES, *LIBRARIES[kernel.suite], *(UBUNTU_PACKAGES if kernel.ubuntu else ()), kernel.package]
        mmdebstrap("--variant=minbase", "--format=tar", f"--include={','.join(names)}", *hooks, kernel.suite, f"{work}/tree.tar", *sources)
        os.rename(work / "tree.tar", target)


def build_image(kernel, tree_tar, target):
    say(f"==> making the disk image of {kernel.name}")
    with tempfile.TemporaryDirectory(prefix=f".{kernel.name}-", dir=CACHE) as name:
        tree, out = pathlib.Path(name, "tree"), pathlib.Path(name, "out")
        tree.mkdir()
        out.mkdir()
        # Not its devices: systemd makes them.
        subprocess.run(["tar", "-C", str(tree), "--exclude=./dev/*", "--xattrs", "--xattrs-include=*", "-xpf", str(tree_tar)], check=True)
        subprocess.run(["sh", "-c", FURNISH, "furnish", str(tree), str(HERE / "guest"), str(out), str(PORTS),
                        UBUNTU_SYSCTLS if kernel.ubuntu else "", *MASKED], check=True)
        make_file_system(tree, out / "root.img", ROOT_SIZE, "root")
        os.rename(out, target)


def replace(target, pattern, make):
    """Makes what the cache does not have; what it had for an older recipe is removed, unless another tree may use it."""
    if target.exists():
        return
    if os.geteuid() != 0:
        raise Failure("making an image needs root")
    for old in CACHE.glob(pattern):
        if time.time() - old.stat().st_mtime < KEEP_SEC:
            continue
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()
    make()


def root_image(kernel):
    """The directory with vmlinuz, initrd, release and root.img; created if it is not in the cache."""
    target = CACHE / f"{kernel.name}-{image_key(kernel)}"
    with locked(CACHE / kernel.name):
        if not target.exists():
            tree = CACHE / f"tree-{kernel.name}-{tree_key(kernel)}.tar"
            replace(tree, f"tree-{kernel.name}-*.tar", lambda: build_tree(kernel, tree))
            replace(target, f"{kernel.name}-*", lambda: build_image(kernel, tree, target))
    return target


def build_template(ref, name, content, target):
    with tempfile.TemporaryDirectory(prefix=".template-", dir=CACHE) as work:
        tree = pathlib.Path(work, "tree")
        (tree / "refs").mkdir(parents=True)
        shutil.copy2(ref, tree / "refs" / name)
        subprocess.run(["cp", "-a", "--reflink=auto", str(content), str(tree)], check=True)
        make_file_system(tree, f"{work}/image", "3G", "templates")
        os.rename(f"{work}/image", target)


def template_image(templates, name="base"):
    """A file system with one template, as the host has it."""
    ref = pathlib.Path(templates, "refs", name)
    if not ref.exists():
        raise Failure(f"there is no template {name} in {templates}; make run builds it")
    content = ref.read_text().split()[-1]
    target = CACHE / f"template-{name}-{content[:16]}.img"
    with locked(CACHE / f"template-{name}"):
        replace(target, f"template-{name}-*.img", lambda: build_template(ref, name, pathlib.Path(templates, content), target))
    return target
