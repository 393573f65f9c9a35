/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for snapshots: take, find, list, delete, and keep_last. */
#include <errno.h>

#include "base/log.h"
#include "service/range_internal.h"
#include "service/sandbox/attach_internal.h"
#include "service/account/auth_internal.h"
#include "service/copy/transition_internal.h"
#include "service/copy/snapshot_internal.h"
#include "service/template/template.h"
#include "service/copy/copy_private.h"
#include "service/copy/copy_internal.h"
#include "service/steady_internal.h"

static bool visible(const struct snapshot *s, const struct key *key)
{
	if (!s || s->kind != SNAPSHOT_USER ||
	    (s->state != SNAPSHOT_READY && s->state != SNAPSHOT_MISSING))
		return false;
	return key_is_admin(key) || strcmp(s->owner, key->id) == 0;
}

struct snapshot *snapshot_find(struct service *service, const struct key *key, struct str id,
			       struct err *err)
{
	struct snapshot *s = snapshot_by_id(service, id);

	if (visible(s, key))
		return s;
	(void)err_set(err, ERR_SNAPSHOT_NOT_FOUND, "no snapshot '%.*s'", (int)MIN(id.n, 64), id.p);
	return NULL;
}

struct snapshot *snapshot_find_begun(struct service *service, const struct key *key, struct str id,
				     struct err *err)
{
	const struct snapshot *s = snapshot_by_id(service, id);

	if (s && s->state == SNAPSHOT_MAKING) {
		(void)err_set(err, ERR_UNAVAILABLE,
			      "snapshot %s was being taken when the daemon ended; the result is "
			      "not known yet: try again",
			      s->id);
		return NULL;
	}
	return snapshot_find(service, key, id, err);
}

/* Whether a sandbox can be created from the snapshot. */
int snapshot_check_usable(const struct snapshot *s, struct err *err)
{
	if (s->state == SNAPSHOT_MISSING)
		return err_set(err, ERR_SNAPSHOT_REFUSED,
			       "snapshot %s is missing: engine %s no longer has it", s->id,
			       engine_name(s->engine));
	return 0;
}

/* The saved processes may need all the memory that their sandbox had. */
int snapshot_check_room(const struct snapshot *s, uint32_t memory_mb, struct err *err)
{
	if (!s->memory || memory_mb >= s->memory_mb)
		return 0;
	return err_set(err, ERR_INVALID_REQUEST,
		       "memory_mb: the processes in snapshot %s need %u MB; use at least that, or "
		       "\"memory\": false to start without them",
		       s->id, s->memory_mb);
}

const struct snapshot *snapshot_list_next(struct service *service, const struct key *key,
					  const char *sandbox_id, int64_t *cursor)
{
	for (struct snapshot *s = service->copies->newest; s; s = s->prev) {
		if (s->seq >= *cursor || !visible(s, key) ||
		    (*sandbox_id && strcmp(s->sandbox_id, sandbox_id) != 0))
			continue;
		*cursor = s->seq;
		return s;
	}
	return NULL;
}

void snapshot_remove(struct snapshot *snapshot)
{
	snapshot_discard(snapshot);
}

/* ---- taking a snapshot ---- */

/* Ends the transition. The sandbox is as before, and calls that waited continue. */
void snapshot_transition_end(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	slot_handle handle = sandbox->handle;

	if (store_intent_delete(service->store, sandbox->row) < 0)
		log_warn(
			"sandbox %s: the intent could not be closed and stays until the next start",
			sandbox->id);
	service_wrote(service);
	transition_end(sandbox, phase_rest(sandbox->phase), NULL);
	sandbox = sandbox_get(service, handle);
	if (!sandbox)
		return;
	if (sandbox_state(sandbox) == SANDBOX_PAUSED)
		ready_paused(sandbox);
	else if (sandbox->link)
		ready_there(sandbox);
	else if (sandbox_state(sandbox) == SANDBOX_RUNNING)
		attach_start(sandbox); /* the link was closed in order to save the memory */
}

int snapshot_transition_begin(struct sandbox *sandbox, enum sandbox_transition transition,
			      const char *what, struct err *err)
{
	if (sandbox_is_hibernated(sandbox) && !sandbox_transition(sandbox))
		return err_set(err, ERR_WRONG_STATE,
			       "sandbox %s is hibernated: resume it before you take a snapshot",
			       sandbox->id);
	if (transition_need(sandbox, CAN_SNAPSHOT, what, err) < 0)
		return -1;
	return transition_begin(sandbox, transition, NULL, NULL, err);
}

static void keep_last(const struct snapshot *newest, int64_t keep)
{
	for (struct snapshot *s = newest->service->copies->newest, *prev; s; s = prev) {
		prev = s->prev;
		if (s->kind == SNAPSHOT_USER && s->state == SNAPSHOT_READY &&
		    strcmp(s->sandbox_id, newest->sandbox_id) == 0 && keep-- <= 0)
			snapshot_discard(s);
	}
}

static void on_taken(void *arg, struct sandbox *sandbox, struct snapshot *snapshot,
		     const struct err *err)
{
	(void)arg;
	if (!err && snapshot->keep_last)
		keep_last(snapshot, snapshot->keep_last);
	snapshot->made(snapshot->made_arg, err ? NULL : snapshot, err);
	if (sandbox)
		snapshot_transition_end(sandbox);
}

static int check_spec(const struct snapshot_spec *spec, struct err *err)
{
	if (range_check_text("comment", spec->comment, 0, SNAPSHOT_COMMENT_MAX, err) < 0 ||
	    range_check("expires_in_sec", spec->expires_in_sec, 0, SNAPSHOT_EXPIRES_MAX_SEC, err) <
		    0)
		return -1;
	return range_check("keep_last", spec->keep_last, 0, SNAPSHOT_KEEP_MAX, err);
}

int sandbox_snapshot(struct sandbox *sandbox, struct key *key, const struct snapshot_spec *spec,
		     snapshot_made_fn done, void *arg, struct err *err)
{
	struct snapshot_spec can = *spec;
	struct err why = { .code = ERR_OK };
	struct snapshot *s;

	if (check_spec(spec, err) < 0)
		return -1;
	can.memory = spec->memory && transition_copies_memory(sandbox, &why) == 0;
	if (can.memory && transition_check_linked(sandbox, err) < 0)
		return -1;
	if (quota_snapshot(sandbox->service, key, err) < 0 ||
	    snapshot_transition_begin(sandbox, TRANSITION_SNAPSHOT, "take snapshots", err) < 0)
		return -1;
	if (snapshot_take(sandbox, &can, on_taken, NULL, &s, err) < 0) {
		snapshot_transition_end(sandbox);
		return -1;
	}
	s->made = done;
	s->made_arg = arg;
	s->keep_last = spec->keep_last;
	if (why.code)
		snapshot_set_memory_error(s, why.message);
	return 0;
}

int64_t snapshot_expires_ms(const struct snapshot *snapshot)
{
	return steady_wall_ms(snapshot->service, snapshot->expires_ms);
}

const char *snapshot_engine(const struct snapshot *snapshot)
{
	return engine_name(snapshot->engine);
}
