/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of a process's output. The cursors of a follow are kept here. If the link breaks, the
 * follow continues after its last byte on the new link, and the reader does not notice.
 */
#include "service/event/event_internal.h"
#include "service/run/process_internal.h"
#include "service/secret/secret.h"
#include "service/run/run_private.h"

/* How long bytes that may be the beginning of a secret are held back. A short match, such as a
 * prompt that ends with the first letter of a secret, is probably a coincidence and must not delay
 * output; a longer one probably is not. */
#define HOLD_SHORT_MS 50
#define HOLD_LONG_MS 2000
#define HOLD_SHORT_BYTES 4

/* Only for sandboxes with secrets. Owner: the follow. */
struct veil {
	struct scrub_stream streams[2];
	uint64_t cursors[2]; /* of the first byte held */
	struct loop_timer *timer;
};

/* Owner: the service's table. If the service was closed, the link's last call frees it. */
struct follow {
	struct service *service;
	slot_handle handle;
	slot_handle sandbox;
	struct follow_spec
		spec; /* cursors: of the next bytes; credit: bytes that the link may send */
	struct follow_hooks hooks;
	void *arg;
	struct sandbox_wait *wait;
	uint32_t process_id;
	uint32_t follow_id; /* 0: not known to a link at the moment */
	bool counts; /* started with the process: its end decrements the count of processes */
	bool tells;  /* its end publishes the end of the process */
	bool holds;  /* stops the idle clock until its end */
	bool ending; /* the link has made its last call */
	uint64_t
		from[2]; /* requested by the reader; bytes before it are only scanned for secrets */
	struct veil *veil; /* NULL: nothing had to be scrubbed so far */
};

static void veil_free(struct veil *veil)
{
	if (!veil)
		return;
	scrub_stream_done(&veil->streams[0]);
	scrub_stream_done(&veil->streams[1]);
	loop_timer_free(veil->timer);
	free(veil);
}

