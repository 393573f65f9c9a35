/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "net/tls.h"

#define TURNS 20000 /* far more than any of these needs; no time is measured */

static struct loop *loop;
static struct tls *tls;
static struct tls_ca *ca;
static struct tls_ctx *server_ctx, *client_ctx;
static char ca_path[] = "/tmp/cay-test-tls-XXXXXX";

struct end {
	int calls, status, fd;
};
static struct end server, client;

static void on_done(void *arg, int status, int fd)
{
	struct end *end = arg;

	end->calls++;
	end->status = status;
	end->fd = fd;
}

static int setup(void **state)
{
	struct str pem;
	int fd;

	(void)state;
	server = client = (struct end){ .fd = -1 };
	memcpy(ca_path + sizeof(ca_path) - 7, "XXXXXX", 6);
	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(tls_new(loop, 4, &tls), 0);
	assert_int_equal(tls_ca_new("a test's authority", &ca), 0);
	pem = tls_ca_certificate(ca);
	fd = mkostemp(ca_path, O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, pem.p, pem.n), pem.n);
	(void)close(fd);
	assert_int_equal(tls_ca_server(ca, "host.test", &server_ctx), 0);
	assert_int_equal(tls_client_new(ca_path, &client_ctx), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (server.fd >= 0)
		(void)close(server.fd);
	if (client.fd >= 0)
		(void)close(client.fd);
	tls_ctx_unref(server_ctx);
	tls_ctx_unref(client_ctx);
	tls_free(tls);
	tls_ca_free(ca);
	loop_free(loop);
	(void)unlink(ca_path);
	return 0;
}

static void make_pair(int pair[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			 0);
}

static void turn_until_done(int calls)
{
	for (int i = 0; i < TURNS && server.calls + client.calls < calls; i++)
		loop_turn(loop, 1000);
	assert_int_equal(server.calls + client.calls, calls);
}

static void join_as(const char *name)
{
	const struct str nothing = { NULL, 0 };
	int pair[2];

	make_pair(pair);
	assert_int_equal(tls_accept(tls, server_ctx, pair[0], nothing, on_done, &server, NULL), 0);
	assert_int_equal(tls_connect(tls, client_ctx, pair[1], name, on_done, &client, NULL), 0);
	assert_int_equal(server.calls + client.calls, 0); /* never from inside */
	turn_until_done(2);
}

static void join(void)
{
	join_as("host.test");
	assert_int_equal(server.status, 0);
	assert_int_equal(client.status, 0);
}

/* Reads exactly n bytes, or up to the end of the stream. */
static size_t take(int fd, char *p, size_t n)
{
	size_t got = 0;

	for (int i = 0; i < TURNS && got < n; i++) {
		ssize_t r = read(fd, p + got, n - got);

		if (r == 0)
			break;
		if (r > 0) {
			got += (size_t)r;
			continue;
		}
		assert_int_equal(errno, EAGAIN);
		loop_turn(loop, 1000);
	}
	return got;
}

