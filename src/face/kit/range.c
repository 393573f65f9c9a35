/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/range.h"

#include <errno.h>
#include <strings.h>

#include "http/server/server.h"
#include "service/files/files.h"

static int bad_range(struct err *err)
{
	return err_set(err, ERR_RANGE_NOT_SATISFIABLE,
		       "Range must be one range: bytes=FIRST-LAST, bytes=FIRST- or bytes=-COUNT");
}

/* A number beyond all file sizes means the end of any file. */
static int range_number(struct str s, uint64_t *ret)
{
	int r = str_to_u64(s, INT64_MAX - 1, ret);

	if (r != -ERANGE)
		return r;
	*ret = INT64_MAX - 1;
	return 0;
}

int face_range_read(const struct http_req *req, struct files_spec *spec, struct err *err)
{
	const struct str *header = http_req_header(req, "range");
	struct str range, first, last;
	uint64_t a = 0, b = 0;

	if (!header || header->n < 6 || strncasecmp(header->p, "bytes=", 6) != 0)
		return 0;
	range = str_trim((struct str){ header->p + 6, header->n - 6 }, " \t");
	if (!str_cut(range, '-', &first, &last))
		return bad_range(err);
	if (first.n == 0) {
		if (range_number(last, &b) < 0 || b == 0)
			return bad_range(err);
		spec->has_range = spec->has_suffix = true;
		spec->range_suffix = (int64_t)b;
		return 0;
	}
	if (range_number(first, &a) < 0 || (last.n && (range_number(last, &b) < 0 || b < a)))
		return bad_range(err);
	spec->has_range = true;
	spec->range_begin = (int64_t)a;
	spec->has_length = last.n != 0;
	spec->range_length = last.n ? (int64_t)(b - a + 1) : 0;
	return 0;
}
