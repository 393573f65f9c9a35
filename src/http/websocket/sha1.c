/* SPDX-License-Identifier: Apache-2.0 */
/* FIPS 180-4, section 6.1. */
#include "http/websocket/sha1.h"

#define BLOCK 64

static uint32_t rotate(uint32_t x, unsigned int n)
{
	return x << n | x >> (32 - n);
}

static uint32_t mix(int t, uint32_t b, uint32_t c, uint32_t d)
{
	if (t < 20)
		return (b & c) | (~b & d);
	if (t >= 40 && t < 60)
		return (b & c) | (b & d) | (c & d);
	return b ^ c ^ d;
}

static void add_block(uint32_t h[5], const unsigned char *p)
{
	static const uint32_t k[] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
	uint32_t w[80], v[5];

	for (size_t t = 0; t < 16; t++)
		w[t] = (uint32_t)p[4 * t] << 24 | (uint32_t)p[4 * t + 1] << 16 |
		       (uint32_t)p[4 * t + 2] << 8 | p[4 * t + 3];
	for (int t = 16; t < 80; t++)
		w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
	memcpy(v, h, sizeof(v));
	for (int t = 0; t < 80; t++) {
		uint32_t x = rotate(v[0], 5) + mix(t, v[1], v[2], v[3]) + v[4] + k[t / 20] + w[t];

		v[4] = v[3];
		v[3] = v[2];
		v[2] = rotate(v[1], 30);
		v[1] = v[0];
		v[0] = x;
	}
	for (int i = 0; i < 5; i++)
		h[i] += v[i];
}

void sha1(unsigned char dst[SHA1_BYTES], struct str bytes)
{
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	unsigned char last[2 * BLOCK] = { 0 };
	size_t whole = bytes.n / BLOCK * BLOCK, rest = bytes.n - whole;
	size_t end = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;

	for (size_t at = 0; at < whole; at += BLOCK)
		add_block(h, (const unsigned char *)bytes.p + at);
	if (rest)
		memcpy(last, bytes.p + whole, rest);
	last[rest] = 0x80;
	for (size_t i = 0; i < 8; i++)
		last[end - 1 - i] = (unsigned char)((uint64_t)bytes.n * 8 >> (8 * i));
	for (size_t at = 0; at < end; at += BLOCK)
		add_block(h, last + at);
	for (size_t i = 0; i < SHA1_BYTES; i++)
		dst[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}
