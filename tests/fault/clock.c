/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into the daemon by tests/fault/test_clock_jumps.py: the wall clock is the host's plus
 * as many seconds as the file HARNESS_CLOCK says, which the test changes while the daemon runs.
 * A time namespace cannot do this: it shifts the monotonic clocks only.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_sec;

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("HARNESS_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at;

	if (fd < 0)
		return;
	at = mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0);
	(void)close(fd);
	if (at != MAP_FAILED)
		offset_sec = at;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ret);

	if (r == 0 && offset_sec && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		ret->tv_sec += *offset_sec;
	return r;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	*ret = (struct timeval){ .tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000 };
	return 0;
}

time_t time(time_t *ret)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (ret)
		*ret = now.tv_sec;
	return now.tv_sec;
}
