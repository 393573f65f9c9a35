/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/search/search.h"

#include <errno.h>

#include "tools/content/lines.h"

#define BUFFER_BYTES (512U << 10)
#define LINE_MAX_BYTES (4U << 20) /* a longer line is searched in parts of this size */
#define SHOWN_MAX 2000
#define SHOWN_BEFORE 200 /* bytes of a long line shown before the match */

/* Moves back to the start of the character at p[at]. */
static size_t align_back(const char *p, size_t at, size_t low)
{
	for (int i = 0; i < 3 && at > low && ((unsigned char)p[at] & 0xc0) == 0x80; i++)
		at--;
	return at;
}

static void send_line(struct search *s, size_t begin, size_t end, uint64_t number,
		      const struct pattern_hit *hit)
{
	struct tool_match m = { .line = number, .path = s->path };
	size_t from = begin, n;
	bool gap = (s->before || s->after) && s->sent_until && s->offset + begin > s->sent_until;

	s->sent_until = s->offset + end + 1;
	if (end > begin && s->buffer[end - 1] == '\r')
		end--;
	n = end - begin;
	if (n > SHOWN_MAX) {
		if (hit && hit->begin - begin > SHOWN_MAX / 2)
			from = align_back(s->buffer, hit->begin - SHOWN_BEFORE, begin);
		n = MIN(SHOWN_MAX, end - from);
		if (from + n < end)
			n = align_back(s->buffer, from + n, from) - from;
		m.flags |= TOOL_MATCH_CUT;
	}
	m.start = from - begin + (begin == s->part ? s->part_skipped : 0);
	m.text = (struct str){ s->buffer + from, n };
	if (gap)
		m.flags |= TOOL_MATCH_GAP;
	if (hit) {
		size_t at = MIN(hit->begin - from, n);

		m.column = (uint32_t)at + 1;
		m.length = (uint32_t)MIN(hit->end - hit->begin, n - at);
	} else {
		m.flags |= TOOL_MATCH_CONTEXT;
	}
	op_put_match(s->op, &m);
	s->sent_bytes += m.text.n + s->path.n;
}

static size_t end_of_line(const struct search *s, size_t at, size_t limit)
{
	const char *end = memchr(s->buffer + at, '\n', limit - at);

	return end ? (size_t)(end - s->buffer) : limit;
}

/* Sends the lines after a match, up to a position. */
static void send_after(struct search *s, size_t until)
{
	while (s->after_left && s->pos < until) {
		size_t end = end_of_line(s, s->pos, until);

		send_line(s, s->pos, end, s->line, NULL);
		s->after_left--;
		s->line += end < until;
		s->pos = MIN(end + 1, until);
	}
}

/* The start of the context before a line, and its number of lines. */
static size_t before_begin(const struct search *s, size_t line, uint64_t *ret_count)
{
	size_t floor = s->sent_until > s->offset ? (size_t)(s->sent_until - s->offset) : 0;
	size_t at = line;

	for (*ret_count = 0; *ret_count < s->before && at > floor; (*ret_count)++) {
		const char *end = at > 1 ? memrchr(s->buffer, '\n', at - 1) : NULL;

		at = end ? (size_t)(end - s->buffer) + 1 : 0;
	}
	return at;
}

static void send_hit(struct search *s, const struct pattern_hit *hit, size_t limit)
{
	uint64_t count;
	size_t at;

	s->line += lines_count((struct str){ s->buffer + s->pos, hit->line - s->pos });
	at = before_begin(s, hit->line, &count);
	for (; count; count--) {
		size_t end = end_of_line(s, at, hit->line);

		send_line(s, at, end, s->line - count, NULL);
		at = end + 1;
	}
	send_line(s, hit->line, hit->line_end, s->line, hit);
	s->op->end.matches++;
	s->line += hit->line_end < limit; /* a part of a very long line has no end */
	s->pos = hit->line_end + 1;
	s->after_left = s->after;
}

