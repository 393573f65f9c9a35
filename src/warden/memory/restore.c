/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores a sandbox with its memory. Its slot, volume, root and limits are those of any new one.
 * CRIU creates its processes; the job starts it inside the slot's cgroups and in net, uts, ipc and
 * cgroup namespaces of the host's user namespace, as for every sandbox. CRIU itself creates the
 * user, pid, mount and time namespaces, which belong to the new user namespace
 * (docs/decisions/016).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/log.h"
#include "sys/file.h"
#include "sys/mount/mount.h"
#include "sys/syscalls.h"
#include "warden/root/dev.h"
#include "warden/memory/checkpoint.h"
#include "warden/copy/job.h"
#include "warden/net/links.h"
#include "warden/root/programs.h"

#define RESTORE_LIMIT_MS 300000
#define USERNS_IMAGE_SIZE 64
#define MOUNTS_BYTES 65536 /* a sandbox has a few dozen */
/* CRIU works inside the limits, too: they are raised by this much until it has ended. */
#define WAKE_MORE_PIDS 64
#define WAKE_MORE_MEMORY_MB 128

/* ---- in the loop ---- */

static void more_room(struct warden_limits *limits)
{
	limits->pids_max = MIN(limits->pids_max + WAKE_MORE_PIDS, (uint32_t)BOUNDS_PIDS_MAX);
	limits->memory_mb =
		MIN(limits->memory_mb + WAKE_MORE_MEMORY_MB, (uint32_t)BOUNDS_MEMORY_MB_MAX);
}

int restore_prepare(struct warden *w, const struct warden_request *req, unsigned slot,
		    const struct job_result *copied, const char **ret_step)
{
	struct slot_row *row = &w->rows[slot];
	struct warden_limits limits = req->limits;
	int r = root_build_plain(w, slot, row->volume, copied->template_hash, ret_step);

	if (r < 0)
		return r;
	row->disk_size_mb = 0;
	memcpy(row->template_hash, copied->template_hash, sizeof(row->template_hash));
	limits_recount(w, slot, 0, copied->size_bytes);
	*ret_step = "write identity";
	r = identity_name(w, slot, row->id, true);
	if (r < 0)
		return r;
	*ret_step = "set limits";
	more_room(&limits);
	return limits_set(w, slot, &limits);
}

static void drop_parts(struct warden *w, unsigned slot)
{
	if (w->roots[slot].fd >= 0)
		(void)close(TAKE_FD(w->roots[slot].fd));
	stock_forget(w, slot);
}

/* As it had before; its address may differ. */
static int give_network(struct warden *w, unsigned slot, uint32_t network)
{
	_cleanup_close_ int net_fd = -1;

	if (!network)
		return 0;
	net_fd = attach_open_net(w, slot);
	if (net_fd < 0 || !slots_alive(w, slot)) /* pinned first, checked after */
		return -ESRCH;
	return links_set(w, slot, net_fd, network);
}

int restore_finish(struct warden *w, const struct warden_request *req, unsigned slot, int error,
		   const struct job_result *result, int ret_fds[WARDEN_FDS_MAX])
{
	struct slot_row *row = &w->rows[slot];
	int r;

	drop_parts(w, slot);
	if (error < 0 || row->state != SLOT_MAKING)
		return error < 0 ? error : -ESRCH;
	row->pid = result->pid;
	w->bonds[slot] = BOND_NONE; /* not our child: found by its cgroup, as after a restart */
	if (limits_set(w, slot, &req->limits) < 0)
		log_warn("%s: its limits stay higher than they should", row->id);
	row->state = SLOT_LIVE;
	r = give_network(w, slot, req->limits.network);
	return r < 0 ? r : attach_slot(w, slot, ret_fds);
}

/* ---- in a job ---- */

static size_t put_varint(uint8_t *dst, uint64_t value)
{
	size_t n = 0;

	for (; value > 0x7f; value >>= 7)
		dst[n++] = (uint8_t)(value | 0x80);
	dst[n++] = (uint8_t)value;
	return n;
}

/* One map of ids, as CRIU's image has it: field { 1: first inside, 2: first outside, 3: count }. */
static size_t put_map(uint8_t *dst, unsigned field, uint32_t first_id)
{
	uint8_t body[16];
	size_t n = 0;

	body[n++] = 1 << 3;
	n += put_varint(body + n, 0);
	body[n++] = 2 << 3;
	n += put_varint(body + n, first_id);
	body[n++] = 3 << 3;
	n += put_varint(body + n, IDS_PER_SLOT);
	dst[0] = (uint8_t)(field << 3 | 2);
	dst[1] = (uint8_t)n;
	memcpy(dst + 2, body, n);
	return n + 2;
}

