/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of error codes. Meaning layers (engine, service, face, cli) fill a struct err on
 * the caller's stack; the edges translate the code: face/kit/error.h to HTTP statuses and hints,
 * the CLI to exit statuses and hints of its own. Mechanism layers never see this: they return 0 or
 * -errno.
 */
#ifndef CAY_BASE_ERR_H
#define CAY_BASE_ERR_H

#include "base/macro.h"

/* X(symbol, stable public name, whether a retry can help) */
#define ERR_TABLE(X)                                               \
	X(OK, "ok", false)                                         \
	X(INVALID_REQUEST, "invalid_request", false)               \
	X(UNAUTHENTICATED, "unauthenticated", false)               \
	X(FORBIDDEN, "forbidden", false)                           \
	X(NOT_FOUND, "route_not_found", false)                     \
	X(SANDBOX_NOT_FOUND, "sandbox_not_found", false)           \
	X(TEMPLATE_NOT_FOUND, "template_not_found", false)         \
	X(KEY_NOT_FOUND, "key_not_found", false)                   \
	X(PROCESS_NOT_FOUND, "process_not_found", false)           \
	X(FILE_NOT_FOUND, "file_not_found", false)                 \
	X(WINDOW_NOT_FOUND, "window_not_found", false)             \
	X(CONTEXT_NOT_FOUND, "context_not_found", false)           \
	X(SNAPSHOT_NOT_FOUND, "snapshot_not_found", false)         \
	X(WEBHOOK_NOT_FOUND, "webhook_not_found", false)           \
	X(DELIVERY_NOT_FOUND, "delivery_not_found", false)         \
	X(PREVIEW_NOT_FOUND, "preview_not_found", false)           \
	X(PREVIEW_PRIVATE, "preview_private", false)               \
	X(PREVIEW_EXPIRED, "preview_expired", false)               \
	X(PORT_CLOSED, "port_closed", true)                        \
	X(PORT_REFUSED, "port_refused", false)                     \
	X(UPSTREAM_FAILED, "upstream_failed", true)                \
	X(UPSTREAM_TIMEOUT, "upstream_timeout", true)              \
	X(PREVIEW_LOOP, "preview_loop", false)                     \
	X(SECRET_NOT_FOUND, "secret_not_found", false)             \
	X(METHOD_NOT_ALLOWED, "method_not_allowed", false)         \
	X(CONFLICT, "conflict", false)                             \
	X(WRONG_STATE, "wrong_state", false)                       \
	X(IDEMPOTENCY_MISMATCH, "idempotency_mismatch", false)     \
	X(SNAPSHOT_REFUSED, "snapshot_refused", false)             \
	X(NOT_A_FILE, "not_a_file", false)                         \
	X(NOT_A_DIRECTORY, "not_a_directory", false)               \
	X(NOT_TEXT, "not_text", false)                             \
	X(FILE_EXISTS, "file_exists", false)                       \
	X(DIRECTORY_NOT_EMPTY, "directory_not_empty", false)       \
	X(FILE_BUSY, "file_busy", true)                            \
	X(SYMLINK_LOOP, "symlink_loop", false)                     \
	X(TREE_TOO_DEEP, "tree_too_deep", false)                   \
	X(EDIT_NO_MATCH, "edit_no_match", false)                   \
	X(EDIT_AMBIGUOUS, "edit_ambiguous", false)                 \
	X(FILE_FORBIDDEN, "file_forbidden", false)                 \
	X(READ_ONLY, "read_only", false)                           \
	X(COMMAND_NOT_FOUND, "command_not_found", false)           \
	X(COMMAND_NOT_EXECUTABLE, "command_not_executable", false) \
	X(NAME_TOO_LONG, "name_too_long", false)                   \
	X(ARCHIVE_INVALID, "archive_invalid", false)               \
	X(ARCHIVE_ESCAPE, "archive_escape", false)                 \
	X(ARCHIVE_TOO_LARGE, "archive_too_large", false)           \
	X(FILE_TOO_LARGE, "file_too_large", false)                 \
	X(RANGE_NOT_SATISFIABLE, "range_not_satisfiable", false)   \
	X(TOO_MANY_WATCHES, "too_many_watches", false)             \
	X(PAYLOAD_TOO_LARGE, "payload_too_large", false)           \
	X(UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", false) \
	X(HOST_NOT_ALLOWED, "host_not_allowed", false)             \
	X(ORIGIN_NOT_ALLOWED, "origin_not_allowed", false)         \
	X(UNSUPPORTED, "unsupported", false)                       \
	X(UNSUPPORTED_BY_ENGINE, "unsupported_by_engine", false)   \
	X(QUOTA_EXCEEDED, "quota_exceeded", true)                  \
	X(RATE_LIMITED, "rate_limited", true)                      \
	X(UPGRADE_REQUIRED, "upgrade_required", false)             \
	X(REQUEST_TIMEOUT, "request_timeout", true)                \
	X(HEADERS_TOO_LARGE, "headers_too_large", false)           \
	X(INTERNAL, "internal", true)                              \
	X(BOOT_FAILED, "boot_failed", true)                        \
	X(ENGINE_FAILED, "engine_failed", true)                    \
	X(INITIALIZER_FAILED, "initializer_failed", false)         \
	X(SANDBOX_GONE, "sandbox_gone", false)                     \
	X(CAPACITY_EXCEEDED, "capacity_exceeded", true)            \
	X(UNAVAILABLE, "unavailable", true)                        \
	X(TIMEOUT, "timeout", true)                                \
	X(TOOL_FAILED, "tool_failed", true)                        \
	X(OUTPUT_LOST, "output_lost", false)                       \
	X(FILE_IO, "file_io", false)                               \
	X(OUT_OF_MEMORY, "out_of_memory", false)                   \
	X(DISK_QUOTA, "disk_quota_exceeded", false)                \
	X(DISK_FULL, "disk_full", false)

enum err_code {
#define X(sym, name, retry) ERR_##sym,
	ERR_TABLE(X)
#undef X
		ERR_CODE_COUNT
};

#define ERR_MESSAGE_MAX 320

struct err {
	enum err_code code;
	int errno_value; /* 0 if no system call failed */
	char message[ERR_MESSAGE_MAX];
	/* Set if a limit was reached: */
	const char *field; /* name of the limit, static; NULL: none */
	int64_t limit, used;
};

/* The stable public name of a code, and whether a retry can help. */
const char *err_name(enum err_code code);
bool err_retryable(enum err_code code);
enum err_code err_from_name(const char *name); /* ERR_INTERNAL when unknown */

/* Fills err (which may be NULL) and returns -1, so that callers can write: return err_set(...). */
int err_set(struct err *err, enum err_code code, const char *fmt, ...) _printf_(3, 4);
int err_set_errno(struct err *err, enum err_code code, int error, const char *fmt, ...)
	_printf_(4, 5);
/* Call after err_set(): records which limit was reached, its value and how much of it is in use. */
int err_set_limit(struct err *err, const char *field, int64_t limit, int64_t used);

#endif
