/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writing half of base/json.h. It does not use jansson: text is appended to the caller's
 * buffer.
 */
#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/time.h"

void json_writer_init(struct json_writer *w, struct buf *out)
{
	*w = (struct json_writer){ .out = out };
}

static void put(struct json_writer *w, const char *p, size_t n)
{
	if (w->error == 0)
		w->error = buf_append(w->out, p, n);
}

/* Length of the valid multi-byte UTF-8 sequence at p, or 0. */
static size_t sequence(const char *p, size_t n)
{
	unsigned char lead = (unsigned char)p[0];
	size_t len = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;

	return len <= n && str_is_utf8(p, len) ? len : 0;
}

static void put_escape(struct json_writer *w, unsigned char c)
{
	static const char letters[] = { ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
					['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\' };
	static const char digits[] = "0123456789abcdef";
	char text[6] = { '\\', 'u', '0', '0', digits[c >> 4], digits[c & 15] };

	if (c < sizeof(letters) && letters[c]) {
		text[1] = letters[c];
		put(w, text, 2);
	} else {
		put(w, text, 6);
	}
}

static void put_quoted(struct json_writer *w, struct str s)
{
	size_t i = 0;

	put(w, "\"", 1);
	while (i < s.n && w->error == 0) {
		size_t start = i, len;

		/* Runs of plain text and of whole UTF-8 sequences are copied in one piece. */
		for (; i < s.n; i += len) {
			unsigned char c = (unsigned char)s.p[i];

			if (c >= 0x80)
				len = sequence(s.p + i, s.n - i);
			else
				len = c >= 0x20 && c != '"' && c != '\\' && c != 0x7f;
			if (len == 0)
				break;
		}
		put(w, s.p + start, i - start);
		if (i < s.n) {
			unsigned char c = (unsigned char)s.p[i++];

			if (c >= 0x80)
				put(w, "\xef\xbf\xbd", 3);
			else
				put_escape(w, c);
		}
	}
	put(w, "\"", 1);
}

/* Writes what precedes a value: a comma, and the key in objects. */
static void put_lead(struct json_writer *w, const char *key)
{
	if (w->comma)
		put(w, ",", 1);
	w->comma = true;
	if (key) {
		put_quoted(w, str_of(key));
		put(w, ":", 1);
	}
}

static void begin(struct json_writer *w, const char *key, const char *bracket)
{
	put_lead(w, key);
	put(w, bracket, 1);
	w->comma = false;
	w->depth++;
}

static void end(struct json_writer *w, const char *bracket)
{
	put(w, bracket, 1);
	w->comma = true;
	w->depth--;
}

void json_begin_object(struct json_writer *w, const char *key)
{
	begin(w, key, "{");
}

void json_end_object(struct json_writer *w)
{
	end(w, "}");
}

void json_begin_array(struct json_writer *w, const char *key)
{
	begin(w, key, "[");
}

void json_end_array(struct json_writer *w)
{
	end(w, "]");
}

void json_put_str(struct json_writer *w, const char *key, struct str value)
{
	put_lead(w, key);
	put_quoted(w, value);
}

void json_put_text(struct json_writer *w, const char *key, const char *value)
{
	if (value)
		json_put_str(w, key, str_of(value));
	else
		json_put_null(w, key);
}

void json_put_raw(struct json_writer *w, const char *key, struct str json)
{
	put_lead(w, key);
	put(w, json.p, json.n);
}

void json_put_int(struct json_writer *w, const char *key, int64_t value)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%" PRId64, value);

	json_put_raw(w, key, (struct str){ text, (size_t)n });
}

void json_put_real(struct json_writer *w, const char *key, double value)
{
	char text[40];
	int n;

	if (!isfinite(value)) { /* JSON cannot represent it */
		json_put_null(w, key);
		return;
	}
	n = snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) != value)
		n = snprintf(text, sizeof(text), "%.17g", value);
	if (!strpbrk(text, ".e")) /* a parser must read it back as a real */
		n += snprintf(text + n, sizeof(text) - (size_t)n, ".0");
	json_put_raw(w, key, (struct str){ text, (size_t)n });
}

void json_put_milli(struct json_writer *w, const char *key, int64_t milli)
{
	if (milli % 1000)
		json_put_real(w, key, (double)milli / 1000);
	else
		json_put_int(w, key, milli / 1000);
}

void json_put_bool(struct json_writer *w, const char *key, bool value)
{
	json_put_raw(w, key, value ? STR_LIT("true") : STR_LIT("false"));
}

void json_put_null(struct json_writer *w, const char *key)
{
	json_put_raw(w, key, STR_LIT("null"));
}

void json_put_time(struct json_writer *w, const char *key, int64_t real_ms)
{
	char text[TIME_RFC3339_SIZE];

	if (real_ms <= 0) {
		json_put_null(w, key);
		return;
	}
	time_rfc3339(text, real_ms);
	json_put_text(w, key, text);
}

void json_put_b64(struct json_writer *w, const char *key, struct str bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = (const unsigned char *)bytes.p;
	size_t size = (bytes.n + 2) / 3 * 4;
	char *at = NULL;

	put_lead(w, key);
	put(w, "\"", 1);
	if (w->error == 0)
		w->error = buf_reserve(w->out, size, &at);
	if (w->error != 0)
		return;
	for (size_t i = 0; i < bytes.n; i += 3) {
		size_t left = bytes.n - i;
		uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
			     (left > 2 ? p[i + 2] : 0);

		*at++ = digits[v >> 18];
		*at++ = digits[v >> 12 & 63];
		*at++ = left > 1 ? digits[v >> 6 & 63] : '=';
		*at++ = left > 2 ? digits[v & 63] : '=';
	}
	buf_commit(w->out, size);
	put(w, "\"", 1);
}

int json_writer_end(struct json_writer *w)
{
	if (w->error == 0 && w->depth != 0)
		w->error = -EINVAL; /* begin and end calls are unbalanced */
	return w->error;
}
