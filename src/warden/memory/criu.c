/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/memory/criu.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/time.h"
#include "sys/mount/buildns.h"
#include "sys/mount/mount.h"
#include "sys/process/namespace.h"
#include "sys/syscalls.h"
#include "warden/memory/criu_hook.h"

#define LOOK_MS 50 /* how often a cancellation is checked */
#define CHECK_LIMIT_MS 20000
#define LOG_BYTES 65536

const char *const criu_outer_names[CRIU_OUTER_COUNT] = {
	[CRIU_DEV] = "dev",   [CRIU_AGENT] = "agent",	  [CRIU_FORKED] = "forked",
	[CRIU_BOOT] = "boot", [CRIU_MACHINE] = "machine",
};

void criu_init(struct criu_run *run, struct warden *w, unsigned slot)
{
	*run = (struct criu_run){ .w = w, .slot = slot };
}

void criu_done(struct criu_run *run)
{
	for (size_t i = 0; i < run->mount_count; i++)
		(void)close(run->mounts[i].fd);
	run->mount_count = 0;
}

void criu_arg(struct criu_run *run, const char *arg)
{
	if (run->arg_count < CRIU_ARGS_MAX - 1)
		run->args[run->arg_count++] = arg;
}

void criu_argf(struct criu_run *run, const char *format, ...)
{
	size_t room = sizeof(run->text) - run->text_used;
	va_list values;
	int n;

	va_start(values, format);
	n = vsnprintf(run->text + run->text_used, room, format, values);
	va_end(values);
	if (n < 0 || (size_t)n >= room)
		return; /* limited by the mounts of a sandbox; CRIU then reports a missing one */
	criu_arg(run, run->text + run->text_used);
	run->text_used += (size_t)n + 1;
}

int criu_mount(struct criu_run *run, const char *target, bool is_file, int fd)
{
	if (fd < 0)
		return fd;
	if (run->mount_count == CRIU_MOUNTS_MAX) {
		(void)close(fd);
		return -ENOBUFS;
	}
	run->mounts[run->mount_count].target = target;
	run->mounts[run->mount_count].is_file = is_file;
	run->mounts[run->mount_count++].fd = fd;
	return 0;
}

/* ---- its mount namespace ---- */

static int copy_into(struct criu_run *run, const char *target, int dir_fd, const char *path,
		     uint64_t attributes)
{
	int fd, r = mount_copy(dir_fd, path, attributes, -1, &fd);

	return r < 0 ? r : criu_mount(run, target, false, fd);
}

static int furnish(struct criu_run *run)
{
	static const struct mount_option pts[] = { { "newinstance", NULL, -1 },
						   { "ptmxmode", "0600", -1 } };
	struct warden *w = run->w;
	int fd, r;

	r = copy_into(run, "usr", w->criu_fd, "", 0);
	if (r >= 0)
		r = copy_into(run, "cay", w->shared_fd, "criu", MOUNT_ATTR_RDONLY);
	if (r >= 0)
		r = copy_into(run, "run", w->shared_fd, "criu/run", MOUNT_ATTR_NOEXEC);
	if (r >= 0)
		r = copy_into(run, "dev", w->shared_fd, "dev", MOUNT_ATTR_RDONLY);
	if (r >= 0)
		r = mount_make("devpts", pts, ARRAY_LEN(pts), MOUNT_ATTR_NOEXEC, &fd);
	if (r >= 0)
		r = criu_mount(run, "dev/pts", false, fd);
	if (r >= 0)
		r = mount_make("proc", NULL, 0, MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOSUID, &fd);
	return r < 0 ? r : criu_mount(run, "proc", false, fd);
}

