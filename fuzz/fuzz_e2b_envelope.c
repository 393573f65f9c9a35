/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connect envelopes: the first message is the same however many bytes follow it, and a written
 * envelope is parsed again.
 */
#include <assert.h>
#include <errno.h>

#include "face/e2b/envd/connect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT 4096

static void check_again(struct str message)
{
	struct str got = { NULL, 0 };
	struct buf out;
	size_t used = 0;
	bool end = true;

	buf_init(&out, LIMIT + ENVELOPE_HEAD);
	assert(envelope_begin(&out) == 0);
	assert(buf_append(&out, message.p, message.n) == 0);
	envelope_close(&out, 0);
	assert(envelope_next(buf_str(&out), LIMIT, &got, &used, &end) == 1);
	assert(str_eq(got, message) && used == buf_len(&out) && !end);
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str bytes = { (const char *)data, size };

	while (bytes.n) {
		struct str message = { NULL, 0 }, shorter = { NULL, 0 };
		size_t used = 0, n = 0;
		bool end = false, other = false;
		int r = envelope_next(bytes, LIMIT, &message, &used, &end);

		assert(r == 1 || r == 0 || r == -EINVAL || r == -EFBIG);
		if (r != 1)
			break;
		assert(message.n <= LIMIT && used == message.n + ENVELOPE_HEAD && used <= bytes.n);
		assert(envelope_next((struct str){ bytes.p, used }, LIMIT, &shorter, &n, &other) ==
		       1);
		assert(str_eq(message, shorter) && n == used && end == other);
		assert(envelope_next((struct str){ bytes.p, used - 1 }, LIMIT, &shorter, &n,
				     &other) == 0);
		check_again(message);
		bytes = (struct str){ bytes.p + used, bytes.n - used };
	}
	return 0;
}
