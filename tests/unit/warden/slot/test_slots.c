/* SPDX-License-Identifier: Apache-2.0 */
/* The table of slots: what the next warden finds in it, and what it discards. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "warden/copy/snapshot.h"

static char dir[] = "/tmp/cay-slots-XXXXXX";
static struct warden warden;
static unsigned salvaged;

/* Functions of the warden that slots.c calls. */
void salvage(struct warden *w, const struct slot_row *rows)
{
	(void)w;
	for (unsigned i = 0; i < SLOTS_MAX; i++)
		salvaged += rows[i].state == SLOT_LIVE;
}

/* The pool's owner is "here"; a table without one fits. */
int owner_open(struct warden *w)
{
	return !w->table_owner[0] || strcmp(w->table_owner, "here") == 0 ? 0 : -EXDEV;
}

int sweep_kill(struct warden *w, unsigned slot)
{
	w->rows[slot].state = SLOT_DYING;
	return 0;
}

void snapshot_thaw(struct warden *w, unsigned slot)
{
	w->rows[slot].held = 0;
}

static void open_table(void)
{
	memset(&warden, 0, sizeof(warden));
	warden.state_fd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	warden.proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	assert_int_equal(slots_open(&warden), 0);
}

static void close_table(void)
{
	(void)munmap((char *)warden.rows - 4096, 4096 + SLOTS_MAX * sizeof(*warden.rows));
	free(warden.userns_fd);
	free(warden.covers_fd);
	free(warden.programs_fd);
	free(warden.spaces);
	free(warden.views);
	free(warden.doors);
	free(warden.outlooks);
	free(warden.roots);
	free(warden.limits);
	free(warden.bonds);
	(void)close(warden.state_fd);
	(void)close(warden.proc_fd);
}

static int setup(void **state)
{
	(void)state;
	(void)strcpy(dir, "/tmp/cay-slots-XXXXXX");
	salvaged = 0;
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	char path[64];

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/warden.slots", dir);
	(void)unlink(path);
	return rmdir(dir);
}

static void put(unsigned slot, enum slot_state state, const char *id)
{
	warden.rows[slot].state = state;
	(void)snprintf(warden.rows[slot].id, sizeof(warden.rows[slot].id), "%s", id);
	slots_used(&warden, slot);
}

static void rows_outlive_the_warden(void **state)
{
	(void)state;
	open_table();
	put(7, SLOT_LIVE, "seven");
	close_table();
	open_table();
	assert_int_equal(slots_find(&warden, "seven"), 7);
	assert_int_equal(salvaged, 0);
	close_table();
}

static void set_boot(const char *other)
{
	char path[64], id[40] = "";
	int fd;

	(void)snprintf(path, sizeof(path), "%s/warden.slots", dir);
	(void)snprintf(id, sizeof(id), "%s", other);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, id, sizeof(id), 8), sizeof(id));
	(void)close(fd);
}

static void a_table_of_another_boot_is_salvaged_once(void **state)
{
	(void)state;
	open_table();
	put(0, SLOT_LIVE, "a");
	put(9, SLOT_LIVE, "b");
	put(10, SLOT_DYING, "c");
	close_table();
	set_boot("0b0e0000-0000-0000-0000-000000000000");
	open_table();
	assert_int_equal(salvaged, 2);
	assert_int_equal(slots_find(&warden, "a"), -ENOENT);
	close_table();
	open_table();
	assert_int_equal(salvaged, 2);
	close_table();
}

static void rows_of_another_database_are_not_salvaged(void **state)
{
	(void)state;
	open_table();
	put(0, SLOT_LIVE, "a");
	(void)strcpy(warden.table_owner, "elsewhere");
	close_table();
	set_boot("0b0e0000-0000-0000-0000-000000000000");
	warden.state_fd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	warden.proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	assert_int_equal(slots_open(&warden), -EXDEV);
	assert_int_equal(salvaged, 0);
	(void)close(warden.state_fd);
	(void)close(warden.proc_fd);
}

static void the_owner_outlives_a_boot(void **state)
{
	(void)state;
	open_table();
	put(0, SLOT_LIVE, "a");
	(void)strcpy(warden.table_owner, "here");
	close_table();
	set_boot("0b0e0000-0000-0000-0000-000000000000");
	open_table();
	assert_int_equal(salvaged, 1);
	assert_string_equal(warden.table_owner, "here");
	close_table();
}

/* A store to a hole would be a SIGBUS on a full disk. */
static void the_table_has_no_holes(void **state)
{
	struct stat st;

	(void)state;
	open_table();
	assert_int_equal(fstatat(warden.state_fd, "warden.slots", &st, 0), 0);
	assert_true(st.st_blocks * 512 >= st.st_size);
	close_table();
}

static void a_table_of_another_layout_is_not_read(void **state)
{
	char path[64];
	uint32_t version = 1;
	int fd;

	(void)state;
	open_table();
	put(3, SLOT_LIVE, "a");
	close_table();
	(void)snprintf(path, sizeof(path), "%s/warden.slots", dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, &version, sizeof(version), 0), sizeof(version));
	(void)close(fd);
	open_table();
	assert_int_equal(salvaged, 0);
	assert_int_equal(warden.rows[3].state, SLOT_FREE);
	close_table();
}

static void the_end_of_searches_follows_the_slots(void **state)
{
	(void)state;
	open_table();
	slots_trim(&warden);
	assert_int_equal(warden.slot_top, 0);
	put(5, SLOT_MAKING, "five");
	put(2, SLOT_LIVE, "two");
	assert_int_equal(warden.slot_top, 6);
	assert_int_equal(slots_find(&warden, "five"), 5);
	assert_int_equal(slots_find(&warden, ""), -ENOENT);
	warden.rows[5].state = SLOT_FREE;
	warden.rows[5].has_cgroups = 1;
	slots_trim(&warden);
	assert_int_equal(warden.slot_top, 6);
	warden.rows[5].has_cgroups = 0;
	slots_trim(&warden);
	assert_int_equal(warden.slot_top, 3);
	close_table();
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(rows_outlive_the_warden),
		T(a_table_of_another_boot_is_salvaged_once),
		T(rows_of_another_database_are_not_salvaged),
		T(the_owner_outlives_a_boot),
		T(the_table_has_no_holes),
		T(a_table_of_another_layout_is_not_read),
		T(the_end_of_searches_follows_the_slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
