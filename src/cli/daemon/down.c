/* SPDX-License-Identifier: Apache-2.0 */
/* cay down */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cli/api/api.h"
#include "cli/api/exit.h"
#include "cli/daemon/lock.h"
#include "cli/output/show.h"
#include "cli/output/table.h"
#include "cli/daemon/unit.h"
#include "cli/daemon/up.h"

#define FIND_TRIES 20
#define FIND_RETRY_US 50000
#define DESTROY_MS 180000   /* for the daemon to destroy all sandboxes and end */
#define SUPERVISOR_MS 60000 /* it gives the daemon 30 s and the warden 15 s */
#define LEFTOVER_MS 15000
#define SHOWN_MAX 20 /* sandboxes listed before the question */
/*
 * The warden's claims: files with a number as name and a state directory as content. A claim exists
 * while sandboxes of that directory run, also without a warden.
 */
#define CLAIMS "/run/cay"

enum { SUPERVISOR, DAEMON, WARDEN, ROLE_COUNT };
static const char *const locks[ROLE_COUNT] = { LOCK_SUPERVISOR, LOCK_DAEMON, LOCK_WARDEN };
static const char *const names[ROLE_COUNT] = { "the supervisor", "cayd", "cay-warden" };

/* 1 and the holder, 0 if the lock is free, -1 with err set. */
static int find(struct cli *cli, int role, struct lock_holder *holder, struct err *err)
{
	int r = -EAGAIN;

	for (int i = 0; i < FIND_TRIES && r == -EAGAIN; i++) {
		r = lock_find(cli->state, locks[role], holder);
		if (r == -EAGAIN)
			(void)usleep(FIND_RETRY_US);
	}
	if (r == 0)
		return 1;
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r == -EBADMSG || r == -EAGAIN)
		return err_set(err, ERR_INTERNAL,
			       "%s/%s is locked by a process other than the one that it names",
			       cli->state, locks[role]);
	if (r == -EACCES)
		(void)cli_hint(cli, "Run it as root: sudo cay down");
	return err_set_errno(err, r == -EACCES ? ERR_FORBIDDEN : ERR_INTERNAL, -r, "%s/%s",
			     cli->state, locks[role]);
}

static int send(struct cli *cli, const struct lock_holder *holder, int role, int signum,
		struct err *err)
{
	int r = lock_signal(holder, signum);

	if (r == 0 || r == -ESRCH)
		return 0;
	(void)cli_hint(cli, "Run it as root: sudo cay down");
	return err_set_errno(err, ERR_FORBIDDEN, -r, "cannot signal %s", names[role]);
}

/* Waits, with a spinner on a terminal. 0 or -ETIMEDOUT. */
static int wait_shown(struct cli *cli, const struct lock_holder *holder, int timeout_ms,
		      const char *message)
{
	int64_t end_ms = time_boot_ms() + timeout_ms;
	struct progress progress;
	int r;

	progress_start(&progress, cli);
	do {
		r = lock_wait(holder, 100);
		if (r < 0)
			progress_update(&progress, str_of(message));
	} while (r == -ETIMEDOUT && time_boot_ms() < end_ms);
	progress_clear(&progress);
	return r;
}

/* Sends TERM, waits, sends KILL. */
static int stop(struct cli *cli, int role, int patience_ms, struct err *err)
{
	struct lock_holder holder;
	char message[64];
	int r = find(cli, role, &holder, err);

	if (r <= 0)
		return r;
	(void)snprintf(message, sizeof(message), "stopping %s", names[role]);
	r = send(cli, &holder, role, SIGTERM, err);
	if (r == 0 && wait_shown(cli, &holder, patience_ms, message) < 0) {
		cli_note(cli, "cay: %s did not stop within %d s and is killed", names[role],
			 patience_ms / 1000);
		r = send(cli, &holder, role, SIGKILL, err);
		if (r == 0 && lock_wait(&holder, 5000) < 0)
			r = err_set(err, ERR_TIMEOUT, "%s (pid %d) cannot be stopped", names[role],
				    (int)holder.pid);
	}
	lock_holder_done(&holder);
	return r;
}

/* Requests the daemon's end, with or without its sandboxes. 0, or -1 with err set. */
static int ask_daemon(struct cli *cli, bool destroy, struct err *err)
{
	struct lock_holder holder;
	struct buf body;
	int r = find(cli, DAEMON, &holder, err);

	if (r < 0)
		return -1;
	if (r == 0)
		return err_set(err, ERR_UNAVAILABLE, "cayd is not running");
	buf_init(&body, 64);
	r = buf_puts(&body, destroy ? "{\"destroy\":true}" : "{\"destroy\":false}");
	if (r == 0 && cli_connect(cli, err) == 0)
		http_client_set_timeout(cli->http, 5000, DESTROY_MS);
	if (r == 0)
		r = api_call(cli, "POST", "/v1/admin/shutdown", &body, NULL, err);
	buf_done(&body);
	if (r == 0 && wait_shown(cli, &holder, DESTROY_MS,
				 destroy ? "destroying the sandboxes" : "stopping cayd") < 0)
		r = err_set(err, ERR_TIMEOUT, "cayd has not ended after %d s", DESTROY_MS / 1000);
	lock_holder_done(&holder);
	return r;
}