/* The outside ids are those of the old slot: replaced by the new slot's. */
static int write_userns(struct warden *w, unsigned slot, int images_fd, const char *name,
			const char *path)
{
	_cleanup_close_ int from = openat(images_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_close_ int to = -1;
	uint8_t image[USERNS_IMAGE_SIZE];
	size_t n;

	if (from < 0 || read(from, image, 8) != 8) /* its two magic numbers */
		return -EIO;
	n = put_map(image + 12, 1, slot_first_id(w, slot));
	n += put_map(image + 12 + n, 2, slot_first_id(w, slot));
	for (size_t i = 0; i < 4; i++)
		image[8 + i] = (uint8_t)(n >> (8 * i));
	n += 12;
	(void)unlinkat(w->shared_fd, path, 0);
	to = openat(w->shared_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return to >= 0 && write(to, image, n) == (ssize_t)n ? 0 : -EIO;
}

static int find_userns(int images_fd, char dst[48])
{
	int fd = openat(images_fd, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int r = -ENOENT;

	if (!dir)
		return -EIO;
	for (struct dirent *e = readdir(dir); r < 0 && e; e = readdir(dir))
		if (strncmp(e->d_name, "userns-", 7) == 0 && strlen(e->d_name) < 32)
			r = snprintf(dst, 48, "images/%s", e->d_name);
	(void)closedir(dir);
	return r;
}

static int mount_userns(struct criu_run *run, int images_fd, char target[48])
{
	struct warden *w = run->w;
	char path[32];
	int fd, r;

	if (!control_on(w, CONTROL_USERNS) || !control_on(w, CONTROL_IDMAP))
		return 0;
	r = find_userns(images_fd, target);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "ids/%u.userns", run->slot);
	r = write_userns(w, run->slot, images_fd, target + strlen("images/"), path);
	if (r >= 0)
		r = mount_copy(w->shared_fd, path, 0, -1, &fd);
	return r < 0 ? r : criu_mount(run, target, true, fd);
}

/* Takes ownership of the mount; < 0 is returned as the error. */
static int add_outer(struct criu_run *run, enum criu_outer which, int fd)
{
	static const char *const targets[CRIU_OUTER_COUNT] = {
		[CRIU_DEV] = "ext/dev",		[CRIU_AGENT] = "ext/agent",
		[CRIU_FORKED] = "ext/forked",	[CRIU_BOOT] = "ext/boot",
		[CRIU_MACHINE] = "ext/machine",
	};
	/* The pool's own attribute, which cannot be removed inside a user namespace. */
	struct mount_attr as_made = { .attr_clr = MOUNT_ATTR_NOEXEC | MOUNT_ATTR__ATIME,
				      .attr_set = MOUNT_ATTR_RELATIME };
	bool is_dir = which == CRIU_DEV || which == CRIU_AGENT;
	int r = fd;

	if (r >= 0 && which == CRIU_AGENT)
		r = sys_mount_setattr(fd, "", AT_EMPTY_PATH, &as_made);
	if (r < 0)
		return r; /* the job exits, which closes its descriptors */
	r = criu_mount(run, targets[which], !is_dir, fd);
	if (r < 0)
		return r;
	criu_arg(run, "--external");
	criu_argf(run, "mnt[%s]:/%s", criu_outer_names[which], targets[which]);
	return 0;
}

static int mount_outer(struct criu_run *run, enum criu_outer which, int dir_fd, const char *path,
		       uint64_t attributes)
{
	int fd, r = mount_copy(dir_fd, path, attributes, -1, &fd);

	return r < 0 ? r : add_outer(run, which, fd);
}

static int mount_dev(struct criu_run *run)
{
	int fd, r = dev_copy(run->w, run->slot, &fd);

	return r < 0 ? r : add_outer(run, CRIU_DEV, fd);
}

/* Programs that differ from ours are mapped by the processes, so they are those of the memory. */
static int mount_programs(struct criu_run *run, int images_fd)
{
	struct warden *w = run->w;
	int fd, r;

	if (checkpoint_same_programs(w, images_fd))
		r = programs_copy(w, run->slot, "", 0, &fd);
	else
		r = programs_copy_other(w, images_fd, CHECKPOINT_PROGRAMS, &fd);
	return r < 0 ? r : add_outer(run, CRIU_AGENT, fd);
}

static int mount_masks(struct criu_run *run)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < MASK_SOURCE_COUNT; i++) {
		const struct mask_source *source = &mask_sources[i];
		char path[32];
		int fd;

		(void)snprintf(path, sizeof(path), MASK_DIR "/%s", source->name);
		r = programs_copy(run->w, run->slot, path, MOUNT_ATTR_NOEXEC, &fd);
		if (r >= 0)
			r = criu_mount(run, source->outer, source->is_file, fd);
		criu_arg(run, "--external");
		criu_argf(run, "mnt[%s]:/%s", source->name, source->outer);
	}
	return r;
}

