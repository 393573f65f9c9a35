/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams through the link with a scripted agent: what a correct and a hostile one can do, and what
 * callers of link_dial() see.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "net/foreign.h"
#include "peer.h"
#include "wire/stream.h"

#define WAIT_MS 30000
#define WINDOW (256U << 10) /* as LINK_WINDOW_BYTES */

struct dialed {
	bool told;
	int fd;
	struct err err;
};

static void on_dialed(void *arg, int fd, const struct err *error)
{
	struct dialed *d = arg;

	assert_false(d->told);
	d->told = true;
	d->fd = fd;
	d->err = error ? *error : (struct err){ .code = ERR_OK };
}

static int setup(void **state)
{
	peer_streams = true;
	return peer_setup(state);
}

static void say(struct stream_frame frame)
{
	struct buf buf;

	buf_init(&buf, 1U << 20);
	assert_int_equal(stream_put(&buf, &frame), 0);
	peer_say_buf(&buf);
}

static void start(uint32_t features)
{
	struct agent_hello hello = { .version = AGENT_PROTOCOL_VERSION,
				     .features = features,
				     .next_process_id = PEER_FIRST_ID };
	struct buf buf;

	buf_init(&buf, 4096);
	assert_int_equal(agent_put_hello(&buf, &hello), 0);
	peer_say_buf(&buf);
	assert_true(rig_wait(&rig, &rig.ready, WAIT_MS));
}

static struct stream_frame hear(enum stream_type type)
{
	struct frame frame = peer_hear();
	struct stream_frame decoded;

	assert_int_equal(stream_get(&frame, &decoded), 0);
	assert_int_equal(decoded.type, type);
	return decoded;
}

/* A stream that is open; returns its number. */
static uint32_t dial(struct dialed *d, uint32_t credit)
{
	struct stream_frame asked;
	struct err err;

	*d = (struct dialed){ .fd = -1 };
	assert_int_equal(link_dial(rig.link, 8080, on_dialed, d, &err), 0);
	asked = hear(STREAM_DIAL);
	assert_int_equal(asked.port, 8080);
	assert_int_equal(asked.credit, WINDOW);
	say((struct stream_frame){
		.type = STREAM_OPENED, .stream = asked.stream, .credit = credit });
	assert_true(rig_wait(&rig, &d->told, WAIT_MS));
	assert_int_equal(d->err.code, ERR_OK);
	assert_true(d->fd >= 0);
	return asked.stream;
}

static void say_data(uint32_t stream, const char *text)
{
	say((struct stream_frame){ .type = STREAM_DATA, .stream = stream, .bytes = str_of(text) });
}

/* Turns the loop until the descriptor has something to read. */
static void await(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (int i = 0; i < 1000 && poll(&p, 1, 0) == 0; i++)
		loop_turn(rig.loop, 10);
	assert_int_equal(poll(&p, 1, 0), 1);
}

static void expect_text(int fd, const char *text)
{
	char got[64] = { 0 };

	await(fd);
	assert_int_equal(recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT), strlen(text));
	assert_string_equal(got, text);
}

static void test_both_ways(void **state)
{
	struct stream_frame heard;
	struct dialed d;
	uint32_t id;

	(void)state;
	start(AGENT_FEATURES);
	id = dial(&d, 1000);
	say_data(id, "from inside");
	expect_text(d.fd, "from inside");
	assert_int_equal(send(d.fd, "from outside", 12, 0), 12);
	heard = hear(STREAM_DATA);
	assert_int_equal(heard.stream, id);
	assert_memory_equal(heard.bytes.p, "from outside", 12);
	foreign_close(d.fd);
	heard = hear(STREAM_END); /* nothing more is read either */
	assert_true(heard.close);
	say_data(id, "late"); /* was on its way */
	say((struct stream_frame){ .type = STREAM_END, .stream = id });
	peer_turn();
	assert_false(rig.gone);
	peer_expect_silence();
}

static void test_refused(void **state)
{
	struct stream_frame asked;
	struct dialed d = { .fd = -1 };
	struct err err;

	(void)state;
	start(AGENT_FEATURES);
	assert_int_equal(link_dial(rig.link, 1, on_dialed, &d, &err), 0);
	asked = hear(STREAM_DIAL);
	say((struct stream_frame){
		.type = STREAM_OPENED, .stream = asked.stream, .errno_value = ECONNREFUSED });
	assert_true(rig_wait(&rig, &d.told, WAIT_MS));
	assert_int_equal(d.err.code, ERR_PORT_CLOSED);
	assert_int_equal(d.err.errno_value, ECONNREFUSED);
}

