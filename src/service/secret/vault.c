/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealing: XChaCha20-Poly1305 with a random nonce per value. What a sealed value belongs to (kind,
 * id, version) is authenticated with it, so that one row cannot replace another. The key is in the
 * state directory or comes from the environment; the database alone reveals nothing.
 */
#include "service/secret/vault.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>

#include "service/service_internal.h"
#include "service/secret/secret_private.h"

#define KEY_BYTES crypto_aead_xchacha20poly1305_ietf_KEYBYTES
#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES crypto_aead_xchacha20poly1305_ietf_ABYTES
#define CHECK_TEXT "cay vault"

static_assert(VAULT_OVERHEAD == NONCE_BYTES + TAG_BYTES, "VAULT_OVERHEAD is nonce and tag");

struct vault {
	uint8_t key[KEY_BYTES];
};

static int context(char dst[128], const char *kind, const char *id, uint32_t version)
{
	return snprintf(dst, 128, "cay vault v1/%s/%s/%u", kind, id, version);
}

int vault_seal(const struct vault *vault, const char *kind, const char *id, uint32_t version,
	       struct str plain, uint8_t **ret, size_t *ret_len)
{
	size_t n = NONCE_BYTES + plain.n + TAG_BYTES;
	uint8_t *sealed = malloc(n);
	unsigned long long sealed_len;
	char about[128];
	int about_len = context(about, kind, id, version);

	if (!sealed)
		return -ENOMEM;
	randombytes_buf(sealed, NONCE_BYTES);
	(void)crypto_aead_xchacha20poly1305_ietf_encrypt(
		sealed + NONCE_BYTES, &sealed_len, (const uint8_t *)plain.p, plain.n,
		(const uint8_t *)about, (unsigned long long)about_len, NULL, sealed, vault->key);
	*ret = sealed;
	*ret_len = n;
	return 0;
}

int vault_open(const struct vault *vault, const char *kind, const char *id, uint32_t version,
	       struct str sealed, char **ret, size_t *ret_len)
{
	char about[128], *plain;
	int about_len = context(about, kind, id, version);
	unsigned long long n;

	if (sealed.n < NONCE_BYTES + TAG_BYTES)
		return -EBADMSG;
	plain = malloc(sealed.n - NONCE_BYTES - TAG_BYTES + 1);
	if (!plain)
		return -ENOMEM;
	if (crypto_aead_xchacha20poly1305_ietf_decrypt(
		    (uint8_t *)plain, &n, NULL, (const uint8_t *)sealed.p + NONCE_BYTES,
		    sealed.n - NONCE_BYTES, (const uint8_t *)about, (unsigned long long)about_len,
		    (const uint8_t *)sealed.p, vault->key) != 0) {
		free(plain);
		return -EBADMSG;
	}
	plain[n] = '\0';
	*ret = plain;
	*ret_len = n;
	return 0;
}

void vault_wipe(char *plain, size_t n)
{
	if (plain)
		sodium_memzero(plain, n);
	free(plain);
}

/* ---- the key ---- */

static int read_key(const char *path, uint8_t key[KEY_BYTES])
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char text[KEY_BYTES * 2 + 2];
	ssize_t n;
	int r;

	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text));
	r = n < 0 ? -errno
		  : str_unhex(key, KEY_BYTES, str_trim((struct str){ text, (size_t)n }, "\n"));
	sodium_memzero(text, sizeof(text));
	return r;
}

static int write_key(const char *path, const uint8_t key[KEY_BYTES])
{
	_cleanup_close_ int fd =
		open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	char text[KEY_BYTES * 2 + 2];
	int r = 0;

	if (fd < 0)
		return -errno;
	str_hex(text, key, KEY_BYTES);
	text[KEY_BYTES * 2] = '\n';
	if (write(fd, text, KEY_BYTES * 2 + 1) != KEY_BYTES * 2 + 1 || fsync(fd) < 0)
		r = -EIO;
	sodium_memzero(text, sizeof(text));
	return r;
}

static int find_key(struct service *service, struct vault *vault, struct err *err)
{
	const char *given = service->config.vault_key;
	char path[4096];
	int r;

	if (given && *given) {
		if (str_unhex(vault->key, KEY_BYTES, str_of(given)) < 0)
			return err_set(err, ERR_INVALID_REQUEST,
				       "CAY_VAULT_KEY must be %d hexadecimal digits in lower case",
				       (int)KEY_BYTES * 2);
		return 0;
	}
	(void)snprintf(path, sizeof(path), "%s/vault.key", service->config.state_dir);
	r = read_key(path, vault->key);
	if (r == -ENOENT) {
		randombytes_buf(vault->key, KEY_BYTES);
		r = write_key(path, vault->key);
	}
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot use %s", path) : 0;
}

/* Decrypts a known value, to detect a wrong key at once. */
static int check_key(struct service *service, struct vault *vault, struct err *err)
{
	char text[512], plain_text[256];
	uint8_t raw[128], *sealed = NULL;
	size_t n, raw_len = 0;
	char *plain;
	int r = store_meta_get(service->store, "vault_check", text, sizeof(text));

	if (r == 1) {
		raw_len = strlen(text) / 2;
		if (raw_len > sizeof(raw) || str_unhex(raw, raw_len, str_of(text)) < 0 ||
		    vault_open(vault, "check", "", 0, (struct str){ (const char *)raw, raw_len },
			       &plain, &n) < 0)
			return err_set(err, ERR_INVALID_REQUEST,
				       "the vault's key is not the one that sealed its secrets: "
				       "provide the right CAY_VAULT_KEY or %s/vault.key",
				       service->config.state_dir);
		free(plain);
		return 0;
	}
	if (r == 0)
		r = vault_seal(vault, "check", "", 0, STR_LIT(CHECK_TEXT), &sealed, &n);
	if (r == 0) {
		str_hex(plain_text, sealed, n);
		free(sealed);
		r = store_meta_put(service->store, "vault_check", plain_text);
	}
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "the vault cannot be opened") : 0;
}

static int vault_new(struct service *service, struct vault **ret, struct err *err)
{
	struct vault *vault = sodium_init() < 0 ? NULL : calloc(1, sizeof(*vault));

	if (!vault)
		return err_set(err, ERR_INTERNAL, "out of memory");
	if (find_key(service, vault, err) < 0 || check_key(service, vault, err) < 0) {
		vault_free(vault);
		return -1;
	}
	*ret = vault;
	return 0;
}

int vault_need(struct service *service, struct err *err)
{
	return service->secrets->vault ? 0 : vault_new(service, &service->secrets->vault, err);
}

const struct vault *vault_of(const struct service *service)
{
	return service->secrets->vault;
}

void vault_hash(const struct vault *vault, const char *kind, struct str text, uint8_t ret[32])
{
	crypto_generichash_state state;

	(void)crypto_generichash_init(&state, vault->key, sizeof(vault->key), 32);
	(void)crypto_generichash_update(&state, (const uint8_t *)kind, strlen(kind) + 1);
	(void)crypto_generichash_update(&state, (const uint8_t *)text.p, text.n);
	(void)crypto_generichash_final(&state, ret, 32);
}

void vault_free(struct vault *vault)
{
	if (vault)
		sodium_memzero(vault, sizeof(*vault));
	free(vault);
}
