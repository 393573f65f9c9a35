/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small ordered string maps (environment, metadata) in one heap block of "KEY=VALUE\0" records, the
 * form that the store and a program's environment use. Used by the service and by faces that show
 * the maps; the holder of a struct pairs owns its block.
 */
#ifndef CAY_SERVICE_PAIRS_H
#define CAY_SERVICE_PAIRS_H

#include "base/err.h"
#include "base/macro.h"
#include "service/texts.h"

struct pairs {
	char *p; /* heap; NULL if empty */
	uint32_t n;
	uint32_t count;
};

/* The rules of one kind of map. Keys never contain '=' or NUL, values never NUL. */
struct pairs_rule {
	const char *what; /* field name in messages */
	uint32_t count_max;
	uint32_t key_max_bytes;
	uint32_t value_max_bytes;
	uint32_t total_max_bytes;
	bool identifier_keys; /* [A-Za-z_][A-Za-z0-9_]* instead of [A-Za-z0-9_./:-]+ */
};
extern const struct pairs_rule pairs_env, pairs_exec_env, pairs_metadata;

int pairs_make(struct pairs *ret, const struct text_map *map, const struct pairs_rule *rule,
	       struct err *err) _must_check_;
int pairs_from_block(struct pairs *ret, struct str block) _must_check_; /* -EINVAL, -ENOMEM */
void pairs_done(struct pairs *pairs);
/* Iterates: start with *at = 0; false at the end. ret is one "KEY=VALUE" record, NUL-terminated. */
bool pairs_next(const struct pairs *pairs, uint32_t *at, const char **ret);
/* The value of a key; NULL if absent. */
const char *pairs_get(const struct pairs *pairs, struct str key);
bool pairs_has(const struct pairs *pairs, struct str key, struct str value);

static inline struct str pairs_block(const struct pairs *pairs)
{
	return (struct str){ pairs->p, pairs->n };
}

#endif
