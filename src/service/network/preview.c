/* SPDX-License-Identifier: Apache-2.0 */
#include "service/network/preview.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "service/event/event_internal.h"
#include "service/network/preview_internal.h"
#include "service/range_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/steady_internal.h"

#define SAVE_TICKS 30 /* counters reach the disk this often */

const char *const preview_visibility_names[] = { "public", "private", NULL };
const char *const preview_host_names[] = { "preview", "localhost", NULL };

bool preview_is_reserved(int64_t port)
{
	return port == 22 || (port >= 5900 && port <= 5999);
}

/* ---- disk ---- */

static int save(const struct sandbox *sandbox, struct preview *preview)
{
	struct store_preview row = { .id = preview->id,
				     .sandbox_id = sandbox->id,
				     .port = preview->port,
				     .visibility = preview->visibility,
				     .host_header = preview->host,
				     .created_ms = preview->created_ms,
				     .expires_ms = preview->expires_ms,
				     .requests = (int64_t)preview->requests,
				     .bytes_in = (int64_t)preview->bytes_in,
				     .bytes_out = (int64_t)preview->bytes_out,
				     .connections = (int64_t)preview->connections };
	int r = store_preview_put(sandbox->service->store, &row);

	if (r == 0)
		preview->dirty = false;
	service_wrote(sandbox->service);
	return r;
}

static void free_preview(struct preview *preview)
{
	free(preview->tokens);
	free(preview);
}

struct preview *preview_by_id(const struct sandbox *sandbox, struct str id)
{
	struct preview *preview = sandbox->previews;

	while (preview && !str_is(id, preview->id))
		preview = preview->next;
	return preview;
}

static void add(struct sandbox *sandbox, struct preview *preview)
{
	struct preview **at = &sandbox->previews;

	while (*at)
		at = &(*at)->next;
	*at = preview;
}

static int on_row(void *arg, const struct store_preview *row)
{
	struct service *service = arg;
	struct sandbox *sandbox = sandbox_by_id(service, str_of(row->sandbox_id));
	struct preview *preview;

	/* The sandbox ended while the daemon was down. The row is deleted with the next sweep. */
	if (!sandbox || row->port < 0 || row->port > UINT16_MAX)
		return 0;
	preview = calloc(1, sizeof(*preview));
	if (!preview)
		return -ENOMEM;
	*preview = (struct preview){ .port = (uint16_t)row->port,
				     .visibility = row->visibility != PREVIEW_PUBLIC,
				     .host = row->host_header == PREVIEW_HOST_LOCALHOST,
				     .created_ms = row->created_ms,
				     .expires_ms = row->expires_ms,
				     .requests = (uint64_t)row->requests,
				     .bytes_in = (uint64_t)row->bytes_in,
				     .bytes_out = (uint64_t)row->bytes_out,
				     .connections = (uint64_t)row->connections };
	(void)!str_copy(preview->id, sizeof(preview->id), str_of(row->id));
	add(sandbox, preview);
	return 0;
}

int preview_add_token(struct preview *preview, const uint8_t hash[32], int64_t expires_ms)
{
	struct preview_token *tokens =
		realloc(preview->tokens, (preview->token_count + 1) * sizeof(*tokens));

	if (!tokens)
		return -ENOMEM;
	preview->tokens = tokens;
	tokens[preview->token_count].expires_ms = expires_ms;
	memcpy(tokens[preview->token_count].hash, hash, sizeof(tokens->hash));
	preview->token_count++;
	return 0;
}

static int on_token(void *arg, const struct store_preview_token *token)
{
	struct service *service = arg;
	struct preview *preview = NULL;
	struct sandbox *sandbox;
	uint32_t cursor = 0;

	while (!preview && (sandbox = sandbox_next(service, &cursor)))
		preview = preview_by_id(sandbox, str_of(token->preview_id));
	if (!preview || preview->token_count == PREVIEW_TOKENS_MAX)
		return 0;
	return preview_add_token(preview, token->hash, token->expires_ms);
}

int preview_load(struct service *service, struct err *err)
{
	int r = store_preview_each(service->store, on_row, service);

	if (r == 0)
		r = store_preview_token_each(service->store, on_token, service);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot read the previews") : 0;
}

void preview_free_all(struct sandbox *sandbox)
{
	while (sandbox->previews) {
		struct preview *preview = sandbox->previews;

		sandbox->previews = preview->next;
		free_preview(preview);
	}
}

void preview_forget_all(struct sandbox *sandbox)
{
	for (struct preview *preview = sandbox->previews; preview; preview = preview->next)
		if (store_preview_delete(sandbox->service->store, preview->id) < 0)
			log_warn("preview %s could not be deleted from the database", preview->id);
	preview_free_all(sandbox);
}