static void put(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void bytes_pass_both_ways(void **state)
{
	char got[16];

	(void)state;
	join();
	put(client.fd, "question");
	assert_int_equal(take(server.fd, got, 8), 8);
	assert_memory_equal(got, "question", 8);
	put(server.fd, "answer");
	assert_int_equal(take(client.fd, got, 6), 6);
	assert_memory_equal(got, "answer", 6);
}

static void half_a_close_passes_and_the_other_half_goes_on(void **state)
{
	char got[16];

	(void)state;
	join();
	put(client.fd, "last");
	assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
	assert_int_equal(take(server.fd, got, sizeof(got)), 4); /* then the end */
	put(server.fd, "still here");
	(void)close(TAKE_FD(server.fd));
	assert_int_equal(take(client.fd, got, sizeof(got)), 10);
	for (int i = 0; i < TURNS && tls_count(tls); i++)
		loop_turn(loop, 1000);
	assert_int_equal(tls_count(tls), 0);
}

/* Writes until nothing more is taken, although the loop had its iterations. */
static size_t stuff(int fd, char *block, size_t n)
{
	size_t put_bytes = 0;

	for (int quiet = 0; quiet < 50;) {
		ssize_t r = write(fd, block, n);

		quiet = r > 0 ? 0 : quiet + 1;
		put_bytes += r > 0 ? (size_t)r : 0;
		loop_turn(loop, 0);
		assert_true(put_bytes < (size_t)64 << 20);
	}
	return put_bytes;
}

static void a_reader_that_stalls_stops_the_writer_and_loses_nothing(void **state)
{
	static char block[65536], back[65536];
	size_t sent, got = 0;

	(void)state;
	join();
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (char)(i * 7);
	sent = stuff(client.fd, block, sizeof(block));
	assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
	for (;;) {
		size_t n = take(server.fd, back, sizeof(back));

		if (n == 0)
			break;
		got += n;
	}
	assert_int_equal(got, sent);
}

static void bytes_that_were_read_before_are_not_lost(void **state)
{
	char hello[4096];
	int pair[2], n;

	(void)state;
	make_pair(pair);
	assert_int_equal(tls_connect(tls, client_ctx, pair[1], "host.test", on_done, &client, NULL),
			 0);
	for (n = -1; n < 0; n = (int)read(pair[0], hello, sizeof(hello)))
		loop_turn(loop, 1000);
	assert_int_equal(tls_accept(tls, server_ctx, pair[0], (struct str){ hello, (size_t)n },
				    on_done, &server, NULL),
			 0);
	turn_until_done(2);
	assert_int_equal(server.status, 0);
	put(client.fd, "x");
	assert_int_equal(take(server.fd, hello, 1), 1);
}

static void a_certificate_for_another_name_is_refused(void **state)
{
	(void)state;
	join_as("other.test");
	assert_int_equal(client.status, -EKEYREJECTED);
	assert_int_equal(client.fd, -1);
	assert_true(server.status < 0);
	assert_int_equal(tls_count(tls), 0);
}

static void an_unknown_authority_is_refused(void **state)
{
	(void)state;
	tls_ctx_unref(client_ctx);
	assert_int_equal(tls_client_new(NULL, &client_ctx), 0);
	join_as("host.test");
	assert_int_equal(client.status, -EKEYREJECTED);
}

static void an_address_is_a_name_too(void **state)
{
	(void)state;
	tls_ctx_unref(server_ctx);
	assert_int_equal(tls_ca_server(ca, "10.1.2.3", &server_ctx), 0);
	join_as("10.1.2.3");
	assert_int_equal(client.status, 0);
}

static void a_plain_peer_gets_an_error(void **state)
{
	int pair[2];

	(void)state;
	make_pair(pair);
	put(pair[1], "GET / HTTP/1.1\r\n\r\n");
	assert_int_equal(tls_accept(tls, server_ctx, pair[0], (struct str){ NULL, 0 }, on_done,
				    &server, NULL),
			 0);
	turn_until_done(1);
	assert_int_equal(server.status, -EPROTO);
	(void)close(pair[1]);
}

static void who_goes_away_early_is_noticed(void **state)
{
	int pair[2];

	(void)state;
	make_pair(pair);
	(void)close(pair[1]);
	assert_int_equal(tls_accept(tls, server_ctx, pair[0], (struct str){ NULL, 0 }, on_done,
				    &server, NULL),
			 0);
	turn_until_done(1);
	assert_true(server.status < 0);
}

static void a_cancelled_one_never_completes(void **state)
{
	slot_handle handle;
	int pair[2];
	char c;

	(void)state;
	make_pair(pair);
	assert_int_equal(tls_accept(tls, server_ctx, pair[0], (struct str){ NULL, 0 }, on_done,
				    &server, &handle),
			 0);
	tls_cancel(tls, handle);
	tls_cancel(tls, handle);
	loop_turn(loop, 0);
	assert_int_equal(server.calls, 0);
	assert_int_equal(read(pair[1], &c, 1), 0);
	(void)close(pair[1]);
}

static void more_than_the_limit_are_refused_and_closed(void **state)
{
	int pairs[5][2];
	char c;

	(void)state;
	for (int i = 0; i < 5; i++) {
		make_pair(pairs[i]);
		assert_int_equal(tls_accept(tls, server_ctx, pairs[i][0], (struct str){ NULL, 0 },
					    on_done, &server, NULL),
				 i < 4 ? 0 : -ENOBUFS);
	}
	assert_int_equal(read(pairs[4][1], &c, 1), 0);
	for (int i = 0; i < 5; i++)
		(void)close(pairs[i][1]);
}

static void a_connection_outlives_its_context(void **state)
{
	char got;

	(void)state;
	join();
	tls_ctx_unref(server_ctx);
	server_ctx = NULL;
	tls_ca_free(ca);
	ca = NULL;
	put(client.fd, "x");
	assert_int_equal(take(server.fd, &got, 1), 1);
}

static void an_authority_comes_back_from_what_was_saved(void **state)
{
	char saved[TLS_CA_SAVED_BYTES];
	struct tls_ca *again;

	(void)state;
	assert_int_equal(tls_ca_save(ca, saved), 0);
	assert_non_null(strstr(saved, "PRIVATE KEY"));
	assert_int_equal(tls_ca_load(str_of(saved), &again), 0);
	assert_true(str_eq(tls_ca_certificate(ca), tls_ca_certificate(again)));
	assert_null(memmem(tls_ca_certificate(again).p, tls_ca_certificate(again).n, "PRIVATE", 7));
	tls_ctx_unref(server_ctx);
	assert_int_equal(tls_ca_server(again, "host.test", &server_ctx), 0);
	tls_ca_free(again);
	join();
	assert_int_equal(tls_ca_load(STR_LIT("nonsense"), &again), -EINVAL);
}

static void names_are_kept_up_to_the_limit(void **state)
{
	struct tls_ctx *first, *again;
	char name[32];

	(void)state;
	assert_int_equal(tls_ca_server(ca, "a.test", &first), 0);
	assert_int_equal(tls_ca_server(ca, "a.test", &again), 0);
	assert_ptr_equal(first, again);
	tls_ctx_unref(again);
	for (int i = 0; i < TLS_CA_NAMES; i++) {
		(void)snprintf(name, sizeof(name), "n%d.test", i);
		assert_int_equal(tls_ca_server(ca, name, &again), 0);
		tls_ctx_unref(again);
	}
	assert_int_equal(tls_ca_server(ca, "a.test", &again), 0);
	assert_ptr_not_equal(first, again);
	tls_ctx_unref(first);
	tls_ctx_unref(again);
}

static void nothing_but_a_name_is_vouched_for(void **state)
{
	static const char *const bad[] = { "", "a.test,DNS:b.test", "a b", "a\nb", "*.test" };
	struct tls_ctx *ctx;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(tls_ca_server(ca, bad[i], &ctx), -EINVAL);
}

static void files_that_do_not_serve_are_explained(void **state)
{
	char why[TLS_WHY_BYTES];
	struct tls_ctx *ctx;

	(void)state;
	assert_int_equal(tls_server_new("/nonexistent/cert", "/nonexistent/key", why, &ctx),
			 -EINVAL);
	assert_non_null(strstr(why, "/nonexistent/cert"));
	assert_non_null(strstr(why, "No such file"));
	assert_int_equal(tls_server_new(ca_path, ca_path, why, &ctx), -EINVAL); /* no key in it */
	assert_non_null(strstr(why, "key"));
	assert_int_equal(tls_client_new("/nonexistent/ca", &ctx), -EINVAL);
}

/* ---- programs without a loop ---- */

static void *dial_blocking(void *arg)
{
	client.status = tls_dial(client_ctx, *(int *)arg, "host.test", &client.fd);
	return NULL;
}

static unsigned count_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

static void a_dialled_one_leaves_no_thread(void **state)
{
	const struct str nothing = { NULL, 0 };
	unsigned before = count_threads();
	pthread_t thread;
	int pair[2];
	char got[8];

	(void)state;
	make_pair(pair);
	assert_int_equal(tls_accept(tls, server_ctx, pair[0], nothing, on_done, &server, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, dial_blocking, &pair[1]), 0);
	turn_until_done(1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(server.status, 0);
	assert_int_equal(client.status, 0);
	put(client.fd, "hello");
	assert_int_equal(take(server.fd, got, 5), 5);
	tls_dial_settle(1); /* of one that is still used: waits for nothing */
	assert_true(count_threads() > before);
	(void)close(client.fd);
	client.fd = -1;
	tls_dial_settle(60000);
	for (int i = 0; i < TURNS && count_threads() > before; i++)
		(void)sched_yield(); /* a joined one may be listed a little longer */
	assert_int_equal(count_threads(), before);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(bytes_pass_both_ways),
		TEST(half_a_close_passes_and_the_other_half_goes_on),
		TEST(a_reader_that_stalls_stops_the_writer_and_loses_nothing),
		TEST(bytes_that_were_read_before_are_not_lost),
		TEST(a_certificate_for_another_name_is_refused),
		TEST(an_unknown_authority_is_refused),
		TEST(an_address_is_a_name_too),
		TEST(a_plain_peer_gets_an_error),
		TEST(who_goes_away_early_is_noticed),
		TEST(a_cancelled_one_never_completes),
		TEST(more_than_the_limit_are_refused_and_closed),
		TEST(a_connection_outlives_its_context),
		TEST(an_authority_comes_back_from_what_was_saved),
		TEST(names_are_kept_up_to_the_limit),
		TEST(nothing_but_a_name_is_vouched_for),
		TEST(files_that_do_not_serve_are_explained),
		TEST(a_dialled_one_leaves_no_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
