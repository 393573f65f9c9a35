/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that run in a new sandbox before it is running: what may be asked for. */
#ifndef CAY_SERVICE_SANDBOX_INITIALIZER_H
#define CAY_SERVICE_SANDBOX_INITIALIZER_H

#include "base/err.h"
#include "base/json.h"

#define INITIALIZERS_MAX 16
#define INITIALIZERS_BYTES_MAX (128 * 1024) /* of all of them, as JSON */
#define INITIALIZER_COMMAND_MAX (32 * 1024)
#define INITIALIZER_NAME_MAX 64
#define INITIALIZER_TIMEOUT_SEC 120
#define INITIALIZER_TIMEOUT_MAX_SEC 3600

struct initializers;

/* Checks and copies them; array may be NULL. *ret is written only when there are any. */
int initializers_read(const struct json *array, struct initializers **ret,
		      struct err *err) _must_check_;
int initializers_copy(const struct initializers *from, struct initializers **ret) _must_check_;
void initializers_free(struct initializers *initializers); /* NULL is fine */
void initializers_write(const struct initializers *initializers, struct json_writer *w,
			const char *key);

#endif
