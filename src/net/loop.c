/* SPDX-License-Identifier: Apache-2.0 */
#include "net/loop.h"

#include <assert.h>
#include <errno.h>
#include <uv.h>

struct deferred {
	loop_defer_fn fn;
	void *arg;
};

/* There are two: one is run while the other collects new deferred calls. */
struct defer_queue {
	struct deferred *calls;
	size_t count;
	size_t capacity;
};

struct loop_signal_watch {
	uv_signal_t uv;
	struct loop_signal_watch *next;
	loop_signal_fn fn;
	void *arg;
};

/* Owner: the program's main(). It owns its signal watches; timers and watches belong to callers. */
struct loop {
	uv_loop_t uv;
	uv_idle_t defer_idle; /* active exactly while a deferred call waits */
	uv_prepare_t turn_prepare;
	uint64_t turns;
	uv_timer_t turn_timer;
	struct defer_queue defer;
	struct defer_queue running;
	struct loop_signal_watch *signals;
};

struct loop_timer {
	uv_timer_t uv;
	loop_timer_fn fn;
	void *arg;
};

struct loop_watch {
	uv_poll_t uv;
	int events;
	loop_watch_fn fn;
	void *arg;
};

struct loop_job {
	uv_work_t uv;
	loop_work_fn work;
	loop_work_fn done;
	void *arg;
};

static void on_freed(uv_handle_t *handle)
{
	free(handle->data);
}

static void run_deferred(struct loop *loop)
{
	struct defer_queue batch = loop->defer;

	loop->defer = loop->running;
	loop->defer.count = 0;
	loop->running = batch;
	for (size_t i = 0; i < batch.count; i++)
		batch.calls[i].fn(batch.calls[i].arg);
	loop->running.count = 0;
	if (loop->defer.count == 0)
		uv_idle_stop(&loop->defer_idle);
}

static void on_defer_idle(uv_idle_t *idle)
{
	run_deferred(CONTAINER_OF(idle, struct loop, defer_idle));
}

static void on_turn_timer(uv_timer_t *timer)
{
	(void)timer; /* only ends the wait */
}

static void on_prepare(uv_prepare_t *prepare)
{
	CONTAINER_OF(prepare, struct loop, turn_prepare)->turns++;
}

uint64_t loop_turns(const struct loop *loop)
{
	return loop->turns;
}

int loop_new(struct loop **ret)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	int r;

	if (!loop)
		return -ENOMEM;
	r = uv_loop_init(&loop->uv);
	if (r < 0) {
		free(loop);
		return r;
	}
	(void)uv_idle_init(&loop->uv, &loop->defer_idle);
	(void)uv_timer_init(&loop->uv, &loop->turn_timer);
	(void)uv_prepare_init(&loop->uv, &loop->turn_prepare);
	(void)uv_prepare_start(&loop->turn_prepare, on_prepare);
	uv_unref((uv_handle_t *)&loop
			 ->turn_prepare); /* counting alone does not keep the loop alive */
	*ret = loop;
	return 0;
}

static void assert_closing(uv_handle_t *handle, void *arg)
{
	(void)arg;
	(void)handle;
	assert(uv_is_closing(handle));
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	/* A deferred call may own memory, so all of them are run. */
	while (loop->defer.count)
		run_deferred(loop);
	uv_close((uv_handle_t *)&loop->defer_idle, NULL);
	uv_close((uv_handle_t *)&loop->turn_timer, NULL);
	uv_close((uv_handle_t *)&loop->turn_prepare, NULL);
	while (loop->signals) {
		struct loop_signal_watch *watch = loop->signals;

		loop->signals = watch->next;
		uv_close((uv_handle_t *)&watch->uv, on_freed);
	}
	uv_walk(&loop->uv, assert_closing, NULL);
	while (uv_loop_close(&loop->uv) == UV_EBUSY)
		(void)uv_run(&loop->uv, UV_RUN_DEFAULT);
	free(loop->defer.calls);
	free(loop->running.calls);
	free(loop);
}

int loop_run(struct loop *loop)
{
	return uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *loop)
{
	uv_stop(&loop->uv);
}

void loop_turn(struct loop *loop, int timeout_ms)
{
	if (timeout_ms == 0) {
		(void)uv_run(&loop->uv, UV_RUN_NOWAIT);
		return;
	}
	uv_update_time(&loop->uv);
	if (timeout_ms > 0)
		(void)uv_timer_start(&loop->turn_timer, on_turn_timer, (uint64_t)timeout_ms, 0);
	(void)uv_run(&loop->uv, UV_RUN_ONCE);
	(void)uv_timer_stop(&loop->turn_timer);
}

int64_t loop_now_ms(const struct loop *loop)
{
	return (int64_t)uv_now(&loop->uv);
}

static void on_timer(uv_timer_t *uv)
{
	struct loop_timer *timer = CONTAINER_OF(uv, struct loop_timer, uv);

	timer->fn(timer->arg);
}

int loop_timer_new(struct loop *loop, loop_timer_fn fn, void *arg, struct loop_timer **ret)
{
	struct loop_timer *timer = calloc(1, sizeof(*timer));

	if (!timer)
		return -ENOMEM;
	timer->fn = fn;
	timer->arg = arg;
	(void)uv_timer_init(&loop->uv, &timer->uv);
	timer->uv.data = timer;
	*ret = timer;
	return 0;
}

