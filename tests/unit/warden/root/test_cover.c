/* SPDX-License-Identifier: Apache-2.0 */
/* Files that lie over those of /proc in a sandbox. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/statvfs.h>

#include "../../own_place.h"
#include "warden/memory/criu.h"

#define SLOT 3

static struct warden warden;
static int covers_fd[8], userns_fd[8];
static struct slot_row rows[8];

static int setup(void **state)
{
	memset(&warden, 0, sizeof(warden));
	memset(rows, 0, sizeof(rows));
	for (size_t i = 0; i < ARRAY_LEN(covers_fd); i++)
		covers_fd[i] = userns_fd[i] = -1;
	for (size_t i = 0; i < ARRAY_LEN(warden.cgroups.fd); i++)
		warden.cgroups.fd[i] = -1;
	warden.covers_fd = covers_fd;
	warden.userns_fd = userns_fd;
	warden.rows = rows;
	warden.proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	cover_open(&warden);
	return own_place_renew(state);
}

static int teardown(void **state)
{
	(void)state;
	if (covers_fd[SLOT] >= 0)
		(void)close(covers_fd[SLOT]);
	return close(warden.proc_fd);
}

static void a_sandbox_sees_whole_processors(void **state)
{
	static const struct {
		uint32_t milli;
		unsigned cpus;
	} rows_of[] = { { 1, 1 }, { 999, 1 }, { 1000, 1 }, { 1001, 2 }, { 4000, 4 }, { 4001, 5 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows_of); i++) {
		const struct warden_limits limits = { .cpu_milli = rows_of[i].milli };

		assert_int_equal(cover_cpus(&limits), rows_of[i].cpus);
	}
}

static void fixed_files_belong_to_root_and_live_ones_to_the_slot(void **state)
{
	const struct warden_limits limits = { .cpu_milli = 2000, .memory_mb = 64 };
	struct stat st;
	char text[16384];
	int fd;

	(void)state;
	assert_int_equal(cover_renew(&warden, SLOT, &limits),
			 0); /* without a tmpfs: nothing to do */
	assert_int_equal(cover_make(&warden, SLOT), 0);
	fd = covers_fd[SLOT];
	assert_true(fd >= 0);
	assert_int_equal(cover_make(&warden, SLOT), 0); /* once per slot */
	assert_int_equal(covers_fd[SLOT], fd);
	assert_return_code(fstatat(fd, COVER_DIR, &st, 0), errno);
	assert_int_equal(st.st_mode, S_IFDIR | 0700); /* closed to all users inside */
	assert_return_code(fstatat(fd, COVER_DIR "/swaps", &st, 0), errno);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(st.st_mode, S_IFREG | 0444);
	assert_false(is_there(fd, COVER_DIR "/meminfo"));
	assert_int_equal(cover_renew(&warden, SLOT, &limits), 0);
	assert_return_code(fstatat(fd, COVER_DIR "/meminfo", &st, 0), errno);
	assert_int_equal(st.st_uid, slot_first_id(&warden, SLOT));
	assert_int_not_equal(get_text(fd, COVER_DIR "/meminfo", text, sizeof(text)), -1);
	assert_non_null(strstr(text, "65536 kB\n"));
	assert_int_not_equal(get_text(fd, COVER_DIR "/stat", text, sizeof(text)), -1);
	assert_non_null(strstr(text, "\ncpu1 "));
	assert_null(strstr(text, "\ncpu2 "));
	for (size_t i = 0; i < COVER_COUNT; i++)
		assert_true(is_there(fd, covers[i].name));
}

static void the_next_owner_gets_new_files(void **state)
{
	struct warden_limits limits = { .cpu_milli = 1000, .memory_mb = 64 };
	struct stat before, after;
	char text[4096];
	int held;

	(void)state;
	assert_int_equal(cover_make(&warden, SLOT), 0);
	assert_int_equal(cover_renew(&warden, SLOT, &limits), 0);
	held = openat(covers_fd[SLOT], COVER_DIR "/meminfo",
		      O_WRONLY | O_CLOEXEC); /* by the last one */
	assert_return_code(fstat(held, &before), errno);
	limits.memory_mb = 32;
	assert_int_equal(cover_renew(&warden, SLOT, &limits), 0);
	assert_int_equal(write(held, "forged", 6), 6);
	assert_return_code(fstatat(covers_fd[SLOT], COVER_DIR "/meminfo", &after, 0), errno);
	assert_int_not_equal(before.st_ino, after.st_ino);
	assert_int_not_equal(get_text(covers_fd[SLOT], COVER_DIR "/meminfo", text, sizeof(text)),
			     -1);
	assert_non_null(strstr(text, "32768 kB\n"));
	(void)close(held);
}

