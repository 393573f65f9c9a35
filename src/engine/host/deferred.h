/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions for results that an engine knows at once. A completion must not be called from inside
 * the starting call, so these functions call it in the next iteration of the loop. Each takes
 * ownership of the descriptors of its result. result is the outcome, with ERR_OK for success. They
 * return 0, or -1 with err set, which the starting call returns.
 */
#ifndef CAY_ENGINE_HOST_DEFERRED_H
#define CAY_ENGINE_HOST_DEFERRED_H

#include "engine/driver.h"

int deferred_made(struct loop *loop, engine_made_fn fn, void *arg, const struct engine_made *made,
		  const struct err *result, struct err *err);
int deferred_dialed(struct loop *loop, engine_dialed_fn fn, void *arg,
		    const struct channel *channel, const struct err *result, struct err *err);
int deferred_done(struct loop *loop, engine_done_fn fn, void *arg, const struct err *result,
		  struct err *err);
int deferred_stat(struct loop *loop, engine_stat_fn fn, void *arg, const struct engine_stat *stat,
		  const struct err *result, struct err *err);

/*
 * Calls on_ready() with these flags (enum engine_flag) in the next iteration. It is a member of the
 * engine's object, which stops it in close(). 0 or -errno.
 */
struct deferred_ready {
	struct engine_config config;
	uint32_t flags;
	struct loop_timer *timer; /* NULL: called, or stopped */
};
int deferred_ready_start(struct deferred_ready *ready, const struct engine_config *config,
			 uint32_t flags) _must_check_;
void deferred_ready_stop(struct deferred_ready *ready);

/* A list: names that are added before the next iteration are then reported, followed by the end. */
struct deferred_list;
struct deferred_list *deferred_list(struct loop *loop, engine_list_fn each, void *arg,
				    struct err *err);
void deferred_list_add(struct deferred_list *list, const char *id); /* NULL list is allowed */

#endif
