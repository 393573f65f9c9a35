/* SPDX-License-Identifier: Apache-2.0 */
/* Pausing, resuming and copying: one change of a sandbox at a time, and what is left after each
 * failure. */
#include "../home.h"

#include "service/copy/snapshot_internal.h"
#include "service/copy/transition_internal.h"
#include "service/sandbox/sandbox_internal.h"

struct change {
	int done;
	enum err_code code;
	char snapshot[SNAPSHOT_ID_MAX + 1];
};

static void on_changed(void *arg, struct sandbox *sandbox, const struct err *err)
{
	struct change *change = arg;

	(void)sandbox;
	change->done++;
	change->code = err ? err->code : ERR_OK;
}

static void on_snapshot(void *arg, const struct snapshot *snapshot, const struct err *err)
{
	struct change *change = arg;

	change->done++;
	change->code = err ? err->code : ERR_OK;
	if (snapshot)
		(void)snprintf(change->snapshot, sizeof(change->snapshot), "%s", snapshot->id);
}

static enum err_code pause_it(struct sandbox *sandbox, enum pause_kind kind)
{
	struct change change = { 0 };
	struct err err;
	int r = sandbox_pause(sandbox, kind, on_changed, &change, &err);

	if (r != 0)
		return r < 0 ? err.code : ERR_OK;
	HOME_UNTIL(change.done);
	return change.code;
}

static enum err_code resume_it(struct sandbox *sandbox)
{
	struct change change = { 0 };
	struct err err;
	int r = sandbox_resume(sandbox, 0, on_changed, &change, &err);

	if (r != 0)
		return r < 0 ? err.code : ERR_OK;
	HOME_UNTIL(change.done);
	return change.code;
}

static enum err_code snapshot_it(struct sandbox *sandbox, struct key *key,
				 char id[SNAPSHOT_ID_MAX + 1])
{
	const struct snapshot_spec spec = { .comment = STR_LIT("c"), .kind = SNAPSHOT_USER };
	struct change change = { 0 };
	struct err err;

	if (sandbox_snapshot(sandbox, key, &spec, on_snapshot, &change, &err) < 0)
		return err.code;
	HOME_UNTIL(change.done);
	memcpy(id, change.snapshot, sizeof(change.snapshot));
	return change.code;
}

static void a_paused_sandbox_is_paused_again_without_a_change(void **state)
{
	struct sandbox *sandbox = home_sandbox(home.admin, "one");

	(void)state;
	assert_int_equal(pause_it(sandbox, PAUSE_FREEZE), ERR_OK);
	assert_int_equal(sandbox_state(sandbox), SANDBOX_PAUSED);
	assert_true(fake_paused(fake_opened(), sandbox_id(sandbox)));
	assert_int_equal(pause_it(sandbox, PAUSE_FREEZE), ERR_OK);
	assert_int_equal(fake_calls(fake_opened(), FAKE_PAUSE), 1);
	assert_int_equal(resume_it(sandbox), ERR_OK);
	assert_int_equal(sandbox_state(sandbox), SANDBOX_RUNNING);
	assert_false(fake_paused(fake_opened(), sandbox_id(sandbox)));
	assert_int_equal(resume_it(sandbox), ERR_OK);
	assert_int_equal(fake_calls(fake_opened(), FAKE_PAUSE), 2);
}

static void a_pause_that_fails_leaves_it_running(void **state)
{
	struct sandbox *sandbox = home_sandbox(home.admin, "one");

	(void)state;
	fake_fail_next(fake_opened(), FAKE_PAUSE, ERR_ENGINE_FAILED);
	assert_int_not_equal(pause_it(sandbox, PAUSE_FREEZE), ERR_OK);
	assert_int_equal(sandbox_state(sandbox), SANDBOX_RUNNING);
	assert_int_equal(pause_it(sandbox, PAUSE_FREEZE), ERR_OK); /* and it can be tried again */
}

static void only_one_change_at_a_time(void **state)
{
	struct sandbox *sandbox = home_sandbox(home.admin, "one");
	struct engine *engine = fake_opened();
	char id[SNAPSHOT_ID_MAX + 1] = "";
	struct change change = { 0 };
	struct err err = { .code = ERR_OK };

	(void)state;
	fake_hold(engine, FAKE_PAUSE);
	assert_int_equal(sandbox_pause(sandbox, PAUSE_FREEZE, on_changed, &change, &err), 0);
	HOME_UNTIL(fake_waiting(engine, FAKE_PAUSE));
	assert_int_equal(transition_check(sandbox, &err), -1);
	assert_int_equal(sandbox_resume(sandbox, 0, on_changed, &change, &err), -1);
	assert_int_not_equal(snapshot_it(sandbox, home.admin, id), ERR_OK);
	assert_int_equal(change.done, 0);
	fake_release(engine, FAKE_PAUSE);
	HOME_UNTIL(change.done);
	assert_int_equal(change.done, 1);
	assert_int_equal(transition_check(sandbox, &err), 0);
}

