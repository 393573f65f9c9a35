/* SPDX-License-Identifier: Apache-2.0 */
/* The one place that decides what an engine cannot do, and the rows of the registry. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "engine/instance.h"
#include "engine/registry.h"

static int calls;

static int count_freeze(struct engine *engine, const char *id, bool frozen, engine_done_fn done,
			void *arg, struct err *err)
{
	calls++;
	return 0;
}

static int count_remove(struct engine *engine, const char *id, engine_done_fn done, void *arg,
			struct err *err)
{
	calls++;
	return 0;
}

static int count_take(struct engine *engine, const char *id, const char *snapshot_id,
		      unsigned flags, engine_snapshot_fn done, void *arg, struct err *err)
{
	calls++;
	return 0;
}

static const struct engine_freeze freeze = { .set = count_freeze };
static const struct engine_snapshot snapshot = { .take = count_take, .remove = count_remove };
static const struct engine_resize resize;
static const struct engine_driver core_only = { .name = "core" };
static const struct engine_driver some = {
	.name = "some", .freeze = &freeze, .snapshot = &snapshot, .resize = &resize
};

static struct instance ready(const struct engine_driver *driver, uint32_t flags)
{
	return (struct instance){ .driver = driver, .ready = true, .can = { .flags = flags } };
}

/* Every call of every missing sub-table: one code, and the driver is not called. */
static void test_missing_tables(void **state)
{
	const struct instance i = ready(&core_only, ~0U);
	struct engine_image_ref image = { .name = "x" };
	struct engine_image_watch watch = { .log_fd = -1 };
	struct engine_limits limits = { 0 };
	struct err errs[10] = { { .code = ERR_OK } };
	int n = 0;

	assert_int_equal(instance_freeze(&i, "a", true, NULL, NULL, &errs[n++]), -1);
	assert_int_equal(instance_resize(&i, "a", &limits, NULL, NULL, &errs[n++]), -1);
	assert_int_equal(instance_relink(&i, "a", ENGINE_LINK_NONE, NULL, NULL, &errs[n++]), -1);
	assert_int_equal(instance_snapshot(&i, "a", "s", 0, NULL, NULL, &errs[n++]), -1);
	assert_int_equal(instance_snapshot_remove(&i, "s", NULL, NULL, &errs[n++]), -1);
	assert_int_equal(instance_snapshot_list(&i, NULL, NULL, &errs[n++]), -1);
	assert_int_equal(instance_image_check(&i, &image, &errs[n++]), -1);
	assert_int_equal(instance_image_have(&i, &image, NULL, NULL, &errs[n++]), -1);
	assert_int_equal(instance_image_prepare(&i, &image, &watch, &errs[n++]), -1);
	assert_int_equal(instance_image_remove(&i, &image, &watch, &errs[n++]), -1);
	for (int k = 0; k < n; k++) {
		assert_int_equal(errs[k].code, ERR_UNSUPPORTED_BY_ENGINE);
		assert_non_null(strstr(errs[k].message, "engine core cannot "));
	}
}

static void test_not_ready(void **state)
{
	struct instance i = { .driver = &some };
	struct err err;

	calls = 0;
	assert_int_equal(instance_destroy(&i, "a", NULL, NULL, &err), -1);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_int_equal(instance_freeze(&i, "a", true, NULL, NULL, &err), -1);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_int_equal(instance_need(&i, CAN_FREEZE, NULL, "pause", &err), -1);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_false(instance_can(&i, CAN_FREEZE));
	assert_int_equal(calls, 0);
	i.ready = true;
	assert_int_equal(instance_freeze(&i, "a", true, NULL, NULL, &err), 0);
	assert_int_equal(calls, 1);
}