static void memory_above_the_hosts_is_shown_as_the_hosts(void **state)
{
	const struct warden_limits limits = { .cpu_milli = 1000, .memory_mb = UINT32_MAX };
	char text[4096];
	unsigned long long total_kb = 0;

	(void)state;
	assert_int_equal(cover_make(&warden, SLOT), 0);
	assert_int_equal(cover_renew(&warden, SLOT, &limits), 0);
	assert_int_not_equal(get_text(covers_fd[SLOT], COVER_DIR "/meminfo", text, sizeof(text)),
			     -1);
	assert_int_equal(sscanf(text, "MemTotal: %llu kB", &total_kb), 1);
	assert_true(total_kb < (unsigned long long)UINT32_MAX << 10);
}

static void a_root_without_sys_goes_without_covers(void **state)
{
	struct root root = { .fd = -1 };

	(void)state;
	assert_int_equal(cover_make(&warden, SLOT), 0);
	root.fd = own_place_open("root");
	root.has_covers = true;
	assert_int_equal(cover_furnish(&warden, SLOT, &root), 0);
	assert_false(root.has_covers);
	assert_return_code(symlinkat("/tmp", root.fd, "sys"),
			   errno); /* planted by the files' owner */
	assert_int_equal(cover_furnish(&warden, SLOT, &root), 0);
	assert_false(root.has_covers);
	assert_return_code(unlinkat(root.fd, "sys", 0), errno);
	assert_return_code(mkdirat(root.fd, "sys", 0755), errno);
	assert_int_equal(cover_furnish(&warden, SLOT, &root), 0);
	assert_true(root.has_covers);
	assert_true(is_there(root.fd, "sys/" COVER_DIR "/swaps"));
	(void)umount2("/tmp/root/sys", MNT_DETACH);
	(void)close(root.fd);
}

static void live_files_are_saved_with_the_memory(void **state)
{
	int dir_fd;

	(void)state;
	dir_fd = own_place_open("images");
	rows[SLOT].pid = getpid();
	assert_int_equal(cover_save(&warden, SLOT, dir_fd), 0);
	assert_true(is_there(dir_fd, "cay-meminfo") && is_there(dir_fd, "cay-cpuinfo"));
	assert_false(is_there(dir_fd, "cay-swaps")); /* a fixed one */
	rows[SLOT].pid = 0;
	assert_int_equal(cover_save(&warden, SLOT, dir_fd), -ENOENT);
	(void)close(dir_fd);
}

static void every_cover_has_a_name_for_the_memory_image(void **state)
{
	struct criu_run run;
	unsigned found = 0;

	(void)state;
	criu_init(&run, &warden, SLOT);
	cover_dump(&run);
	assert_int_equal(run.arg_count % 2, 0);
	for (size_t i = 0; i < run.arg_count; i += 2) {
		assert_string_equal(run.args[i], "--external");
		found += strcmp(run.args[i + 1], "mnt[/proc/meminfo]:ext/meminfo") == 0;
		found += strcmp(run.args[i + 1], "mnt[/sys]:ext/sys") == 0;
	}
	assert_int_equal(found, 2);
	assert_int_equal(run.arg_count / 2, 1 + COVER_COUNT + CGROUP_SHOWN_COUNT);
	criu_done(&run);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sandbox_sees_whole_processors),
		T(fixed_files_belong_to_root_and_live_ones_to_the_slot),
		T(the_next_owner_gets_new_files),
		T(memory_above_the_hosts_is_shown_as_the_hosts),
		T(a_root_without_sys_goes_without_covers),
		T(live_files_are_saved_with_the_memory),
		T(every_cover_has_a_name_for_the_memory_image),
	};

	if (!own_place_enter(0))
		return OWN_PLACE_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
