/* SPDX-License-Identifier: Apache-2.0 */
/* Start of the warden: open what it will ever need, then leave the host's tree behind. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/log.h"
#include "sys/mount/buildns.h"
#include "sys/file.h"
#include "sys/module.h"
#include "sys/mount/mount.h"
#include "sys/probe.h"
#include "sys/syscalls.h"
#include "warden/root/dev.h"
#include "warden/slot/child.h"
#include "warden/memory/criu.h"
#include "warden/copy/job.h"
#include "warden/net/links.h"
#include "warden/root/programs.h"

#define SOCKET_NAME "warden.sock"
#define LOCK_NAME "warden.lock"
#define FILES_MAX 4096

static int open_directory(const char *path)
{
	int fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int fail(const char *what, int r)
{
	log_error("%s: %s", what, strerror(-r));
	return r;
}

/* Programs are copied: what runs in sandboxes can neither be written nor change under them. */
static int fill_program(int shared_fd, const char *name, const char *path)
{
	_cleanup_close_ int from = open(path, O_RDONLY | O_CLOEXEC), to = -1;
	struct stat st;
	off_t at = 0;

	if (from < 0 || fstat(from, &st) < 0)
		return -errno;
	to = openat(shared_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (to < 0)
		return -errno;
	while (at < st.st_size)
		if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
			return errno ? -errno : -EIO;
	return fchmod(to, 0755) < 0 ? -errno : 0;
}

/* What goes into the room with CRIU; both lie beside our own program. */
static int fill_criu(struct warden *w)
{
	static const char *const names[] = { CRIU_HOOK_NAME, CRIU_OWN_NAME };
	char path[PATH_MAX], target[64];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	int r = 0;

	if (n < 0 || mkdirat(w->shared_fd, "criu", 0755) < 0 ||
	    mkdirat(w->shared_fd, "criu/run", 0755) < 0)
		return -errno;
	while (n > 0 && path[n - 1] != '/')
		n--;
	w->has_criu_parts = true;
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(names); i++) {
		(void)snprintf(path + n, 64, "%s", names[i]);
		(void)snprintf(target, sizeof(target), "criu/%s", names[i]);
		r = fill_program(w->shared_fd, target, path);
		if (r == -ENOENT) {
			w->has_criu_parts = false;
			r = 0;
		}
	}
	return r;
}

static int fill_masks(struct warden *w)
{
	_cleanup_close_ int fd = -1;

	if (mkdirat(w->shared_fd, PROGRAMS_MASKS, 0755) < 0)
		return -errno;
	fd = openat(w->shared_fd, PROGRAMS_MASKS, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : mask_fill(w, fd);
}

/*
 * Without limits, because statfs() inside would show how much of them the other slots use; only the
 * warden writes here.
 */
static int make_shared(struct warden *w, const struct warden_options *o)
{
	const struct mount_option options[] = { { "size", "0", -1 },
						{ "nr_inodes", "0", -1 },
						{ "mode", "0755", -1 } };
	int r = mount_make("tmpfs", options, ARRAY_LEN(options), MOUNT_ATTR_NOSUID, &w->shared_fd);
	mode_t mask = umask(0);

	if (r >= 0)
		r = dev_open(w->shared_fd);
	if (r >= 0)
		r = mkdirat(w->shared_fd, PROGRAMS_DIR, 0755) < 0 ? -errno : 0;
	if (r >= 0)
		r = fill_program(w->shared_fd, PROGRAMS_DIR "/agent", o->agent);
	if (r >= 0 && o->tools)
		r = fill_program(w->shared_fd, PROGRAMS_DIR "/tools", o->tools);
	if (r >= 0)
		r = fill_criu(w);
	if (r >= 0)
		r = fill_masks(w);
	(void)umask(mask);
	if (r < 0)
		return r;
	if (mknodat(w->shared_fd, PROGRAMS_DIR "/forked", S_IFREG | 0444, 0) < 0 ||
	    mkdirat(w->shared_fd, "ids", 0755) < 0)
		return -errno;
	return 0;
}

static int open_socket(struct warden *w, const char *state_path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/" SOCKET_NAME, state_path);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (n >= (int)sizeof(address.sun_path)) {
		log_error("the state directory's path is too long for a socket: %s", state_path);
		return -ENAMETOOLONG;
	}
	if (fd < 0)
		return -errno;
	(void)unlink(address.sun_path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    fchownat(w->state_fd, SOCKET_NAME, w->daemon_uid, w->daemon_gid, AT_SYMLINK_NOFOLLOW) <
		    0 ||
	    fchmodat(w->state_fd, SOCKET_NAME, 0600, 0) < 0 || listen(fd, 4) < 0)
		return -errno;
	w->listen_fd = TAKE_FD(fd);
	return 0;
}

static int open_signals(struct warden *w)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	(void)signal(SIGPIPE, SIG_IGN);
	w->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return w->signal_fd < 0 ? -errno : 0;
}

