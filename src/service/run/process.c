/* SPDX-License-Identifier: Apache-2.0 */
/* Processes without a waiting caller: start, inspect, control. */
#include "service/run/process.h"

#include <stdio.h>

#include "service/account/idempotency.h"
#include "service/event/event_internal.h"
#include "service/run/process_internal.h"
#include "service/secret/secret.h"
#include "service/run/process_spec_private.h"
#include "service/template/template.h"
#include "service/run/run_private.h"

/* ---- start ---- */

/* Owner: the completion of the link or of the admission, which is called once. */
struct process_start {
	struct op op;
	struct spec_build build;
	struct follow *follow;
	struct idempotency *idem;
	uint32_t credit;
	uint32_t number; /* its process id, once the agent is asked; 0: not yet */
	process_started_fn started;
	void *arg;
};

static struct event_process event_of(const struct process_start *start)
{
	return (struct event_process){ .process_id = start->number,
				       .kind = start->follow ? "stream" : "process",
				       .name = start->build.exec.name };
}

static void start_free(struct process_start *start)
{
	(void)op_unlink(&start->op);
	spec_done(&start->build);
	free(start);
}

/* The service closes. Pending starts complete on later iterations of the loop and only free memory.
 */
void start_stop_all(struct service *service)
{
	op_list_abandon(&service->runs->starts);
}

static void fail_start(struct process_start *start, const struct err *err)
{
	process_started_fn started = start->op.service ? start->started : NULL;
	void *arg = start->arg;

	if (start->follow)
		follow_drop(start->follow);
	start_free(start);
	if (started)
		started(arg, 0, 0, 0, err);
}

/* It was published as started when the agent was asked. */
static void refused(const struct process_start *start, const struct sandbox *sandbox,
		    const struct err *err)
{
	struct event_process process = event_of(start);

	event_process_refused(sandbox, &process, err);
}

static void on_started(void *arg, uint32_t process_id, uint32_t pid, const struct err *error)
{
	struct process_start *start = arg;
	struct service *service = start->op.service;
	struct sandbox *sandbox = op_sandbox(&start->op);
	process_started_fn started = start->started;
	void *started_arg = start->arg;
	slot_handle follow = 0;

	if (!service || error) {
		if (sandbox)
			admit_ended(sandbox);
		if (service)
			service->upkeep.counters.exec_refusals++;
		if (service && sandbox && error)
			refused(start, sandbox, error);
		if (!error)
			start->follow = NULL; /* the link's last call frees it */
		fail_start(start, error);
		return;
	}
	if (sandbox && !start->follow)
		exit_watch_start(sandbox, process_id, "process", true);
	if (start->follow) {
		follow_bind(start->follow, process_id, 0, 0);
		follow = follow_handle(start->follow);
	}
	start_free(start);
	started(started_arg, process_id, pid, follow, NULL);
}

/*
 * Notes the id before the agent is asked, so that a repeated call finds the process whatever
 * happens. The event is in the transaction of the note.
 */
static int note_start(const struct process_start *start, struct sandbox *sandbox, struct err *err)
{
	struct event_process process = event_of(start);
	struct store *store = sandbox->service->store;
	char id[16];
	int r;

	if (!start->idem) {
		event_process_started(sandbox, &process);
		return 0;
	}
	(void)snprintf(id, sizeof(id), "%u", start->number);
	r = store_begin(store);
	if (r == 0) {
		r = idempotency_note(sandbox->service, start->idem, sandbox->id, id);
		if (r == 0)
			event_process_started(sandbox, &process);
		r = store_end(store, r);
	}
	service_wrote(sandbox->service);
	return r < 0 ? service_unrecorded(err, r, "the start could not be recorded") : 0;
}

void process_never_begun(const struct sandbox *sandbox, uint32_t process_id)
{
	struct event_process process = { .process_id = process_id, .kind = "process" };
	struct err err;

	(void)err_set(&err, ERR_UNAVAILABLE,
		      "the daemon ended before it asked for the process; it is started again");
	event_process_refused(sandbox, &process, &err);
}

bool process_was_begun(const struct sandbox *sandbox, uint32_t process_id)
{
	return link_knew_process(sandbox->link, process_id);
}

