/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manifest of a snapshot: what it is, what it needs, which subvolume it belongs to, and a MAC
 * over all of that with a key that only root has. It is a fixed-size message like those of wire/,
 * because the warden parses nothing that has structure. Called by the jobs of src/warden/copy.
 */
#ifndef CAY_WARDEN_COPY_MANIFEST_H
#define CAY_WARDEN_COPY_MANIFEST_H

#include "sys/mount/btrfs.h"
#include "wire/warden.h"

#define MANIFEST_VERSION 1
#define MANIFEST_KEY_SIZE 32
#define MANIFEST_ENGINE_SIZE 16
#define MANIFEST_KERNEL_SIZE 64
#define MANIFEST_SIZE 384

struct manifest {
	char engine[MANIFEST_ENGINE_SIZE];
	char kernel[MANIFEST_KERNEL_SIZE]; /* kernel release it was made on, for people */
	char snapshot_id[WARDEN_ID_SIZE];
	char sandbox_id[WARDEN_ID_SIZE];
	uint8_t template_hash[WARDEN_HASH_SIZE];
	uint64_t created_ms; /* since 1970 */
	uint64_t size_bytes;
	struct btrfs_identity subvolume;
	bool has_memory;
	struct btrfs_identity memory; /* the subvolume with that */
};

void manifest_seal(uint8_t dst[MANIFEST_SIZE], const struct manifest *manifest,
		   const uint8_t key[MANIFEST_KEY_SIZE]);
/*
 * -EKEYREJECTED, with the reason for people: no manifest, another version, sealed by another
 * installation, or altered.
 */
int manifest_open(const void *src, size_t size, const uint8_t key[MANIFEST_KEY_SIZE],
		  struct manifest *ret, const char **ret_reason) _must_check_;

/* 16 bytes that belong permanently to a sandbox's id and reveal nothing about the key. */
void manifest_derive(uint8_t dst[16], const uint8_t key[MANIFEST_KEY_SIZE], const char *purpose,
		     const char *id);

#endif
