/* SPDX-License-Identifier: Apache-2.0 */
/* Shared set-up of the tests of translators: a JSON body, its arena, and the error of a decoder. */
#ifndef CAY_TESTS_UNIT_FACE_BODY_H
#define CAY_TESTS_UNIT_FACE_BODY_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "face/kit/field.h"

struct body {
	struct json *doc;
	struct arena arena;
	struct err err;
};

/* Limits of the operator that most tests use: 8 CPUs, 16 GiB, 32 GiB, a day. */
extern const struct service_config body_config;

/* The document stays valid until body_done() or the next body_set(). Zeroed: empty. */
void body_set(struct body *body, const char *text);
void body_done(struct body *body);
/* Decodes text by a table into base, which must be zeroed. */
int body_decode(struct body *body, const struct field *table, const char *text, void *base);
/* Each text must be rejected with a message that contains what. The last row has text NULL. */
struct body_refusal {
	const char *text, *what;
};
void body_refuse(const struct field *table, size_t size, const struct body_refusal *rows);

#endif
