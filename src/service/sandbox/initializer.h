/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that run in a new sandbox before it is running: what may be asked for. */
#ifndef CAY_SERVICE_SANDBOX_INITIALIZER_H
#define CAY_SERVICE_SANDBOX_INITIALIZER_H

#include "service/run/process.h"

#define INITIALIZERS_MAX 16
#define INITIALIZERS_BYTES_MAX (128 * 1024) /* of all their texts */
#define INITIALIZER_COMMAND_MAX (32 * 1024)
#define INITIALIZER_CWD_MAX 4096
#define INITIALIZER_USER_MAX 64
#define INITIALIZER_NAME_MAX 64
#define INITIALIZER_TIMEOUT_SEC 120
#define INITIALIZER_TIMEOUT_MAX_SEC 3600

/* One of them. Of exec only command or argv, env, cwd, user and timeout_sec count. */
struct initializer {
	struct exec_spec exec;
	struct str name; /* empty: none */
	bool continue_on_error;
};

/* Checked copies of some. Owner: the attributes of a sandbox, or a template. */
struct initializers;

/* Checks and copies them. *ret is written only when there are any. */
int initializers_make(const struct initializer_list *list, struct initializers **ret,
		      struct err *err) _must_check_;
int initializers_copy(const struct initializers *from, struct initializers **ret) _must_check_;
void initializers_free(struct initializers *initializers); /* NULL is fine */
/* Views into them; of NULL an empty list. */
struct initializer_list initializers_list(const struct initializers *initializers);

#endif
