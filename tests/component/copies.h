/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of snapshots, forks and restoring: calls on the sandbox of inside.h. */
#ifndef CAY_TESTS_COMPONENT_COPIES_H
#define CAY_TESTS_COMPONENT_COPIES_H

#include "inside.h"

extern char snapshot[64]; /* the id of the one that take() made last */

void take(const char *body);
struct answer *restore(const char *id);
struct answer *take_away(const char *id); /* deletes the snapshot */
size_t listed(const char *path);	  /* length of the list in the reply */
struct answer *look(void);		  /* the sandbox */
void destroy(void);
void expect_works(void); /* A command runs in the sandbox. */

#endif
