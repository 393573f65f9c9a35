/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that an engine knows at once: a completion must not come from inside the starting call,
 * so these call it on the next turn of the loop. Each takes over the descriptors of its answer.
 * result is what the operation came to, with ERR_OK for success. They return 0, or -1 with err set,
 * as the starting call then does.
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

/* on_ready() with these flags (enum engine_flag) on the next turn; a part of the engine's object,
 * which stops it in close(). 0 or -errno. */
struct deferred_ready {
	struct engine_config config;
	uint32_t flags;
	struct loop_timer *timer; /* NULL: called, or stopped */
};
int deferred_ready_start(struct deferred_ready *ready, const struct engine_config *config,
			 uint32_t flags) _must_check_;
void deferred_ready_stop(struct deferred_ready *ready);

/* Names that are added before the next turn are called out then, and the end behind them. */
struct deferred_list;
struct deferred_list *deferred_list(struct loop *loop, engine_list_fn each, void *arg,
				    struct err *err);
void deferred_list_add(struct deferred_list *list, const char *id); /* NULL list is fine */

#endif
