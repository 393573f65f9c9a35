/* SPDX-License-Identifier: Apache-2.0 */
/* Usage against a model: sums of any window are the same before and after days are summed up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/store.h"

#define DAY STORE_DAY_MS
#define INTERVALS 400
#define SANDBOXES 12
#define DAYS 20
#define NOW ((DAYS + 1) * DAY)

struct interval {
	int sandbox, kind;
	int64_t from, to;
};
static struct interval model[INTERVALS];
static size_t count;
static char dir[32], path[64];

static int64_t cpu_of(int sandbox)
{
	return 1 + sandbox % 4;
}

static int64_t disk_of(int sandbox)
{
	return 1000003LL * (sandbox + 1);
}

static const char *owner_of(int sandbox)
{
	return sandbox % 3 ? "one" : "two";
}

static const char *workspace_of(int sandbox)
{
	return sandbox % 2 ? "w" : NULL;
}

/* Consecutive intervals; some of no length, some of many days. */
static void fill(struct store *store)
{
	int64_t at[SANDBOXES];

	for (int i = 0; i < SANDBOXES; i++)
		at[i] = DAY + random() % (3 * DAY);
	for (count = 0; count < INTERVALS; count++) {
		struct interval *in = &model[count];
		int which = (int)(random() % SANDBOXES);
		char id[16];

		in->sandbox = which;
		in->kind = 1 + (int)(random() % 2);
		in->from = at[which];
		in->to = in->from + (random() % 8 == 0	  ? 0
				     : random() % 20 == 0 ? random() % (4 * DAY)
							  : random() % (DAY / 4));
		if (random() % 10 == 0)
			in->to -= in->to % DAY; /* ends with a day */
		if (in->to < in->from)
			in->to = in->from;
		if (in->to > DAYS * DAY)
			in->to = in->from;
		at[which] = in->to + 1 + random() % 1000;
		(void)snprintf(id, sizeof(id), "s%d", which);
		struct store_usage row = { .sandbox_id = id,
					   .owner = owner_of(which),
					   .external_workspace_id = workspace_of(which),
					   .kind = (enum store_usage_kind)in->kind,
					   .from_ms = in->from,
					   .to_ms = in->to,
					   .cpu_milli = cpu_of(which) * 1000,
					   .memory_mb = 256,
					   .disk_bytes = disk_of(which) };
		assert_int_equal(store_usage_put(store, &row), 0);
	}
}

struct sums {
	int64_t sandboxes, running, paused;
	double vcpu, memory, storage;
};

static int add(void *arg, const struct store_usage_sum *sum)
{
	struct sums *sums = arg;

	sums->sandboxes += sum->sandboxes;
	sums->running += sum->running_ms;
	sums->paused += sum->paused_ms;
	sums->vcpu += sum->vcpu_ms;
	sums->memory += sum->memory_mb_ms;
	sums->storage += sum->storage_byte_ms;
	return 0;
}

static struct sums expected(const struct store_usage_query *q)
{
	struct sums sums = { 0 };
	bool seen[SANDBOXES] = { false };

	for (size_t i = 0; i < count; i++) {
		const struct interval *in = &model[i];
		int64_t from = in->from > q->from_ms ? in->from : q->from_ms;
		int64_t to = in->to < q->to_ms ? in->to : q->to_ms;
		char id[16];

		(void)snprintf(id, sizeof(id), "s%d", in->sandbox);
		if ((q->owner && strcmp(q->owner, owner_of(in->sandbox)) != 0) ||
		    (q->sandbox_id && strcmp(q->sandbox_id, id) != 0) ||
		    (q->external_workspace_id && !workspace_of(in->sandbox)))
			continue;
		if (to < from || (to == from && !(in->from >= q->from_ms && in->from < q->to_ms)))
			continue;
		if (!seen[in->sandbox])
			sums.sandboxes++;
		seen[in->sandbox] = true;
		if (in->kind == 1) {
			sums.running += to - from;
			sums.vcpu += (double)((to - from) * cpu_of(in->sandbox));
			sums.memory += (double)((to - from) * 256);
		} else {
			sums.paused += to - from;
			sums.storage += (double)(to - from) * (double)disk_of(in->sandbox);
		}
	}
	return sums;
}

