/* SPDX-License-Identifier: Apache-2.0 */
#include "service/preview.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "service/private.h"

#define TOKEN_PREFIX "cay_pv_"
#define TOKEN_BYTES 20
#define SAVE_TICKS 30 /* counters reach the disk this often */

const char *const preview_visibility_names[] = { "public", "private", NULL };
const char *const preview_host_names[] = { "preview", "localhost", NULL };

/* Remote shells and screens are not web servers: nobody opens them by mistake. */
static bool is_reserved(int64_t port)
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

static struct preview *by_id(const struct sandbox *sandbox, struct str id)
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
	struct sandbox *sandbox = map_get(&service->by_id, str_of(row->sandbox_id));
	struct preview *preview;

	/* Of a sandbox that ended while we did not look; its row goes with the next sweep. */
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

static int add_token(struct preview *preview, const uint8_t hash[32], int64_t expires_ms)
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

	while (!preview && (sandbox = slot_next(&service->sandboxes, &cursor)))
		preview = by_id(sandbox, str_of(token->preview_id));
	if (!preview || preview->token_count == PREVIEW_TOKENS_MAX)
		return 0;
	return add_token(preview, token->hash, token->expires_ms);
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
			log_warn("preview %s stays in the database", preview->id);
	preview_free_all(sandbox);
}

static void drop(struct sandbox *sandbox, struct preview *preview)
{
	struct preview **at = &sandbox->previews;

	while (*at != preview)
		at = &(*at)->next;
	*at = preview->next;
	if (store_preview_delete(sandbox->service->store, preview->id) < 0)
		log_warn("preview %s stays in the database", preview->id);
	service_wrote(sandbox->service);
	event_preview(sandbox, preview, false);
	free_preview(preview);
}

/* Long expired ones go; a young corpse still explains itself. */
#define EXPIRED_KEEP_MS (24 * 3600 * 1000LL)

void preview_tick(struct service *service)
{
	int64_t now_ms = time_real_ms();
	struct sandbox *sandbox;
	uint32_t cursor = 0;

	if (service->ticks % SAVE_TICKS)
		return;
	while ((sandbox = slot_next(&service->sandboxes, &cursor))) {
		struct preview *next;

		for (struct preview *preview = sandbox->previews; preview; preview = next) {
			next = preview->next;
			if (preview->expires_ms && preview->expires_ms + EXPIRED_KEEP_MS < now_ms)
				drop(sandbox, preview);
			else if (preview->dirty && save(sandbox, preview) < 0)
				log_warn("preview %s: its counters are not saved", preview->id);
		}
	}
}

/* ---- making and ending ---- */

static int check_spec(const struct preview_spec *spec, struct err *err)
{
	if (spec->port < 0 || spec->port > UINT16_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "port must be between 1 and 65535");
	if (is_reserved(spec->port) && !spec->allow_reserved)
		return err_set(
			err, ERR_PORT_REFUSED,
			"port %lld is for remote shells and screens; allow_reserved opens it",
			(long long)spec->port);
	return 0;
}

static struct preview *of_port(const struct sandbox *sandbox, uint16_t port)
{
	struct preview *preview = sandbox->previews;

	while (preview && preview->port != port)
		preview = preview->next;
	return preview;
}

int preview_create(struct sandbox *sandbox, const struct preview_spec *spec,
		   const struct preview **ret, struct err *err)
{
	int64_t now_ms = time_real_ms();
	struct preview *preview, old = { 0 };
	uint32_t count = 0;
	bool made;

	if (check_spec(spec, err) < 0)
		return -1;
	preview = of_port(sandbox, (uint16_t)spec->port);
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
		preview->created_ms = now_ms;
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
	struct preview *preview = by_id(sandbox, id);

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

const struct preview *preview_next(const struct sandbox *sandbox, const struct preview *before)
{
	return before ? before->next : sandbox->previews;
}

/* ---- tokens ---- */

static int hash_token(struct str text, uint8_t hash[32])
{
	static const uint8_t context[] = "cay preview token v1";
	uint8_t secret[TOKEN_BYTES];
	size_t n = sizeof(TOKEN_PREFIX) - 1;

	if (!str_starts(text, TOKEN_PREFIX) ||
	    str_unhex(secret, sizeof(secret), (struct str){ text.p + n, text.n - n }) < 0)
		return -EINVAL;
	(void)crypto_generichash(hash, 32, secret, sizeof(secret), context, sizeof(context));
	sodium_memzero(secret, sizeof(secret));
	return 0;
}

/* Expired ones make room. */
static void tidy_tokens(struct preview *preview, int64_t now_ms)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < preview->token_count; i++)
		if (preview->tokens[i].expires_ms > now_ms)
			preview->tokens[kept++] = preview->tokens[i];
	preview->token_count = kept;
}

