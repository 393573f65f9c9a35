/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: libuv behind few functions, so that the layers above see descriptors, timers and
 * work, never the library. One loop, one thread; only loop_work() leaves it.
 */
#ifndef CAY_NET_LOOP_H
#define CAY_NET_LOOP_H

#include "base/macro.h"

struct loop;

int loop_new(struct loop **ret) _must_check_;
void loop_free(struct loop *loop); /* everything on it must be stopped before */
int loop_run(struct loop *loop);   /* until loop_stop(), or until nothing is left to wait for */
void loop_stop(struct loop *loop);
/* One turn; waits for at most timeout_ms (-1: until something happens). For tests and shutdown. */
void loop_turn(struct loop *loop, int timeout_ms);
int64_t loop_now_ms(const struct loop *loop); /* cached monotonic time of this turn */
uint64_t loop_turns(const struct loop *loop); /* so far: who shares a turn knows it by this */

/* Timers are heap objects of the loop; stop is final and safe inside the callback. */
struct loop_timer;
typedef void (*loop_timer_fn)(void *arg);
int loop_timer_new(struct loop *loop, loop_timer_fn fn, void *arg,
		   struct loop_timer **ret) _must_check_;
void loop_timer_set(struct loop_timer *timer, int64_t delay_ms,
		    int64_t repeat_ms); /* repeat 0: once */
void loop_timer_clear(struct loop_timer *timer);
void loop_timer_free(struct loop_timer *timer); /* NULL is fine */

/* Watches a descriptor the caller keeps owning. Level-triggered. LOOP_HANGUP alone reports only
 * that both directions have ended, or an error; with the others it is implied. */
enum { LOOP_READ = 1, LOOP_WRITE = 2, LOOP_HANGUP = 4 };
struct loop_watch;
typedef void (*loop_watch_fn)(void *arg, int events, int error); /* error: -errno or 0 */
int loop_watch_new(struct loop *loop, int fd, loop_watch_fn fn, void *arg,
		   struct loop_watch **ret) _must_check_;
int loop_watch_set(struct loop_watch *watch, int events) _must_check_; /* 0 stops watching */
void loop_watch_free(struct loop_watch *watch); /* NULL is fine; before closing the descriptor */

/* Runs fn on the next turn, never inside the call: the way to complete an operation early. */
typedef void (*loop_defer_fn)(void *arg);
int loop_defer(struct loop *loop, loop_defer_fn fn, void *arg) _must_check_;

/* work runs on a pool thread and must touch only what arg owns; done runs on the loop. */
typedef void (*loop_work_fn)(void *arg);
int loop_work(struct loop *loop, loop_work_fn work, loop_work_fn done, void *arg) _must_check_;

typedef void (*loop_signal_fn)(void *arg, int signum);
int loop_signal(struct loop *loop, int signum, loop_signal_fn fn, void *arg) _must_check_;

#endif
