/* SPDX-License-Identifier: Apache-2.0 */
/* A server on one end of a socket pair, the test on the other: no port, no second thread. */
#ifndef CAY_TESTS_SERVER_FIXTURE_H
#define CAY_TESTS_SERVER_FIXTURE_H

#include "http/server/server.h"

#define BODY_LIMIT 100
#define GET(path) "GET " path " HTTP/1.1\r\nHost: A.example:70\r\n\r\n"

extern struct loop *loop;
extern struct http_server *server;
extern struct http_limits limits; /* change before start() */
extern int peer;		  /* the client's end */
extern char got[1 << 20];
extern size_t got_len;
extern int handled, gone, drained, drains, body_status;
extern slot_handle last;
extern char seen_body[4096];
extern size_t seen_len;
extern int upgraded_fd;
extern char unread[64];

int setup(void **state);
int teardown(void **state);
void start(void);
void dial(void);
bool drain_peer(void); /* reads everything available; true at the end of the stream */
bool pump(int turns);  /* same, with iterations of the loop in between */
void put(const char *text);
int count_of(const char *needle);
void on_drain(void *arg);
void on_drained(void *arg);

#endif
