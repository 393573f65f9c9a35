/* SPDX-License-Identifier: Apache-2.0 */
/* cay run */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/api/exit.h"
#include "cli/api/request.h"

#define RUN_DEFAULT_SEC 300 /* the default lifetime of a sandbox */

/*
 * Makes the command's call in a child process, so that the parent can handle Ctrl-C and clean up
 * whatever happens to the child.
 */
static _noreturn_ void run_child(struct cli *cli, const char *id, struct exec_request *req,
				 const struct exec_way *way, const sigset_t *old_mask)
{
	struct err err = { 0 };
	int status;

	(void)sigprocmask(SIG_SETMASK, old_mask, NULL);
	cli->http = NULL; /* the connection is the parent's */
	status = exec_call(cli, id, req, way, &err);
	if (status < 0)
		status = cli_report(cli, &err);
	(void)fflush(NULL);
	_exit(status);
}

/* Waits for the child; a signal to us ends it early with end_signal. Returns the exit status. */
static int run_wait(pid_t child, const sigset_t *signals, int end_signal)
{
	int status, ended_by = 0;

	for (;;) {
		pid_t pid = waitpid(child, &status, WNOHANG);

		if (pid == child)
			break;
		if (pid < 0 && errno != EINTR)
			return EXIT_STATUS_CAY_FAILED;
		int signum = sigwaitinfo(signals, NULL);

		if (signum > 0 && signum != SIGCHLD) {
			ended_by = signum;
			(void)kill(child, end_signal);
		}
	}
	if (ended_by != 0)
		return 128 + ended_by;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_in(struct cli *cli, const char *id, struct exec_request *req,
		  const struct exec_way *way, const sigset_t *signals, const sigset_t *old_mask,
		  struct err *err)
{
	pid_t child;

	(void)fflush(NULL);
	child = fork();
	if (child < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot fork");
	if (child == 0)
		run_child(cli, id, req, way, old_mask);
	/* A child that has set raw mode must restore the terminal first. */
	return run_wait(child, signals, way->tty ? SIGTERM : SIGKILL);
}

static int run_remove(struct cli *cli, const char *id, struct err *err)
{
	char path[API_PATH_MAX];

	if (api_path(path, err, "/v1/sandboxes/%s", id) < 0)
		return -1;
	if (api_call(cli, "DELETE", path, NULL, NULL, err) == 0 || cli->http_status == 404)
		return 0;
	(void)cli_hint(cli, "The sandbox %s may still exist: cay rm %s", id, id);
	return -1;
}

static int run_create(struct cli *cli, const struct args *args, char id[128], struct err *err)
{
	_cleanup_json_ struct json *sandbox = NULL;
	int r;

	r = request_sandbox(cli, args, &sandbox, err);
	if (r == 0 &&
	    (field_str(sandbox, "id").n == 0 || str_copy(id, 128, field_str(sandbox, "id")) < 0))
		r = err_set(err, ERR_INTERNAL, "the daemon returned a sandbox without an id");
	return r;
}

int run_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct exec_request req = {
		.words = args->operands,
		.count = args->operand_count,
		.shell = args_flag(args, "shell"),
		.user = args_text(args, "user"),
		.cwd = args_text(args, "cwd"),
		.timeout_sec = RUN_DEFAULT_SEC,
		.has_timeout = true,
	};
	const struct exec_way way = { .input = args_flag(args, "interactive"),
				      .tty = args_flag(args, "tty"),
				      .ephemeral = true };
	sigset_t signals, old_mask;
	struct err remove_err = { 0 };
	char id[128];
	int status;

	if (!args_number(args, "exec-timeout", &req.timeout_sec))
		(void)args_number(args, "timeout", &req.timeout_sec);
	if (req.shell && req.count != 1)
		return err_set(err, ERR_INVALID_REQUEST, "-c takes the command as one argument");
	if (way.tty && !isatty(STDIN_FILENO) && !cli->json) {
		(void)cli_hint(cli, "Leave out -t; a template is chosen with --template NAME.");
		return err_set(err, ERR_INVALID_REQUEST, "-t needs a terminal on standard input");
	}
	if (exec_check_tty(cli, way.tty, err) < 0)
		return -1;
	/*
	 * Signals are blocked from here to the removal, so that a sandbox that was created is
	 * always removed.
	 */
	(void)sigemptyset(&signals);
	for (size_t i = 0; i < 4; i++)
		(void)sigaddset(&signals, (int[]){ SIGINT, SIGTERM, SIGHUP, SIGCHLD }[i]);
	(void)sigprocmask(SIG_BLOCK, &signals, &old_mask);
	status = run_create(cli, args, id, err);
	if (status == 0) {
		status = run_in(cli, id, &req, &way, &signals, &old_mask, err);
		if (args_flag(args, "keep"))
			cli_note(cli, "cay: kept %s", id);
		else if (run_remove(cli, id, &remove_err) < 0)
			(void)cli_report(cli, &remove_err);
	}
	(void)sigprocmask(SIG_SETMASK, &old_mask, NULL);
	return status;
}
