/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on one sandbox and its processes. */
#ifndef CAY_TESTS_COMPONENT_INSIDE_H
#define CAY_TESTS_COMPONENT_INSIDE_H

#include "world.h"

extern char sandbox[64]; /* the id; unlike path_of()'s buffers, it is not reused */

void new_sandbox(const char *body);
/* Paths below the sandbox. */
struct answer *post(const char *path, const char *body);
struct answer *get(const char *path);
struct answer *del(const char *path);

void start(const char *name, const char *command); /* as a process */
void type(const char *name, const char *bytes);	   /* into its standard input */
void close_input(const char *name);

/* The data of all events of a kind in an answer, one behind the other; the caller frees it. */
char *gather(const struct answer *a, const char *event);
size_t count(const char *text, const char *what);

#endif
