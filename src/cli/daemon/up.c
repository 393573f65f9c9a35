/* SPDX-License-Identifier: Apache-2.0 */
/* cay up: prepares the host, starts the supervisor, waits until the daemon replies. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/time.h"
#include "cli/api/api.h"
#include "cli/api/exit.h"
#include "cli/daemon/home.h"
#include "cli/daemon/lock.h"
#include "cli/output/show.h"
#include "cli/daemon/supervise.h"
#include "cli/account/template.h"
#include "cli/daemon/up.h"

#define READY_MS 60000
#define READY_POLL_US 10000

enum { DAEMON = UP_DAEMON, WARDEN = UP_WARDEN, SUPERVISOR = UP_SUPERVISOR };
static const struct {
	const char *name, *log;
} programs[UP_PROGRAMS] = {
	[DAEMON] = { "cayd", "cayd.log" },
	[WARDEN] = { "cay-warden", "warden.log" },
	[SUPERVISOR] = { "the supervisor", "supervisor.log" },
};

static int make_absolute(const char *path, char dst[PATH_MAX], struct err *err)
{
	if (realpath(path, dst) == NULL)
		return err_set_errno(err, ERR_INVALID_REQUEST, errno, "%s", path);
	return 0;
}

static int check_rights(struct cli *cli, const struct args *args, struct up *up, struct err *err)
{
	if (geteuid() == 0) {
		up->config.with_warden = true;
		return 0;
	}
	/* `cay down` ends all sandboxes, whatever their engine. */
	if (args_flag(args, "engine-local") || strcmp(args->command->name, "down") == 0)
		return 0;
	(void)cli_hint(cli, "With root: sudo cay up. Without root: cay up --engine-local, which "
			    "isolates nothing: commands run on this host as you.");
	return err_set(err, ERR_FORBIDDEN, "'cay up' needs root to isolate sandboxes");
}

static int prepare_dirs(struct cli *cli, const struct args *args, struct up *up, struct err *err)
{
	char templates[PATH_MAX];
	bool made = false;

	if (cli_setting(args, "templates", "CAY_TEMPLATES", templates, sizeof(templates)) ==
	    SETTING_NONE)
		(void)snprintf(templates, sizeof(templates), "%s", HOME_TEMPLATES);
	if (geteuid() == 0 && home_make_user(&made, err) < 0)
		return -1;
	if (made)
		cli_note(cli, "created the system user '%s'", HOME_USER);
	if (home_make(cli->state, err) < 0) {
		(void)cli_hint(cli, "Choose another directory: cay up --state DIR");
		return -1;
	}
	if (make_absolute(cli->state, up->state, err) < 0)
		return -1;
	if (geteuid() == 0 && home_make_plain(templates, err) < 0)
		return -1;
	if (realpath(templates, up->templates) == NULL &&
	    str_copy(up->templates, sizeof(up->templates), str_of(templates)) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "--templates is too long");
	return 0;
}

/* Not resolved: a certificate that is renewed is often a link whose target changes. */
static int name_absolute(const char *path, char dst[PATH_MAX], struct err *err)
{
	char here[PATH_MAX] = "";

	if (access(path, F_OK) < 0)
		return err_set_errno(err, ERR_INVALID_REQUEST, errno, "%s", path);
	if (path[0] != '/' && getcwd(here, sizeof(here)) == NULL)
		return err_set_errno(err, ERR_INVALID_REQUEST, errno, "the current directory");
	if (snprintf(dst, PATH_MAX, "%s%s%s", here, here[0] ? "/" : "", path) >= PATH_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "%s: too long", path);
	return 0;
}

static int prepare_tls(const struct args *args, struct up *up, struct err *err)
{
	const char *cert = args_text(args, "tls-cert"), *key = args_text(args, "tls-key");

	if ((cert == NULL) != (key == NULL))
		return err_set(err, ERR_INVALID_REQUEST,
			       "--tls-cert and --tls-key must be given together");
	if (cert == NULL)
		return 0;
	if (name_absolute(cert, up->tls_cert, err) < 0 || name_absolute(key, up->tls_key, err) < 0)
		return -1;
	up->config.tls_cert = up->tls_cert;
	up->config.tls_key = up->tls_key;
	return 0;
}

