/* SPDX-License-Identifier: Apache-2.0 */
/* Initializers: commands that run in a new sandbox before it is running, and their limits. Faces
 * fill the list; the sandbox or the template owns the copies. */
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

/* One initializer. Of exec only command or argv, env, cwd, user and timeout_sec are used. */
struct initializer {
	struct exec_spec exec;
	struct str name; /* empty: none */
	bool continue_on_error;
};

/* Checked copies. Owner: the attributes of a sandbox, or a template. */
struct initializers;

/* Checks and copies them. *ret is written only if there are any. */
int initializers_make(const struct initializer_list *list, struct initializers **ret,
		      struct err *err) _must_check_;
int initializers_copy(const struct initializers *from, struct initializers **ret) _must_check_;
void initializers_free(struct initializers *initializers); /* NULL is allowed */
/* Views into them; an empty list for NULL. */
struct initializer_list initializers_list(const struct initializers *initializers);

#endif
