/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports through the link: sockets that agents pass, valid ones and all others; and dials of the
 * real agent.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "net/foreign.h"
#include "peer.h"
#include "sys/rights.h"

#define WAIT_MS 30000

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

static int listen_on(int family, uint16_t *ret_port)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_storage at;
	socklen_t n = sizeof(at);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six,
		 family == AF_INET ? sizeof(four) : sizeof(six)) < 0) {
		(void)close(fd);
		return -1; /* a host without IPv6 */
	}
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
	*ret_port = ntohs(family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port
					    : ((struct sockaddr_in6 *)&at)->sin6_port);
	return fd;
}

static int kept_listener = -1;

static int connected(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	uint16_t port;
	int listener, fd = socket(AF_INET, SOCK_STREAM, 0);

	if (kept_listener >= 0)
		(void)close(kept_listener);
	listener = listen_on(AF_INET, &port);
	to.sin_port = htons(port);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	kept_listener = listener; /* closing it would reset the connection */
	return fd;
}

/* A frame with descriptors beside its first byte. */
static void pass(const char *frame, size_t n, const int *fds, size_t count)
{
	assert_int_equal(rights_send(peer, frame, n, fds, count, 0), n);
	for (size_t i = 0; i < count; i++)
		(void)close(fds[i]);
}

static void start(void)
{
	struct agent_hello hello = { .version = AGENT_PROTOCOL_VERSION,
				     .features = AGENT_FEATURES,
				     .next_process_id = PEER_FIRST_ID };
	struct buf buf;

	buf_init(&buf, 4096);
	assert_int_equal(agent_put_hello(&buf, &hello), 0);
	peer_say_buf(&buf);
	assert_true(rig_wait(&rig, &rig.ready, WAIT_MS));
}

static uint32_t ask(struct dialed *d, uint16_t port)
{
	struct frame frame;
	uint16_t wanted;
	struct err err;
	uint32_t tag;

	*d = (struct dialed){ .fd = -1 };
	assert_int_equal(link_dial(rig.link, port, on_dialed, d, &err), 0);
	frame = peer_expect(AGENT_DIAL);
	assert_int_equal(agent_get_dial(&frame, &tag, &wanted), 0);
	assert_int_equal(wanted, port);
	return tag;
}

static void answer(uint32_t tag, uint32_t errno_value, const int *fds, size_t count)
{
	char packed[AGENT_DIALED_SIZE];

	agent_pack_dialed(packed, tag, errno_value);
	if (count)
		pass(packed, sizeof(packed), fds, count);
	else
		peer_say(packed, sizeof(packed));
}

static void test_dial(void **state)
{
	struct dialed d;
	int fd;

	start();
	fd = connected();
	answer(ask(&d, 8080), 0, &fd, 1);
	assert_true(rig_wait(&rig, &d.told, WAIT_MS));
	assert_int_equal(d.err.code, ERR_OK);
	assert_true(d.fd >= 0);
	foreign_close(d.fd);
	answer(ask(&d, 8080), ECONNREFUSED, NULL, 0);
	assert_true(rig_wait(&rig, &d.told, WAIT_MS));
	assert_int_equal(d.err.code, ERR_PORT_CLOSED);
	assert_int_equal(d.err.errno_value, ECONNREFUSED);
	assert_int_equal(d.fd, -1);
}

/* In two pieces: the descriptor comes with the first. */
static void test_torn(void **state)
{
	char packed[AGENT_DIALED_SIZE];
	struct dialed d;
	int fd;

	start();
	agent_pack_dialed(packed, ask(&d, 80), 0);
	fd = connected();
	pass(packed, 5, &fd, 1);
	peer_turn();
	assert_false(d.told);
	peer_say(packed + 5, sizeof(packed) - 5);
	assert_true(rig_wait(&rig, &d.told, WAIT_MS));
	assert_true(d.fd >= 0);
	foreign_close(d.fd);
}

static void test_without_one(void **state)
{
	struct dialed d;

	start();
	answer(ask(&d, 80), 0, NULL, 0);
	peer_expect_breach("without its connection");
	assert_true(d.told);
	assert_int_equal(d.fd, -1);
}

