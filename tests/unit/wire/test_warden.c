/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "wire/warden.h"

static struct warden_request create_request(void)
{
	struct warden_request req = {
		.op = WARDEN_CREATE,
		.tag = 0x1122334455667788,
		.id = "abc123",
		.limits = { 1000, 1024, 3072, 512 },
	};

	memset(req.template_hash, 0xa5, sizeof(req.template_hash));
	return req;
}

static int trip(const struct warden_request *req, struct warden_request *ret)
{
	uint8_t bytes[WARDEN_REQUEST_SIZE];

	warden_request_encode(bytes, req);
	return warden_request_decode(bytes, sizeof(bytes), ret);
}

static void request_round_trip(void **state)
{
	struct warden_request req = create_request(), back;

	(void)state;
	assert_int_equal(trip(&req, &back), 0);
	assert_memory_equal(&req, &back, sizeof(req));
}

static void request_size_is_exact(void **state)
{
	uint8_t bytes[WARDEN_REQUEST_SIZE + 1] = { 0 };
	struct warden_request req = create_request(), back;

	(void)state;
	warden_request_encode(bytes, &req);
	assert_int_equal(warden_request_decode(bytes, WARDEN_REQUEST_SIZE, &back), 0);
	assert_int_equal(warden_request_decode(bytes, WARDEN_REQUEST_SIZE - 1, &back), -EPROTO);
	assert_int_equal(warden_request_decode(bytes, WARDEN_REQUEST_SIZE + 1, &back), -EPROTO);
	assert_int_equal(warden_request_decode(bytes, 0, &back), -EPROTO);
}

static void request_ids(void **state)
{
	static const char *const bad[] = {
		"", "A", "a/b", "..", "a.b", "a b", "-a", "a\nb", "\xff"
	};
	struct warden_request req = create_request(), back;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		memset(req.id, 0, sizeof(req.id));
		memcpy(req.id, bad[i], strlen(bad[i]));
		assert_int_equal(trip(&req, &back), -EINVAL);
	}
	memset(req.id, 'a', sizeof(req.id)); /* no NUL at all */
	assert_int_equal(trip(&req, &back), -EINVAL);
	req.id[WARDEN_ID_SIZE - 1] = '\0';
	assert_int_equal(trip(&req, &back), 0);
	memset(req.id, 0, sizeof(req.id));
	req.id[0] = 'a';
	req.id[5] = 'b'; /* something behind the NUL */
	assert_int_equal(trip(&req, &back), -EINVAL);
}

static void request_limits(void **state)
{
	static const struct {
		uint32_t low, high;
		size_t offset;
	} ranges[] = {
		{ BOUNDS_CPU_MILLI_MIN, BOUNDS_CPU_MILLI_MAX,
		  offsetof(struct warden_limits, cpu_milli) },
		{ 1, BOUNDS_MEMORY_MB_MAX, offsetof(struct warden_limits, memory_mb) },
		{ 1, BOUNDS_DISK_MB_MAX, offsetof(struct warden_limits, disk_size_mb) },
		{ 8, BOUNDS_PIDS_MAX, offsetof(struct warden_limits, pids_max) },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
		const uint32_t values[] = { ranges[i].low - 1, ranges[i].low, ranges[i].high,
					    ranges[i].high + 1 };

		for (size_t k = 0; k < ARRAY_LEN(values); k++) {
			struct warden_request req = create_request(), back;

			memcpy((char *)&req.limits + ranges[i].offset, &values[k],
			       sizeof(uint32_t));
			assert_int_equal(trip(&req, &back), k == 1 || k == 2 ? 0 : -EINVAL);
		}
	}
}

static void request_ops(void **state)
{
	struct warden_request req = create_request(), back;

	(void)state;
	req.op = 0;
	assert_int_equal(trip(&req, &back), -EINVAL);
	req.op = WARDEN_OP_END;
	assert_int_equal(trip(&req, &back), -EINVAL);
	req.op = WARDEN_LIST; /* takes no id */
	assert_int_equal(trip(&req, &back), -EINVAL);
	memset(req.id, 0, sizeof(req.id));
	assert_int_equal(trip(&req, &back), 0);
	req.flags = WARDEN_FREEZE;
	assert_int_equal(trip(&req, &back), -EINVAL);
}

