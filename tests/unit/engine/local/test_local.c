/* SPDX-License-Identifier: Apache-2.0 */
/* The local engine's directories and agents; ../test_drivers.c checks what its table promises. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "engine/host/tree.h"
#include "engine/local/local.h"

static char state_dir[32];
static struct loop *loop;
static struct engine *engine;
static struct local_settings settings;
static uint32_t flags;
static int readies;

static void on_ready(void *arg, const struct engine_capabilities *can)
{
	(void)arg;
	flags = can->flags;
	readies++;
}

static int open_engine(const char *agent_path, struct err *err)
{
	const struct engine_config config = { .loop = loop,
					      .state_dir = state_dir,
					      .agent_path = agent_path,
					      .recipes_fd = -1,
					      .settings = &settings,
					      .on_ready = on_ready };

	return engine_local.open(&config, &engine, err);
}

static int setup(void **state)
{
	(void)state;
	(void)strcpy(state_dir, "/tmp/cay-local-XXXXXX");
	engine = NULL;
	readies = 0;
	settings.proxied = false;
	return mkdtemp(state_dir) ? loop_new(&loop) : -1;
}

static int teardown(void **state)
{
	int fd = open("/tmp", O_DIRECTORY | O_RDONLY | O_CLOEXEC), r;

	(void)state;
	if (engine)
		engine_local.close(engine);
	loop_free(loop);
	r = tree_remove(fd, state_dir + strlen("/tmp/"));
	(void)close(fd);
	return r;
}

static void an_agent_that_is_missing_shows_when_it_opens(void **state)
{
	struct err err = { .code = ERR_OK };

	(void)state;
	assert_int_equal(open_engine("/no/such/agent", &err), -1);
	assert_int_equal(err.code, ERR_ENGINE_FAILED);
	assert_non_null(strstr(err.message, "/no/such/agent"));
	assert_null(engine);
}

static void a_proxy_is_a_matter_of_its_settings(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(open_engine(getenv("CAY_AGENT"), &err), 0);
	while (!readies)
		loop_turn(loop, 10);
	assert_int_equal(flags, ENGINE_SURVIVES);
	engine_local.close(engine);
	settings.proxied = true;
	assert_int_equal(open_engine(getenv("CAY_AGENT"), &err), 0);
	while (readies < 2)
		loop_turn(loop, 10);
	assert_int_equal(flags, ENGINE_SURVIVES | ENGINE_PROXIES);
}

static void a_sandbox_that_cannot_start_leaves_no_directory(void **state)
{
	struct engine_made made;
	struct err err = { .code = ERR_OK };

	(void)state;
	assert_int_equal(open_engine("/bin/sh", &err), 0);
	(void)strcpy(engine->agent_path, "/no/such/agent"); /* it went away meanwhile */
	assert_int_equal(local_make(engine, "one", &made, &err), -1);
	assert_int_equal(err.code, ERR_ENGINE_FAILED);
	assert_int_equal(faccessat(engine->root_fd, "one", F_OK, 0), -1);
	assert_null(engine->children);
	assert_int_equal(mkdirat(engine->root_fd, "two", 0700), 0);
	assert_int_equal(local_make(engine, "two", &made, &err), -1);
	assert_int_equal(err.code, ERR_CONFLICT);
	assert_int_equal(faccessat(engine->root_fd, "two", F_OK, 0),
			 0); /* which is another process */
}

static void the_living_are_dialled_and_the_dead_are_told_apart(void **state)
{
	struct engine_made made;
	int fd = -1, pidfd = -1;
	struct err err;
	pid_t pid = -1;

	(void)state;
	assert_int_equal(open_engine(getenv("CAY_AGENT"), &err), 0);
	assert_int_equal(local_dial(engine, "one", &fd, &pid, &pidfd), -ENOENT);
	assert_int_equal(mkdirat(engine->root_fd, "empty", 0700), 0);
	assert_int_equal(local_dial(engine, "empty", &fd, &pid, &pidfd), -ESRCH);
	assert_int_equal(symlinkat("empty", engine->root_fd, "link"), 0);
	assert_true(local_dial(engine, "link", &fd, &pid, &pidfd) < 0);
	assert_int_equal(local_make(engine, "one", &made, &err), 0);
	assert_int_equal(faccessat(engine->root_fd, "one/" LOCAL_WORKSPACE, F_OK, 0), 0);
	assert_non_null(engine->children);
	assert_int_equal(local_dial(engine, "one", &fd, &pid, &pidfd), 0);
	assert_int_equal(pid, engine->children->pid);
	(void)close(fd);
	assert_int_equal(tree_kill(pid, pidfd), 0);
	while (engine->children) /* its end is seen by the loop */
		loop_turn(loop, 10);
	assert_int_equal(local_dial(engine, "one", &fd, &pid, &pidfd), -ESRCH);
	(void)close(pidfd);
	engine_made_close(&made);
}

static struct err answer;
static int answers;

static void on_made(void *arg, const struct engine_made *made, const struct err *err)
{
	(void)arg;
	assert_int_equal(made->channel.fd, -1);
	answer = *err;
	answers++;
}

static void names_that_are_no_host_labels_are_rejected(void **state)
{
	static const char *const bad[] = { "", "..", "a/b", "A", "-a" };
	struct err err;

	(void)state;
	assert_int_equal(open_engine(getenv("CAY_AGENT"), &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		err.code = ERR_OK;
		assert_int_equal(engine_local.attach(engine, bad[i], on_made, NULL, &err), -1);
		assert_int_equal(err.code, ERR_INVALID_REQUEST);
	}
	answers = 0;
	assert_int_equal(engine_local.attach(engine, "missing", on_made, NULL, &err), 0);
	assert_int_equal(answers, 0);
	while (!answers)
		loop_turn(loop, 10);
	assert_int_equal(answer.code, ERR_SANDBOX_NOT_FOUND);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(an_agent_that_is_missing_shows_when_it_opens),
		T(a_proxy_is_a_matter_of_its_settings),
		T(a_sandbox_that_cannot_start_leaves_no_directory),
		T(the_living_are_dialled_and_the_dead_are_told_apart),
		T(names_that_are_no_host_labels_are_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
