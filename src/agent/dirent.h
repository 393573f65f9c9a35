/* SPDX-License-Identifier: Apache-2.0 */
/* An entry as getdents64(2) returns it: the kernel's layout, which musl does not declare. */
#ifndef CAY_AGENT_DIRENT_H
#define CAY_AGENT_DIRENT_H

#include <stdint.h>

struct dirent64 {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

#endif
