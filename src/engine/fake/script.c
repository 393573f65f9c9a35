/* SPDX-License-Identifier: Apache-2.0 */
/* The functions by which tests control and query the fake engine. */
#include "engine/fake/fake.h"

#include "engine/fake/agent.h"
#include "engine/fake/state.h"

struct engine *fake_opened(void)
{
	return fake_opened_last;
}

void fake_fail_next(struct engine *engine, enum fake_op op, enum err_code code)
{
	engine->fail_next[op] = code;
}

void fake_fail_message(struct engine *engine, const char *message)
{
	engine->fail_message = message;
}

void fake_add_flags(struct engine *engine, uint32_t flags)
{
	engine->more_flags |= flags;
}

void fake_set_images(struct engine *engine, bool has)
{
	engine->images = has;
}

void fake_hold(struct engine *engine, enum fake_op op)
{
	engine->hold[op] = true;
}

void fake_release(struct engine *engine, enum fake_op op)
{
	engine->hold[op] = false;
	while (engine->held[op]) {
		struct fake_call *call = engine->held[op];

		engine->held[op] = call->next;
		call->next = NULL;
		call->steps = 1;
		if (loop_defer(engine->loop, fake_step, call) < 0)
			abort();
	}
}

unsigned fake_calls(const struct engine *engine, enum fake_op op)
{
	return engine->calls[op];
}

unsigned fake_waiting(const struct engine *engine, enum fake_op op)
{
	unsigned n = 0;

	for (const struct fake_call *call = engine->held[op]; call; call = call->next)
		n++;
	return n;
}

unsigned fake_live(const struct engine *engine)
{
	unsigned n = 0;

	for (const struct fake_sandbox *s = engine->sandboxes; s; s = s->next)
		n += s->alive;
	return n;
}

bool fake_paused(const struct engine *engine, const char *id)
{
	const struct fake_sandbox *s = fake_find(engine, id);

	return s && s->paused;
}

unsigned fake_snapshots(const struct engine *engine)
{
	struct fake_snapshot *s = NULL;
	unsigned n = 0;

	while ((s = fake_snapshot_next(engine, s)))
		n++;
	return n;
}

const char *fake_origin(const struct engine *engine, const char *id)
{
	const struct fake_sandbox *s = fake_find(engine, id);

	return s ? s->origin : "";
}

const struct engine_limits *fake_limits(const struct engine *engine, const char *id)
{
	const struct fake_sandbox *s = fake_find(engine, id);

	return s ? &s->limits : NULL;
}

void fake_die(struct engine *engine, const char *id, bool by_oom)
{
	struct fake_sandbox *s = fake_find(engine, id);

	if (!s)
		return;
	s->by_oom = by_oom;
	fake_end(s);
}

void fake_cut(struct engine *engine, const char *id)
{
	struct fake_sandbox *s = fake_find(engine, id);

	if (!s || !s->agent)
		return;
	fake_agent_disconnect(s->agent);
}

void fake_listen(struct engine *engine, const char *id, uint16_t port,
		 void (*fn)(void *arg, int fd), void *arg)
{
	struct fake_sandbox *s = fake_find(engine, id);

	if (s && s->agent)
		fake_port_open(s->agent, port, fn, arg);
}

void fake_unlisten(struct engine *engine, const char *id, uint16_t port)
{
	struct fake_sandbox *s = fake_find(engine, id);

	if (s && s->agent)
		fake_port_close(s->agent, port);
}