static void check(struct store *store, const struct store_usage_query *q)
{
	struct sums got = { 0 }, want = expected(q);

	assert_int_equal(store_usage_sum(store, q, add, &got), 0);
	assert_int_equal(got.sandboxes, want.sandboxes);
	assert_int_equal(got.running, want.running);
	assert_int_equal(got.paused, want.paused);
	assert_true(got.vcpu == want.vcpu && got.memory == want.memory);
	/* beyond 2^53 the order of a sum matters in its last bits */
	assert_true(got.storage - want.storage <= want.storage * 1e-12 &&
		    want.storage - got.storage <= want.storage * 1e-12);
}

static void check_windows(struct store *store, int64_t rolled)
{
	for (int i = 0; i < 60; i++) {
		char id[16];
		int64_t a = random() % NOW, b = a + random() % (NOW - a);
		struct store_usage_query q = { .now_ms = NOW };

		if (a < rolled)
			a -= a % DAY;
		if (b < rolled)
			b += (DAY - b % DAY) % DAY;
		q.from_ms = a;
		q.to_ms = b;
		(void)snprintf(id, sizeof(id), "s%d", (int)(random() % SANDBOXES));
		check(store, &q);
		q.owner = "one";
		check(store, &q);
		q.external_workspace_id = "w";
		check(store, &q);
		q.owner = NULL;
		check(store, &q);
		q.external_workspace_id = NULL;
		q.sandbox_id = id;
		check(store, &q);
	}
}

static void check_last(struct store *store)
{
	for (int which = 0; which < SANDBOXES; which++) {
		int64_t last = 0, got = -1;
		char id[16];

		for (size_t i = 0; i < count; i++)
			if (model[i].sandbox == which && model[i].to > last)
				last = model[i].to;
		(void)snprintf(id, sizeof(id), "s%d", which);
		assert_int_equal(store_usage_last(store, id, &got), 0);
		assert_int_equal(got, last);
	}
}

static int roll(struct store *store, int64_t until, int64_t limit)
{
	int n;

	assert_int_equal(store_begin(store), 0);
	n = store_usage_roll(store, until, limit);
	assert_true(n >= 0 && n <= limit);
	assert_int_equal(store_commit(store), 0);
	return n;
}

static void test_model(void **state)
{
	struct store *store = NULL;
	unsigned seed = (unsigned)getpid();
	int moved = 0;

	(void)state;
	print_message("seed %u\n", seed);
	srandom(seed);
	assert_int_equal(store_open(path, &store), 0);
	fill(store);
	check_windows(store, 0);
	for (int64_t day = 2; day <= DAYS; day += 1 + random() % 4) {
		int n;

		/* In pieces, with queries and a restart between them. */
		do {
			n = roll(store, day * DAY, 7);
			moved += n;
			if (random() % 8 == 0)
				check_windows(store, day * DAY);
		} while (n == 7);
		store_close(store);
		assert_int_equal(store_open(path, &store), 0);
		check_windows(store, day * DAY);
		check_last(store);
	}
	moved += roll(store, DAYS * DAY, INTERVALS);
	assert_int_equal(moved, INTERVALS);
	check_windows(store, DAYS * DAY);
	check_last(store);
	/* Expiry removes whole days. */
	assert_int_equal(store_usage_expire(store, 10 * DAY), 0);
	for (size_t i = 0; i < count; i++) {
		if (model[i].from < 10 * DAY)
			model[i].from = model[i].to < 10 * DAY ? -1 : 10 * DAY;
	}
	for (size_t i = 0; i < count; i++)
		if (model[i].from < 0)
			model[i--] = model[--count];
	for (int64_t day = 10; day < DAYS; day++) {
		struct store_usage_query q = { .from_ms = day * DAY, .to_ms = NOW, .now_ms = NOW };
		struct sums got = { 0 }, want = expected(&q);

		assert_int_equal(store_usage_sum(store, &q, add, &got), 0);
		assert_int_equal(got.running, want.running);
		assert_int_equal(got.paused, want.paused);
	}
	store_close(store);
}

static int setup(void **state)
{
	(void)state;
	(void)strcpy(dir, "/tmp/cay-usage-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/cay.db", dir);
	return 0;
}

static int teardown(void **state)
{
	static const char *const suffixes[] = { "", "-wal", "-shm" };
	char file[80];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		(void)snprintf(file, sizeof(file), "%s%s", path, suffixes[i]);
		(void)unlink(file);
	}
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(test_model, setup,
									    teardown) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
