/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that becomes the first process of a sandbox, from its clone to its exec. It is root of
 * the host until it enters its user namespace, runs only the code below, and uses no path of the
 * template by name from outside. Errors are sent to the daemon over the agent's own socket.
 *
 * All namespaces except the user namespace belong to the host's user namespace: root inside has no
 * power over them (docs/decisions/001).
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "sys/mount/buildns.h"
#include "sys/process/caps.h"
#include "sys/file.h"
#include "sys/mount/mount.h"
#include "sys/probe.h"
#include "sys/syscalls.h"
#include "sys/process/timens.h"
#include "warden/root/programs.h"
#include "warden/slot/child.h"
#include "wire/agent.h"

/* The agent's descriptors at its start; src/agent/main.c uses the same numbers. */
#define AGENT_FD 3
#define AGENT_GROUPS_FD 4 /* its freezer cgroup, to create groups in */
#define AGENT_MEMORY_FD 5 /* its memory cgroup, to read */
#define AGENT_DISK_FD 6	  /* what its disk's quota counts, to read */
#define AGENT_FDS_END 7
#define USERNS_FD 7 /* the child's until it has entered it */
#define CHILD_FDS_END 8
#define NOFILE_MAX 65536
#define CHILD_STACK_BYTES 65536

static int enter_cgroups(struct birth *b)
{
	int r = cgroup_enter(&b->w->doors[b->slot], true);

	if (r >= 0)
		r = cgroup_enter_cpuset(&b->w->doors[b->slot]);
	if (r < 0 || !control_on(b->w, CONTROL_CGROUPNS))
		return r;
	return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

static int enter_namespaces(struct birth *b)
{
	if (setns(b->net.ipc_fd, CLONE_NEWIPC) < 0)
		return -errno;
	if (!control_on(b->w, CONTROL_NETNS))
		return 0;
	return setns(b->net.space.fd, CLONE_NEWNET) < 0 ? -errno : 0;
}

static int mount_proc(struct birth *b)
{
	_cleanup_close_ int fd = -1;
	int r = mount_make("proc", NULL, 0,
			   MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &fd);

	return r < 0 ? r : mount_attach(fd, b->root_fd, "proc");
}

/*
 * By path and in one call, while everything else uses descriptors: the working directory is the
 * warden's, and the targets are on our own file systems, each of which was mounted without
 * following a link.
 */
static int cover(const char *from, const char *target)
{
	return mount(from, target, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

static int mask_proc(struct birth *b)
{
	int r = chdir("/run/cay/" MASK_DIR) < 0 ? -errno : 0;

	for (unsigned i = 0; r >= 0 && i < b->w->mask_usual; i++)
		r = cover(mask_sources[b->w->masks[i].from].name, b->w->masks[i].target);
	return r;
}

/* The agent keeps them current; the covered files show the host's values. */
static int cover_proc(struct birth *b)
{
	int r = 0;

	if (!control_on(b->w, CONTROL_COVERS) || !b->has_covers)
		return 0;
	r = chdir("/sys") < 0 ? -errno : 0;
	for (size_t i = 0; r >= 0 && i < COVER_COUNT; i++)
		r = cover(covers[i].name, covers[i].target);
	return r;
}

static int cover_identity(struct birth *b)
{
	char path[IDENTITY_PATH_SIZE];
	int r = fchdir(b->covers_fd) < 0 ? -errno : 0;

	identity_path(path, IDENTITY_BOOT, b->slot);
	if (r >= 0)
		r = cover(path, "/proc/sys/kernel/random/boot_id");
	if (r >= 0 && b->is_copy) {
		identity_path(path, IDENTITY_FORKED, b->slot);
		r = cover(path, IDENTITY_MARK);
	}
	if (r < 0)
		return r;
	(void)close(TAKE_FD(b->covers_fd)); /* the warden's table has it, too */
	return chdir("/") < 0 ? -errno : 0;
}

/*
 * The root of a new mount namespace is the warden's read-only tmpfs with what names the sandbox.
 * This namespace has a copy of it, and before Linux 6.15 files can be mounted over others only from
 * there.
 */
static int enter_root(struct birth *b)
{
	b->covers_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (b->covers_fd < 0)
		return -errno;
	return mount_enter_root(b->root_fd);
}

/* The last moment at which /proc can be written; see child_clone() for when it takes effect. */
static int begin_time(struct birth *b)
{
	(void)b;
#ifndef CAY_SANITIZED
	if (probe_has(PROBE_TIME_AT_EXEC))
		return timens_begin("/proc");
#endif
	return 0;
}

/* Again, although its parent was on them: before Linux 6.2, entering a cpuset resets it. */
static int choose_processors(struct birth *b)
{
	return processors_enter(b->w, b->slot, &b->w->limits[b->slot]);
}

static int name_host(struct birth *b)
{
	return sethostname(b->id, strlen(b->id)) < 0 ? -errno : 0;
}

static int limit_resources(struct birth *b)
{
	struct rlimit none = { 0, 0 }, files;

	if (setrlimit(RLIMIT_CORE, &none) < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0)
		return -errno;
	files.rlim_max = MIN(files.rlim_max, (rlim_t)NOFILE_MAX);
	files.rlim_cur = MIN(files.rlim_max, (rlim_t)1024);
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		return -errno;
	if (!control_on(b->w, CONTROL_OOMSCORE))
		return 0;
	return file_write(AT_FDCWD, "/proc/self/oom_score_adj", "100");
}

static int fill_reserved(int null_fd)
{
	for (int fd = AGENT_FD; fd < CHILD_FDS_END; fd++)
		if (dup3(null_fd, fd, O_CLOEXEC) < 0)
			return -errno;
	return 0;
}

int child_reserve_descriptors(struct warden *w)
{
	_cleanup_close_ int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	w->null_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, CHILD_FDS_END);
	if (w->null_fd < 0)
		return -errno;
	if (fd < CHILD_FDS_END)
		fd = -1; /* already one of them */
	return fill_reserved(w->null_fd);
}

/*
 * Keeps only the descriptors that the agent needs: 0, 1, 2 on its own /dev/null, the socket and
 * those of the cgroups. Until here the child uses the warden's table, and has closed everything
 * that it opened. Now it gets a separate table, with these few copied instead of hundreds closed.
 */
static int keep_descriptors(struct birth *b)
{
	int from[CHILD_FDS_END] = { [AGENT_FD] = b->net.listen_fd,
				    [AGENT_GROUPS_FD] = b->view.groups_fd,
				    [AGENT_MEMORY_FD] = b->view.memory_fd,
				    [AGENT_DISK_FD] = b->disk_fd,
				    [USERNS_FD] = b->userns_fd };
	int null_fd;

	for (int fd = AGENT_FD; fd < CHILD_FDS_END; fd++)
		if (from[fd] >= 0 && dup3(from[fd], fd, fd == USERNS_FD ? O_CLOEXEC : 0) < 0)
			return -errno;
	if (close_range(CHILD_FDS_END, ~0U, CLOSE_RANGE_UNSHARE) < 0)
		return -errno;
	b->tell_fd = AGENT_FD;
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd < 0)
		return -errno;
	for (int fd = 0; fd < AGENT_FDS_END; fd++)
		if ((fd < AGENT_FD || from[fd] < 0) && dup2(null_fd, fd) < 0)
			return -errno;
	(void)close(null_fd);
	return 0;
}

static int enter_user(struct birth *b)
{
	if (!control_on(b->w, CONTROL_USERNS))
		return 0;
	if (setns(USERNS_FD, CLONE_NEWUSER) < 0)
		return -errno;
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return -errno;
	return 0;
}

/* Before capabilities are dropped: loading it without no_new_privs (sudo!) needs CAP_SYS_ADMIN. */
static int filter_calls(struct birth *b)
{
	return control_on(b->w, CONTROL_SECCOMP) ? filter_load(&b->w->filter) : 0;
}

static int drop_capabilities(struct birth *b)
{
	return control_on(b->w, CONTROL_CAPS) ? caps_bound(caps_sandbox) : 0;
}

static int start_agent(struct birth *b)
{
	static char name[] = "cay-agent", option[] = "--tools", tools[] = "/run/cay/tools",
		    path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	char *const argv[] = { name, option, tools, NULL }, *const envp[] = { path, NULL };

	if (setsid() < 0 && errno != EPERM)
		return -errno;
	(void)close(USERNS_FD);
	(void)execve("/run/cay/agent", argv, envp);
	return -errno;
}

static const struct {
	const char *name;
	int (*run)(struct birth *b);
} steps[] = {
	{ "enter cgroups", enter_cgroups },
	{ "enter namespaces", enter_namespaces },
	{ "enter root", enter_root },
	{ "mount proc", mount_proc },
	{ "cover proc", cover_proc },
	{ "mask proc", mask_proc },
	{ "cover identity", cover_identity },
	{ "begin time", begin_time },
	{ "choose processors", choose_processors },
	{ "set host name", name_host },
	{ "keep descriptors", keep_descriptors }, /* before their number is limited */
	{ "limit resources", limit_resources },
	{ "enter user namespace", enter_user },
	{ "load seccomp filter", filter_calls },
	{ "drop capabilities", drop_capabilities },
	{ "start agent", start_agent },
};

static _noreturn_ void tell_failure(struct birth *b, size_t step, int error)
{
	char frame[AGENT_BOOT_FAILED_SIZE];
	int fd = accept(b->tell_fd, NULL, NULL);

	if (b->covers_fd >= 0)
		(void)close(b->covers_fd); /* the table may be the warden's */
	agent_pack_boot_failed(frame, (uint32_t)step, (uint32_t)-error, steps[step].name);
	if (fd >= 0) {
		(void)!write(fd, frame, sizeof(frame));
		(void)close(fd); /* the table may be the warden's */
	}
	_exit(1);
}

static int child(void *arg)
{
	struct birth *b = arg;
	sigset_t none;

	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		int r;

		if (i == ARRAY_LEN(steps) - 1) {
			(void)sigemptyset(&none);
			(void)sigprocmask(SIG_SETMASK, &none, NULL);
		}
		r = steps[i].run(b);
		if (r < 0)
			tell_failure(b, i, r);
	}
	return 1;
}

