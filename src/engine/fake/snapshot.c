/* SPDX-License-Identifier: Apache-2.0 */
/* The fake engine's disk: what persists when an engine closes, by state directory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/fake/state.h"

static struct fake_snapshot *snapshots;

static bool is_of(const struct fake_snapshot *s, const struct engine *engine)
{
	return strcmp(s->state_dir, engine->state_dir) == 0;
}

struct fake_snapshot *fake_snapshot_next(const struct engine *engine,
					 struct fake_snapshot *previous)
{
	struct fake_snapshot *s = previous ? previous->next : snapshots;

	while (s && !is_of(s, engine))
		s = s->next;
	return s;
}

struct fake_snapshot *fake_snapshot_find(const struct engine *engine, const char *id)
{
	struct fake_snapshot *s = fake_snapshot_next(engine, NULL);

	while (s && strcmp(s->id, id) != 0)
		s = fake_snapshot_next(engine, s);
	return s;
}

static void snapshot_free(struct fake_snapshot *s)
{
	free(s->state_dir);
	free(s);
}

int fake_snapshot_add(struct engine *engine, const char *id, bool temporary,
		      const struct engine_snapshot_info *info)
{
	struct fake_snapshot *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->state_dir = strdup(engine->state_dir);
	if (!s->state_dir || str_copy(s->id, sizeof(s->id), str_of(id)) < 0) {
		snapshot_free(s);
		return -ENOMEM;
	}
	s->info = *info;
	s->temporary = temporary;
	s->next = snapshots;
	snapshots = s;
	return 0;
}

void fake_snapshot_drop(struct engine *engine, const char *id)
{
	for (struct fake_snapshot **at = &snapshots; *at; at = &(*at)->next) {
		struct fake_snapshot *s = *at;

		if (is_of(s, engine) && strcmp(s->id, id) == 0) {
			*at = s->next;
			snapshot_free(s);
			return;
		}
	}
}

void fake_set_memory(struct engine *engine, bool can, const char *why)
{
	engine->memory = can;
	engine->no_memory = why;
	fake_announce(engine);
}

bool fake_woken(const struct engine *engine, const char *id)
{
	const struct fake_sandbox *s = fake_find(engine, id);

	return s && s->woken;
}

void fake_forget_temporary(struct engine *engine)
{
	for (struct fake_snapshot *s = fake_snapshot_next(engine, NULL), *next; s; s = next) {
		next = fake_snapshot_next(engine, s);
		if (s->temporary)
			fake_snapshot_drop(engine, s->id);
	}
}

void fake_forget_snapshots(void)
{
	while (snapshots) {
		struct fake_snapshot *s = snapshots;

		snapshots = s->next;
		snapshot_free(s);
	}
}
