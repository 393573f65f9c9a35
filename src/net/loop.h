/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: a small interface over libuv, so that the layers above use descriptors, timers
 * and work, not the library. One loop and one thread; only loop_work() uses other threads.
 */
#ifndef CAY_NET_LOOP_H
#define CAY_NET_LOOP_H

#include "base/macro.h"

struct loop;

int loop_new(struct loop **ret) _must_check_;
void loop_free(struct loop *loop); /* stop everything on it first */
int loop_run(struct loop *loop);   /* until loop_stop(), or until there is nothing to wait for */
void loop_stop(struct loop *loop);
/*
 * One iteration; waits for at most timeout_ms (-1: until something happens). For tests and
 * shutdown.
 */
void loop_turn(struct loop *loop, int timeout_ms);
int64_t loop_now_ms(const struct loop *loop); /* monotonic time, cached per iteration */
uint64_t loop_turns(const struct loop *loop); /* iterations so far: the number of this one */

/* Timers are heap objects of the loop. Stopping is final, and allowed inside the callback. */
struct loop_timer;
typedef void (*loop_timer_fn)(void *arg);
int loop_timer_new(struct loop *loop, loop_timer_fn fn, void *arg,
		   struct loop_timer **ret) _must_check_;
void loop_timer_set(struct loop_timer *timer, int64_t delay_ms,
		    int64_t repeat_ms); /* repeat 0: once */
void loop_timer_clear(struct loop_timer *timer);
void loop_timer_free(struct loop_timer *timer); /* NULL is allowed */

/*
 * Watches a descriptor, which the caller still owns. Level-triggered. LOOP_HANGUP alone reports
 * only that both directions have ended, or an error; the other events include it.
 */
enum { LOOP_READ = 1, LOOP_WRITE = 2, LOOP_HANGUP = 4 };
struct loop_watch;
typedef void (*loop_watch_fn)(void *arg, int events, int error); /* error: -errno or 0 */
int loop_watch_new(struct loop *loop, int fd, loop_watch_fn fn, void *arg,
		   struct loop_watch **ret) _must_check_;
int loop_watch_set(struct loop_watch *watch, int events) _must_check_; /* 0 stops watching */
/* NULL is allowed; call before closing the descriptor */
void loop_watch_free(struct loop_watch *watch);

/*
 * Calls fn in the next iteration, never from inside this call. Use it to complete an operation that
 * ends early.
 */
typedef void (*loop_defer_fn)(void *arg);
int loop_defer(struct loop *loop, loop_defer_fn fn, void *arg) _must_check_;

/* work runs on a pool thread and may only touch what arg owns; done runs on the loop. */
typedef void (*loop_work_fn)(void *arg);
int loop_work(struct loop *loop, loop_work_fn work, loop_work_fn done, void *arg) _must_check_;

typedef void (*loop_signal_fn)(void *arg, int signum);
int loop_signal(struct loop *loop, int signum, loop_signal_fn fn, void *arg) _must_check_;

#endif
