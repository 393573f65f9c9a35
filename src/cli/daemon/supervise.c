/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/api/exit.h"
#include "cli/daemon/home.h"
#include "cli/daemon/lock.h"
#include "cli/daemon/watchdog.h"

#define BACKOFF_FIRST_MS 50
#define BACKOFF_LAST_MS 5000
#define STEADY_MS 10000 /* a program that ran this long resets its count of deaths */
#define ADOPT_RETRY_MS 100
#define STOP_DAEMON_MS 30000 /* then KILL */
#define STOP_WARDEN_MS 15000

enum { DAEMON, WARDEN, PROGRAM_COUNT };
#define ARGV_MAX 24
#define LISTEN_SIZE 256

struct program {
	const char *name, *log, *lock;
	const char *argv[ARGV_MAX];
	bool wanted;
	bool adopted; /* not our child, so its exit status is unknown */
	pid_t pid;    /* 0: not running */
	int pidfd;
	struct watchdog watchdog; /* of one that we started */
	unsigned deaths;	  /* in a row */
	int64_t started_ms, start_at_ms;
	int64_t kill_at_ms; /* while stopping */
};

/* Owner: supervise_run(). */
struct supervisor {
	const struct supervise_config *config;
	struct program programs[PROGRAM_COUNT];
	int signal_fd, report_fd;
	bool holding; /* the daemon is not started again */
	bool stopping;
	bool was_ready; /* the daemon has written its address at least once */
	int exit_status;
	size_t listen_at;	  /* index of the address in the daemon's argv; 0: none */
	char listen[LISTEN_SIZE]; /* its address before it died */
	sigset_t old_mask;
};

int supervise_backoff_ms(unsigned deaths)
{
	int ms = BACKOFF_FIRST_MS;

	for (unsigned i = 1; i < deaths && ms < BACKOFF_LAST_MS; i++)
		ms *= 2;
	return MIN(ms, BACKOFF_LAST_MS);
}

static void set_commands(struct supervisor *s)
{
	const struct supervise_config *c = s->config;
	struct program *daemon = &s->programs[DAEMON], *warden = &s->programs[WARDEN];
	const char *const warden_argv[] = { c->warden,	  "--state", c->state, "--templates",
					    c->templates, "--agent", c->agent, "--tools",
					    c->tools,	  "--build", c->build, "--user",
					    HOME_USER };
	size_t n = 0, at = ARRAY_LEN(warden_argv);

	*daemon = (struct program){ .name = "cayd", .log = "cayd.log", .lock = LOCK_DAEMON };
	*warden =
		(struct program){ .name = "cay-warden", .log = "warden.log", .lock = LOCK_WARDEN };
	daemon->pidfd = warden->pidfd = -1;
	daemon->watchdog = warden->watchdog = WATCHDOG_NONE;
	daemon->wanted = true;
	warden->wanted = c->with_warden;
	memcpy(warden->argv, warden_argv, sizeof(warden_argv));
	if (c->config != NULL) {
		warden->argv[at++] = "--config";
		warden->argv[at] = c->config;
	}
	daemon->argv[n++] = c->daemon;
	daemon->argv[n++] = "--state";
	daemon->argv[n++] = c->state;
	daemon->argv[n++] = "--templates";
	daemon->argv[n++] = c->templates;
	if (c->listen != NULL) {
		daemon->argv[n++] = "--listen";
		s->listen_at = n;
		daemon->argv[n++] = c->listen;
	}
	if (c->config != NULL) {
		daemon->argv[n++] = "--config";
		daemon->argv[n++] = c->config;
	}
	if (c->tls_cert != NULL) {
		daemon->argv[n++] = "--tls-cert";
		daemon->argv[n++] = c->tls_cert;
	}
	if (c->tls_key != NULL) {
		daemon->argv[n++] = "--tls-key";
		daemon->argv[n++] = c->tls_key;
	}
	if (c->engine_local)
		daemon->argv[n++] = "--engine-local";
	if (!c->with_warden)
		daemon->argv[n++] = "--engine-native=false";
}

