/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists and maps of text that faces pass to the service. They are views that live during the call;
 * the caller owns the texts. A NULL list was not given; an empty list that was given is not NULL.
 */
#ifndef CAY_SERVICE_TEXTS_H
#define CAY_SERVICE_TEXTS_H

#include "base/str.h"

struct text_list {
	const struct str *list;
	size_t count;
};

struct text_pair {
	struct str key, value;
};

struct text_map {
	const struct text_pair *list; /* keys are unique */
	size_t count;
};

#endif
