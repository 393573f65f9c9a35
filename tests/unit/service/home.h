/* SPDX-License-Identifier: Apache-2.0 */
/* A service alone, on the fake engine and a temporary state directory: for tests of one theme at a
 * time. */
#ifndef CAY_TESTS_SERVICE_HOME_H
#define CAY_TESTS_SERVICE_HOME_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/fake/fake.h"
#include "service/account/auth_internal.h"
#include "service/service_internal.h"

struct home {
	char dir[64], templates[96];
	struct loop *loop;
	struct service_config config; /* may be changed between home_prepare() and home_open() */
	struct service *service;
	struct key *admin;
};
extern struct home home;

int home_setup(void **state); /* prepares and opens */
int home_teardown(void **state);
void home_prepare(void);
void home_open(void);
void home_close(void);
void home_reopen(void);
void home_file(const char *name, const char *text); /* below the state directory */
/* A template of this name with this meta.json; its hash begins with the letter. */
void home_template(const char *name, char letter, const char *meta);
/* A key with these scopes that the daemon itself makes. */
struct key *home_key(const char *name, uint32_t scopes);
/* A running sandbox of the key. */
struct sandbox *home_sandbox(struct key *key, const char *name);

/* Turns the loop until the condition holds; the limit of the test program is the last resort. */
#define HOME_UNTIL(condition)            \
	do                               \
		loop_turn(home.loop, 2); \
	while (!(condition))

#endif