static int mount_outers(struct criu_run *run, int images_fd)
{
	struct warden *w = run->w;
	static const enum identity_file files[] = { IDENTITY_FORKED, IDENTITY_BOOT,
						    IDENTITY_MACHINE };
	static const enum criu_outer outers[] = { CRIU_FORKED, CRIU_BOOT, CRIU_MACHINE };
	char path[IDENTITY_PATH_SIZE];
	int r;

	r = mount_dev(run);
	if (r >= 0)
		r = mount_programs(run, images_fd);
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(files); i++) {
		identity_path(path, files[i], run->slot);
		r = mount_outer(run, outers[i], w->names_fd, path, 0);
	}
	if (r >= 0)
		r = mount_masks(run);
	if (r >= 0)
		r = cover_wake(run, images_fd);
	return r;
}

/* ---- inside the new sandbox, before it runs ---- */

static int wait_for(int child)
{
	int status;

	if (child < 0)
		return child;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return status == 0 ? 0 : -EPERM;
}

/* In a process that exits: namespaces are entered permanently. */
static int in_child(struct warden *w, unsigned slot, int pid,
		    int (*fn)(struct warden *w, unsigned slot, int ns_fd), const char *ns)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	char path[32];
	int child;

	(void)snprintf(path, sizeof(path), "%d/ns/%s", pid, ns);
	child = sys_clone3(&args);
	if (child == 0) {
		int fd = openat(w->proc_fd, path, O_RDONLY | O_CLOEXEC);

		_exit(fd >= 0 && fn(w, slot, fd) >= 0 ? 0 : 1);
	}
	return wait_for(child);
}

/* As for every sandbox: nested user namespaces are disabled. */
static int forbid_nesting(struct warden *w, unsigned slot, int ns_fd)
{
	(void)slot;
	if (setns(ns_fd, CLONE_NEWUSER) < 0)
		return -errno;
	return file_write(w->proc_fd, "sys/user/max_user_namespaces", "0");
}

static int put_mark(struct warden *w, unsigned slot, int ns_fd)
{
	char path[IDENTITY_PATH_SIZE];
	int fd, root_fd, r;

	identity_path(path, IDENTITY_FORKED, slot);
	r = mount_copy(w->names_fd, path, 0, -1, &fd);
	if (r < 0)
		return r;
	root_fd = setns(ns_fd, CLONE_NEWNS) < 0 ? -1 : open("/", O_DIRECTORY | O_PATH | O_CLOEXEC);
	return root_fd < 0 ? -errno : mount_attach(fd, root_fd, IDENTITY_MARK + 1);
}

static const char *mounts_of(struct warden *w, int pid)
{
	static char text[MOUNTS_BYTES]; /* in a job's process */
	char path[32];

	(void)snprintf(path, sizeof(path), "%d/mountinfo", pid);
	return file_read(w->proc_fd, path, text, sizeof(text)) > 0 ? text : "";
}

static bool has_mount(const char *mounts, const char *target)
{
	char word[48];

	(void)snprintf(word, sizeof(word), " %s ", target);
	return strstr(mounts, word);
}

static int attach_masks(struct warden *w, const int fds[MASKS_MAX])
{
	int root_fd = open("/", O_DIRECTORY | O_PATH | O_CLOEXEC);
	int r = root_fd < 0 ? -errno : 0;

	for (unsigned i = 0; r >= 0 && i < w->mask_count; i++)
		if (fds[i] >= 0)
			r = mount_attach(fds[i], root_fd, w->masks[i].target + 1);
	return r;
}

/*
 * A process in the pid namespace mounts them, because the name of kernel.pid_max leads to a file of
 * the namespace of the process that looks. A namespace of processes is entered by a child only.
 */