static int prepare(struct cli *cli, const struct args *args, struct up *up, struct err *err)
{
	struct supervise_config *c = &up->config;
	const char *config = args_text(args, "config");

	if (check_rights(cli, args, up, err) < 0 || prepare_dirs(cli, args, up, err) < 0)
		return -1;
	if (home_program("cayd", c->daemon, err) < 0)
		return -1;
	if (c->with_warden && (home_program("cay-warden", c->warden, err) < 0 ||
			       home_program("cay-agent", c->agent, err) < 0 ||
			       home_program("cay-tools", c->tools, err) < 0 ||
			       home_program("cay-build", c->build, err) < 0))
		return -1;
	if (config != NULL && make_absolute(config, up->config_path, err) < 0)
		return -1;
	if (prepare_tls(args, up, err) < 0)
		return -1;
	c->state = up->state;
	c->templates = up->templates;
	c->config = config != NULL ? up->config_path : NULL;
	c->listen = args_text(args, "listen");
	c->engine_local = args_flag(args, "engine-local");
	c->foreground = args_flag(args, "foreground");
	c->lock_fd = c->report_fd = -1;
	up->build = c->with_warden && !args_flag(args, "no-build");
	/*
	 * The daemon of this directory is meant, whatever CAY_URL says; up_print() mentions that.
	 */
	cli->state = up->state;
	cli->state_given = cli->url_ignored = true;
	return 0;
}

/* With a stale address we would contact another server. */
static void forget_url(const struct up *up)
{
	char path[PATH_MAX + 8];

	if (lock_is_held(up->state, LOCK_DAEMON))
		return;
	(void)snprintf(path, sizeof(path), "%s/url", up->state);
	(void)unlink(path);
}

/* The process that stays: a new session, no terminal, its log in the state directory. */
static _noreturn_ void background(struct up *up)
{
	_cleanup_close_ int null_fd = -1, log_fd = -1;

	(void)setsid();
	if (fork() != 0)
		_exit(0);
	if (lock_take(up->state, LOCK_SUPERVISOR, &up->config.lock_fd) < 0) {
		(void)dprintf(up->config.report_fd, "locked 0\n");
		_exit(1);
	}
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	log_fd = home_open_log(up->state, "supervisor.log");
	if (null_fd < 0 || log_fd < 0 || chdir("/") < 0)
		_exit(1);
	(void)dup2(null_fd, STDIN_FILENO);
	(void)dup2(log_fd, STDOUT_FILENO);
	(void)dup2(log_fd, STDERR_FILENO);
	(void)umask(027);
	_exit(supervise_run(&up->config));
}

static int start_background(struct up *up, int *ret_report_fd, struct err *err)
{
	int pipe_fds[2], status;
	pid_t child;

	forget_url(up);
	for (size_t i = 0; i < UP_PROGRAMS; i++)
		up->log_from[i] = home_log_size(up->state, programs[i].log);
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot create a pipe");
	(void)fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
	(void)fcntl(pipe_fds[1], F_SETFL, O_NONBLOCK);
	up->config.report_fd = pipe_fds[1];
	(void)fflush(NULL);
	child = fork();
	if (child == 0)
		background(up);
	(void)close(pipe_fds[1]);
	if (child < 0 || waitpid(child, &status, 0) < 0) {
		(void)close(pipe_fds[0]);
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot start the supervisor");
	}
	*ret_report_fd = pipe_fds[0];
	return 0;
}

/* The last line of a log without its time and level: why the program ended. */
static const char *last_log_line(char *tail)
{
	char *line, *words;

	for (size_t n = strlen(tail); n > 0 && tail[n - 1] == '\n'; n--)
		tail[n - 1] = '\0';
	line = strrchr(tail, '\n');
	line = line != NULL ? line + 1 : tail;
	words = strstr(line, ": ");
	return words != NULL ? words + 2 : line;
}

