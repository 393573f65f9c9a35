/* SPDX-License-Identifier: Apache-2.0 */
/* The route tables of all faces in one form: what tests over every route are generated from. */
#ifndef CAY_TESTS_COMPONENT_ROUTES_H
#define CAY_TESTS_COMPONENT_ROUTES_H

#include "base/macro.h"

struct route_row {
	const char *face, *method, *pattern;
	uint32_t scopes; /* all of them are needed */
	bool open;	 /* needs no key */
	bool body;	 /* takes one */
};

/* Appends those of one face from dst on; how many. A header of one face does not go with that of
 * another, so each has a file of its own. */
size_t routes_of_rest(struct route_row *dst, size_t max);
size_t routes_of_e2b(struct route_row *dst, size_t max);

#endif
