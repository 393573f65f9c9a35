/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service/account only: keys that keys created, and what deleted ones leave behind. */
#ifndef CAY_SERVICE_ACCOUNT_KEY_TREE_PRIVATE_H
#define CAY_SERVICE_ACCOUNT_KEY_TREE_PRIVATE_H

#include "service/account/auth.h"
#include "service/service_internal.h"

bool key_is_below(const struct key *key, const struct key *above);
const struct key *key_top(const struct key *key); /* the tenant: the highest key above, or itself */
uint32_t key_count_below(const struct service *service, const struct key *above);
/* The first key that what owner holds counts against: itself or, if it was deleted, the nearest one
 * above. The others are its parents. NULL: none. */
struct key *key_payer(const struct service *service, const char *owner);
/* owner has one sandbox or snapshot more (1) or less (-1). */
void key_owns(struct service *service, const char *owner, int by);
/* Deletes a key and all keys below it. 0 or -errno; then nothing was changed. */
int key_remove(struct service *service, struct key *root) _must_check_;

int key_tree_load(struct service *service) _must_check_; /* once all keys are there */
void key_tree_settle(struct service *service); /* once all sandboxes and snapshots are there */
void key_tree_done(struct service *service);

#endif
