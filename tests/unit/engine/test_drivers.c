/* SPDX-License-Identifier: Apache-2.0 */
/* The same checks for every engine that needs no root: the promises of the driver table. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/time.h"
#include "engine/driver.h"
#include "engine/fake/fake.h"
#include "rig.h"

/* The engine of docs/internals/engine.md replaces the others in a separate program. */
#ifdef CAY_ENGINE_EXAMPLE
extern const struct engine_driver engine_example;
static const struct engine_driver *const drivers[] = { &engine_example };
#else
extern const struct engine_driver engine_local;
static const struct engine_driver *const drivers[] = { &engine_fake, &engine_local };
#endif

struct answer {
	int times;
	struct engine_made made;
	struct engine_stat stat;
	struct err err;
	int listed;
	bool seen; /* the id looked for was in the list */
	const char *id;
};

static const struct engine_driver *driver;
static struct engine *engine;
static struct engine_capabilities can;
static int readies;
static struct rig rig;
static char state_dir[] = "/tmp/cay-drivers-XXXXXX";

static struct err take(const struct err *err)
{
	return err ? *err : (struct err){ .code = ERR_OK };
}

static void on_made(void *arg, const struct engine_made *made, const struct err *err)
{
	struct answer *a = arg;

	a->times++;
	a->made = *made;
	a->err = take(err);
}

static void on_dialed(void *arg, const struct channel *channel, const struct err *err)
{
	struct answer *a = arg;

	a->times++;
	a->made = (struct engine_made){ .channel = *channel, .watch_fd = -1 };
	a->err = take(err);
}

static void on_done(void *arg, const struct err *err)
{
	struct answer *a = arg;

	a->times++;
	a->err = take(err);
}

static void on_stat(void *arg, const struct engine_stat *stat, const struct err *err)
{
	struct answer *a = arg;

	a->times++;
	a->stat = *stat;
	a->err = take(err);
}

static void on_each(void *arg, const char *id, const struct err *err)
{
	struct answer *a = arg;

	if (!id) {
		a->times++;
		a->err = take(err);
		return;
	}
	a->listed++;
	a->seen |= strcmp(id, a->id) == 0;
}

static void on_entry(void *arg, const struct engine_snapshot_entry *entry, const struct err *err)
{
	on_each(arg, entry ? entry->id : NULL, err);
}

static void on_snapshot(void *arg, const struct engine_snapshot_info *snapshot,
			const struct err *err)
{
	struct answer *a = arg;

	a->times++;
	a->err = take(err);
}

static void wait_answer(struct answer *a)
{
	int64_t until_us = time_mono_us() + 10000000;

	assert_int_equal(a->times, 0); /* never from inside the call */
	while (!a->times && time_mono_us() < until_us)
		loop_turn(rig.loop, 10);
	loop_turn(rig.loop, 0);
	assert_int_equal(a->times, 1);
}

static void on_ready(void *arg, const struct engine_capabilities *now)
{
	can = *now;
	readies++;
}

/* These engines are never lost. */
static void on_lost(void *arg, const struct err *why)
{
	fail_msg("lost: %s", why->message);
}

static void on_back(void *arg, const struct engine_capabilities *now)
{
	fail_msg("back, but never away");
}

static void open_engine(void)
{
	struct engine_config config = { .loop = rig.loop,
					.state_dir = state_dir,
					.agent_path = getenv("CAY_AGENT"),
					.recipes_fd = -1,
					.on_ready = on_ready,
					.on_lost = on_lost,
					.on_back = on_back };
	int64_t until_us = time_mono_us() + 10000000;
	struct err err;

	readies = 0;
	assert_int_equal(driver->open(&config, &engine, &err), 0);
	assert_int_equal(readies, 0); /* never from inside the call */
	while (!readies && time_mono_us() < until_us)
		loop_turn(rig.loop, 10);
	assert_int_equal(readies, 1);
}

