/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service/account only: the tree of keys, and deleted keys that still own something. */
#ifndef CAY_SERVICE_ACCOUNT_KEY_TREE_PRIVATE_H
#define CAY_SERVICE_ACCOUNT_KEY_TREE_PRIVATE_H

#include "service/account/auth.h"
#include "service/service_internal.h"

bool key_is_below(const struct key *key, const struct key *above);
const struct key *key_top(const struct key *key); /* the tenant: the highest key above, or itself */
uint32_t key_count_below(const struct service *service, const struct key *above);
/* The first key that the usage of owner counts against: owner itself or, if it was deleted, the
 * nearest key above. The usage also counts against the parents of that key. NULL: none. */
struct key *key_payer(const struct service *service, const char *owner);
/* Counts one sandbox or snapshot more (by 1) or less (by -1) for owner. */
void key_owns(struct service *service, const char *owner, int by);
/* Deletes a key and all keys below it. 0, or -errno without any change. */
int key_remove(struct service *service, struct key *root) _must_check_;

int key_tree_load(struct service *service) _must_check_; /* after all keys are loaded */
void key_tree_settle(struct service *service); /* after all sandboxes and snapshots are loaded */
void key_tree_done(struct service *service);

#endif