static void started(struct program *p, pid_t pid, int pidfd, bool adopted)
{
	p->pid = pid;
	p->pidfd = pidfd;
	p->adopted = adopted;
	p->started_ms = time_boot_ms();
	log_info("%s %s as pid %d", p->name, adopted ? "is already running" : "started", (int)pid);
}

/*
 * In the child: ends in exec or _exit. The arguments are ours; the cast is only for exec()'s type.
 */
static _noreturn_ void become(const struct supervisor *s, const struct program *p, int log_fd)
{
	union {
		const char *const *in;
		char *const *out;
	} argv = { .in = p->argv };
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)setpgid(0, 0); /* we pass on Ctrl-C from our terminal */
	(void)sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (null_fd >= 0)
		(void)dup2(null_fd, STDIN_FILENO);
	if (log_fd >= 0)
		(void)dup2(log_fd, STDERR_FILENO);
	(void)dup2(STDERR_FILENO, STDOUT_FILENO);
	watchdog_tell(&p->watchdog);
	(void)execv(p->argv[0], argv.out);
	(void)fprintf(stderr, "cay: cannot start %s: %s\n", p->argv[0], strerror(errno));
	_exit(127);
}

static int spawn(struct supervisor *s, struct program *p)
{
	_cleanup_close_ int log_fd = -1;
	pid_t pid;
	int pidfd;

	if (!s->config->foreground)
		log_fd = home_open_log(s->config->state, p->log);
	if (watchdog_open(&p->watchdog) < 0)
		log_warn("%s is not monitored: it is not restarted if it hangs", p->name);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		become(s, p, log_fd);
	pidfd = lock_pidfd(pid); /* cannot be reused yet, because only we wait for it */
	if (pidfd < 0) {
		(void)kill(pid, SIGKILL);
		return pidfd;
	}
	started(p, pid, pidfd, false);
	return 0;
}

/*
 * With "port 0" a daemon that died is restarted on its previous port, so that its clients find it
 * again. If that fails, the next attempt uses a new one.
 */
static void choose_listen(struct supervisor *s, struct program *p)
{
	const char *given = s->config->listen;
	struct str url;
	size_t n;

	if (p != &s->programs[DAEMON] || s->listen_at == 0)
		return;
	p->argv[s->listen_at] = given;
	n = strlen(given);
	if (p->deaths != 1 || n < 2 || strcmp(given + n - 2, ":0") != 0 ||
	    cli_read_line(s->config->state, "url", s->listen, sizeof(s->listen)) < 0)
		return;
	url = str_of(s->listen);
	if (str_starts(url, "http://") && url.n > 7)
		p->argv[s->listen_at] = s->listen + 7;
}

/* Takes over a running program, or starts one. */
static void start(struct supervisor *s, struct program *p)
{
	struct lock_holder holder;
	int64_t now_ms = time_boot_ms();
	int r = lock_find(s->config->state, p->lock, &holder);

	if (r == 0) {
		started(p, holder.pid, holder.pidfd, true);
		return;
	}
	if (r == -EAGAIN || r == -EBADMSG) {
		if (r == -EBADMSG)
			log_warn("%s/%s is locked by a process other than the one that it names",
				 s->config->state, p->lock);
		p->start_at_ms = now_ms + ADOPT_RETRY_MS;
		return;
	}
	choose_listen(s, p);
	r = spawn(s, p);
	if (r < 0) {
		log_error("cannot start %s: %s", p->name, strerror(-r));
		p->start_at_ms = now_ms + supervise_backoff_ms(++p->deaths);
	}
}

/* Reports to `cay up`, as long as it listens. */
static void report(struct supervisor *s, const struct program *p, int status)
{
	char line[64];
	int n;

	if (s->report_fd < 0)
		return;
	n = snprintf(line, sizeof(line), "%s %d\n", p->name, status);
	if (write(s->report_fd, line, (size_t)n) != n) {
		(void)close(s->report_fd);
		s->report_fd = -1;
	}
}

/*
 * In the background `cay up` watches the start and gives up; the file can be corrected afterwards.
 * In the foreground a failed start ends us, and the program has written the reason to standard
 * error. A daemon that was ready once is restarted without limit.
 */
