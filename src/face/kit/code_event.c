/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/code_event.h"

const char *code_event_name(enum code_event_type type)
{
	static const char *const names[] = { [CODE_COUNT] = "number_of_executions",
					     [CODE_STDOUT] = "stdout",
					     [CODE_STDERR] = "stderr",
					     [CODE_RESULT] = "result",
					     [CODE_ERROR] = "error" };

	return names[type];
}

static void put_result(const struct code_event *event, struct json_writer *w)
{
	json_put_bool(w, "is_main_result", event->is_main);
	for (size_t i = 0; i < event->part_count; i++)
		if (event->parts[i].structured)
			json_put_raw(w, event->parts[i].name, event->parts[i].value);
		else
			json_put_str(w, event->parts[i].name, event->parts[i].value);
}

void code_event_write(const struct code_event *event, struct json_writer *w)
{
	switch (event->type) {
	case CODE_COUNT:
		json_put_int(w, "execution_count", event->execution_count);
		break;
	case CODE_STDOUT:
	case CODE_STDERR:
		json_put_str(w, "text", event->text);
		json_put_int(w, "timestamp", event->at_us);
		break;
	case CODE_RESULT:
		put_result(event, w);
		break;
	case CODE_ERROR:
		json_put_str(w, "name", event->name);
		json_put_str(w, "value", event->value);
		json_put_str(w, "traceback", event->traceback);
		break;
	}
}
