/* SPDX-License-Identifier: Apache-2.0 */
/* cayd: prepares its state as root, changes to an ordinary user, isolates itself, and serves. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/config.h"
#include "daemon/engines.h"
#include "daemon/isolate.h"
#include "daemon/state.h"
#include "daemon/wiring.h"
#include "net/listen.h"
#include "sys/notify.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_ADDRESS = 3, EXIT_CONFLICT = 7 };

static void set_limits(void)
{
	struct rlimit limit = { 0, 0 };

	(void)setrlimit(RLIMIT_CORE, &limit); /* a core dump would contain keys */
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Build tree: ../DIR/NAME; installed: NAME beside this program. */
static void find_program(char dst[CONFIG_TEXT_MAX], const char *dir, const char *name)
{
	const char *libexec = getenv("CAY_LIBEXEC");
	char self[CONFIG_TEXT_MAX];
	ssize_t n;
	char *slash;

	if (dst[0])
		return;
	if (libexec) {
		(void)snprintf(dst, CONFIG_TEXT_MAX, "%s/%s", libexec, name);
		return;
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n <= 0)
		return;
	self[n] = '\0';
	slash = strrchr(self, '/');
	*slash = '\0';
	if (snprintf(dst, CONFIG_TEXT_MAX, "%s/%s", self, name) < CONFIG_TEXT_MAX &&
	    access(dst, X_OK) == 0)
		return;
	if (snprintf(dst, CONFIG_TEXT_MAX, "%s/../%s/%s", self, dir, name) >= CONFIG_TEXT_MAX)
		dst[0] = '\0';
}

/* Also says what to do, because a second user of a host sees this first. */
static int refuse_listen(const char *address, int error, struct err *err)
{
	const char *advice = "";

	if (error == -EADDRINUSE)
		advice = ": stop the other program ('ss -ltnp' names it), or choose another "
			 "address with --listen";
	else if (error == -EADDRNOTAVAIL)
		advice = ": this host has no such address";
	return err_set(err, ERR_UNAVAILABLE, "cannot listen on %s: %s%s", address, strerror(-error),
		       advice);
}

static int open_listen(const struct config *config, int *ret_fd, char *url, size_t size,
		       struct err *err)
{
	char host[256];
	uint16_t port = 0, last;
	int fd = -1, r = listen_parse(config->listen, host, sizeof(host), &port);

	if (r < 0)
		return err_set(err, ERR_INVALID_REQUEST, "listen '%s' is not HOST:PORT",
			       config->listen);
	/* Any port is acceptable, but clients of a killed daemon still use its last one. */
	last = port == 0 ? state_last_port(config->state) : 0;
	r = last ? listen_open_tcp(host, last, &fd) : -EADDRINUSE;
	if (r < 0)
		r = listen_open_tcp(host, port, &fd);
	if (r == 0)
		r = listen_port(fd, &port);
	if (r < 0)
		return refuse_listen(config->listen, r, err);
	if (strcmp(host, "0.0.0.0") == 0 || !host[0])
		(void)snprintf(host, sizeof(host), "127.0.0.1");
	(void)snprintf(url, size, strchr(host, ':') ? "http://[%s]:%u" : "http://%s:%u", host,
		       port);
	*ret_fd = fd;
	return 0;
}

static int open_redirect(const struct config *config, int *ret_fd, struct err *err)
{
	char host[256];
	uint16_t port;
	int r;

	if (!config->listen_redirect[0])
		return 0;
	if (listen_parse(config->listen_redirect, host, sizeof(host), &port) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "listen_redirect '%s' is not HOST:PORT",
			       config->listen_redirect);
	r = listen_open_tcp(host, port, ret_fd);
	return r < 0 ? refuse_listen(config->listen_redirect, r, err) : 0;
}

