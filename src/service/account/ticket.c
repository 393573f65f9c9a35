/* SPDX-License-Identifier: Apache-2.0 */
#include "service/account/ticket.h"

#include <sodium.h>
#include <stdio.h>

#include "base/rand.h"
#include "base/time.h"
#include "service/account/auth_internal.h"
#include "service/account/ticket_private.h"
#include "service/account/account_private.h"
#include "service/range_internal.h"

#define PREFIX "cayt_"
#define SECRET_BYTES 20
#define HASH_BYTES 32

static_assert(sizeof(PREFIX) - 1 + 2 * SECRET_BYTES + 1 == TICKET_TEXT_SIZE, "prefix and digits");

/* Owner: the service's map, by its hash. */
struct ticket {
	uint8_t hash[HASH_BYTES];
	char key_id[AUTH_KEY_ID_SIZE];
	int64_t until_ms; /* boot clock */
	char method[8];
	char path[];
};

static struct str hash_str(const struct ticket *ticket)
{
	return (struct str){ (const char *)ticket->hash, sizeof(ticket->hash) };
}

/* As for keys, a lookup by hash does not leak the secret through timing. */
static void hash_secret(uint8_t hash[HASH_BYTES], const uint8_t secret[SECRET_BYTES])
{
	static const uint8_t context[] = "cay ticket v1";

	(void)crypto_generichash(hash, HASH_BYTES, secret, SECRET_BYTES, context, sizeof(context));
}

static void ticket_free(struct service *service, struct ticket *ticket)
{
	(void)map_take(&service->accounts->tickets, hash_str(ticket));
	free(ticket);
}

/* Returns one at a time, because removing an entry changes the map. */
static struct ticket *find_expired(const struct service *service, int64_t now_ms)
{
	struct ticket *ticket;
	size_t cursor = 0;

	while ((ticket = map_next(&service->accounts->tickets, &cursor)))
		if (ticket->until_ms <= now_ms)
			return ticket;
	return NULL;
}

void tickets_tick(struct service *service)
{
	int64_t now_ms = time_boot_ms();
	struct ticket *ticket;

	while ((ticket = find_expired(service, now_ms)))
		ticket_free(service, ticket);
}

void tickets_done(struct service *service)
{
	struct ticket *ticket;
	size_t cursor = 0;

	while ((ticket = map_next(&service->accounts->tickets, &cursor)))
		free(ticket);
	map_done(&service->accounts->tickets);
}

static unsigned tickets_of(const struct service *service, const struct key *key)
{
	const struct ticket *ticket;
	size_t cursor = 0;
	unsigned n = 0;

	while ((ticket = map_next(&service->accounts->tickets, &cursor)))
		n += strcmp(ticket->key_id, key->id) == 0;
	return n;
}

int ticket_new(struct service *service, const struct key *key, const struct ticket_spec *spec,
	       char ret_text[TICKET_TEXT_SIZE], int64_t *ret_expires_ms, struct err *err)
{
	uint8_t secret[SECRET_BYTES];
	struct ticket *ticket;

	if (range_check("ttl_sec", spec->ttl_sec, 1, TICKET_TTL_MAX_SEC, err) < 0 ||
	    range_check_text("path", spec->path, 1, TICKET_PATH_MAX, err) < 0)
		return -1;
	if (tickets_of(service, key) >= TICKETS_PER_KEY ||
	    service->accounts->tickets.count >= TICKETS_MAX)
		return err_set(err, ERR_QUOTA_EXCEEDED, "this key has %d unused tickets, the limit",
			       TICKETS_PER_KEY);
	ticket = calloc(1, sizeof(*ticket) + spec->path.n + 1);
	if (!ticket)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	rand_bytes(secret, sizeof(secret));
	hash_secret(ticket->hash, secret);
	memcpy(ticket->key_id, key->id, sizeof(ticket->key_id));
	memcpy(ticket->path, spec->path.p, spec->path.n);
	ticket->until_ms = time_boot_ms() + spec->ttl_sec * 1000;
	if (str_copy(ticket->method, sizeof(ticket->method), spec->method) < 0 ||
	    map_put(&service->accounts->tickets, hash_str(ticket), ticket) < 0) {
		free(ticket);
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	}
	memcpy(ret_text, PREFIX, sizeof(PREFIX) - 1);
	str_hex(ret_text + sizeof(PREFIX) - 1, secret, sizeof(secret));
	sodium_memzero(secret, sizeof(secret));
	*ret_expires_ms = time_real_ms() + spec->ttl_sec * 1000;
	return 0;
}

static struct ticket *find(const struct service *service, struct str text)
{
	uint8_t secret[SECRET_BYTES], hash[HASH_BYTES];
	size_t n = sizeof(PREFIX) - 1;

	if (!str_starts(text, PREFIX) ||
	    str_unhex(secret, sizeof(secret), (struct str){ text.p + n, text.n - n }) < 0)
		return NULL;
	hash_secret(hash, secret);
	return map_get(&service->accounts->tickets,
		       (struct str){ (const char *)hash, sizeof(hash) });
}

struct key *ticket_use(struct service *service, struct str text, struct str method, struct str path,
		       struct err *err)
{
	struct ticket *ticket = find(service, text);
	struct key *key = NULL;

	if (ticket) {
		if (ticket->until_ms > time_boot_ms() && str_is(method, ticket->method) &&
		    str_is(path, ticket->path))
			key = auth_by_id(service, ticket->key_id);
		ticket_free(service, ticket);
	}
	if (!key)
		(void)err_set(err, ERR_UNAUTHENTICATED,
			      "the ticket is not valid: it was used, has expired, or is for "
			      "another path");
	return key;
}