static void consider_end(struct supervisor *s, const struct program *p, int status)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	bool daemon = p == &s->programs[DAEMON];

	if (daemon && code == SUPERVISE_WRONG_SETTINGS) {
		s->exit_status = SUPERVISE_WRONG_SETTINGS;
	} else if (s->was_ready) {
		return;
	} else if ((daemon && code == SUPERVISE_NO_ADDRESS) || p->deaths >= SUPERVISE_DEATHS_MAX) {
		log_error("%s does not start: giving up", p->name);
		s->exit_status = EXIT_STATUS_RUNTIME;
	} else {
		return;
	}
	s->stopping = true;
}

static void ended(struct supervisor *s, struct program *p, int status)
{
	int64_t now_ms = time_boot_ms();
	char url[CLI_URL_MAX];

	s->was_ready =
		s->was_ready || cli_read_line(s->config->state, "url", url, sizeof(url)) == 0;

	if (p->adopted)
		log_warn("%s (pid %d) ended", p->name, (int)p->pid);
	else if (WIFSIGNALED(status))
		log_warn("%s (pid %d) was ended by signal %d", p->name, (int)p->pid,
			 WTERMSIG(status));
	else
		log_warn("%s (pid %d) ended with status %d", p->name, (int)p->pid,
			 WEXITSTATUS(status));
	if (now_ms - p->started_ms >= STEADY_MS)
		p->deaths = 0;
	p->deaths++;
	p->start_at_ms = now_ms + supervise_backoff_ms(p->deaths);
	(void)close(p->pidfd);
	watchdog_close(&p->watchdog);
	p->pidfd = -1;
	p->pid = 0;
	report(s, p, status);
	if (s->config->foreground && !s->stopping && !p->adopted)
		consider_end(s, p, status);
}

/* Our children, and the orphans that we adopt as subreaper. */
static void reap(struct supervisor *s)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid <= 0)
			return;
		for (size_t i = 0; i < PROGRAM_COUNT; i++)
			if (s->programs[i].pid == pid)
				ended(s, &s->programs[i], status);
	}
}

static void on_signal(struct supervisor *s, int signum)
{
	switch (signum) {
	case SIGTERM:
	case SIGINT:
	case SIGHUP:
		/* In the background no terminal can hang up; only the foreground obeys. */
		if (signum == SIGHUP && !s->config->foreground)
			return;
		log_info(s->stopping ? "stopping at once" : "stopping");
		for (size_t i = 0; s->stopping && i < PROGRAM_COUNT; i++)
			s->programs[i].kill_at_ms = 1;
		s->stopping = true;
		return;
	case SIGUSR1:
		log_info("holding: cayd is not restarted when it ends");
		s->holding = true;
		/*
		 * The daemon needs the warden to destroy its sandboxes: no pause before a restart.
		 */
		s->programs[WARDEN].start_at_ms = 0;
		return;
	case SIGUSR2:
		s->holding = false;
		for (size_t i = 0; i < PROGRAM_COUNT; i++) {
			s->programs[i].start_at_ms = 0;
			s->programs[i].deaths = 0;
		}
		return;
	default:
		return;
	}
}

static void send_signal(const struct program *p, int signum)
{
	struct lock_holder holder = { .pid = p->pid, .pidfd = p->pidfd };

	if (lock_signal(&holder, signum) < 0)
		log_debug("%s has already ended", p->name);
}

/*
 * One step of stopping: the daemon first, because it needs the warden to end properly. Returns true
 * when both have ended.
 */
static bool stop_step(struct supervisor *s)
{
	int64_t now_ms = time_boot_ms();

	for (size_t i = 0; i < PROGRAM_COUNT; i++) {
		struct program *p = &s->programs[i];

		if (p->pid == 0)
			continue;
		if (p->kill_at_ms == 0) {
			p->kill_at_ms = now_ms + (i == DAEMON ? STOP_DAEMON_MS : STOP_WARDEN_MS);
			send_signal(p, SIGTERM);
		} else if (now_ms >= p->kill_at_ms) {
			log_warn("%s does not stop; killing it", p->name);
			p->kill_at_ms = now_ms + 1000;
			send_signal(p, SIGKILL);
		}
		return false;
	}
	return true;
}

