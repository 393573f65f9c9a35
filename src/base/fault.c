/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#ifdef CAY_FAULTS

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/macro.h"

static _Atomic int32_t *steps_left;

void fault_open(const char *variable)
{
	const char *path = getenv(variable);
	_cleanup_close_ int fd = path ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
	void *shared = MAP_FAILED;

	if (fd >= 0)
		shared = mmap(NULL, sizeof(*steps_left), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	steps_left = shared == MAP_FAILED ? NULL : shared;
}

bool fault_due(void)
{
	return steps_left && atomic_load(steps_left) > 0 && atomic_fetch_sub(steps_left, 1) == 1;
}

#else

void fault_open(const char *variable)
{
	(void)variable;
}

bool fault_due(void)
{
	return false;
}

#endif
