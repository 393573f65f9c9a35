/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/name.h"

static size_t whole_char(struct str s)
{
	for (size_t n = 1; n <= 4 && n <= s.n; n++)
		if (str_is_utf8(s.p, n))
			return n;
	return 0;
}

static void put_escaped(struct json_writer *w, const char *key, struct str name)
{
	struct buf shown;
	int r = 0;

	buf_init(&shown, 4 * name.n + 1);
	while (name.n && r == 0) {
		size_t n = whole_char(name);

		if (n)
			r = buf_append(&shown, name.p, n);
		else
			r = buf_printf(&shown, "\\x%02x", (unsigned char)name.p[0]);
		n = MAX(n, 1);
		name.p += n;
		name.n -= n;
	}
	if (r < 0)
		w->error = r;
	else
		json_put_str(w, key, buf_str(&shown));
	buf_done(&shown);
}

void name_write(struct json_writer *w, const char *key, const char *key_b64, struct str name)
{
	if (str_is_utf8(name.p, name.n)) {
		json_put_str(w, key, name);
		return;
	}
	put_escaped(w, key, name);
	if (key_b64)
		json_put_b64(w, key_b64, name);
}
