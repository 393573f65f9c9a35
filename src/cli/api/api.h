/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the public HTTP API, and access to the replies. Every command uses it. The caller frees
 * returned documents.
 */
#ifndef CAY_CLI_API_API_H
#define CAY_CLI_API_API_H

#include "cli/cli.h"

/* The largest reply that is read into memory; a larger one is refused. Streams have no limit. */
#define API_BODY_LIMIT_BYTES (64 * 1024 * 1024)
#define API_PATH_MAX 1024
#define API_URL_MAX (160 * 1024) /* a path of 32 KiB with every byte as %XX, and the rest */

/*
 * One call. body NULL: none. ret may be NULL; *ret becomes NULL if the reply has no JSON body
 * (204). An error reply sets err, cli->error_body and the exit status.
 */
int api_call(struct cli *cli, const char *method, const char *path, const struct buf *body,
	     struct json **ret, struct err *err) _must_check_;
/*
 * The same, but passes every piece of the reply to data as it arrives. data returns non-zero to
 * stop; a negative value is returned without setting err. cli->lost distinguishes a connection that
 * broke or was refused from an error reply.
 */
int api_stream(struct cli *cli, const char *method, const char *path, const struct buf *body,
	       http_client_data_fn data, void *arg, struct err *err) _must_check_;
/* A body that is one JSON object: begin, write members, send. send frees body in every case. */
struct json_writer api_body_begin(struct buf *body, size_t max_bytes);
int api_body_send(struct cli *cli, const char *method, const char *path, struct json_writer *w,
		  struct buf *body, struct json **ret, struct err *err) _must_check_;
/* Translates -errno of the HTTP client: sets err and cli->lost, returns -1. */
int api_lost(struct cli *cli, int error, struct err *err);
/* The same for an error reply. */
int api_refused(struct cli *cli, const struct http_response *res, struct err *err);
/* Clears what an earlier call left behind, so that it does not explain the next failure. */
void api_forget(struct cli *cli);
/* Prints a document as the result, with --json. */
int api_print(struct cli *cli, const struct json *doc, struct err *err) _must_check_;

/*
 * Iterates over all pages of a list; each() returns non-zero to stop. path has no '?', query may be
 * NULL.
 */
typedef int (*api_each_fn)(void *arg, const struct json *item);
int api_list(struct cli *cli, const char *path, const char *query, api_each_fn each, void *arg,
	     struct err *err) _must_check_;
/* Selects items; NULL: all. */
typedef bool (*api_keep_fn)(const struct json *item);
/* Prints {"data":[...],"next_cursor":null} of all pages. */
int api_print_list(struct cli *cli, const char *path, const char *query, api_keep_fn keep,
		   struct err *err) _must_check_;

/*
 * DELETE collection/OPERAND for every operand. Failures are reported, and the rest continues while
 * the daemon replies. Returns the exit status.
 */
struct args;
int api_delete_each(struct cli *cli, const struct args *args, const char *collection,
		    struct err *err) _must_check_;

/* Builds a path from a format whose only directive is %s; every argument is percent-encoded. */
int api_path(char dst[API_PATH_MAX], struct err *err, const char *fmt, ...)
	_printf_(3, 4) _must_check_;
/* Appends name=value, encoded, to a query string. */
int api_query(char dst[API_PATH_MAX], const char *name, const char *value,
	      struct err *err) _must_check_;

/* Members of a reply; a missing member or one of another type yields the empty value. */
const struct json *field(const struct json *object, const char *name);
struct str field_str(const struct json *object, const char *name);
int64_t field_int(const struct json *object, const char *name, int64_t otherwise);
bool field_bool(const struct json *object, const char *name);

#endif
