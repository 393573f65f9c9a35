/* SPDX-License-Identifier: Apache-2.0 */
/* cay down */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cli/api.h"
#include "cli/exit.h"
#include "cli/lock.h"
#include "cli/show.h"

#define FIND_TRIES 20
#define FIND_RETRY_US 50000
#define DESTROY_MS 180000   /* for the daemon to destroy everything and end */
#define SUPERVISOR_MS 60000 /* it gives the daemon 30 s and the warden 15 s */
#define LEFTOVER_MS 15000

enum { SUPERVISOR, DAEMON, WARDEN, ROLE_COUNT };
static const char *const locks[ROLE_COUNT] = { LOCK_SUPERVISOR, LOCK_DAEMON, LOCK_WARDEN };
static const char *const names[ROLE_COUNT] = { "the supervisor", "cayd", "cay-warden" };

/* 1 and the holder, 0 when nobody holds the lock, -1 with err set. */
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
			       "%s/%s is locked by a process that is not the one it names",
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

/* Waits with a turning mark on a terminal. 0 or -ETIMEDOUT. */
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

/* TERM, patience, KILL. */
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
		cli_note(cli, "cay: %s did not stop in %d s and is killed", names[role],
			 patience_ms / 1000);
		r = send(cli, &holder, role, SIGKILL, err);
		if (r == 0 && lock_wait(&holder, 5000) < 0)
			r = err_set(err, ERR_TIMEOUT, "%s (pid %d) cannot be stopped", names[role],
				    (int)holder.pid);
	}
	lock_holder_done(&holder);
	return r;
}

/* Asks the daemon to end, with or without its sandboxes. 0, or -1 with err set. */
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

/* What could not be destroyed, and how to get rid of it. */
static int undestroyed(struct cli *cli, const struct err *why)
{
	bool other = strcmp(cli->state, CLI_DEFAULT_STATE) != 0;

	cli->exit_status = EXIT_STATUS_RUNTIME;
	(void)cli_hint(
		cli,
		"Sandboxes that were running live on. Start again and stop once more: cay up%s%s "
		"&& cay down%s%s",
		other ? " --state " : "", other ? cli->state : "", other ? " --state " : "",
		other ? cli->state : "");
	struct err err = { 0 };
	(void)err_set(&err, ERR_UNAVAILABLE,
		      "everything is stopped, but not every sandbox is destroyed: %s",
		      why->message);
	return cli_report(cli, &err);
}

static void forget_url(const struct cli *cli)
{
	char path[4096 + 8];

	(void)snprintf(path, sizeof(path), "%s/url", cli->state);
	(void)unlink(path);
}

int down_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct lock_holder supervisor;
	struct err ask_err = { 0 };
	bool keep = args_flag(args, "keep");
	int running = 0, asked, r;

	cli->state_given = cli->state_flag = true;
	for (int role = 0; role < ROLE_COUNT; role++)
		running += lock_is_held(cli->state, locks[role]);
	r = find(cli, SUPERVISOR, &supervisor, err);
	if (r < 0)
		return -1;
	if (running == 0 && r == 0) {
		cli_note(cli, "cay is not running on %s", cli->state);
		return 0;
	}
	if (r > 0) {
		/* The daemon ends at our request: nobody may start it again. */
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
	if (asked < 0 && !keep)
		return undestroyed(cli, &ask_err);
	cli_note(cli, keep ? "cay is down; the sandboxes are still running" : "cay is down");
	return 0;
}
