/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent does to a process on request: input, signals, sizes, ends. */
#include <signal.h>
#include <stdio.h>

#include "service/run/process_internal.h"
#include "service/run/process_spec_private.h"

/* The agent does something to a process. */
struct act {
	struct op op;
	process_done_fn done; /* NULL: no caller waits */
	void *arg;
};

static struct act *act_new(struct sandbox *sandbox, process_done_fn done, void *arg,
			   struct err *err)
{
	struct act *act = OP_NEW(struct act, sandbox->service, sandbox->handle, err);

	if (act) {
		act->done = done;
		act->arg = arg;
	}
	return act;
}

static void on_done(void *arg, const struct err *error)
{
	struct act *act = arg;
	process_done_fn done = act->done;
	void *done_arg = act->arg;

	if (op_end(&act->op) && done)
		done(done_arg, error);
}

static int acted(struct act *act, int r)
{
	if (r < 0)
		(void)op_end(&act->op);
	return r;
}

/* An empty write sends no frame; whether it would have succeeded is answered nevertheless. */
static void on_empty(void *arg, const struct process_info *info, const struct err *error)
{
	struct err err;

	if (!error && (info->status.reason || !info->stdin_open)) {
		(void)err_set(&err, ERR_WRONG_STATE, "%s",
			      info->status.reason ? "the process has ended"
						  : "the standard input of the process is closed");
		error = &err;
	}
	on_done(arg, error);
}

static int stdin_empty(struct sandbox *sandbox, uint32_t process_id, struct act *act,
		       struct err *err)
{
	char id[16];

	(void)snprintf(id, sizeof(id), "%u", process_id);
	return process_find(sandbox, str_of(id), on_empty, act, err);
}

int process_stdin(struct sandbox *sandbox, uint32_t process_id, struct str bytes, bool wait,
		  process_done_fn done, void *arg, struct err *err)
{
	struct act *act = act_new(sandbox, done, arg, err);

	if (!act)
		return -1;
	sandbox_touch(sandbox);
	if (!bytes.n)
		return acted(act, stdin_empty(sandbox, process_id, act, err));
	return acted(act, link_stdin(sandbox->link, process_id, bytes, wait, on_done, act, err));
}

int process_close_stdin(struct sandbox *sandbox, uint32_t process_id, process_done_fn done,
			void *arg, struct err *err)
{
	struct act *act = act_new(sandbox, done, arg, err);

	if (!act)
		return -1;
	return acted(act, link_close_stdin(sandbox->link, process_id, on_done, act, err));
}

int process_signal(struct sandbox *sandbox, uint32_t process_id, int signum, process_done_fn done,
		   void *arg, struct err *err)
{
	struct act *act = act_new(sandbox, done, arg, err);

	if (!act)
		return -1;
	return acted(act, link_signal(sandbox->link, process_id, signum, on_done, act, err));
}

int process_resize(struct sandbox *sandbox, uint32_t process_id, int64_t cols, int64_t rows,
		   process_done_fn done, void *arg, struct err *err)
{
	struct act *act;

	if (process_check_size(cols, rows, err) < 0)
		return -1;
	act = act_new(sandbox, done, arg, err);
	if (!act)
		return -1;
	return acted(act, link_resize(sandbox->link, process_id, (uint16_t)cols, (uint16_t)rows,
				      on_done, act, err));
}

int process_stop(struct sandbox *sandbox, uint32_t process_id, process_done_fn done, void *arg,
		 struct err *err)
{
	struct act *act = act_new(sandbox, done, arg, err);

	if (!act)
		return -1;
	return acted(act, link_stop(sandbox->link, process_id, PROCESS_STOP_GRACE_MS, on_done, act,
				    err));
}

int process_signal_pid(struct sandbox *sandbox, uint32_t pid, int signum, process_done_fn done,
		       void *arg, struct err *err)
{
	struct act *act = act_new(sandbox, done, arg, err);

	if (!act)
		return -1;
	return acted(act, link_kill_pid(sandbox->link, pid, signum, false, on_done, act, err));
}

int process_kill_pid(struct sandbox *sandbox, uint32_t pid, process_done_fn done, void *arg,
		     struct err *err)
{
	struct act *act = act_new(sandbox, done, arg, err);

	if (!act)
		return -1;
	return acted(act, link_kill_pid(sandbox->link, pid, SIGKILL, true, on_done, act, err));
}

int process_kill_all(struct sandbox *sandbox, process_done_fn done, void *arg, struct err *err)
{
	struct act *act = act_new(sandbox, done, arg, err);

	if (!act)
		return -1;
	return acted(act, link_kill_all(sandbox->link, on_done, act, err));
}
