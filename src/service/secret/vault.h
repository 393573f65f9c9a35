/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: sealing and opening of what the database must not tell. */
#ifndef CAY_SERVICE_SECRET_VAULT_H
#define CAY_SERVICE_SECRET_VAULT_H

#include "base/err.h"
#include "base/str.h"

struct service;
struct vault;

int vault_need(struct service *service, struct err *err) _must_check_;
const struct vault *vault_of(const struct service *service); /* after vault_need() */
/* Nobody without the key can try texts against it. */
void vault_hash(const struct vault *vault, const char *kind, struct str text, uint8_t ret[32]);
void vault_free(struct vault *vault); /* NULL is fine */
/* kind, id, version: what it belongs to. *ret is the caller's to free. */
int vault_seal(const struct vault *vault, const char *kind, const char *id, uint32_t version,
	       struct str plain, uint8_t **ret, size_t *ret_len) _must_check_;
/* With a NUL behind it; to be given to vault_wipe(). -EBADMSG: it is not what it says it is. */
int vault_open(const struct vault *vault, const char *kind, const char *id, uint32_t version,
	       struct str sealed, char **ret, size_t *ret_len) _must_check_;
void vault_wipe(char *plain, size_t n);
#define VAULT_OVERHEAD 40 /* bytes that sealing adds: nonce and tag */

#endif
