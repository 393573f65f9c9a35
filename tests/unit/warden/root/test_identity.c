/* SPDX-License-Identifier: Apache-2.0 */
/* The ids that distinguish a sandbox from its copies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../own_place.h"
#include "warden/warden.h"

static struct warden warden;

static int setup(void **state)
{
	int r = own_place_renew(state);

	memset(&warden, 0, sizeof(warden));
	warden.shared_fd = own_place_open("shared");
	return r < 0 ? r : mkdirat(warden.shared_fd, "ids", 0755);
}

static int teardown(void **state)
{
	(void)state;
	return close(warden.shared_fd);
}

static void the_files_of_a_slot_begin_empty(void **state)
{
	(void)state;
	assert_int_equal(identity_make(&warden, 7), 0);
	assert_text(warden.shared_fd, "ids/7.boot", "");
	assert_text(warden.shared_fd, "ids/7.machine", "");
	assert_false(is_there(warden.shared_fd, "ids/7.forked"));
	assert_false(is_there(warden.shared_fd, "ids/6.boot"));
	assert_int_equal(identity_make(&warden, 7), 0); /* a slot that was made before */
}

static void paths_fit_at_the_highest_slot(void **state)
{
	static const char *const ends[] = { "machine", "boot", "forked" };
	char path[IDENTITY_PATH_SIZE], expected[64];

	(void)state;
	for (int which = IDENTITY_MACHINE; which <= IDENTITY_FORKED; which++) {
		identity_path(path, (enum identity_file)which, SLOTS_MAX - 1);
		(void)snprintf(expected, sizeof(expected), "ids/%d.%s", SLOTS_MAX - 1, ends[which]);
		assert_string_equal(path, expected);
	}
}

static void a_boot_id_is_a_new_random_uuid(void **state)
{
	char first[64], second[64];

	(void)state;
	assert_int_equal(identity_renew(&warden, 1), -ENOENT); /* before the slot was made */
	assert_int_equal(identity_make(&warden, 1), 0);
	assert_int_equal(identity_renew(&warden, 1), 0);
	assert_int_equal(get_text(warden.shared_fd, "ids/1.boot", first, sizeof(first)), 37);
	assert_int_equal(strspn(first, "0123456789abcdef-"), 36);
	assert_int_equal(first[36], '\n');
	for (int i = 8; i <= 23; i += 5)
		assert_int_equal(first[i], '-');
	assert_int_equal(first[14], '4');
	assert_non_null(memchr("89ab", first[19], 4));
	assert_int_equal(identity_renew(&warden, 1), 0);
	assert_int_equal(get_text(warden.shared_fd, "ids/1.boot", second, sizeof(second)), 37);
	assert_string_not_equal(first, second);
}

static void machine_id_of(unsigned slot, const char *id, char dst[64])
{
	char path[IDENTITY_PATH_SIZE];

	assert_int_equal(identity_make(&warden, slot), 0);
	assert_int_equal(identity_name(&warden, slot, id, false), 0);
	identity_path(path, IDENTITY_MACHINE, slot);
	assert_int_equal(get_text(warden.shared_fd, path, dst, 64), 33);
	assert_int_equal(strspn(dst, "0123456789abcdef"), 32);
}

static void a_machine_id_follows_from_the_sandbox_and_the_host(void **state)
{
	char first[64], same[64], other[64], elsewhere[64];

	(void)state;
	machine_id_of(1, "one", first);
	machine_id_of(2, "one", same);
	machine_id_of(1, "two", other);
	warden.snapshot_key[0] ^= 1;
	machine_id_of(1, "one", elsewhere);
	assert_string_equal(first, same);
	assert_string_not_equal(first, other);
	assert_string_not_equal(first, elsewhere);
	assert_false(is_there(warden.shared_fd, "ids/1.forked"));
}

static void a_copy_is_marked_with_its_id_and_a_new_word(void **state)
{
	char longest[WARDEN_ID_SIZE], first[256], second[256];
	int n;

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(identity_make(&warden, 3), 0);
	assert_int_equal(identity_name(&warden, 3, longest, true), 0);
	n = get_text(warden.shared_fd, "ids/3.forked", first, sizeof(first));
	assert_int_equal(n, WARDEN_ID_SIZE - 1 + 1 + 32 + 1);
	assert_memory_equal(first, longest, WARDEN_ID_SIZE - 1);
	assert_int_equal(first[n - 1], '\n');
	/* The next owner's is shorter: nothing of the last one's stays. */
	assert_int_equal(identity_name(&warden, 3, "b", true), 0);
	n = get_text(warden.shared_fd, "ids/3.forked", second, sizeof(second));
	assert_int_equal(n, 1 + 1 + 32 + 1);
	assert_memory_equal(second, "b\n", 2);
	assert_memory_not_equal(first + WARDEN_ID_SIZE, second + 2, 32);
}

static void a_link_in_place_of_a_file_is_not_followed(void **state)
{
	(void)state;
	put_text(AT_FDCWD, "/tmp/victim", "untouched");
	assert_return_code(symlinkat("/tmp/victim", warden.shared_fd, "ids/4.boot"), errno);
	assert_int_equal(identity_make(&warden, 4), -ELOOP);
	assert_int_equal(identity_renew(&warden, 4), -ELOOP);
	assert_text(AT_FDCWD, "/tmp/victim", "untouched");
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(the_files_of_a_slot_begin_empty),
		T(paths_fit_at_the_highest_slot),
		T(a_boot_id_is_a_new_random_uuid),
		T(a_machine_id_follows_from_the_sandbox_and_the_host),
		T(a_copy_is_marked_with_its_id_and_a_new_word),
		T(a_link_in_place_of_a_file_is_not_followed),
	};

	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
