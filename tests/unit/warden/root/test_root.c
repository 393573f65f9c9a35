/* SPDX-License-Identifier: Apache-2.0 */
/* Roots of sandboxes: a template below a volume, and roots that can be used a second time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "../../own_place.h"
#include "warden/warden.h"

#define SLOTS 4
#define SLOT 1
#define VOLUME 0x2aULL
#define VOLUME_NAME "v000000000000002a"

static const uint8_t hash[WARDEN_HASH_SIZE] = { 0xab }, other_hash[WARDEN_HASH_SIZE] = { 0xcd };
static struct warden warden;
static struct outlook outlooks[SLOTS];
static struct root roots[SLOTS];
static struct slot_row rows[SLOTS];
static int userns_fd[SLOTS];

/* Ids are not mapped here: that is the work of mount_copy(), and tests/unit/sys/mount has it. */
static int setup(void **state)
{
	char path[2 * WARDEN_HASH_SIZE + 32];
	int r = own_place_renew(state);

	memset(&warden, 0, sizeof(warden));
	memset(rows, 0, sizeof(rows));
	warden.disabled = CONTROL_IDMAP | CONTROL_USERNS;
	warden.templates_fd = own_place_open("templates");
	warden.pool_fd = own_place_open("pool");
	warden.quotas_fd = warden.snapshots_fd = -1;
	warden.outlooks = outlooks;
	warden.roots = roots;
	warden.rows = rows;
	warden.userns_fd = userns_fd;
	for (size_t i = 0; i < SLOTS; i++) {
		outlooks[i] = (struct outlook){ .lower_fd = -1, .pool_fd = -1 };
		roots[i].fd = userns_fd[i] = -1;
	}
	str_hex(path, hash, sizeof(hash));
	(void)mkdirat(warden.templates_fd, path, 0755);
	(void)strcat(path, "/tree");
	(void)mkdirat(warden.templates_fd, path, 0755);
	(void)strcat(path, "/rootfs");
	(void)mkdirat(warden.templates_fd, path, 0755);
	(void)strcat(path, "/file");
	put_text(warden.templates_fd, path, "of the template");
	return r < 0 ? r : clean_root_open(&warden);
}

static int teardown(void **state)
{
	(void)state;
	clean_root_forget_all(&warden);
	for (size_t i = 0; i < SLOTS; i++) {
		if (outlooks[i].lower_fd >= 0)
			(void)close(outlooks[i].lower_fd);
		if (outlooks[i].pool_fd >= 0)
			(void)close(outlooks[i].pool_fd);
		if (roots[i].fd >= 0)
			(void)close(roots[i].fd);
	}
	while (warden.stock.late_fd_count)
		(void)close(warden.stock.late_fds[--warden.stock.late_fd_count]);
	free(warden.clean_roots);
	(void)close(warden.templates_fd);
	return close(warden.pool_fd);
}

static void make_volume(void)
{
	(void)mkdirat(warden.pool_fd, VOLUME_NAME, 0700);
	(void)mkdirat(warden.pool_fd, VOLUME_NAME "/upper", 0755);
	(void)mkdirat(warden.pool_fd, VOLUME_NAME "/work", 0700);
}

static void what_is_missing_is_named_by_its_step(void **state)
{
	const char *step = "";

	(void)state;
	make_volume();
	assert_int_equal(root_build_plain(&warden, SLOT, VOLUME, other_hash, &step), -ENOENT);
	assert_string_equal(step, "open template");
	assert_int_equal(root_build_plain(&warden, SLOT, VOLUME + 1, hash, &step), -ENOENT);
	assert_string_equal(step, "open volume");
	(void)unlinkat(warden.pool_fd, VOLUME_NAME "/work", AT_REMOVEDIR);
	assert_int_equal(root_build_plain(&warden, SLOT, VOLUME, hash, &step), -ENOENT);
	assert_string_equal(step, "mount root");
	assert_int_equal(roots[SLOT].fd, -1);
}

static void a_template_behind_a_link_is_refused(void **state)
{
	char path[2 * WARDEN_HASH_SIZE + 1];
	const char *step = "";

	(void)state;
	make_volume();
	str_hex(path, other_hash, sizeof(other_hash));
	assert_return_code(symlinkat("/", warden.templates_fd, path), errno);
	assert_int_equal(root_build_plain(&warden, SLOT, VOLUME, other_hash, &step), -ELOOP);
}