/* Each flag belongs to its operations; CREATE has one only if there is a snapshot to consume. */
static void request_flags(void **state)
{
	struct warden_request req = create_request(), back;

	(void)state;
	req.flags = WARDEN_TEMPORARY;
	assert_int_equal(trip(&req, &back), -EINVAL);
	memcpy(req.snapshot_id, "f-1", sizeof("f-1"));
	assert_int_equal(trip(&req, &back), 0);
	assert_int_equal(back.flags, WARDEN_TEMPORARY);
	req.op = WARDEN_SNAPSHOT;
	assert_int_equal(trip(&req, &back), 0);
	req.flags = WARDEN_FREEZE;
	assert_int_equal(trip(&req, &back), -EINVAL);
	memset(req.snapshot_id, 0, sizeof(req.snapshot_id));
	req.op = WARDEN_PAUSE;
	assert_int_equal(trip(&req, &back), 0);
	req.flags = WARDEN_FREEZE | 1U << 31;
	assert_int_equal(trip(&req, &back), -EINVAL);
}

/* Exactly the names that each operation accepts. */
static void request_names(void **state)
{
	static const struct {
		enum warden_op op;
		bool id, snapshot, either;
	} table[] = {
		{ WARDEN_HELLO, false, false, false },
		{ WARDEN_CREATE, true, false, true },
		{ WARDEN_ATTACH, true, false, false },
		{ WARDEN_DESTROY, true, false, false },
		{ WARDEN_RESIZE, true, false, false },
		{ WARDEN_STAT, true, false, false },
		{ WARDEN_LIST, false, false, false },
		{ WARDEN_PAUSE, true, false, false },
		{ WARDEN_BUILD, true, false, false },
		{ WARDEN_SNAPSHOT, true, true, false },
		{ WARDEN_SNAPSHOT_DELETE, false, true, false },
		{ WARDEN_SNAPSHOT_LIST, false, false, false },
	};

	(void)state;
	assert_int_equal(ARRAY_LEN(table),
			 WARDEN_DENIED - WARDEN_HELLO); /* no request from there on */
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		for (int with = 0; with < 4; with++) {
			bool id = with & 1, snapshot = with & 2;
			/* A HELLO with an id claims what the warden holds; without, it asks. */
			bool any_id = table[i].op == WARDEN_HELLO;
			bool good = (any_id || id == table[i].id) &&
				    (snapshot == table[i].snapshot || table[i].either);
			struct warden_request req = create_request(), back;

			req.op = (uint16_t)table[i].op;
			if (!id)
				memset(req.id, 0, sizeof(req.id));
			if (snapshot)
				memcpy(req.snapshot_id, "s-1", 3);
			assert_int_equal(trip(&req, &back), good ? 0 : -EINVAL);
		}
}

static void request_snapshot_ids(void **state)
{
	static const char *const bad[] = { "S", "../x", "a.b", "-a", "s/1" };
	struct warden_request req = create_request(), back;

	(void)state;
	memcpy(req.snapshot_id, "h-abc123", 8);
	assert_int_equal(trip(&req, &back), 0);
	assert_memory_equal(&req, &back, sizeof(req));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		memset(req.snapshot_id, 0, sizeof(req.snapshot_id));
		memcpy(req.snapshot_id, bad[i], strlen(bad[i]));
		assert_int_equal(trip(&req, &back), -EINVAL);
	}
	memset(req.snapshot_id, 'a', sizeof(req.snapshot_id)); /* no NUL at all */
	assert_int_equal(trip(&req, &back), -EINVAL);
}

/*
 * The warden accepts exactly the template names that the service accepts: every name of one or two
 * bytes, and the longest ones.
 */
