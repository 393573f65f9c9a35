/* SPDX-License-Identifier: Apache-2.0 */
#include "service/account/account_internal.h"
#include "service/account/account_private.h"
#include "service/account/auth_internal.h"
#include "service/account/idempotency_internal.h"
#include "service/account/key_tree_private.h"
#include "service/account/ticket_private.h"
#include "service/account/usage_internal.h"

#define IDEMPOTENCY_EXPIRE_TICKS 3600

struct accounts *accounts_new(void)
{
	struct accounts *accounts = calloc(1, sizeof(*accounts));

	if (!accounts)
		return NULL;
	map_init(&accounts->keys_by_hash);
	map_init(&accounts->keys_by_id);
	map_init(&accounts->departed);
	map_init(&accounts->tickets);
	map_init(&accounts->idempotency);
	return accounts;
}

int accounts_open(struct service *service, struct err *err)
{
	return auth_load(service, err) < 0 || access_load(service, err) < 0 ? -1 : 0;
}

int accounts_load(struct service *service, struct err *err)
{
	return usage_load(service, err) < 0 || idempotency_load(service, err) < 0 ? -1 : 0;
}

void accounts_tick(struct service *service)
{
	usage_tick(service);
	tickets_tick(service);
	if (service->upkeep.ticks == 1)
		key_tree_settle(service);
	if (service->upkeep.ticks % IDEMPOTENCY_EXPIRE_TICKS == 1)
		idempotency_expire(service);
}

void accounts_close(struct service *service)
{
	idempotency_done(service);
	tickets_done(service);
	key_tree_done(service);
	auth_done(service);
	free(service->accounts);
}
