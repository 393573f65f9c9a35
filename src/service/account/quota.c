/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas: the number and size of the sandboxes of the host and of each key, and the rate at which a
 * key may create them. A sandbox counts in every state, from before its creation until its removal.
 * A paused sandbox can therefore always be resumed.
 */
#include "base/time.h"
#include "service/account/auth_internal.h"
#include "service/account/key_tree_private.h"
#include "service/event/bus.h"
#include "service/run/process.h"
#include "service/account/account_private.h"

const char *const quota_names[] = {
#define X(sym, name, held) name,
	QUOTA_TABLE(X)
#undef X
};
static const char *const held_names[] = {
#define X(sym, name, held) held,
	QUOTA_TABLE(X)
#undef X
};

static int64_t usual(const struct service_config *config, enum quota which)
{
	switch (which) {
	case QUOTA_SANDBOXES:
		return config->max_sandboxes_per_key;
	case QUOTA_VCPUS:
		return config->max_vcpus_per_key;
	case QUOTA_MEMORY:
		return config->max_memory_mb_per_key;
	case QUOTA_DISK:
		return config->max_disk_mb_per_key;
	case QUOTA_SNAPSHOTS:
		return config->max_snapshots_per_key;
	case QUOTA_CREATES:
		return config->create_rate_per_sec;
	case QUOTA_COUNT:
		break;
	}
	return 0;
}

/* The configured defaults do not apply to admin keys; limits set on such a key do. */
int64_t quota_limit(const struct service *service, const struct key *key, enum quota which)
{
	int64_t limit = key->limits[which];

	if (!limit && !key_is_admin(key))
		limit = usual(&service->config, which);
	return limit > 0 ? limit : QUOTA_NONE;
}

static int64_t part(const struct sandbox_attrs *attrs, enum quota which)
{
	switch (which) {
	case QUOTA_SANDBOXES:
		return 1;
	case QUOTA_VCPUS:
		return attrs->cpu_milli;
	case QUOTA_MEMORY:
		return attrs->memory_mb;
	case QUOTA_DISK:
		return attrs->disk_size_mb;
	case QUOTA_SNAPSHOTS:
	case QUOTA_CREATES:
	case QUOTA_COUNT:
		break;
	}
	return 0;
}

/* vCPUs are counted in thousandths; limits are whole numbers. */
static int64_t scale(enum quota which)
{
	return which == QUOTA_VCPUS ? 1000 : 1;
}

static int check(const struct service *service, const struct key *key, enum quota which,
		 int64_t more, struct err *err)
{
	int64_t limit = quota_limit(service, key, which), unit = scale(which);
	int64_t held = key->held[which];

	if (limit < 0 || more == 0 || held + more <= limit * unit)
		return 0;
	(void)err_set(err, ERR_QUOTA_EXCEEDED,
		      "%s: this key uses %.12g of %lld %s, so %.12g more would exceed the limit",
		      quota_names[which], (double)held / (double)unit, (long long)limit,
		      held_names[which], (double)more / (double)unit);
	return err_set_limit(err, quota_names[which], limit, (held + unit - 1) / unit);
}

static bool bucket_take(struct key_bucket *bucket, int64_t rate)
{
	int64_t now_us = time_mono_us();

	if (bucket->filled_us == 0)
		bucket->level = (double)rate;
	else
		bucket->level += (double)(now_us - bucket->filled_us) * (double)rate / 1e6;
	bucket->level = MIN(bucket->level, (double)rate);
	bucket->filled_us = now_us;
	if (bucket->level < 1)
		return false;
	bucket->level -= 1;
	return true;
}

static int take_token(const struct service *service, struct key *key, struct err *err)
{
	int64_t rate = quota_limit(service, key, QUOTA_CREATES);

	if (rate < 0)
		return 0;
	if (!bucket_take(&key->creates, rate)) {
		(void)err_set(err, ERR_RATE_LIMITED,
			      "max_creates_per_sec: this key may create %lld sandboxes per second",
			      (long long)rate);
		return err_set_limit(err, quota_names[QUOTA_CREATES], rate, rate);
	}
	return 0;
}

int auth_count_request(struct service *service, struct key *key, struct err *err)
{
	int64_t rate = service->config.request_rate_per_key;
	struct key *top = key;

	while (top->parent)
		top = top->parent;
	if (!rate || key_is_admin(key) || bucket_take(&top->requests, rate))
		return 0;
	(void)err_set(err, ERR_RATE_LIMITED,
		      "this key may send %lld requests per second (request_rate_per_key)",
		      (long long)rate);
	return err_set_limit(err, "request_rate_per_key", rate, rate);
}

