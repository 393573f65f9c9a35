/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The template builder's report: lines stay within their limit, and parsed parts are inside the
 * line.
 */
#include <assert.h>

#include "engine/native/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_line(void *arg, struct str line)
{
	struct report report;

	(void)arg;
	assert(line.n <= REPORT_LINE_MAX);
	if (report_parse(line, &report) < 0 || report.kind == REPORT_DONE)
		return;
	assert(report.text.p >= line.p && report.text.p + report.text.n <= line.p + line.n);
	assert(report.kind != REPORT_STEP || report.text.n > 0);
	assert(report.kind != REPORT_FAILED || report.code != ERR_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct report_lines lines = { .n = 0 };
	size_t half = size / 2;

	report_feed(&lines, (struct str){ (const char *)data, half }, on_line, NULL);
	report_feed(&lines, (struct str){ (const char *)data + half, size - half }, on_line, NULL);
	return 0;
}