int preview_share(struct sandbox *sandbox, struct str id, int64_t ttl_sec,
		  char ret_token[PREVIEW_TOKEN_SIZE], int64_t *ret_expires_ms, struct err *err)
{
	struct preview *preview = preview_find(sandbox, id, err);
	struct store_preview_token row = { .expires_ms = time_real_ms() + ttl_sec * 1000 };
	uint8_t secret[TOKEN_BYTES];

	if (!preview)
		return -1;
	tidy_tokens(preview, time_real_ms());
	if (preview->token_count == PREVIEW_TOKENS_MAX)
		return err_set(err, ERR_QUOTA_EXCEEDED, "a preview has at most %d share tokens",
			       PREVIEW_TOKENS_MAX);
	rand_bytes(secret, sizeof(secret));
	memcpy(ret_token, TOKEN_PREFIX, sizeof(TOKEN_PREFIX) - 1);
	str_hex(ret_token + sizeof(TOKEN_PREFIX) - 1, secret, sizeof(secret));
	sodium_memzero(secret, sizeof(secret));
	row.preview_id = preview->id;
	if (hash_token(str_of(ret_token), row.hash) < 0 ||
	    store_preview_token_put(sandbox->service->store, &row) < 0 ||
	    add_token(preview, row.hash, row.expires_ms) < 0)
		return err_set(err, ERR_INTERNAL, "the token could not be saved");
	service_wrote(sandbox->service);
	*ret_expires_ms = row.expires_ms;
	return 0;
}

int preview_unshare(struct sandbox *sandbox, struct str id, struct err *err)
{
	struct preview *preview = preview_find(sandbox, id, err);

	if (!preview)
		return -1;
	if (store_preview_tokens_delete(sandbox->service->store, preview->id) < 0)
		return err_set(err, ERR_INTERNAL, "the tokens could not be deleted");
	service_wrote(sandbox->service);
	preview->token_count = 0;
	return 0;
}

/* Every token is compared, in constant time each. */
static const struct preview_token *match(const struct preview *preview, const uint8_t hash[32])
{
	const struct preview_token *found = NULL;

	for (uint32_t i = 0; i < preview->token_count; i++)
		if (sodium_memcmp(preview->tokens[i].hash, hash, 32) == 0)
			found = &preview->tokens[i];
	return found;
}

/* ---- access ---- */

static int not_here(const struct service *service, struct str id, struct err *err)
{
	for (size_t i = 0; i < TOMBSTONES; i++) {
		const struct tombstone *stone = &service->tombstones[i];

		if (stone->id[0] && str_is(id, stone->id))
			return err_set(err, ERR_SANDBOX_GONE, "sandbox %s has ended: %s", stone->id,
				       sandbox_reason_name(stone->reason));
	}
	return err_set(err, ERR_SANDBOX_NOT_FOUND, "no sandbox '%.*s'", (int)MIN(id.n, 64), id.p);
}

static bool key_fits(const struct key *key, const struct sandbox *sandbox)
{
	return key && key_may(key, AUTH_EXEC) &&
	       (key_is_admin(key) || strcmp(key->id, sandbox->attrs.owner) == 0);
}

static int check_token(const struct preview *preview, struct str text, int64_t now_ms,
		       struct preview_grant *ret, bool *ret_guess, struct err *err)
{
	const struct preview_token *token;
	uint8_t hash[32];

	if (text.n == 0)
		return err_set(err, ERR_PREVIEW_PRIVATE, "this preview is private");
	token = hash_token(text, hash) == 0 ? match(preview, hash) : NULL;
	if (!token) {
		*ret_guess = true;
		return err_set(err, ERR_PREVIEW_PRIVATE, "the share token is not valid");
	}
	if (token->expires_ms <= now_ms)
		return err_set(err, ERR_PREVIEW_EXPIRED, "the share token has expired");
	ret->token_expires_ms = token->expires_ms;
	return 0;
}

