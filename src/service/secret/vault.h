/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/service: sealing and opening of values that the database must not reveal. */
#ifndef CAY_SERVICE_SECRET_VAULT_H
#define CAY_SERVICE_SECRET_VAULT_H

#include "base/err.h"
#include "base/str.h"

struct service;
struct vault;

int vault_need(struct service *service, struct err *err) _must_check_;
const struct vault *vault_of(const struct service *service); /* after vault_need() */
/* A keyed hash: without the key, texts cannot be tried against it. */
void vault_hash(const struct vault *vault, const char *kind, struct str text, uint8_t ret[32]);
void vault_free(struct vault *vault); /* NULL is allowed */
/* kind, id, version: what the value belongs to. The caller frees *ret. */
int vault_seal(const struct vault *vault, const char *kind, const char *id, uint32_t version,
	       struct str plain, uint8_t **ret, size_t *ret_len) _must_check_;
/* NUL-terminated; pass it to vault_wipe(). -EBADMSG: it does not belong to kind, id and version. */
int vault_open(const struct vault *vault, const char *kind, const char *id, uint32_t version,
	       struct str sealed, char **ret, size_t *ret_len) _must_check_;
void vault_wipe(char *plain, size_t n);
#define VAULT_OVERHEAD 40 /* bytes that sealing adds: nonce and tag */

#endif
