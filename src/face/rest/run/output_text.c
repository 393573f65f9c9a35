/* SPDX-License-Identifier: Apache-2.0 */
/* Output of programs in JSON: as text if it is text, otherwise as base64. */
#include "face/rest/run/stream.h"

static size_t sequence_len(unsigned char lead)
{
	if (lead >= 0xf0 && lead <= 0xf4)
		return 4;
	if (lead >= 0xe0 && lead < 0xf0)
		return 3;
	return lead >= 0xc2 && lead < 0xe0 ? 2 : 1;
}

size_t text_whole(struct str s)
{
	/*
	 * The last byte that is not a continuation, at most three back, may start an incomplete
	 * sequence.
	 */
	for (size_t back = 1; back <= 3 && back <= s.n; back++) {
		unsigned char c = (unsigned char)s.p[s.n - back];

		if ((c & 0xc0) == 0x80)
			continue;
		return sequence_len(c) > back ? s.n - back : s.n;
	}
	return s.n;
}

/* A byte that takes six bytes in JSON. */
static bool is_costly(unsigned char c)
{
	return c == 0x7f ||
	       (c < 0x20 && c != '\n' && c != '\t' && c != '\r' && c != '\b' && c != '\f');
}

bool text_is_plain(struct str s)
{
	size_t costly = 0;

	if (!str_is_utf8(s.p, s.n))
		return false;
	for (size_t i = 0; i < s.n; i++)
		costly += is_costly((unsigned char)s.p[i]);
	return costly <= 16 || costly <= s.n / 4;
}

void text_put(struct json_writer *w, const char *key, const char *key_b64, struct str s)
{
	if (text_is_plain(s))
		json_put_str(w, key, s);
	else
		json_put_b64(w, key_b64, s);
}
