/* SPDX-License-Identifier: Apache-2.0 */
/* Grants of sandboxes and snapshots in the database. */
#include <errno.h>

#include "base/log.h"
#include "service/network/egress_internal.h"
#include "service/secret/secret_internal.h"
#include "service/copy/snapshot.h"
#include "service/secret/secret_private.h"
#include "service/secret/secrets_internal.h"
#include "service/copy/copy_internal.h"
#include "service/sandbox/sandbox_internal.h"

int grants_save(struct grants *grants, const char *id)
{
	struct store *store;
	int r;

	if (!grants || grants->saved)
		return 0;
	store = grants->service->store;
	r = store_grant_delete(store, id);
	for (size_t i = 0; i < grants->count && r == 0; i++) {
		const struct grant *g = &grants->list[i];
		struct store_grant row = { .sandbox_id = id,
					   .secret_id = g->secret->id,
					   .way = g->way,
					   .env = g->env,
					   .hosts = g->hosts,
					   .placeholder = g->placeholder };

		r = store_grant_put(store, (int64_t)i, &row);
	}
	grants->saved = r == 0;
	return r;
}

void grants_forget(struct sandbox *sandbox)
{
	secret_sandbox_gone(sandbox->service, sandbox->id);
	if (!sandbox->attrs.grants && !sandbox->attrs.network && !sandbox->egress)
		return;
	if (store_grant_delete(sandbox->service->store, sandbox->id) < 0 ||
	    store_authority_delete(sandbox->service->store, sandbox->id) < 0)
		log_warn(
			"sandbox %s: the grants could not be deleted and stay until the next start",
			sandbox->id);
}

/* The owner is a sandbox, or a snapshot, which has only former grants. */
static struct grants **place_of(struct service *service, const char *id)
{
	struct sandbox *sandbox = sandbox_by_id(service, str_of(id));
	struct snapshot *snapshot = sandbox ? NULL : snapshot_by_id(service, str_of(id));

	if (sandbox)
		return &sandbox->attrs.grants;
	return snapshot ? &snapshot->grants : NULL;
}

static int on_grant(void *arg, const struct store_grant *row)
{
	struct service *service = arg;
	struct grants **place = place_of(service, row->sandbox_id), *grants;
	struct secret *secret = map_get(&service->secrets->by_id, str_of(row->secret_id));
	struct grant *g;

	if (!place || !secret || row->way < 0 || row->way >= GRANT_WAY_COUNT)
		return 0;
	if (!*place)
		*place = grants_new(service);
	grants = *place;
	if (!grants)
		return -ENOMEM;
	if (grants->count == SECRETS_PER_SANDBOX)
		return 0;
	grants->saved = true;
	g = grants_add(grants, secret, (int)row->way, row->env, row->hosts);
	if (!g)
		return -ENOMEM;
	return str_copy(g->placeholder, sizeof(g->placeholder), str_of(row->placeholder));
}

int grants_load(struct service *service, struct err *err)
{
	int r = store_grant_each(service->store, on_grant, service);

	if (r == 0)
		r = store_authority_trim(service->store);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "cannot read the sandboxes' secrets");
	secret_settle(service);
	return 0;
}
