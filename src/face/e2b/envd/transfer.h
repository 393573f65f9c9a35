/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/e2b: transfer of file content. */
#ifndef CAY_FACE_E2B_ENVD_TRANSFER_H
#define CAY_FACE_E2B_ENVD_TRANSFER_H

#include "face/e2b/envd/envd.h"
#include "face/kit/transfer.h"

struct e2b_transfer {
	struct transfer base;
	struct e2b *e2b;
	struct e2b_call *call; /* valid as long as the request */
	struct upload *upload; /* heap; of uploads */
};

struct e2b_transfer *e2b_transfer_new(struct e2b_call *call, struct err *err);
void upload_free(struct upload *upload); /* NULL is allowed */

/* Rewrites err to E2B's messages about a path ("path 'X' does not exist"), or copies it. */
void e2b_transfer_error(const struct err *err, const char *path, struct err *ret);

#endif
