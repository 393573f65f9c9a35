/* SPDX-License-Identifier: Apache-2.0 */
#include "service/account/idempotency.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "service/event/event_internal.h"
#include "service/account/idempotency_internal.h"
#include "service/secret/secret.h"
#include "service/secret/vault.h"
#include "service/account/account_private.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/steady_internal.h"

struct waiter {
	struct waiter *next;
	idempotency_wait_fn fn;
	void *arg;
};

/* Owner: the service's map until idempotency_finish(). */
struct idempotency {
	char owner[AUTH_KEY_ID_SIZE];
	char key[IDEMPOTENCY_KEY_MAX + 1];
	uint8_t body_hash[STORE_BODY_HASH_SIZE];
	bool secret;		      /* body and reply may contain a secret */
	char begun[STORE_THING_SIZE]; /* id of what an earlier daemon began to make */
	bool recorded;
	bool settled; /* the reply is recorded */
	struct waiter *waiters;
	uint32_t waiter_count;
};

struct map_key {
	char text[AUTH_KEY_ID_SIZE + IDEMPOTENCY_KEY_MAX + 2];
};

static struct str map_key(struct map_key *dst, const char *owner, struct str key)
{
	int n = snprintf(dst->text, sizeof(dst->text), "%s/%.*s", owner, (int)key.n, key.p);

	return (struct str){ dst->text, (size_t)n };
}

static int check_key(struct str key, struct err *err)
{
	bool ok = key.n >= 1 && key.n <= IDEMPOTENCY_KEY_MAX;

	for (size_t i = 0; ok && i < key.n; i++)
		ok = key.p[i] > 0x20 && key.p[i] < 0x7f;
	if (ok)
		return 0;
	return err_set(err, ERR_INVALID_REQUEST,
		       "Idempotency-Key must be 1-%d visible ASCII characters",
		       IDEMPOTENCY_KEY_MAX);
}

static int mismatch(struct err *err)
{
	return err_set(err, ERR_IDEMPOTENCY_MISMATCH,
		       "this Idempotency-Key was used with a different request body");
}

static int join(struct idempotency *idem, idempotency_wait_fn wait, void *arg, struct err *err)
{
	struct waiter *waiter;

	if (idem->waiter_count >= IDEMPOTENCY_WAITERS_MAX)
		return err_set(err, ERR_RATE_LIMITED,
			       "%d calls already wait for this Idempotency-Key",
			       IDEMPOTENCY_WAITERS_MAX);
	waiter = malloc(sizeof(*waiter));
	if (!waiter)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	*waiter = (struct waiter){ idem->waiters, wait, arg };
	idem->waiters = waiter;
	idem->waiter_count++;
	return IDEMPOTENCY_WAIT;
}

/* ---- secrets: neither the request nor the reply can be read from the database ---- */

struct seal_id {
	char text[2 * STORE_BODY_HASH_SIZE + 1];
};

static const char *seal_id(struct seal_id *dst, const uint8_t hash[STORE_BODY_HASH_SIZE])
{
	str_hex(dst->text, hash, STORE_BODY_HASH_SIZE);
	return dst->text;
}

static int fingerprint(struct service *service, struct str body, bool secret,
		       uint8_t hash[STORE_BODY_HASH_SIZE], struct err *err)
{
	if (!secret) {
		(void)crypto_generichash(hash, STORE_BODY_HASH_SIZE, (const uint8_t *)body.p,
					 body.n, NULL, 0);
		return 0;
	}
	if (vault_need(service, err) < 0)
		return -1;
	vault_hash(vault_of(service), "idempotency", body, hash);
	return 0;
}

/* ---- limits ---- */

static int count_answers(const struct service *service, struct key *key)
{
	int r = store_idempotency_count(service->store, key->id, &key->answers, &key->answer_bytes);

	key->answers_known = r == 0;
	return r;
}

/* Deletes the oldest records if the owner is at its limit. The cached count may be too high; a trim
 * corrects it. */
static int make_room(const struct service *service, const char *owner)
{
	struct key *key = auth_by_id(service, owner);
	int r = 0;

	if (!key)
		return 0;
	if (!key->answers_known)
		r = count_answers(service, key);
	if (r == 0 && (key->answers >= IDEMPOTENCY_PER_KEY ||
		       key->answer_bytes >= IDEMPOTENCY_BYTES_PER_KEY)) {
		r = store_idempotency_trim(service->store, owner, key->answers / 8 + 1);
		if (r == 0)
			r = count_answers(service, key);
	}
	if (r == 0)
		key->answers++;
	return r;
}

static void note_bytes(const struct service *service, const char *owner, size_t bytes)
{
	struct key *key = auth_by_id(service, owner);

	if (key)
		key->answer_bytes += (int64_t)bytes;
}