static void drop(struct sandbox *sandbox, struct preview *preview)
{
	struct store *store = sandbox->service->store;
	struct preview **at = &sandbox->previews;
	int r;

	while (*at != preview)
		at = &(*at)->next;
	*at = preview->next;
	event_preview(sandbox, preview,
		      false); /* before the commit, to be in the same transaction */
	r = store_begin(store);
	if (r == 0)
		r = store_end(store, store_preview_delete(store, preview->id));
	if (r < 0)
		log_warn("preview %s could not be deleted from the database", preview->id);
	service_wrote(sandbox->service);
	free_preview(preview);
}

/* Expired previews are kept for a day, so that requests get preview_expired instead of
 * preview_not_found. */
#define EXPIRED_KEEP_MS (24 * 3600 * 1000LL)

void preview_tick(struct service *service)
{
	int64_t now_ms = steady_now_ms(service);
	struct sandbox *sandbox;
	uint32_t cursor = 0;

	if (service->upkeep.ticks % SAVE_TICKS)
		return;
	while ((sandbox = sandbox_next(service, &cursor))) {
		struct preview *next;

		for (struct preview *preview = sandbox->previews; preview; preview = next) {
			next = preview->next;
			if (preview->expires_ms && preview->expires_ms + EXPIRED_KEEP_MS < now_ms)
				drop(sandbox, preview);
			else if (preview->dirty && save(sandbox, preview) < 0)
				log_warn("preview %s: counters could not be saved", preview->id);
		}
	}
}

/* ---- create and remove ---- */

static int check_spec(const struct preview_spec *spec, struct err *err)
{
	if (spec->port < 0 || spec->port > UINT16_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "port must be between 1 and 65535");
	if (preview_is_reserved(spec->port) && !spec->allow_reserved)
		return err_set(
			err, ERR_PORT_REFUSED,
			"port %lld is for remote shells and screens; allow_reserved opens it",
			(long long)spec->port);
	return range_check("expires_in_sec", spec->expires_in_sec, 0, PREVIEW_EXPIRES_MAX_SEC, err);
}

struct preview *preview_of_port(const struct sandbox *sandbox, uint16_t port)
{
	struct preview *preview = sandbox->previews;

	while (preview && preview->port != port)
		preview = preview->next;
	return preview;
}

int preview_create(struct sandbox *sandbox, const struct preview_spec *spec,
		   const struct preview **ret, struct err *err)
{
	int64_t now_ms = steady_now_ms(sandbox->service);
	struct preview *preview, old = { 0 };
	uint32_t count = 0;
	bool made;

	if (check_spec(spec, err) < 0)
		return -1;
	preview = preview_of_port(sandbox, (uint16_t)spec->port);
	made = !preview;
	for (const struct preview *at = sandbox->previews; at; at = at->next)
		count++;
	if (made && count >= PREVIEWS_PER_SANDBOX)
		return err_set(err, ERR_QUOTA_EXCEEDED, "a sandbox has at most %d previews",
			       PREVIEWS_PER_SANDBOX);
	if (made)
		preview = calloc(1, sizeof(*preview));
	if (!preview)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	old = *preview;
	if (made) {
		rand_label(preview->id, sizeof(preview->id) - 1);
		preview->created_ms = time_real_ms();
		preview->port = (uint16_t)spec->port;
	}
	preview->visibility = (uint8_t)spec->visibility;
	preview->host = (uint8_t)spec->host;
	preview->expires_ms = spec->expires_in_sec ? now_ms + spec->expires_in_sec * 1000 : 0;
	if (save(sandbox, preview) < 0) {
		if (made)
			free_preview(preview);
		else
			*preview = old;
		return err_set(err, ERR_INTERNAL, "the preview could not be saved");
	}
	if (made)
		add(sandbox, preview);
	event_preview(sandbox, preview, true);
	*ret = preview;
	return 0;
}

struct preview *preview_find(struct sandbox *sandbox, struct str id, struct err *err)
{
	struct preview *preview = preview_by_id(sandbox, id);

	if (!preview)
		(void)err_set(err, ERR_PREVIEW_NOT_FOUND, "no preview '%.*s'", (int)MIN(id.n, 64),
			      id.p);
	return preview;
}

int preview_delete(struct sandbox *sandbox, struct str id, struct err *err)
{
	struct preview *preview = preview_find(sandbox, id, err);

	if (!preview)
		return -1;
	drop(sandbox, preview);
	return 0;
}

int64_t preview_expires_ms(const struct sandbox *sandbox, const struct preview *preview)
{
	return steady_wall_ms(sandbox->service, preview->expires_ms);
}

const struct preview *preview_every(const struct sandbox *sandbox)
{
	return preview_of_port(sandbox, 0);
}

const struct preview *preview_next(const struct sandbox *sandbox, const struct preview *before)
{
	return before ? before->next : sandbox->previews;
}

/* ---- names ---- */

bool preview_url(const struct sandbox *sandbox, uint16_t port, char dst[PREVIEW_URL_SIZE])
{
	const struct service_config *config = &sandbox->service->config;

	if (!config->preview_suffix)
		return false;
	(void)snprintf(dst, PREVIEW_URL_SIZE, "%s://%u-%s%s",
		       config->preview_scheme ? config->preview_scheme : "http", port, sandbox->id,
		       config->preview_suffix);
	return true;
}