static int check_access(struct sandbox *sandbox, const struct preview_ask *ask,
			struct preview_grant *ret, bool *ret_guess, struct err *err)
{
	const struct preview *preview = of_port(sandbox, ask->port);
	bool keyed = key_fits(ask->key, sandbox);
	int64_t now_ms = time_real_ms();

	if (!preview && !is_reserved(ask->port))
		preview = of_port(sandbox, 0);
	if (preview) {
		memcpy(ret->preview_id, preview->id, sizeof(ret->preview_id));
		ret->host = preview->host;
	}
	if (keyed && (preview || !is_reserved(ask->port)))
		return 0;
	if (!preview && ask->port == sandbox->template->preview_port)
		return 0;
	if (!preview && is_reserved(ask->port))
		return err_set(err, ERR_PORT_REFUSED, "port %u has no preview", ask->port);
	if (!preview) {
		*ret_guess = ask->token.n > 0;
		return err_set(err, ERR_PREVIEW_NOT_FOUND, "port %u of this sandbox has no preview",
			       ask->port);
	}
	if (preview->expires_ms && preview->expires_ms <= now_ms)
		return err_set(err, ERR_PREVIEW_EXPIRED, "this preview has expired");
	if (preview->visibility == PREVIEW_PUBLIC)
		return 0;
	return check_token(preview, ask->token, now_ms, ret, ret_guess, err);
}

int preview_open(struct service *service, const struct preview_ask *ask, struct preview_grant *ret,
		 bool *ret_guess, struct err *err)
{
	struct sandbox *sandbox = map_get(&service->by_id, ask->id);
	struct preview_grant grant = { .host = PREVIEW_HOST_PREVIEW };

	*ret_guess = false;
	if (!sandbox || sandbox->pooled || sandbox->state == SANDBOX_DESTROYED) {
		*ret_guess = true;
		return not_here(service, ask->id, err);
	}
	if (sandbox->state == SANDBOX_ERROR)
		return err_set(err, ERR_SANDBOX_GONE, "sandbox %s has ended: %s", sandbox->id,
			       sandbox->reason ? sandbox_reason_name(sandbox->reason) : "error");
	if (check_access(sandbox, ask, &grant, ret_guess, err) < 0)
		return -1;
	grant.sandbox = sandbox->handle;
	*ret = grant;
	return 0;
}

void preview_count(struct service *service, const struct preview_grant *grant,
		   const struct preview_traffic *traffic)
{
	struct sandbox *sandbox = sandbox_get(service, grant->sandbox);
	struct preview *preview;

	if (!sandbox)
		return;
	if (traffic->requests || traffic->bytes_in || traffic->bytes_out)
		sandbox_touch(sandbox);
	preview = grant->preview_id[0] ? by_id(sandbox, str_of(grant->preview_id)) : NULL;
	if (!preview)
		return;
	preview->requests += traffic->requests;
	preview->connections += traffic->connections;
	preview->bytes_in += traffic->bytes_in;
	preview->bytes_out += traffic->bytes_out;
	preview->open = (uint32_t)MAX((int64_t)preview->open + traffic->open, 0);
	preview->dirty = true;
}

/* ---- words ---- */

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

void preview_write(const struct sandbox *sandbox, const struct preview *preview,
		   struct json_writer *w, const char *key)
{
	char url[PREVIEW_URL_SIZE];

	json_begin_object(w, key);
	json_put_text(w, "id", preview->id);
	json_put_text(w, "sandbox_id", sandbox->id);
	json_put_int(w, "port", preview->port);
	json_put_text(w, "visibility", preview_visibility_names[preview->visibility]);
	json_put_text(w, "host_header", preview_host_names[preview->host]);
	json_put_text(w, "url",
		      preview->port && preview_url(sandbox, preview->port, url) ? url : NULL);
	json_put_time(w, "created_at", preview->created_ms);
	json_put_time(w, "expires_at", preview->expires_ms);
	json_put_int(w, "share_tokens", preview->token_count);
	json_put_int(w, "requests", (int64_t)preview->requests);
	json_put_int(w, "bytes_in", (int64_t)preview->bytes_in);
	json_put_int(w, "bytes_out", (int64_t)preview->bytes_out);
	json_put_int(w, "connections", (int64_t)preview->connections);
	json_put_int(w, "open", preview->open);
	json_end_object(w);
}
