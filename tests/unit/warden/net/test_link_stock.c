/* SPDX-License-Identifier: Apache-2.0 */
/* Net namespaces in stock: how many are aimed at, and who gets which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/time.h"
#include "warden/net/links.h"

#define SLOT 2
#define QUIET_MS 60000 /* as in link_stock.c */

static struct warden warden;
static struct slot_row rows[4];
static int made, make_error, sets;
static uint32_t set_to;

/* What link_stock.c calls of the rest of the warden. */
int stock_take_net(struct warden *w, struct netns *ret)
{
	(void)w;
	*ret = (struct netns)NETNS_NONE;
	made++;
	return make_error;
}

int links_set(struct warden *w, unsigned slot, int ns_fd, uint32_t network)
{
	(void)ns_fd;
	sets++;
	set_to = network;
	if (!w->rows[slot].link)
		w->rows[slot].link = 900;
	return 0;
}

int links_make(struct warden *w, int ns_fd, uint32_t *ret)
{
	(void)w;
	(void)ns_fd;
	*ret = 0;
	return -EOPNOTSUPP;
}

static int setup(void **state)
{
	(void)state;
	memset(&warden, 0, sizeof(warden));
	memset(rows, 0, sizeof(rows));
	warden.rows = rows;
	made = make_error = sets = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	link_stock_close(&warden);
	assert_null(warden.links.stock.ready);
	return 0;
}

static void fill_with(unsigned count)
{
	struct link_stock *stock = &warden.links.stock;

	stock->ready = calloc(LINKED_MAX, sizeof(*stock->ready));
	assert_non_null(stock->ready);
	for (unsigned i = 0; i < count; i++)
		stock->ready[i] = (struct linked_netns){ .net = NETNS_NONE, .link = 100 + i };
	stock->count = count;
}

static void nothing_is_kept_before_the_first_one_is_asked_for(void **state)
{
	struct netns net;

	(void)state;
	warden.links.usable = true;
	assert_false(link_stock_wanted(&warden));
	assert_false(link_stock_grown(&warden));
	assert_int_equal(link_stock_take(&warden, SLOT, WARDEN_LINK_PROXY, &net), 0);
	assert_int_equal(made, 1);
	assert_int_equal(rows[SLOT].link, 900);
	assert_true(link_stock_wanted(&warden));
	assert_true(link_stock_grown(&warden));
	assert_true(warden.stock.filling);
	warden.links.usable = false;
	assert_false(link_stock_wanted(&warden));
}

static void an_empty_stock_doubles_the_target_up_to_its_limit(void **state)
{
	struct netns net;
	unsigned last;

	(void)state;
	assert_int_equal(link_stock_take(&warden, SLOT, WARDEN_LINK_PROXY, &net), 0);
	last = warden.links.stock.target;
	assert_int_equal(link_stock_take(&warden, SLOT, WARDEN_LINK_PROXY, &net), 0);
	assert_int_equal(warden.links.stock.target, 2 * last);
	for (int i = 0; i < 10; i++)
		assert_int_equal(link_stock_take(&warden, SLOT, WARDEN_LINK_PROXY, &net), 0);
	assert_int_equal(warden.links.stock.target, LINKED_MAX);
}

static void one_in_stock_is_handed_out_with_its_number(void **state)
{
	struct netns net;

	(void)state;
	fill_with(2);
	assert_true(link_stock_has(&warden, 100) && link_stock_has(&warden, 101));
	assert_false(link_stock_has(&warden, 102));
	assert_int_equal(link_stock_take(&warden, SLOT, WARDEN_LINK_PROXY, &net), 0);
	assert_int_equal(rows[SLOT].link, 101);
	assert_false(link_stock_has(&warden, 101));
	assert_int_equal(sets, 0); /* it is open already */
	assert_int_equal(link_stock_take(&warden, SLOT + 1, WARDEN_LINK_ROUTED, &net), 0);
	assert_int_equal(rows[SLOT + 1].link, 100);
	assert_int_equal(sets, 1);
	assert_int_equal(set_to, WARDEN_LINK_ROUTED);
	assert_int_equal(made, 0);
}

static void a_namespace_that_cannot_be_made_is_an_error(void **state)
{
	struct netns net;

	(void)state;
	make_error = -ENOSPC;
	assert_int_equal(link_stock_take(&warden, SLOT, WARDEN_LINK_PROXY, &net), -ENOSPC);
	assert_int_equal(sets, 0);
	assert_int_equal(rows[SLOT].link, 0);
}

static void the_stock_goes_after_a_quiet_while(void **state)
{
	(void)state;
	fill_with(3);
	warden.links.stock.target = 8;
	warden.links.stock.taken_ms = time_boot_ms();
	link_stock_shrink(&warden);
	assert_int_equal(warden.links.stock.count, 3);
	warden.links.stock.taken_ms = time_boot_ms() - QUIET_MS;
	link_stock_shrink(&warden);
	assert_int_equal(warden.links.stock.count, 0);
	assert_false(link_stock_grown(&warden));
}

static void one_without_a_link_is_not_kept(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root makes net namespaces\n");
		skip();
	}
	warden.proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	warden.home.net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	warden.home.ipc_fd = open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC);
	assert_int_equal(link_stock_fill(&warden), -EOPNOTSUPP);
	assert_int_equal(warden.links.stock.count, 0);
	(void)close(warden.proc_fd);
	(void)close(warden.home.net_fd);
	(void)close(warden.home.ipc_fd);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(nothing_is_kept_before_the_first_one_is_asked_for),
		T(an_empty_stock_doubles_the_target_up_to_its_limit),
		T(one_in_stock_is_handed_out_with_its_number),
		T(a_namespace_that_cannot_be_made_is_an_error),
		T(the_stock_goes_after_a_quiet_while),
		T(one_without_a_link_is_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
