/* SPDX-License-Identifier: Apache-2.0 */
#include "service/account/access_token.h"

#include <errno.h>
#include <sodium.h>

#include "base/rand.h"
#include "base/time.h"
#include "service/account/auth_internal.h"
#include "service/account/account_private.h"
#include "service/sandbox/sandbox_internal.h"

#define SECRET_NAME "access_secret"
#define TOKEN_BYTES 32

static_assert(sizeof(((struct accounts *)0)->access_secret) == crypto_generichash_KEYBYTES,
	      "the secret is a key");

/* Creates the secret on the first start of an installation. */
static int make_secret(struct service *service)
{
	char text[2 * sizeof(service->accounts->access_secret) + 1];
	int r = store_begin_durable(service->store);

	if (r < 0)
		return r;
	rand_bytes(service->accounts->access_secret, sizeof(service->accounts->access_secret));
	str_hex(text, service->accounts->access_secret, sizeof(service->accounts->access_secret));
	r = store_meta_put(service->store, SECRET_NAME, text);
	return store_end(service->store, r);
}

int access_load(struct service *service, struct err *err)
{
	char text[2 * sizeof(service->accounts->access_secret) + 1];
	int r = store_meta_get(service->store, SECRET_NAME, text, sizeof(text));

	if (r > 0)
		r = str_unhex(service->accounts->access_secret,
			      sizeof(service->accounts->access_secret), str_of(text));
	else if (r == 0)
		r = make_secret(service);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "the access secret cannot be read") : 0;
}

struct sandbox *access_sandbox(struct service *service, struct str id)
{
	struct sandbox *sandbox = sandbox_by_id(service, id);

	if (!sandbox || sandbox->pooled || sandbox_state(sandbox) == SANDBOX_DESTROYED)
		return NULL;
	return sandbox;
}

struct key *access_owner(const struct sandbox *sandbox)
{
	return auth_by_id(sandbox->service, sandbox->attrs.owner);
}

static void derive(const struct sandbox *sandbox, struct str context, char ret[ACCESS_TOKEN_SIZE])
{
	const struct service *service = sandbox->service;
	uint8_t bytes[TOKEN_BYTES];
	crypto_generichash_state state;

	(void)crypto_generichash_init(&state, service->accounts->access_secret,
				      sizeof(service->accounts->access_secret), sizeof(bytes));
	(void)crypto_generichash_update(&state, (const unsigned char *)context.p, context.n);
	(void)crypto_generichash_update(&state, (const unsigned char *)sandbox->id,
					strlen(sandbox->id));
	(void)crypto_generichash_final(&state, bytes, sizeof(bytes));
	str_hex(ret, bytes, sizeof(bytes));
}

void access_token(const struct sandbox *sandbox, char ret[ACCESS_TOKEN_SIZE])
{
	derive(sandbox, STR_LIT("cay sandbox access v1:"), ret);
}

void access_traffic_token(const struct sandbox *sandbox, char ret[ACCESS_TOKEN_SIZE])
{
	derive(sandbox, STR_LIT("cay sandbox traffic v1:"), ret);
}

static bool same(struct str given, const char *wanted)
{
	size_t n = strlen(wanted);

	return given.n == n && sodium_memcmp(given.p, wanted, n) == 0;
}

bool access_token_is(const struct sandbox *sandbox, struct str token)
{
	char wanted[ACCESS_TOKEN_SIZE];

	access_token(sandbox, wanted);
	return same(token, wanted);
}

bool access_traffic_token_is(const struct sandbox *sandbox, struct str token)
{
	char wanted[ACCESS_TOKEN_SIZE];

	access_traffic_token(sandbox, wanted);
	return same(token, wanted);
}

static void hash_str(crypto_hash_sha256_state *state, struct str s)
{
	(void)crypto_hash_sha256_update(state, (const unsigned char *)s.p, s.n);
}

/* Signed text: "path:operation:user:token", followed by ":expiration" if the link expires. The part
 * before the token is the same for every sandbox, so it is hashed once. */
static void sign_begin(const struct access_claim *claim, crypto_hash_sha256_state *ret)
{
	(void)crypto_hash_sha256_init(ret);
	hash_str(ret, claim->path);
	hash_str(ret, STR_LIT(":"));
	hash_str(ret, str_of(claim->operation));
	hash_str(ret, STR_LIT(":"));
	hash_str(ret, claim->user);
	hash_str(ret, STR_LIT(":"));
}

static void sign_end(const struct sandbox *sandbox, const struct access_claim *claim,
		     const crypto_hash_sha256_state *begun, char ret[ACCESS_SIGNATURE_SIZE])
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state state = *begun;
	char token[ACCESS_TOKEN_SIZE];

	access_token(sandbox, token);
	hash_str(&state, str_of(token));
	if (claim->expiration.p) {
		hash_str(&state, STR_LIT(":"));
		hash_str(&state, claim->expiration);
	}
	(void)crypto_hash_sha256_final(&state, hash);
	memcpy(ret, "v1_", 3);
	(void)sodium_bin2base64(ret + 3, ACCESS_SIGNATURE_SIZE - 3, hash, sizeof(hash),
				sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
}

bool access_signature_is(const struct sandbox *sandbox, const struct access_claim *claim,
			 struct str signature)
{
	crypto_hash_sha256_state begun;
	char wanted[ACCESS_SIGNATURE_SIZE];

	sign_begin(claim, &begun);
	sign_end(sandbox, claim, &begun, wanted);
	return same(signature, wanted);
}

/* Sandboxes tried, in this second and by everyone. Strangers leave a part to known clients. */
static int take_work(struct accounts *accounts, uint32_t sandboxes, bool known, struct err *err)
{
	uint32_t most = known ? ACCESS_SEARCH_PER_SEC : ACCESS_SEARCH_STRANGERS;
	int64_t second = time_mono_us() / 1000000;

	if (accounts->search_second != second) {
		accounts->search_second = second;
		accounts->searched = 0;
	}
	if (accounts->searched && accounts->searched + sandboxes > most)
		return err_set(err, ERR_RATE_LIMITED,
			       "too many signed links without a host: use the sandbox's own host, "
			       "or wait one second");
	accounts->searched += sandboxes;
	return 0;
}

struct sandbox *access_find_signed(struct service *service, const struct access_claim *claim,
				   struct str signature, bool known, struct err *err)
{
	char wanted[ACCESS_SIGNATURE_SIZE];
	crypto_hash_sha256_state begun;

	if (take_work(service->accounts, service->accounts->live_count, known, err) < 0)
		return NULL;
	sign_begin(claim, &begun);
	for (struct sandbox *at = sandbox_newest(service); at; at = at->prev) {
		if (at->pooled || sandbox_state(at) == SANDBOX_DESTROYED)
			continue;
		sign_end(at, claim, &begun, wanted);
		if (same(signature, wanted))
			return at;
	}
	(void)err_set(err, ERR_UNAUTHENTICATED, "invalid signature");
	return NULL;
}