static enum err_code make_from(const char *id, const char *snapshot_id)
{
	struct engine_spec spec = { .limits = { 1, 256, 1024, 100 } };
	struct answer a = { 0 };
	struct err err;

	(void)snprintf(spec.id, sizeof(spec.id), "%s", id);
	(void)snprintf(spec.snapshot_id, sizeof(spec.snapshot_id), "%s", snapshot_id);
	assert_int_equal(driver->create(engine, &spec, on_made, &a, &err), 0);
	wait_answer(&a);
	if (a.err.code) {
		assert_int_equal(a.made.channel.fd, -1);
		return a.err.code;
	}
	rig.listen_fd = a.made.watch_fd; /* kept there for the test */
	rig_adopt(&rig, a.made.channel.fd, 5000);
	assert_true(rig_wait(&rig, &rig.ready, RIG_PATIENCE_MS));
	return ERR_OK;
}

static enum err_code make(const char *id)
{
	return make_from(id, "");
}

static enum err_code attach(const char *id)
{
	struct answer a = { 0 };
	struct err err;

	assert_int_equal(driver->attach(engine, id, on_made, &a, &err), 0);
	wait_answer(&a);
	if (a.err.code)
		return a.err.code;
	rig.listen_fd = a.made.watch_fd;
	rig_adopt(&rig, a.made.channel.fd, 5000);
	assert_true(rig_wait(&rig, &rig.ready, RIG_PATIENCE_MS));
	return ERR_OK;
}

static enum err_code dial(const char *id)
{
	struct answer a = { 0 };
	struct err err;

	assert_int_equal(driver->dial(engine, id, on_dialed, &a, &err), 0);
	wait_answer(&a);
	if (a.err.code) {
		assert_int_equal(a.made.channel.fd, -1);
		return a.err.code;
	}
	rig_adopt(&rig, a.made.channel.fd, 5000);
	assert_true(rig_wait(&rig, &rig.ready, RIG_PATIENCE_MS));
	return ERR_OK;
}

static void drop(void)
{
	rig_drop_link(&rig);
	if (rig.listen_fd >= 0)
		(void)close(rig.listen_fd);
	rig.listen_fd = -1;
}

static enum err_code destroy(const char *id)
{
	struct answer a = { 0 };
	struct err err;

	assert_int_equal(driver->destroy(engine, id, on_done, &a, &err), 0);
	wait_answer(&a);
	return a.err.code;
}

static bool is_listed(const char *id)
{
	struct answer a = { .id = id };
	struct err err;

	assert_int_equal(driver->list(engine, on_each, &a, &err), 0);
	wait_answer(&a);
	return a.seen;
}

static bool snapshot_is_listed(const char *id)
{
	struct answer a = { .id = id };
	struct err err;

	assert_int_equal(driver->snapshot->list(engine, on_entry, &a, &err), 0);
	wait_answer(&a);
	return a.seen;
}

static void echo(void)
{
	const char *const argv[] = { "echo", "one", "two", NULL };
	struct link_exec exec = { .argv = argv, .output_max_bytes = 100 };
	struct rig_result r;

	rig_run(&rig, &exec, &r);
	assert_int_equal(r.result.status.exit_code, 0);
	assert_string_equal(buf_data(&r.out), "one two\n");
	rig_result_done(&r);
}

static bool is_dead(int watch_fd, int timeout_ms)
{
	struct pollfd p = { .fd = watch_fd, .events = POLLIN };

	return poll(&p, 1, timeout_ms) == 1;
}

static void test_life(void **state)
{
	assert_int_equal(make("aaa1"), ERR_OK);
	echo();
	assert_true(is_listed("aaa1"));
	assert_false(is_dead(rig.listen_fd, 0));
	assert_int_equal(destroy("aaa1"), ERR_OK);
	assert_true(is_dead(rig.listen_fd, 2000));
	assert_true(rig_wait(&rig, &rig.gone, RIG_PATIENCE_MS));
	assert_int_equal(rig.why.code, ERR_SANDBOX_GONE);
	assert_false(is_listed("aaa1"));
	drop();
	assert_int_equal(destroy("aaa1"), ERR_OK); /* again: still fine */
	assert_int_equal(destroy("never-was"), ERR_OK);
}