static void a_root_shows_the_template_and_writes_to_its_volume(void **state)
{
	const char *step = "";
	char path[2 * WARDEN_HASH_SIZE + 32];

	(void)state;
	make_volume();
	assert_int_equal(root_build_plain(&warden, SLOT, VOLUME, hash, &step), 0);
	assert_true(root_fits(&warden, SLOT, hash));
	assert_false(root_fits(&warden, SLOT, other_hash));
	assert_false(root_fits(&warden, SLOT + 1, hash));
	assert_text(roots[SLOT].fd, "file", "of the template");
	put_text(roots[SLOT].fd, "file", "changed");
	assert_text(warden.pool_fd, VOLUME_NAME "/upper/file", "changed");
	str_hex(path, hash, sizeof(hash));
	(void)strcat(path, "/tree/rootfs/file");
	assert_text(warden.templates_fd, path, "of the template");
	root_drop(&warden, SLOT);
	assert_int_equal(roots[SLOT].fd, -1);
	assert_false(is_there(warden.pool_fd, VOLUME_NAME));
	root_drop(&warden, SLOT); /* there is none */
}

/* ---- used again ---- */

static void keep_one(void)
{
	struct root root = { .fd = -1, .volume = VOLUME };

	make_volume();
	(void)mkdirat(warden.pool_fd, VOLUME_NAME "/work/work", 0700);
	memcpy(root.template_hash, hash, sizeof(hash));
	root.fd = own_place_open("root"); /* of an attached mount: every kernel copies those */
	warden.keeps_clean_roots = true;
	clean_root_keep(&warden, SLOT, &root);
	assert_true(warden.clean_roots[SLOT].fd >= 0);
	rows[SLOT].volume = VOLUME;
	rows[SLOT].disk_size_mb = 100;
	(void)close(root.fd);
}

static void an_unchanged_root_is_used_again(void **state)
{
	struct root root = { .fd = -1 };

	(void)state;
	keep_one();
	assert_true(clean_root_stays(&warden, SLOT));
	memcpy(root.template_hash, hash, sizeof(hash));
	assert_true(clean_root_use(&warden, SLOT, &root));
	assert_int_equal(root.volume, VOLUME);
	assert_int_equal(root.disk_size_mb, 100);
	(void)close(root.fd);
	/* It has an owner now: the slot keeps it, and the volume stays when it forgets. */
	clean_root_forget(&warden, SLOT);
	assert_true(is_there(warden.pool_fd, VOLUME_NAME));
}

static void a_written_root_is_not_used_again(void **state)
{
	(void)state;
	keep_one();
	put_text(warden.pool_fd, VOLUME_NAME "/upper/new",
		 "x"); /* also the directory's size on a tmpfs */
	assert_false(clean_root_stays(&warden, SLOT));
	assert_int_equal(warden.clean_roots[SLOT].fd, -1);
	assert_true(is_there(warden.pool_fd, VOLUME_NAME)); /* the sweep removes it */
}

static void a_root_that_shares_its_disk_is_not_used_again(void **state)
{
	(void)state;
	keep_one();
	rows[SLOT].shares_disk = 1;
	assert_false(clean_root_stays(&warden, SLOT));
}

static void a_root_of_another_volume_or_of_a_warden_that_ends_is_not_kept(void **state)
{
	(void)state;
	keep_one();
	rows[SLOT].volume = VOLUME + 1;
	assert_false(clean_root_stays(&warden, SLOT));
	(void)rmdir("/tmp/root");
	keep_one();
	warden.stopping = true;
	assert_false(clean_root_stays(&warden, SLOT));
}

static void another_template_drops_the_idle_root_with_its_volume(void **state)
{
	struct root root = { .fd = -1 };

	(void)state;
	keep_one();
	assert_true(clean_root_stays(&warden, SLOT));
	memcpy(root.template_hash, other_hash, sizeof(other_hash));
	assert_false(clean_root_use(&warden, SLOT, &root));
	assert_int_equal(root.fd, -1);
	assert_false(is_there(warden.pool_fd, VOLUME_NAME));
}

static void a_root_in_use_is_not_handed_out_twice(void **state)
{
	struct root root = { .fd = -1 };

	(void)state;
	keep_one();
	memcpy(root.template_hash, hash, sizeof(hash));
	assert_false(clean_root_use(&warden, SLOT, &root));
	assert_true(is_there(warden.pool_fd, VOLUME_NAME));
}

static void slots_beyond_the_keeping_ones_have_none(void **state)
{
	struct root root = { .fd = -1, .volume = VOLUME };

	(void)state;
	warden.keeps_clean_roots = true;
	clean_root_keep(&warden, KEEPING_SLOTS, &root);
	assert_false(clean_root_use(&warden, KEEPING_SLOTS, &root));
	clean_root_forget(&warden, KEEPING_SLOTS);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(what_is_missing_is_named_by_its_step),
		T(a_template_behind_a_link_is_refused),
		T(a_root_shows_the_template_and_writes_to_its_volume),
		T(an_unchanged_root_is_used_again),
		T(a_written_root_is_not_used_again),
		T(a_root_that_shares_its_disk_is_not_used_again),
		T(a_root_of_another_volume_or_of_a_warden_that_ends_is_not_kept),
		T(another_template_drops_the_idle_root_with_its_volume),
		T(a_root_in_use_is_not_handed_out_twice),
		T(slots_beyond_the_keeping_ones_have_none),
	};

	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
