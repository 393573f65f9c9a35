/* SPDX-License-Identifier: Apache-2.0 */
/* Initializers of a request or a template: what is taken is kept within its limits, and means the
 * same when it is read again. */
#include <assert.h>

#include "service/sandbox/initializer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct json *doc)
{
	struct initializers *first = NULL, *again = NULL;
	struct json_writer w;
	struct buf text;
	struct err err;

	if (json_type(doc) != JSON_ARRAY || initializers_read(doc, &first, &err) < 0)
		return;
	buf_init(&text, INITIALIZERS_BYTES_MAX + 16);
	json_writer_init(&w, &text);
	initializers_write(first, &w, NULL);
	assert(json_writer_end(&w) == 0 && json_size(doc) <= INITIALIZERS_MAX);
	assert(initializers_copy(first, &again) == 0 && (first != NULL) == (again != NULL));
	buf_done(&text);
	initializers_free(first);
	initializers_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err;
	struct json *doc = json_parse((struct str){ (const char *)data, size }, &err);

	if (doc)
		check(doc);
	json_free(doc);
	return 0;
}
