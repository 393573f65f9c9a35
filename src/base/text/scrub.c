/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/scrub.h"

#include <errno.h>
#include <stdio.h>

/* bytes; a line of a longer value (such as a key in PEM) is masked on its own from this length */
#define LINE_MIN 32
#define HELD_MAX ((size_t)64 << 20)

/*
 * A node is a prefix of some pattern. Few nodes have more than one child, so children are lists.
 * Only the root, which most bytes lead back to, has a table.
 */
struct node {
	uint32_t child, sibling; /* 0: none */
	uint32_t fail;		 /* the longest proper suffix that is also a prefix */
	uint32_t depth;
	uint32_t match; /* bytes of the longest pattern that ends here; 0: none */
	unsigned char byte;
};

struct scrub {
	unsigned refs;
	struct node *nodes;
	uint32_t count, capacity;
	uint32_t first[256];
	size_t longest;
};

int scrub_new(struct scrub **ret)
{
	struct scrub *scrub = calloc(1, sizeof(*scrub));

	if (scrub)
		scrub->nodes = calloc(64, sizeof(*scrub->nodes));
	if (!scrub || !scrub->nodes) {
		free(scrub);
		return -ENOMEM;
	}
	scrub->refs = 1;
	scrub->capacity = 64;
	scrub->count = 1; /* the root */
	*ret = scrub;
	return 0;
}

struct scrub *scrub_ref(struct scrub *scrub)
{
	scrub->refs++;
	return scrub;
}

void scrub_unref(struct scrub *scrub)
{
	if (!scrub || --scrub->refs)
		return;
	explicit_bzero(scrub->nodes, scrub->count * sizeof(*scrub->nodes));
	free(scrub->nodes);
	free(scrub);
}

size_t scrub_longest(const struct scrub *scrub)
{
	return scrub->longest;
}

/* ---- the automaton ---- */

static uint32_t child_of(const struct scrub *scrub, uint32_t at, unsigned char byte)
{
	uint32_t child;

	if (at == 0)
		return scrub->first[byte];
	child = scrub->nodes[at].child;
	while (child && scrub->nodes[child].byte != byte)
		child = scrub->nodes[child].sibling;
	return child;
}