static void build_names(void **state)
{
	struct warden_request req = { .op = WARDEN_BUILD }, back;

	(void)state;
	for (int first = 1; first < 256; first++)
		for (int second = 0; second < 256; second++) {
			req.id[0] = (char)first;
			req.id[1] = (char)second;
			assert_int_equal(trip(&req, &back),
					 bounds_template_name(str_of(req.id)) ? 0 : -EINVAL);
		}
	memset(req.id, 'a', sizeof(req.id));
	assert_int_equal(trip(&req, &back), -EINVAL);
	req.id[BOUNDS_NAME_MAX] = '\0';
	assert_int_equal(trip(&req, &back), 0);
	req.id[10] = '.';
	req.id[11] = '_';
	assert_int_equal(trip(&req, &back), 0);
}

/* A rejected request can still be answered: its tag and operation are known. */
static void refused_request_is_known(void **state)
{
	struct warden_request req = create_request(), back = { 0 };

	(void)state;
	req.limits.memory_mb = 0;
	assert_int_equal(warden_request_check(&req), -EINVAL);
	assert_int_equal(trip(&req, &back), -EINVAL);
	assert_true(back.op == WARDEN_CREATE && back.tag == req.tag);
}

static void reply_round_trip(void **state)
{
	struct warden_reply reply = {
		.op = WARDEN_STAT,
		.tag = 7,
		.error = -EBUSY,
		.more = 1,
		.id = "x1",
		.step = "clone",
		.alive = 1,
		.oom_kills = 3,
		.memory_bytes = 1ULL << 40,
		.memory_peak_bytes = 9,
		.cpu_us = 5,
		.pids = 12,
		.disk_bytes = 77,
		.capabilities = 0xff,
		.paused = 1,
		.size_bytes = 1ULL << 41,
		.has_stall = 1,
		.stall = { [STALL_CPU] = { 1ULL << 42, 2, 10000, 4 }, [STALL_IO] = { 5, 6, 7, 8 } },
		.template_hash = { 1, 2, [WARDEN_HASH_SIZE - 1] = 3 },
	};
	struct warden_reply back;
	uint8_t bytes[WARDEN_REPLY_SIZE];

	(void)state;
	warden_reply_encode(bytes, &reply);
	assert_int_equal(warden_reply_decode(bytes, sizeof(bytes), &back), 0);
	assert_int_equal(back.error, -EBUSY);
	assert_string_equal(back.step, "clone");
	assert_true(back.memory_bytes == reply.memory_bytes && back.disk_bytes == 77 &&
		    back.pids == 12);
	assert_true(back.paused == 1 && back.size_bytes == 1ULL << 41);
	assert_memory_equal(back.template_hash, reply.template_hash, WARDEN_HASH_SIZE);
	assert_int_equal(back.has_stall, 1);
	assert_memory_equal(back.stall, reply.stall, sizeof(back.stall));
	reply.has_stall = 2;
	warden_reply_encode(bytes, &reply);
	assert_int_equal(warden_reply_decode(bytes, sizeof(bytes), &back), -EPROTO);
	reply.has_stall = 0;
	reply.error = 1;
	warden_reply_encode(bytes, &reply);
	assert_int_equal(warden_reply_decode(bytes, sizeof(bytes), &back), -EPROTO);
	reply.error = 0;
	reply.paused = 2;
	warden_reply_encode(bytes, &reply);
	assert_int_equal(warden_reply_decode(bytes, sizeof(bytes), &back), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_round_trip),
		cmocka_unit_test(request_size_is_exact),
		cmocka_unit_test(request_ids),
		cmocka_unit_test(request_limits),
		cmocka_unit_test(request_ops),
		cmocka_unit_test(reply_round_trip),
		cmocka_unit_test(request_flags),
		cmocka_unit_test(request_names),
		cmocka_unit_test(request_snapshot_ids),
		cmocka_unit_test(build_names),
		cmocka_unit_test(refused_request_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
