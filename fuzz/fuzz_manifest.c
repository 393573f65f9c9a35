/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests of snapshots. The first byte selects: the rest is a manifest as it was found on disk,
 * which is accepted only if it is one of ours without a changed bit; or it is written over one of
 * ours, at the position of the second byte.
 */
#include <assert.h>
#include <string.h>

#include "warden/copy/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t key[MANIFEST_KEY_SIZE] = { 1, 2, 3 };

static void try_bytes(const uint8_t *bytes, size_t size)
{
	const char *reason = NULL;
	uint8_t again[MANIFEST_SIZE];
	struct manifest m;

	if (manifest_open(bytes, size, key, &m, &reason) < 0) {
		assert(reason);
		return;
	}
	assert(size == MANIFEST_SIZE);
	manifest_seal(again, &m, key);
	assert(memcmp(again, bytes, sizeof(again)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct manifest good = { .engine = "native",
					      .kernel = "6.1",
					      .snapshot_id = "snap_1",
					      .sandbox_id = "sbx_1",
					      .created_ms = 1,
					      .size_bytes = 4096,
					      .subvolume = { .created = 2, .read_only = true } };
	uint8_t bytes[MANIFEST_SIZE];
	size_t at;

	if (size < 2)
		return 0;
	if (data[0] & 1) {
		try_bytes(data + 1, size - 1);
		return 0;
	}
	manifest_seal(bytes, &good, key);
	try_bytes(bytes, sizeof(bytes));
	at = data[1] * 3U % MANIFEST_SIZE;
	memcpy(bytes + at, data + 2, MIN(size - 2, sizeof(bytes) - at));
	try_bytes(bytes, sizeof(bytes));
	return 0;
}