/* Checks the key and every key above it. */
static int check_chain(const struct service *service, const struct key *key, enum quota which,
		       int64_t more, struct err *err)
{
	for (; key; key = key->parent)
		if (check(service, key, which, more, err) < 0)
			return -1;
	return 0;
}

static int take_tokens(const struct service *service, struct key *key, struct err *err)
{
	for (; key; key = key->parent)
		if (take_token(service, key, err) < 0)
			return -1;
	return 0;
}

int quota_room(const struct service *service, const struct sandbox_attrs *attrs, struct err *err)
{
	const struct key *key = auth_by_id(service, attrs->owner);

	if (!key)
		return err_set(err, ERR_FORBIDDEN,
			       "the key of this request was deleted in the meantime");
	if (service->accounts->live_count >= service->config.max_sandboxes)
		return err_set(err, ERR_CAPACITY_EXCEEDED,
			       "this host has %u sandboxes, the limit (max_sandboxes)",
			       service->config.max_sandboxes);
	for (int i = 0; i < QUOTA_COUNT; i++)
		if (check_chain(service, key, i, part(attrs, i), err) < 0)
			return -1;
	return 0;
}

int quota_take(struct service *service, const struct sandbox_attrs *attrs, struct err *err)
{
	if (quota_room(service, attrs, err) < 0 ||
	    take_tokens(service, auth_by_id(service, attrs->owner), err) < 0)
		return -1;
	quota_add(service, attrs);
	return 0;
}

static void hold(struct service *service, const struct sandbox_attrs *attrs, int by)
{
	for (struct key *key = key_payer(service, attrs->owner); key; key = key->parent)
		for (int i = 0; i < QUOTA_COUNT; i++)
			key->held[i] += by * part(attrs, i);
	key_owns(service, attrs->owner, by);
}

void quota_add(struct service *service, const struct sandbox_attrs *attrs)
{
	service->accounts->live_count++;
	hold(service, attrs, 1);
}

void quota_remove(struct service *service, const struct sandbox_attrs *attrs)
{
	if (service->accounts->live_count)
		service->accounts->live_count--;
	hold(service, attrs, -1);
}

void quota_count_snapshot(struct service *service, const char *owner, int by)
{
	for (struct key *key = key_payer(service, owner); key; key = key->parent)
		key->held[QUOTA_SNAPSHOTS] += by;
	key_owns(service, owner, by);
}

int quota_snapshot(const struct service *service, const struct key *key, struct err *err)
{
	return check_chain(service, key, QUOTA_SNAPSHOTS, 1, err);
}

void quota_figures(const struct service *service, const struct key *key, enum quota which,
		   struct quota_figures *ret)
{
	int64_t limit = quota_limit(service, key, which);

	*ret = (struct quota_figures){ .name = held_names[which],
				       .limit = limit < 0 ? QUOTA_NONE : limit,
				       .used_milli = key->held[which] * 1000 / scale(which),
				       .has_used = which != QUOTA_CREATES };
}

/* ---- open streams ---- */

int stream_admit(struct service *service, struct key *key, struct err *err)
{
	uint32_t most =
		service->config.streams_per_key ? service->config.streams_per_key : STREAMS_PER_KEY;

	if (key->streams >= most)
		return err_set(err, ERR_QUOTA_EXCEEDED,
			       "this key has %u streams open, its limit (streams_per_key)", most);
	key->streams++;
	service->accounts->stream_count++;
	return 0;
}

void stream_end(struct service *service, const char *key_id)
{
	struct key *key = auth_by_id(service, key_id);

	service->accounts->stream_count--;
	if (key && key->streams) /* otherwise the key was deleted meanwhile */
		key->streams--;
}

uint32_t quota_streams(const struct service *service)
{
	return service->accounts->stream_count;
}

int stream_hold_input(struct service *service, const char *key_id, uint32_t bytes, struct err *err)
{
	struct key *key = auth_by_id(service, key_id);

	if (!key)
		return err_set(err, ERR_UNAUTHENTICATED, "the API key was deleted");
	if (key->input_bytes + bytes > STREAM_INPUT_PER_KEY)
		return err_set(err, ERR_QUOTA_EXCEEDED,
			       "the terminals of this key have %u bytes of input that no program "
			       "has read, the limit is %u",
			       key->input_bytes, STREAM_INPUT_PER_KEY);
	key->input_bytes += bytes;
	return 0;
}

void stream_release_input(struct service *service, const char *key_id, uint32_t bytes)
{
	struct key *key = auth_by_id(service, key_id);

	if (key)
		key->input_bytes -= MIN(bytes, key->input_bytes);
}
