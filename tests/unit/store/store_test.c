/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/time.h"
#include "store/store.h"

struct place {
	char dir[64];
	char db[96];
};

static int setup(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	(void)snprintf(place->dir, sizeof(place->dir), "/tmp/cay-store-XXXXXX");
	assert_non_null(mkdtemp(place->dir));
	(void)snprintf(place->db, sizeof(place->db), "%s/cay.db", place->dir);
	*state = place;
	return 0;
}

static int teardown(void **state)
{
	struct place *place = *state;
	static const char *const suffixes[] = { "", "-wal", "-shm" };
	char path[128];

	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", place->db, suffixes[i]);
		(void)unlink(path);
	}
	assert_int_equal(rmdir(place->dir), 0);
	free(place);
	return 0;
}

static struct store_sandbox sample(int64_t row)
{
	return (struct store_sandbox){ .row = row,
				       .seq = row * 10,
				       .id = "abcdefghij0123456789",
				       .owner = "key1",
				       .state = "running",
				       .engine = "fake",
				       .template_name = "base",
				       .template_hash = "00",
				       .env = { "A=1\0B=2\0", 8 },
				       .cpu_milli = 1000,
				       .memory_mb = 1024,
				       .disk_size_mb = 3072,
				       .timeout_sec = 300,
				       .created_ms = 5 };
}

struct seen {
	int count;
	int64_t last_row;
	char state[32];
	char reason[32];
	size_t env_bytes;
};

static int on_row(void *arg, const struct store_sandbox *row)
{
	struct seen *seen = arg;

	seen->count++;
	seen->last_row = row->row;
	seen->env_bytes = row->env.n;
	assert_int_equal(str_copy(seen->state, sizeof(seen->state), str_of(row->state)), 0);
	assert_int_equal(str_copy(seen->reason, sizeof(seen->reason), str_of(row->reason)), 0);
	return 0;
}

static int on_intent(void *arg, int64_t row, enum store_intent kind)
{
	struct seen *seen = arg;

	seen->count++;
	seen->last_row = row * 100 + kind;
	return 0;
}

static void test_rows_and_intents(void **state)
{
	struct place *place = *state;
	struct store *store = NULL;
	struct store_sandbox row = sample(7);
	struct seen seen = { 0 };
	struct stat st;

	assert_int_equal(store_open(place->db, &store), 0);
	assert_int_equal(stat(place->db, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(store_begin(store), 0);
	assert_int_equal(store_sandbox_put(store, &row), 0);
	assert_int_equal(store_intent_put(store, 7, STORE_INTENT_CREATE, 1), 0);
	assert_int_equal(store_end(store, 0), 0);
	assert_int_equal(store_sandbox_each(store, on_row, &seen), 0);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.env_bytes, 8);
	assert_int_equal(store_sandbox_set_state(store, 7, "error", "oom", NULL), 0);
	seen.count = 0;
	assert_int_equal(store_sandbox_each(store, on_row, &seen), 0);
	assert_string_equal(seen.state, "error");
	assert_string_equal(seen.reason, "oom");
	seen.count = 0;
	assert_int_equal(store_intent_put(store, 7, STORE_INTENT_DESTROY, 1), 0);
	assert_int_equal(store_intent_each(store, on_intent, &seen), 0);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.last_row, 702);

	/* A rolled back transaction leaves nothing. */
	row.row = 8;
	assert_int_equal(store_begin(store), 0);
	assert_int_equal(store_sandbox_put(store, &row), 0);
	assert_int_equal(store_end(store, -EIO), -EIO);
	seen.count = 0;
	assert_int_equal(store_sandbox_each(store, on_row, &seen), 0);
	assert_int_equal(seen.count, 1);
	assert_int_equal(store_sandbox_delete(store, 7), 0);
	assert_int_equal(store_intent_delete(store, 7), 0);
	seen.count = 0;
	assert_int_equal(store_sandbox_each(store, on_row, &seen), 0);
	assert_int_equal(seen.count, 0);
	store_close(store);
}

static int on_key(void *arg, const struct store_key *key)
{
	struct seen *seen = arg;

	seen->count++;
	seen->last_row = key->scopes;
	assert_int_equal(key->hash[0], 0xab);
	return 0;
}

