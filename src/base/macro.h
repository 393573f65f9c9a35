/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes and small macros for every layer. No functions with state. */
#ifndef CAY_BASE_MACRO_H
#define CAY_BASE_MACRO_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define _must_check_ __attribute__((warn_unused_result))
#define _printf_(fmt, args) __attribute__((format(printf, fmt, args)))
#define _noreturn_ __attribute__((noreturn))
#define _unused_ __attribute__((unused))
#define _cleanup_(fn) __attribute__((cleanup(fn)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Moves an owned pointer or descriptor out of its variable. */
#define TAKE_PTR(p)                                \
	({                                         \
		__typeof__(p) *take_pp_ = &(p);    \
		__typeof__(p) take_p_ = *take_pp_; \
		*take_pp_ = NULL;                  \
		take_p_;                           \
	})
#define TAKE_FD(fd)                        \
	({                                 \
		int *take_fdp_ = &(fd);    \
		int take_fd_ = *take_fdp_; \
		*take_fdp_ = -1;           \
		take_fd_;                  \
	})

static inline void cleanup_close_(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
}

static inline void cleanup_free_(void *p)
{
	free(*(void **)p);
}

#define _cleanup_close_ _cleanup_(cleanup_close_)
#define _cleanup_free_ _cleanup_(cleanup_free_)

#endif