static void test_conflict(void **state)
{
	struct engine_spec spec = { .id = "bbb1" };
	struct answer a = { 0 };
	struct err err;

	assert_int_equal(make("bbb1"), ERR_OK);
	assert_int_equal(driver->create(engine, &spec, on_made, &a, &err), 0);
	wait_answer(&a);
	assert_int_equal(a.err.code, ERR_CONFLICT);
	echo(); /* the first one does not care */
	drop();
	assert_int_equal(destroy("bbb1"), ERR_OK);
}

static void test_attach(void **state)
{
	assert_int_equal(attach("nobody"), ERR_SANDBOX_NOT_FOUND);
	assert_int_equal(make("ccc1"), ERR_OK);
	echo();
	drop();
	assert_int_equal(attach("ccc1"), ERR_OK);
	echo();
	drop();
	assert_int_equal(destroy("ccc1"), ERR_OK);
	assert_int_equal(attach("ccc1"), ERR_SANDBOX_NOT_FOUND);
}

/* The link broke, but the sandbox did not: a second connection replaces it. */
static void test_dial(void **state)
{
	assert_int_equal(dial("nobody"), ERR_SANDBOX_NOT_FOUND);
	assert_int_equal(make("jjj1"), ERR_OK);
	echo();
	rig_drop_link(&rig);
	assert_int_equal(dial("jjj1"), ERR_OK);
	echo();
	assert_false(is_dead(rig.listen_fd, 0)); /* what watches it is the first one's */
	assert_int_equal(destroy("jjj1"), ERR_OK);
	assert_true(is_dead(rig.listen_fd, 2000));
	drop();
}

/* Closed before it was ready: it must not call on_ready afterwards. */
static void test_close_at_once(void **state)
{
	struct engine_config config = { .loop = rig.loop,
					.state_dir = state_dir,
					.agent_path = getenv("CAY_AGENT"),
					.on_ready = on_ready };
	struct engine *other;
	struct err err;

	assert_int_equal(driver->open(&config, &other, &err), 0);
	driver->close(other);
	readies = 0;
	for (int i = 0; i < 5; i++)
		loop_turn(rig.loop, 1);
	assert_int_equal(readies, 0);
}

static void test_stat(void **state)
{
	struct answer a = { 0 }, b = { 0 };
	struct err err;

	assert_int_equal(make("ddd1"), ERR_OK);
	assert_int_equal(driver->stat(engine, "ddd1", on_stat, &a, &err), 0);
	wait_answer(&a);
	assert_int_equal(a.err.code, ERR_OK);
	assert_true(a.stat.alive);
	assert_int_equal(a.stat.pids, 1);
	drop();
	assert_int_equal(destroy("ddd1"), ERR_OK);
	assert_int_equal(driver->stat(engine, "ddd1", on_stat, &b, &err), 0);
	wait_answer(&b);
	assert_int_equal(b.err.code, ERR_SANDBOX_NOT_FOUND);
}

static void test_many(void **state)
{
	char id[16];

	for (int i = 0; i < 20; i++) {
		(void)snprintf(id, sizeof(id), "many%d", i);
		assert_int_equal(make(id), ERR_OK);
		drop();
	}
	for (int i = 0; i < 20; i++) {
		(void)snprintf(id, sizeof(id), "many%d", i);
		assert_true(is_listed(id));
		assert_int_equal(destroy(id), ERR_OK);
		assert_false(is_listed(id));
	}
}