void idempotency_expire(struct service *service)
{
	struct key *key;
	size_t cursor = 0;

	if (store_idempotency_expire(service->store, steady_now_ms(service) - IDEMPOTENCY_KEEP_MS) <
	    0)
		log_warn("expired idempotency records could not be deleted");
	while ((key = map_next(&service->accounts->keys_by_id, &cursor)))
		key->answers_known = false;
}

static int finish_row(struct service *service, struct idempotency *idem, int status,
		      struct str body)
{
	uint8_t *sealed = NULL;
	struct seal_id id;
	size_t n;
	int r;

	note_bytes(service, idem->owner, body.n);
	if (!idem->secret)
		return store_idempotency_finish(service->store, idem->owner, str_of(idem->key),
						status, body, false);
	r = vault_seal(vault_of(service), "idempotency", seal_id(&id, idem->body_hash), 0, body,
		       &sealed, &n);
	if (r == 0)
		r = store_idempotency_finish(service->store, idem->owner, str_of(idem->key), status,
					     (struct str){ (const char *)sealed, n }, true);
	free(sealed);
	return r;
}

/* Decrypts the row's body if it is sealed. */
static int open_row(struct service *service, struct store_idempotency *row, struct err *err)
{
	struct str sealed = { row->body, row->body_bytes };
	struct seal_id id;
	int r = row->sealed ? vault_need(service, err) : 0;

	if (r < 0 || !row->sealed)
		return r;
	r = vault_open(vault_of(service), "idempotency", seal_id(&id, row->body_hash), 0, sealed,
		       &row->body, &row->body_bytes);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "the reply cannot be repeated");
	free((void *)(uintptr_t)sealed.p);
	return 0;
}

/* An earlier daemon died after it created the sandbox and before it replied: composes the reply
 * again. */
static int answer_again(struct service *service, const struct store_idempotency *row,
			const struct idempotency_ask *ask, struct idempotency_reply *ret)
{
	struct sandbox *sandbox = sandbox_by_id(service, str_of(row->sandbox_id));
	struct buf out;
	int r;

	if (!sandbox || sandbox_state(sandbox) == SANDBOX_PROVISIONING ||
	    sandbox_state(sandbox) == SANDBOX_DESTROYED)
		return -ENOENT;
	buf_init(&out, 1 << 20);
	r = ask->again(sandbox, &out);
	ret->status = ask->again_status;
	ret->body.p = r == 0 ? strndup(buf_data(&out), buf_len(&out)) : NULL;
	ret->body.n = buf_len(&out);
	buf_done(&out);
	return ret->body.p ? 0 : -ENOMEM;
}

/* Looks the call up in the store. Returns IDEMPOTENCY_REPLAY, IDEMPOTENCY_NEW (no record, or only a
 * note of what was begun), or -1. */
static int look_back(struct service *service, const struct idempotency_ask *ask,
		     const uint8_t *hash, struct idempotency_reply *ret,
		     char begun[STORE_THING_SIZE], struct err *err)
{
	struct store_idempotency row;
	int r = store_idempotency_get(service->store, ask->owner->id, ask->key, &row);

	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "idempotency records are unreadable");
	if (r == 0)
		return IDEMPOTENCY_NEW;
	if (row.created_ms < steady_now_ms(service) - IDEMPOTENCY_KEEP_MS) {
		free(row.body);
		return IDEMPOTENCY_NEW;
	}
	if (memcmp(row.body_hash, hash, sizeof(row.body_hash)) != 0) {
		free(row.body);
		return mismatch(err);
	}
	if (row.status && open_row(service, &row, err) < 0) {
		free(row.body);
		return -1;
	}
	if (row.status) {
		ret->status = row.status;
		ret->body = (struct str){ row.body, row.body_bytes };
		return IDEMPOTENCY_REPLAY;
	}
	memcpy(begun, row.thing, STORE_THING_SIZE);
	if (row.thing[0])
		return IDEMPOTENCY_NEW;
	return ask->again && answer_again(service, &row, ask, ret) == 0 ? IDEMPOTENCY_REPLAY
									: IDEMPOTENCY_NEW;
}

int idempotency_begin(struct service *service, const struct idempotency_ask *ask,
		      struct idempotency **ret, struct idempotency_reply *ret_reply,
		      struct err *err)
{
	const struct key *owner = ask->owner;
	struct str key = ask->key;
	uint8_t hash[STORE_BODY_HASH_SIZE];
	char begun[STORE_THING_SIZE] = "";
	struct idempotency *idem;
	struct map_key name;
	int r;

