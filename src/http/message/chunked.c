/* SPDX-License-Identifier: Apache-2.0 */
#include "http/message/chunked.h"

#include <errno.h>

#include "http/message/head.h"

void http_chunked_init(struct http_chunked *c)
{
	*c = (struct http_chunked){ .state = HTTP_CHUNK_SIZE };
}

static int digit_of(char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	if (ch >= 'a' && ch <= 'f')
		return ch - 'a' + 10;
	if (ch >= 'A' && ch <= 'F')
		return ch - 'A' + 10;
	return -1;
}

/*
 * Some parsers accept "5 ;x" and "0x5" as sizes and others do not: accept only digits, then ; or
 * CR.
 */
static enum http_chunk_state on_size(struct http_chunked *c, char ch)
{
	int digit = digit_of(ch);

	if (digit >= 0) {
		if (c->digits == HTTP_CHUNK_DIGITS_MAX || c->left > INT64_MAX / 16)
			return HTTP_CHUNK_FAILED;
		c->digits++;
		c->left = c->left * 16 + (unsigned)digit;
		return HTTP_CHUNK_SIZE;
	}
	if (c->digits == 0)
		return HTTP_CHUNK_FAILED;
	if (ch == ';') {
		c->extension_bytes = 0;
		return HTTP_CHUNK_EXTENSION;
	}
	return ch == '\r' ? HTTP_CHUNK_SIZE_LF : HTTP_CHUNK_FAILED;
}

static enum http_chunk_state on_extension(struct http_chunked *c, char ch)
{
	if (ch == '\r')
		return HTTP_CHUNK_SIZE_LF;
	if (!http_is_field_value((struct str){ &ch, 1 }) ||
	    ++c->extension_bytes > HTTP_CHUNK_EXTENSION_MAX ||
	    ++c->extensions_bytes > HTTP_CHUNK_EXTENSIONS_MAX)
		return HTTP_CHUNK_FAILED;
	return HTTP_CHUNK_EXTENSION;
}

static enum http_chunk_state on_trailer(struct http_chunked *c, char ch)
{
	struct str one = { &ch, 1 };

	if (c->trailer_bytes < sizeof(c->trailer))
		c->trailer[c->trailer_bytes] = ch;
	if (++c->trailer_bytes > HTTP_CHUNK_TRAILER_MAX || (c->keep && buf_putc(c->keep, ch) < 0))
		return HTTP_CHUNK_FAILED;
	if (c->state == HTTP_CHUNK_TRAILER_START && ch == '\r')
		return HTTP_CHUNK_END_LF;
	if (c->state == HTTP_CHUNK_TRAILER_VALUE) {
		if (ch == '\r')
			return HTTP_CHUNK_TRAILER_LF;
		return http_is_field_value(one) ? HTTP_CHUNK_TRAILER_VALUE : HTTP_CHUNK_FAILED;
	}
	if (c->state == HTTP_CHUNK_TRAILER_NAME && ch == ':')
		return HTTP_CHUNK_TRAILER_VALUE;
	return http_is_token(one) ? HTTP_CHUNK_TRAILER_NAME : HTTP_CHUNK_FAILED;
}

static enum http_chunk_state expect(char ch, char want, enum http_chunk_state next)
{
	return ch == want ? next : HTTP_CHUNK_FAILED;
}

static enum http_chunk_state step(struct http_chunked *c, char ch)
{
	switch (c->state) {
	case HTTP_CHUNK_SIZE:
		return on_size(c, ch);
	case HTTP_CHUNK_EXTENSION:
		return on_extension(c, ch);
	case HTTP_CHUNK_SIZE_LF:
		return expect(ch, '\n', c->left ? HTTP_CHUNK_DATA : HTTP_CHUNK_TRAILER_START);
	case HTTP_CHUNK_DATA_CR:
		return expect(ch, '\r', HTTP_CHUNK_DATA_LF);
	case HTTP_CHUNK_DATA_LF:
		c->digits = 0;
		return expect(ch, '\n', HTTP_CHUNK_SIZE);
	case HTTP_CHUNK_TRAILER_START:
	case HTTP_CHUNK_TRAILER_NAME:
	case HTTP_CHUNK_TRAILER_VALUE:
		return on_trailer(c, ch);
	case HTTP_CHUNK_TRAILER_LF:
		return expect(ch, '\n', HTTP_CHUNK_TRAILER_START);
	case HTTP_CHUNK_END_LF:
		return expect(ch, '\n', HTTP_CHUNK_END);
	case HTTP_CHUNK_DATA:
	case HTTP_CHUNK_END:
	case HTTP_CHUNK_FAILED:
		break;
	}
	return HTTP_CHUNK_FAILED;
}

int http_chunked_next(struct http_chunked *c, const char *p, size_t n, size_t *ret_used,
		      struct str *ret_data)
{
	size_t used = 0;

	*ret_data = (struct str){ "", 0 };
	while (used < n && c->state != HTTP_CHUNK_DATA && c->state != HTTP_CHUNK_END) {
		c->state = step(c, p[used]);
		if (c->state == HTTP_CHUNK_FAILED)
			break;
		used++;
	}
	if (c->state == HTTP_CHUNK_DATA && used < n) {
		size_t take = (size_t)MIN((uint64_t)(n - used), c->left);

		*ret_data = (struct str){ p + used, take };
		used += take;
		c->left -= take;
		if (c->left == 0)
			c->state = HTTP_CHUNK_DATA_CR;
	}
	*ret_used = used;
	if (c->state == HTTP_CHUNK_FAILED)
		return -EPROTO;
	return c->state == HTTP_CHUNK_END;
}

size_t http_chunk_head(char dst[HTTP_CHUNK_HEAD_SIZE], size_t n)
{
	static const char hex[] = "0123456789abcdef";
	char digits[16];
	size_t count = 0, len = 0;

	do {
		digits[count++] = hex[n % 16];
		n /= 16;
	} while (n);
	while (count)
		dst[len++] = digits[--count];
	dst[len++] = '\r';
	dst[len++] = '\n';
	return len;
}
