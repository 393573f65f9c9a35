/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox object: allocation, storage, list, names, lookup, removal. */
#include "service/sandbox/sandbox.h"

#include <errno.h>
#include <stdio.h>

#include "base/rand.h"
#include "base/time.h"
#include "service/sandbox/attach_internal.h"
#include "service/account/auth_internal.h"
#include "service/network/egress_internal.h"
#include "service/sandbox/initializer.h"
#include "service/copy/transition_internal.h"
#include "service/pairs.h"
#include "service/pool/pool_internal.h"
#include "service/network/preview_internal.h"
#include "service/sandbox/destroy_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret_internal.h"
#include "service/copy/snapshot.h"
#include "service/template/template.h"
#include "service/account/usage_internal.h"
#include "service/sandbox/sandbox_private.h"

/* The value in by_name while a creation has reserved the name but has no sandbox yet. */
static char reserved_marker;

void sandbox_touch(struct sandbox *sandbox)
{
	sandbox->active_ms = time_boot_ms();
}

struct sandbox *sandbox_new(struct service *service, struct service_engine *engine,
			    struct template *tpl, const char *id, struct err *err)
{
	struct sandbox *sandbox = calloc(1, sizeof(*sandbox));
	int r;

	if (!sandbox) {
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	sandbox->service = service;
	sandbox->engine = engine;
	sandbox->template = tpl;
	sandbox->watch_fd = -1;
	if (id)
		(void)snprintf(sandbox->id, sizeof(sandbox->id), "%s", id);
	else
		rand_label(sandbox->id, SANDBOX_ID_LEN);
	sandbox->row = ++service->sandboxes->last_row;
	r = slot_put(&service->sandboxes->table, sandbox, &sandbox->handle);
	if (r == 0) {
		r = map_put(&service->sandboxes->by_id, str_of(sandbox->id), sandbox);
		if (r < 0)
			(void)slot_take(&service->sandboxes->table, sandbox->handle);
	}
	if (r < 0) {
		free(sandbox);
		(void)err_set(err, ERR_CAPACITY_EXCEEDED, "the table of sandboxes is full");
		return NULL;
	}
	return sandbox;
}

void sandbox_attrs_done(struct sandbox_attrs *attrs)
{
	free(attrs->name);
	free(attrs->external_workspace_id);
	pairs_done(&attrs->env);
	pairs_done(&attrs->metadata);
	grants_free(TAKE_PTR(attrs->grants));
	egress_policy_free(TAKE_PTR(attrs->network));
	initializers_free(TAKE_PTR(attrs->initializers));
	attrs->name = attrs->external_workspace_id = NULL;
}

int sandbox_attrs_copy(struct sandbox_attrs *to, const struct sandbox_attrs *from)
{
	*to = *from;
	to->name = to->external_workspace_id = NULL;
	to->env = to->metadata = (struct pairs){ NULL, 0, 0 };
	to->grants = NULL;
	to->initializers = NULL; /* the source has already run them */
	to->network = from->network ? egress_policy_copy(from->network) : NULL;
	if (from->network && !to->network)
		return -ENOMEM;
	if (from->external_workspace_id) {
		to->external_workspace_id = strdup(from->external_workspace_id);
		if (!to->external_workspace_id)
			return -ENOMEM;
	}
	if (pairs_from_block(&to->env, pairs_block(&from->env)) < 0 ||
	    pairs_from_block(&to->metadata, pairs_block(&from->metadata)) < 0)
		return -ENOMEM;
	if (from->grants) {
		to->grants = grants_copy(from->grants);
		return to->grants ? 0 : -ENOMEM;
	}
	return 0;
}

void sandbox_drop(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;

	sandbox_hide(sandbox);
	pool_forget(sandbox);
	ready_drop(sandbox);
	attach_drop_link(sandbox);
	egress_free(sandbox);
	(void)map_take(&service->sandboxes->by_id, str_of(sandbox->id));
	(void)slot_take(&service->sandboxes->table, sandbox->handle);
	sandbox_attrs_done(&sandbox->attrs);
	history_free(sandbox);
	preview_free_all(sandbox);
	destroy_drop_waits(sandbox);
	free(sandbox->last_error);
	free(sandbox);
}

static int save_row(struct sandbox *sandbox, const char *network)
{
	const struct sandbox_attrs *attrs = &sandbox->attrs;
	struct store_sandbox row = {
		.row = sandbox->row,
		.seq = sandbox->seq,
		.id = sandbox->id,
		.name = attrs->name,
		.owner = attrs->owner[0] ? attrs->owner : NULL,
		.state = sandbox_state_names[sandbox_state(sandbox)],
		.reason = sandbox_reason_name(sandbox->reason),
		.engine = engine_name(sandbox->engine),
		.template_name = sandbox->template->name,
		.template_hash = sandbox->template->hash_hex,
		.boot_path = sandbox_boot_names[sandbox->boot],
		.pool_mode = pool_mode_names[attrs->pool_mode],
		.external_workspace_id = attrs->external_workspace_id,
		.last_error = sandbox->last_error,
		.env = pairs_block(&attrs->env),
		.metadata = pairs_block(&attrs->metadata),
		.pooled = sandbox->pooled,
		.always_on = attrs->always_on,
		.cpu_milli = attrs->cpu_milli,
		.memory_mb = attrs->memory_mb,
		.disk_size_mb = attrs->disk_size_mb,
		.timeout_sec = attrs->timeout_sec,
		.idle_timeout_sec = attrs->idle_timeout_sec,
		.created_ms = sandbox->created_ms,
		.started_ms = sandbox->started_ms,
		.expires_ms = clock_expires_ms(sandbox),
		.boot_us = sandbox->boot_us,
		.pause_kind = sandbox_state(sandbox) == SANDBOX_PAUSED
				      ? pause_kind_names[sandbox_pause_kind(sandbox)]
				      : NULL,
		.from_id = sandbox->from ? sandbox->from->id : NULL,
		.on_timeout = on_timeout_names[attrs->on_timeout],
		.clock = sandbox->service->sandboxes->boot_id,
		.network = network,
		.auto_resume = attrs->auto_resume,
		.due_ms = sandbox->due_ms,
		.left_ms = sandbox->left_ms,
		.idle_left_ms = sandbox->idle_left_ms,
	};

	int r = store_sandbox_put(sandbox->service->store, &row);

	if (r == 0)
		r = grants_save(sandbox->attrs.grants, sandbox->id);
	return r < 0 ? r : usage_put_of(sandbox);
}

#define NETWORK_TEXT_MAX (2 * EGRESS_RULES_MAX * (EGRESS_NAME_MAX + 16))

int sandbox_save(struct sandbox *sandbox)
{
	struct buf text;
	int r;

	if (!sandbox->attrs.network)
		return save_row(sandbox, NULL);
	buf_init(&text, NETWORK_TEXT_MAX);
	r = egress_policy_save(sandbox->attrs.network, &text);
	if (r >= 0)
		r = buf_putc(&text, '\0');
	if (r >= 0)
		r = save_row(sandbox, buf_data(&text));
	buf_done(&text);
	return r;
}

/* seq follows the wall clock and strictly grows, so that list cursors stay valid across restarts.
 */
void sandbox_show(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;

	if (sandbox->seq == 0) {
		sandbox->seq = service_next_seq(service);
	}
	sandbox->prev = service->sandboxes->newest;
	sandbox->next = NULL;
	if (service->sandboxes->newest)
		service->sandboxes->newest->next = sandbox;
	else
		service->sandboxes->oldest = sandbox;
	service->sandboxes->newest = sandbox;
}

void sandbox_hide(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;

	if (sandbox->pooled || (!sandbox->prev && service->sandboxes->oldest != sandbox))
		return; /* a pool member, or not in the list */
	if (sandbox->prev)
		sandbox->prev->next = sandbox->next;
	else
		service->sandboxes->oldest = sandbox->next;
	if (sandbox->next)
		sandbox->next->prev = sandbox->prev;
	else
		service->sandboxes->newest = sandbox->prev;
	sandbox->prev = sandbox->next = NULL;
	sandbox_name_release(service, sandbox->attrs.owner, sandbox->attrs.name);
	quota_remove(service, &sandbox->attrs);
}

void sandbox_set_error(struct sandbox *sandbox, const char *message)
{
	free(sandbox->last_error);
	sandbox->last_error = message && *message ? strdup(message) : NULL;
}

struct name_key {
	char text[AUTH_KEY_ID_SIZE + 65];
};

static struct str name_key(struct name_key *key, const char *owner, const char *name)
{
	int n = snprintf(key->text, sizeof(key->text), "%s/%s", owner, name);

