/* SPDX-License-Identifier: Apache-2.0 */
#include "http/websocket/key.h"

#include "base/rand.h"
#include "http/websocket/sha1.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode(char *dst, const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i += 3) {
		size_t left = MIN(n - i, (size_t)3);
		uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
			     (left > 2 ? p[i + 2] : 0);

		*dst++ = alphabet[v >> 18];
		*dst++ = alphabet[v >> 12 & 63];
		*dst++ = '=';
		*dst++ = '=';
		if (left > 1)
			dst[-2] = alphabet[v >> 6 & 63];
		if (left > 2)
			dst[-1] = alphabet[v & 63];
	}
	*dst = '\0';
}

void websocket_key_make(char dst[WEBSOCKET_KEY_LEN + 1])
{
	unsigned char nonce[16];

	rand_bytes(nonce, sizeof(nonce));
	encode(dst, nonce, sizeof(nonce));
}

bool websocket_key_is_valid(struct str key)
{
	if (key.n != WEBSOCKET_KEY_LEN || key.p[22] != '=' || key.p[23] != '=')
		return false;
	for (size_t i = 0; i < 22; i++)
		if (key.p[i] == '\0' || !strchr(alphabet, key.p[i]))
			return false;
	/* The last digit has two bits of the sixteenth byte; its other bits must be zero. */
	return strchr("AQgw", key.p[21]) != NULL;
}

void websocket_key_answer(char dst[WEBSOCKET_ANSWER_LEN + 1], struct str key)
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	char text[WEBSOCKET_KEY_LEN + sizeof(guid) - 1];
	unsigned char digest[SHA1_BYTES];

	assert(key.n == WEBSOCKET_KEY_LEN);
	memcpy(text, key.p, WEBSOCKET_KEY_LEN);
	memcpy(text + WEBSOCKET_KEY_LEN, guid, sizeof(guid) - 1);
	sha1(digest, (struct str){ text, sizeof(text) });
	encode(dst, digest, sizeof(digest));
}
