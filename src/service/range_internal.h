/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/service only: range checks for the values of a spec. Faces check the same ranges when
 * they decode a request; this check applies to every face. Each function returns 0, or -1 with
 * invalid_request, the field and its range.
 */
#ifndef CAY_SERVICE_RANGE_INTERNAL_H
#define CAY_SERVICE_RANGE_INTERNAL_H

#include "base/err.h"
#include "base/str.h"

int range_check(const char *name, int64_t value, int64_t min, int64_t max,
		struct err *err) _must_check_;
/* min and max are in bytes; a text that was not given (p NULL) is accepted. */
int range_check_text(const char *name, struct str text, size_t min, size_t max,
		     struct err *err) _must_check_;
/* Accepts [a-z0-9][a-z0-9._-]*, and a text that was not given. */
int range_check_name(const char *name, struct str text, size_t max, struct err *err) _must_check_;

#endif
