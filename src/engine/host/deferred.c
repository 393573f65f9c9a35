/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/host/deferred.h"

#include <string.h>

/* Owner: the loop's queue. */
struct deferred {
	engine_made_fn made;
	engine_dialed_fn dialed;
	engine_done_fn done;
	engine_stat_fn stat;
	void *arg;
	struct engine_made answer; /* for dialed: only the channel */
	struct engine_stat status;
	struct err result;
};

static void call(void *arg)
{
	struct deferred *d = arg;
	const struct err *err = d->result.code ? &d->result : NULL;

	if (d->made)
		d->made(d->arg, &d->answer, err);
	else if (d->dialed)
		d->dialed(d->arg, &d->answer.channel, err);
	else if (d->done)
		d->done(d->arg, err);
	else
		d->stat(d->arg, &d->status, err);
	free(d);
}

static int defer(struct loop *loop, const struct deferred *want, struct err *err)
{
	struct deferred *d = malloc(sizeof(*d));

	if (d)
		*d = *want;
	if (d && loop_defer(loop, call, d) == 0)
		return 0;
	free(d);
	engine_made_close(&want->answer);
	return err_set(err, ERR_UNAVAILABLE, "out of memory");
}

int deferred_made(struct loop *loop, engine_made_fn fn, void *arg, const struct engine_made *made,
		  const struct err *result, struct err *err)
{
	struct deferred d = { .made = fn, .arg = arg, .answer = *made, .result = *result };

	return defer(loop, &d, err);
}

int deferred_dialed(struct loop *loop, engine_dialed_fn fn, void *arg,
		    const struct channel *channel, const struct err *result, struct err *err)
{
	struct deferred d = { .dialed = fn,
			      .arg = arg,
			      .answer = { .channel = *channel, .watch_fd = -1 },
			      .result = *result };

	return defer(loop, &d, err);
}

int deferred_done(struct loop *loop, engine_done_fn fn, void *arg, const struct err *result,
		  struct err *err)
{
	struct deferred d = { .done = fn,
			      .arg = arg,
			      .answer = { .channel = CHANNEL_NONE, .watch_fd = -1 },
			      .result = *result };

	return defer(loop, &d, err);
}

int deferred_stat(struct loop *loop, engine_stat_fn fn, void *arg, const struct engine_stat *stat,
		  const struct err *result, struct err *err)
{
	struct deferred d = { .stat = fn,
			      .arg = arg,
			      .answer = { .channel = CHANNEL_NONE, .watch_fd = -1 },
			      .status = *stat,
			      .result = *result };

	return defer(loop, &d, err);
}

/* ---- readiness ---- */

static void call_ready(void *arg)
{
	struct deferred_ready *ready = arg;
	struct engine_capabilities can = { .flags = ready->flags };

	deferred_ready_stop(ready);
	ready->config.on_ready(ready->config.arg, &can);
}

int deferred_ready_start(struct deferred_ready *ready, const struct engine_config *config,
			 uint32_t flags)
{
	int r = loop_timer_new(config->loop, call_ready, ready, &ready->timer);

	if (r < 0)
		return r;
	ready->config = *config;
	ready->flags = flags;
	loop_timer_set(ready->timer, 0, 0);
	return 0;
}

void deferred_ready_stop(struct deferred_ready *ready)
{
	loop_timer_free(TAKE_PTR(ready->timer));
}

/* ---- lists ---- */

struct name {
	struct name *next;
	char id[ENGINE_ID_MAX + 1];
};

/* Owner: the loop's queue. */
struct deferred_list {
	engine_list_fn each;
	void *arg;
	struct name *names;
	bool short_of_memory; /* an error is better than a list with gaps */
};

static void call_list(void *arg)
{
	struct deferred_list *list = arg;
	struct err err;

	while (list->names) {
		struct name *name = list->names;

		list->names = name->next;
		if (!list->short_of_memory)
			list->each(list->arg, name->id, NULL);
		free(name);
	}
	(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
	list->each(list->arg, NULL, list->short_of_memory ? &err : NULL);
	free(list);
}

struct deferred_list *deferred_list(struct loop *loop, engine_list_fn each, void *arg,
				    struct err *err)
{
	struct deferred_list *list = calloc(1, sizeof(*list));

	if (list)
		*list = (struct deferred_list){ .each = each, .arg = arg };
	if (list && loop_defer(loop, call_list, list) == 0)
		return list;
	free(list);
	(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
	return NULL;
}

void deferred_list_add(struct deferred_list *list, const char *id)
{
	struct name *name = list ? calloc(1, sizeof(*name)) : NULL;

	if (name && str_copy(name->id, sizeof(name->id), str_of(id)) == 0) {
		name->next = list->names;
		list->names = name;
	} else if (list) {
		free(name);
		list->short_of_memory = true;
	}
}