static void test_old_agent(void **state)
{
	struct dialed d = { .fd = -1 };
	struct err err;

	(void)state;
	start(AGENT_HAS_PORTS);
	assert_int_equal(link_dial(rig.link, 1, on_dialed, &d, &err), -1);
	assert_int_equal(err.code, ERR_UNSUPPORTED);
}

/* Our half ends first and theirs continues; then the reverse. */
static void test_half_close(void **state)
{
	struct stream_frame heard;
	struct dialed d;
	uint32_t id;
	char c;

	(void)state;
	start(AGENT_FEATURES);
	id = dial(&d, 1000);
	assert_int_equal(shutdown(d.fd, SHUT_WR), 0);
	heard = hear(STREAM_END);
	assert_false(heard.close);
	say_data(id, "answer");
	expect_text(d.fd, "answer");
	say((struct stream_frame){ .type = STREAM_END, .stream = id });
	await(d.fd);
	assert_int_equal(recv(d.fd, &c, 1, MSG_DONTWAIT), 0);
	foreign_close(d.fd);

	id = dial(&d, 1000);
	say_data(id, "all");
	say((struct stream_frame){ .type = STREAM_END, .stream = id });
	expect_text(d.fd, "all");
	await(d.fd);
	assert_int_equal(recv(d.fd, &c, 1, MSG_DONTWAIT), 0);
	assert_false(foreign_was_cut(d.fd));
	assert_int_equal(send(d.fd, "more", 4, 0), 4);
	heard = hear(STREAM_DATA);
	assert_int_equal(heard.bytes.n, 4);
	assert_int_equal(shutdown(d.fd, SHUT_WR), 0);
	(void)hear(STREAM_END);
	foreign_close(d.fd);
	peer_turn();
	peer_expect_silence();
	assert_false(rig.gone);
}

static void test_reset(void **state)
{
	struct dialed d;
	uint32_t id;
	char c;

	(void)state;
	start(AGENT_FEATURES);
	id = dial(&d, 1000);
	say((struct stream_frame){ .type = STREAM_RESET, .stream = id });
	await(d.fd);
	assert_int_equal(recv(d.fd, &c, 1, MSG_DONTWAIT), 0);
	assert_true(foreign_was_cut(d.fd));
	foreign_close(d.fd);

	/* Bytes that the caller did not read are lost: the other side must be informed. */
	id = dial(&d, 1000);
	say_data(id, "unread");
	await(d.fd);
	foreign_close(d.fd);
	assert_int_equal(hear(STREAM_RESET).stream, id);

	/* Half closed, then closed: later bytes have no reader. */
	id = dial(&d, 1000);
	assert_int_equal(shutdown(d.fd, SHUT_WR), 0);
	(void)hear(STREAM_END);
	foreign_close(d.fd);
	assert_int_equal(hear(STREAM_RESET).stream, id);
}

/* No more is sent than the agent gave credit for, and everything in the end. */
static void test_credit_to_the_agent(void **state)
{
	static const char bytes[5000];
	struct stream_frame heard;
	struct dialed d;
	uint32_t id;
	size_t sum = 0;

	(void)state;
	start(AGENT_FEATURES);
	id = dial(&d, 1000);
	assert_int_equal(send(d.fd, bytes, sizeof(bytes), 0), sizeof(bytes));
	heard = hear(STREAM_DATA);
	assert_int_equal(heard.bytes.n, 1000);
	peer_turn();
	peer_expect_silence();
	say((struct stream_frame){ .type = STREAM_CREDIT, .stream = id, .credit = 4000 });
	while (sum < 4000)
		sum += hear(STREAM_DATA).bytes.n;
	assert_int_equal(sum, 4000);
	foreign_close(d.fd);
}

