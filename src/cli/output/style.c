/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/style.h"

#include <errno.h>
#include <time.h>

bool style_wanted(enum color_mode mode, int fd)
{
	const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

	if (mode != COLOR_AUTO)
		return mode == COLOR_ALWAYS;
	if (no_color != NULL && no_color[0] != '\0')
		return false;
	return isatty(fd) && term != NULL && strcmp(term, "dumb") != 0;
}

const char *style_on(bool color, enum style style)
{
	static const char *const codes[] = {
		[STYLE_PLAIN] = "",	   [STYLE_BOLD] = "\033[1m",   [STYLE_DIM] = "\033[2m",
		[STYLE_RED] = "\033[31m",  [STYLE_GREEN] = "\033[32m", [STYLE_YELLOW] = "\033[33m",
		[STYLE_CYAN] = "\033[36m",
	};
	return color ? codes[style] : "";
}

const char *style_off(bool color)
{
	return color ? "\033[0m" : "";
}

enum style style_of_state(struct str state)
{
	if (str_is(state, "running") || str_is(state, "ready") || str_is(state, "ok"))
		return STYLE_GREEN;
	if (str_is(state, "error") || str_is(state, "failed") || str_is(state, "fail"))
		return STYLE_RED;
	if (str_is(state, "destroyed"))
		return STYLE_DIM;
	return STYLE_YELLOW;
}

void style_span(char dst[STYLE_SPAN_SIZE], int64_t seconds)
{
	long long s = seconds;

	if (s < 0)
		s = 0;
	if (s < 120)
		(void)snprintf(dst, STYLE_SPAN_SIZE, "%llds", s);
	else if (s < 7200)
		(void)snprintf(dst, STYLE_SPAN_SIZE, "%lldm", s / 60);
	else if (s < 172800)
		(void)snprintf(dst, STYLE_SPAN_SIZE, "%lldh", s / 3600);
	else
		(void)snprintf(dst, STYLE_SPAN_SIZE, "%lldd", s / 86400);
}

void style_bytes(char dst[STYLE_SPAN_SIZE], uint64_t bytes)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < ARRAY_LEN(units)) {
		value /= 1024;
		unit++;
	}
	if (unit == 0 || value >= 10 || value == (double)(uint64_t)value)
		(void)snprintf(dst, STYLE_SPAN_SIZE, "%.0f %s", value, units[unit]);
	else
		(void)snprintf(dst, STYLE_SPAN_SIZE, "%.1f %s", value, units[unit]);
}

int style_parse_time(struct str text, int64_t *ret_real_ms)
{
	char copy[40];
	struct tm tm = { 0 };
	const char *rest;
	int ms = 0;

	if (str_copy(copy, sizeof(copy), text) < 0)
		return -EINVAL;
	rest = strptime(copy, "%Y-%m-%dT%H:%M:%S", &tm);
	if (rest == NULL)
		return -EINVAL;
	if (rest[0] == '.' && strlen(rest) >= 4)
		ms = (int)strtol((char[]){ rest[1], rest[2], rest[3], 0 }, NULL, 10);
	*ret_real_ms = (int64_t)timegm(&tm) * 1000 + ms;
	return 0;
}

void style_clean(char *dst, size_t size, struct str text)
{
	size_t n = 0;

	for (size_t i = 0; i < text.n && n + 1 < size; i++) {
		unsigned char c = (unsigned char)text.p[i];

		/* C1 controls are C2 80..9F in UTF-8, and some terminals interpret them. */
		if (c == 0xc2 && i + 1 < text.n && (unsigned char)text.p[i + 1] < 0xa0) {
			dst[n++] = '?';
			i++;
			continue;
		}
		dst[n++] = (char)(c < 0x20 || c == 0x7f ? '?' : c);
	}
	/* Never leaves half a character at the end. */
	while (n > 0 && !str_is_utf8(dst, n) && text.n > n)
		n--;
	dst[n] = '\0';
}

size_t style_width(struct str text)
{
	size_t width = 0;

	for (size_t i = 0; i < text.n; i++)
		width += ((unsigned char)text.p[i] & 0xc0) != 0x80;
	return width;
}

void style_wrapped(FILE *out, const char *text, int indent, int column)
{
	while (*text != '\0') {
		int n = (int)strcspn(text, " ");

		if (column > indent && column + 1 + n > WRAP_COLUMNS) {
			(void)fprintf(out, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			(void)fputc(' ', out);
			column++;
		}
		(void)fprintf(out, "%.*s", n, text);
		column += n;
		text += n;
		text += strspn(text, " ");
	}
	(void)fputc('\n', out);
}