	return (struct str){ key->text, MIN((size_t)n, sizeof(key->text) - 1) };
}

int sandbox_name_reserve(struct service *service, const char *owner, const char *name,
			 struct sandbox *sandbox, struct err *err)
{
	struct name_key key;
	int r;

	if (!name)
		return 0;
	r = map_put(&service->sandboxes->by_name, name_key(&key, owner, name),
		    sandbox ? (void *)sandbox : (void *)&reserved_marker);
	if (r == -EEXIST)
		return err_set(err, ERR_CONFLICT, "the name '%s' is in use", name);
	return r < 0 ? err_set(err, ERR_UNAVAILABLE, "out of memory") : 0;
}

void sandbox_name_release(struct service *service, const char *owner, const char *name)
{
	struct name_key key;

	if (name)
		(void)map_take(&service->sandboxes->by_name, name_key(&key, owner, name));
}

/* Assigns the reserved name to the sandbox. */
void sandbox_name_bind(struct service *service, const char *owner, const char *name,
		       struct sandbox *sandbox)
{
	sandbox_name_release(service, owner, name);
	(void)!sandbox_name_reserve(service, owner, name, sandbox, NULL);
}

static bool visible(const struct sandbox *sandbox, const struct key *key)
{
	if (!sandbox || sandbox->pooled || sandbox_state(sandbox) == SANDBOX_DESTROYED)
		return false;
	return key_is_admin(key) || strcmp(sandbox->attrs.owner, key->id) == 0;
}

static struct sandbox *find_by_name(struct service *service, const struct key *key, struct str name)
{
	struct name_key own;
	struct sandbox *found;
	char text[65];