/* Credit is returned as the caller takes bytes, and not before. */
static void test_credit_to_us(void **state)
{
	static char bytes[STREAM_DATA_MAX];
	struct stream_frame heard;
	size_t sent = 0, given = 0, got = 0;
	struct dialed d;
	uint32_t id;
	int small = 4096;

	(void)state;
	start(AGENT_FEATURES);
	id = dial(&d, 1000);
	(void)setsockopt(d.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	while (sent < WINDOW) {
		say((struct stream_frame){
			.type = STREAM_DATA, .stream = id, .bytes = { bytes, sizeof(bytes) } });
		sent += sizeof(bytes);
	}
	peer_turn();
	assert_false(rig.gone);
	while (got < WINDOW) {
		ssize_t n = recv(d.fd, bytes, sizeof(bytes), MSG_DONTWAIT);

		if (n > 0)
			got += (size_t)n;
		else
			loop_turn(rig.loop, 1);
	}
	while (given < WINDOW / 2) {
		heard = hear(STREAM_CREDIT);
		given += heard.credit;
	}
	assert_true(given <= WINDOW);
	foreign_close(d.fd);
}

/* ---- hostile agents ---- */

static void test_too_much_data(void **state)
{
	static char bytes[STREAM_DATA_MAX];
	struct dialed d;
	uint32_t id;
	char c;

	(void)state;
	start(AGENT_FEATURES);
	id = dial(&d, 1000);
	for (size_t sent = 0; sent <= 4 * WINDOW && !rig.gone; sent += sizeof(bytes))
		say((struct stream_frame){
			.type = STREAM_DATA, .stream = id, .bytes = { bytes, sizeof(bytes) } });
	peer_expect_breach("more bytes of a stream");
	while (recv(d.fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(recv(d.fd, &c, 1, MSG_DONTWAIT), 0);
	assert_true(foreign_was_cut(d.fd));
	foreign_close(d.fd);
}

static void test_too_much_credit(void **state)
{
	struct dialed d;
	uint32_t id;

	(void)state;
	start(AGENT_FEATURES);
	id = dial(&d, STREAM_WINDOW_MAX);
	say((struct stream_frame){ .type = STREAM_CREDIT, .stream = id, .credit = 1 });
	peer_expect_breach("credit");
	foreign_close(d.fd);
}

static void test_unknown_numbers(void **state)
{
	int kind = (int)(intptr_t)*state;

	start(AGENT_FEATURES);
	if (kind == 0)
		say_data(1, "x"); /* never dialled */
	else if (kind == 1)
		say_data(2, "x"); /* never offered */
	else if (kind == 2)
		say((struct stream_frame){ .type = STREAM_OPENED, .stream = 7, .credit = 1 });
	else
		say((struct stream_frame){ .type = STREAM_RESET, .stream = 99 });
	peer_expect_breach("never opened");
}

static void test_wrong_order(void **state)
{
	int kind = (int)(intptr_t)*state;
	struct dialed d = { .fd = -1 };
	struct err err;
	uint32_t id;

	start(AGENT_FEATURES);
	if (kind == 0) { /* bytes before it is open */
		assert_int_equal(link_dial(rig.link, 1, on_dialed, &d, &err), 0);
		say_data(hear(STREAM_DIAL).stream, "x");
		peer_expect_breach("not open");
		assert_true(d.told);
		assert_int_equal(d.fd, -1);
		return;
	}
	id = dial(&d, 1000);
	if (kind == 1) { /* open twice */
		say((struct stream_frame){ .type = STREAM_OPENED, .stream = id, .credit = 1 });
		peer_expect_breach("not dialled");
	} else if (kind == 2) { /* bytes after the end */
		say((struct stream_frame){ .type = STREAM_END, .stream = id });
		say_data(id, "x");
		peer_expect_breach("more bytes of a stream");
	} else if (kind == 3) { /* the end twice */
		say((struct stream_frame){ .type = STREAM_END, .stream = id });
		say((struct stream_frame){ .type = STREAM_END, .stream = id });
		peer_expect_breach("ends twice");
	} else { /* what only we may say */
		say((struct stream_frame){
			.type = STREAM_DIAL, .stream = 3, .port = 80, .credit = 1 });
		peer_expect_breach("bad stream frame");
	}
	foreign_close(d.fd);
}

static int setup_kind(void **state)
{
	void *kind = *state, *none = NULL;
	int r = setup(&none);

	*state = kind;
	return r;
}

static int teardown_kind(void **state)
{
	void *none = NULL;

	(void)state;
	return peer_teardown(&none);
}

/* An agent that sends and never reads is disconnected before its answers fill the memory. */
static void test_agent_that_does_not_read(void **state)
{
	struct stream_frame offer = { .type = STREAM_OFFER, .credit = 1 };
	struct buf buf;

	(void)state;
	start(AGENT_FEATURES);
	while (!rig.gone && offer.stream < 2000000) {
		buf_init(&buf, 1U << 20);
		for (int i = 0; i < 4000; i++) {
			offer.stream += 2;
			assert_int_equal(stream_put(&buf, &offer), 0);
		}
		peer_say_buf(&buf);
		loop_turn(rig.loop, 0);
	}
	peer_expect_gone(ERR_ENGINE_FAILED, "does not read");
}

/* ---- connections that the sandbox opens ---- */

static void test_offer(void **state)
{
	struct stream_frame heard;

	(void)state;
	start(AGENT_FEATURES);
	say((struct stream_frame){ .type = STREAM_OFFER, .stream = 2, .credit = 100 });
	assert_true(rig_wait(&rig, &rig.egress, WAIT_MS));
	heard = hear(STREAM_OPENED);
	assert_int_equal(heard.stream, 2);
	assert_int_equal(heard.credit, WINDOW);
	say_data(2, "CONNECT");
	expect_text(rig.egress_fd, "CONNECT");
	assert_int_equal(send(rig.egress_fd, "200", 3, 0), 3);
	assert_int_equal(hear(STREAM_DATA).bytes.n, 3);
	(void)close(TAKE_FD(rig.egress_fd));
	assert_true(hear(STREAM_END).close);
	/* The same number again, or a smaller one. */
	say((struct stream_frame){ .type = STREAM_OFFER, .stream = 2, .credit = 100 });
	peer_expect_breach("twice");
}

static void test_offers_are_bounded(void **state)
{
	struct stream_frame heard;

	(void)state;
	start(AGENT_FEATURES);
	for (uint32_t i = 1; i <= 256; i++) {
		rig.egress_fd = -1; /* not recorded anywhere: closed with the process */
		say((struct stream_frame){ .type = STREAM_OFFER, .stream = 2 * i, .credit = 1 });
		heard = hear(STREAM_OPENED);
		assert_int_equal(heard.errno_value, 0);
	}
	say((struct stream_frame){ .type = STREAM_OFFER, .stream = 514, .credit = 1 });
	heard = hear(STREAM_OPENED);
	assert_int_equal(heard.errno_value, EAGAIN);
	assert_false(rig.gone);
}

static void test_link_ends(void **state)
{
	struct dialed open, waiting = { .fd = -1 };
	struct err err;
	char c;

	(void)state;
	start(AGENT_FEATURES);
	(void)dial(&open, 1000);
	assert_int_equal(link_dial(rig.link, 1, on_dialed, &waiting, &err), 0);
	(void)shutdown(peer, SHUT_RDWR);
	assert_true(rig_wait(&rig, &rig.gone, WAIT_MS));
	assert_true(waiting.told);
	assert_int_equal(waiting.err.code, ERR_SANDBOX_GONE);
	assert_int_equal(recv(open.fd, &c, 1, MSG_DONTWAIT), 0);
	assert_true(foreign_was_cut(open.fd));
	foreign_close(open.fd);
}

#define HOSTILE(test, kind)                                                                \
	{                                                                                  \
#test "/" #kind, test, setup_kind, teardown_kind, (void *)(intptr_t)(kind) \
	}
#define GOOD(test) cmocka_unit_test_setup_teardown(test, setup, peer_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		GOOD(test_both_ways),
		GOOD(test_refused),
		GOOD(test_old_agent),
		GOOD(test_half_close),
		GOOD(test_reset),
		GOOD(test_credit_to_the_agent),
		GOOD(test_credit_to_us),
		GOOD(test_too_much_data),
		GOOD(test_too_much_credit),
		HOSTILE(test_unknown_numbers, 0),
		HOSTILE(test_unknown_numbers, 1),
		HOSTILE(test_unknown_numbers, 2),
		HOSTILE(test_unknown_numbers, 3),
		HOSTILE(test_wrong_order, 0),
		HOSTILE(test_wrong_order, 1),
		HOSTILE(test_wrong_order, 2),
		HOSTILE(test_wrong_order, 3),
		HOSTILE(test_wrong_order, 4),
		GOOD(test_agent_that_does_not_read),
		GOOD(test_offer),
		GOOD(test_offers_are_bounded),
		GOOD(test_link_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
