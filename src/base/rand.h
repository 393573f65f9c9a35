/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_RAND_H
#define CAY_BASE_RAND_H

#include "base/macro.h"

/*
 * Random bytes from the kernel. Never fails: aborts if the kernel provides none, because the host
 * is then broken.
 */
void rand_bytes(void *p, size_t n);
/* n characters of [a-z0-9], unbiased, plus NUL. Twenty of them carry 103 bits, 26 carry 134. */
void rand_label(char *dst, size_t n);

#endif
