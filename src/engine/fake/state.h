/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the fake engine. */
#ifndef CAY_ENGINE_FAKE_STATE_H
#define CAY_ENGINE_FAKE_STATE_H

#include "engine/fake/fake.h"

/* Owner: engine->sandboxes. */
struct fake_sandbox {
	struct engine *engine;
	char id[ENGINE_ID_MAX + 1];
	struct engine_limits limits;
	bool alive;
	bool by_oom;
	bool paused;
	uint8_t template_hash[ENGINE_HASH_SIZE];
	char origin[ENGINE_ID_MAX + 1]; /* the snapshot it was created from */
	bool woken;			/* with the memory in that snapshot */
	int death_fd;			/* readable when it is dead */
	struct fake_agent *agent;
	struct fake_sandbox *next;
};

/* Owner: the list that starts with fake_first_snapshot(), which outlives engines. */
struct fake_snapshot {
	struct fake_snapshot *next;
	char *state_dir;
	char id[ENGINE_ID_MAX + 1];
	bool temporary;
	struct engine_snapshot_info info;
};

/* Owner: the loop's queue while it is active, engine->held[] while it waits. */
struct fake_call {
	struct engine *engine;
	bool temporary;
	bool memory;
	enum fake_op op;
	unsigned steps;
	char id[ENGINE_ID_MAX + 1];
	struct engine_limits limits;
	char snapshot_id[ENGINE_ID_MAX + 1];
	struct engine_image_ref image;
	struct engine_image_watch watch; /* its log_fd is a duplicate */
	bool paused;
	union {
		engine_made_fn made;
		engine_dialed_fn dialed;
		engine_done_fn done;
		engine_have_fn have;
		engine_stat_fn stat;
		engine_list_fn each;
		engine_entry_fn entry;
		engine_snapshot_fn snapshot;
	} fn;
	void *arg;
	struct fake_call *next;
};

struct engine {
	struct loop *loop;
	bool streams;		     /* as in engine_config */
	struct engine_config config; /* of the daemon it serves now */
	struct loop_timer *ready_timer;
	char *state_dir;
	struct fake_sandbox *sandboxes;
	enum err_code fail_next[FAKE_OP_COUNT];
	unsigned steps[FAKE_OP_COUNT];
	unsigned calls[FAKE_OP_COUNT];
	bool hold[FAKE_OP_COUNT];
	struct fake_call *held[FAKE_OP_COUNT];
	unsigned open_calls;
	const char *fail_message; /* message of requested failures; static */
	uint32_t more_flags;
	bool images;	       /* it has every requested image */
	bool memory;	       /* it can keep memory */
	const char *no_memory; /* but not of this sandbox: the reason; static */
	bool closed;	       /* freed with the last call */
};

extern struct engine *fake_opened_last;

struct fake_sandbox *fake_find(const struct engine *engine, const char *id);
void fake_end(struct fake_sandbox *sandbox);
void fake_sandbox_free(struct fake_sandbox *sandbox);
int fake_sandbox_create(struct fake_call *call, struct engine_made *ret, struct err *err);
int fake_sandbox_attach(struct fake_call *call, struct engine_made *ret, struct err *err);
struct fake_snapshot *fake_snapshot_find(const struct engine *engine, const char *id);
/* The first snapshot of this engine, or the one after previous. */
struct fake_snapshot *fake_snapshot_next(const struct engine *engine,
					 struct fake_snapshot *previous);
int fake_snapshot_add(struct engine *engine, const char *id, bool temporary,
		      const struct engine_snapshot_info *info);
void fake_snapshot_drop(struct engine *engine, const char *id);
struct fake_call *fake_call_new(struct engine *engine, enum fake_op op, const char *id, void *arg,
				struct err *err);
/* takes ownership of call, also on failure */
int fake_call_start(struct fake_call *call, struct err *err);
void fake_image_complete_have(struct fake_call *call, struct err *err);
void fake_image_complete(struct fake_call *call, struct err *err);
extern const struct engine_image fake_image;
void fake_announce(void *engine); /* on_ready() with its current capabilities */
void fake_step(void *call);	  /* one iteration of a call */

#endif
