/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/warden.h"

#include <errno.h>

/* Little-endian cursor over a fixed-size message; sizes are checked once by the caller. */
struct cursor {
	uint8_t *p;
};

static void put(struct cursor *c, uint64_t value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		*c->p++ = (uint8_t)(value >> (8 * i));
}

static void put_bytes(struct cursor *c, const void *src, size_t n)
{
	memcpy(c->p, src, n);
	c->p += n;
}

static uint64_t get(struct cursor *c, size_t n)
{
	uint64_t value = 0;

	for (size_t i = 0; i < n; i++)
		value |= (uint64_t)*c->p++ << (8 * i);
	return value;
}

static void get_bytes(struct cursor *c, void *dst, size_t n)
{
	memcpy(dst, c->p, n);
	c->p += n;
}

/* Text fields are NUL-terminated and padded with zeroes: no bytes are accepted after the NUL. */
static bool text_is_padded(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	if (n == size)
		return false;
	for (size_t i = n; i < size; i++)
		if (text[i])
			return false;
	return true;
}

static_assert(WARDEN_ID_SIZE == BOUNDS_NAME_MAX + 1, "an id and its NUL");

static bool id_is_valid(const char *id)
{
	return text_is_padded(id, WARDEN_ID_SIZE) && (!*id || bounds_id(str_of(id)));
}

static bool name_is_valid(const char *name)
{
	return text_is_padded(name, WARDEN_ID_SIZE) && bounds_template_name(str_of(name));
}

/* The absolute bounds of base/value/bounds.h, whatever an operator configures. */
static bool warden_limits_valid(const struct warden_limits *limits)
{
	return bounds_sizes(limits->cpu_milli, limits->memory_mb, limits->disk_size_mb,
			    limits->pids_max) &&
	       limits->network < WARDEN_LINK_COUNT;
}

void warden_request_encode(uint8_t dst[WARDEN_REQUEST_SIZE], const struct warden_request *req)
{
	struct cursor c = { dst };

	memset(dst, 0, WARDEN_REQUEST_SIZE);
	put(&c, WARDEN_MAGIC, 4);
	put(&c, WARDEN_VERSION, 2);
	put(&c, req->op, 2);
	put(&c, req->tag, 8);
	put_bytes(&c, req->id, WARDEN_ID_SIZE);
	put_bytes(&c, req->template_hash, WARDEN_HASH_SIZE);
	put(&c, req->limits.cpu_milli, 4);
	put(&c, req->limits.memory_mb, 4);
	put(&c, req->limits.disk_size_mb, 4);
	put(&c, req->limits.pids_max, 4);
	put(&c, req->limits.network, 4);
	put(&c, req->flags, 4);
	put_bytes(&c, req->snapshot_id, WARDEN_ID_SIZE);
}

/* The flags that the operation accepts. */
static uint32_t flags_of(const struct warden_request *req)
{
	if (req->op == WARDEN_PAUSE)
		return WARDEN_FREEZE;
	if (req->op == WARDEN_SNAPSHOT || (req->op == WARDEN_CREATE && *req->snapshot_id))
		return WARDEN_TEMPORARY | WARDEN_MEMORY;
	if (req->op == WARDEN_RESIZE)
		return WARDEN_RELINK;
	return req->op == WARDEN_BUILD ? WARDEN_REMOVE : 0;
}

int warden_request_check(const struct warden_request *req)
{
	bool lists = req->op == WARDEN_LIST || req->op == WARDEN_SNAPSHOT_LIST;
	bool needs_id = req->op != WARDEN_SNAPSHOT_DELETE && !lists;
	bool needs_snapshot = req->op == WARDEN_SNAPSHOT || req->op == WARDEN_SNAPSHOT_DELETE;
	bool relinks = req->op == WARDEN_RESIZE && (req->flags & WARDEN_RELINK);
	bool needs_limits = (req->op == WARDEN_CREATE || req->op == WARDEN_RESIZE) && !relinks;

	if (req->op < WARDEN_HELLO || req->op >= WARDEN_DENIED || !id_is_valid(req->snapshot_id))
		return -EINVAL;
	if (req->op == WARDEN_BUILD ? !name_is_valid(req->id) : !id_is_valid(req->id))
		return -EINVAL;
	if (req->op != WARDEN_HELLO && needs_id != (req->id[0] != '\0'))
		return -EINVAL;
	if (req->op != WARDEN_CREATE && needs_snapshot != (req->snapshot_id[0] != '\0'))
		return -EINVAL;
	if (needs_limits && !warden_limits_valid(&req->limits))
		return -EINVAL;
	if (relinks && req->limits.network >= WARDEN_LINK_COUNT)
		return -EINVAL;
	return req->flags & ~flags_of(req) ? -EINVAL : 0;
}