/*
 * The child shares our memory until its exec while we wait (as with vfork): copying the page
 * tables, faulting in the copies and waking the child on another core cost more than the wait. It
 * has a separate stack and changes nothing of ours except the birth that it was given. It shares
 * our descriptors, too: copying the table and closing the copy would cost more than everything it
 * opens. Sanitizers do not support that; their builds copy.
 *
 * The kernel writes the pid into the row before the child runs, so it always has an owner.
 */
int child_clone(struct birth *b, int *ret_pidfd)
{
	static char stack[CHILD_STACK_BYTES] __attribute__((aligned(64)));
	bool narrowed = processors_narrow(b->w, b->slot, &b->w->limits[b->slot]);
	int pidfd = -1, pid;
	struct clone_args args = {
		.flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWTIME | CLONE_PIDFD |
			 CLONE_PARENT_SETTID,
		.parent_tid = (uint64_t)(uintptr_t)&b->w->rows[b->slot].pid,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};

	if (b->w->doors[b->slot].into_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)b->w->doors[b->slot].into_fd;
	}
#ifndef CAY_SANITIZED
	args.flags |= CLONE_VM | CLONE_VFORK | CLONE_FILES;
	args.stack = (uint64_t)(uintptr_t)stack;
	args.stack_size = sizeof(stack);
#else
	(void)stack;
#endif
	buildns_leave(); /* its mounts are not for sandboxes */
	pid = sys_clone3_call(&args, child, b);
	if (narrowed)
		processors_widen(b->w);
	if (fill_reserved(b->w->null_fd) < 0)
		abort(); /* a sandbox's descriptors must not stay in our table */
	if (pid > 0)
		*ret_pidfd = pidfd;
	return pid;
}