/* Derived from the tables and the flags: a table without its flag, and the reverse. */
static void test_derived(void **state)
{
	struct instance all = ready(&some, ~0U), none = ready(&core_only, ~0U),
			plain = ready(&some, 0);

	assert_true(instance_can(&all, CAN_FREEZE));
	assert_true(instance_can(&all, CAN_SNAPSHOT_MEMORY));
	assert_true(instance_can(&all, CAN_POOL));
	assert_false(instance_can(&all, CAN_IMAGE));
	assert_false(instance_can(&all, CAN_NETWORK));
	assert_true(instance_can(&none, CAN_ISOLATE));
	assert_false(instance_can(&none, CAN_POOL)); /* needs resize */
	assert_false(instance_can(&none, CAN_SNAPSHOT_MEMORY));
	assert_true(instance_can(&plain, CAN_SNAPSHOT));
	assert_false(instance_can(&plain, CAN_SNAPSHOT_MEMORY));
	assert_false(instance_can(&plain, CAN_POOL));
	assert_true(instance_can(&all, CAN_PROXY));
	assert_false(instance_can(&plain, CAN_PROXY));
	for (int c = 0; c < CAPABILITY_COUNT; c++)
		assert_true(c == CAN_NETWORK || c == CAN_PROXY ||
			    capability_name((enum capability)c));
}

/* Undecided is neither: what is offered stays as it is, and what is asked for may be asked. */
static void test_undecided(void **state)
{
	struct instance i = ready(&some, ENGINE_CHECKS_MEMORY), none = ready(&core_only, ~0U);

	assert_false(instance_can(&i, CAN_SNAPSHOT_MEMORY));
	assert_true(instance_may(&i, CAN_SNAPSHOT_MEMORY));
	assert_false(instance_may(&i, CAN_POOL));
	assert_false(instance_may(&none, CAN_SNAPSHOT_MEMORY));
	i.can.missing[ENGINE_TABLE_SNAPSHOT] = "it needs btrfs";
	assert_false(instance_may(&i, CAN_SNAPSHOT_MEMORY));
}

/*
 * The table exists but this host cannot offer it: the engine's own reason, and old snapshots can
 * still be removed.
 */
static void test_missing_on_this_host(void **state)
{
	struct instance i = ready(&some, 0);
	struct err err;

	calls = 0;
	i.can.missing[ENGINE_TABLE_SNAPSHOT] = "it needs btrfs";
	assert_int_equal(instance_need(&i, CAN_SNAPSHOT, "on_timeout", "hibernate", &err), -1);
	assert_int_equal(err.code, ERR_UNSUPPORTED_BY_ENGINE);
	assert_string_equal(
		err.message,
		"on_timeout: engine some cannot hibernate on this host: it needs btrfs");
	assert_int_equal(instance_snapshot(&i, "a", "s", 0, NULL, NULL, &err), -1);
	assert_int_equal(err.code, ERR_UNSUPPORTED_BY_ENGINE);
	assert_int_equal(calls, 0);
	assert_int_equal(instance_snapshot_remove(&i, "s", NULL, NULL, &err), 0);
	assert_int_equal(calls, 1);
}

/* Every row has the complete core; names are unique and settings can be written. */
static void test_registry(void **state)
{
	unsigned on = 0;

	assert_true(engine_row_count >= 2);
	for (size_t i = 0; i < engine_row_count; i++) {
		const struct engine_driver *d = engine_rows[i].driver;

		on += engine_rows[i].on;
		assert_non_null(d->name);
		assert_non_null(d->label);
		assert_non_null(d->doc);
		assert_non_null(d->enable);
		assert_true(d->open && d->close && d->create && d->attach && d->dial &&
			    d->destroy && d->stat && d->list);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(d->name, engine_rows[k].driver->name);
		if (d->image)
			assert_true(d->image->check && d->image->have && d->image->prepare &&
				    d->image->remove);
		if (d->snapshot)
			assert_true(d->snapshot->take && d->snapshot->remove && d->snapshot->list);
		assert_true(!d->setting_count == !d->settings_size);
	}
	assert_int_equal(on, 1); /* one default */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_tables), cmocka_unit_test(test_not_ready),
		cmocka_unit_test(test_derived),	       cmocka_unit_test(test_undecided),
		cmocka_unit_test(test_registry),       cmocka_unit_test(test_missing_on_this_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
