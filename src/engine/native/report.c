/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/native/report.h"

#include <errno.h>

/* Codes that make sense for an image; whatever else the builder says is a failure of the engine. */
static enum err_code code_of(struct str name)
{
	static const enum err_code known[] = { ERR_CONFLICT, ERR_TEMPLATE_NOT_FOUND,
					       ERR_INVALID_REQUEST, ERR_CAPACITY_EXCEEDED,
					       ERR_UNAVAILABLE };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_is(name, err_name(known[i])))
			return known[i];
	return ERR_ENGINE_FAILED;
}

int report_parse(struct str line, struct report *ret)
{
	struct str word = line, rest = { line.p, 0 }, code, text = { line.p, 0 };

	(void)str_cut(line, ' ', &word, &rest);
	if (str_is(word, "done")) {
		*ret = (struct report){ .kind = REPORT_DONE };
	} else if (str_is(word, "step") && rest.n) {
		*ret = (struct report){ .kind = REPORT_STEP, .text = rest };
	} else if (str_is(word, "failed") && rest.n) {
		code = rest;
		(void)str_cut(rest, ' ', &code, &text);
		*ret = (struct report){ .kind = REPORT_FAILED,
					.text = text,
					.code = code_of(code) };
	} else {
		return -EINVAL;
	}
	return 0;
}

void report_feed(struct report_lines *lines, struct str bytes, report_line_fn fn, void *arg)
{
	for (size_t i = 0; i < bytes.n; i++) {
		if (bytes.p[i] == '\n') {
			fn(arg, (struct str){ lines->text, lines->n });
			lines->n = 0;
		} else if (lines->n < sizeof(lines->text)) {
			lines->text[lines->n++] = bytes.p[i];
		}
	}
}
