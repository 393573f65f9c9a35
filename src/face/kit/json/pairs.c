/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/json/pairs.h"

void pairs_write(const struct pairs *pairs, struct json_writer *w, const char *key)
{
	const char *record;
	uint32_t at = 0;
	char name[257];

	json_begin_object(w, key);
	while (pairs_next(pairs, &at, &record)) {
		struct str k, v;

		if (str_cut(str_of(record), '=', &k, &v) && str_copy(name, sizeof(name), k) == 0)
			json_put_str(w, name, v);
	}
	json_end_object(w);
}
