/* SPDX-License-Identifier: Apache-2.0 */
/* Range checks for the numbers of a file operation. 0 always selects the default. */
#include "service/files/files_private.h"
#include "service/range_internal.h"

int files_check_limits(enum files_op op, const struct files_spec *spec, struct err *err)
{
	int64_t most = op == FILES_VIEW ? FILES_LINES_MAX : FILES_LIST_MAX;
	int64_t bytes = op == FILES_GREP ? FILES_GREP_BYTES_MAX : INT64_MAX;
	const struct {
		const char *name;
		int64_t value, min, max;
	} ranges[] = {
		{ "depth", spec->depth, 0, FILES_DEPTH_MAX },
		{ "limit", spec->limit, 0, most },
		{ "offset", spec->offset, -FILES_OFFSET_MAX, FILES_OFFSET_MAX },
		{ "context", spec->context, 0, FILES_CONTEXT_MAX },
		{ "max_matches", spec->max_matches, 0, FILES_MATCHES_MAX },
		{ "max_bytes", spec->max_bytes, 0, bytes },
		{ "max_entries", spec->max_entries, 0, FILES_ENTRIES_MAX },
		{ "max_ratio", spec->max_ratio, 0, FILES_RATIO_MAX },
		{ "timeout_sec", spec->timeout_sec, 0, FILES_TIMEOUT_MAX_SEC },
	};

	for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
		if (range_check(ranges[i].name, ranges[i].value, ranges[i].min, ranges[i].max,
				err) < 0)
			return -1;
	return 0;
}
