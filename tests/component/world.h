/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole daemon in one process: loop, store, service, REST face and HTTP server over socket pairs,
 * on the fake engine. Tests send complete requests and receive complete replies.
 */
#ifndef CAY_TESTS_COMPONENT_WORLD_H
#define CAY_TESTS_COMPONENT_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/time.h"
#include "engine/fake/fake.h"
#include "face/e2b/e2b.h"
#include "face/preview/preview.h"
#include "face/rest/rest.h"
#include "http/server/server.h"
#include "service/service.h"

struct world {
	char dir[64];
	char templates[96];
	struct loop *loop;
	struct service *service;
	struct rest *rest;
	struct e2b *e2b;
	struct preview_face *preview;
	struct http_server *server;
	struct service_config config;
	struct engine *engine; /* survives world_restart() */
	char admin[64];
	int heartbeat_ms;      /* interval of comments in event streams; 0: the default */
	uint32_t open_per_min; /* calls without a key; 0: the default */
	int body_timeout_ms;   /* 0: as usual */
	bool shutdown;
};

/* The one world of a test; change world.config between world_prepare() and world_start(). */
extern struct world world;

int world_setup(void **state); /* prepare and start, pool off */
int world_setup_pool(void **state);
int world_teardown(void **state);
void world_prepare(void);
void world_start(void);
void world_stop(void); /* the daemon ends, the engine's sandboxes continue */
void world_restart(void);
void world_turns(int ms); /* runs the loop for that long */
/* How long a test waits for an event. Much longer than it takes: sanitizers and busy hosts. */
#define WORLD_WAIT_US 30000000
/* Runs the loop until the condition holds; fails after WORLD_WAIT_US. */
#define world_until(condition)                                              \
	do {                                                                \
		int64_t end_us_ = time_mono_us() + WORLD_WAIT_US;           \
                                                                            \
		while (!(condition)) {                                      \
			if (time_mono_us() > end_us_)                       \
				fail_msg("did not happen: %s", #condition); \
			loop_turn(world.loop, 1);                           \
		}                                                           \
	} while (0)
void world_engine_lost(bool lost);
/* Its table, for tests that remove parts of it; restored at the next start. */
struct engine_driver *world_driver(void);
void world_template(const char *name, const char *meta);

struct request {
	int fd;
	char *bytes;
	size_t n, size;
	size_t seen; /* by request_until() */
	bool done;
};

struct answer {
	int status;
	char *head;
	char *body;
	size_t n;	  /* of the body */
	bool complete;	  /* of a chunked body: its end has arrived */
	struct json *doc; /* NULL when the body is no JSON */
};

/* key NULL: none. headers: extra lines with CRLF, or NULL. body NULL: none. */
void request_send(struct request *req, const char *key, const char *method, const char *path,
		  const char *headers, const char *body);
/* The same with any bytes; p NULL: none. */
void request_send_bytes(struct request *req, const char *key, const char *method, const char *path,
			const char *headers, struct str body);
/* A separate connection, and raw bytes on it. */
void request_open(struct request *req);
void request_write(struct request *req, struct str bytes);
void request_wait(struct request *req, struct answer *ret); /* fails after WORLD_WAIT_US */
/* Waits for the text, after what was found before. Fails after WORLD_WAIT_US. */
const char *request_until(struct request *req, const char *text);
bool request_ended(struct request *req); /* the other side has closed */
void request_drop(struct request *req);
/* Sends and waits; the next call() or answer_free() frees the reply. */
struct answer *call(const char *method, const char *path, const char *body);
struct answer *call_as(const char *key, const char *method, const char *path, const char *body);
void answer_free(struct answer *answer);
void call_done(void); /* frees the last reply of call() */

const char *text_of(const struct answer *answer, const char *key); /* top level; "" when absent */
int64_t int_of(const struct answer *answer, const char *key);
const struct json *member(const struct json *object, const char *key);
const char *error_code(const struct answer *answer);
const char *error_message(const struct answer *answer);
/* Follows the output of a process; query without its '?'. */
void follow_send(struct request *req, const char *id, const char *process, const char *query);
/* Creates a sandbox; its id is in one of 64 static buffers. */
const char *make(const char *body);
/* A new key with scopes as a JSON array; in a static buffer. */
const char *make_key(const char *scopes);
const char *path_of(const char *fmt, ...) _printf_(1, 2); /* static, 64 take turns */

#define expect_status(got_, wanted)                                                        \
	do {                                                                               \
		const struct answer *a_ = (got_);                                          \
		if (a_->status != (wanted))                                                \
			fail_msg("status %d, not %d: %s", a_->status, (wanted), a_->body); \
	} while (0)

#endif
