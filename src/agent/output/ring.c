/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/ring.h"

#define FIRST_CAPACITY 4096

void ring_init(struct ring *ring, size_t limit_bytes, enum ring_policy policy,
	       struct ring_budget *budget)
{
	*ring = (struct ring){ .limit_bytes = limit_bytes, .policy = policy, .budget = budget };
}

void ring_done(struct ring *ring)
{
	if (ring->budget)
		ring->budget->used -= ring->capacity;
	free(ring->data);
	ring->data = NULL;
	ring->capacity = 0;
	ring->begin = ring->end;
	ring->limit_bytes = 0;
}

static void copy_out(const struct ring *ring, char *dst, size_t dst_capacity)
{
	uint64_t cursor = ring->begin;

	while (cursor < ring->end) {
		size_t from = (size_t)(cursor % ring->capacity);
		size_t to = (size_t)(cursor % dst_capacity);
		size_t n = MIN(ring->capacity - from, dst_capacity - to);

		n = (size_t)MIN((uint64_t)n, ring->end - cursor);
		memcpy(dst + to, ring->data + from, n);
		cursor += n;
	}
}

static bool affordable(struct ring *ring, size_t more)
{
	struct ring_budget *budget = ring->budget;

	if (!budget || (!ring->capacity && more <= FIRST_CAPACITY))
		return true;
	if (budget->used + more <= budget->max_bytes)
		return true;
	return budget->make_room && budget->make_room(budget, more);
}

static void grow(struct ring *ring, size_t need)
{
	size_t capacity = ring->capacity ? ring->capacity : FIRST_CAPACITY;
	char *data = NULL;

	while (capacity < need && capacity < ring->limit_bytes)
		capacity *= 2;
	capacity = MIN(capacity, ring->limit_bytes);
	if (capacity <= ring->capacity)
		return;
	if (!affordable(ring, capacity - ring->capacity))
		capacity = ring->capacity ? 0 : MIN((size_t)FIRST_CAPACITY, ring->limit_bytes);
	if (capacity)
		data = malloc(capacity);
	if (!data) {
		ring->limit_bytes = ring->capacity;
		return;
	}
	if (ring->capacity)
		copy_out(ring, data, capacity);
	free(ring->data);
	if (ring->budget)
		ring->budget->used += capacity - ring->capacity;
	ring->data = data;
	ring->capacity = capacity;
}

static void store(struct ring *ring, const char *p, size_t n)
{
	while (n) {
		size_t at = (size_t)(ring->end % ring->capacity);
		size_t piece = MIN(ring->capacity - at, n);

		memcpy(ring->data + at, p, piece);
		ring->end += piece;
		p += piece;
		n -= piece;
	}
}

/* A hole (bytes dropped at the limit of RING_KEEP_FIRST) ends the part before it. */
static void close_hole(struct ring *ring)
{
	if (ring->end != ring->total)
		ring->begin = ring->end = ring->total;
}

void ring_put(struct ring *ring, const void *bytes, size_t n)
{
	const char *p = bytes;
	size_t held;

	if (ring->policy == RING_KEEP_LAST && n)
		close_hole(ring);
	held = (size_t)(ring->end - ring->begin);
	ring->total += n;
	if (held + n > ring->capacity)
		grow(ring, held + n);
	if (ring->policy == RING_KEEP_FIRST) {
		if (ring->total - n == ring->end) /* nothing is stored after a hole */
			store(ring, p, MIN(n, ring->capacity - held));
		return;
	}
	if (n > ring->capacity) {
		ring->end += n - ring->capacity;
		p += n - ring->capacity;
		n = ring->capacity;
	}
	store(ring, p, n);
	if (ring->end - ring->begin > ring->capacity)
		ring->begin = ring->end - ring->capacity;
}

void ring_keep_last(struct ring *ring, size_t limit_bytes)
{
	ring->policy = RING_KEEP_LAST;
	ring->limit_bytes = MAX(limit_bytes, ring->capacity);
}

int ring_room(struct ring *ring, size_t n, struct iovec ret[2])
{
	size_t held, at;

	close_hole(ring);
	held = (size_t)(ring->end - ring->begin);
	if (held + n > ring->capacity)
		grow(ring, held + n);
	n = MIN(n, ring->capacity);
	if (!n)
		return 0;
	at = (size_t)(ring->end % ring->capacity);
	ret[0] = (struct iovec){ ring->data + at, MIN(n, ring->capacity - at) };
	if (ret[0].iov_len == n)
		return 1;
	ret[1] = (struct iovec){ ring->data, n - ret[0].iov_len };
	return 2;
}

void ring_commit(struct ring *ring, size_t n)
{
	ring->end += n;
	ring->total = ring->end;
	if (ring->end - ring->begin > ring->capacity)
		ring->begin = ring->end - ring->capacity;
}

size_t ring_free(struct ring *ring, uint64_t keep_from, size_t want)
{
	size_t kept = (size_t)(ring->end - MIN(MAX(keep_from, ring->begin), ring->end));

	if (kept + want > ring->capacity)
		grow(ring, kept + want);
	return ring->capacity ? ring->capacity - kept : want;
}

struct str ring_peek(const struct ring *ring, uint64_t *cursor)
{
	size_t at;

	if (*cursor < ring->begin)
		*cursor = ring->begin;
	if (*cursor >= ring->end)
		return (struct str){ "", 0 };
	at = (size_t)(*cursor % ring->capacity);
	return (struct str){ ring->data + at,
			     (size_t)MIN((uint64_t)(ring->capacity - at), ring->end - *cursor) };
}

int ring_pieces(const struct ring *ring, uint64_t cursor, size_t n, struct iovec ret[2])
{
	size_t at = (size_t)(cursor % ring->capacity);

	ret[0] = (struct iovec){ ring->data + at, MIN(n, ring->capacity - at) };
	if (ret[0].iov_len == n)
		return 1;
	ret[1] = (struct iovec){ ring->data, n - ret[0].iov_len };
	return 2;
}
