/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link of a sandbox: established at creation, and again after a restart or a broken connection.
 * When a link is lost, the engine is asked whether the sandbox is dead, because only the engine can
 * distinguish that from a broken link.
 */
#include <errno.h>

#include "base/log.h"
#include "service/sandbox/attach_internal.h"
#include "service/create/create_internal.h"
#include "service/network/egress_internal.h"
#include "service/sandbox/destroy_internal.h"
#include "service/copy/transition_internal.h"
#include "service/pool/pool_internal.h"
#include "service/network/preview_internal.h"
#include "service/network/trust_internal.h"
#include "service/run/process_internal.h"

#define HELLO_TIMEOUT_MS 10000
#define ATTACH_TRIES_MAX 5 /* consecutive broken links; then the sandbox counts as crashed */

void attach_drop_link(struct sandbox *sandbox)
{
	link_free(TAKE_PTR(sandbox->link));
	loop_watch_free(sandbox->watch);
	sandbox->watch = NULL;
	if (sandbox->watch_fd >= 0)
		(void)close(sandbox->watch_fd);
	sandbox->watch_fd = -1;
}

static void on_death_stat(void *arg, const struct engine_stat *stat, const struct err *err)
{
	struct sandbox *sandbox = op_end_sandbox(arg);

	if (!sandbox)
		return;
	sandbox->death_op = NULL;
	if (!sandbox_up(sandbox) && sandbox_state(sandbox) != SANDBOX_PAUSED)
		return;
	if (sandbox_state(sandbox) == SANDBOX_PAUSED &&
	    (sandbox_is_hibernated(sandbox) || (!err && stat->alive)))
		return; /* frozen or hibernated: linked again when it is resumed */
	if (err) {
		if (sandbox->engine->lost)
			return; /* asked again when the engine is back */
		destroy_died(sandbox, REASON_ENGINE_LOST, err->message);
	} else if (stat->alive && sandbox->attach_tries < ATTACH_TRIES_MAX) {
		attach_start(sandbox);
	} else if (stat->oom_killed) {
		destroy_died(sandbox, REASON_OOM, "the memory limit killed the sandbox");
	} else {
		destroy_died(sandbox, REASON_CRASH, "the sandbox's first process ended");
	}
}

static void ask_how_it_died(struct sandbox *sandbox)
{
	struct service_engine *engine = sandbox->engine;
	struct err err;

	if (sandbox->death_op || sandbox->attach_op)
		return;
	sandbox->death_op = op_new(sandbox->service, sandbox->handle, &err);
	if (!sandbox->death_op)
		return;
	if (instance_stat(&engine->instance, sandbox->id, on_death_stat, sandbox->death_op, &err) ==
	    0)
		return;
	(void)op_end(TAKE_PTR(sandbox->death_op));
	if (!engine->lost)
		destroy_died(sandbox, REASON_ENGINE_LOST, err.message);
}

void attach_said_hello(struct sandbox *sandbox)
{
	if (sandbox_state(sandbox) == SANDBOX_PROVISIONING)
		create_ready(sandbox);
	else
		resume_ready(sandbox);
}

void attach_failed(struct sandbox *sandbox, const struct err *why)
{
	if (sandbox_state(sandbox) == SANDBOX_PROVISIONING)
		create_failed(sandbox, why);
	else
		resume_failed(sandbox, why);
}

static void on_link_ready(void *arg)
{
	struct sandbox *sandbox = arg;

	link_skip_processes(sandbox->link, sandbox->begun_process_id);
	if (sandbox_state(sandbox) == SANDBOX_PROVISIONING ||
	    sandbox_state(sandbox) == SANDBOX_PAUSED) {
		if (!sandbox_is_copy(sandbox) || fork_hook_start(sandbox) < 0)
			attach_said_hello(sandbox);
		return;
	}
	sandbox->attach_tries = 0;
	sandbox->proven_ms = 0;
	if (!sandbox->pooled)
		sandbox->running =
			RUNNING_UNKNOWN; /* only the agent knows the processes that already run */
	if (sandbox->pooled) {
		pool_adopt(sandbox);
	} else {
		exit_watch_check(sandbox);
		ready_there(sandbox);
	}
}

static void on_link_egress(void *arg, int fd)
{
	egress_offered(arg, fd);
}

static void on_link_port(void *arg, const struct link_port *port, bool opened)
{
	port_told(arg, port, opened);
}