/* The engine is closed and opened again, as by a restarted daemon. */
static void test_survive(void **state)
{
	if (!(can.flags & ENGINE_SURVIVES))
		skip();
	assert_int_equal(make("eee1"), ERR_OK);
	drop();
	driver->close(engine);
	open_engine();
	assert_true(is_listed("eee1"));
	assert_int_equal(attach("eee1"), ERR_OK);
	echo();
	drop();
	driver->close(engine);
	open_engine();
	assert_int_equal(destroy("eee1"), ERR_OK); /* without having attached */
	assert_false(is_listed("eee1"));
	while (waitpid(-1, NULL, WNOHANG) > 0) /* the first engine's child */
		;
}

static enum err_code snapshot(const char *id, const char *snapshot_id)
{
	struct answer a = { 0 };
	struct err err;

	assert_int_equal(driver->snapshot->take(engine, id, snapshot_id, 0, on_snapshot, &a, &err),
			 0);
	wait_answer(&a);
	return a.err.code;
}

static enum err_code snapshot_delete(const char *snapshot_id)
{
	struct answer a = { 0 };
	struct err err;

	assert_int_equal(driver->snapshot->remove(engine, snapshot_id, on_done, &a, &err), 0);
	wait_answer(&a);
	return a.err.code;
}

static void test_snapshot(void **state)
{
	if (!driver->snapshot)
		skip();
	assert_false(snapshot_is_listed("s1"));
	assert_int_equal(snapshot("nobody", "s1"), ERR_SANDBOX_NOT_FOUND);
	assert_int_equal(make("hhh1"), ERR_OK);
	assert_int_equal(snapshot("hhh1", "s1"), ERR_OK);
	assert_int_equal(snapshot("hhh1", "s1"), ERR_CONFLICT);
	drop();
	assert_int_equal(destroy("hhh1"), ERR_OK);
	driver->close(engine); /* a snapshot outlives its sandbox and the daemon */
	open_engine();
	assert_true(snapshot_is_listed("s1"));
	assert_false(is_listed("s1"));
	assert_int_equal(make_from("hhh2", "s2"), ERR_SNAPSHOT_NOT_FOUND);
	assert_int_equal(make_from("hhh2", "s1"), ERR_OK);
	assert_int_equal(snapshot_delete("s1"), ERR_OK);
	assert_int_equal(snapshot_delete("s1"), ERR_OK);
	assert_false(snapshot_is_listed("s1"));
	echo(); /* what was made from it does not care */
	drop();
	assert_int_equal(destroy("hhh2"), ERR_OK);
}

/* No process that a command left behind outlives the sandbox, whatever it did to hide. */
static void test_no_leftovers(void **state)
{
	struct rig_result r;

	if (driver == &engine_fake)
		skip();
	assert_int_equal(make("fff1"), ERR_OK);
	rig_sh(&rig,
	       "setsid -f sleep 876543; (setsid sleep 876543 &); nohup sleep 876543 "
	       ">/dev/null 2>&1 & sleep 0.05; pgrep -cf '^sleep 876543'",
	       &r);
	assert_string_equal(buf_data(&r.out), "3\n");
	rig_result_done(&r);
	drop();
	assert_int_equal(destroy("fff1"), ERR_OK);
	assert_int_not_equal(system("pgrep -f '^sleep 876543' > /dev/null"), 0);
}

static void test_bad_ids(void **state)
{
	static const char *const ids[] = { "..", "a/b", "", "-x", ".hidden" };
	struct answer a = { 0 };
	struct err err;

	if (strcmp(driver->name, "local") != 0) /* the others do not build paths from ids */
		skip();
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		assert_int_equal(driver->destroy(engine, ids[i], on_done, &a, &err), -1);
		assert_int_equal(driver->attach(engine, ids[i], on_made, &a, &err), -1);
	}
}

