/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input: old_string NUL new_string NUL text. The result must equal that of a slow and simple
 * implementation.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "tools/content/lines.h"
#include "tools/content/replace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RESULT_MAX 65536

static void on_line(void *arg, const struct tool_line *line)
{
	uint64_t *sum = arg;

	*sum += line->number + line->text.n;
}

/* However the bytes are split, the lines are the same. */
static void check_lines(struct str text)
{
	uint64_t sums[2] = { 0, 0 }, numbers[2];
	static struct lines l;

	for (size_t way = 0; way < 2; way++) {
		size_t piece = way ? 3 : MAX(text.n, 1);

		l = (struct lines){ .first = 1 + text.n % 3,
				    .count = 4,
				    .bytes_max = 1000,
				    .emit = on_line,
				    .arg = &sums[way] };
		for (size_t at = 0; at < text.n; at += piece)
			lines_feed(&l, (struct str){ text.p + at, MIN(piece, text.n - at) });
		(void)lines_finish(&l);
		numbers[way] = l.number;
	}
	if (sums[0] != sums[1] || numbers[0] != numbers[1])
		abort();
}

static void check_plain(const struct replace *r)
{
	struct buf want;
	struct str t = r->text;
	uint64_t count = 0;

	buf_init(&want, RESULT_MAX);
	for (size_t i = 0; i < t.n;) {
		if (t.n - i >= r->old_string.n &&
		    memcmp(t.p + i, r->old_string.p, r->old_string.n) == 0) {
			if (buf_append(&want, r->new_string.p, r->new_string.n) < 0)
				abort();
			i += r->old_string.n;
			count++;
		} else if (buf_putc(&want, t.p[i++]) < 0) {
			abort();
		}
	}
	if (count != r->count || !str_eq(buf_str(&want), (struct str){ r->result, r->result_len }))
		abort();
	buf_done(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = { (const char *)data, size };
	struct replace r = { .all = size & 1 };
	int e;

	if (!str_cut(rest, '\0', &r.old_string, &rest) ||
	    !str_cut(rest, '\0', &r.new_string, &rest))
		return 0;
	r.text = rest;
	check_lines(rest);
	e = replace_run(&r, RESULT_MAX);
	if (e == 0 && !r.crlf)
		check_plain(&r);
	if (e == -EEXIST && r.count < 2)
		abort();
	free(r.result);
	return 0;
}