static int grow(struct scrub *scrub)
{
	uint32_t capacity = scrub->capacity * 2;
	struct node *nodes;

	if (scrub->count < scrub->capacity)
		return 0;
	if (capacity > SCRUB_NODES_MAX)
		return -ENOBUFS;
	nodes = calloc(capacity, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	memcpy(nodes, scrub->nodes, scrub->count * sizeof(*nodes));
	explicit_bzero(scrub->nodes, scrub->count * sizeof(*nodes));
	free(scrub->nodes);
	scrub->nodes = nodes;
	scrub->capacity = capacity;
	return 0;
}

static int add_child(struct scrub *scrub, uint32_t at, unsigned char byte, uint32_t *ret)
{
	struct node *node;
	int r = grow(scrub);

	if (r < 0)
		return r;
	*ret = scrub->count++;
	node = &scrub->nodes[*ret];
	node->byte = byte;
	node->depth = scrub->nodes[at].depth + 1;
	if (at == 0) {
		scrub->first[byte] = *ret;
	} else {
		node->sibling = scrub->nodes[at].child;
		scrub->nodes[at].child = *ret;
	}
	return 0;
}

static int add_pattern(struct scrub *scrub, struct str pattern)
{
	uint32_t at = 0;

	if (pattern.n < SCRUB_VALUE_MIN)
		return 0;
	for (size_t i = 0; i < pattern.n; i++) {
		unsigned char byte = (unsigned char)pattern.p[i];
		uint32_t next = child_of(scrub, at, byte);
		int r = next ? 0 : add_child(scrub, at, byte, &next);

		if (r < 0)
			return r;
		at = next;
	}
	scrub->nodes[at].match = (uint32_t)pattern.n;
	scrub->longest = MAX(scrub->longest, pattern.n);
	return 0;
}

static uint32_t step(const struct scrub *scrub, uint32_t at, unsigned char byte)
{
	uint32_t next;

	while (!(next = child_of(scrub, at, byte)) && at)
		at = scrub->nodes[at].fail;
	return next;
}

static void link_fail(struct scrub *scrub, uint32_t parent, uint32_t at)
{
	struct node *node = &scrub->nodes[at];

	node->fail = parent ? step(scrub, scrub->nodes[parent].fail, node->byte) : 0;
	if (!node->match)
		node->match = scrub->nodes[node->fail].match;
}

int scrub_finish(struct scrub *scrub)
{
	uint32_t *queue = calloc(scrub->count, sizeof(*queue));
	uint32_t head = 0, tail = 0;

	if (!queue)
		return -ENOMEM;
	/* By depth: the fallback of a node is shorter and therefore already done. */
	for (int byte = 0; byte < 256; byte++) {
		if (!scrub->first[byte])
			continue;
		link_fail(scrub, 0, scrub->first[byte]);
		queue[tail++] = scrub->first[byte];
	}
	while (head < tail) {
		uint32_t parent = queue[head++];

		for (uint32_t at = scrub->nodes[parent].child; at; at = scrub->nodes[at].sibling) {
			link_fail(scrub, parent, at);
			queue[tail++] = at;
		}
	}
	free(queue);
	return 0;
}

/* ---- forms of a value ---- */

static int add_built(struct scrub *scrub, struct buf *out)
{
	int r = add_pattern(scrub, buf_str(out));

	buf_clear(out);
	return r;
}

static int add_lines(struct scrub *scrub, struct str value)
{
	struct str line, rest = value;
	bool more = true;
	int r = 0;

	if (!memchr(value.p, '\n', value.n))
		return 0;
	while (more && r == 0) {
		more = str_cut(rest, '\n', &line, &rest);
		if (!more)
			line = rest;
		line = str_trim(line, "\r");
		if (line.n >= LINE_MIN && !memchr(line.p, ' ', line.n))
			r = add_pattern(scrub, line);
	}
	return r;
}

static int add_hex(struct scrub *scrub, struct str value, struct buf *out, const char *digits)
{
	int r = 0;

	for (size_t i = 0; i < value.n && r == 0; i++) {
		unsigned char c = (unsigned char)value.p[i];

		r = buf_putc(out, digits[c >> 4]);
		if (r == 0)
			r = buf_putc(out, digits[c & 15]);
	}
	return r < 0 ? r : add_built(scrub, out);
}

/* keep: characters that stay as they are besides letters and digits; plus: a space becomes '+'. */
static int add_percent(struct scrub *scrub, struct str value, struct buf *out, const char *digits,
		       const char *keep, bool plus)
{
	int r = 0;

	for (size_t i = 0; i < value.n && r == 0; i++) {
		unsigned char c = (unsigned char)value.p[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || (c && strchr(keep, c));

		if (plain || (plus && c == ' '))
			r = buf_putc(out, plain ? (char)c : '+');
		else
			r = buf_printf(out, "%%%c%c", digits[c >> 4], digits[c & 15]);
	}
	return r < 0 ? r : add_built(scrub, out);
}

static int add_json(struct scrub *scrub, struct str value, struct buf *out, bool slash)
{
	static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
	int r = 0;

	for (size_t i = 0; i < value.n && r == 0; i++) {
		unsigned char c = (unsigned char)value.p[i];
		const char *at = c ? strchr(from, c) : NULL;

		if (at)
			r = buf_printf(out, "\\%c", to[at - from]);
		else if (slash && c == '/')
			r = buf_puts(out, "\\/");
		else if (c < 0x20)
			r = buf_printf(out, "\\u%04x", c);
		else
			r = buf_putc(out, (char)c);
	}
	return r < 0 ? r : add_built(scrub, out);
}

/*
 * Writes the base64 digits that depend on the value alone, when the value starts shift bytes into a
 * longer text.
 */
static int put_base64(struct str value, struct buf *out, bool url, unsigned shift)
{
	static const char standard[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t first = (shift * 8 + 5) / 6, end = (shift + value.n) * 8 / 6;
	int r = 0;

	for (size_t digit = first; digit < end && r == 0; digit++) {
		unsigned bits = 0;
		char c;

		for (size_t bit = digit * 6; bit < digit * 6 + 6; bit++) {
			unsigned char byte = (unsigned char)value.p[bit / 8 - shift];

			bits = bits << 1 | (byte >> (7 - bit % 8) & 1);
		}
		c = standard[bits];
		r = buf_putc(out, url && c == '+' ? '-' : url && c == '/' ? '_' : c);
	}
	return r;
}

static int add_base64(struct scrub *scrub, struct str value, struct buf *out)
{
	/* base64(1) breaks lines at 76 characters, PEM at 64 */
	static const size_t line_bytes[] = { 57, 48 };
	int r = 0;

	for (unsigned i = 0; i < 6 && r == 0; i++) {
		r = put_base64(value, out, i >= 3, i % 3);
		if (r == 0)
			r = add_built(scrub, out);
	}
	for (size_t k = 0; k < ARRAY_LEN(line_bytes); k++)
		for (size_t at = 0; value.n > line_bytes[k] && at < value.n && r == 0;
		     at += line_bytes[k]) {
			struct str piece = { value.p + at, MIN(line_bytes[k], value.n - at) };

			r = put_base64(piece, out, false, 0);
			if (r == 0)
				r = add_built(scrub, out);
		}
	return r;
}

static int add_encoded(struct scrub *scrub, struct str value, struct buf *out)
{
	static const char upper[] = "0123456789ABCDEF", lower[] = "0123456789abcdef";
	int r = add_hex(scrub, value, out, lower);

	if (r == 0)
		r = add_hex(scrub, value, out, upper);
	for (int i = 0; i < 2 && r == 0; i++) {
		const char *digits = i ? lower : upper;

		r = add_percent(scrub, value, out, digits, "-._~", false); /* RFC 3986 */
		if (r == 0)
			r = add_percent(scrub, value, out, digits, "-._~/", false); /* Python */
		if (r == 0)
			r = add_percent(scrub, value, out, digits, "-._~!'()*", false); /* Node */
		if (r == 0)
			r = add_percent(scrub, value, out, digits, "-._*", true); /* forms */
		if (r == 0)
			r = add_percent(scrub, value, out, digits, "-._~", true); /* Python's */
	}
	if (r == 0)
		r = add_json(scrub, value, out, false);
	if (r == 0)
		r = add_json(scrub, value, out, true);
	return r;
}

int scrub_add(struct scrub *scrub, struct str value)
{
	struct buf out;
	int r;

	if (value.n < SCRUB_VALUE_MIN)
		return 0;
	if (value.n > SCRUB_VALUE_MAX)
		return -ENOBUFS;
	buf_init(&out, 6 * SCRUB_VALUE_MAX);
	r = add_pattern(scrub, value);
	if (r == 0)
		r = add_lines(scrub, value);
	if (r == 0)
		r = add_base64(scrub, value, &out);
	if (r == 0)
		r = add_encoded(scrub, value, &out);
	if (out.base)
		explicit_bzero(out.base, out.capacity);
	buf_done(&out);
	return r;
}

/* ---- use ---- */

/* Continues from node over p[from..n) and masks in p[0..n). */
static bool run(const struct scrub *scrub, uint32_t *node, char *p, size_t from, size_t n)
{
	bool found = false;
	uint32_t at = *node;

	for (size_t i = from; i < n; i++) {
		size_t match;

		at = step(scrub, at, (unsigned char)p[i]);
		match = scrub->nodes[at].match;
		if (!match)
			continue;
		match = MIN(match, i + 1); /* its start may have been passed on already */
		memset(p + i + 1 - match, SCRUB_MASK, match);
		found = true;
	}
	*node = at;
	return found;
}

bool scrub_text(const struct scrub *scrub, char *p, size_t n, bool cut)
{
	uint32_t node = 0;
	bool found = run(scrub, &node, p, 0, n);
	size_t tail = scrub->nodes[node].depth;

	if (!cut || tail <= SCRUB_SHOWN_MAX)
		return found;
	memset(p + n - tail, SCRUB_MASK, tail);
	return true;
}

void scrub_stream_init(struct scrub_stream *stream, struct scrub *scrub)
{
	*stream = (struct scrub_stream){ .scrub = scrub ? scrub_ref(scrub) : NULL };
	buf_init(&stream->held, HELD_MAX);
}

void scrub_stream_done(struct scrub_stream *stream)
{
	scrub_unref(stream->scrub);
	buf_done(&stream->held);
	*stream = (struct scrub_stream){ .scrub = NULL };
}

static void take_given(struct scrub_stream *stream)
{
	buf_consume(&stream->held, stream->given);
	stream->given = 0;
}

struct str scrub_stream_feed(struct scrub_stream *stream, struct str bytes)
{
	struct buf *held = &stream->held;
	size_t before, keep;

	if (!stream->scrub)
		return bytes;
	take_given(stream);
	before = buf_len(held);
	if (bytes.n && buf_append(held, bytes.p, bytes.n) < 0)
		return (struct str){ "", 0 };
	(void)run(stream->scrub, &stream->node, buf_data(held), before, buf_len(held));
	keep = MIN(stream->scrub->nodes[stream->node].depth, buf_len(held));
	stream->given = buf_len(held) - keep;
	return (struct str){ held->base ? buf_data(held) : "", stream->given };
}

struct str scrub_stream_flush(struct scrub_stream *stream)
{
	take_given(stream);
	stream->given = buf_len(&stream->held);
	/*
	 * Bytes that were already passed on count as well: a match of more than a few bytes is not
	 * a coincidence.
	 */
	if (stream->given && stream->scrub->nodes[stream->node].depth > SCRUB_SHOWN_MAX)
		memset(buf_data(&stream->held), SCRUB_MASK, stream->given);
	return buf_str(&stream->held);
}

size_t scrub_stream_held(const struct scrub_stream *stream)
{
	return buf_len(&stream->held) - stream->given;
}