int warden_request_decode(const void *src, size_t size, struct warden_request *ret)
{
	uint8_t copy[WARDEN_REQUEST_SIZE];
	struct cursor c = { copy };
	struct warden_request req = { 0 };

	if (size != WARDEN_REQUEST_SIZE)
		return -EPROTO;
	memcpy(copy, src, sizeof(copy));
	if (get(&c, 4) != WARDEN_MAGIC || get(&c, 2) != WARDEN_VERSION)
		return -EPROTO;
	req.op = (uint16_t)get(&c, 2);
	req.tag = get(&c, 8);
	get_bytes(&c, req.id, WARDEN_ID_SIZE);
	get_bytes(&c, req.template_hash, WARDEN_HASH_SIZE);
	req.limits.cpu_milli = (uint32_t)get(&c, 4);
	req.limits.memory_mb = (uint32_t)get(&c, 4);
	req.limits.disk_size_mb = (uint32_t)get(&c, 4);
	req.limits.pids_max = (uint32_t)get(&c, 4);
	req.limits.network = (uint32_t)get(&c, 4);
	req.flags = (uint32_t)get(&c, 4);
	get_bytes(&c, req.snapshot_id, WARDEN_ID_SIZE);
	*ret = req;
	return warden_request_check(&req);
}

void warden_reply_encode(uint8_t dst[WARDEN_REPLY_SIZE], const struct warden_reply *reply)
{
	struct cursor c = { dst };

	memset(dst, 0, WARDEN_REPLY_SIZE);
	put(&c, WARDEN_MAGIC, 4);
	put(&c, WARDEN_VERSION, 2);
	put(&c, reply->op, 2);
	put(&c, reply->tag, 8);
	put(&c, (uint32_t)reply->error, 4);
	put(&c, reply->more, 4);
	put_bytes(&c, reply->id, WARDEN_ID_SIZE);
	put_bytes(&c, reply->step, WARDEN_STEP_SIZE);
	put(&c, reply->capabilities, 4);
	put(&c, reply->alive, 4);
	put(&c, reply->oom_kills, 8);
	put(&c, reply->memory_bytes, 8);
	put(&c, reply->memory_peak_bytes, 8);
	put(&c, reply->cpu_us, 8);
	put(&c, reply->pids, 4);
	put(&c, reply->disk_bytes, 8);
	put(&c, reply->paused, 4);
	put(&c, reply->size_bytes, 8);
	put(&c, reply->memory, 4);
	put_bytes(&c, reply->template_hash, WARDEN_HASH_SIZE);
	put(&c, reply->address, 4);
	put(&c, reply->sent_bytes, 8);
	put(&c, reply->received_bytes, 8);
	put(&c, reply->to_address, 4);
	put(&c, reply->to_port, 4);
	put(&c, reply->protocol, 4);
	put(&c, reply->has_stall, 4);
	for (size_t i = 0; i < STALL_COUNT; i++) {
		put(&c, reply->stall[i].some_us, 8);
		put(&c, reply->stall[i].full_us, 8);
		put(&c, reply->stall[i].some_percent, 4);
		put(&c, reply->stall[i].full_percent, 4);
	}
}

int warden_reply_decode(const void *src, size_t size, struct warden_reply *ret)
{
	uint8_t copy[WARDEN_REPLY_SIZE];
	struct cursor c = { copy };
	struct warden_reply reply = { 0 };

	if (size != WARDEN_REPLY_SIZE)
		return -EPROTO;
	memcpy(copy, src, sizeof(copy));
	if (get(&c, 4) != WARDEN_MAGIC || get(&c, 2) != WARDEN_VERSION)
		return -EPROTO;
	reply.op = (uint16_t)get(&c, 2);
	reply.tag = get(&c, 8);
	reply.error = (int32_t)(uint32_t)get(&c, 4);
	reply.more = (uint32_t)get(&c, 4);
	get_bytes(&c, reply.id, WARDEN_ID_SIZE);
	get_bytes(&c, reply.step, WARDEN_STEP_SIZE);
	reply.capabilities = (uint32_t)get(&c, 4);
	reply.alive = (uint32_t)get(&c, 4);
	reply.oom_kills = get(&c, 8);
	reply.memory_bytes = get(&c, 8);
	reply.memory_peak_bytes = get(&c, 8);
	reply.cpu_us = get(&c, 8);
	reply.pids = (uint32_t)get(&c, 4);
	reply.disk_bytes = get(&c, 8);
	reply.paused = (uint32_t)get(&c, 4);
	reply.size_bytes = get(&c, 8);
	reply.memory = (uint32_t)get(&c, 4);
	get_bytes(&c, reply.template_hash, WARDEN_HASH_SIZE);
	reply.address = (uint32_t)get(&c, 4);
	reply.sent_bytes = get(&c, 8);
	reply.received_bytes = get(&c, 8);
	reply.to_address = (uint32_t)get(&c, 4);
	reply.to_port = (uint32_t)get(&c, 4);
	reply.protocol = (uint32_t)get(&c, 4);
	reply.has_stall = (uint32_t)get(&c, 4);
	for (size_t i = 0; i < STALL_COUNT; i++) {
		reply.stall[i].some_us = get(&c, 8);
		reply.stall[i].full_us = get(&c, 8);
		reply.stall[i].some_percent = (uint32_t)get(&c, 4);
		reply.stall[i].full_percent = (uint32_t)get(&c, 4);
	}
	if (reply.op < WARDEN_HELLO || reply.op >= WARDEN_OP_END || reply.error > 0 ||
	    reply.error < -4095 || reply.more > 1 || reply.paused > 1 || reply.memory > 1 ||
	    reply.has_stall > 1 || !id_is_valid(reply.id) ||
	    !text_is_padded(reply.step, WARDEN_STEP_SIZE))
		return -EPROTO;
	*ret = reply;
	return 0;
}
