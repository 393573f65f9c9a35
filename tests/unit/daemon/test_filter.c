/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's own filter: what injected code would need is refused. Each case is a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/isolate.h"

static bool may_map(int protection)
{
	void *page = mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return page != MAP_FAILED;
}

static bool may_protect(int protection)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return page != MAP_FAILED && mprotect(page, 4096, protection) == 0;
}

/* Whether the call works in a process that locked itself in. */
static bool works(bool (*call)(int protection), int protection)
{
	int status;
	pid_t pid = fork();
	struct err err;

	if (pid == 0) {
		if (isolate_lock_down(&err) < 0 || isolate_filter(false, &err) < 0)
			_exit(2);
		_exit(call(protection) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WEXITSTATUS(status) == 0;
}

static void memory_that_runs_is_refused(void **state)
{
	assert_true(works(may_map, PROT_READ | PROT_WRITE));
	assert_true(works(may_map, PROT_NONE));
	assert_false(works(may_map, PROT_READ | PROT_EXEC));
	assert_false(works(may_map, PROT_READ | PROT_WRITE | PROT_EXEC));
	assert_true(works(may_protect, PROT_READ));
	assert_false(works(may_protect, PROT_READ | PROT_EXEC));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(memory_that_runs_is_refused) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
