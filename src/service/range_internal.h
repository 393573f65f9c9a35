/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/service only: values of a spec against their range. Faces check the same ranges when
 * they decode a request; this is the check that none of them can forget. 0, or -1 with
 * invalid_request, the field and its range.
 */
#ifndef CAY_SERVICE_RANGE_INTERNAL_H
#define CAY_SERVICE_RANGE_INTERNAL_H

#include "base/err.h"
#include "base/str.h"

int range_check(const char *name, int64_t value, int64_t min, int64_t max,
		struct err *err) _must_check_;
/* In bytes; a text that was not given (p NULL) passes. */
int range_check_text(const char *name, struct str text, size_t min, size_t max,
		     struct err *err) _must_check_;
/* [a-z0-9][a-z0-9._-]*; likewise. */
int range_check_name(const char *name, struct str text, size_t max, struct err *err) _must_check_;

#endif
