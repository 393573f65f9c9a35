/* SPDX-License-Identifier: Apache-2.0 */
/* Oracle: an accepted document, written again, is accepted again and yields the same bytes. */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"

#define WRITTEN_MAX (8u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_out(const struct json *doc, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_put_value(&w, NULL, doc);
	if (json_writer_end(&w) < 0)
		abort();
}

static void read_typed(const struct json *doc)
{
	static const char *const names[] = { "a", "b", NULL };
	struct err err = { .code = ERR_OK };
	struct json_reader r;
	struct str s = STR_LIT("");
	int64_t number = 1;
	bool flag = false;
	int pick = 0;

	json_reader_init(&r, doc, "", &err);
	json_read_int(&r, "n", 1, 10, &number);
	json_read_bool(&r, "b", &flag);
	json_read_str(&r, "s", 1, 8, &s);
	json_read_enum(&r, "e", names, &pick);
	(void)json_read_object(&r, "o");
	(void)json_read_array(&r, "a", 4);
	if (json_reader_end(&r) < 0 && (err.code != ERR_INVALID_REQUEST || !err.message[0]))
		abort();
	if (number < 1 || number > 10 || pick > 1 || s.n > 8)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = { (const char *)data, size };
	struct err err = { .code = ERR_OK };
	struct json *doc = json_parse(text, &err);
	struct json *again;
	struct buf first, second;

	if (!doc) {
		if (err.code == ERR_OK)
			abort();
		return 0;
	}
	read_typed(doc);
	buf_init(&first, WRITTEN_MAX);
	buf_init(&second, WRITTEN_MAX);
	write_out(doc, &first);
	again = json_parse(buf_str(&first), &err);
	if (!again)
		abort();
	write_out(again, &second);
	if (!str_eq(buf_str(&first), buf_str(&second)))
		abort();
	json_free(again);
	json_free(doc);
	buf_done(&first);
	buf_done(&second);
	return 0;
}
