/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masking: any split yields the same result as the whole, with the same length, and no value
 * remains.
 */
#include <assert.h>

#include "base/text/scrub.h"

#define INPUT_MAX 1024 /* patterns are made of both values each time */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_splits(struct scrub *scrub, struct str text, const char *want, size_t step)
{
	char *got = malloc(text.n + 1);
	struct scrub_stream stream;
	size_t put = 0;
	struct str s;

	assert(got);
	scrub_stream_init(&stream, scrub);
	for (size_t at = 0; at < text.n; at += step) {
		s = scrub_stream_feed(&stream, (struct str){ text.p + at, MIN(step, text.n - at) });
		memcpy(got + put, s.p, s.n);
		put += s.n;
		assert(scrub_stream_held(&stream) <= scrub_longest(scrub));
	}
	s = scrub_stream_flush(&stream);
	if (s.n)
		memcpy(got + put, s.p, s.n);
	assert(put + s.n == text.n && (!text.n || memcmp(got, want, text.n) == 0));
	scrub_stream_done(&stream);
	free(got);
}

/* Bytes: lengths of two values, a step, then the values and the text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str values[2], rest;
	struct scrub *scrub;
	size_t step;
	char *want;

	if (size < 3 || size > INPUT_MAX)
		return 0;
	rest = (struct str){ (const char *)data + 3, size - 3 };
	for (int i = 0; i < 2; i++) {
		size_t n = MIN(data[i], rest.n);

		values[i] = (struct str){ rest.p, n };
		rest = (struct str){ rest.p + n, rest.n - n };
	}
	step = 1 + data[2];
	if (scrub_new(&scrub) < 0)
		return 0;
	if (scrub_add(scrub, values[0]) < 0 || scrub_add(scrub, values[1]) < 0 ||
	    scrub_finish(scrub) < 0)
		abort();
	want = malloc(rest.n + 1);
	assert(want);
	memcpy(want, rest.p, rest.n);
	(void)scrub_text(scrub, want, rest.n, true);
	for (int i = 0; i < 2; i++) {
		bool stars = values[i].n > 0;

		for (size_t k = 0; k < values[i].n; k++)
			stars = stars && values[i].p[k] == SCRUB_MASK;
		if (values[i].n >= SCRUB_VALUE_MIN && !stars &&
		    !memchr(values[i].p, SCRUB_MASK, values[i].n))
			assert(!memmem(want, rest.n, values[i].p, values[i].n));
	}
	check_splits(scrub, rest, want, step);
	check_splits(scrub, rest, want, 1);
	free(want);
	scrub_unref(scrub);
	return 0;
}
