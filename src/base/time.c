/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t clock_us(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t time_real_ms(void)
{
	return clock_us(CLOCK_REALTIME) / 1000;
}

int64_t time_boot_ms(void)
{
	return clock_us(CLOCK_BOOTTIME) / 1000;
}

int64_t time_mono_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

void time_boot_id(char dst[TIME_BOOT_ID_SIZE])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, dst, TIME_BOOT_ID_SIZE - 1) : 0;

	if (fd >= 0)
		(void)close(fd);
	dst[MAX(n, 0)] = '\0';
	dst[strcspn(dst, "\n")] = '\0';
}

void time_start_id(char dst[TIME_START_ID_SIZE])
{
	int fd = open("/proc/1/stat", O_RDONLY | O_CLOEXEC);
	unsigned long long ticks = 0;
	char text[1024];
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	const char *rest;

	if (fd >= 0)
		(void)close(fd);
	text[MAX(n, 0)] = '\0';
	dst[0] = '\0';
	rest = strrchr(text, ')'); /* the process name before it may contain anything */
	if (rest && sscanf(rest + 1,
			   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			   "%*d %*d %llu",
			   &ticks) == 1)
		(void)snprintf(dst, TIME_START_ID_SIZE, "%llu", ticks);
}

/*
 * The format has four digits for the year: times outside 1000..9999 are shown as the nearest bound.
 */
#define FIRST_MS INT64_C(-30610224000000)
#define LAST_MS INT64_C(253402300799999)

void time_rfc3339(char dst[TIME_RFC3339_SIZE], int64_t real_ms)
{
	int64_t at = MIN(MAX(real_ms, FIRST_MS), LAST_MS);
	unsigned ms = (unsigned)((at % 1000 + 1000) % 1000);
	time_t sec = (time_t)((at - (int64_t)ms) / 1000);
	struct tm tm;
	size_t n;

	(void)gmtime_r(&sec, &tm);
	n = strftime(dst, TIME_RFC3339_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(dst + n, TIME_RFC3339_SIZE - n, ".%03uZ", ms % 1000);
}

int time_from_rfc3339(struct str text, int64_t *ret_ms)
{
	struct tm tm = { .tm_isdst = 0 };
	char copy[TIME_RFC3339_SIZE + 1] = "", *rest;
	int64_t fraction = 0, scale = 100;
	time_t seconds;

	if (str_copy(copy, sizeof(copy), text) < 0)
		return -EINVAL;
	rest = strptime(copy, "%Y-%m-%d", &tm);
	if (rest && *rest == 'T') {
		rest = strptime(rest, "T%H:%M:%S", &tm);
		if (rest && *rest == '.')
			for (rest++; *rest >= '0' && *rest <= '9'; rest++, scale /= 10)
				fraction += (*rest - '0') * scale;
		if (rest && *rest++ != 'Z')
			rest = NULL;
	}
	seconds = rest && !*rest ? timegm(&tm) : -1;
	if (seconds < 0)
		return -EINVAL;
	*ret_ms = (int64_t)seconds * 1000 + fraction;
	return 0;
}
