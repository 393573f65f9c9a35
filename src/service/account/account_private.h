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
	struct map idempotency; /* "owner/key" -> struct idempotency under way */
	uint32_t live_count;	/* sandboxes handed out or being made for somebody */
	uint32_t stream_count;
	uint8_t access_secret[32]; /* see access_token.c */
	int64_t search_second;	   /* of signed links, and the sandboxes tried for them since */
	uint32_t searched;

	struct usage_row *usage_first, *usage_last; /* not yet written */
	uint32_t usage_count, metered_count;
	int64_t usage_rolled_ms; /* until then intervals may be summed up per day */
	bool usage_rolling;	 /* and more of them are due */
};

#endif