/* Whether a program must be started when its pause has ended. */
static bool is_due(const struct supervisor *s, const struct program *p)
{
	bool held = s->holding && p == &s->programs[DAEMON];

	return !s->stopping && !held && p->wanted && p->pid == 0;
}

static int next_timeout_ms(const struct supervisor *s)
{
	int64_t now_ms = time_boot_ms(), next_ms = now_ms + 60000;

	for (size_t i = 0; i < PROGRAM_COUNT; i++) {
		const struct program *p = &s->programs[i];

		if (s->stopping && p->pid != 0 && p->kill_at_ms > 0)
			next_ms = MIN(next_ms, p->kill_at_ms);
		if (is_due(s, p))
			next_ms = MIN(next_ms, p->start_at_ms);
		if (p->pid != 0 && watchdog_left_ms(&p->watchdog) >= 0)
			next_ms = MIN(next_ms, now_ms + watchdog_left_ms(&p->watchdog));
	}
	return (int)MAX(next_ms - now_ms, 0);
}

/* Its sandboxes continue without it, and the next one finds them. */
static void kill_hung(struct supervisor *s)
{
	for (size_t i = 0; i < PROGRAM_COUNT; i++) {
		struct program *p = &s->programs[i];

		watchdog_read(&p->watchdog, p->pid);
		if (p->pid == 0 || watchdog_left_ms(&p->watchdog) != 0)
			continue;
		log_error("%s (pid %d) has not reported for %d s: killing it", p->name, (int)p->pid,
			  WATCHDOG_MS / 1000);
		p->watchdog.heard_ms = 0;
		send_signal(p, SIGKILL);
	}
}

static void wait_events(struct supervisor *s)
{
	struct pollfd fds[2 * PROGRAM_COUNT + 1];
	struct signalfd_siginfo info;
	int n;

	for (size_t i = 0; i < PROGRAM_COUNT; i++)
		fds[i] = (struct pollfd){ .fd = s->programs[i].pidfd, .events = POLLIN };
	for (size_t i = 0; i < PROGRAM_COUNT; i++)
		fds[PROGRAM_COUNT + i] =
			(struct pollfd){ .fd = s->programs[i].watchdog.fd, .events = POLLIN };
	fds[2 * PROGRAM_COUNT] = (struct pollfd){ .fd = s->signal_fd, .events = POLLIN };
	n = poll(fds, ARRAY_LEN(fds), next_timeout_ms(s));
	kill_hung(s);
	if (n <= 0)
		return;
	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info))
		on_signal(s, (int)info.ssi_signo);
	reap(s);
	/* A program that is not our child is visible only through its pidfd. */
	for (size_t i = 0; i < PROGRAM_COUNT; i++)
		if (fds[i].revents != 0 && s->programs[i].adopted && s->programs[i].pid != 0)
			ended(s, &s->programs[i], 0);
}

static int open_signals(struct supervisor *s)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD };
	sigset_t mask;

	(void)sigemptyset(&mask);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		(void)sigaddset(&mask, signals[i]);
	if (sigprocmask(SIG_BLOCK, &mask, &s->old_mask) < 0)
		return -errno;
	/* The caller may have blocked signals early; the programs must not inherit that. */
	(void)sigemptyset(&s->old_mask);
	s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signal_fd >= 0 ? 0 : -errno;
}

int supervise_run(const struct supervise_config *config)
{
	struct supervisor s = { .config = config, .signal_fd = -1, .report_fd = config->report_fd };
	int r;

	log_init("cay-supervisor", LOG_INFO);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	set_commands(&s);
	r = open_signals(&s);
	if (r < 0) {
		log_error("cannot watch signals: %s", strerror(-r));
		return 1;
	}
	while (!s.stopping || !stop_step(&s)) {
		/* The warden first, because the daemon connects to its socket. */
		for (size_t i = PROGRAM_COUNT; i-- > 0;) {
			struct program *p = &s.programs[i];

			if (is_due(&s, p) && time_boot_ms() >= p->start_at_ms)
				start(&s, p);
		}
		wait_events(&s);
	}
	(void)close(s.signal_fd);
	log_info("stopped");
	return s.exit_status;
}