/* Reports sandboxes that could not be destroyed, and how to remove them. */
static int undestroyed(struct cli *cli, const struct err *why)
{
	bool other = strcmp(cli->state, CLI_DEFAULT_STATE) != 0;

	cli->exit_status = EXIT_STATUS_RUNTIME;
	(void)cli_hint(cli,
		       "Sandboxes that were running still run. Start the daemon again and stop it "
		       "once more: cay up%s%s "
		       "&& cay down%s%s",
		       other ? " --state " : "", other ? cli->state : "", other ? " --state " : "",
		       other ? cli->state : "");
	struct err err = { 0 };
	(void)err_set(&err, ERR_UNAVAILABLE,
		      "the daemons are stopped, but not every sandbox was destroyed: %s",
		      why->message);
	return cli_report(cli, &err);
}

static void forget_url(const struct cli *cli)
{
	char path[4096 + 8];

	(void)snprintf(path, sizeof(path), "%s/url", cli->state);
	(void)unlink(path);
}

/* ---- sandboxes to be destroyed ---- */

struct victims {
	struct table table;
	size_t count;
};

static int victim_row(void *arg, const struct json *item)
{
	struct victims *victims = arg;
	struct str state = show_state(item);
	char age[STYLE_SPAN_SIZE] = "";

	if (victims->count++ >= SHOWN_MAX)
		return 0;
	show_age(age, item, "created_at");
	table_put(&victims->table, field_str(item, "id"), STYLE_CYAN);
	table_put(&victims->table, field_str(item, "name"), STYLE_PLAIN);
	table_put(&victims->table, state, style_of_state(state));
	table_put(&victims->table, str_of(age), STYLE_PLAIN);
	return 0;
}

static bool answered_yes(void)
{
	char line[16] = "";

	(void)fputs("Destroy all and stop the daemon? [y/N] ", stderr);
	(void)fflush(stderr);
	if (fgets(line, sizeof(line), stdin) == NULL)
		(void)fputc('\n', stderr);
	return strcasecmp(line, "y\n") == 0 || strcasecmp(line, "yes\n") == 0;
}