static void test_too_many(void **state)
{
	struct dialed d;
	int fds[2];

	start();
	fds[0] = connected();
	fds[1] = dup(fds[0]);
	answer(ask(&d, 80), 0, fds, 2);
	peer_expect_breach("descriptors");
	assert_int_equal(d.fd, -1);
}

static void test_descriptor_with_a_refusal(void **state)
{
	struct dialed d;
	int fd;

	start();
	fd = connected();
	answer(ask(&d, 80), ECONNREFUSED, &fd, 1); /* refused, but with a descriptor */
	peer_expect_breach("descriptor");
}

/* All other kinds of descriptors. */
static void test_wrong_kinds(void **state)
{
	int kind = (int)(intptr_t)*state, fd = -1, other[2] = { -1, -1 };
	struct dialed d;
	uint16_t port;

	start();
	if (kind == 0)
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
	else if (kind == 1)
		assert_int_equal(pipe(other), 0);
	else if (kind == 2)
		fd = listen_on(AF_INET, &port);
	else
		fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0)
		fd = other[0];
	answer(ask(&d, 80), 0, &fd, 1);
	peer_expect_breach("without its connection");
	assert_int_equal(d.fd, -1);
	if (other[1] >= 0)
		(void)close(other[1]);
}

static int setup_kind(void **state)
{
	void *kind = *state, *none = NULL;
	int r = peer_setup(&none);

	*state = kind;
	return r;
}

static int teardown_kind(void **state)
{
	void *none = NULL;

	(void)state;
	return peer_teardown(&none);
}

/* A server may be faster than we are: that is its own failure, not a violation. */
static void test_reset(void **state)
{
	struct dialed d;
	int fd;

	start();
	fd = connected();
	(void)close(TAKE_FD(kept_listener)); /* unaccepted: reset */
	answer(ask(&d, 80), 0, &fd, 1);
	assert_true(rig_wait(&rig, &d.told, WAIT_MS));
	assert_int_equal(d.err.code, ERR_PORT_CLOSED);
	assert_false(rig.gone);
}

/* Sockets whose options the other side changes never make us block. */
static void test_close_does_not_linger(void **state)
{
	struct linger forever = { .l_onoff = 1, .l_linger = 3600 };
	char block[65536] = { 0 };
	uint16_t port;
	int listener = listen_on(AF_INET, &port), fd = socket(AF_INET, SOCK_STREAM, 0), other;
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	(void)state;
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	other = accept(listener, NULL, NULL);
	while (send(fd, block, sizeof(block), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &forever, sizeof(forever)), 0);
	foreign_close(fd); /* would take an hour */
	(void)close(other);
	(void)close(listener);
}

/* ---- lists and notices ---- */

struct ports {
	bool over;
	int count;
	uint16_t wanted;
	bool found;
	char address[64], process[32];
	uint32_t pid;
};

static void on_port(void *arg, const struct link_port *port, const struct err *error)
{
	struct ports *p = arg;

	if (!port) {
		p->over = true;
		assert_null(error);
		return;
	}
	p->count++;
	if (port->port != p->wanted)
		return;
	p->found = true;
	p->pid = port->pid;
	(void)!str_copy(p->address, sizeof(p->address), str_of(port->address));
	(void)!str_copy(p->process, sizeof(p->process), str_of(port->process));
}

static void test_list(void **state)
{
	struct agent_port port = { .port = 8080,
				   .family = 4,
				   .address = { 127, 0, 0, 1 },
				   .uid = 1000,
				   .pid = 7,
				   .name = STR_LIT("no\x1b[31mde") };
	struct agent_port_listing listing;
	struct ports p = { .wanted = 8080 };
	struct frame frame;
	struct err err;
	struct buf buf;
	uint32_t tag;

	start();
	assert_int_equal(link_ports(rig.link, on_port, &p, &err), 0);
	frame = peer_expect(AGENT_PORTS);
	assert_int_equal(agent_get_ports(&frame, &tag), 0);
	buf_init(&buf, 65536);
	assert_int_equal(agent_ports_begin(&listing, &buf, tag), 0);
	assert_int_equal(agent_ports_add(&listing, &port), 0);
	agent_ports_end(&listing);
	peer_say_buf(&buf);
	assert_true(rig_wait(&rig, &p.over, WAIT_MS));
	assert_true(p.found);
	assert_string_equal(p.address, "127.0.0.1");
	assert_null(strchr(p.process, '\x1b'));
}

