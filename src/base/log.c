/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/time.h"

#define LINE_MAX_BYTES 2048

static const char *const level_names[] = { "debug", "info", "warn", "error" };
static const int priorities[] = { 7, 6, 4, 3 }; /* as in syslog(3) */
static const char *program_name = "cay";
static enum log_level least_level = LOG_INFO;
static bool is_journal; /* it adds time and program, and expects the level as a numeric prefix */

/*
 * JOURNAL_STREAM contains the device and inode of the journal's socket (systemd.exec(5)). They are
 * compared, because a child inherits the variable but may have another standard error.
 */
static bool goes_to_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_init(const char *program, enum log_level least)
{
	program_name = program;
	least_level = least;
	is_journal = goes_to_journal();
}

int log_level_parse(const char *name, enum log_level *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
		if (strcmp(name, level_names[i]) == 0) {
			*ret = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

static size_t escape(char *dst, size_t size, const char *src)
{
	size_t n = 0;

	for (; *src && n + 5 < size; src++) {
		unsigned char c = (unsigned char)*src;

		if (c >= 0x20 && c != 0x7f && c != '\\')
			dst[n++] = (char)c;
		else
			n += (size_t)snprintf(dst + n, size - n, "\\x%02x", c);
	}
	return n;
}

void log_at(enum log_level level, const char *fmt, ...)
{
	char stamp[TIME_RFC3339_SIZE], text[LINE_MAX_BYTES / 2], line[LINE_MAX_BYTES];
	va_list ap;
	size_t n;

	if (level < least_level)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (is_journal) {
		n = (size_t)snprintf(line, sizeof(line), "<%d>", priorities[level]);
	} else {
		time_rfc3339(stamp, time_real_ms());
		n = (size_t)snprintf(line, sizeof(line), "%s %s %s: ", stamp, level_names[level],
				     program_name);
	}
	n += escape(line + n, sizeof(line) - n - 1, text);
	line[n++] = '\n';
	(void)!write(STDERR_FILENO, line, n); /* one write, so that lines of threads do not mix */
}
