/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of rejected packets: the kernel wraps what a sandbox sent. Whatever the packet contains,
 * nothing is read beyond its end, and only UDP has a port.
 */
#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "sys/net/nft.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void each(void *arg, const struct nft_denied *denied)
{
	size_t *count = arg;

	(*count)++;
	assert(denied->port == 0 || denied->protocol == IPPROTO_UDP);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int pair[2] = { -1, -1 };
	size_t count = 0;

	if (size == 0 || size > 16384)
		return 0;
	if (pair[0] < 0 && socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	if (send(pair[0], data, size, 0) != (ssize_t)size)
		abort();
	assert(nft_log_read(pair[1], each, &count) == 0);
	assert(count <= size / 20); /* of an IP header */
	return 0;
}
