/* SPDX-License-Identifier: Apache-2.0 */
/* Initializers of a request: accepted ones are within their limits, and a copy is equal. */
#include <assert.h>
#include <stdlib.h>

#include "base/arena.h"
#include "face/rest/call.h"
#include "service/sandbox/initializer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(struct str a, struct str b)
{
	return str_eq(a, b) && !a.p == !b.p;
}

static void compare(const struct initializer *a, const struct initializer *b)
{
	assert(same(a->exec.command, b->exec.command) && same(a->name, b->name));
	assert(a->exec.argv.count == b->exec.argv.count && a->exec.env.count == b->exec.env.count);
	for (size_t i = 0; i < a->exec.argv.count; i++)
		assert(str_eq(a->exec.argv.list[i], b->exec.argv.list[i]));
	for (size_t i = 0; i < a->exec.env.count; i++)
		assert(str_eq(a->exec.env.list[i].value, b->exec.env.list[i].value));
}

static void check(const struct json *doc, struct arena *arena)
{
	struct initializers *first = NULL, *again = NULL;
	struct initializer_list sent = { NULL, 0 }, kept;
	struct err err;

	if (json_type(doc) != JSON_ARRAY || initializers_decode(doc, arena, &sent, &err) < 0 ||
	    initializers_make(&sent, &first, &err) < 0)
		return;
	assert(sent.count == json_size(doc) && sent.count <= INITIALIZERS_MAX);
	assert(initializers_copy(first, &again) == 0 && (first != NULL) == (again != NULL));
	initializers_free(first);
	kept = initializers_list(again);
	assert(kept.count == sent.count);
	for (size_t i = 0; i < kept.count; i++)
		compare(&sent.list[i], &kept.list[i]);
	initializers_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err;
	struct json *doc = json_parse((struct str){ (const char *)data, size }, &err);
	struct arena arena;

	arena_init(&arena, 64 << 20);
	if (doc)
		check(doc, &arena);
	arena_done(&arena);
	json_free(doc);
	return 0;
}
