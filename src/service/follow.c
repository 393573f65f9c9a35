/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of a process's output. The cursors of a follow are kept here, so that one whose link
 * broke goes on behind its last byte, and a reader never learns of it.
 */
#include "service/private.h"

/* Owner: the service's table; without a service the link's last call frees it. */
struct follow {
	struct service *service;
	slot_handle handle;
	slot_handle sandbox;
	struct follow_spec spec; /* cursors: of the next bytes; credit: what the link may send */
	struct follow_hooks hooks;
	void *arg;
	struct sandbox_wait *wait;
	uint32_t process_id;
	uint32_t follow_id; /* 0: the link knows nothing of it just now */
	bool counts;	    /* it began with the process: its end is the process's in the count */
	bool tells;	    /* and the event of it */
	bool holds;	    /* and the idle clock stands until then */
};

static void follow_free(struct follow *follow)
{
	struct sandbox *sandbox;

	if (follow->service) {
		sandbox = sandbox_get(follow->service, follow->sandbox);
		if (sandbox && follow->holds) {
			sandbox->execs--;
			sandbox_touch(sandbox);
		}
		(void)slot_take(&follow->service->follows, follow->handle);
	}
	free(follow);
}

void follow_own(struct follow *follow, struct sandbox *sandbox, bool waited)
{
	follow->counts = follow->tells = true;
	follow->holds = waited;
	sandbox->execs += waited;
}

void follow_drop(struct follow *follow)
{
	follow_free(follow);
}

slot_handle follow_handle(const struct follow *follow)
{
	return follow->handle;
}

int sandbox_gone(const struct sandbox *sandbox, struct err *err)
{
	if (sandbox && sandbox->state == SANDBOX_PAUSED && sandbox->pause_kind == PAUSE_HIBERNATE)
		return err_set(err, ERR_SANDBOX_GONE, "the sandbox was hibernated meanwhile");
	return err_set(err, ERR_SANDBOX_GONE, "the sandbox ended: %s",
		       sandbox && sandbox->reason ? sandbox_reason_name(sandbox->reason)
						  : "it was destroyed");
}

static void end(struct follow *follow, const struct process_status *status, const struct err *err)
{
	struct follow_hooks hooks = follow->hooks;
	void *arg = follow->arg;

	follow_free(follow);
	hooks.on_end(arg, status, err);
}

static void end_broken(struct follow *follow, const struct err *err)
{
	struct process_status status = {
		.reason = err->code == ERR_SANDBOX_GONE ? "sandbox_gone" : NULL,
		.exit_code = -1,
		.out_total = follow->spec.out_cursor,
		.err_total = follow->spec.err_cursor,
	};

	end(follow, &status, err);
}

static int ask_link(struct follow *follow, struct sandbox *sandbox, struct err *err)
{
	const struct follow_spec *spec = &follow->spec;
	struct link_follow ask = { .out_cursor = spec->out_cursor,
				   .err_cursor = spec->err_cursor,
				   .credit = spec->credit,
				   .run = spec->run,
				   .streams = spec->streams,
				   .live = spec->live };

	return link_follow(sandbox->link, follow->process_id, &ask, &follow_link_hooks, follow,
			   &follow->follow_id, err);
}

static void on_ready(void *arg, const struct err *err)
{
	struct follow *follow = arg;
	struct sandbox *sandbox = sandbox_get(follow->service, follow->sandbox);
	struct err own;

	follow->wait = NULL;
	if (!err && !sandbox && sandbox_gone(NULL, &own) < 0)
		err = &own;
	if (!err && ask_link(follow, sandbox, &own) < 0)
		err = &own;
	if (err)
		end_broken(follow, err);
}

/* The link broke. Whether the sandbox did too will turn out: the wait ends either way. */
static void go_on_later(struct follow *follow)
{
	struct sandbox *sandbox = sandbox_get(follow->service, follow->sandbox);
	struct err err;

	follow->follow_id = 0;
	follow->counts = false; /* they are counted again */
	if (!sandbox || sandbox->state != SANDBOX_RUNNING)
		(void)sandbox_gone(sandbox, &err);
	else if (sandbox_when_ready(sandbox, false, on_ready, follow, &follow->wait, &err) == 0)
		return;
	end_broken(follow, &err);
}

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	struct follow *follow = arg;
	uint64_t *at = stream == LINK_OUT ? &follow->spec.out_cursor : &follow->spec.err_cursor;

	if (!follow->service)
		return;
	*at = cursor + bytes.n;
	follow->spec.credit -= (uint32_t)MIN(bytes.n, follow->spec.credit);
	follow->hooks.on_output(follow->arg, stream, cursor, bytes);
}

