/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of component tests: sandboxes exist in memory only, time is counted in iterations of
 * the loop, and tests can request failures. Each sandbox has a scripted agent behind a real socket
 * pair, on the same loop, that uses the real protocol. It accepts as argv:
 *
 *   echo WORDS...   writes them and a newline        exit N        ends with that code
 *   sleep MS        ends after so many milliseconds  spew BYTES    writes so many 'x'
 *   cat             writes its standard input        error WORDS.. writes to the error stream
 *   crash           the sandbox dies                 garbage       the agent breaks the protocol
 *   hang            never ends, ignores its timeout  stubborn      only SIGKILL ends it
 *   drip N MS       counts down a line every MS ms   signal N      dies of that signal
 *   fail N WORDS..  writes N 'x', then them; code 1  oom           the memory limit kills it
 *   size            writes its terminal's size, and
 *                   again whenever it changes        true, false, pwd, whoami
 *
 * A shell with -c (or -lc ...) runs its script, split at spaces; one without is cat. Everything
 * else is refused as not found. A terminal echoes its input. Windows have their own shell
 * (window.c). Processes survive a broken connection, and are kept after their end like real ones.
 * Ports listen where a test does. Tools are refused.
 */
#ifndef CAY_ENGINE_FAKE_FAKE_H
#define CAY_ENGINE_FAKE_FAKE_H

#include "engine/driver.h"

enum fake_op {
	FAKE_CREATE,
	FAKE_ATTACH,
	FAKE_DIAL,
	FAKE_DESTROY,
	FAKE_RESIZE,
	FAKE_STAT,
	FAKE_LIST,
	FAKE_PAUSE,
	FAKE_SNAPSHOT,
	FAKE_SNAPSHOT_DELETE,
	FAKE_SNAPSHOT_LIST,
	FAKE_IMAGE_HAVE,
	FAKE_IMAGE_PREPARE,
	FAKE_IMAGE_REMOVE,
	FAKE_OP_COUNT,
};

extern const struct engine_driver engine_fake;

/* The engine opened last, which tests reach through the daemon's own wiring. */
struct engine *fake_opened(void);

/* fails one call */
void fake_fail_next(struct engine *engine, enum fake_op op, enum err_code code);
void fake_hold(struct engine *engine, enum fake_op op); /* calls wait until released */
void fake_release(struct engine *engine, enum fake_op op);
/* number of calls ever started */
unsigned fake_calls(const struct engine *engine, enum fake_op op);
unsigned fake_waiting(const struct engine *engine, enum fake_op op); /* currently held */
unsigned fake_live(const struct engine *engine);
bool fake_paused(const struct engine *engine, const char *id);
/* Snapshots outlive the engine, as on disk: the next one with the same state directory has them. */
unsigned fake_snapshots(const struct engine *engine);
/* The snapshot that a sandbox was created from; "" if none. */
const char *fake_origin(const struct engine *engine, const char *id);
/*
 * Whether it keeps memory (initially not); if why is not NULL, the reason why it fails after all.
 */
void fake_set_memory(struct engine *engine, bool can, const char *why);
/* created with the memory in the snapshot */
bool fake_woken(const struct engine *engine, const char *id);
void fake_forget_snapshots(void); /* of all engines: the disk is lost */
/* temporary ones: the daemon that took them is dead */
void fake_forget_temporary(struct engine *engine);
const struct engine_limits *fake_limits(const struct engine *engine, const char *id);

/* A port of an existing sandbox: fn gets the server's end of every connection. */
void fake_listen(struct engine *engine, const char *id, uint16_t port,
		 void (*fn)(void *arg, int fd), void *arg);
void fake_unlisten(struct engine *engine, const char *id, uint16_t port);

/* Another daemon uses the engine from now on and gets on_ready(); NULL: none. */
void fake_reopen(struct engine *engine, const struct engine_config *config);
void fake_add_flags(struct engine *engine, uint32_t flags); /* enum engine_flag */
/* Whether it has the requested images (initially yes); preparing one provides it. */
void fake_set_images(struct engine *engine, bool has);
void fake_fail_message(struct engine *engine, const char *message); /* static; NULL: the default */

/* ---- failures ---- */
void fake_lose(struct engine *engine, bool lost);		   /* on_lost() or on_back() */
void fake_die(struct engine *engine, const char *id, bool by_oom); /* the sandbox ends */
void fake_cut(struct engine *engine, const char *id);		   /* only its connection breaks */

#endif
