/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the sandboxes and snapshots of an engine belong to this database. With a database
 * that was lost, emptied or exchanged, a start would delete all of them as unknown. The database
 * and the engine therefore store the same id. If the ids differ, the engine is not used until an
 * operator restores the database or runs `cay recover`.
 */
#include "service/pairing_internal.h"

#include <stdio.h>

#include "base/log.h"
#include "base/rand.h"

#define ID_NAME "instance_id"
#define PAIRED_NAME \
	"instance_paired" /* set once an engine was claimed, with this id or before ids existed */

static int count_key(void *arg, const struct store_key *key)
{
	bool *found = arg;

	(void)key;
	*found = true;
	return 0;
}

/* A database written by an older version has API keys but no id. */
static int make_id(struct service *service)
{
	bool used = false;
	int r = store_key_each(service->store, count_key, &used);

	rand_label(service->upkeep.pairing.id, PAIRING_ID_LEN);
	if (r >= 0)
		r = store_begin_durable(service->store);
	if (r < 0)
		return r;
	r = store_meta_put(service->store, ID_NAME, service->upkeep.pairing.id);
	if (r == 0 && used)
		r = store_meta_put(service->store, PAIRED_NAME, "1");
	service->upkeep.pairing.paired = used;
	return store_end(service->store, r);
}

int pairing_open(struct service *service, struct err *err)
{
	struct pairing *pairing = &service->upkeep.pairing;
	char text[8];
	int r = store_meta_get(service->store, ID_NAME, pairing->id, sizeof(pairing->id));

	if (r == 0) {
		r = make_id(service);
	} else if (r > 0) {
		r = store_meta_get(service->store, PAIRED_NAME, text, sizeof(text));
		pairing->paired = r > 0;
	}
	return r < 0 ? service_unrecorded(err, r, "the id of the database could not be read") : 0;
}

int pairing_claim(struct service_engine *engine)
{
	struct service *service = engine->service;
	int r = store_begin_durable(service->store);

	if (r == 0)
		r = store_end(service->store, store_meta_put(service->store, PAIRED_NAME, "1"));
	if (r < 0)
		return r;
	service->upkeep.pairing.paired = true;
	engine->foreign = false;
	engine->instance.driver->claim(engine->instance.engine, service->upkeep.pairing.id);
	return 0;
}

bool pairing_check(struct service_engine *engine)
{
	const struct engine_capabilities *can = &engine->instance.can;
	const struct pairing *pairing = &engine->service->upkeep.pairing;
	bool same = strcmp(can->owner, pairing->id) == 0;

	engine->foreign = false;
	if (!engine->instance.driver->claim || (same && pairing->paired))
		return true;
	if (same || !can->holds || (!can->owner[0] && pairing->paired)) {
		if (pairing_claim(engine) == 0)
			return true;
		(void)snprintf(engine->why, sizeof(engine->why),
			       "the database could not be written");
		return false;
	}
	engine->foreign = true;
	(void)snprintf(engine->why, sizeof(engine->why),
		       "it holds sandboxes or snapshots that belong to another database than %s/"
		       "cay.db. Stop the daemon and restore the right cay.db, or rebuild the list "
		       "of snapshots: cay recover",
		       engine->service->config.state_dir);
	log_error("engine %s is not used: %s", engine_name(engine), engine->why);
	return false;
}