static void test_bad_notice(void **state)
{
	char frame[FRAME_HEADER_SIZE + 28] = { 0 };

	start();
	frame_store_header(frame, 28, AGENT_PORT_NOTICE, 1, 0); /* port 0 */
	peer_say(frame, sizeof(frame));
	peer_expect_breach("port notice");
}

static void test_old_agent(void **state)
{
	struct dialed d = { .fd = -1 };
	struct err err;

	peer_start(); /* knows no ports */
	assert_int_equal(link_dial(rig.link, 80, on_dialed, &d, &err), -1);
	assert_int_equal(err.code, ERR_UNSUPPORTED);
	peer_expect_silence();
}

/* ---- the real agent ---- */

static void test_real(void **state)
{
	static const char *const options[] = { "--trust-any-peer", "--same-user", "--cwd", "/",
					       NULL };
	struct rig real;
	struct ports p = { 0 };
	struct dialed d = { .fd = -1 };
	uint16_t four, six;
	int listener4, listener6, accepted;
	struct err err;
	char c = 0;

	(void)state;
	rig_init(&real);
	rig_start_agent(&real, options);
	listener4 = listen_on(AF_INET, &four);
	assert_int_equal(link_dial(real.link, four, on_dialed, &d, &err), 0);
	assert_true(rig_wait(&real, &d.told, WAIT_MS));
	assert_int_equal(d.err.code, ERR_OK);
	accepted = accept(listener4, NULL, NULL);
	assert_int_equal(send(d.fd, "x", 1, 0), 1);
	assert_int_equal(recv(accepted, &c, 1, 0), 1);
	assert_int_equal(c, 'x');
	foreign_close(d.fd);
	(void)close(accepted);
	p.wanted = four;
	assert_int_equal(link_ports(real.link, on_port, &p, &err), 0);
	assert_true(rig_wait(&real, &p.over, WAIT_MS));
	assert_true(p.found);
	assert_int_equal(p.pid, getpid());
	(void)close(listener4);

	listener6 = listen_on(AF_INET6, &six);
	if (listener6 >= 0) { /* only on ::1 */
		d = (struct dialed){ .fd = -1 };
		assert_int_equal(link_dial(real.link, six, on_dialed, &d, &err), 0);
		assert_true(rig_wait(&real, &d.told, WAIT_MS));
		assert_int_equal(d.err.code, ERR_OK);
		foreign_close(d.fd);
		(void)close(listener6);
	}
	d = (struct dialed){ .fd = -1 };
	assert_int_equal(link_dial(real.link, four, on_dialed, &d, &err), 0);
	assert_true(rig_wait(&real, &d.told, WAIT_MS));
	assert_int_equal(d.err.code, ERR_PORT_CLOSED);
	rig_done(&real);
}

#define ON_PEER(test) cmocka_unit_test_setup_teardown(test, peer_setup, peer_teardown)
#define OF_KIND(n)                                                             \
	{                                                                      \
		"wrong kind " #n, test_wrong_kinds, setup_kind, teardown_kind, \
			(void *)(intptr_t)(n)                                  \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_PEER(test_dial),
		ON_PEER(test_torn),
		ON_PEER(test_without_one),
		ON_PEER(test_too_many),
		ON_PEER(test_descriptor_with_a_refusal),
		OF_KIND(0),
		OF_KIND(1),
		OF_KIND(2),
		OF_KIND(3),
		ON_PEER(test_reset),
		cmocka_unit_test(test_close_does_not_linger),
		ON_PEER(test_list),
		ON_PEER(test_bad_notice),
		ON_PEER(test_old_agent),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
