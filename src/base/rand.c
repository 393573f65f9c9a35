/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rand.h"

#include <errno.h>
#include <sys/random.h>

void rand_bytes(void *p, size_t n)
{
	char *at = p;

	while (n) {
		ssize_t r = getrandom(at, n, 0);

		if (r < 0 && errno != EINTR)
			abort();
		if (r > 0) {
			at += r;
			n -= (size_t)r;
		}
	}
}

void rand_label(char *dst, size_t n)
{
	static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t i = 0;

	while (i < n) {
		unsigned char pool[64];

		rand_bytes(pool, sizeof(pool));
		for (size_t k = 0; k < sizeof(pool) && i < n; k++)
			if (pool[k] < 252) /* 252 = 7 * 36: no bias */
				dst[i++] = alphabet[pool[k] % 36];
	}
	dst[n] = '\0';
}