	if (str_copy(text, sizeof(text), name) < 0)
		return NULL;
	found = map_get(&service->sandboxes->by_name, name_key(&own, key->id, text));
	if (found && (void *)found != (void *)&reserved_marker)
		return found;
	if (!key_is_admin(key))
		return NULL;
	/* An admin key may use names of other owners if they are unambiguous. */
	found = NULL;
	for (struct sandbox *at = service->sandboxes->oldest; at; at = at->next) {
		if (!at->attrs.name || strcmp(at->attrs.name, text) != 0)
			continue;
		if (found)
			return NULL;
		found = at;
	}
	return found;
}

static int not_found(const struct service *service, const struct key *key, struct str id,
		     struct err *err)
{
	const struct tombstone *stone = sandbox_tombstone(service, id);

	if (stone && (key_is_admin(key) || strcmp(stone->owner, key->id) == 0))
		return err_set(err, ERR_SANDBOX_NOT_FOUND, "sandbox '%s' has ended: %s", stone->id,
			       sandbox_reason_name(stone->reason));
	return err_set(err, ERR_SANDBOX_NOT_FOUND, "no sandbox '%.*s'", (int)MIN(id.n, 64), id.p);
}

struct sandbox *sandbox_find(struct service *service, const struct key *key, struct str id,
			     struct err *err)
{
	struct sandbox *sandbox = sandbox_by_id(service, id);

	if (!visible(sandbox, key))
		sandbox = find_by_name(service, key, id);
	if (visible(sandbox, key))
		return sandbox;
	(void)not_found(service, key, id, err);
	return NULL;
}

struct sandbox *sandbox_find_to_end(struct service *service, const struct key *key, struct str id,
				    struct err *err)
{
	struct sandbox *sandbox = sandbox_by_id(service, id);

	if (sandbox && sandbox->phase == PHASE_ENDING && !sandbox->pooled &&
	    (key_is_admin(key) || strcmp(sandbox->attrs.owner, key->id) == 0))
		return sandbox;
	return sandbox_find(service, key, id, err);
}

static bool matches(const struct sandbox *sandbox, const struct sandbox_filter *filter)
{
	if (filter->state >= 0 && (int)sandbox_state(sandbox) != filter->state)
		return false;
	if (filter->template.n && !str_is(filter->template, sandbox->template->name))
		return false;
	if (filter->engine.n && !str_is(filter->engine, engine_name(sandbox->engine)))
		return false;
	if (filter->external_workspace_id.n &&
	    !str_is(filter->external_workspace_id, sandbox->attrs.external_workspace_id))
		return false;
	return !filter->metadata_key.p ||
	       pairs_has(&sandbox->attrs.metadata, filter->metadata_key, filter->metadata_value);
}

const struct sandbox *sandbox_list_next(struct service *service, const struct key *key,
					const struct sandbox_filter *filter, int64_t *cursor)
{
	bool up = filter->oldest_first;

	for (struct sandbox *at = up ? service->sandboxes->oldest : service->sandboxes->newest; at;
	     at = up ? at->next : at->prev) {
		if ((up ? at->seq <= *cursor : at->seq >= *cursor) || !visible(at, key) ||
		    !matches(at, filter))
			continue;
		*cursor = at->seq;
		return at;
	}
	return NULL;
}

bool sandbox_has_users(const struct sandbox *sandbox)
{
	return instance_can(&sandbox->engine->instance, CAN_OWN_TREE);
}

int64_t sandbox_expires_ms(const struct sandbox *sandbox)
{
	return clock_expires_ms(sandbox);
}

bool sandbox_wakes_memory(const struct sandbox *sandbox)
{
	return sandbox->from && sandbox->from->memory && !sandbox->without_memory;
}

bool sandbox_is_copy(const struct sandbox *sandbox)
{
	return sandbox_wakes_memory(sandbox) &&
	       (sandbox->from->kind != SNAPSHOT_HIBERNATE ||
		strcmp(sandbox->from->sandbox_id, sandbox->id) != 0);
}

bool sandbox_keeps_memory(const struct sandbox *sandbox)
{
	return sandbox_pause_kind(sandbox) == PAUSE_FREEZE || sandbox_wakes_memory(sandbox);
}
