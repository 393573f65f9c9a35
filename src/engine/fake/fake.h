/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of component tests: sandboxes are memory, time is turns of the loop, failures come on
 * demand. Each sandbox has a scripted agent behind a real socket pair, on the same loop, that
 * speaks the real frames. It understands as argv:
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
 * A shell with -c (or -lc ...) is taken for its script, cut at spaces; one without is cat.
 * Everything else is refused as not found. A terminal echoes its input. Windows have a shell of
 * their own: window.c. Processes live on when the connection breaks, and are kept after their end
 * like the real ones. Ports listen where a test does. Tools are refused.
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

/* The engine opened last: tests reach it through the daemon's own wiring. */
struct engine *fake_opened(void);

void fake_fail_next(struct engine *engine, enum fake_op op, enum err_code code); /* one call */
void fake_hold(struct engine *engine, enum fake_op op); /* calls wait until released */
void fake_release(struct engine *engine, enum fake_op op);
unsigned fake_calls(const struct engine *engine, enum fake_op op);   /* ever started */
unsigned fake_waiting(const struct engine *engine, enum fake_op op); /* held just now */
unsigned fake_live(const struct engine *engine);
bool fake_paused(const struct engine *engine, const char *id);
/* Snapshots outlive the engine, as on disk: the next one with the same state directory has them. */
unsigned fake_snapshots(const struct engine *engine);
/* The snapshot that a sandbox was made from; "" when none. */
const char *fake_origin(const struct engine *engine, const char *id);
/* Whether it keeps memory (it does not, at first); and if why is not NULL, why not after all. */
void fake_set_memory(struct engine *engine, bool can, const char *why);
bool fake_woken(const struct engine *engine, const char *id); /* made with the memory in it */
void fake_forget_snapshots(void);			      /* of all engines: the disk is gone */
void fake_forget_passing(struct engine *engine); /* another daemon: the one before is dead */
const struct engine_limits *fake_limits(const struct engine *engine, const char *id);

/* A port of a sandbox that is there: fn gets the server's end of every connection. */
void fake_listen(struct engine *engine, const char *id, uint16_t port,
		 void (*fn)(void *arg, int fd), void *arg);
void fake_unlisten(struct engine *engine, const char *id, uint16_t port);

/* Another daemon uses the engine from now on, and hears on_ready(); NULL: none does. */
void fake_reopen(struct engine *engine, const struct engine_config *config);
void fake_add_flags(struct engine *engine, uint32_t flags); /* enum engine_flag */
/* Whether it has the images that it is asked for (it does, at first); preparing one gives it. */
void fake_set_images(struct engine *engine, bool has);
void fake_fail_message(struct engine *engine, const char *message); /* static; NULL: the usual */

/* Misfortune. */
void fake_lose(struct engine *engine, bool lost);		   /* on_lost() or on_back() */
void fake_die(struct engine *engine, const char *id, bool by_oom); /* the sandbox ends */
void fake_cut(struct engine *engine, const char *id);		   /* only its connection breaks */

#endif
