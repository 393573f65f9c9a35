/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of lists: the number of elements, and the cursor of the next page. */
#ifndef CAY_FACE_KIT_PAGE_H
#define CAY_FACE_KIT_PAGE_H

#include "base/macro.h"
#include "base/str.h"

#define PAGE_LIMIT_MAX 1000
#define PAGE_LIMIT 100 /* if the client sends none */
#define PAGE_NUMBER_SIZE 24

/* 1 to PAGE_LIMIT_MAX; an empty text leaves *ret as it is. 0 or -ERANGE. */
int page_limit_parse(struct str text, int64_t *ret) _must_check_;
/* A number that page_number() wrote; likewise. */
int page_cursor_parse(struct str text, int64_t *ret) _must_check_;
const char *page_number(char dst[PAGE_NUMBER_SIZE], int64_t next);

#endif