static void a_snapshot_outlives_its_sandbox_and_a_restart(void **state)
{
	struct key *mine = home_key("mine", AUTH_SANDBOXES_WRITE | AUTH_SANDBOXES_READ);
	struct key *other = home_key("other", AUTH_SANDBOXES_WRITE);
	struct sandbox *sandbox = home_sandbox(mine, "one");
	char id[SNAPSHOT_ID_MAX + 1] = "", owner[AUTH_KEY_ID_SIZE];
	int64_t cursor = INT64_MAX;
	struct snapshot *snapshot;
	struct err err = { .code = ERR_OK };

	(void)state;
	memcpy(owner, mine->id, sizeof(owner));
	assert_int_equal(snapshot_it(sandbox, mine, id), ERR_OK);
	assert_int_equal(mine->held[QUOTA_SNAPSHOTS], 1);
	assert_int_equal(sandbox_destroy(sandbox, REASON_REQUESTED, &err), 0);
	assert_null(
		snapshot_find(home.service, other, str_of(id), &err)); /* others' are as absent */
	assert_int_equal(err.code, ERR_SNAPSHOT_NOT_FOUND);
	home_reopen();
	mine = (struct key *)(uintptr_t)auth_by_id(home.service, owner);
	snapshot = snapshot_find(home.service, mine, str_of(id), &err);
	assert_non_null(snapshot);
	assert_string_equal(snapshot->comment, "c");
	assert_int_equal(snapshot_check_usable(snapshot, &err), 0);
	assert_ptr_equal(snapshot_list_next(home.service, mine, "", &cursor), snapshot);
	assert_null(snapshot_list_next(home.service, mine, "", &cursor));
	snapshot_remove(snapshot);
	assert_null(snapshot_find(home.service, mine, str_of(id), &err)); /* at once */
	HOME_UNTIL(fake_snapshots(fake_opened()) == 0);
	assert_int_equal(mine->held[QUOTA_SNAPSHOTS], 0);
}

static void a_snapshot_that_fails_leaves_nothing(void **state)
{
	struct sandbox *sandbox = home_sandbox(home.admin, "one");
	char id[SNAPSHOT_ID_MAX + 1] = "";
	int64_t cursor = INT64_MAX;

	(void)state;
	fake_fail_next(fake_opened(), FAKE_SNAPSHOT, ERR_CAPACITY_EXCEEDED);
	assert_int_equal(snapshot_it(sandbox, home.admin, id), ERR_CAPACITY_EXCEEDED);
	assert_null(snapshot_list_next(home.service, home.admin, "", &cursor));
	assert_int_equal(fake_snapshots(fake_opened()), 0);
	assert_int_equal(home.admin->held[QUOTA_SNAPSHOTS], 0);
	assert_int_equal(sandbox_state(sandbox), SANDBOX_RUNNING);
	assert_int_equal(snapshot_it(sandbox, home.admin, id), ERR_OK);
}

static void memory_needs_the_size_it_had(void **state)
{
	struct snapshot snapshot = { .memory = true, .memory_mb = 512 };
	struct err err = { .code = ERR_OK };

	(void)state;
	assert_int_equal(snapshot_check_room(&snapshot, 512, &err), 0);
	assert_int_equal(snapshot_check_room(&snapshot, 511, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	snapshot.memory = false;
	assert_int_equal(snapshot_check_room(&snapshot, 1, &err), 0);
}

static void a_hibernated_sandbox_runs_nowhere_and_comes_back(void **state)
{
	struct sandbox *sandbox = home_sandbox(home.admin, "one");

	(void)state;
	assert_int_equal(pause_it(sandbox, PAUSE_HIBERNATE), ERR_OK);
	HOME_UNTIL(fake_live(fake_opened()) == 0);
	assert_int_equal(fake_snapshots(fake_opened()), 1);
	assert_int_equal(resume_it(sandbox), ERR_OK);
	assert_int_equal(sandbox_state(sandbox), SANDBOX_RUNNING);
	assert_int_equal(fake_live(fake_opened()), 1);
	assert_string_not_equal(fake_origin(fake_opened(), sandbox_id(sandbox)), "");
	HOME_UNTIL(fake_snapshots(fake_opened()) == 0); /* its files are the sandbox's again */
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, home_setup, home_teardown)
	const struct CMUnitTest tests[] = {
		T(a_paused_sandbox_is_paused_again_without_a_change),
		T(a_pause_that_fails_leaves_it_running),
		T(only_one_change_at_a_time),
		T(a_snapshot_outlives_its_sandbox_and_a_restart),
		T(a_snapshot_that_fails_leaves_nothing),
		cmocka_unit_test(memory_needs_the_size_it_had),
		T(a_hibernated_sandbox_runs_nowhere_and_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
