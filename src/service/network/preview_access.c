/* SPDX-License-Identifier: Apache-2.0 */
/* Access to a port: keys, share tokens, and public previews. */
#include <errno.h>
#include <sodium.h>

#include "base/rand.h"
#include "base/time.h"
#include "service/account/access_token.h"
#include "service/network/preview_internal.h"
#include "service/range_internal.h"
#include "service/secret/secret.h"
#include "service/steady_internal.h"
#include "service/template/template.h"
#include "service/sandbox/sandbox_internal.h"

#define TOKEN_PREFIX "cay_pv_"
#define TOKEN_BYTES 20

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

/* Removes expired tokens. */
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
	int64_t now_ms = steady_now_ms(sandbox->service);
	struct store_preview_token row = { .expires_ms = now_ms + ttl_sec * 1000 };
	uint8_t secret[TOKEN_BYTES];

	if (!preview || range_check("ttl_sec", ttl_sec, 1, PREVIEW_EXPIRES_MAX_SEC, err) < 0)
		return -1;
	tidy_tokens(preview, now_ms);
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
	    preview_add_token(preview, row.hash, row.expires_ms) < 0)
		return err_set(err, ERR_INTERNAL, "the token could not be saved");
	service_wrote(sandbox->service);
	*ret_expires_ms = steady_wall_ms(sandbox->service, row.expires_ms);
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

/* Compares all tokens, each in constant time. */
static const struct preview_token *match(const struct preview *preview, const uint8_t hash[32])
{
	const struct preview_token *found = NULL;

	for (uint32_t i = 0; i < preview->token_count; i++)
		if (sodium_memcmp(preview->tokens[i].hash, hash, 32) == 0)
			found = &preview->tokens[i];
	return found;
}

/* ---- access ---- */

static int not_here(const struct service *service, struct str id, bool *ret_every, struct err *err)
{
	const struct tombstone *stone = sandbox_tombstone(service, id);

	if (stone) {
		*ret_every = stone->every_port;
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
		return err_set(err, ERR_PREVIEW_PRIVATE, "the token is not valid");
	}
	if (token->expires_ms <= now_ms)
		return err_set(err, ERR_PREVIEW_EXPIRED, "the share token has expired");
	ret->token_left_ms = token->expires_ms - now_ms;
	return 0;
}

/* Access for a client with neither a key nor the sandbox's own token. */
static int check_visitor(const struct sandbox *sandbox, const struct preview *preview,
			 const struct preview_ask *ask, struct preview_grant *ret, bool *ret_guess,
			 struct err *err)
{
	struct str token = ask->token.n ? ask->token : ask->traffic;
	int64_t now_ms = steady_now_ms(sandbox->service);

	if (!preview && ask->port == sandbox->template->preview_port)
		return 0;
	if (!preview && preview_is_reserved(ask->port))
		return err_set(err, ERR_PORT_REFUSED, "port %u has no preview", ask->port);
	if (!preview) {
		*ret_guess = token.n > 0;
		return err_set(err, ERR_PREVIEW_NOT_FOUND, "port %u of this sandbox has no preview",
			       ask->port);
	}
	if (preview->expires_ms && preview->expires_ms <= now_ms)
		return err_set(err, ERR_PREVIEW_EXPIRED, "this preview has expired");
	if (preview->visibility == PREVIEW_PUBLIC)
		return 0;
	return check_token(preview, token, now_ms, ret, ret_guess, err);
}

static int check_access(const struct sandbox *sandbox, const struct preview_ask *ask,
			struct preview_grant *ret, bool *ret_guess, struct err *err)
{
	const struct preview *preview = preview_of_port(sandbox, ask->port);

	if (!preview && !preview_is_reserved(ask->port))
		preview = preview_every(sandbox);
	if (preview) {
		memcpy(ret->preview_id, preview->id, sizeof(ret->preview_id));
		ret->host = preview->host;
	}
	if ((preview || !preview_is_reserved(ask->port)) &&
	    (key_fits(ask->key, sandbox) ||
	     (ask->traffic.n && access_traffic_token_is(sandbox, ask->traffic))))
		return 0;
	return check_visitor(sandbox, preview, ask, ret, ret_guess, err);
}

int preview_open(struct service *service, const struct preview_ask *ask, struct preview_grant *ret,
		 struct preview_note *ret_note, struct err *err)
{
	struct sandbox *sandbox = sandbox_by_id(service, ask->id);
	struct preview_grant grant = { .host = PREVIEW_HOST_PREVIEW };

	*ret_note = (struct preview_note){ .guess = false };
	if (!sandbox || sandbox->pooled || sandbox_state(sandbox) == SANDBOX_DESTROYED) {
		ret_note->guess = true;
		return not_here(service, ask->id, &ret_note->every, err);
	}
	ret_note->every = preview_every(sandbox);
	if (sandbox_state(sandbox) == SANDBOX_ERROR)
		return err_set(err, ERR_SANDBOX_GONE, "sandbox %s has ended: %s", sandbox->id,
			       sandbox->reason ? sandbox_reason_name(sandbox->reason) : "error");
	if (check_access(sandbox, ask, &grant, &ret_note->guess, err) < 0)
		return -1;
	grant.sandbox = sandbox->handle;
	memcpy(grant.sandbox_id, sandbox->id, sizeof(grant.sandbox_id));
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
	preview = grant->preview_id[0] ? preview_by_id(sandbox, str_of(grant->preview_id)) : NULL;
	if (!preview)
		return;
	preview->requests += traffic->requests;
	preview->connections += traffic->connections;
	preview->bytes_in += traffic->bytes_in;
	preview->bytes_out += traffic->bytes_out;
	preview->open = (uint32_t)MAX((int64_t)preview->open + traffic->open, 0);
	preview->dirty = true;
}