void loop_timer_set(struct loop_timer *timer, int64_t delay_ms, int64_t repeat_ms)
{
	/* The cached time may be old if the previous callback took long: count from now. */
	uv_update_time(timer->uv.loop);
	(void)uv_timer_start(&timer->uv, on_timer, (uint64_t)MAX(delay_ms, 0),
			     (uint64_t)MAX(repeat_ms, 0));
}

void loop_timer_clear(struct loop_timer *timer)
{
	(void)uv_timer_stop(&timer->uv);
}

void loop_timer_free(struct loop_timer *timer)
{
	if (timer)
		uv_close((uv_handle_t *)&timer->uv, on_freed);
}

static void on_poll(uv_poll_t *uv, int status, int uv_events);

static int watch_start(struct loop_watch *watch)
{
	int uv_events = 0;

	if (watch->events & LOOP_READ)
		uv_events |= UV_READABLE;
	if (watch->events & LOOP_WRITE)
		uv_events |= UV_WRITABLE;
	/*
	 * libuv does not watch without an event. Urgent data never arrives, and a hang-up is always
	 * reported.
	 */
	if (watch->events & LOOP_HANGUP)
		uv_events |= UV_PRIORITIZED;
	return uv_poll_start(&watch->uv, uv_events, on_poll);
}

static void on_poll(uv_poll_t *uv, int status, int uv_events)
{
	struct loop_watch *watch = CONTAINER_OF(uv, struct loop_watch, uv);
	int events = 0;

	if (status < 0) {
		int r;

		/*
		 * libuv turns EPOLLERR into UV_EBADF and stops the watch, but bytes that arrived
		 * before the error may still be unread. As with poll(2), report the descriptor as
		 * ready; the caller's next read or write then finds the error in order.
		 */
		events = watch->events;
		r = watch_start(watch);
		watch->fn(watch->arg, r < 0 ? 0 : events, r);
		return;
	}
	if (uv_events & UV_READABLE)
		events |= LOOP_READ;
	if (uv_events & UV_WRITABLE)
		events |= LOOP_WRITE;
	if (uv_events & UV_PRIORITIZED)
		events |= LOOP_HANGUP;
	watch->fn(watch->arg, events, 0);
}

int loop_watch_new(struct loop *loop, int fd, loop_watch_fn fn, void *arg, struct loop_watch **ret)
{
	struct loop_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	watch->fn = fn;
	watch->arg = arg;
	r = uv_poll_init(&loop->uv, &watch->uv, fd);
	if (r < 0) {
		free(watch);
		return r;
	}
	watch->uv.data = watch;
	*ret = watch;
	return 0;
}

int loop_watch_set(struct loop_watch *watch, int events)
{
	/* libuv makes two epoll_ctl() calls for every change, even if nothing changes. */
	if (watch->events == events)
		return 0;
	watch->events = events;
	if (events == 0)
		return uv_poll_stop(&watch->uv);
	return watch_start(watch);
}

void loop_watch_free(struct loop_watch *watch)
{
	if (watch)
		uv_close((uv_handle_t *)&watch->uv, on_freed);
}

int loop_defer(struct loop *loop, loop_defer_fn fn, void *arg)
{
	struct defer_queue *queue = &loop->defer;

	if (queue->count == queue->capacity) {
		size_t capacity = queue->capacity ? queue->capacity * 2 : 16;
		struct deferred *calls = realloc(queue->calls, capacity * sizeof(*calls));

		if (!calls)
			return -ENOMEM;
		queue->calls = calls;
		queue->capacity = capacity;
	}
	if (queue->count == 0)
		(void)uv_idle_start(&loop->defer_idle, on_defer_idle);
	queue->calls[queue->count++] = (struct deferred){ fn, arg };
	return 0;
}

static void on_work(uv_work_t *uv)
{
	struct loop_job *job = CONTAINER_OF(uv, struct loop_job, uv);

	job->work(job->arg);
}

static void on_work_done(uv_work_t *uv, int status)
{
	struct loop_job *job = CONTAINER_OF(uv, struct loop_job, uv);
	loop_work_fn done = job->done;
	void *arg = job->arg;

	(void)status; /* work is never cancelled */
	free(job);
	done(arg);
}

int loop_work(struct loop *loop, loop_work_fn work, loop_work_fn done, void *arg)
{
	struct loop_job *job = calloc(1, sizeof(*job));
	int r;

	if (!job)
		return -ENOMEM;
	job->work = work;
	job->done = done;
	job->arg = arg;
	r = uv_queue_work(&loop->uv, &job->uv, on_work, on_work_done);
	if (r < 0)
		free(job);
	return r;
}

static void on_signal(uv_signal_t *uv, int signum)
{
	struct loop_signal_watch *watch = CONTAINER_OF(uv, struct loop_signal_watch, uv);

	watch->fn(watch->arg, signum);
}

int loop_signal(struct loop *loop, int signum, loop_signal_fn fn, void *arg)
{
	struct loop_signal_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	watch->fn = fn;
	watch->arg = arg;
	r = uv_signal_init(&loop->uv, &watch->uv);
	if (r < 0) {
		free(watch);
		return r;
	}
	watch->uv.data = watch;
	r = uv_signal_start(&watch->uv, on_signal, signum);
	if (r < 0) {
		uv_close((uv_handle_t *)&watch->uv, on_freed);
		return r;
	}
	/* A signal watch alone does not keep the loop running. */
	uv_unref((uv_handle_t *)&watch->uv);
	watch->next = loop->signals;
	loop->signals = watch;
	return 0;
}