/* Shows the end of a program's log and fails with its last line. */
static int start_failed(struct cli *cli, const struct up *up, int program, struct err *err)
{
	const char *log = programs[program].log, *name = programs[program].name, *why;
	char tail[2048];

	home_log_tail(up->state, log, up->log_from[program], 6, tail, sizeof(tail));
	if (tail[0] != '\0')
		cli_note(cli, "the end of %s/logs/%s:\n%s", up->state, log, tail);
	why = last_log_line(tail);
	if (up->wrong_settings) {
		(void)cli_hint(cli, "Correct the flag, the variable (CAY_*) or the configuration "
				    "file; docs/reference/config.md lists the settings.");
		return err_set(err, ERR_INVALID_REQUEST, "cayd rejected its settings: %s", why);
	}
	if (up->no_address)
		(void)cli_hint(cli, "A second daemon needs a directory and an address of its own: "
				    "cay up --state DIR --listen 127.0.0.1:0");
	else
		(void)cli_hint(cli, "'cay doctor' checks this host; the logs are in %s/logs",
			       up->state);
	cli->exit_status = EXIT_STATUS_RUNTIME;
	return err_set(err, ERR_UNAVAILABLE, "%s did not start%s%s", name, why[0] ? ": " : "", why);
}

static void count_death(struct up *up, const char *line, unsigned deaths[2])
{
	int status = 0; /* as returned by wait() */

	if (strncmp(line, "cayd ", 5) != 0) {
		deaths[WARDEN]++;
		return;
	}
	deaths[DAEMON]++;
	if (sscanf(line + 5, "%d", &status) != 1 || !WIFEXITED(status))
		return;
	up->wrong_settings |= WEXITSTATUS(status) == SUPERVISE_WRONG_SETTINGS;
	up->no_address |= WEXITSTATUS(status) == SUPERVISE_NO_ADDRESS;
}

/* Counts the deaths that the supervisor reports. Returns the program that is given up, or -1. */
static int read_reports(struct up *up, int *report_fd, unsigned deaths[2])
{
	char text[1024];
	ssize_t n;

	if (*report_fd < 0)
		return -1;
	n = read(*report_fd, text, sizeof(text) - 1);
	if (n < 0)
		return -1;
	if (n == 0) {
		(void)close(*report_fd);
		*report_fd = -1;
		return up->already ? -1 : SUPERVISOR;
	}
	text[n] = '\0';
	for (char *save, *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (strncmp(line, "locked ", 7) == 0)
			up->already = true; /* another `cay up` was faster */
		else
			count_death(up, line, deaths);
	}
	if (up->wrong_settings || up->no_address || deaths[DAEMON] >= SUPERVISE_DEATHS_MAX)
		return DAEMON;
	return deaths[WARDEN] >= SUPERVISE_DEATHS_MAX ? WARDEN : -1;
}

static bool is_ready(struct cli *cli, struct err *err)
{
	char url[CLI_URL_MAX];

	if (cli_read_line(cli->state, "url", url, sizeof(url)) < 0) {
		(void)err_set(err, ERR_UNAVAILABLE, "the daemon has not written its address yet");
		return false;
	}
	/* A restart may have changed the address. */
	if (strcmp(url, cli->url) != 0)
		cli_disconnect(cli);
	if (api_call(cli, "GET", "/readyz", NULL, NULL, err) == 0)
		return true;
	cli_disconnect(cli);
	return false;
}

static int wait_ready(struct cli *cli, struct up *up, int *report_fd, struct err *err)
{
	int64_t end_ms = time_boot_ms() + READY_MS;
	struct progress progress;
	unsigned deaths[2] = { 0, 0 };
	int turn = 0;

	progress_start(&progress, cli);
	while (!is_ready(cli, err)) {
		int failed = read_reports(up, report_fd, deaths);

		if (failed < 0 && err->code == ERR_CONFLICT) { /* waiting does not help */
			progress_clear(&progress);
			up->undecided = true;
			(void)cli_hint(cli,
				       "The daemon runs and changes nothing until you decide.");
			return -1;
		}
		if (failed >= 0 || time_boot_ms() > end_ms) {
			progress_clear(&progress);
			if (failed < 0)
				cli_note(cli, "last seen: %s", err->message);
			return start_failed(cli, up, failed >= 0 ? failed : DAEMON, err);
		}
		if (turn++ % 10 == 9)
			progress_update(&progress, STR_LIT("waiting for the daemon"));
		(void)usleep(READY_POLL_US);
	}
	progress_clear(&progress);
	cli->hint[0] = '\0';
	return 0;
}

static int build_base(struct cli *cli, struct err *err)
{
	if (api_call(cli, "GET", "/v1/templates/base", NULL, NULL, err) == 0)
		return 0;
	if (cli->http_status != 404)
		return -1;
	cli_note(cli, "the base template is missing; building it takes some minutes, once");
	return template_build(cli, "base", err);
}