static int give_up_power(const struct config *config, const struct isolate_user *user,
			 struct err *err)
{
	uint32_t demands = engines_demands(config);
	bool exec = demands & ENGINE_DEMANDS_EXEC;

	if (user) {
		if (isolate_drop(user, err) < 0)
			return -1;
	} else {
		log_info("not started as root: stays user %u", getuid());
		if (isolate_lock_down(err) < 0)
			return -1;
	}
	if (isolate_hide(!(demands & ENGINE_DEMANDS_PROC_SELF), err) < 0)
		return -1;
	if (exec)
		log_warn("an engine that starts programs from the daemon is on: the daemon's own "
			 "filter only refuses a few system calls");
#ifdef CAY_SANITIZED
	(void)exec;
	log_warn("a sanitizer build runs without its seccomp filter");
	return 0;
#else
	return isolate_filter(exec, err);
#endif
}

static int serve(struct config *config, struct err *err)
{
	char url[CONFIG_TEXT_MAX];
	struct isolate_user found, *user = NULL;
	struct wiring *wiring = NULL;
	struct notify notify;
	struct wiring_fds fds = { -1, -1, -1 };
	int lock_fd = -1;

	if (geteuid() == 0) {
		if (isolate_find_user(config->user, &found, err) < 0)
			return -1;
		user = &found;
	}
	find_program(config->agent, "agent", "cay-agent");
	find_program(config->tools, "tools", "cay-tools");
	fds.recipes = engines_open_recipes();
	set_limits();
	notify_open(&notify);
	if (state_prepare(config->state, user, err) < 0 ||
	    state_lock(config->state, user, &lock_fd, err) < 0)
		return -1;
	if (open_listen(config, &fds.listen, url, sizeof(url), err) < 0 ||
	    open_redirect(config, &fds.redirect, err) < 0)
		return -1;
	state_hide_url(config->state);
	if (give_up_power(config, user, err) < 0 || wiring_new(config, &fds, url, &wiring, err) < 0)
		return -1;
	wiring_run(wiring, &notify);
	wiring_free(wiring);
	notify_close(&notify);
	if (fds.recipes >= 0)
		(void)close(fds.recipes);
	(void)close(lock_fd);
	log_info("ended");
	return 0;
}

static int run(struct config *config)
{
	enum log_level level = LOG_INFO;
	struct err err;

	if (log_level_parse(config->log_level, &level) < 0) {
		(void)fprintf(stderr, "cayd: log_level must be debug, info, warn or error\n");
		return EXIT_USAGE;
	}
	log_init("cayd", level);
	fault_open("CAY_FAULT_CAYD");
	if (serve(config, &err) == 0)
		return 0;
	log_error("%s", err.message);
	return err.code == ERR_CONFLICT		 ? EXIT_CONFLICT
	       : err.code == ERR_INVALID_REQUEST ? EXIT_USAGE
	       : err.code == ERR_UNAVAILABLE	 ? EXIT_ADDRESS
						 : EXIT_FAILED;
}

int main(int argc, char **argv)
{
	struct config config;
	struct err err;
	int status = 0;

	/* Two arenas and early trimming keep a daemon with a thousand sandboxes small. */
	(void)mallopt(M_ARENA_MAX, 2);
	(void)mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
	(void)mallopt(M_MMAP_THRESHOLD, 256 * 1024);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN); /* with TLS it reloads the certificate */
	(void)umask(0027);
	(void)setenv("UV_THREADPOOL_SIZE", "4", 0);
	log_init("cayd", LOG_INFO);
	if (config_load(&config, argc, argv, &err) < 0) {
		(void)fprintf(stderr, "cayd: %s\n", err.message);
		status = EXIT_USAGE;
	} else if (config.help) {
		config_help(&config);
	} else if (config.version) {
		(void)printf("cayd %s\n", CAY_VERSION);
	} else if (config.print) {
		config_print(&config);
	} else {
		status = run(&config);
	}
	config_done(&config);
	return status;
}
