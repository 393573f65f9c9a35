/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a code kernel's program: what comes out of any of them can be sent to a client. */
#include <assert.h>

#include "face/kit/code_event.h"
#include "service/run/code_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_event(void *arg, const struct code_event *event)
{
	struct json_writer w;
	struct json *doc;
	struct buf out;
	struct err err;
	int *events = arg;

	(*events)++;
	assert(event->part_count <= CODE_PARTS_MAX);
	buf_init(&out, 64 << 20);
	json_writer_init(&w, &out);
	json_begin_object(&w, NULL);
	code_event_write(event, &w);
	json_end_object(&w);
	assert(json_writer_end(&w) == 0);
	doc = json_parse(buf_str(&out), &err);
	assert(doc);
	json_free(doc);
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int events = 0;
	enum code_line line =
		code_line_read((struct str){ (const char *)data, size }, "i", on_event, &events);

	assert(events == (line == CODE_LINE_EVENT));
	return 0;
}
