/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-agent: pid 1 of a sandbox. It listens on a Unix socket, at a path (--listen) or inherited as
 * a descriptor (--listen-fd; default 3). On the inherited one the daemon's first connection is
 * usually queued already. If the inherited descriptor is 3, then 4 and 5 are the freezer and memory
 * cgroups and 6 shows the disk usage, where the engine has them.
 *
 *   cay-agent [--listen PATH | --listen-fd N] [--trust-any-peer] [--same-user] [--user NAME]
 *             [--cwd DIR] [--tools FILE] [--scratch DIR] [--egress] [--window-idle-ms N]
 *             [--hold-grace-ms N]
 *   cay-agent --bridge [PATH]
 *
 * --listen          create a socket at PATH and accept connections of our own user
 * --bridge          connect standard input and output to the agent that listens at PATH (default:
 *                   /run/cay-agent.sock), until both have ended
 * --egress          listen on 127.0.0.1:3128 and hand each connection to the daemon
 * --trust-any-peer  accept connections from our own pid namespace (engines without one)
 * --same-user       run all programs as our own user, even as root
 * --window-idle-ms  a window without a command closes after this long; for tests
 * --hold-grace-ms   how long output is kept for disconnected foreground readers; for tests
 * --scratch         directory for our files that programs use; default: /tmp
 * --tools           the program for AGENT_EXEC_TOOL; default: "tools" in our own directory
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "agent/agent.h"
#include "agent/system/clock.h"
#include "agent/digits.h"
#include "agent/output/hold.h"
#include "agent/window/window.h"

/* Descriptors at our start; src/warden/slot/spawn.c uses the same numbers. */
#define LISTEN_FD 3
#define GROUPS_FD 4
#define MEMORY_FD 5
#define DISK_FD 6
#define LISTEN_BACKLOG 16
#define SOCKET_PATH "/run/cay-agent.sock"
#define EVENTS_PER_TURN 64
#define KERNEL_SIGSET_BYTES 8

int agent_watch(struct agent *agent, int op, int fd, uint32_t events, enum agent_event event,
		uint32_t id)
{
	struct epoll_event ev = {
		.events = events,
		.data.u64 = (uint64_t)event << 32 | id,
	};

	return epoll_ctl(agent->epoll_fd, op, fd, &ev) < 0 ? -errno : 0;
}

static void on_process_event(struct agent *agent, enum agent_event event, uint32_t id)
{
	struct process *p = table_find_any(agent, id);

	if (!p)
		return; /* it ended earlier in this iteration */
	if (event == EVENT_IN)
		stdin_on_event(agent, p);
	else if (event == EVENT_REPORT)
		window_on_report(agent, p);
	else if (event == EVENT_COMMAND)
		window_on_writable(agent, p);
	else
		stream_on_event(agent, p, event == EVENT_ERR);
}

