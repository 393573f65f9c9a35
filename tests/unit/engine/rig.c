/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/time.h"

#define RESULT_MAX_BYTES (64U << 20)

void rig_init(struct rig *rig)
{
	*rig = (struct rig){ .agent_pid = -1, .listen_fd = -1 };
	assert_int_equal(loop_new(&rig->loop), 0);
}

void rig_done(struct rig *rig)
{
	rig_drop_link(rig);
	if (rig->agent_pid > 0)
		rig_stop_agent(rig);
	loop_turn(rig->loop, 0);
	loop_free(rig->loop);
}

static void on_ready(void *arg)
{
	((struct rig *)arg)->ready = true;
}

static void on_gone(void *arg, const struct err *why)
{
	struct rig *rig = arg;

	assert_false(rig->gone);
	rig->gone = true;
	rig->why = *why;
}

static void on_egress(void *arg, int fd)
{
	struct rig *rig = arg;

	if (rig->egress_fd > 0)
		(void)close(rig->egress_fd);
	rig->egress_fd = fd;
	rig->egress = true;
}

void rig_adopt(struct rig *rig, int fd, int hello_timeout_ms)
{
	static const struct link_hooks hooks = { .on_ready = on_ready,
						 .on_gone = on_gone,
						 .on_egress = on_egress };
	const struct channel channel = { fd, !rig->streams };
	struct err err;

	rig->ready = rig->gone = false;
	assert_int_equal(
		link_new(rig->loop, &channel, hello_timeout_ms, &hooks, rig, &rig->link, &err), 0);
}

void rig_drop_link(struct rig *rig)
{
	link_free(rig->link);
	rig->link = NULL;
	loop_turn(rig->loop, 0);
}

int64_t rig_limit_us(int timeout_ms)
{
	const char *slack = getenv("CAY_TEST_SLACK");
	long times = slack ? strtol(slack, NULL, 10) : 0;

	return timeout_ms * 1000LL * (times > 0 ? times : 4);
}

bool rig_wait(struct rig *rig, const bool *flag, int timeout_ms)
{
	int64_t until_us = time_mono_us() + rig_limit_us(timeout_ms);

	while (!*flag && time_mono_us() < until_us)
		loop_turn(rig->loop, 10);
	return *flag;
}

void rig_spawn_agent(struct rig *rig, const char *const *options)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const char *argv[16] = { getenv("CAY_AGENT") };
	int n = 1;

	assert_non_null(argv[0]);
	while (options && *options)
		argv[n++] = *options++;
	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "/tmp/cay-rig-%d.sock", getpid());
	memcpy(rig->sock_path, addr.sun_path, sizeof(rig->sock_path));
	(void)unlink(addr.sun_path);
	rig->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(rig->listen_fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(rig->listen_fd, 16), 0);
	rig->agent_pid = fork();
	if (rig->agent_pid == 0) {
		(void)dup2(rig->listen_fd, 3);
		(void)fcntl(3, F_SETFD, 0);
		(void)setsid();
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(126);
	}
}

void rig_start_agent(struct rig *rig, const char *const *options)
{
	rig_spawn_agent(rig, options);
	rig_adopt(rig, rig_connect(rig), 5000);
	assert_true(rig_wait(rig, &rig->ready, RIG_PATIENCE_MS));
}

int rig_connect(struct rig *rig)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(addr.sun_path, rig->sock_path, sizeof(addr.sun_path));
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

void rig_stop_agent(struct rig *rig)
{
	(void)kill(rig->agent_pid, SIGKILL);
	(void)waitpid(rig->agent_pid, NULL, 0);
	(void)close(rig->listen_fd);
	(void)unlink(rig->sock_path);
	rig->agent_pid = -1;
}

static void on_done(void *arg, const struct link_result *result, const struct err *error)
{
	struct rig_result *r = arg;

	r->deliveries++;
	r->result = *result;
	r->err = error ? *error : (struct err){ .code = ERR_OK };
	assert_int_equal(buf_append(&r->out, result->out.p, result->out.n), 0);
	assert_int_equal(buf_append(&r->errs, result->err.p, result->err.n), 0);
	assert_int_equal(buf_putc(&r->out, '\0'), 0); /* so that tests can compare strings */
	assert_int_equal(buf_putc(&r->errs, '\0'), 0);
}

void rig_exec(struct rig *rig, const struct link_exec *exec, struct rig_result *result)
{
	struct err err = { 0 };

	*result = (struct rig_result){ 0 };
	buf_init(&result->out, RESULT_MAX_BYTES);
	buf_init(&result->errs, RESULT_MAX_BYTES);
	if (link_exec(rig->link, exec, on_done, result, &result->process_id, &err) < 0)
		fail_msg("link_exec: %s", err.message);
}

void rig_wait_exec(struct rig *rig, struct rig_result *result, int timeout_ms)
{
	int64_t until_us = time_mono_us() + rig_limit_us(timeout_ms);

	while (!result->deliveries && time_mono_us() < until_us)
		loop_turn(rig->loop, 10);
	assert_int_equal(result->deliveries, 1);
}

void rig_run(struct rig *rig, const struct link_exec *exec, struct rig_result *result)
{
	rig_exec(rig, exec, result);
	rig_wait_exec(rig, result, 20000);
}

void rig_sh(struct rig *rig, const char *script, struct rig_result *result)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	struct link_exec exec = { .argv = argv, .cwd = "/tmp", .output_max_bytes = 1U << 20 };

	rig_run(rig, &exec, result);
}

void rig_result_done(struct rig_result *result)
{
	buf_done(&result->out);
	buf_done(&result->errs);
}