static void on_link_gone(void *arg, const struct err *why)
{
	struct sandbox *sandbox = arg;
	struct err copy;

	if (why)
		copy = *why;
	else
		(void)err_set(&copy, ERR_SANDBOX_GONE, "the agent closed the connection");
	if (sandbox_state(sandbox) == SANDBOX_RUNNING && !sandbox->pooled)
		link_free(TAKE_PTR(
			sandbox->link)); /* its process is still watched: see attach_start() */
	else
		attach_drop_link(sandbox);
	if (sandbox_state(sandbox) == SANDBOX_PROVISIONING) {
		if (copy.code != ERR_BOOT_FAILED)
			copy.code = ERR_BOOT_FAILED;
		create_failed(sandbox, &copy);
	} else if (sandbox_is_hibernated(sandbox)) {
		resume_failed(sandbox, &copy);
	} else if (sandbox->pooled) {
		destroy_died(sandbox, REASON_CRASH, copy.message);
	} else {
		ask_how_it_died(sandbox);
	}
}

static void on_watch(void *arg, int events, int error)
{
	struct sandbox *sandbox = arg;

	(void)events;
	(void)error;
	/* The pidfd stays readable, so the watch would fire again. */
	loop_watch_free(sandbox->watch);
	sandbox->watch = NULL;
	if (sandbox_state(sandbox) == SANDBOX_PROVISIONING || sandbox_is_hibernated(sandbox))
		return; /* the link reports the loss with its reason */
	if (sandbox->pooled)
		destroy_died(sandbox, REASON_CRASH, "the sandbox's first process ended");
	else
		ask_how_it_died(sandbox);
}

static int new_link(struct sandbox *sandbox, const struct channel *channel, struct err *err)
{
	static const struct link_hooks hooks = { .on_ready = on_link_ready,
						 .on_gone = on_link_gone,
						 .on_port = on_link_port,
						 .on_egress = on_link_egress };

	return link_new(sandbox->service->config.loop, channel, HELLO_TIMEOUT_MS, &hooks, sandbox,
			&sandbox->link, err);
}

int attach_link(struct sandbox *sandbox, const struct engine_made *made, struct err *err)
{
	struct loop *loop = sandbox->service->config.loop;

	attach_drop_link(sandbox);
	egress_attached(sandbox, &made->network);
	sandbox->trust = TRUST_ABSENT; /* its files may have been replaced */
	sandbox->watch_fd = made->watch_fd;
	if (new_link(sandbox, &made->channel, err) < 0)
		return -1;
	if (made->watch_fd < 0)
		return 0;
	if (loop_watch_new(loop, made->watch_fd, on_watch, sandbox, &sandbox->watch) < 0 ||
	    loop_watch_set(sandbox->watch, LOOP_READ) < 0)
		return err_set(err, ERR_UNAVAILABLE, "the sandbox cannot be watched");
	return 0;
}

/* The sandbox that the engine's reply is for. NULL: the caller drops what the reply contains. */
static struct sandbox *attached(struct op *op)
{
	struct sandbox *sandbox = op_end_sandbox(op);

	if (sandbox)
		sandbox->attach_op = NULL;
	/* A frozen agent cannot send HELLO; it is linked when the sandbox is resumed. */
	return sandbox && sandbox_up(sandbox) ? sandbox : NULL;
}

static void not_attached(struct sandbox *sandbox, const struct err *err)
{
	if (sandbox->engine->lost)
		return;
	if (sandbox->attach_tries >= ATTACH_TRIES_MAX)
		destroy_died(sandbox, REASON_ENGINE_LOST, err->message);
	else
		ask_how_it_died(sandbox);
}

static void on_attached(void *arg, const struct engine_made *made, const struct err *err)
{
	struct sandbox *sandbox = attached(arg);
	struct err link_err;

	if (!sandbox) {
		if (!err)
			engine_made_close(made);
		return;
	}
	if (!err && attach_link(sandbox, made, &link_err) < 0)
		err = &link_err;
	if (err)
		not_attached(sandbox, err);
}

static void on_dialed(void *arg, const struct channel *channel, const struct err *err)
{
	struct sandbox *sandbox = attached(arg);
	struct err link_err;

	if (!sandbox || sandbox->link) {
		channel_close(channel);
		return;
	}
	if (!err && new_link(sandbox, channel, &link_err) < 0)
		err = &link_err;
	if (err)
		not_attached(sandbox, err);
}

/* If the process is still watched, only the link was lost and it is dialled again. Otherwise the
 * engine has to find the sandbox first. */
void attach_start(struct sandbox *sandbox)
{
	struct service_engine *engine = sandbox->engine;
	struct err err;
	struct op *op;
	int r;

	if (sandbox->attach_op)
		return;
	sandbox->attach_tries++;
	op = op_new(sandbox->service, sandbox->handle, &err);
	if (!op)
		return;
	sandbox->attach_op = op;
	if (sandbox->watch && !sandbox->link)
		r = instance_dial(&engine->instance, sandbox->id, on_dialed, op, &err);
	else
		r = instance_attach(&engine->instance, sandbox->id, on_attached, op, &err);
	if (r == 0)
		return;
	(void)op_end(TAKE_PTR(sandbox->attach_op));
	if (!engine->lost)
		destroy_died(sandbox, REASON_ENGINE_LOST, err.message);
}
