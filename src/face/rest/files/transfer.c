/* SPDX-License-Identifier: Apache-2.0 */
/* Calls with streamed content: uploads, downloads, watches. */
#include "face/rest/files/files.h"

static void on_done(struct transfer *t)
{
	struct rest_transfer *own = (struct rest_transfer *)t;

	heartbeat_stop(&own->heartbeat);
	files_answer_done(&own->answer);
}

struct rest_transfer *rest_transfer_new(struct rest_call *call, struct err *err)
{
	struct rest_transfer *t = transfer_new(&call->rest->transfers, call->req, call->key,
					       sizeof(*t), on_done, err);

	if (t) {
		t->rest = call->rest;
		t->call = call;
		files_answer_init(&t->answer, call->route->op);
	}
	return t;
}

int rest_transfer_start(struct rest_transfer *t, const struct files_hooks *hooks, struct err *err)
{
	enum files_op op = t->call->route->op;

	if (t->call->req->method == HTTP_HEAD)
		op = FILES_STAT;
	return files_start(t->call->sandbox, op, &t->base.spec, hooks, t, &t->base.run, err);
}