static void test_script(void **state)
{
	struct answer a = { 0 }, b = { 0 };
	struct err err;

	if (driver != &engine_fake)
		skip();
	assert_ptr_equal(fake_opened(), engine);
	fake_fail_next(engine, FAKE_CREATE, ERR_BOOT_FAILED);
	assert_int_equal(make("ggg1"), ERR_BOOT_FAILED);
	assert_int_equal(make("ggg1"), ERR_OK);
	assert_int_equal(fake_calls(engine, FAKE_CREATE), 2);
	assert_int_equal(fake_live(engine), 1);
	fake_hold(engine, FAKE_STAT);
	assert_int_equal(driver->stat(engine, "ggg1", on_stat, &a, &err), 0);
	for (int i = 0; i < 5; i++)
		loop_turn(rig.loop, 0);
	assert_int_equal(a.times, 0);
	assert_int_equal(fake_waiting(engine, FAKE_STAT), 1);
	fake_release(engine, FAKE_STAT);
	wait_answer(&a);
	fake_die(engine, "ggg1", true);
	assert_true(is_dead(rig.listen_fd, 0));
	assert_true(rig_wait(&rig, &rig.gone, RIG_PATIENCE_MS));
	assert_int_equal(driver->stat(engine, "ggg1", on_stat, &b, &err), 0);
	wait_answer(&b);
	assert_false(b.stat.alive);
	assert_true(b.stat.oom_killed);
	drop();
	assert_int_equal(attach("ggg1"), ERR_SANDBOX_GONE);
}

static void check_fake(const char *script, enum link_end end, int exit_code, const char *out)
{
	struct rig_result r;

	rig_sh(&rig, script, &r);
	assert_int_equal(r.result.status.end, end);
	assert_int_equal(r.result.status.exit_code, exit_code);
	assert_string_equal(buf_data(&r.out), out);
	rig_result_done(&r);
}

static void test_fake_programs(void **state)
{
	const char *const sleeper[] = { "sleep", "5000", NULL };
	struct link_exec exec = { .argv = sleeper, .timeout_ms = 20 };
	struct rig_result r;

	if (driver != &engine_fake)
		skip();
	assert_int_equal(make("hhh1"), ERR_OK);
	check_fake("exit 7", LINK_END_EXIT, 7, "");
	check_fake("sleep 5", LINK_END_EXIT, 0, "");
	check_fake("pwd", LINK_END_EXIT, 0, "/tmp\n");
	check_fake("spew 5", LINK_END_EXIT, 0, "xxxxx");
	check_fake("nonsense", LINK_END_REFUSED, 127, "");
	rig_run(&rig, &exec, &r);
	assert_int_equal(r.result.status.end, LINK_END_TIMEOUT);
	rig_result_done(&r);
	check_fake("crash", LINK_END_GONE, -1, "");
	assert_int_equal(fake_live(engine), 0);
	drop();
	assert_int_equal(make("hhh2"), ERR_OK);
	check_fake("garbage", LINK_END_GONE, -1, "");
	assert_int_equal(rig.why.code, ERR_ENGINE_FAILED);
	drop();
}

static int setup(void **state)
{
	rig_init(&rig);
	open_engine();
	return 0;
}

static int teardown(void **state)
{
	driver->close(engine);
	rig_done(&rig);
	return 0;
}

static const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	T(test_life),	       T(test_conflict),      T(test_attach),	    T(test_stat),
	T(test_many),	       T(test_survive),	      T(test_no_leftovers), T(test_bad_ids),
	T(test_script),	       T(test_fake_programs), T(test_snapshot),	    T(test_dial),
	T(test_close_at_once),
#undef T
};

int main(void)
{
	int failed = 0;

	if (!mkdtemp(state_dir))
		return 1;
	for (size_t i = 0; i < ARRAY_LEN(drivers); i++) {
		driver = drivers[i];
		failed += cmocka_run_group_tests_name(driver->name, tests, NULL, NULL);
		/* The directory below the state directory must be empty. */
		if (chdir(state_dir) < 0 || (driver != &engine_fake && rmdir(driver->name) < 0))
			failed++;
	}
	(void)rmdir(state_dir);
	return failed;
}
