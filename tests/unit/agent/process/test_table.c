/* SPDX-License-Identifier: Apache-2.0 */
/* The table of processes: lookup by id and by pid, lists in the order of start and of end. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "agent/agent.h"

#define COUNT (3 * AGENT_BUCKETS)

static struct agent agent;
static struct process processes[COUNT];

static int setup(void **state)
{
	(void)state;
	memset(&agent, 0, sizeof(agent));
	memset(processes, 0, sizeof(processes));
	for (unsigned i = 0; i < COUNT; i++) {
		processes[i].id = i + 1;
		processes[i].pid = (pid_t)(10000 + i * AGENT_BUCKETS); /* all in one bucket */
		table_add(&agent, &processes[i]);
	}
	return 0;
}

static void processes_are_found(void **state)
{
	(void)state;
	assert_int_equal(agent.process_count, COUNT);
	assert_int_equal(agent.process_live, COUNT);
	for (unsigned i = 0; i < COUNT; i++) {
		assert_ptr_equal(table_find(&agent, i + 1), &processes[i]);
		assert_ptr_equal(table_find_pid(&agent, processes[i].pid), &processes[i]);
	}
	assert_null(table_find(&agent, COUNT + 1));
	assert_null(table_find_pid(&agent, 1));
}

static void a_reaped_process_has_no_pid(void **state)
{
	struct process *p = &processes[COUNT / 2];

	(void)state;
	table_remove_pid(&agent, p);
	table_remove_pid(&agent, p); /* again: nothing happens */
	assert_int_equal(agent.process_live, COUNT - 1);
	assert_null(table_find_pid(&agent, p->pid));
	assert_ptr_equal(table_find(&agent, p->id), p);
}

static unsigned listed(void)
{
	const struct process *before = NULL;
	unsigned n = 0;

	for (const struct process *p = agent.oldest; p; before = p, p = p->newer, n++)
		assert_ptr_equal(p->older, before);
	assert_ptr_equal(agent.newest, before);
	return n;
}

static void a_hidden_process_is_not_listed(void **state)
{
	struct process *at[] = { &processes[0], &processes[COUNT - 1], &processes[5] };

	(void)state;
	for (unsigned i = 0; i < ARRAY_LEN(at); i++) {
		table_hide(&agent, at[i]);
		assert_null(table_find(&agent, at[i]->id));
		assert_ptr_equal(table_find_any(&agent, at[i]->id), at[i]);
		assert_int_equal(listed(), COUNT - 1 - i);
	}
	assert_int_equal(agent.hidden_count, 3);
	table_remove(&agent, at[2]);
	assert_null(table_find_any(&agent, at[2]->id));
	assert_int_equal(agent.hidden_count, 2);
}

static void ended_processes_keep_the_order_of_their_end(void **state)
{
	struct process *a = &processes[3], *b = &processes[1], *c = &processes[2];

	(void)state;
	table_add_ended(&agent, a);
	table_add_ended(&agent, b);
	table_add_ended(&agent, c);
	table_remove_ended(&agent, &processes[9]); /* it was never there */
	table_remove_ended(&agent, b);
	assert_ptr_equal(agent.first_ended, a);
	assert_ptr_equal(a->ended_after, c);
	assert_ptr_equal(agent.last_ended, c);
	table_remove_ended(&agent, a);
	table_remove_ended(&agent, c);
	assert_null(agent.first_ended);
	assert_null(agent.last_ended);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(processes_are_found, setup),
		cmocka_unit_test_setup(a_reaped_process_has_no_pid, setup),
		cmocka_unit_test_setup(a_hidden_process_is_not_listed, setup),
		cmocka_unit_test_setup(ended_processes_keep_the_order_of_their_end, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
