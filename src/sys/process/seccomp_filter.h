/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp program of every sandbox: an allowlist, compiled once at start (building it costs
 * milliseconds) as a binary tree (loading it costs a quarter of a linear one).
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
	FILTER_ANY_SOCKET = 1, /* test builds only: leaves the socket families open */
};

int filter_build(unsigned flags, struct filter *ret) _must_check_;
void filter_done(struct filter *filter);
/* Needs CAP_SYS_ADMIN in the caller's user namespace: no_new_privs would break sudo inside. */
int filter_load(const struct filter *filter) _must_check_;

#endif
