/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/rest: the route table and what is derived from it. */
#ifndef CAY_FACE_REST_ROUTE_H
#define CAY_FACE_REST_ROUTE_H

#include "base/buf.h"
#include "base/json.h"
#include "face/kit/field.h"
#include "face/kit/route.h"

struct rest_call;

/* One row feeds dispatch, the scope check, the decoder and the OpenAPI document. */
struct rest_route {
	struct route row;
	void (*handle)(struct rest_call *call); /* NULL: reserved for a later version */
	const char *summary;
	const struct field *body; /* NULL: none is read */
	const struct field *answer;
	size_t body_limit; /* 0: BODY_LIMIT */
	int status;	   /* of success */
	int also;	   /* another status with the same reply; 0: none */
	bool upload;	   /* the handler streams the body, of any type and size */
	int op;		   /* enum files_op of the file routes */
	const char *media; /* of the answer; NULL: application/json */
	bool secret;	   /* its body or its reply contains a secret */
	bool ready;	   /* of a sandbox; the handler runs when the inside can be used */
	bool process;	   /* with ready: the second brace is a process, resolved to its number */
	bool by_pid;	   /* with process: it may also be "pid:N", resolved to the pid */
	const struct field *query;
	const struct field
		*page; /* for streams: the reply as JSON, where the client can request that */
	const struct field *other; /* another schema of the reply */
	const char *example;	   /* of the body, as JSON */
};
extern const struct rest_route rest_routes[];
extern const size_t rest_route_count;
/* err is set if there is none; ret->allow says whether the path exists. */
const struct rest_route *rest_route_find(enum http_method method, struct str path,
					 struct route_match *ret, struct err *err);

/* account/tickets.c: whether a ticket can open it. */
bool ticket_opens(const struct rest_route *route);

/* openapi.c */
int openapi_write(struct buf *out) _must_check_;
/* openapi/names.c: unique, and the same in every version, because generated clients use it for
 * methods. */
#define OPERATION_ID_MAX 64
void operation_id(const struct rest_route *route, char ret[OPERATION_ID_MAX]);
const char *operation_tag(const struct rest_route *route);
void operation_write_tags(struct json_writer *w); /* all of them, with descriptions */

#endif