static int finish(struct cli *cli, struct up *up, int *report_fd, struct err *err)
{
	if (wait_ready(cli, up, report_fd, err) < 0)
		return -1;
	if (up->build && build_base(cli, err) < 0) {
		cli_note(cli, "the daemon itself runs at %s", cli->url);
		return -1;
	}
	return up_print(cli, up, err);
}

static int run_foreground(struct cli *cli, struct up *up, struct err *err)
{
	int r = lock_take(up->state, LOCK_SUPERVISOR, &up->config.lock_fd), none = -1;
	pid_t child, parent = getpid();

	if (r < 0)
		return err_set_errno(err, r == -EWOULDBLOCK ? ERR_CONFLICT : ERR_INTERNAL, -r,
				     "cannot lock %s/" LOCK_SUPERVISOR, up->state);
	forget_url(up);
	(void)fflush(NULL);
	/*
	 * A child prints the result and requests the first build. The supervisor reaps it, or ends
	 * it if it exits first.
	 */
	child = fork();
	if (child == 0) {
		int status;

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
		(void)close(up->config.lock_fd); /* belongs to the supervisor */
		status = finish(cli, up, &none, err);
		if (status < 0)
			status = cli_report(cli, err);
		_exit(status);
	}
	return supervise_run(&up->config);
}

/* Ends what we started if it did not become ready. */
static void undo(const struct up *up)
{
	struct lock_holder holder;
	int r = 0;

	if (lock_find(up->state, LOCK_SUPERVISOR, &holder) < 0)
		return;
	if (lock_signal(&holder, SIGTERM) == 0)
		r = lock_wait(&holder, 50000);
	if (r == -ETIMEDOUT)
		(void)!lock_signal(&holder, SIGKILL); /* it may have ended already */
	lock_holder_done(&holder);
}

/* A running daemon keeps the settings that it was started with. */
static void note_ignored(const struct cli *cli, const struct args *args)
{
	static const char *const options[] = { "listen",   "templates", "config",
					       "tls-cert", "tls-key",	"engine-local" };

	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (args_text(args, options[i]) != NULL || args_flag(args, options[i]))
			cli_note(cli,
				 "--%s has no effect on a running daemon: run 'cay down' first",
				 options[i]);
}

int up_for_down(struct cli *cli, const struct args *args, struct err *err)
{
	const char *state = cli->state;
	struct up up = { 0 };
	int report_fd = -1, r;

	r = prepare(cli, args, &up, err);
	cli->state = state; /* the local copy ends with this call */
	if (r < 0)
		return -1;
	(void)!str_copy(up.listen, sizeof(up.listen), STR_LIT("127.0.0.1:0"));
	up.config.listen = up.listen;
	up.config.engine_local = true;
	(void)setenv("CAY_POOL", "false", 1); /* prepared sandboxes are not needed now */
	if (start_background(&up, &report_fd, err) < 0)
		return -1;
	r = wait_ready(cli, &up, &report_fd, err);
	if (r < 0)
		undo(&up);
	if (report_fd >= 0)
		(void)close(report_fd);
	return r;
}

int up_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct lock_holder holder;
	struct up up = { 0 };
	int report_fd = -1, r;

	if (cli->url_flag != NULL)
		return err_set(err, ERR_INVALID_REQUEST,
			       "'cay up' starts a daemon on this host and takes no --url: --state "
			       "names its directory, --listen its address");
	if (prepare(cli, args, &up, err) < 0)
		return -1;
	r = lock_find(up.state, LOCK_SUPERVISOR, &holder);
	if (r == 0) {
		up.already = true;
		note_ignored(cli, args);
		r = lock_signal(&holder, SIGUSR2); /* in case a `cay down` was interrupted */
		lock_holder_done(&holder);
		if (r < 0)
			return err_set_errno(err, ERR_FORBIDDEN, -r,
					     "cannot signal the supervisor");
	} else if (up.config.foreground) {
		return run_foreground(cli, &up, err);
	} else if (start_background(&up, &report_fd, err) < 0) {
		return -1;
	}
	r = finish(cli, &up, &report_fd, err);
	if (r < 0 && !up.already && !up.undecided && cli->http == NULL)
		undo(&up);
	if (report_fd >= 0)
		(void)close(report_fd);
	return r;
}
