/* SPDX-License-Identifier: Apache-2.0 */
/* How many sandboxes the host and each key may have, and how fast a key may make them. */
#include "base/time.h"
#include "service/private.h"

static int check_rate(struct service *service, struct key *key, struct err *err)
{
	double rate = service->config.create_rate_per_sec;
	int64_t now_us = time_mono_us();

	if (rate <= 0 || key_is_admin(key))
		return 0;
	/* A bucket of one second: bursts up to the rate, then the rate. */
	if (key->bucket_us == 0)
		key->bucket = rate;
	else
		key->bucket += (double)(now_us - key->bucket_us) * rate / 1e6;
	if (key->bucket > rate)
		key->bucket = rate;
	key->bucket_us = now_us;
	if (key->bucket < 1)
		return err_set(err, ERR_RATE_LIMITED, "this key may create %u sandboxes a second",
			       (unsigned)rate);
	key->bucket -= 1;
	return 0;
}

int quota_room(const struct service *service, const struct key *key, struct err *err)
{
	int64_t most = key->max_sandboxes ? key->max_sandboxes
					  : (int64_t)service->config.max_sandboxes_per_key;

	if (service->live_count >= service->config.max_sandboxes)
		return err_set(err, ERR_CAPACITY_EXCEEDED,
			       "this host holds %u sandboxes at most (max_sandboxes)",
			       service->config.max_sandboxes);
	if (!key_is_admin(key) && key->sandboxes >= most)
		return err_set(err, ERR_QUOTA_EXCEEDED, "this key may hold %lld sandboxes at most",
			       (long long)most);
	return 0;
}

int quota_check(struct service *service, struct key *key, struct err *err)
{
	return quota_room(service, key, err) < 0 ? -1 : check_rate(service, key, err);
}

void quota_add(struct service *service, const char *owner)
{
	struct key *key = auth_by_id(service, owner);

	service->live_count++;
	if (key)
		key->sandboxes++;
}

void quota_remove(struct service *service, const char *owner)
{
	struct key *key = auth_by_id(service, owner);

	if (service->live_count)
		service->live_count--;
	if (key && key->sandboxes)
		key->sandboxes--;
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
	service->stream_count++;
	return 0;
}

void stream_end(struct service *service, const char *key_id)
{
	struct key *key = auth_by_id(service, key_id);

	service->stream_count--;
	if (key && key->streams) /* else it was deleted meanwhile */
		key->streams--;
}
