/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent that the test scripts: it sends what the test wants, and receives what the link
 * requests.
 */
#ifndef CAY_TESTS_ENGINE_PEER_H
#define CAY_TESTS_ENGINE_PEER_H

#include "rig.h"
#include "wire/agent.h"

#define PEER_FIRST_ID 41 /* of the processes the link may start */

extern struct rig rig;
extern int peer;	  /* the agent's end */
extern bool peer_streams; /* the channel passes no descriptors */

int peer_setup(void **state);
int peer_teardown(void **state);

void peer_say(const void *p, size_t n);
void peer_say_buf(struct buf *buf); /* and calls buf_done() */
void peer_say_hello(uint16_t version);
void peer_say_output(uint32_t process_id, uint32_t follow_id, enum agent_stream stream,
		     uint64_t cursor, const char *text);
void peer_say_started(uint32_t process_id);
void peer_say_exit(uint32_t process_id, uint64_t out_total);
void peer_say_refused(uint32_t process_id, enum agent_refusal code, const char *message);
void peer_say_done(uint32_t tag, uint32_t refusal);
void peer_say_followed(uint32_t process_id, uint32_t follow_id, uint32_t refusal,
		       const struct agent_status *status);
void peer_say_window(const struct agent_window *window);

void peer_start(void); /* sends HELLO and waits for the link */
/* The next frame from the link; valid until the next call. */
struct frame peer_hear(void);
struct frame peer_expect(enum agent_type type);
void peer_expect_silence(void);
void peer_turn(void); /* lets the link read what was sent */
void peer_expect_gone(enum err_code code, const char *part);
void peer_expect_breach(const char *part);

#endif
