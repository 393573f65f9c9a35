/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: keys, access tokens and quotas. */
#ifndef CAY_SERVICE_ACCOUNT_AUTH_INTERNAL_H
#define CAY_SERVICE_ACCOUNT_AUTH_INTERNAL_H

#include "service/account/auth.h"
#include "service/service_internal.h"

/* auth.c */
int auth_load(struct service *service, struct err *err) _must_check_;
void auth_done(struct service *service);
void auth_forget(struct service *service,
		 struct key *key); /* frees the key; its row has been deleted */

/* key_tree.c: the id of the highest key above owner, deleted or not; owner itself if it has none.
 */
const char *key_tenant(const struct service *service, const char *owner);

/* access_token.c */
int access_load(struct service *service, struct err *err) _must_check_;

/* quota.c */
extern const char *const quota_names[];
int64_t quota_limit(const struct service *service, const struct key *key,
		    enum quota which); /* QUOTA_NONE */
/* Whether the limits of the host and of the owner permit one more sandbox of this size. */
int quota_room(const struct service *service, const struct sandbox_attrs *attrs,
	       struct err *err) _must_check_;
/* Also checks the rate of creations, and then counts the sandbox. */
int quota_take(struct service *service, const struct sandbox_attrs *attrs,
	       struct err *err) _must_check_;
void quota_add(struct service *service,
	       const struct sandbox_attrs *attrs); /* counts a sandbox that exists */
void quota_remove(struct service *service, const struct sandbox_attrs *attrs);
/* Counts one snapshot more (by 1) or less (by -1) for owner. */
void quota_count_snapshot(struct service *service, const char *owner, int by);
int quota_snapshot(const struct service *service, const struct key *key,
		   struct err *err) _must_check_;

uint32_t quota_streams(const struct service *service); /* open, of all keys */

#endif