	if (check_key(key, err) < 0 || fingerprint(service, ask->body, ask->secret, hash, err) < 0)
		return -1;
	idem = map_get(&service->accounts->idempotency, map_key(&name, owner->id, key));
	if (idem)
		return memcmp(idem->body_hash, hash, sizeof(hash)) == 0
			       ? join(idem, ask->wait, ask->arg, err)
			       : mismatch(err);
	r = look_back(service, ask, hash, ret_reply, begun, err);
	if (r != IDEMPOTENCY_NEW)
		return r;
	idem = calloc(1, sizeof(*idem));
	if (!idem ||
	    map_put(&service->accounts->idempotency, map_key(&name, owner->id, key), idem) < 0) {
		free(idem);
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	}
	memcpy(idem->owner, owner->id, sizeof(idem->owner));
	memcpy(idem->key, key.p, key.n);
	memcpy(idem->body_hash, hash, sizeof(hash));
	memcpy(idem->begun, begun, sizeof(idem->begun));
	idem->secret = ask->secret;
	*ret = idem;
	return IDEMPOTENCY_NEW;
}

int idempotency_record(struct service *service, struct idempotency *idem, const char *sandbox_id)
{
	return idempotency_note(service, idem, sandbox_id, NULL);
}

const char *idempotency_begun(const struct idempotency *idem)
{
	return idem->begun;
}

int idempotency_note(struct service *service, struct idempotency *idem, const char *sandbox_id,
		     const char *thing)
{
	int r = make_room(service, idem->owner);

	if (r == 0)
		r = store_idempotency_put(service->store, idem->owner, str_of(idem->key),
					  idem->body_hash, sandbox_id, thing,
					  steady_now_ms(service));
	idem->recorded = r == 0;
	return r;
}

int idempotency_settle(struct service *service, struct idempotency *idem, int status,
		       struct str body)
{
	int r = idem->recorded ? 0 : idempotency_record(service, idem, NULL);

	if (r == 0)
		r = finish_row(service, idem, status, body);
	idem->settled = r == 0;
	return r;
}

int idempotency_open(struct service *service)
{
	bus_flush(service); /* events stay out of the transaction: a rollback must not lose them */
	return store_begin_durable(service->store);
}

int idempotency_close(struct service *service, struct idempotency *idem, int status,
		      struct str body)
{
	int r = idempotency_settle(service, idem, status, body);

	r = store_end(service->store, r);
	if (r < 0)
		idempotency_unsettle(idem);
	service_wrote(service);
	return r;
}

void idempotency_abandon(struct service *service)
{
	store_rollback(service->store);
}

void idempotency_unsettle(struct idempotency *idem)
{
	idem->settled = idem->recorded = false;
}

int idempotency_keep(struct service *service, struct idempotency *idem, int status, struct str body)
{
	bool noted = idem->recorded;
	int r = idem->settled ? 0 : idempotency_settle(service, idem, status, body);

	service_wrote(service);
	if (r == 0 || !noted)
		return r;
	log_warn("a reply was not recorded, although the object it describes was: %s",
		 strerror(-r));
	return 0;
}

static void forget_failed(struct service *service, const struct idempotency *idem, int status)
{
	if (!idem->recorded || idem->settled || (status >= 200 && status < 300))
		return;
	if (store_idempotency_delete(service->store, idem->owner, str_of(idem->key)) < 0)
		log_warn("an idempotency record was not deleted");
	service_wrote(service);
}

void idempotency_finish(struct service *service, struct idempotency *idem, int status,
			struct str body)
{
	struct waiter *waiter;
	struct map_key name;

	forget_failed(service, idem, status);
	(void)map_take(&service->accounts->idempotency,
		       map_key(&name, idem->owner, str_of(idem->key)));
	while ((waiter = idem->waiters)) {
		idem->waiters = waiter->next;
		waiter->fn(waiter->arg, status, body);
		free(waiter);
	}
	free(idem);
}

/* ---- processes that an earlier daemon may have started ---- */

static int on_begun(void *arg, const char *sandbox_id, const char *thing)
{
	struct service *service = arg;
	struct sandbox *sandbox = sandbox_by_id(service, str_of(sandbox_id));
	uint64_t id;

	if (sandbox && str_to_u64(str_of(thing), UINT32_MAX, &id) == 0)
		sandbox->begun_process_id = MAX(sandbox->begun_process_id, (uint32_t)id);
	return 0;
}

int idempotency_load(struct service *service, struct err *err)
{
	int r = store_idempotency_begun(service->store, on_begun, service);

	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "idempotency records are unreadable")
		     : 0;
}

void idempotency_done(struct service *service)
{
	struct idempotency *idem;
	size_t cursor = 0;

	while ((idem = map_next(&service->accounts->idempotency, &cursor))) {
		while (idem->waiters) {
			struct waiter *waiter = idem->waiters;

			idem->waiters = waiter->next;
			free(waiter);
		}
		free(idem);
	}
	map_done(&service->accounts->idempotency);
}
