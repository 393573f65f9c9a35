/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service/account only: the state of the theme. */
#ifndef CAY_SERVICE_ACCOUNT_ACCOUNT_PRIVATE_H
#define CAY_SERVICE_ACCOUNT_ACCOUNT_PRIVATE_H

#include "service/service_internal.h"

/* Owner: the service. */
struct accounts {
	struct map keys_by_hash;
	struct map keys_by_id;
	struct map departed;	/* see key_tree.c */
	struct map tickets;	/* by hash */
	struct map idempotency; /* "owner/key" -> struct idempotency in progress */
	uint32_t live_count;	/* sandboxes that have an owner, including those being created */
	uint32_t stream_count;
	uint8_t access_secret[32]; /* see access_token.c */
	/* The current second, and the sandboxes tried for signed links in it. */
	int64_t search_second;
	uint32_t searched;

	struct usage_row *usage_first, *usage_last; /* not yet written */
	uint32_t usage_count, metered_count;
	int64_t usage_rolled_ms; /* intervals before this time may be summed up per day */
	bool usage_rolling;	 /* more intervals are waiting to be summed up */
};

#endif