/* Searches the whole lines in buffer[pos, limit). */
static int search_lines(struct search *s, size_t limit)
{
	while (s->pos < limit) {
		struct pattern_hit hit;
		int r = pattern_find(s->pattern, (struct str){ s->buffer, limit }, s->pos, &hit);

		if (r < 0)
			return r;
		send_after(s, r ? hit.line : limit);
		if (!r)
			break;
		if (s->op->end.matches >= s->max_matches)
			s->op->end.cut = TOOL_CUT_COUNT;
		else if (s->sent_bytes >= s->max_bytes)
			s->op->end.cut = TOOL_CUT_BYTES;
		if (s->op->end.cut)
			return 1;
		send_hit(s, &hit, limit);
	}
	if (s->pos < limit) {
		s->line += lines_count((struct str){ s->buffer + s->pos, limit - s->pos });
		s->pos = limit;
	}
	return 0;
}

/* Drops searched lines, except those that may still be context. */
static void slide(struct search *s, size_t limit)
{
	uint64_t count;
	size_t keep = limit;

	s->pos = limit; /* a line end at the end of the buffer moves it one further */
	if (s->before)
		keep = before_begin(s, limit, &count);
	if (limit - keep > LINE_MAX_BYTES / 4)
		keep = limit; /* long lines: context would need too much memory */
	memmove(s->buffer, s->buffer + keep, s->have - keep);
	s->offset += keep;
	s->have -= keep;
	s->pos -= keep;
}

/* Space for the next read; the buffer grows for a line that fills it. */
static int make_room(struct search *s)
{
	if (s->capacity - s->have >= BUFFER_BYTES / 4)
		return 0;
	if (s->capacity < LINE_MAX_BYTES * 2) {
		size_t capacity = s->capacity ? s->capacity * 2 : BUFFER_BYTES;
		char *buffer = realloc(s->buffer, capacity);

		if (!buffer)
			return -ENOMEM;
		s->buffer = buffer;
		s->capacity = capacity;
	}
	return 0;
}

/* The position after the last complete line; for a very long line, the end of the buffer. */
static size_t whole_lines(const struct search *s, bool last)
{
	const char *end;

	if (last)
		return s->have;
	end = s->have > s->pos ? memrchr(s->buffer + s->pos, '\n', s->have - s->pos) : NULL;
	if (end)
		return (size_t)(end - s->buffer) + 1;
	return s->have - s->pos >= LINE_MAX_BYTES ? s->have : s->pos;
}

int search_file(struct search *s, int fd, struct str path)
{
	struct tool_end *end = &s->op->end;
	int r;

	s->path = path;
	s->have = s->pos = 0;
	s->line = 1;
	s->offset = s->sent_until = s->after_left = s->part_skipped = 0;
	end->files++;
	for (;;) {
		size_t limit;
		ssize_t n;

		r = make_room(s);
		if (r < 0)
			return r;
		n = read(fd, s->buffer + s->have, s->capacity - s->have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n && memchr(s->buffer + s->have, '\0', (size_t)n)) {
			end->skipped_binary++; /* also a hole at the start of a sparse file */
			return 0;
		}
		s->have += (size_t)n;
		end->bytes += (uint64_t)n;
		limit = whole_lines(s, n == 0);
		s->part = s->pos;
		pattern_prepare(s->pattern, (struct str){ s->buffer + s->pos, limit - s->pos });
		r = search_lines(s, limit);
		if (r == -E2BIG) {
			end->skipped_limit++;
			return 0;
		}
		if (r == -ETIME || (r == 0 && op_late(s->op))) {
			end->cut = TOOL_CUT_TIME;
			return 1;
		}
		if (r)
			return r;
		if (n == 0)
			return 0;
		if (limit > s->part)
			s->part_skipped = s->buffer[limit - 1] == '\n'
						  ? 0
						  : s->part_skipped + limit - s->part;
		slide(s, limit);
	}
}
