/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "net/loop.h"

static struct loop *loop;
static int calls;
static struct loop_timer *timer;
static struct loop_watch *watch;

static int setup(void **state)
{
	(void)state;
	calls = 0;
	return loop_new(&loop);
}

static int teardown(void **state)
{
	(void)state;
	loop_free(loop);
	return 0;
}

static void on_call(void *arg)
{
	(void)arg;
	calls++;
}

static void on_again(void *arg)
{
	calls++;
	if (calls < 3)
		assert_int_equal(loop_defer(loop, on_again, arg), 0);
}

static void deferred_calls_run_on_the_next_turn(void **state)
{
	(void)state;
	assert_int_equal(loop_defer(loop, on_call, NULL), 0);
	assert_int_equal(calls, 0);
	loop_turn(loop, 0);
	assert_int_equal(calls, 1);
	loop_turn(loop, 0);
	assert_int_equal(calls, 1);
}

static void a_call_deferred_inside_a_deferred_call_waits_for_another_turn(void **state)
{
	(void)state;
	assert_int_equal(loop_defer(loop, on_again, NULL), 0);
	loop_turn(loop, 0);
	assert_int_equal(calls, 1);
	loop_turn(loop, 0);
	assert_int_equal(calls, 2);
	loop_turn(loop, 0);
	assert_int_equal(calls, 3);
}

static void many_deferred_calls_all_run(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(loop_defer(loop, on_call, NULL), 0);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(calls, 1000);
}

static void calls_still_waiting_at_the_end_are_made(void **state)
{
	struct loop *other;

	(void)state;
	assert_int_equal(loop_new(&other), 0);
	assert_int_equal(loop_defer(other, on_call, NULL), 0);
	loop_free(other);
	assert_int_equal(calls, 1);
}

static void on_timer_freeing_itself(void *arg)
{
	(void)arg;
	calls++;
	loop_timer_free(timer);
}

static void a_timer_may_free_itself(void **state)
{
	(void)state;
	assert_int_equal(loop_timer_new(loop, on_timer_freeing_itself, NULL, &timer), 0);
	loop_timer_set(timer, 1, 1);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(calls, 1);
}

static void a_cleared_timer_does_not_fire(void **state)
{
	(void)state;
	assert_int_equal(loop_timer_new(loop, on_call, NULL, &timer), 0);
	loop_timer_set(timer, 1, 0);
	loop_timer_clear(timer);
	loop_turn(loop, 5);
	assert_int_equal(calls, 0);
	loop_timer_set(timer, 1, 1);
	for (int i = 0; i < 10 && calls < 3; i++)
		loop_turn(loop, 50);
	assert_true(calls >= 3);
	loop_timer_free(timer);
}

static void on_readable_freeing_itself(void *arg, int events, int error)
{
	int *fds = arg;

	assert_int_equal(error, 0);
	assert_int_equal(events, LOOP_READ);
	calls++;
	loop_watch_free(watch);
	(void)close(fds[0]);
}

static void a_watch_may_free_itself_and_close_its_descriptor(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(loop_watch_new(loop, fds[0], on_readable_freeing_itself, fds, &watch), 0);
	assert_int_equal(loop_watch_set(watch, LOOP_READ), 0);
	assert_int_equal(loop_watch_set(watch, LOOP_READ), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(calls, 1);
	(void)close(fds[1]);
}

static char last_read;

static void on_reset(void *arg, int events, int error)
{
	int *fds = arg;
	ssize_t n;

	assert_int_equal(error, 0);
	assert_true(events & LOOP_READ);
	n = read(fds[0], &last_read, 1);
	calls++;
	if (n == 1)
		return;
	loop_watch_free(watch);
}

static void bytes_before_a_reset_are_not_lost(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(loop_watch_new(loop, fds[0], on_reset, fds, &watch), 0);
	assert_int_equal(loop_watch_set(watch, LOOP_READ), 0);
	assert_int_equal(write(fds[0], "unread", 6), 6);
	assert_int_equal(write(fds[1], "y", 1), 1);
	(void)close(fds[1]); /* with unread bytes: the other side gets ECONNRESET */
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(last_read, 'y');
	assert_true(calls >= 2);
	(void)close(fds[0]);
}

static int worked;

static void on_work(void *arg)
{
	*(int *)arg = 42;
}

static void on_worked(void *arg)
{
	worked = *(int *)arg;
}

static void work_runs_elsewhere_and_done_here(void **state)
{
	int value = 0;

	(void)state;
	assert_int_equal(loop_work(loop, on_work, on_worked, &value), 0);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(worked, 42);
}

static void on_signal(void *arg, int signum)
{
	(void)arg;
	calls = signum;
	loop_stop(loop);
}

static void signals_arrive_on_the_loop(void **state)
{
	(void)state;
	assert_int_equal(loop_signal(loop, SIGUSR1, on_signal, NULL), 0);
	assert_int_equal(loop_timer_new(loop, on_call, NULL, &timer), 0);
	loop_timer_set(timer, 10000, 0);
	assert_int_equal(raise(SIGUSR1), 0);
	(void)loop_run(loop);
	assert_int_equal(calls, SIGUSR1);
	loop_timer_free(timer);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(deferred_calls_run_on_the_next_turn),
		T(a_call_deferred_inside_a_deferred_call_waits_for_another_turn),
		T(many_deferred_calls_all_run),
		T(calls_still_waiting_at_the_end_are_made),
		T(a_timer_may_free_itself),
		T(a_cleared_timer_does_not_fire),
		T(a_watch_may_free_itself_and_close_its_descriptor),
		T(bytes_before_a_reset_are_not_lost),
		T(work_runs_elsewhere_and_done_here),
		T(signals_arrive_on_the_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
