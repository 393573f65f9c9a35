/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of error codes. Meaning layers (engine, service, face, cli) fill a struct err on the
 * caller's stack. The edges translate the code: face/rest to an HTTP status, cli to an exit status.
 * Mechanism layers do not use it; they return 0 or -errno.
 */
#ifndef CAY_BASE_ERR_H
#define CAY_BASE_ERR_H

#include "base/macro.h"

/* X(symbol, stable public name, HTTP status, retryable, hint or NULL) */
#define ERR_TABLE(X)                                                                               \
	X(OK, "ok", 200, false, NULL)                                                              \
	X(INVALID_REQUEST, "invalid_request", 400, false,                                          \
	  "Correct what the message names; GET /openapi.json lists fields and ranges.")            \
	X(UNAUTHENTICATED, "unauthenticated", 401, false,                                          \
	  "Send 'Authorization: Bearer <key>'; the first key is in <state>/admin.key.")            \
	X(FORBIDDEN, "forbidden", 403, false, "Use a key whose scopes cover this call.")           \
	X(NOT_FOUND, "route_not_found", 404, false, "GET /openapi.json lists every route.")        \
	X(SANDBOX_NOT_FOUND, "sandbox_not_found", 404, false,                                      \
	  "It may have been destroyed or timed out; GET /v1/sandboxes lists the live ones.")       \
	X(TEMPLATE_NOT_FOUND, "template_not_found", 404, false,                                    \
	  "GET /v1/templates lists what is built; 'cay template build NAME' builds one.")          \
	X(KEY_NOT_FOUND, "key_not_found", 404, false, "GET /v1/keys lists the keys.")              \
	X(PROCESS_NOT_FOUND, "process_not_found", 404, false,                                      \
	  "GET .../processes lists the processes of this sandbox.")                                \
	X(FILE_NOT_FOUND, "file_not_found", 404, false,                                            \
	  "GET .../files?path=DIR lists a directory; relative paths start at the workdir.")        \
	X(WINDOW_NOT_FOUND, "window_not_found", 404, false,                                        \
	  "GET .../windows lists the windows of this sandbox; run makes one.")                     \
	X(CONTEXT_NOT_FOUND, "context_not_found", 404, false,                                      \
	  "GET .../code/contexts lists the code contexts of this sandbox.")                        \
	X(SNAPSHOT_NOT_FOUND, "snapshot_not_found", 404, false,                                    \
	  "GET .../snapshots lists the snapshots of a sandbox.")                                   \
	X(WEBHOOK_NOT_FOUND, "webhook_not_found", 404, false,                                      \
	  "GET /v1/webhooks lists the webhooks of this key.")                                      \
	X(DELIVERY_NOT_FOUND, "delivery_not_found", 404, false,                                    \
	  "GET .../deliveries?state=dead lists what was given up and not redelivered yet.")        \
	X(PREVIEW_NOT_FOUND, "preview_not_found", 404, false,                                      \
	  "GET .../previews lists the previews of this sandbox.")                                  \
	X(PREVIEW_PRIVATE, "preview_private", 401, false,                                          \
	  "Send a share token (?cay_token=, Cay-Preview-Token) or an API key.")                    \
	X(PREVIEW_EXPIRED, "preview_expired", 410, false, "Make a new preview or share token.")    \
	X(PORT_CLOSED, "port_closed", 502, true,                                                   \
	  "Start the server inside, on 127.0.0.1 or any address; GET .../ports lists.")            \
	X(PORT_REFUSED, "port_refused", 403, false,                                                \
	  "Ports 22 and 5900-5999 must be asked for with allow_reserved.")                         \
	X(UPSTREAM_FAILED, "upstream_failed", 502, true,                                           \
	  "The server inside broke the connection or the protocol.")                               \
	X(UPSTREAM_TIMEOUT, "upstream_timeout", 504, true,                                         \
	  "The server inside did not answer in time.")                                             \
	X(PREVIEW_LOOP, "preview_loop", 508, false,                                                \
	  "This preview leads back to the daemon itself.")                                         \
	X(SECRET_NOT_FOUND, "secret_not_found", 404, false, "GET /v1/secrets lists the secrets.")  \
	X(METHOD_NOT_ALLOWED, "method_not_allowed", 405, false, "See the Allow header.")           \
	X(CONFLICT, "conflict", 409, false, "The message says what is in the way.")                \
	X(WRONG_STATE, "wrong_state", 409, false,                                                  \
	  "Look at the state of the sandbox or process first.")                                    \
	X(IDEMPOTENCY_MISMATCH, "idempotency_mismatch", 409, false,                                \
	  "This Idempotency-Key was used with another body; choose a new key.")                    \
	X(SNAPSHOT_REFUSED, "snapshot_refused", 409, false,                                        \
	  "The message says why; such a snapshot can only be deleted.")                            \
	X(NOT_A_FILE, "not_a_file", 409, false,                                                    \
	  "A regular file is needed here; GET .../files/stat tells what it is.")                   \
	X(NOT_A_DIRECTORY, "not_a_directory", 409, false,                                          \
	  "A part of the path is no directory; GET .../files/stat tells what it is.")              \
	X(NOT_TEXT, "not_text", 409, false, "GET .../files/raw gives the bytes.")                  \
	X(FILE_EXISTS, "file_exists", 409, false, "Remove it first, or send overwrite.")           \
	X(DIRECTORY_NOT_EMPTY, "directory_not_empty", 409, false,                                  \
	  "Send recursive to remove what is in it.")                                               \
	X(FILE_BUSY, "file_busy", 409, true, "Something inside uses it; try again.")               \
	X(SYMLINK_LOOP, "symlink_loop", 409, false,                                                \
	  "The symbolic links of this path lead in a circle.")                                     \
	X(TREE_TOO_DEEP, "tree_too_deep", 409, false, "Start further down in the tree.")           \
	X(EDIT_NO_MATCH, "edit_no_match", 409, false,                                              \
	  "Read the file again: old_string must be in it byte for byte.")                          \
	X(EDIT_AMBIGUOUS, "edit_ambiguous", 409, false,                                            \
	  "Add lines around old_string until it is unique, or send replace_all.")                  \
	X(FILE_FORBIDDEN, "file_forbidden", 403, false,                                            \
	  "The user of this call may not do that; 'user' names another.")                          \
	X(READ_ONLY, "read_only", 403, false, "This part of the tree cannot be changed.")          \
	X(COMMAND_NOT_FOUND, "command_not_found", 400, false,                                      \
	  "The sandbox has no such program: check the name and PATH inside.")                      \
	X(COMMAND_NOT_EXECUTABLE, "command_not_executable", 400, false,                            \
	  "The file is there, but the user of this call cannot run it.")                           \
	X(NAME_TOO_LONG, "name_too_long", 400, false, "A name has at most 255 bytes.")             \
	X(ARCHIVE_INVALID, "archive_invalid", 400, false,                                          \
	  "Send a tar, tar.zst or zip of files, directories and links.")                           \
	X(ARCHIVE_ESCAPE, "archive_escape", 400, false,                                            \
	  "No entry or link of an archive may leave the directory it is unpacked into.")           \
	X(ARCHIVE_TOO_LARGE, "archive_too_large", 413, false,                                      \
	  "Send it in parts; see max_entries, max_bytes and max_ratio.")                           \
	X(FILE_TOO_LARGE, "file_too_large", 413, false, "GET .../files/raw has no such limit.")    \
	X(RANGE_NOT_SATISFIABLE, "range_not_satisfiable", 416, false,                              \
	  "One range inside the file; Content-Range tells its size.")                              \
	X(TOO_MANY_WATCHES, "too_many_watches", 429, false,                                        \
	  "Watch a smaller tree; the kernel's inotify budget is shared by all.")                   \
	X(PAYLOAD_TOO_LARGE, "payload_too_large", 413, false,                                      \
	  "Send less; content of any size goes through PUT .../files/raw.")                        \
	X(UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", 415, false,                            \
	  "Send the body as application/json.")                                                    \
	X(HOST_NOT_ALLOWED, "host_not_allowed", 421, false,                                        \
	  "Use the daemon's own address, or add the name to allowed_hosts.")                       \
	X(ORIGIN_NOT_ALLOWED, "origin_not_allowed", 403, false,                                    \
	  "Add the origin of the page to the setting cors_origins.")                               \
	X(UNSUPPORTED, "unsupported", 422, false, "The message says what is missing here.")        \
	X(UNSUPPORTED_BY_ENGINE, "unsupported_by_engine", 422, false,                              \
	  "GET /v1/options tells what each engine can do on this host.")                           \
	X(QUOTA_EXCEEDED, "quota_exceeded", 429, true, "Delete something, or raise the limit.")    \
	X(RATE_LIMITED, "rate_limited", 429, true, "Wait as long as Retry-After says.")            \
	X(UPGRADE_REQUIRED, "upgrade_required", 426, false, "Connect with a WebSocket client.")    \
	X(HEADERS_TOO_LARGE, "headers_too_large", 431, false, "Send fewer or shorter headers.")    \
	X(INTERNAL, "internal", 500, true, "Look for the request_id in the daemon's log.")         \
	X(BOOT_FAILED, "boot_failed", 500, true, "'cay doctor' checks what this host is missing.") \
	X(ENGINE_FAILED, "engine_failed", 500, true, "'cay doctor' checks the engine.")            \
	X(INITIALIZER_FAILED, "initializer_failed", 422, false,                                    \
	  "Send retain_on_failure to look at what it left.")                                       \
	X(SANDBOX_GONE, "sandbox_gone", 410, false,                                                \
	  "The sandbox ended while the call was running; its state_reason says why.")              \
	X(CAPACITY_EXCEEDED, "capacity_exceeded", 503, true, "Try again, or raise the limit.")     \
	X(UNAVAILABLE, "unavailable", 503, true, "Try again shortly.")                             \
	X(TIMEOUT, "timeout", 504, true, "Try again, or allow more time.")                         \
	X(TOOL_FAILED, "tool_failed", 502, true,                                                   \
	  "Something inside ended or altered the file tool; try again.")                           \
	X(OUTPUT_LOST, "output_lost", 500, false,                                                  \
	  "Only foreground readers get every byte; see 'Back-pressure' in "                        \
	  "docs/guides/commands.md.")                                                              \
	X(FILE_IO, "file_io", 500, false, "The kernel inside refused; the message says how.")      \
	X(OUT_OF_MEMORY, "out_of_memory", 507, false,                                              \
	  "End something inside, or ask for more memory_mb.")                                      \
	X(DISK_QUOTA, "disk_quota_exceeded", 507, false,                                           \
	  "No more files or bytes are allowed there: delete some.")                                \
	X(DISK_FULL, "disk_full", 507, false, "Delete files, or ask for a larger disk.")

enum err_code {
#define X(sym, name, status, retry, hint) ERR_##sym,
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

/*
 * The stable public name of a code, its HTTP status, whether a retry can help, and a hint what to
 * do next.
 */
const char *err_name(enum err_code code);
int err_http_status(enum err_code code);
bool err_retryable(enum err_code code);
const char *err_hint(enum err_code code);      /* may be NULL */
enum err_code err_from_name(const char *name); /* ERR_INTERNAL if the name is unknown */

/* Fills err (which may be NULL) and returns -1, so that callers can write: return err_set(...). */
int err_set(struct err *err, enum err_code code, const char *fmt, ...) _printf_(3, 4);
int err_set_errno(struct err *err, enum err_code code, int error, const char *fmt, ...)
	_printf_(4, 5);
/* Call after err_set(): records which limit was reached, its value and how much of it is in use. */
int err_set_limit(struct err *err, const char *field, int64_t limit, int64_t used);

#endif
