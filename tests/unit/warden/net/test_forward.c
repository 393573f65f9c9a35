/* SPDX-License-Identifier: Apache-2.0 */
/* Forwarding of links that lead outside: turned on for those who need it, and put back by the last
 * of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../own_place.h"
#include "sys/file.h"
#include "sys/net/nft.h"
#include "sys/net/rtnl.h"
#include "warden/net/links.h"

#define UPLINK "up0"
#define SETTING "/proc/sys/net/ipv4/conf/" UPLINK "/forwarding"

static struct warden first, second;
static int installs, install_error;

/* What forward.c calls of the rest of the warden. */
int links_install(struct warden *w)
{
	(void)w;
	installs++;
	return install_error;
}

static uint64_t forwards(void)
{
	uint64_t on = 99;

	assert_int_equal(file_read_u64(AT_FDCWD, SETTING, &on), 0);
	return on;
}

static void open_warden(struct warden *w, unsigned instance)
{
	memset(w, 0, sizeof(*w));
	w->instance = instance;
	w->proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	w->run_fd = open("/tmp/run", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	w->home.net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_int_equal(rtnl_open(&w->links.rtnl_fd), 0);
}

static void close_warden(struct warden *w)
{
	(void)close(w->proc_fd);
	(void)close(w->run_fd);
	(void)close(w->home.net_fd);
	(void)close(w->links.rtnl_fd);
}

static int setup(void **state)
{
	int r = own_place_renew(state);

	(void)close(own_place_open("run"));
	put_text(AT_FDCWD, "/tmp/run/1", "/state/one"); /* claims of both instances */
	put_text(AT_FDCWD, "/tmp/run/2", "/state/two");
	open_warden(&first, 1);
	open_warden(&second, 2);
	installs = install_error = 0;
	return r < 0 ? r : file_write(AT_FDCWD, SETTING, "0");
}

static int teardown(void **state)
{
	(void)state;
	close_warden(&first);
	close_warden(&second);
	return 0;
}

static void the_last_one_that_needs_it_puts_it_back(void **state)
{
	(void)state;
	forward_need(&first);
	assert_int_equal(forwards(), 1);
	assert_int_equal(installs, 1);
	assert_int_equal(first.links.uplink_count, 1);
	assert_string_equal(first.links.uplinks[0], UPLINK);
	forward_need(&second); /* on already, but by one of us */
	assert_int_equal(second.links.uplink_count, 1);
	forward_close(&first);
	assert_int_equal(forwards(), 1);
	forward_close(&second);
	assert_int_equal(forwards(), 0);
	forward_close(&second); /* nothing is left to put back */
}

static void one_that_was_on_before_stays_on(void **state)
{
	(void)state;
	assert_int_equal(file_write(AT_FDCWD, SETTING, "1"), 0);
	forward_need(&first);
	assert_int_equal(first.links.uplink_count, 0);
	assert_int_equal(installs, 0);
	forward_close(&first);
	assert_int_equal(forwards(), 1);
}

static void it_is_not_turned_on_without_the_rules(void **state)
{
	(void)state;
	install_error = -EOPNOTSUPP;
	forward_need(&first);
	assert_int_equal(installs, 1);
	assert_int_equal(forwards(), 0);
}

static void routes_are_not_looked_at_again_at_once(void **state)
{
	(void)state;
	forward_need(&first);
	assert_int_equal(file_write(AT_FDCWD, SETTING, "0"), 0);
	forward_need(&first);
	assert_int_equal(forwards(), 0);
	first.links.forward_ms -= 5000;
	forward_need(&first);
	assert_int_equal(forwards(), 1);
}

static void a_restarted_warden_takes_up_what_it_changed(void **state)
{
	(void)state;
	forward_need(&first);
	first.links.uplink_count = 0; /* as after kill -9 */
	forward_open(&second);	      /* which is another's */
	assert_int_equal(second.links.uplink_count, 0);
	forward_open(&first);
	assert_int_equal(first.links.uplink_count, 1);
	forward_open(&first); /* not twice */
	assert_int_equal(first.links.uplink_count, 1);
	forward_close(&first);
	assert_int_equal(forwards(), 0);
}

static void the_note_of_an_instance_that_is_gone_does_not_count(void **state)
{
	(void)state;
	forward_need(&first);
	forward_need(&second);
	assert_return_code(unlinkat(second.run_fd, "2", 0), errno); /* its claim */
	forward_close(&first);
	assert_int_equal(forwards(), 0);
}

static void other_files_and_names_too_long_are_no_notes(void **state)
{
	unsigned long long net;
	struct stat st;
	char path[128];

	(void)state;
	assert_return_code(fstat(first.home.net_fd, &st), errno);
	net = (unsigned long long)st.st_ino;
	(void)snprintf(path, sizeof(path), "/tmp/run/forward-%llu-sixteen-long-nam.1", net);
	put_text(AT_FDCWD, path, "");
	(void)snprintf(path, sizeof(path), "/tmp/run/forward-%llu-.1", net);
	put_text(AT_FDCWD, path, "");
	(void)snprintf(path, sizeof(path), "/tmp/run/forward-%llu-eth0.11", net);
	put_text(AT_FDCWD, path, "");
	(void)snprintf(path, sizeof(path), "/tmp/run/forward-%llu-eth0.1", net + 1);
	put_text(AT_FDCWD, path, "");
	forward_open(&first);
	assert_int_equal(first.links.uplink_count, 0);
	for (int i = 0; i <= NFT_UPLINKS_MAX; i++) {
		(void)snprintf(path, sizeof(path), "/tmp/run/forward-%llu-fifteen-long-n%d.1", net,
			       i);
		put_text(AT_FDCWD, path, "");
	}
	forward_open(&first);
	assert_int_equal(first.links.uplink_count, NFT_UPLINKS_MAX);
	assert_int_equal(strlen(first.links.uplinks[0]), IF_NAMESIZE - 1);
}

/* A pair of links within the namespace, one of them with the default route. */
static bool make_uplink(void)
{
	const struct rtnl_end here = { UPLINK, 10, 0x0a000001, 0x0a000002, true };
	const struct rtnl_end there = { "outside", 11, 0x0a000002, 0x0a000001, false };
	int ns_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), fd = -1;
	bool ok = rtnl_open(&fd) >= 0 && rtnl_veth_make(fd, &here, &there, ns_fd, 0) >= 0 &&
		  rtnl_link_raise(fd, &there) >= 0;

	if (fd >= 0)
		(void)close(fd);
	(void)close(ns_fd);
	return ok;
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(the_last_one_that_needs_it_puts_it_back),
		T(one_that_was_on_before_stays_on),
		T(it_is_not_turned_on_without_the_rules),
		T(routes_are_not_looked_at_again_at_once),
		T(a_restarted_warden_takes_up_what_it_changed),
		T(the_note_of_an_instance_that_is_gone_does_not_count),
		T(other_files_and_names_too_long_are_no_notes),
	};

	if (!own_place_enter(CLONE_NEWNET))
		return OWN_PLACE_SKIPPED;
	if (!make_uplink()) {
		print_message("skipped: no pair of links can be made here\n");
		return OWN_PLACE_SKIPPED;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