static void test_keys(void **state)
{
	struct place *place = *state;
	struct store *store = NULL;
	struct store_key key = { .id = "k1", .name = "n", .hash = { 0xab }, .scopes = 5 };
	struct seen seen = { 0 };

	assert_int_equal(store_open(place->db, &store), 0);
	assert_int_equal(store_begin_durable(store), 0);
	assert_int_equal(store_key_put(store, &key), 0);
	assert_int_equal(store_commit(store), 0);
	key.id = "k2"; /* the same secret twice is refused */
	assert_int_equal(store_key_put(store, &key), -EEXIST);
	store_close(store);
	assert_int_equal(store_open(place->db, &store), 0);
	assert_int_equal(store_key_each(store, on_key, &seen), 0);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.last_row, 5);
	assert_int_equal(store_key_delete(store, "k1"), 0);
	seen.count = 0;
	assert_int_equal(store_key_each(store, on_key, &seen), 0);
	assert_int_equal(seen.count, 0);
	store_close(store);
}

static void test_idempotency_and_meta(void **state)
{
	struct place *place = *state;
	struct store *store = NULL;
	struct store_idempotency entry;
	const uint8_t hash[STORE_BODY_HASH_SIZE] = { 1, 2, 3 };
	char value[16];

	assert_int_equal(store_open(place->db, &store), 0);
	assert_int_equal(store_idempotency_get(store, "k", STR_LIT("a"), &entry), 0);
	assert_int_equal(store_idempotency_put(store, "k", STR_LIT("a"), hash, "sb", NULL, 100), 0);
	assert_int_equal(store_idempotency_get(store, "k", STR_LIT("a"), &entry), 1);
	assert_int_equal(entry.status, 0);
	assert_string_equal(entry.sandbox_id, "sb");
	assert_null(entry.body);
	assert_int_equal(
		store_idempotency_finish(store, "k", STR_LIT("a"), 201, STR_LIT("{}"), true), 0);
	assert_int_equal(store_idempotency_get(store, "k", STR_LIT("a"), &entry), 1);
	assert_int_equal(entry.status, 201);
	assert_int_equal(entry.body_bytes, 2);
	assert_true(entry.sealed);
	assert_memory_equal(entry.body_hash, hash, sizeof(hash));
	free(entry.body);
	assert_int_equal(store_idempotency_get(store, "other", STR_LIT("a"), &entry), 0);
	assert_int_equal(store_idempotency_expire(store, 100), 0);
	assert_int_equal(store_idempotency_get(store, "k", STR_LIT("a"), &entry), 1);
	free(entry.body);
	assert_int_equal(store_idempotency_expire(store, 101), 0);
	assert_int_equal(store_idempotency_get(store, "k", STR_LIT("a"), &entry), 0);
	assert_int_equal(store_meta_get(store, "x", value, sizeof(value)), 0);
	assert_int_equal(store_meta_put(store, "x", "y"), 0);
	assert_int_equal(store_meta_get(store, "x", value, sizeof(value)), 1);
	assert_string_equal(value, "y");
	store_close(store);
}

static bool has_meta(struct store *store, const char *name)
{
	char value[16];

	return store_meta_get(store, name, value, sizeof(value)) == 1;
}

/* A nested transaction is part of the outer one. */
static void test_one_inside_another(void **state)
{
	struct place *place = *state;
	struct store *store = NULL;

	assert_int_equal(store_open(place->db, &store), 0);
	for (int round = 0; round < 3; round++) {
		const char *outer = (const char *[]){ "a", "b", "c" }[round];
		const char *inner = (const char *[]){ "d", "e", "f" }[round];

		assert_int_equal(store_begin_durable(store), 0);
		assert_int_equal(store_meta_put(store, outer, "1"), 0);
		assert_int_equal(round % 2 ? store_begin(store) : store_begin_durable(store), 0);
		assert_int_equal(store_meta_put(store, inner, "1"), 0);
		if (round == 1) /* the inner one is rolled back */
			store_rollback(store);
		else
			assert_int_equal(store_commit(store), 0);
		if (round == 2) /* the outer one is */
			store_rollback(store);
		else
			assert_int_equal(store_commit(store), round == 1 ? -ECANCELED : 0);
		assert_int_equal(has_meta(store, outer), round == 0);
		assert_int_equal(has_meta(store, inner), round == 0);
	}
	store_close(store);
}