static int launch(struct process_start *start, struct sandbox *sandbox, struct err *err)
{
	uint32_t follow_id = 0;
	const struct link_first_reader reader = { &follow_link_hooks, start->follow, start->credit,
						  &follow_id };

	start->number = link_next_process(sandbox->link);
	if (note_start(start, sandbox, err) < 0) {
		admit_ended(sandbox);
		return -1;
	}
	if (link_spawn(sandbox->link, &start->build.exec, on_started, start,
		       start->follow ? &reader : NULL, err) < 0) {
		refused(start, sandbox, err);
		admit_ended(sandbox);
		return -1;
	}
	if (start->follow)
		follow_made(start->follow, follow_id);
	sandbox_touch(sandbox);
	sandbox->service->upkeep.counters.processes++;
	return 0;
}

static void on_admitted(void *arg, struct sandbox *sandbox, const struct err *error)
{
	struct process_start *start = arg;
	struct err err;

	if (sandbox && launch(start, sandbox, &err) == 0)
		return;
	fail_start(start, sandbox ? &err : error);
}

/* Whether a start that the agent has not answered yet uses this name. */
static bool name_in_flight(const struct sandbox *sandbox, const char *name)
{
	for (struct op *op = sandbox->service->runs->starts.first; op; op = op->next) {
		const struct process_start *at = CONTAINER_OF(op, struct process_start, op);

		if (op->sandbox == sandbox->handle && at->build.exec.name &&
		    strcmp(at->build.exec.name, name) == 0)
			return true;
	}
	return false;
}

static int begin(struct process_start *start, struct sandbox *sandbox, struct err *err)
{
	const char *name = start->build.exec.name;
	int r;

	if (name && name_in_flight(sandbox, name))
		return err_set(err, ERR_CONFLICT, "name: a process named '%s' is being started",
			       name);
	if (spec_keep(&start->build, err) < 0)
		return -1;
	r = admit_process(sandbox, name, on_admitted, start, err);
	return r > 0 ? launch(start, sandbox, err) : r;
}

int process_start(struct sandbox *sandbox, const struct exec_spec *spec, process_started_fn started,
		  void *arg, const struct process_reader *reader, struct err *err)
{
	uint32_t credit = reader ? reader->credit : 0;
	struct follow_spec follow = { .credit = credit,
				      .streams = PROCESS_OUT | PROCESS_ERR,
				      .live = true,
				      .hold = spec->hold };
	struct process_start *start = calloc(1, sizeof(*start));

	if (!start)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	if (spec_build(&start->build, sandbox, spec, err) < 0) {
		free(start);
		return -1;
	}
	start->credit = credit;
	start->idem = spec->idem;
	start->started = started;
	start->arg = arg;
	if (reader)
		start->follow = follow_new(sandbox, &follow, reader->hooks, reader->arg, err);
	if (start->follow)
		follow_own(start->follow, sandbox, !spec->tty);
	if ((reader && !start->follow) || begin(start, sandbox, err) < 0) {
		if (start->follow)
			follow_drop(start->follow);
		start_free(start);
		return -1;
	}
	op_begin(&start->op, &sandbox->service->runs->starts, sandbox->service, sandbox->handle);
	return 0;
}

/* ---- look ---- */

/* Commands and names may contain a secret of the sandbox, so they are scrubbed. */
struct info_veil {
	char name[PROCESS_NAME_MAX + 1];
	char command[1025];
};

static void veil_info(const struct op *op, struct process_info *info, struct info_veil *veil)
{
	const struct sandbox *sandbox = op_sandbox(op);

	if (!sandbox)
		return;
	info->name = sandbox_scrub_text(sandbox, info->name, veil->name, sizeof(veil->name));
	info->command =
		sandbox_scrub_text(sandbox, info->command, veil->command, sizeof(veil->command));
}

struct process_listing {
	struct op op;
	process_each_fn each;
	void *arg;
};

static void on_each(void *arg, const struct link_process_info *from, const struct err *error)
{
	struct process_listing *listing = arg;
	process_each_fn each = listing->each;
	void *each_arg = listing->arg;
	struct process_info info;
	struct info_veil veil;

	if (from && listing->op.service) {
		info_from_link(&info, from);
		veil_info(&listing->op, &info, &veil);
		each(each_arg, &info, NULL);
	}
	if (!from && op_end(&listing->op))
		each(each_arg, NULL, error);
}

