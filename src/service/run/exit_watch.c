/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes the ends of processes without a reader: a follow that reads no output and ends with the
 * process or with the link. When there is a new link, the agent is asked which processes run, and
 * ends that were missed are published then.
 */
#include "base/log.h"
#include "service/event/event_internal.h"
#include "service/run/process_internal.h"
#include "service/run/run_private.h"

/* Owner: its link's follow, until that ends. If the service was closed, it is only freed. */
struct exit_watch {
	struct op op;
	uint32_t process_id;
	const char *kind;
	bool counts; /* it was counted when it started */
};

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	(void)arg; /* no output was requested */
	(void)stream;
	(void)cursor;
	(void)bytes;
}

static void on_end(void *arg, const struct link_status *from, const struct err *error)
{
	struct exit_watch *watch = arg;
	struct sandbox *sandbox = op_sandbox(&watch->op);
	struct process_status status;

	(void)error;
	(void)op_unlink(&watch->op);
	if (sandbox && from->end != LINK_END_GONE) {
		status_from_link(&status, from);
		if (status.reason && watch->counts)
			admit_ended(sandbox);
		if (status.reason)
			event_process_ended(
				sandbox,
				&(struct event_process){ .process_id = watch->process_id,
							 .kind = watch->kind },
				&status);
	}
	free(watch);
}

void exit_watch_start(struct sandbox *sandbox, uint32_t process_id, const char *kind, bool counts)
{
	static const struct link_follow_hooks hooks = { .on_output = on_output, .on_end = on_end };
	const struct link_follow ask = { .live = true };
	struct exit_watch *watch = calloc(1, sizeof(*watch));
	uint32_t follow_id;
	struct err err;

	if (!watch)
		return;
	*watch = (struct exit_watch){ .process_id = process_id, .kind = kind, .counts = counts };
	if (link_follow(sandbox->link, process_id, &ask, &hooks, watch, &follow_id, &err) < 0) {
		log_debug("sandbox %s: the end of process %u will not be reported: %s", sandbox->id,
			  process_id, err.message);
		free(watch);
		return;
	}
	op_begin(&watch->op, &sandbox->service->runs->exit_watches, sandbox->service,
		 sandbox->handle);
}

/* ---- after a new link ---- */

static void tell_missed(struct sandbox *sandbox, const struct link_process_info *info)
{
	struct process_status status;

	if (store_event_told_end(sandbox->service->store, sandbox->id, info->process_id) != 0)
		return; /* already published, or the store cannot be read */
	status_from_link(&status, &info->status);
	event_process_ended(
		sandbox,
		&(struct event_process){ .process_id = info->process_id, .kind = "process" },
		&status);
}

static void on_list(void *arg, const struct link_process_info *info, const struct err *error)
{
	struct op *op = arg;
	struct sandbox *sandbox = op_sandbox(op);

	if (!info) {
		if (error && sandbox)
			log_debug("sandbox %s: %s", sandbox->id, error->message);
		(void)op_end(op);
		return;
	}
	if (!sandbox || !sandbox->link || info->window ||
	    follow_tells(op->service, sandbox->handle, info->process_id))
		return;
	if (info->status.end == LINK_END_NONE)
		exit_watch_start(sandbox, info->process_id, "process", false);
	else
		tell_missed(sandbox, info);
}

void exit_watch_check(struct sandbox *sandbox)
{
	struct err err;
	struct op *op = op_new(sandbox->service, sandbox->handle, &err);

	if (!op)
		return;
	bus_flush(sandbox->service); /* on_list() looks for published events in the store */
	if (link_list(sandbox->link, 0, on_list, op, &err) < 0)
		(void)op_end(op);
}

void exit_watch_stop_all(struct service *service)
{
	op_list_abandon(&service->runs->exit_watches);
}
