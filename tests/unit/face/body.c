/* SPDX-License-Identifier: Apache-2.0 */
#include "body.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "service/service.h"

const struct service_config body_config = { .max_cpu_milli = 8000,
					    .max_memory_mb = 16384,
					    .max_disk_size_mb = 32768,
					    .max_timeout_sec = 86400 };

void body_done(struct body *body)
{
	if (body->doc)
		arena_done(&body->arena);
	json_free(body->doc);
	body->doc = NULL;
}

void body_set(struct body *body, const char *text)
{
	body_done(body);
	arena_init(&body->arena, 1024 * 1024);
	body->err = (struct err){ .code = ERR_OK };
	body->doc = json_parse(str_of(text), &body->err);
	if (!body->doc)
		fail_msg("%s: %s", text, body->err.message);
}

int body_decode(struct body *body, const struct field *table, const char *text, void *base)
{
	field_limits_set(&body_config);
	body_set(body, text);
	return field_decode(table, body->doc, "", &body->arena, base, &body->err);
}

void body_refuse(const struct field *table, size_t size, const struct body_refusal *rows)
{
	struct body body = { .doc = NULL };

	for (; rows->text; rows++) {
		void *base = calloc(1, size);

		assert_non_null(base);
		if (body_decode(&body, table, rows->text, base) == 0)
			fail_msg("accepted: %s", rows->text);
		assert_int_equal(body.err.code, ERR_INVALID_REQUEST);
		if (!strstr(body.err.message, rows->what))
			fail_msg("%s: '%s' is not in '%s'", rows->text, rows->what,
				 body.err.message);
		free(base);
	}
	body_done(&body);
}
