/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/copy/manifest.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#define MAGIC "CAYSNAP"
#define MAC_SIZE crypto_auth_hmacsha512256_BYTES
#define KEY_NAME_SIZE 16

static_assert(MANIFEST_KEY_SIZE == crypto_auth_hmacsha512256_KEYBYTES, "the MAC's own key size");

/* The format on disk. Every field consists of bytes: no padding, and the same on every machine. */
struct sealed {
	char magic[8];
	uint8_t version[4];
	uint8_t read_only[4];
	uint8_t key_name[KEY_NAME_SIZE]; /* distinguishes a foreign manifest from an altered one */
	char engine[MANIFEST_ENGINE_SIZE];
	char kernel[MANIFEST_KERNEL_SIZE];
	char snapshot_id[WARDEN_ID_SIZE];
	char sandbox_id[WARDEN_ID_SIZE];
	uint8_t template_hash[WARDEN_HASH_SIZE];
	uint8_t created_ms[8];
	uint8_t size_bytes[8];
	uint8_t uuid[16];
	uint8_t changed[8];
	uint8_t created[8];
	uint8_t memory_uuid[16]; /* zero if there is no memory */
	uint8_t memory_changed[8];
	uint8_t memory_created[8];
	uint8_t mac[MAC_SIZE];
};

static_assert(sizeof(struct sealed) == MANIFEST_SIZE, "the file's size");

static void put(uint8_t *dst, size_t n, uint64_t value)
{
	for (size_t i = 0; i < n; i++)
		dst[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *src, size_t n)
{
	uint64_t value = 0;

	for (size_t i = 0; i < n; i++)
		value |= (uint64_t)src[i] << (8 * i);
	return value;
}

#define PUT(field, value) put(field, sizeof(field), value)
#define GET(field) get(field, sizeof(field))

static void mac_of(uint8_t dst[MAC_SIZE], const struct sealed *s,
		   const uint8_t key[MANIFEST_KEY_SIZE])
{
	(void)crypto_auth_hmacsha512256(dst, (const uint8_t *)s, offsetof(struct sealed, mac), key);
}

void manifest_derive(uint8_t dst[16], const uint8_t key[MANIFEST_KEY_SIZE], const char *purpose,
		     const char *id)
{
	crypto_auth_hmacsha512256_state state;
	uint8_t mac[MAC_SIZE];

	(void)crypto_auth_hmacsha512256_init(&state, key, MANIFEST_KEY_SIZE);
	(void)crypto_auth_hmacsha512256_update(&state, (const uint8_t *)purpose,
					       strlen(purpose) + 1);
	(void)crypto_auth_hmacsha512256_update(&state, (const uint8_t *)id, strlen(id));
	(void)crypto_auth_hmacsha512256_final(&state, mac);
	memcpy(dst, mac, 16);
}

static void name_key(uint8_t dst[KEY_NAME_SIZE], const uint8_t key[MANIFEST_KEY_SIZE])
{
	manifest_derive(dst, key, "key name", "");
}

void manifest_seal(uint8_t dst[MANIFEST_SIZE], const struct manifest *m,
		   const uint8_t key[MANIFEST_KEY_SIZE])
{
	struct sealed s = { .magic = MAGIC };

	PUT(s.version, MANIFEST_VERSION);
	PUT(s.read_only, m->subvolume.read_only);
	name_key(s.key_name, key);
	memcpy(s.engine, m->engine, sizeof(s.engine));
	memcpy(s.kernel, m->kernel, sizeof(s.kernel));
	memcpy(s.snapshot_id, m->snapshot_id, sizeof(s.snapshot_id));
	memcpy(s.sandbox_id, m->sandbox_id, sizeof(s.sandbox_id));
	memcpy(s.template_hash, m->template_hash, sizeof(s.template_hash));
	PUT(s.created_ms, m->created_ms);
	PUT(s.size_bytes, m->size_bytes);
	memcpy(s.uuid, m->subvolume.uuid, sizeof(s.uuid));
	PUT(s.changed, m->subvolume.changed);
	PUT(s.created, m->subvolume.created);
	if (m->has_memory) {
		memcpy(s.memory_uuid, m->memory.uuid, sizeof(s.memory_uuid));
		PUT(s.memory_changed, m->memory.changed);
		PUT(s.memory_created, m->memory.created);
	}
	mac_of(s.mac, &s, key);
	memcpy(dst, &s, sizeof(s));
}

static int refuse(const char **ret_reason, const char *reason)
{
	*ret_reason = reason;
	return -EKEYREJECTED;
}

int manifest_open(const void *src, size_t size, const uint8_t key[MANIFEST_KEY_SIZE],
		  struct manifest *ret, const char **ret_reason)
{
	uint8_t key_name[KEY_NAME_SIZE], mac[MAC_SIZE];
	struct sealed s;

	if (size < sizeof(s.magic) + sizeof(s.version) || memcmp(src, MAGIC, sizeof(s.magic)) != 0)
		return refuse(ret_reason, "its manifest is damaged");
	memcpy(&s, src, MIN(size, sizeof(s)));
	if (GET(s.version) != MANIFEST_VERSION)
		return refuse(ret_reason, "its format is unknown");
	if (size != sizeof(s))
		return refuse(ret_reason, "its manifest is damaged");
	name_key(key_name, key);
	if (memcmp(s.key_name, key_name, sizeof(key_name)) != 0)
		return refuse(ret_reason, "it was made by another installation");
	mac_of(mac, &s, key);
	if (sodium_memcmp(mac, s.mac, sizeof(mac)) != 0)
		return refuse(ret_reason, "its manifest was altered");
	/* Only now it is known to be our own, with every text terminated. */
	*ret = (struct manifest){
		.created_ms = GET(s.created_ms),
		.size_bytes = GET(s.size_bytes),
		.subvolume = { .changed = GET(s.changed),
			       .created = GET(s.created),
			       .read_only = GET(s.read_only) },
		.has_memory = GET(s.memory_created) != 0,
		.memory = { .changed = GET(s.memory_changed),
			    .created = GET(s.memory_created),
			    .read_only = true },
	};
	memcpy(ret->engine, s.engine, sizeof(s.engine));
	memcpy(ret->kernel, s.kernel, sizeof(s.kernel));
	memcpy(ret->snapshot_id, s.snapshot_id, sizeof(s.snapshot_id));
	memcpy(ret->sandbox_id, s.sandbox_id, sizeof(s.sandbox_id));
	memcpy(ret->template_hash, s.template_hash, sizeof(s.template_hash));
	memcpy(ret->subvolume.uuid, s.uuid, sizeof(s.uuid));
	memcpy(ret->memory.uuid, s.memory_uuid, sizeof(s.memory_uuid));
	return 0;
}
