/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of previews: a scripted server inside, and visitors. */
#ifndef CAY_TESTS_COMPONENT_VISITOR_H
#define CAY_TESTS_COMPONENT_VISITOR_H

#include "inside.h"

#define PORT 8080

extern size_t dialled; /* connections, since the test began */

int preview_setup(void **state);
int preview_teardown(void **state);
/* A server on this port of the sandbox, controlled by the test. */
void listen_on(uint16_t port);
void turn_until(bool (*look)(void *arg), void *arg,
		const char *what); /* fails after WORLD_WAIT_US */

/* One connection of the server. */
struct peer {
	int fd;
	char text[65536];
	size_t n;
	bool ended;
};
void peer_take(struct peer *peer); /* the next that was dialled */
/* Waits for the text; the next call drops everything up to its end. */
const char *peer_until(struct peer *peer, const char *text);
bool peer_ended(void *peer);
void peer_say(struct peer *peer, const char *text);
void peer_close(struct peer *peer);

extern char preview[32]; /* the id of the one made last */

void new_preview(const char *body);
void new_world(const char *body); /* a sandbox, a server on PORT and a public preview of it */
const char *host_of(uint16_t port);
void visit_send(struct request *req, const char *method, const char *path, const char *more,
		const char *body);
struct answer *refused(const char *host, const char *more); /* a visit that needs no server */
/*
 * A visit that a new connection of the server answers with 200; returns the request that the server
 * received.
 */
const char *served(const char *path, const char *more);
int64_t figure(const char *name); /* of the preview */

#define expect_refused(host, more, wanted, code)                 \
	do {                                                     \
		const struct answer *got_ = refused(host, more); \
		expect_status(got_, wanted);                     \
		assert_string_equal(error_code(got_), code);     \
	} while (0)

#endif
