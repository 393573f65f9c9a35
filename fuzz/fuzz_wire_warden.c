/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both directions between cayd and cay-warden: every decoded message must encode to the same bytes
 * again.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/warden.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct warden_request req;
	struct warden_reply reply;

	if (warden_request_decode(data, size, &req) == 0) {
		uint8_t again[WARDEN_REQUEST_SIZE];

		warden_request_encode(again, &req);
		if (memcmp(again, data, sizeof(again)) != 0)
			abort();
	}
	if (warden_reply_decode(data, size, &reply) == 0) {
		uint8_t again[WARDEN_REPLY_SIZE];

		warden_reply_encode(again, &reply);
		if (memcmp(again, data, sizeof(again)) != 0)
			abort();
	}
	return 0;
}