static void test_migration(void **state)
{
	struct place *place = *state;
	struct store *store = NULL;
	sqlite3 *db = NULL;

	/* An empty database is initialized; opening it again changes nothing. */
	assert_int_equal(store_open(place->db, &store), 0);
	store_close(store);
	assert_int_equal(store_open(place->db, &store), 0);
	store_close(store);
	/* A newer one is refused and not changed. */
	assert_int_equal(sqlite3_open(place->db, &db), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(db, "INSERT INTO migrations VALUES(9999,'then')", NULL, NULL, NULL),
		SQLITE_OK);
	(void)sqlite3_close(db);
	assert_int_equal(store_open(place->db, &store), -ENOTSUP);
}

static void test_damage_is_refused(void **state)
{
	struct place *place = *state;
	struct store *store = NULL;
	FILE *file = fopen(place->db, "w");

	for (int i = 0; i < 1000; i++)
		(void)fputs("not a database ", file);
	(void)fclose(file);
	assert_int_equal(store_open(place->db, &store), -EUCLEAN);
}

/* A commit that returned survives kill -9; an open transaction does not. */
static void test_kill(void **state)
{
	struct place *place = *state;
	struct store *store = NULL;
	struct seen seen = { 0 };
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct store_sandbox row = sample(1);

		if (store_open(place->db, &store) < 0)
			_exit(1);
		for (int i = 1; i <= 100; i++) {
			row.row = i;
			if (store_sandbox_put(store, &row) < 0)
				_exit(1);
		}
		row.row = 101;
		if (store_begin(store) < 0 || store_sandbox_put(store, &row) < 0)
			_exit(1);
		(void)kill(getpid(), SIGKILL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(store_open(place->db, &store), 0);
	assert_int_equal(store_sandbox_each(store, on_row, &seen), 0);
	assert_int_equal(seen.count, 100);
	store_close(store);
}

static void test_checkpoint_and_speed(void **state)
{
	struct place *place = *state;
	struct store *store = NULL;
	struct store_sandbox row = sample(1);
	int64_t start_us, wal_us = 0;
	struct stat st;
	char wal[128];
	int checkpoints = 0;

	assert_int_equal(store_open(place->db, &store), 0);
	start_us = time_mono_us();
	for (int i = 1; i <= 10000; i++) {
		row.row = 1 + i % 200;
		assert_int_equal(store_sandbox_put(store, &row), 0);
		if (store_wants_checkpoint(store)) {
			int64_t t = time_mono_us();

			assert_int_equal(store_checkpoint(store), 0);
			store_checkpoint_tail(store);
			wal_us += time_mono_us() - t;
			checkpoints++;
		}
	}
	print_message("insert+commit: %.1f us; %d checkpoints of %.0f us\n",
		      (double)(time_mono_us() - start_us - wal_us) / 10000, checkpoints,
		      checkpoints ? (double)wal_us / checkpoints : 0.0);
	assert_true(checkpoints > 0);
	(void)snprintf(wal, sizeof(wal), "%s-wal", place->db);
	assert_int_equal(stat(wal, &st), 0);
	assert_true(st.st_size < 16 << 20);
	store_close(store);
}

struct told {
	int64_t ids[8];
	size_t count, stop_at;
	char data[64];
};

static int on_event(void *arg, const struct store_event *event)
{
	struct told *told = arg;

	assert_true(told->count < ARRAY_LEN(told->ids));
	told->ids[told->count++] = event->id;
	assert_string_equal(event->owner, "key1");
	assert_int_equal(str_copy(told->data, sizeof(told->data), event->data), 0);
	return told->count == told->stop_at ? 1 : 0;
}

static void test_events(void **state)
{
	struct place *place = *state;
	struct store_event event = { .type = "sandbox.running",
				     .sandbox_id = "abc",
				     .owner = "key1",
				     .tenant = "t1",
				     .data = STR_LIT("{\"a\":1}") };
	int64_t first = 1, last = 1, count = 1, id = 1;
	struct told told = { .count = 0 };
	struct store *store = NULL;

	assert_int_equal(store_open(place->db, &store), 0);
	assert_int_equal(store_event_range(store, &first, &last, &count), 0);
	assert_true(first == 0 && last == 0 && count == 0);
	assert_int_equal(store_event_nth(store, "t1", 1, &id), 0);
	assert_int_equal(id, 0);
	for (event.id = 3; event.id <= 9; event.id += 2) {
		event.ms = event.id * 100;
		assert_int_equal(store_event_put(store, &event), 0);
	}
	event.id = 5;
	assert_int_equal(store_event_put(store, &event), -EEXIST); /* no id twice */
	store_close(store);

	assert_int_equal(store_open(place->db, &store), 0);
	assert_int_equal(store_event_range(store, &first, &last, &count), 0);
	assert_true(first == 3 && last == 9 && count == 4);
	assert_int_equal(store_event_each(store, 3, 2, on_event, &told), 0);
	assert_true(told.count == 2 && told.ids[0] == 5 && told.ids[1] == 7);
	assert_string_equal(told.data, "{\"a\":1}");
	told = (struct told){ .stop_at = 1 };
	assert_int_equal(store_event_each(store, 0, 100, on_event, &told), 1);
	assert_int_equal(told.count, 1);
	assert_int_equal(store_event_of(store, "abc", NULL), 1);
	assert_int_equal(store_event_of(store, "abc", "key1"), 1);
	assert_int_equal(store_event_of(store, "abc", "key2"), 0);
	assert_int_equal(store_event_of(store, "abd", NULL), 0);
	assert_int_equal(store_event_nth(store, "t1", 2, &id), 0);
	assert_int_equal(id, 5);
	assert_int_equal(store_event_nth(store, "t2", 1, &id), 0);
	assert_int_equal(id, 0);
	assert_int_equal(store_event_older(store, 700, 100, &id), 0);
	assert_int_equal(id, 5);
	assert_int_equal(store_event_older(store, 700, 1, &id), 0);
	assert_int_equal(id, 3);
	assert_int_equal(store_event_older(store, 300, 100, &id), 0);
	assert_int_equal(id, 0);
	assert_int_equal(store_event_trim(store, NULL, 5), 0);
	assert_int_equal(store_event_range(store, &first, &last, &count), 0);
	assert_true(first == 7 && last == 9 && count == 2);
	store_close(store);
}

static int on_share(void *arg, const char *tenant, int64_t count)
{
	char *text = arg;

	(void)sprintf(text + strlen(text), "%s %lld,", tenant, (long long)count);
	return 0;
}

/* Events of one tenant are deleted, and how far is remembered until all are that old. */
static void test_event_shares(void **state)
{
	struct place *place = *state;
	struct store_event event = { .type = "x", .sandbox_id = "abc", .data = STR_LIT("{}") };
	struct store *store = NULL;
	char text[64] = "";
	int64_t id = 1;

	assert_int_equal(store_open(place->db, &store), 0);
	for (event.id = 1; event.id <= 9; event.id++) {
		event.tenant = event.owner = event.id % 3 ? "loud" : "quiet";
		assert_int_equal(store_event_put(store, &event), 0);
	}
	assert_int_equal(store_event_nth(store, "loud", 4, &id), 0);
	assert_int_equal(id, 5);
	assert_int_equal(store_event_trimmed(store, "loud", &id), 0);
	assert_int_equal(id, 0);
	assert_int_equal(store_event_trim(store, "loud", 5), 0);
	store_close(store);
	assert_int_equal(store_open(place->db, &store), 0);
	assert_int_equal(store_event_shares(store, on_share, text), 0);
	assert_string_equal(text, "loud 2,quiet 3,");
	assert_int_equal(store_event_trimmed(store, "loud", &id), 0);
	assert_int_equal(id, 5);
	assert_int_equal(store_event_trimmed(store, "quiet", &id), 0);
	assert_int_equal(id, 0);
	assert_int_equal(store_event_trimmed(store, NULL, &id), 0);
	assert_int_equal(id, 5);
	assert_int_equal(store_event_trim(store, NULL, 5), 0);
	assert_int_equal(store_event_trimmed(store, "loud", &id), 0);
	assert_int_equal(id, 0);
	store_close(store);
}

static int on_sum(void *arg, const struct store_usage_sum *sum)
{
	struct store_usage_sum *sums = arg;

	for (int i = 0; i < 4; i++) {
		if (sums[i].sandboxes)
			continue;
		sums[i] = *sum;
		sums[i].owner = sums[i].external_workspace_id = NULL; /* of this call only */
		return 0;
	}
	return -ENOSPC;
}

static int on_usage(void *arg, const struct store_usage *usage)
{
	assert_int_equal(usage->to_ms, 0);
	*(int64_t *)arg += usage->from_ms;
	return 0;
}

static void test_usage(void **state)
{
	struct place *place = *state;
	struct store_usage usage = { .sandbox_id = "a",
				     .owner = "key1",
				     .kind = STORE_USAGE_RUNNING,
				     .from_ms = 1000,
				     .cpu_milli = 2500,
				     .memory_mb = 512 };
	struct store_usage_query query = { .from_ms = 0, .to_ms = 100000, .now_ms = 9000 };
	struct store_usage_sum sums[4] = { { .sandboxes = 0 } };
	struct store *store = NULL;
	int64_t open = 0, last = 0;

	assert_int_equal(store_open(place->db, &store), 0);
	assert_int_equal(store_usage_put(store, &usage), 0);
	usage.to_ms = 3000;
	assert_int_equal(store_usage_put(store, &usage), 0); /* the same, ended */
	assert_int_equal(store_usage_put(store, &usage), 0); /* and recorded twice */
	usage = (struct store_usage){ .sandbox_id = "a",
				      .owner = "key1",
				      .kind = STORE_USAGE_PAUSED,
				      .from_ms = 3000,
				      .to_ms = 7000,
				      .disk_bytes = 100 };
	assert_int_equal(store_usage_put(store, &usage), 0);
	usage = (struct store_usage){ .sandbox_id = "b",
				      .owner = "key1",
				      .external_workspace_id = "w",
				      .kind = STORE_USAGE_RUNNING,
				      .from_ms = 4000,
				      .cpu_milli = 1000,
				      .memory_mb = 1024 };
	assert_int_equal(store_usage_put(store, &usage), 0);
	assert_int_equal(store_usage_sum(store, &query, on_sum, sums), 0);
	assert_true(sums[0].running_ms == 2000 && sums[0].paused_ms == 4000);
	assert_true((int64_t)sums[0].vcpu_ms == 5000 &&
		    (int64_t)sums[0].memory_mb_ms == 2000 * 512 &&
		    (int64_t)sums[0].storage_byte_ms == 400000);
	assert_true(sums[1].running_ms == 5000 && sums[1].sandboxes == 1);
	/* Cut by the window. */
	memset(sums, 0, sizeof(sums));
	query = (struct store_usage_query){ .from_ms = 2500, .to_ms = 4500, .now_ms = 9000 };
	assert_int_equal(store_usage_sum(store, &query, on_sum, sums), 0);
	assert_true(sums[0].running_ms == 500 && sums[0].paused_ms == 1500);
	assert_true(sums[1].running_ms == 500);
	memset(sums, 0, sizeof(sums));
	query.sandbox_id = "b";
	assert_int_equal(store_usage_sum(store, &query, on_sum, sums), 0);
	assert_true(sums[0].running_ms == 500 && sums[1].sandboxes == 0);
	assert_int_equal(store_usage_each_open(store, on_usage, &open), 0);
	assert_int_equal(open, 4000);
	assert_int_equal(store_usage_close(store, "b", 3500), 0); /* not before it began */
	assert_int_equal(store_usage_last(store, "b", &last), 0);
	assert_int_equal(last, 4000);
	assert_int_equal(store_usage_last(store, "none", &last), 0);
	assert_int_equal(last, 0);
	assert_int_equal(store_usage_expire(store, 5000), 0);
	memset(sums, 0, sizeof(sums));
	query = (struct store_usage_query){ .to_ms = 100000, .now_ms = 9000 };
	assert_int_equal(store_usage_sum(store, &query, on_sum, sums), 0);
	assert_true(sums[0].running_ms == 0 && sums[0].paused_ms == 4000);
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rows_and_intents, setup, teardown),
		cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(test_idempotency_and_meta, setup, teardown),
		cmocka_unit_test_setup_teardown(test_events, setup, teardown),
		cmocka_unit_test_setup_teardown(test_event_shares, setup, teardown),
		cmocka_unit_test_setup_teardown(test_usage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_inside_another, setup, teardown),
		cmocka_unit_test_setup_teardown(test_migration, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damage_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(test_checkpoint_and_speed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
