/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines of processes, on a clock that the test sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent/system/clock.h"

#define COUNT 200

static struct agent agent;
static struct process processes[COUNT];
static int64_t now_us;
static int64_t last_us; /* of the deadline that ran last */
static unsigned runs;
static bool ordered;

int64_t clock_us(void)
{
	return now_us;
}

void process_on_timer(struct agent *of, struct process *p, enum process_timer timer)
{
	int64_t due_us = (int64_t)p->id;

	assert_ptr_equal(of, &agent);
	assert_int_equal(timer, TIMER_TIMEOUT);
	assert_true(due_us <= now_us);
	ordered = ordered && due_us >= last_us;
	last_us = due_us;
	runs++;
}

static int setup(void **state)
{
	(void)state;
	memset(&agent, 0, sizeof(agent));
	memset(processes, 0, sizeof(processes));
	now_us = 1000;
	runs = 0;
	last_us = 0;
	ordered = true;
	return 0;
}

static void deadlines_run_in_their_order(void **state)
{
	(void)state;
	srand(7);
	for (unsigned i = 0; i < COUNT; i++) {
		processes[i].id = 2000 + (uint32_t)(rand() % 100000);
		timer_set(&agent, &processes[i], TIMER_TIMEOUT, processes[i].id);
	}
	for (unsigned i = 0; i < COUNT; i += 4)
		timer_clear(&agent, &processes[i], TIMER_TIMEOUT);
	timer_run(&agent);
	assert_int_equal(runs, 0);
	for (; now_us < 110000; now_us += 500)
		timer_run(&agent);
	assert_int_equal(runs, COUNT - COUNT / 4);
	assert_true(ordered);
	assert_int_equal(agent.heap_count, 0);
}

static void the_earliest_of_a_process_counts(void **state)
{
	struct process *p = &processes[0];

	(void)state;
	timer_set(&agent, p, TIMER_KEEP, 9000);
	timer_set(&agent, p, TIMER_TIMEOUT, 5000);
	assert_int_equal(agent.heap_count, 1);
	assert_int_equal(timer_sleep_ms(&agent), 4);
	timer_clear(&agent, p, TIMER_TIMEOUT);
	assert_int_equal(timer_sleep_ms(&agent), 8);
	timer_clear_all(&agent, p);
	assert_int_equal(timer_sleep_ms(&agent), -1);
}

static void the_sleep_is_rounded_up_and_bounded(void **state)
{
	struct process *p = &processes[0];

	(void)state;
	timer_set(&agent, p, TIMER_TIMEOUT, now_us + 1);
	assert_int_equal(timer_sleep_ms(&agent), 1);
	timer_set(&agent, p, TIMER_TIMEOUT, now_us - 1);
	assert_int_equal(timer_sleep_ms(&agent), 0);
	timer_set(&agent, p, TIMER_TIMEOUT, INT64_MAX / 2);
	assert_int_equal(timer_sleep_ms(&agent), 3600000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(deadlines_run_in_their_order, setup),
		cmocka_unit_test_setup(the_earliest_of_a_process_counts, setup),
		cmocka_unit_test_setup(the_sleep_is_rounded_up_and_bounded, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
