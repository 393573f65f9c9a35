/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "engine/native/warden.h"

static struct engine_capabilities capabilities_of(uint32_t warden)
{
	static const struct {
		uint32_t warden, engine;
	} flags[] = {
		{ WARDEN_CAN_ISOLATE, ENGINE_ISOLATES | ENGINE_OWN_TREE },
		{ WARDEN_CAN_LIMIT_MEMORY, ENGINE_LIMITS_MEMORY },
		{ WARDEN_CAN_LIMIT_CPU, ENGINE_LIMITS_CPU },
		{ WARDEN_CAN_LIMIT_PIDS, ENGINE_LIMITS_PIDS },
		{ WARDEN_CAN_LIMIT_DISK, ENGINE_LIMITS_DISK },
		{ WARDEN_CAN_SURVIVE, ENGINE_SURVIVES },
		{ WARDEN_CAN_POOL, ENGINE_POOLS },
		{ WARDEN_CAN_SNAPSHOT_MEMORY, ENGINE_KEEPS_MEMORY },
		{ WARDEN_CHECKS_MEMORY, ENGINE_CHECKS_MEMORY },
	};
	struct engine_capabilities can = { .flags = 0 };

	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		if (warden & flags[i].warden)
			can.flags |= flags[i].engine;
	if (!(warden & WARDEN_CAN_PAUSE))
		can.missing[ENGINE_TABLE_FREEZE] = "there is no freezer of control groups";
	if (!(warden & WARDEN_CAN_SNAPSHOT))
		can.missing[ENGINE_TABLE_SNAPSHOT] =
			"its storage is plain directories, and copies of files need btrfs";
	if (!(warden & WARDEN_CAN_NETWORK))
		can.missing[ENGINE_TABLE_NETWORK] =
			"the kernel has no nf_tables or no virtual links; 'cay doctor' says more";
	return can;
}

static void tell_storage(struct engine *engine, const struct warden_reply *reply)
{
	struct engine_storage storage = { .capacity_bytes = reply->size_bytes,
					  .used_bytes = reply->disk_bytes,
					  .promised_bytes = reply->memory_bytes };

	if (engine->config.on_storage)
		engine->config.on_storage(engine->config.arg, &storage);
}

/* The warden answers, and cannot work: as if it were away, until it says otherwise. */
static void has_problem(struct engine *engine, const char *what)
{
	struct err why;

	if (engine->state == NATIVE_LOST || engine->complained)
		return;
	engine->complained = engine->state == NATIVE_OPENING;
	if (engine->state == NATIVE_READY)
		engine->state = NATIVE_LOST;
	(void)err_set(&why, ERR_UNAVAILABLE, "%s", what);
	engine->config.on_lost(engine->config.arg, &why);
}

/* An answer to HELLO; also sent by itself when the warden has found out more. */
void hello_received(struct engine *engine, const struct warden_reply *reply)
{
	struct engine_capabilities can = capabilities_of(reply->capabilities);
	bool known = engine->state == NATIVE_READY;
	bool same = known && engine->capabilities == reply->capabilities &&
		    memcmp(engine->owner, reply->id, sizeof(engine->owner)) == 0;
	bool back = engine->state == NATIVE_LOST;

	static_assert(sizeof(can.owner) == sizeof(reply->id), "an id and its NUL");
	memcpy(can.owner, reply->id, sizeof(can.owner));
	can.holds = reply->alive;
	memcpy(engine->owner, reply->id, sizeof(engine->owner));
	engine->asked_ms = 0;
	if (*reply->step) {
		has_problem(engine, reply->step);
		return;
	}
	engine->capabilities = reply->capabilities;
	engine->gateway = reply->address;
	engine->state = NATIVE_READY;
	if (!known)
		log_info("native engine: the warden is there");
	if (back)
		engine->config.on_back(engine->config.arg, &can);
	else if (!same)
		engine->config.on_ready(engine->config.arg, &can);
	tell_storage(engine, reply);
}

int hello_ask(struct engine *engine, const char *owner)
{
	struct warden_request req = { .op = WARDEN_HELLO };
	int r;

	if (str_copy(req.id, sizeof(req.id), str_of(owner)) < 0)
		return -EINVAL;
	if (!engine->asked_ms)
		engine->asked_ms = loop_now_ms(engine->config.loop);
	r = warden_send(engine, &req, NULL);
	return r == -EAGAIN || r == -ENOBUFS ? 0 : r; /* then the next one is answered, or none */
}

void hello_on_timer(void *arg)
{
	struct engine *engine = arg;

	if (engine->fd < 0)
		return;
	if (engine->asked_ms && loop_now_ms(engine->config.loop) - engine->asked_ms > HELLO_HUNG_MS)
		warden_lose(engine, "the warden does not answer");
	else if (!engine->asked_ms && hello_ask(engine, "") < 0)
		log_debug("native engine: the connection is broken, which the loop notices");
}