static void on_event(struct agent *agent, const struct epoll_event *ev)
{
	enum agent_event event = (enum agent_event)(ev->data.u64 >> 32);
	uint32_t id = (uint32_t)ev->data.u64;
	struct signalfd_siginfo info;

	switch (event) {
	case EVENT_LISTEN:
		conn_on_listen(agent);
		break;
	case EVENT_CONN:
		if (id == agent->connection)
			conn_on_event(agent, ev->events);
		break;
	case EVENT_CHILD:
		if (read(agent->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
			process_reap(agent);
		break;
	case EVENT_IN:
	case EVENT_OUT:
	case EVENT_ERR:
	case EVENT_REPORT:
	case EVENT_COMMAND:
		on_process_event(agent, event, id);
		break;
	case EVENT_DIAL:
		dial_on_event(agent, id);
		break;
	case EVENT_RELAY:
		relay_on_event(agent, id, ev->events);
		break;
	case EVENT_EGRESS:
		egress_on_event(agent);
		break;
	}
}

/* -1: no deadline. */
static int earlier(int a_ms, int b_ms)
{
	return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

static int sleep_ms(const struct agent *agent)
{
	if (agent->reap_due)
		return 0;
	return earlier(earlier(earlier(timer_sleep_ms(agent), inside_sleep_ms(agent)),
			       earlier(relay_sleep_ms(agent), orphan_sleep_ms(agent))),
		       earlier(dial_sleep_ms(agent), ports_sleep_ms(agent)));
}

static int agent_run(struct agent *agent)
{
	struct epoll_event events[EVENTS_PER_TURN];

	for (;;) {
		int n;

		timer_run(agent);
		dial_run(agent);
		relay_run(agent);
		ports_run(agent);
		orphan_run(agent);
		conn_flush(agent);
		process_release_groups(agent);
		inside_run(agent);
		n = epoll_wait(agent->epoll_fd, events, EVENTS_PER_TURN, sleep_ms(agent));
		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++)
			on_event(agent, &events[i]);
		if (agent->reap_due)
			process_reap(agent);
	}
}

/* The standard descriptors must exist, otherwise a pipe would get one of their numbers. */
static int open_null(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	if (fd < 0)
		return -errno;
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

/* Settings that children inherit, so that they need not be made for each of them. */
static int shed(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];
	static const unsigned long
		by_default[4]; /* the kernel's struct sigaction: SIG_DFL, no flags */
	struct rlimit none = { 0, 0 };
	sigset_t all;

	/* With the raw call: libc reserves two or three signals and does not reset those. */
	for (int signum = 1; signum < 65; signum++)
		if (signum != SIGKILL && signum != SIGSTOP)
			(void)syscall(SYS_rt_sigaction, signum, &by_default, NULL,
				      KERNEL_SIGSET_BYTES);
	/*
	 * No signal from inside is delivered; SIGPIPE becomes EPIPE; SIGCHLD arrives as an event.
	 */
	(void)sigfillset(&all);
	if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
		return -errno;
	(void)umask(022);
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capget, &header, caps) == 0) {
		caps[0].inheritable = caps[1].inheritable = 0;
		if (syscall(SYS_capset, &header, caps) < 0)
			return -errno;
	}
	if (getpid() != 1 && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return -errno;
	/* Children of other users share our memory until exec, so it must not be readable. */
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

static void find_self(struct agent *agent)
{
	char number[DIGITS_MAX + 1];
	uint32_t uid = geteuid();

	agent->self = (struct user){ .uid = uid, .gid = getegid(), .home = "/" };
	(void)digits_put(number, uid);
	if (user_resolve(number, &agent->self) < 0)
		memcpy(agent->self.name, number, strlen(number) + 1);
	agent->self.uid = geteuid();
	agent->self.gid = getegid();
}

static void open_tools(struct agent *agent, const char *path)
{
	static const char name[] = "tools";
	char beside[PATH_MAX];

	if (!path) {
		ssize_t n = readlink("/proc/self/exe", beside, sizeof(beside) - sizeof(name));

		while (n > 0 && beside[n - 1] != '/')
			n--;
		if (n <= 0)
			return;
		memcpy(beside + n, name, sizeof(name));
		path = beside;
	}
	/* Kept open, so that no process inside can replace it. */
	agent->tools_fd = open(path, O_PATH | O_CLOEXEC);
}

/* Rings count towards the sandbox's memory limit. */
static bool make_room(struct ring_budget *budget, size_t n)
{
	struct agent *agent = CONTAINER_OF(budget, struct agent, rings);

	while (budget->used + n > budget->max_bytes)
		if (!process_evict(agent))
			return false;
	return true;
}

static void limit_memory(struct agent *agent)
{
	uint64_t limit = memory_limit(&agent->memory);

	agent->rings = (struct ring_budget){
		.max_bytes = limit ? (size_t)MIN(limit / 8, (uint64_t)AGENT_RINGS_MAX_BYTES)
				   : AGENT_RINGS_MAX_BYTES,
		.make_room = make_room,
	};
}

/* Replaces a socket that a previous agent left behind. Only our own user can connect. */
static int listen_at(struct agent *agent, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	mode_t before;
	int fd, r;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	(void)unlink(path);
	before = umask(0177);
	r = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
			    listen(fd, LISTEN_BACKLOG) < 0
		    ? -errno
		    : 0;
	(void)umask(before);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	agent->listen_fd = fd;
	agent->trust_own_user = true;
	return 0;
}

static int agent_open(struct agent *agent, const char *listen_path)
{
	int r = listen_path ? listen_at(agent, listen_path) : 0;

	if (r < 0)
		return r;
	if (fcntl(agent->listen_fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	(void)fcntl(agent->listen_fd, F_SETFL, O_NONBLOCK);
	/* Peers that connect from now on see our pid, not that of the socket's creator. */
	if (agent->trust_any_peer && listen(agent->listen_fd, LISTEN_BACKLOG) < 0)
		return -errno;
	agent->null_fd = open_null();
	if (agent->null_fd < 0)
		return agent->null_fd;
	agent->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (agent->epoll_fd < 0)
		return -errno;
	return agent_watch(agent, EPOLL_CTL_ADD, agent->listen_fd, EPOLLIN, EVENT_LISTEN, 0);
}

/* The remaining setup, before the first request is read. */
static int agent_settle(struct agent *agent)
{
	struct rlimit files;
	sigset_t child;
	int r;

	agent->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	agent->oom_adj_fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	if (agent->oom_adj_fd >= 0 &&
	    pread(agent->oom_adj_fd, agent->oom_adj, sizeof(agent->oom_adj) - 1, 0) <= 0)
		agent->oom_adj_fd = -1;
	if (agent->same_user)
		find_self(agent);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		agent->files_soft = files.rlim_cur;
		agent->files_hard = files.rlim_max;
	}
	limit_memory(agent);
	r = shed();
	if (r < 0)
		return r;
	groups_prepare(&agent->groups);
	inside_open(agent);
	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	agent->signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (agent->signal_fd < 0)
		return -errno;
	return agent_watch(agent, EPOLL_CTL_ADD, agent->signal_fd, EPOLLIN, EVENT_CHILD, 0);
}

/* A path that is not safe in a script is ignored: the default works, but is not cleaned up. */
static void set_scratch(struct agent *agent, const char *path)
{
	size_t safe = strspn(path, "/._-0123456789abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	if (path[0] == '/' && safe <= AGENT_SCRATCH_MAX && path[safe] == '\0')
		agent->scratch = path;
}

static void set_defaults(struct agent *agent)
{
	agent->listen_fd = LISTEN_FD;
	agent->conn_fd = agent->tools_fd = -1;
	agent->given_fds[0] = agent->given_fds[1] = agent->given_fds[2] = -1;
	agent->default_user = "sandbox";
	agent->default_cwd = "/workspace";
	agent->scratch = "/tmp";
	agent->next_process_id = 1;
	agent->windows_fd = -1;
	agent->window_idle_us = WINDOW_IDLE_MS * 1000LL;
	agent->hold_grace_us = HOLD_GRACE_MS * 1000LL;
	for (int i = 0; i < DIALS_MAX; i++)
		agent->dials[i].fd = -1;
	relay_init(agent);
}

/* Options that are not kept in struct agent. */
struct options {
	const char *listen_path, *tools;
	bool egress;
};

static bool take_flag(struct agent *agent, struct options *options, const char *name)
{
	if (strcmp(name, "--trust-any-peer") == 0)
		agent->trust_any_peer = true;
	else if (strcmp(name, "--same-user") == 0)
		agent->same_user = true;
	else if (strcmp(name, "--egress") == 0)
		options->egress = true;
	else
		return false;
	return true;
}

static bool take_option(struct agent *agent, struct options *options, const char *name,
			const char *value)
{
	if (strcmp(name, "--listen") == 0)
		options->listen_path = value;
	else if (strcmp(name, "--listen-fd") == 0)
		agent->listen_fd = (int)strtol(value, NULL, 10);
	else if (strcmp(name, "--user") == 0)
		agent->default_user = value;
	else if (strcmp(name, "--cwd") == 0)
		agent->default_cwd = value;
	else if (strcmp(name, "--scratch") == 0)
		set_scratch(agent, value);
	else if (strcmp(name, "--tools") == 0)
		options->tools = value;
	else if (strcmp(name, "--window-idle-ms") == 0)
		agent->window_idle_us = strtoll(value, NULL, 10) * 1000;
	else if (strcmp(name, "--hold-grace-ms") == 0)
		agent->hold_grace_us = strtoll(value, NULL, 10) * 1000;
	else
		return false;
	return true;
}

/* The descriptors after the socket are the engine's only if it passes the socket as LISTEN_FD. */
static void take_descriptors(struct agent *agent, bool inherited)
{
	inside_take_disk(agent, inherited ? DISK_FD : -1);
	groups_open(&agent->groups, inherited ? GROUPS_FD : -1);
	clock_open(&agent->groups);
	memory_open(&agent->memory, inherited ? MEMORY_FD : -1);
}

int main(int argc, char **argv)
{
	static struct agent agent; /* mostly tables, in .bss */
	struct options options = { 0 };

	if (argc >= 2 && strcmp(argv[1], "--bridge") == 0)
		return argc > 3 ? 2 : bridge_run(argc == 3 ? argv[2] : SOCKET_PATH);
	set_defaults(&agent);
	for (int i = 1; i < argc; i++) {
		if (take_flag(&agent, &options, argv[i]))
			continue;
		if (i + 1 >= argc || !take_option(&agent, &options, argv[i], argv[i + 1]))
			return 2;
		i++;
	}
	/* Before anything else can use their numbers. */
	take_descriptors(&agent, !options.listen_path && agent.listen_fd == LISTEN_FD);
	if (geteuid() != 0)
		agent.same_user = true;
	open_tools(&agent, options.tools);
	if (agent_open(&agent, options.listen_path) < 0)
		return 1;
	/* Without the port, programs have no proxy, and HELLO shows that. */
	if (options.egress)
		(void)!egress_open(&agent);
	/*
	 * The daemon is already waiting and is answered first. The rest of the setup runs while the
	 * reply travels to the client and its first request arrives.
	 */
	conn_on_listen(&agent);
	conn_flush(&agent);
	if (agent_settle(&agent) < 0)
		return 1;
	return agent_run(&agent) < 0;
}
