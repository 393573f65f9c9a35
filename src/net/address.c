/* SPDX-License-Identifier: Apache-2.0 */
#include "net/address.h"

#include <netinet/in.h>
#include <string.h>

struct range {
	uint8_t bytes[16];
	uint8_t bits;
};

/* IANA's special-purpose registries, RFC 6890 and its updates. */
static const struct range special4[] = {
	{ { 0 }, 8 },
	{ { 10 }, 8 },
	{ { 100, 64 }, 10 },
	{ { 127 }, 8 },
	{ { 169, 254 }, 16 },
	{ { 172, 16 }, 12 },
	{ { 192, 0, 0 }, 24 },
	{ { 192, 0, 2 }, 24 },
	{ { 192, 31, 196 }, 24 },
	{ { 192, 52, 193 }, 24 },
	{ { 192, 88, 99 }, 24 },
	{ { 192, 168 }, 16 },
	{ { 192, 175, 48 }, 24 },
	{ { 198, 18 }, 15 },
	{ { 198, 51, 100 }, 24 },
	{ { 203, 0, 113 }, 24 },
	{ { 224 }, 4 },
	{ { 240 }, 4 },
};
/* Nothing outside 2000::/3 is global unicast; these ranges inside it are special. */
static const struct range special6[] = {
	{ { 0x20, 0x01, 0x00 }, 23 },		  /* protocol assignments, Teredo */
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32 },	  /* documentation */
	{ { 0x26, 0x20, 0x00, 0x4f, 0x80 }, 48 }, /* AS112 */
	{ { 0x3f, 0xff, 0x00 }, 20 },		  /* documentation */
};

static bool in_range(const uint8_t *address, const struct range *range)
{
	size_t whole = range->bits / 8, rest = range->bits % 8;

	if (memcmp(address, range->bytes, whole) != 0)
		return false;
	return rest == 0 || ((address[whole] ^ range->bytes[whole]) >> (8 - rest)) == 0;
}

static bool public4(const uint8_t address[4])
{
	for (size_t i = 0; i < ARRAY_LEN(special4); i++)
		if (in_range(address, &special4[i]))
			return false;
	return true;
}

static bool public6(const uint8_t address[16])
{
	static const struct range mapped = { { [10] = 0xff, [11] = 0xff }, 96 };
	static const struct range nat64 = { { 0x00, 0x64, 0xff, 0x9b }, 96 };
	static const struct range six_to_four = { { 0x20, 0x02 }, 16 };
	static const struct range unicast = { { 0x20 }, 3 };

	if (in_range(address, &mapped) || in_range(address, &nat64))
		return public4(address + 12);
	if (in_range(address, &six_to_four))
		return public4(address + 2);
	if (!in_range(address, &unicast))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(special6); i++)
		if (in_range(address, &special6[i]))
			return false;
	return true;
}

/* Connected to it, a datagram socket has the address we would come from: its own means ours. */
bool address_is_local(const struct sockaddr *address, socklen_t size)
{
	_cleanup_close_ int fd = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
	socklen_t from_size = sizeof(from);

	if (fd < 0)
		return true;
	if (connect(fd, address, size) < 0 ||
	    getsockname(fd, (struct sockaddr *)&from, &from_size) < 0)
		return false;
	if (address->sa_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)(const void *)&from)->sin_addr.s_addr;
	return memcmp(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr,
		      &((const struct sockaddr_in6 *)(const void *)&from)->sin6_addr,
		      sizeof(struct in6_addr)) == 0;
}

bool address_is_public(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)address;

		return public4((const uint8_t *)&in->sin_addr);
	}
	if (address->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)address;

		return public6(in6->sin6_addr.s6_addr);
	}
	return false;
}