/* Asks on a terminal; elsewhere --yes is required. 0 to continue, -1 with err set. */
static int confirm(struct cli *cli, const struct victims *victims, struct err *err)
{
	const char *what = victims->count == 1 ? "sandbox" : "sandboxes";

	if (!cli->json)
		(void)!table_print(&victims->table, stderr, cli->color_err);
	if (!cli->json && victims->count > SHOWN_MAX)
		(void)fprintf(stderr, "and %zu more\n", victims->count - SHOWN_MAX);
	(void)cli_hint(cli, "'cay down --yes' destroys %s, 'cay down --keep' leaves %s running.",
		       victims->count == 1 ? "it" : "them", victims->count == 1 ? "it" : "them");
	if (cli->json || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return err_set(err, ERR_CONFLICT,
			       "%zu %s on %s would be destroyed; nothing was stopped",
			       victims->count, what, cli->state);
	(void)fprintf(stderr, "%zu %s on %s, with all files in %s.\n", victims->count, what,
		      cli->state, victims->count == 1 ? "it" : "them");
	if (!answered_yes())
		return err_set(err, ERR_CONFLICT, "nothing was stopped");
	cli->hint[0] = '\0';
	return 0;
}

/* A daemon that does not reply destroys nothing, so there is nothing to confirm. */
static int check_victims(struct cli *cli, struct err *err)
{
	static const char *const headers[] = { "ID", "NAME", "STATE", "AGE", NULL };
	struct victims victims = { .count = 0 };
	struct err ignored = { 0 };
	int r = 0;

	table_init(&victims.table, headers);
	if (lock_is_held(cli->state, LOCK_DAEMON) &&
	    api_list(cli, "/v1/sandboxes", "limit=1000", victim_row, &victims, &ignored) == 0 &&
	    victims.count > 0)
		r = confirm(cli, &victims, err);
	table_done(&victims.table);
	return r;
}

/* ---- sandboxes without a daemon ---- */

static bool claim_is(const char *name, const char *state)
{
	char owner[PATH_MAX] = "";

	return name[0] >= '0' && name[0] <= '9' &&
	       cli_read_line(CLAIMS, name, owner, sizeof(owner)) == 0 && strcmp(owner, state) == 0;
}

/* Whether a directory has an entry that matches. */
static bool any_entry(const char *path, bool (*is_wanted)(const char *name, const char *arg),
		      const char *arg)
{
	const struct dirent *entry;
	bool found = false;
	DIR *dir = opendir(path);

	if (dir == NULL)
		return false;
	while (!found && (entry = readdir(dir)) != NULL)
		found = is_wanted(entry->d_name, arg);
	(void)closedir(dir);
	return found;
}

static bool is_visible(const char *name, const char *arg)
{
	(void)arg;
	return name[0] != '.';
}

/* The local engine has no warden: it keeps one directory per sandbox. */
static bool sandboxes_left(const struct cli *cli)
{
	char state[PATH_MAX], local[PATH_MAX + 8];

	if (realpath(cli->state, state) == NULL)
		return false;
	(void)snprintf(local, sizeof(local), "%s/local", state);
	return any_entry(CLAIMS, claim_is, state) || any_entry(local, is_visible, NULL);
}

/*
 * After a TERM of `cay up --foreground`, a crash of all processes or `cay down --keep`, only
 * sandboxes are running, and only their daemon can end them. 1: it was started again; 0: nothing to
 * do.
 */
static int start_for_left(struct cli *cli, const struct args *args, bool keep, struct err *err)
{
	if (!sandboxes_left(cli)) {
		cli_note(cli, "cay is not running on %s", cli->state);
		return 0;
	}
	if (keep) {
		cli_note(cli, "cay is not running on %s, but its sandboxes are", cli->state);
		return 0;
	}
	cli_note(cli, "cay is not running on %s, but sandboxes are: starting it to end them",
		 cli->state);
	return up_for_down(cli, args, err) < 0 ? -1 : 1;
}

/* ---- stopping ---- */

/*
 * systemd restarts its daemons when they end, so only systemd can stop them. 0, or -1 with err set.
 */
static int refuse_units(struct cli *cli, struct err *err)
{
	struct lock_holder holder;

	for (int role = DAEMON; role < ROLE_COUNT; role++) {
		const char *unit;
		int r = find(cli, role, &holder, err);

		if (r < 0)
			return -1;
		if (r == 0)
			continue;
		unit = unit_of(holder.pid);
		lock_holder_done(&holder);
		if (unit == NULL)
			continue;
		(void)cli_hint(cli, "'systemctl stop cayd cay-warden' stops the daemons and leaves "
				    "the sandboxes running, 'systemctl stop cayd cay-sandboxes' "
				    "also ends the sandboxes.");
		return err_set(err, ERR_CONFLICT, "%s is run by systemd (%s); nothing was stopped",
			       names[role], unit);
	}
	return 0;
}

static int stop_all(struct cli *cli, bool keep, struct err *err)
{
	struct lock_holder supervisor;
	struct err ask_err = { 0 };
	int asked, r = find(cli, SUPERVISOR, &supervisor, err);

	if (r < 0)
		return -1;
	if (r > 0) {
		/* The daemon ends at our request and must not be restarted. */
		r = send(cli, &supervisor, SUPERVISOR, SIGUSR1, err);
		lock_holder_done(&supervisor);
		if (r < 0)
			return -1;
	}
	asked = ask_daemon(cli, !keep, &ask_err);
	if (stop(cli, SUPERVISOR, SUPERVISOR_MS, err) < 0 ||
	    stop(cli, DAEMON, LEFTOVER_MS, err) < 0 || stop(cli, WARDEN, LEFTOVER_MS, err) < 0)
		return -1;
	forget_url(cli);
	return asked < 0 && !keep ? undestroyed(cli, &ask_err) : 0;
}

int down_run(struct cli *cli, const struct args *args, struct err *err)
{
	bool keep = args_flag(args, "keep"), started = false;
	struct lock_holder supervisor;
	struct err ignored = { 0 };
	char hint[CLI_HINT_MAX];
	int running, r;

	if (keep && args_flag(args, "yes"))
		return err_set(err, ERR_INVALID_REQUEST,
			       "--keep and --yes exclude each other: one keeps the sandboxes, the "
			       "other destroys them");
	if (cli_use_state(cli, err) < 0)
		return -1;
	/* Fails here already if this user has no access. */
	running = find(cli, SUPERVISOR, &supervisor, err);
	if (running < 0)
		return -1;
	if (running > 0)
		lock_holder_done(&supervisor);
	if (refuse_units(cli, err) < 0)
		return -1;
	for (int role = DAEMON; role < ROLE_COUNT; role++)
		running += lock_is_held(cli->state, locks[role]);
	if (running == 0) {
		r = start_for_left(cli, args, keep, err);
		if (r <= 0)
			return r;
		started = true;
	}
	if (!keep && !args_flag(args, "yes") && check_victims(cli, err) < 0) {
		(void)snprintf(hint, sizeof(hint), "%s", cli->hint);
		if (started) /* restores the state it was in */
			(void)!stop_all(cli, true, &ignored);
		return cli_hint(cli, "%s", hint);
	}
	r = stop_all(cli, keep, err);
	if (r == 0)
		cli_note(cli,
			 keep ? "cay is down; the sandboxes are still running" : "cay is down");
	return r;
}
