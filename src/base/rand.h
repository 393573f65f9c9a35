/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_RAND_H
#define CAY_BASE_RAND_H

#include "base/macro.h"

/* The kernel's randomness; never fails (aborts when the kernel has none, which is a broken host).
 */
void rand_bytes(void *p, size_t n);
/* n characters of [a-z0-9], unbiased, plus NUL. Twenty of them carry 103 bits, 26 carry 134. */
void rand_label(char *dst, size_t n);

#endif