static struct process_listing *listing_new(struct sandbox *sandbox, process_each_fn each, void *arg,
					   struct err *err)
{
	struct process_listing *listing =
		OP_NEW(struct process_listing, sandbox->service, sandbox->handle, err);

	if (listing) {
		listing->each = each;
		listing->arg = arg;
	}
	return listing;
}

int process_list(struct sandbox *sandbox, process_each_fn each, void *arg, struct err *err)
{
	struct process_listing *listing = listing_new(sandbox, each, arg, err);

	if (!listing)
		return -1;
	if (link_list(sandbox->link, 0, on_each, listing, err) == 0)
		return 0;
	(void)op_end(&listing->op);
	return -1;
}

int process_orphans(struct sandbox *sandbox, process_each_fn each, void *arg, struct err *err)
{
	struct process_listing *listing = listing_new(sandbox, each, arg, err);

	if (!listing)
		return -1;
	if (link_orphans(sandbox->link, on_each, listing, err) == 0)
		return 0;
	(void)op_end(&listing->op);
	return -1;
}

bool process_pid_parse(struct str id, uint32_t *ret)
{
	static const char prefix[] = "pid:";
	size_t n = sizeof(prefix) - 1;
	uint64_t number = 0;

	if (!str_starts(id, prefix) ||
	    str_to_u64((struct str){ id.p + n, id.n - n }, INT32_MAX, &number) < 0 || !number)
		return false;
	*ret = (uint32_t)number;
	return true;
}

bool process_id_parse(struct str id, uint32_t *ret)
{
	uint64_t number = 0;

	if (str_to_u64(id, UINT32_MAX, &number) < 0 || !number)
		return false;
	*ret = (uint32_t)number;
	return true;
}

/* Owner: the link's list call, which completes once. */
struct finding {
	struct op op;
	process_found_fn done;
	void *arg;
	bool found;
	struct process_info info;
	char wanted[PROCESS_NAME_MAX + 1];
	char name[PROCESS_NAME_MAX + 1];
	char user[PROCESS_NAME_MAX + 1];
	char command[257];
};

static void copy_text(char *dst, size_t size, const char **text)
{
	struct str s = { *text, strnlen(*text, size - 1) };

	(void)!str_copy(dst, size, s);
	*text = dst;
}

static bool better(const struct finding *f, const struct link_process_info *from)
{
	uint32_t id = 0;

	if (process_id_parse(str_of(f->wanted), &id))
		return from->process_id == id;
	if (from->window || strcmp(from->name, f->wanted) != 0)
		return false;
	/* The list is oldest first. A finished process does not replace a running one. */
	return !f->found || from->status.end == LINK_END_NONE || f->info.status.reason;
}

static void on_find(void *arg, const struct link_process_info *from, const struct err *error)
{
	struct finding *f = arg;
	struct info_veil veil;
	struct err err;

	if (from) {
		if (!better(f, from))
			return;
		f->found = true;
		info_from_link(&f->info, from);
		veil_info(&f->op, &f->info, &veil);
		copy_text(f->name, sizeof(f->name), &f->info.name);
		copy_text(f->user, sizeof(f->user), &f->info.user);
		copy_text(f->command, sizeof(f->command), &f->info.command);
		return;
	}
	if (!error && !f->found) {
		(void)err_set(&err, ERR_PROCESS_NOT_FOUND, "no process '%s'", f->wanted);
		error = &err;
	}
	if (op_unlink(&f->op))
		f->done(f->arg, error ? NULL : &f->info, error);
	free(f);
}

int process_find(struct sandbox *sandbox, struct str id, process_found_fn found, void *arg,
		 struct err *err)
{
	struct finding *f = OP_NEW(struct finding, sandbox->service, sandbox->handle, err);
	uint32_t number = 0;

	if (!f)
		return -1;
	if (str_copy(f->wanted, sizeof(f->wanted), id) < 0) {
		(void)op_end(&f->op);
		return err_set(err, ERR_PROCESS_NOT_FOUND, "no process '%.*s'", PROCESS_NAME_MAX,
			       id.p);
	}
	(void)process_id_parse(id, &number);
	f->done = found;
	f->arg = arg;
	if (link_list(sandbox->link, number, on_find, f, err) == 0)
		return 0;
	(void)op_end(&f->op);
	return -1;
}
