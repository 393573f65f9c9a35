/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/refusal.h"

#include <stdio.h>

#include "base/json.h"

/* The text besides the verdict. */
struct words {
	const char *status, *code, *message;
};

static int write_reason(const struct sandbox *sandbox, const struct egress_ask *ask,
			const struct egress_verdict *verdict, const struct words *words,
			struct buf *out)
{
	char host[EGRESS_NAME_MAX + 1], hint[EGRESS_NAME_MAX + 128];
	struct json_writer w;

	egress_host_text(ask, host);
	egress_explain(sandbox, ask, verdict, hint, sizeof(hint));
	json_writer_init(&w, out);
	json_begin_object(&w, NULL);
	json_begin_object(&w, "error");
	json_put_text(&w, "code", words->code);
	json_put_text(&w, "message", words->message);
	json_put_text(&w, "host", host);
	json_put_int(&w, "port", ask->port);
	json_put_text(&w, "reason", egress_why_name(verdict->why));
	json_put_text(&w, "rule", verdict->rule[0] ? verdict->rule : NULL);
	json_put_text(&w, "hint", egress_passes(verdict) ? NULL : hint);
	json_put_text(&w, "sandbox_id", egress_id(sandbox));
	json_end_object(&w);
	json_end_object(&w);
	return json_writer_end(&w);
}

static int write_answer(const struct sandbox *sandbox, const struct egress_ask *ask,
			const struct egress_verdict *verdict, const struct words *words,
			struct buf *out)
{
	struct buf body;
	int r;

	buf_init(&body, REFUSAL_MAX / 2);
	r = write_reason(sandbox, ask, verdict, words, &body);
	if (r == 0)
		r = buf_printf(out,
			       "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
			       "Content-Length: %zu\r\nCache-Control: no-store\r\n"
			       "Connection: close\r\nX-Cay-Egress: %s\r\n\r\n",
			       words->status, buf_len(&body), egress_why_name(verdict->why));
	if (r == 0)
		r = buf_append(out, buf_data(&body), buf_len(&body));
	buf_done(&body);
	return r;
}

int refusal_denied(const struct sandbox *sandbox, const struct egress_ask *ask,
		   const struct egress_verdict *verdict, struct buf *out)
{
	char message[EGRESS_NAME_MAX + 128], host[EGRESS_NAME_MAX + 1];
	const struct words words = { "403 Forbidden", "egress_denied", message };

	egress_host_text(ask, host);
	(void)snprintf(message, sizeof(message), "this sandbox may not reach %s:%u", host,
		       ask->port);
	return write_answer(sandbox, ask, verdict, &words, out);
}

int refusal_unreachable(const struct sandbox *sandbox, const struct egress_ask *ask, int error,
			struct buf *out)
{
	static const struct egress_verdict passed = { .why = EGRESS_ALLOWED };
	char message[128];
	const struct words words = { "502 Bad Gateway", "egress_unreachable", message };

	(void)snprintf(message, sizeof(message), "allowed, but it cannot be reached: %s",
		       strerror(error));
	return write_answer(sandbox, ask, &passed, &words, out);
}
