/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

struct rig rig;
int peer = -1;
bool peer_streams;
static struct buf heard;
static size_t heard_frame; /* size of the frame given out last */

int peer_setup(void **state)
{
	int ends[2];

	rig_init(&rig);
	rig.streams = peer_streams;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	peer = ends[1];
	buf_init(&heard, 16U << 20);
	heard_frame = 0;
	rig_adopt(&rig, ends[0], 200);
	return 0;
}

int peer_teardown(void **state)
{
	(void)close(peer);
	rig_done(&rig);
	buf_done(&heard);
	return 0;
}

/* More than a socket buffer is allowed: the link reads meanwhile. */
void peer_say(const void *p, size_t n)
{
	const char *at = p;

	while (n && !rig.gone) {
		ssize_t sent = send(peer, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0) {
			assert_true(errno == EAGAIN || errno == EPIPE);
			loop_turn(rig.loop, 0);
			continue;
		}
		at += sent;
		n -= (size_t)sent;
	}
}

void peer_say_buf(struct buf *buf)
{
	peer_say(buf_data(buf), buf_len(buf));
	buf_done(buf);
}

static struct buf words(void)
{
	struct buf buf;

	buf_init(&buf, 1U << 20);
	return buf;
}

void peer_say_hello(uint16_t version)
{
	struct agent_hello hello = { .version = version,
				     .features = AGENT_HAS_CGROUPS,
				     .next_process_id = PEER_FIRST_ID };
	struct buf buf = words();

	assert_int_equal(agent_put_hello(&buf, &hello), 0);
	peer_say_buf(&buf);
}

void peer_say_output(uint32_t process_id, uint32_t follow_id, enum agent_stream stream,
		     uint64_t cursor, const char *text)
{
	struct agent_output output = { process_id, follow_id, stream, cursor, str_of(text) };
	struct buf buf = words();

	assert_int_equal(agent_put_output(&buf, &output), 0);
	peer_say_buf(&buf);
}

void peer_say_started(uint32_t process_id)
{
	struct buf buf = words();

	assert_int_equal(agent_put_started(&buf, process_id, 1000 + process_id), 0);
	peer_say_buf(&buf);
}

void peer_say_exit(uint32_t process_id, uint64_t out_total)
{
	struct agent_exit e = { .process_id = process_id,
				.status = { .end = AGENT_END_EXIT, .out_total = out_total } };
	struct buf buf = words();

	assert_int_equal(agent_put_exit(&buf, &e), 0);
	peer_say_buf(&buf);
}

void peer_say_refused(uint32_t process_id, enum agent_refusal code, const char *message)
{
	struct agent_refused refused = { process_id, code, ENOENT, str_of(message) };
	struct buf buf = words();

	assert_int_equal(agent_put_refused(&buf, &refused), 0);
	peer_say_buf(&buf);
}

void peer_say_done(uint32_t tag, uint32_t refusal)
{
	struct agent_done done = { .tag = tag, .refusal = refusal };
	struct buf buf = words();

	assert_int_equal(agent_put_done(&buf, &done), 0);
	peer_say_buf(&buf);
}

void peer_say_followed(uint32_t process_id, uint32_t follow_id, uint32_t refusal,
		       const struct agent_status *status)
{
	struct agent_followed followed = { process_id, follow_id, refusal, *status };
	struct buf buf = words();

	assert_int_equal(agent_put_followed(&buf, &followed), 0);
	peer_say_buf(&buf);
}

void peer_say_window(const struct agent_window *window)
{
	struct buf buf = words();

	assert_int_equal(agent_put_window(&buf, window), 0);
	peer_say_buf(&buf);
}

void peer_start(void)
{
	peer_say_hello(AGENT_PROTOCOL_VERSION);
	assert_true(rig_wait(&rig, &rig.ready, RIG_PATIENCE_MS));
}

static bool hear(void)
{
	char *at;
	ssize_t n;

	assert_int_equal(buf_reserve(&heard, 65536, &at), 0);
	n = recv(peer, at, 65536, MSG_DONTWAIT);
	if (n > 0)
		buf_commit(&heard, (size_t)n);
	return n > 0;
}

static bool next_frame(struct frame *ret)
{
	buf_consume(&heard, heard_frame);
	heard_frame = 0;
	if (frame_next(buf_str(&heard), AGENT_TO_MAX_BYTES, ret) != 1)
		return false;
	heard_frame = frame_size(ret);
	return true;
}

struct frame peer_hear(void)
{
	struct frame frame;

	for (int i = 0; i < 1000; i++) {
		if (next_frame(&frame))
			return frame;
		if (!hear())
			loop_turn(rig.loop, 1);
	}
	fail_msg("no frame came");
	abort();
}

struct frame peer_expect(enum agent_type type)
{
	struct frame frame = peer_hear();

	assert_int_equal(frame.type, type);
	return frame;
}

void peer_expect_silence(void)
{
	struct frame frame;

	peer_turn();
	while (hear())
		loop_turn(rig.loop, 0);
	assert_false(next_frame(&frame));
	assert_int_equal(buf_len(&heard), 0);
}

void peer_turn(void)
{
	for (int i = 0; i < 5; i++)
		loop_turn(rig.loop, 0);
}

void peer_expect_gone(enum err_code code, const char *part)
{
	assert_true(rig_wait(&rig, &rig.gone, RIG_PATIENCE_MS));
	assert_int_equal(rig.why.code, code);
	if (!strstr(rig.why.message, part))
		fail_msg("'%s' is not in '%s'", part, rig.why.message);
}

void peer_expect_breach(const char *part)
{
	peer_expect_gone(ERR_ENGINE_FAILED, "the agent broke the protocol");
	peer_expect_gone(ERR_ENGINE_FAILED, part);
}