static void on_end(void *arg, const struct link_status *from, const struct err *error)
{
	struct follow *follow = arg;
	struct process_status status;

	if (!follow->service) {
		follow_free(follow);
		return;
	}
	if (from->end == LINK_END_GONE) {
		go_on_later(follow);
		return;
	}
	status_from_link(&status, from);
	if (status.reason) {
		struct sandbox *sandbox = sandbox_get(follow->service, follow->sandbox);

		if (sandbox && follow->counts)
			admit_ended(sandbox);
		if (sandbox && follow->tells)
			event_process_ended(
				sandbox,
				&(struct event_process){ .process_id = follow->process_id,
							 .kind = "stream" },
				&status);
	}
	end(follow, &status, error);
}

const struct link_follow_hooks follow_link_hooks = { .on_output = on_output, .on_end = on_end };

struct follow *follow_new(struct sandbox *sandbox, const struct follow_spec *spec,
			  const struct follow_hooks *hooks, void *arg, struct err *err)
{
	struct follow *follow = calloc(1, sizeof(*follow));

	if (!follow || slot_put(&sandbox->service->follows, follow, &follow->handle) < 0) {
		free(follow);
		(void)err_set(err, ERR_CAPACITY_EXCEEDED, "too many streams on this host");
		return NULL;
	}
	follow->service = sandbox->service;
	follow->sandbox = sandbox->handle;
	follow->spec = *spec;
	follow->hooks = *hooks;
	follow->arg = arg;
	return follow;
}

void follow_made(struct follow *follow, uint32_t follow_id)
{
	follow->follow_id = follow_id;
}

void follow_bind(struct follow *follow, uint32_t process_id, uint32_t run, uint64_t cursor)
{
	follow->process_id = process_id;
	follow->spec.run = run;
	follow->spec.out_cursor = cursor;
}

int follow_open(struct sandbox *sandbox, uint32_t process_id, const struct follow_spec *spec,
		const struct follow_hooks *hooks, void *arg, slot_handle *ret, struct err *err)
{
	struct follow *follow = follow_new(sandbox, spec, hooks, arg, err);

	if (!follow)
		return -1;
	follow->process_id = process_id;
	if (ask_link(follow, sandbox, err) < 0) {
		follow_free(follow);
		return -1;
	}
	*ret = follow->handle;
	return 0;
}

bool follow_tells(const struct service *service, slot_handle sandbox, uint32_t process_id)
{
	const struct follow *follow;
	uint32_t cursor = 0;

	while ((follow = slot_next(&service->follows, &cursor)))
		if (follow->tells && follow->sandbox == sandbox && follow->process_id == process_id)
			return true;
	return false;
}

void follow_credit(struct service *service, slot_handle handle, uint32_t bytes)
{
	struct follow *follow = slot_get(&service->follows, handle);
	struct sandbox *sandbox = follow ? sandbox_get(service, follow->sandbox) : NULL;

	if (!follow || !bytes)
		return;
	follow->spec.credit += bytes;
	if (sandbox && sandbox->link && follow->follow_id)
		link_credit(sandbox->link, follow->follow_id, bytes);
}

void follow_close(struct service *service, slot_handle handle)
{
	struct follow *follow = slot_get(&service->follows, handle);
	struct sandbox *sandbox = follow ? sandbox_get(service, follow->sandbox) : NULL;

	if (!follow)
		return;
	if (follow->wait) {
		sandbox_wait_cancel(follow->wait);
	} else if (sandbox && sandbox->link && link_ready(sandbox->link)) {
		link_unfollow(sandbox->link, follow->follow_id);
		if (follow->tells)
			ends_watch(sandbox, follow->process_id, "stream", follow->counts);
	} else {
		/* Its link was given up: the last call is on its way and finds nobody. */
		if (sandbox && follow->holds)
			sandbox->execs--;
		(void)slot_take(&service->follows, follow->handle);
		follow->service = NULL;
		return;
	}
	follow_free(follow);
}

/* The service ends; the links complete what is left on later turns. */
void follow_stop_all(struct service *service)
{
	struct follow *follow;
	uint32_t cursor = 0;

	while ((follow = slot_next(&service->follows, &cursor))) {
		if (follow->hooks.on_drop)
			follow->hooks.on_drop(follow->arg);
		if (follow->wait) {
			sandbox_wait_cancel(follow->wait);
			(void)slot_take(&service->follows, follow->handle);
			free(follow);
		} else {
			follow->service = NULL;
		}
	}
}
