/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp program of every sandbox: an allowlist. The warden compiles it once at its start
 * (which takes milliseconds) into a binary tree (which loads in a quarter of the time of a linear
 * program) and owns it.
 */
#ifndef CAY_SYS_PROCESS_SECCOMP_FILTER_H
#define CAY_SYS_PROCESS_SECCOMP_FILTER_H

#include <linux/filter.h>

#include "base/macro.h"

struct filter {
	struct sock_filter *code; /* owned */
	unsigned short count;
};

enum {
	FILTER_ANY_SOCKET = 1, /* test builds only: allows all socket families */
};

int filter_build(unsigned flags, struct filter *ret) _must_check_;
void filter_done(struct filter *filter);
/*
 * Needs CAP_SYS_ADMIN in the caller's user namespace. no_new_privs is not an alternative: it would
 * break sudo inside.
 */
int filter_load(const struct filter *filter) _must_check_;

#endif
