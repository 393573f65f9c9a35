/* SPDX-License-Identifier: Apache-2.0 */
/* Links of sandboxes, in a net namespace that plays the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../own_place.h"
#include "sys/net/rtnl.h"
#include "warden/net/links.h"

#define RANGE "100.64.0.0/10"
#define RANGE_FIRST 0x64400000U
#define SLOT 1

static const struct link_limits limits = { .rate_mbit = 1000,
					   .new_per_sec = 500,
					   .connections = 1024 };

static struct warden warden;
static struct slot_row rows[4];

static int setup(void **state)
{
	int r = own_place_renew(state);

	memset(&warden, 0, sizeof(warden));
	memset(rows, 0, sizeof(rows));
	warden.instance = 3;
	warden.rows = rows;
	warden.slot_top = ARRAY_LEN(rows);
	warden.client_fd = -1;
	warden.run_fd = own_place_open("run");
	warden.proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	warden.home.net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	return r;
}

static int teardown(void **state)
{
	int *const fds[] = { &warden.links.rtnl_fd, &warden.links.nft_fd, &warden.links.log_fd,
			     &warden.run_fd,	    &warden.proc_fd,	  &warden.home.net_fd };

	(void)state;
	links_close(&warden);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (*fds[i] > 2)
			(void)close(*fds[i]);
	return 0;
}

static void sandboxes_without_a_range_have_no_network(void **state)
{
	static const char *const none[] = { NULL, "", "none" };
	uint64_t sent = 1, received = 1;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		links_open(&warden, none[i], &limits);
		assert_false(warden.links.usable);
	}
	assert_int_equal(links_gateway(&warden), 0);
	assert_int_equal(links_address(&warden, SLOT), 0);
	assert_int_equal(links_log_fd(&warden), -1);
	assert_int_equal(links_set(&warden, SLOT, -1, WARDEN_LINK_NONE), 0);
	assert_int_equal(links_set(&warden, SLOT, -1, WARDEN_LINK_PROXY), -EOPNOTSUPP);
	links_stat(&warden, SLOT, &sent, &received);
	assert_int_equal(sent + received, 0);
}

static void a_range_that_is_none_is_rejected(void **state)
{
	static const char *const bad[] = {
		"100.64.0.0",	"100.64.0.0/", "100.64.0.0/3", "100.64.0.0/13",	 "100.64.0.1/10",
		"100.32.0.0/4", "100.64.0/10", "::/10",	       "100.64.0.0/10x", "/10"
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		links_open(&warden, bad[i], &limits);
		assert_false(warden.links.usable);
	}
}

static void open_or_skip(void)
{
	links_open(&warden, RANGE, &limits);
	if (!warden.links.usable) {
		print_message("skipped: this host has no links for sandboxes\n");
		skip();
	}
}

static int other_namespace(void)
{
	int fd;

	assert_return_code(unshare(CLONE_NEWNET), errno);
	fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_return_code(setns(warden.home.net_fd, CLONE_NEWNET), errno);
	return fd;
}

static void a_sandbox_gets_the_next_address_and_a_group(void **state)
{
	struct rtnl_link link;
	int first = -1, second = -1;

	(void)state;
	open_or_skip();
	assert_int_equal(links_gateway(&warden), RANGE_FIRST + (3 << 16) + 1);
	first = other_namespace();
	second = other_namespace();
	rows[SLOT].state = rows[SLOT + 1].state = SLOT_LIVE;
	assert_int_equal(links_set(&warden, SLOT, first, WARDEN_LINK_PROXY), 0);
	assert_int_equal(links_address(&warden, SLOT), RANGE_FIRST + (3 << 16) + 2);
	assert_int_equal(links_set(&warden, SLOT + 1, second, WARDEN_LINK_PROXY), 0);
	assert_int_equal(rows[SLOT + 1].link, 3);
	assert_int_equal(rtnl_link_stat(warden.links.rtnl_fd, "cay3-2", &link), 0);
	assert_int_equal(links_set(&warden, SLOT, first, WARDEN_LINK_NONE),
			 0); /* closed, not deleted */
	assert_int_equal(rows[SLOT].link, 2);
	assert_int_equal(rtnl_link_stat(warden.links.rtnl_fd, "cay3-2", &link), 0);
	(void)close(first);
	(void)close(second);
}

static void numbers_go_round_and_skip_those_in_use(void **state)
{
	uint32_t number = 0;
	int ns_fd;

	(void)state;
	open_or_skip();
	warden.links.next = WARDEN_SINK_NUMBER - 1;
	rows[0].state = SLOT_LIVE;
	rows[0].link = 2;
	ns_fd = other_namespace();
	assert_int_equal(links_make(&warden, ns_fd, &number), 0);
	assert_int_equal(number, WARDEN_SINK_NUMBER - 1);
	(void)close(ns_fd);
	ns_fd = other_namespace();
	assert_int_equal(links_make(&warden, ns_fd, &number), 0);
	assert_int_equal(number, 3); /* the sink and what is behind it are no link's; 2 is taken */
	(void)close(ns_fd);
	rows[0].state = SLOT_FREE;
}

static void a_range_in_use_on_the_host_is_rejected(void **state)
{
	const struct rtnl_end here = { "used0", 20, RANGE_FIRST + (3 << 16) + 77,
				       RANGE_FIRST + (3 << 16) + 78, false };
	const struct rtnl_end there = { "used1", 21, 0, 0, false };
	int fd = -1;

	(void)state;
	open_or_skip();
	assert_int_equal(rtnl_open(&fd), 0);
	assert_int_equal(rtnl_veth_make(fd, &here, &there, warden.home.net_fd, 0), 0);
	(void)close(TAKE_FD(warden.links.rtnl_fd));
	(void)close(TAKE_FD(warden.links.nft_fd));
	warden.links.usable = false;
	links_open(&warden, RANGE, &limits);
	assert_false(warden.links.usable);
	assert_int_equal(rtnl_link_delete(fd, here.ifindex), 0);
	(void)close(fd);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(sandboxes_without_a_range_have_no_network),
		T(a_range_that_is_none_is_rejected),
		T(a_sandbox_gets_the_next_address_and_a_group),
		T(numbers_go_round_and_skip_those_in_use),
		T(a_range_in_use_on_the_host_is_rejected),
	};

	if (!own_place_enter(CLONE_NEWNET))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
