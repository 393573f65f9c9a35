/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the public HTTP API, and reading of the answers. */
#ifndef CAY_CLI_API_API_H
#define CAY_CLI_API_API_H

#include "cli/cli.h"

/* The largest answer read into memory; a larger one is refused. Streams are not bound by it. */
#define API_BODY_LIMIT_BYTES (64 * 1024 * 1024)
#define API_PATH_MAX 1024
#define API_URL_MAX (160 * 1024) /* a path of 32 KiB, every byte as %XX, and the rest */

/*
 * One call. body NULL: none. ret may be NULL; *ret becomes NULL when the answer has no JSON body
 * (204). A refusal by the daemon sets err, cli->error_body and the exit status.
 */
int api_call(struct cli *cli, const char *method, const char *path, const struct buf *body,
	     struct json **ret, struct err *err) _must_check_;
/*
 * Same, but every piece of the answer goes to data as it comes, which returns non-zero to stop; a
 * negative value of its own choice is returned, with err not set. cli->lost tells a connection that
 * broke, or was refused, from an answer that says no.
 */
int api_stream(struct cli *cli, const char *method, const char *path, const struct buf *body,
	       http_client_data_fn data, void *arg, struct err *err) _must_check_;
/* A body that is one JSON object: begun, and after its members sent. send ends body in any case. */
struct json_writer api_body_begin(struct buf *body, size_t max_bytes);
int api_body_send(struct cli *cli, const char *method, const char *path, struct json_writer *w,
		  struct buf *body, struct json **ret, struct err *err) _must_check_;
/* What -errno of an HTTP client means here: sets err and cli->lost, returns -1. */
int api_lost(struct cli *cli, int error, struct err *err);
/* The same for an answer that is not what was hoped for. */
int api_refused(struct cli *cli, const struct http_response *res, struct err *err);
/* What an earlier call left behind must not explain the failure of the next one. */
void api_forget(struct cli *cli);
/* Prints a document as the result, with --json. */
int api_print(struct cli *cli, const struct json *doc, struct err *err) _must_check_;

/* Walks all pages of a list; each() returns non-zero to stop. path holds no '?' yet, query may be
 * NULL. */
typedef int (*api_each_fn)(void *arg, const struct json *item);
int api_list(struct cli *cli, const char *path, const char *query, api_each_fn each, void *arg,
	     struct err *err) _must_check_;
/* Which items count; NULL: all. */
typedef bool (*api_keep_fn)(const struct json *item);
/* Prints {"data":[...],"next_cursor":null} of all pages. */
int api_print_list(struct cli *cli, const char *path, const char *query, api_keep_fn keep,
		   struct err *err) _must_check_;

/* DELETE collection/OPERAND for every operand; what failed is told, the rest goes on while the
 * daemon answers. The exit status. */
struct args;
int api_delete_each(struct cli *cli, const struct args *args, const char *collection,
		    struct err *err) _must_check_;

/* Builds a path from a format whose only directive is %s; every argument is percent-encoded. */
int api_path(char dst[API_PATH_MAX], struct err *err, const char *fmt, ...)
	_printf_(3, 4) _must_check_;
/* Appends name=value, encoded, to a query string. */
int api_query(char dst[API_PATH_MAX], const char *name, const char *value,
	      struct err *err) _must_check_;

/* Members of an answer; a missing or differently typed one gives the empty value. */
const struct json *field(const struct json *object, const char *name);
struct str field_str(const struct json *object, const char *name);
int64_t field_int(const struct json *object, const char *name, int64_t otherwise);
bool field_bool(const struct json *object, const char *name);

#endif
