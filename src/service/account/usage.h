/* SPDX-License-Identifier: Apache-2.0 */
/* The usage of sandboxes: time in a state times their limits, per interval. Faces query it. */
#ifndef CAY_SERVICE_ACCOUNT_USAGE_H
#define CAY_SERVICE_ACCOUNT_USAGE_H

#include "service/sandbox/sandbox.h"

/* An empty text matches any value. */
struct usage_query {
	int64_t from_ms, to_ms;
	struct str owner, external_workspace_id, sandbox_id;
};
struct usage_sum {
	const char *owner;		   /* a key's id */
	const char *external_workspace_id; /* or NULL */
	int64_t sandboxes;
	int64_t running_ms, paused_ms;
	double vcpu_ms, memory_mb_ms, storage_byte_ms;
};
/* One call per owner and workspace. */
typedef void (*usage_fn)(void *arg, const struct usage_sum *sum);
int usage_read(struct service *service, const struct usage_query *query, usage_fn fn, void *arg,
	       struct err *err) _must_check_;
/*
 * Days without details count as a whole: a window that starts or ends inside one includes all of
 * it.
 */
void usage_align(const struct service *service, struct usage_query *query);

#endif
