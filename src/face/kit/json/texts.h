/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays and objects of strings from JSON. The texts are views into the document; the lists are in
 * the arena. */
#ifndef CAY_FACE_KIT_JSON_TEXTS_H
#define CAY_FACE_KIT_JSON_TEXTS_H

#include "base/arena.h"
#include "base/json.h"
#include "service/texts.h"

/* path and name make the name of the field in messages. value NULL: *ret is left as it is. */
int texts_read_list(const struct json *value, const char *path, const char *name,
		    struct arena *arena, struct text_list *ret, struct err *err) _must_check_;
int texts_read_map(const struct json *value, const char *path, const char *name,
		   struct arena *arena, struct text_map *ret, struct err *err) _must_check_;

#endif