static int open_host(struct warden *w, const struct warden_options *o)
{
	w->proc_fd = open_directory("/proc");
	w->cgroup_root_fd = open_directory("/sys/fs/cgroup");
	w->sys_fs_fd = open_directory("/sys/fs");
	w->state_fd = open_directory(o->state);
	w->host_mnt_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	w->home.net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	w->home.ipc_fd = open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC);
	if (w->proc_fd < 0 || w->cgroup_root_fd < 0 || w->host_mnt_fd < 0 || w->home.net_fd < 0 ||
	    w->home.ipc_fd < 0)
		return fail("open /proc and /sys/fs/cgroup", -ENOENT);
	if (w->state_fd < 0)
		return fail(o->state, w->state_fd);
	return 0;
}

/*
 * What a distribution's kernel has as modules. The rules of the network need more, which the kernel
 * loads by itself when they are made.
 */
static void load_modules(void)
{
	static const char *const names[] = { "overlay", "btrfs", "loop", "veth", "nf_tables" };

	if (module_has_filesystem("overlay") && module_has_filesystem("btrfs") &&
	    access("/sys/module/loop", F_OK) == 0)
		return;
	if (module_load(names, ARRAY_LEN(names)) == -EIO)
		log_info("modprobe did not load all of: overlay btrfs loop veth nf_tables");
}

static void probe_kernel(void)
{
	static const char *const words[] = { "could not be probed", "present", "missing",
					     "disabled" };

	probe_all();
	for (int i = 0; i < PROBE_COUNT; i++) {
		const struct probe_row *row = &probe_rows[i];
		enum probe_state state = probe_state((enum probe_feature)i);

		log_info("kernel: %s %s%s%s", row->name, words[state],
			 state == PROBE_PRESENT ? "" : ", used instead: ",
			 state == PROBE_PRESENT ? "" : row->instead);
	}
}

static int find_user(struct warden *w, const char *name)
{
	struct passwd *pw = getpwnam(name); /* at start only, before anything hostile is near */

	if (!pw) {
		log_error("there is no user '%s': 'make deps' or the package creates it", name);
		return -ENOENT;
	}
	w->daemon_uid = pw->pw_uid;
	w->daemon_gid = pw->pw_gid;
	return 0;
}

/*
 * Copies of the shared tmpfs: the one the warden writes to, the layers of every slot's programs,
 * what names each slot, and the same as the root of the namespace that sandboxes start in, where
 * each finds it by "/". Kernels before 6.15 copy it only while it is attached, so it is until the
 * host's mounts go: in this private namespace, over /proc, which was opened long ago.
 */
static int copy_shared(struct warden *w, int *ret_root_fd)
{
	const uint64_t attributes =
		MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
	_cleanup_close_ int fd = w->shared_fd;
	int r = sys_move_mount(fd, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH);

	w->shared_fd = -1;
	if (r >= 0)
		r = mount_copy(fd, "", 0, -1, &w->shared_fd);
	if (r >= 0)
		r = mount_copy(fd, "", attributes, -1, &w->names_fd);
	if (r >= 0)
		r = programs_open(w, fd);
	if (r >= 0)
		r = mount_copy(fd, "", attributes, -1, ret_root_fd);
	return r;
}

static int keep_mounts(struct warden *w)
{
	const int fds[] = { w->shared_fd,
			    w->names_fd,
			    w->layers_fd[0],
			    w->layers_fd[1],
			    w->templates_fd,
			    w->pool_mount_fd,
			    w->criu_fd,
			    w->cgroups.groups_view_fd,
			    w->cgroups.memory_view_fd };
	const struct cgroup_tree *groups = &w->cgroups;
	int r = buildns_open(w->proc_fd);

	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			r = mount_keep(fds[i]);
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(groups->shown_fd); i++)
		if (groups->shown_fd[i] >= 0)
			r = mount_keep(groups->shown_fd[i]);
	return r;
}

/* A mount can only be copied in the namespace it was taken in: ours, not the host's. */
static int leave_host(struct warden *w, const char *state_path, const char *templates,
		      const char *criu)
{
	_cleanup_close_ int root_fd = -1;
	int r = mount_unshare();

	if (r < 0)
		return fail("private mounts", r);
	r = storage_enter(w, state_path);
	if (r < 0)
		return fail("storage pool", r);
	r = mount_copy(AT_FDCWD, templates, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, -1,
		       &w->templates_fd);
	if (r < 0)
		return fail(templates, r);
	r = clean_root_open(w);
	if (r < 0)
		return r;
	criu_open(w, criu);
	cgroup_view_open(&w->cgroups, w->instance);
	r = copy_shared(w, &root_fd);
	if (r < 0)
		return fail("copies of the shared tree", r);
	r = mount_become_root(root_fd);
	if (r < 0)
		return fail("leave the host's mounts", r);
	r = keep_mounts(w);
	return r < 0 ? fail("build namespace", r) : 0;
}