static int make_room(const struct criu_run *run, int *ret_fd)
{
	static const char *const dirs[] = { "work", "tmp", "ext" };
	static const char *const links[] = { "bin", "lib", "lib64", "sbin" };
	const struct mount_option options[] = { { "mode", "0755", -1 }, { "size", "64m", -1 } };
	_cleanup_close_ int fd = -1;
	char target[16];
	int r = mount_make("tmpfs", options, ARRAY_LEN(options), MOUNT_ATTR_NODEV, &fd);

	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(dirs); i++)
		r = mkdirat(fd, dirs[i], 0755) < 0 ? -errno : 0;
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(links); i++) {
		(void)snprintf(target, sizeof(target), "usr/%s", links[i]);
		r = symlinkat(target, fd, links[i]) < 0 ? -errno : 0;
	}
	for (size_t i = 0; r >= 0 && i < run->mount_count; i++) {
		const char *name = run->mounts[i].target;

		if (run->mounts[i].is_file)
			r = mknodat(fd, name, S_IFREG | 0600, 0) < 0 ? -errno : 0;
		else if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
			r = -errno;
	}
	if (r >= 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

static int hook_listen(int room_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, CRIU_HOOK_SOCKET + 1, sizeof(CRIU_HOOK_SOCKET) - 1);
	if (fd < 0 || fchdir(room_fd) < 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* ---- its process ---- */

static int enter_namespaces(struct criu_run *run)
{
	static const char *const names[] = { "net", "uts", "ipc", "cgroup" };
	char path[32];

	for (size_t i = 0; run->pid && i < ARRAY_LEN(names); i++) {
		_cleanup_close_ int fd = -1;

		(void)snprintf(path, sizeof(path), "%d/ns/%s", run->pid, names[i]);
		fd = openat(run->w->proc_fd, path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || setns(fd, 0) < 0)
			return -errno;
	}
	if (run->pid || !run->hostname)
		return 0;
	if (unshare(CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC) < 0 ||
	    sethostname(run->hostname, strlen(run->hostname)) < 0)
		return -errno;
	return netns_enter_new();
}

static int enter_room(struct criu_run *run, int room_fd)
{
	int r;

	buildns_leave();
	r = unshare(CLONE_NEWNS) < 0 ? -errno : mount_become_root(room_fd);
	for (size_t i = 0; r >= 0 && i < run->mount_count; i++)
		r = mount_attach(run->mounts[i].fd, room_fd, run->mounts[i].target);
	return r;
}

/* Before the cgroup namespace is entered; -1: the freezer is of version 1, or none is needed. */
static int open_freeze(const struct criu_run *run)
{
	const struct cgroup_tree *cgroups = &run->w->cgroups;
	char path[32];

	if (!run->pid || cgroups->fd[CGROUP_FREEZER] < 0 || !cgroups->v2[CGROUP_FREEZER])
		return -1;
	(void)snprintf(path, sizeof(path), "%u/cgroup.freeze", run->slot);
	return openat(cgroups->fd[CGROUP_FREEZER], path, O_RDWR | O_CLOEXEC);
}

static _noreturn_ void child(struct criu_run *run, int room_fd, int log_fd)
{
	struct warden *w = run->w;
	char owner[32];
	const char *const env[] = { "PATH=/usr/sbin:/usr/bin", "LD_PRELOAD=/cay/" CRIU_OWN_NAME,
				    owner, NULL };
	union {
		const char *const *in;
		char *const *out;
	} argv = { .in = run->args }, envp = { .in = env };
	int freeze_fd = open_freeze(run), in_fd, r = 0;
	sigset_t none;

	(void)snprintf(owner, sizeof(owner), CRIU_OWNER "=%u", slot_first_id(w, run->slot));
	if (!run->outlives_us)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (run->enters_cgroups)
		r = cgroup_enter(&w->doors[run->slot], false);
	if (r >= 0 && run->enters_cgroups)
		r = cgroup_enter_cpuset(&w->doors[run->slot]);
	/* CRIU does not restore the affinity: all processes inherit it */
	if (r >= 0 && run->enters_cgroups)
		r = processors_enter(w, run->slot, &w->limits[run->slot]);
	if (r >= 0)
		r = enter_namespaces(run);
	if (r >= 0)
		r = enter_room(run, room_fd);
	/*
	 * The lock of the state directory: no other warden starts before CRIU has ended. Not if it
	 * creates processes: unfinished ones would hold the lock.
	 */
	in_fd = run->outlives_us ? w->lock_fd : open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (r < 0 || dup2(in_fd, 0) < 0 || dup2(log_fd, 1) < 0 || dup2(log_fd, 2) < 0) {
		(void)dprintf(log_fd, "Error (room): %s\n", strerror(r < 0 ? -r : errno));
		_exit(126);
	}
	(void)setsid();
	if (freeze_fd >= 0 && freeze_fd != CRIU_FREEZE_FD)
		freeze_fd = dup2(freeze_fd, CRIU_FREEZE_FD);
	else if (freeze_fd >= 0)
		(void)fcntl(freeze_fd, F_SETFD, 0);
	(void)sys_close_range(CRIU_FREEZE_FD + (freeze_fd >= 0), ~0U);
	(void)execve("/usr/sbin/criu", argv.out, envp.out);
	(void)dprintf(2, "Error (room): no criu: %s\n", strerror(errno));
	_exit(127);
}

static volatile sig_atomic_t called_off;

static void on_term(int signum)
{
	(void)signum;
	called_off = 1;
}

static void on_hook(struct criu_run *run, int listen_fd)
{
	_cleanup_close_ int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	char text[16] = "", answer = 0;
	ssize_t n = fd < 0 ? -1 : recv(fd, text, sizeof(text) - 1, 0);
	uint64_t pid;

	if (n > 0 && str_to_u64(str_of(text), INT32_MAX, &pid) >= 0 && !called_off &&
	    run->on_stage && run->on_stage(run, (int)pid) >= 0)
		answer = CRIU_HOOK_GO;
	if (fd >= 0)
		(void)!send(fd, &answer, 1, MSG_NOSIGNAL);
}

/* Waits until it has ended. If cancelled, it continues to its next stage and is undone there. */
static int attend(struct criu_run *run, int pid, int listen_fd)
{
	_cleanup_close_ int pidfd = sys_pidfd_open(pid);
	int64_t end_ms = time_boot_ms() + run->limit_ms;
	int status;

	for (;;) {
		struct pollfd fds[] = { { pidfd, POLLIN, 0 }, { listen_fd, POLLIN, 0 } };
		int n = poll(fds, ARRAY_LEN(fds), LOOK_MS);

		if (n > 0 && fds[1].revents)
			on_hook(run, listen_fd);
		if (n > 0 && fds[0].revents)
			break;
		if (time_boot_ms() > end_ms || (called_off && !run->outlives_us)) {
			(void)snprintf(run->why, sizeof(run->why), "took longer than %d s",
				       run->limit_ms / 1000);
			(void)kill(pid, SIGKILL);
			end_ms = INT64_MAX;
		}
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (called_off)
		return -ECANCELED;
	return status == 0 ? 0 : -EIO;
}

/* ---- its messages ---- */

/* "(00.1) Error (criu/x.c:1): text": the first error that is not one of those it can ignore. */
static void find_why(struct criu_run *run, int log_fd)
{
	static const char *const idle[] = { "RLIMIT_NOFILE", "tun: Unable", "FAILED" };
	static char text[LOG_BYTES]; /* in a job's process: it exists once */
	ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);
	char *line = text, *next, *at;

	text[n < 0 ? 0 : n] = '\0';
	for (; line && *line && !*run->why; line = next) {
		bool skip = !strstr(line, "Error (");

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		at = strstr(line, "Error (");
		skip = skip || !at;
		for (size_t i = 0; !skip && i < ARRAY_LEN(idle); i++)
			skip = strstr(at, idle[i]);
		at = skip ? NULL : strstr(at, "): ");
		if (at)
			(void)snprintf(run->why, sizeof(run->why), "%s", at + 3);
	}
	for (char *p = run->why; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	if (!*run->why)
		(void)snprintf(run->why, sizeof(run->why), "failed without a word");
}

int criu_run(struct criu_run *run)
{
	_cleanup_close_ int room_fd = -1, listen_fd = -1, log_fd = -1;
	struct clone_args args = { .exit_signal = SIGCHLD };
	const struct sigaction term = { .sa_handler = on_term };
	int pid, r;

	called_off = 0;
	(void)sigaction(SIGTERM, &term, NULL);
	log_fd = memfd_create("criu", MFD_CLOEXEC);
	if (log_fd < 0)
		return -errno;
	r = furnish(run);
	if (r >= 0)
		r = make_room(run, &room_fd);
	if (r >= 0)
		r = listen_fd = hook_listen(room_fd);
	if (r < 0) {
		(void)snprintf(run->why, sizeof(run->why), "no room for it: %s", strerror(-r));
		return r;
	}
	pid = sys_clone3(&args);
	if (pid == 0)
		child(run, room_fd, log_fd);
	if (pid < 0)
		return pid;
	r = attend(run, pid, listen_fd);
	if (r < 0)
		find_why(run, log_fd);
	return r;
}

int criu_check(struct warden *w, char why[CRIU_WHY_SIZE])
{
	struct criu_run run;
	int r;

	criu_init(&run, w, 0);
	run.limit_ms = CHECK_LIMIT_MS;
	criu_arg(&run, "criu");
	criu_arg(&run, "check");
	r = criu_run(&run);
	memcpy(why, run.why, sizeof(run.why));
	criu_done(&run);
	return r;
}

/* It will run as root: no other user may be able to write to it. */
static bool is_roots(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_uid == 0 && !(st.st_mode & 022);
}

static int open_usr(const char *dir)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/usr/sbin/criu", dir), fd;

	if (n >= (int)sizeof(path) || !is_roots(path))
		return -1;
	path[n - (int)strlen("/sbin/criu")] = '\0';
	if (!is_roots(path) ||
	    mount_copy(AT_FDCWD, path, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, -1,
		       &fd) < 0)
		return -1;
	return fd;
}

void criu_open(struct warden *w, const char *dir)
{
	w->criu_fd = -1;
	if (!w->has_criu_parts || strcmp(dir, "none") == 0)
		return;
	w->criu_fd = open_usr(dir);
	if (w->criu_fd < 0)
		w->criu_fd = open_usr(""); /* the host's own */
}
