/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and credentials of E2B: hosts "PORT-ID.domain" and "Basic" headers. */
#include <assert.h>

#include "face/e2b/envd/envd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = { (const char *)data, size }, id, user;
	struct arena arena;
	uint64_t port;

	arena_init(&arena, 1 << 20);
	if (envd_host_parse(text, &port, &id)) {
		assert(port <= UINT16_MAX && id.n > 0 && id.p > text.p);
		assert(!memchr(id.p, '-', id.n) && !memchr(id.p, '.', id.n));
	}
	if (envd_basic_user(&arena, text, &user) == 0) {
		assert(user.n > 0 && user.n <= E2B_USER_MAX);
		assert(!memchr(user.p, ':', user.n) && !memchr(user.p, 0, user.n));
	}
	arena_done(&arena);
	return 0;
}