static int open_cgroups(struct warden *w, const struct warden_options *o)
{
	int r = instance_place(w, o->cgroup);

	if (r >= 0)
		r = cgroup_open(w->cgroup_root_fd, w->place, w->instance, &w->cgroups);
	if (r < 0)
		return r;
	w->swap_mb = o->swap_mb;
	if (!control_on(w, CONTROL_DEVICES)) {
		if (w->cgroups.fd[CGROUP_DEVICES] >= 0)
			(void)close(TAKE_FD(w->cgroups.fd[CGROUP_DEVICES]));
		return 0;
	}
	if (w->cgroups.v2_fd < 0 || w->cgroups.fd[CGROUP_DEVICES] >= 0)
		return 0;
	r = cgroup_limit_devices(w->cgroups.v2_fd);
	if (r < 0)
		log_warn("devices: no BPF program (%s): nodev mounts and user namespaces alone "
			 "keep sandboxes from devices",
			 strerror(-r));
	return 0;
}

static int open_kernel_parts(struct warden *w, const struct warden_options *o)
{
	unsigned flags = control_on(w, CONTROL_SOCKETS) ? 0 : FILTER_ANY_SOCKET;
	int r = open_cgroups(w, o);

	if (r < 0)
		return fail("cgroups", r);
	r = filter_build(flags, &w->filter);
	if (r < 0)
		return fail("seccomp filter", r);
	r = make_shared(w, o);
	if (r < 0)
		return fail("shared tree (agent, devices)", r);
	cover_open(w);
	processors_open(w, o->spread);
	mask_find(w);
	r = storage_open(w, o->storage);
	if (r >= 0)
		r = snapshot_open(w);
	if (r >= 0)
		r = jobs_open(w);
	if (r >= 0)
		r = limits_open(w);
	return r < 0 ? fail("storage pool", r) : 0;
}

/* A slot in stock holds a dozen descriptors. */
static void raise_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = MIN(files.rlim_max, (rlim_t)FILES_MAX);
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

int warden_open(struct warden *w, const struct warden_options *o)
{
	char state_path[PATH_MAX];
	int r;

	*w = (struct warden){
		.pid = getpid(), .client_fd = -1, .listen_fd = -1, .run_fd = -1, .snapshots_fd = -1
	};
	raise_files();
	r = child_reserve_descriptors(w);
	if (r < 0)
		return fail("/dev/null", r);
	notify_open(&w->notify);
	w->disabled = fault_controls_off();
	if (!realpath(o->state, state_path))
		return fail(o->state, -errno);
	w->build_program = o->build;
	w->templates_path = o->templates;
	w->disk_overcommit = o->disk_overcommit;
	r = open_host(w, o);
	if (r < 0)
		return r;
	r = file_lock(w->state_fd, LOCK_NAME, &w->lock_fd); /* kept until the process ends */
	if (r == -EWOULDBLOCK) {
		log_error("another cay-warden runs on %s", state_path);
		return r;
	}
	if (r < 0)
		return fail(LOCK_NAME, r);
	load_modules();
	probe_kernel();
	r = find_user(w, o->user);
	if (r >= 0)
		r = instance_claim(w, state_path);
	if (r >= 0)
		r = open_kernel_parts(w, o);
	if (r >= 0)
		r = slots_open(w);
	if (r < 0)
		return fail("start", r);
	slots_recover(w);
	orphans_end(w);
	links_open(w, o->network_range, &o->link_limits);
	storage_sweep(w);
	r = open_socket(w, state_path);
	if (r < 0)
		return fail(SOCKET_NAME, r);
	r = open_signals(w);
	if (r >= 0)
		r = stock_open(w);
	return r < 0 ? r : leave_host(w, state_path, o->templates, o->criu);
}

void warden_close(struct warden *w)
{
	int64_t deadline = 500;
	bool rest = false;

	jobs_kill_all(w);
	stock_close(w);
	for (unsigned i = 0; i < w->slot_top; i++)
		if (w->rows[i].state == SLOT_LIVE && !slots_alive(w, i))
			w->rows[i].state =
				SLOT_DYING; /* died by itself, and no daemon was there to see it */
	/* Destroyed ones are dead but maybe not gone: a moment for the kernel, then the rest stays
	 * swept for. */
	while (deadline-- > 0) {
		sweep_reap(w);
		while (sweep_step(w))
			;
		rest = jobs_running(w);
		for (unsigned i = 0; i < w->slot_top; i++)
			rest |= w->rows[i].state == SLOT_DYING;
		if (!rest)
			break;
		(void)usleep(10000);
	}
	for (unsigned i = 0; i < w->slot_top; i++)
		rest |= w->rows[i].state == SLOT_LIVE;
	if (rest) {
		log_info("stopped; sandboxes live on");
		return;
	}
	links_close(w);
	cgroup_close(&w->cgroups);
	(void)cgroup_remove_tree(w->cgroup_root_fd, w->place, w->instance);
	instance_release(w);
	(void)unlinkat(w->state_fd, SOCKET_NAME, 0);
	(void)unlinkat(w->state_fd, "warden.slots", 0);
	log_info("stopped; nothing left");
}
