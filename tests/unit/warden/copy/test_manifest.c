/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "warden/copy/manifest.h"

static const uint8_t key[MANIFEST_KEY_SIZE] = { 1, 2, 3 }, other_key[MANIFEST_KEY_SIZE] = { 1 };

static struct manifest example(void)
{
	struct manifest m = {
		.engine = "native",
		.kernel = "6.18.0",
		.snapshot_id = "s-1",
		.sandbox_id = "abc123",
		.created_ms = 1ULL << 41,
		.size_bytes = 5ULL << 30,
		.subvolume = { .changed = 77, .created = 78, .read_only = true },
	};

	memset(m.template_hash, 0xa5, sizeof(m.template_hash));
	memset(m.subvolume.uuid, 0x5a, sizeof(m.subvolume.uuid));
	return m;
}

static void sealed_opens(void **state)
{
	struct manifest m = example(), back;
	uint8_t bytes[MANIFEST_SIZE];
	const char *why = NULL;

	manifest_seal(bytes, &m, key);
	assert_int_equal(manifest_open(bytes, sizeof(bytes), key, &back, &why), 0);
	assert_string_equal(back.engine, "native");
	assert_string_equal(back.kernel, "6.18.0");
	assert_string_equal(back.snapshot_id, "s-1");
	assert_string_equal(back.sandbox_id, "abc123");
	assert_memory_equal(back.template_hash, m.template_hash, sizeof(m.template_hash));
	assert_memory_equal(back.subvolume.uuid, m.subvolume.uuid, sizeof(m.subvolume.uuid));
	assert_true(back.created_ms == m.created_ms && back.size_bytes == m.size_bytes);
	assert_true(back.subvolume.changed == 77 && back.subvolume.created == 78);
	assert_true(back.subvolume.read_only);
	assert_false(back.has_memory);
}

static void memory_is_named(void **state)
{
	struct manifest m = example(), back;
	uint8_t bytes[MANIFEST_SIZE];
	const char *why = NULL;

	m.has_memory = true;
	m.memory = (struct btrfs_identity){ .changed = 81, .created = 80, .read_only = true };
	memset(m.memory.uuid, 0x3c, sizeof(m.memory.uuid));
	manifest_seal(bytes, &m, key);
	assert_int_equal(manifest_open(bytes, sizeof(bytes), key, &back, &why), 0);
	assert_true(back.has_memory && back.memory.read_only);
	assert_true(back.memory.changed == 81 && back.memory.created == 80);
	assert_memory_equal(back.memory.uuid, m.memory.uuid, sizeof(m.memory.uuid));
	assert_true(back.subvolume.changed == 77);
}

static void every_byte_counts(void **state)
{
	struct manifest m = example(), back;
	uint8_t bytes[MANIFEST_SIZE];
	const char *why = NULL;

	manifest_seal(bytes, &m, key);
	for (size_t i = 0; i < sizeof(bytes); i++)
		for (int bit = 0; bit < 8; bit++) {
			bytes[i] ^= (uint8_t)(1 << bit);
			why = NULL;
			assert_int_equal(manifest_open(bytes, sizeof(bytes), key, &back, &why),
					 -EKEYREJECTED);
			assert_non_null(why);
			assert_true(strlen(why) < WARDEN_STEP_SIZE);
			bytes[i] ^= (uint8_t)(1 << bit);
		}
}

static const char *reason(const uint8_t *bytes, size_t size, const uint8_t *with)
{
	struct manifest back;
	const char *why = NULL;

	assert_int_equal(manifest_open(bytes, size, with, &back, &why), -EKEYREJECTED);
	return why;
}

static void reasons(void **state)
{
	struct manifest m = example();
	uint8_t bytes[MANIFEST_SIZE + 1] = { 0 };

	manifest_seal(bytes, &m, key);
	for (size_t size = 0; size < MANIFEST_SIZE; size++)
		assert_string_equal(reason(bytes, size, key), "its manifest is damaged");
	assert_string_equal(reason(bytes, MANIFEST_SIZE + 1, key), "its manifest is damaged");
	assert_string_equal(reason(bytes, MANIFEST_SIZE, other_key),
			    "it was made by another installation");
	bytes[MANIFEST_SIZE - 1] ^= 1;
	assert_string_equal(reason(bytes, MANIFEST_SIZE, key), "its manifest was altered");
	bytes[8]++; /* the version: newer ones may have any size */
	assert_string_equal(reason(bytes, 20, key), "its format is unknown");
}

static void derived_ids(void **state)
{
	uint8_t a[16], b[16];

	manifest_derive(a, key, "machine id", "abc");
	manifest_derive(b, key, "machine id", "abc");
	assert_memory_equal(a, b, sizeof(a));
	manifest_derive(b, key, "machine id", "abd");
	assert_memory_not_equal(a, b, sizeof(a));
	manifest_derive(b, key, "machine", " idabc");
	assert_memory_not_equal(a, b, sizeof(a));
	manifest_derive(b, other_key, "machine id", "abc");
	assert_memory_not_equal(a, b, sizeof(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sealed_opens),	     cmocka_unit_test(memory_is_named),
		cmocka_unit_test(every_byte_counts), cmocka_unit_test(reasons),
		cmocka_unit_test(derived_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
