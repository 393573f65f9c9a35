/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: keys, their access tokens, and what they may use up. */
#ifndef CAY_SERVICE_ACCOUNT_AUTH_INTERNAL_H
#define CAY_SERVICE_ACCOUNT_AUTH_INTERNAL_H

#include "service/account/auth.h"
#include "service/service_internal.h"

/* auth.c */
int auth_load(struct service *service, struct err *err) _must_check_;
void auth_done(struct service *service);
void auth_forget(struct service *service, struct key *key); /* its row is gone; frees it */

/* key_tree.c: the id of the highest key above owner, deleted or not; owner itself if it has none.
 */
const char *key_tenant(const struct service *service, const char *owner);

/* access_token.c */
int access_load(struct service *service, struct err *err) _must_check_;

/* quota.c */
extern const char *const quota_names[];
int64_t quota_limit(const struct service *service, const struct key *key,
		    enum quota which); /* QUOTA_NONE */
/* Whether one of these sizes has room, on the host and with its owner. */
int quota_room(const struct service *service, const struct sandbox_attrs *attrs,
	       struct err *err) _must_check_;
/* The same and its creation is not too soon: then it is counted. */
int quota_take(struct service *service, const struct sandbox_attrs *attrs,
	       struct err *err) _must_check_;
void quota_add(struct service *service, const struct sandbox_attrs *attrs); /* it is there */
void quota_remove(struct service *service, const struct sandbox_attrs *attrs);
/* A snapshot more (1) or less (-1) of owner. */
void quota_count_snapshot(struct service *service, const char *owner, int by);
int quota_snapshot(const struct service *service, const struct key *key,
		   struct err *err) _must_check_;

uint32_t quota_streams(const struct service *service); /* open, of all keys */

#endif