static int enter_and_attach(struct warden *w, int pid, const int fds[MASKS_MAX])
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	char path[32];
	int pid_fd, mnt_fd, child;

	(void)snprintf(path, sizeof(path), "%d/ns/pid", pid);
	pid_fd = openat(w->proc_fd, path, O_RDONLY | O_CLOEXEC);
	(void)snprintf(path, sizeof(path), "%d/ns/mnt", pid);
	mnt_fd = openat(w->proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (pid_fd < 0 || mnt_fd < 0 || setns(pid_fd, CLONE_NEWPID) < 0 ||
	    setns(mnt_fd, CLONE_NEWNS) < 0)
		return -errno;
	child = sys_clone3(&args);
	if (child == 0)
		_exit(attach_masks(w, fds) < 0 ? 1 : 0);
	return wait_for(child);
}

/* CRIU restores the mounts of the memory, which an earlier version of cay may have written. */
static int put_masks(struct warden *w, unsigned slot, int pid, const char *mounts)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	int fds[MASKS_MAX], child, r = 0;
	bool any = false;

	for (unsigned i = 0; r >= 0 && i < w->mask_count; i++) {
		char path[48];

		fds[i] = -1;
		if (has_mount(mounts, w->masks[i].target))
			continue;
		any = true;
		(void)snprintf(path, sizeof(path), MASK_DIR "/%s",
			       mask_sources[w->masks[i].from].name);
		r = programs_copy(w, slot, path, MOUNT_ATTR_NOEXEC, &fds[i]);
	}
	if (r < 0 || !any)
		return r;
	child = sys_clone3(&args);
	if (child == 0)
		_exit(enter_and_attach(w, pid, fds) < 0 ? 1 : 0);
	return wait_for(child); /* a job's process: its exit closes the copies */
}

struct wake {
	struct job_result *result;
	int images_fd;
};

static int on_made(struct criu_run *run, int pid)
{
	struct wake *wake = run->arg;
	struct warden *w = run->w;
	int r = control_on(w, CONTROL_USERNS) ? in_child(w, run->slot, pid, forbid_nesting, "user")
					      : 0;

	if (r >= 0 &&
	    !has_mount(mounts_of(w, pid), IDENTITY_MARK)) /* from a template: it had none */
		r = in_child(w, run->slot, pid, put_mark, "mnt");
	if (r >= 0)
		r = put_masks(w, run->slot, pid, mounts_of(w, pid));
	fault_point(run->w, "wake.made");
	if (r >= 0)
		r = groups_place(run->w, run->slot, wake->images_fd, CHECKPOINT_GROUPS);
	wake->result->pid = pid;
	fault_point(run->w, "wake.placed");
	return r;
}

static int furnish(struct criu_run *run, int images_fd, char userns_target[48])
{
	/*
	 * The root itself, not a copy: it exists nowhere else, and is removed with its processes.
	 */
	int fd = fcntl(run->w->roots[run->slot].fd, F_DUPFD_CLOEXEC, 3), r;

	r = criu_mount(run, "root", false, fd < 0 ? -errno : fd);
	if (r >= 0)
		r = mount_copy(images_fd, "",
			       MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, -1, &fd);
	if (r >= 0)
		r = criu_mount(run, "images", false, fd);
	if (r >= 0)
		r = mount_userns(run, images_fd, userns_target);
	return r < 0 ? r : mount_outers(run, images_fd);
}

static int restore(struct criu_run *run, struct wake *wake)
{
	char userns_target[48];
	int r;

	run->limit_ms = RESTORE_LIMIT_MS;
	run->enters_cgroups = true;
	run->hostname = run->w->rows[run->slot].id;
	run->on_stage = on_made;
	run->arg = wake;
	for (const char *const *arg =
		     (const char *const[]){ "criu", "restore", "--images-dir", "/images",
					    "--work-dir", "/work", "--root", "/root",
					    "--manage-cgroups=ignore", "--restore-detached",
					    "--tcp-close", "--file-locks", "--action-script",
					    "/cay/" CRIU_HOOK_NAME, NULL };
	     *arg; arg++)
		criu_arg(run, *arg);
	r = furnish(run, wake->images_fd, userns_target);
	return r < 0 ? r : criu_run(run);
}

int restore_run(struct warden *w, const struct snapshot_order *order, struct job_result *result)
{
	_cleanup_close_ int images_fd = snapshot_open_memory(w, order->snapshot_id);
	struct wake wake = { result, images_fd };
	struct criu_run run;
	int r;

	job_step(result, "open memory");
	if (images_fd < 0)
		return images_fd;
	fault_point(w, "wake.begun");
	criu_init(&run, w, order->slot);
	r = restore(&run, &wake);
	criu_done(&run);
	fault_point(w, "wake.ended");
	if (r < 0)
		(void)snprintf(result->step, sizeof(result->step), "memory: %s",
			       *run.why ? run.why : strerror(-r));
	return r;
}