static void follow_free(struct follow *follow)
{
	struct sandbox *sandbox;

	veil_free(TAKE_PTR(follow->veil));

	if (follow->service) {
		sandbox = sandbox_get(follow->service, follow->sandbox);
		if (sandbox && follow->holds) {
			sandbox->execs--;
			sandbox_touch(sandbox);
		}
		(void)slot_take(&follow->service->runs->follows, follow->handle);
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
	if (sandbox && sandbox_is_hibernated(sandbox))
		return err_set(err, ERR_SANDBOX_GONE, "the sandbox was hibernated in the meantime");
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

static bool pass_held(struct follow *follow, int stream);

static void end_broken(struct follow *follow, const struct err *err)
{
	struct process_status status = {
		.reason = err->code == ERR_SANDBOX_GONE ? "sandbox_gone" : NULL,
		.exit_code = -1,
		.out_total = follow->spec.out_cursor,
		.err_total = follow->spec.err_cursor,
	};

	follow->ending = true;
	if (!follow->veil || (pass_held(follow, LINK_OUT) && pass_held(follow, LINK_ERR)))
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
				   .live = spec->live,
				   .hold = spec->hold };

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

/* The link broke. Waits for a new link; the wait also ends if the sandbox has ended. */
static void go_on_later(struct follow *follow)
{
	struct sandbox *sandbox = sandbox_get(follow->service, follow->sandbox);
	struct err err;

	follow->follow_id = 0;
	follow->counts = false; /* the processes are counted again */
	if (!sandbox || !sandbox_up(sandbox))
		(void)sandbox_gone(sandbox, &err);
	else if (sandbox_when_ready(sandbox, false, on_ready, follow, &follow->wait, &err) == 0)
		return;
	end_broken(follow, &err);
}

/* ---- secrets ---- */

/* Passes bytes to the reader, except those before its start. False: the reader closed the follow.
 */
static bool pass(struct follow *follow, int stream, uint64_t cursor, struct str bytes)
{
	struct service *service = follow->service;
	slot_handle handle = follow->handle;
	uint64_t from = follow->from[stream - 1];
	size_t skip = cursor < from ? (size_t)MIN(from - cursor, bytes.n) : 0;

	if (skip)
		follow_credit(service, handle, (uint32_t)skip);
	if (bytes.n > skip)
		follow->hooks.on_output(follow->arg, stream, cursor + skip,
					(struct str){ bytes.p + skip, bytes.n - skip });
	return slot_get(&service->runs->follows, handle) == follow;
}

static bool pass_held(struct follow *follow, int stream)
{
	struct veil *veil = follow->veil;
	uint64_t cursor = veil->cursors[stream - 1];
	struct str bytes = scrub_stream_flush(&veil->streams[stream - 1]);

	veil->cursors[stream - 1] += bytes.n;
	return bytes.n == 0 || pass(follow, stream, cursor, bytes);
}

static void set_hold(struct veil *veil)
{
	size_t held = 0;

	for (int i = 0; i < 2; i++)
		held = MAX(held, scrub_stream_held(&veil->streams[i]));
	if (held)
		loop_timer_set(veil->timer, held < HOLD_SHORT_BYTES ? HOLD_SHORT_MS : HOLD_LONG_MS,
			       0);
	else
		loop_timer_clear(veil->timer);
}

static void on_hold(void *arg)
{
	struct follow *follow = arg;

	if (pass_held(follow, LINK_OUT))
		(void)pass_held(follow, LINK_ERR);
}

static int veil_need(struct follow *follow)
{
	struct veil *veil;

	if (follow->veil)
		return 0;
	veil = calloc(1, sizeof(*veil));
	if (!veil ||
	    loop_timer_new(follow->service->config.loop, on_hold, follow, &veil->timer) < 0) {
		free(veil);
		return -1;
	}
	scrub_stream_init(&veil->streams[0], NULL);
	scrub_stream_init(&veil->streams[1], NULL);
	follow->veil = veil;
	return 0;
}

/* Passes bytes through the scrubber. scrub: the current one; a rotation replaces it. */
static void veiled(struct follow *follow, struct scrub *scrub, int stream, uint64_t cursor,
		   struct str bytes)
{
	struct veil *veil = follow->veil;
	struct scrub_stream *s = &veil->streams[stream - 1];
	bool jump = veil->cursors[stream - 1] + scrub_stream_held(s) != cursor;

	if (s->scrub != scrub || jump) {
		if (!pass_held(follow, stream))
			return;
		scrub_stream_done(s);
		scrub_stream_init(s, scrub);
		veil->cursors[stream - 1] = cursor;
	}
	cursor = veil->cursors[stream - 1];
	bytes = scrub_stream_feed(s, bytes);
	veil->cursors[stream - 1] += bytes.n;
	set_hold(veil);
	if (bytes.n)
		(void)pass(follow, stream, cursor, bytes);
}

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	struct follow *follow = arg;
	uint64_t *at = stream == LINK_OUT ? &follow->spec.out_cursor : &follow->spec.err_cursor;
	struct sandbox *sandbox;
	struct scrub *scrub;

	if (!follow->service)
		return;
	*at = cursor + bytes.n;
	follow->spec.credit -= (uint32_t)MIN(bytes.n, follow->spec.credit);
	sandbox = sandbox_get(follow->service, follow->sandbox);
	scrub = sandbox ? sandbox_scrub(sandbox) : NULL;
	if (!scrub && !follow->veil)
		(void)pass(follow, stream, cursor, bytes);
	else if (veil_need(follow) == 0)
		veiled(follow, scrub, stream, cursor, bytes);
	/* otherwise there is no memory: the bytes are dropped, and the reader sees a gap */
}

/* Starts to scan before the requested cursor, so that a reader that starts inside a secret does not
 * see the rest of it. */
static void look_back(struct follow *follow, struct sandbox *sandbox)
{
	struct scrub *scrub = sandbox_scrub(sandbox);
	uint64_t back = scrub ? scrub_longest(scrub) : 0;
	struct follow_spec *spec = &follow->spec;

	follow->from[0] = spec->out_cursor;
	follow->from[1] = spec->err_cursor;
	spec->out_cursor -= MIN(back, spec->out_cursor);
	spec->err_cursor -= MIN(back, spec->err_cursor);
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
	follow->ending = true;
	if (follow->veil && !(pass_held(follow, LINK_OUT) && pass_held(follow, LINK_ERR)))
		return;
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

	if (!follow || slot_put(&sandbox->service->runs->follows, follow, &follow->handle) < 0) {
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
	look_back(follow, sandbox);
	if (ask_link(follow, sandbox, err) < 0) {
		follow_free(follow);
		return -1;
	}
	follow->holds = spec->waited;
	sandbox->execs += spec->waited;
	*ret = follow->handle;
	return 0;
}

bool follow_tells(const struct service *service, slot_handle sandbox, uint32_t process_id)
{
	const struct follow *follow;
	uint32_t cursor = 0;

	while ((follow = slot_next(&service->runs->follows, &cursor)))
		if (follow->tells && follow->sandbox == sandbox && follow->process_id == process_id)
			return true;
	return false;
}

void follow_credit(struct service *service, slot_handle handle, uint32_t bytes)
{
	struct follow *follow = slot_get(&service->runs->follows, handle);
	struct sandbox *sandbox = follow ? sandbox_get(service, follow->sandbox) : NULL;

	if (!follow || !bytes)
		return;
	follow->spec.credit += bytes;
	if (sandbox && sandbox->link && follow->follow_id)
		link_credit(sandbox->link, follow->follow_id, bytes);
}

void follow_close(struct service *service, slot_handle handle)
{
	struct follow *follow = slot_get(&service->runs->follows, handle);
	struct sandbox *sandbox = follow ? sandbox_get(service, follow->sandbox) : NULL;

	if (!follow)
		return;
	if (follow->ending) {
		/* The link no longer knows the follow. */
	} else if (follow->wait) {
		sandbox_wait_cancel(follow->wait);
	} else if (sandbox && sandbox->link && link_ready(sandbox->link)) {
		link_unfollow(sandbox->link, follow->follow_id);
		if (follow->tells)
			exit_watch_start(sandbox, follow->process_id, "stream", follow->counts);
	} else {
		/* The link was interrupted: its last call is pending and will find no follow. */
		if (sandbox && follow->holds)
			sandbox->execs--;
		(void)slot_take(&service->runs->follows, follow->handle);
		veil_free(TAKE_PTR(follow->veil));
		follow->service = NULL;
		return;
	}
	follow_free(follow);
}

/* The service closes. The links complete the remaining follows on later iterations of the loop. */
void follow_stop_all(struct service *service)
{
	struct follow *follow;
	uint32_t cursor = 0;

	while ((follow = slot_next(&service->runs->follows, &cursor))) {
		if (follow->hooks.on_drop)
			follow->hooks.on_drop(follow->arg);
		if (follow->wait) {
			sandbox_wait_cancel(follow->wait);
			(void)slot_take(&service->runs->follows, follow->handle);
			veil_free(follow->veil);
			free(follow);
		} else {
			veil_free(TAKE_PTR(follow->veil));
			follow->service = NULL;
		}
	}
}
