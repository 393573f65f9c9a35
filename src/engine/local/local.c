/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local engine: the agent runs on the host itself, in a directory of its own, as the user cayd
 * runs as. For debugging cay without root and without namespaces; it isolates nothing.
 *
 *   <state>/local/ID/agent.sock   where the agent listens; outlives cayd
 *   <state>/local/ID/workspace/   the default working directory
 */
#include "engine/local/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "engine/local/tree.h"

/* One operation on its way; owned by the loop until it completed. Holds no pointer to the engine.
 */
struct local_call {
	char id[ENGINE_ID_MAX + 1];
	int root_fd;
	pid_t pid; /* 0: no agent lives */
	int pidfd;
	int result; /* -errno of the work */
	struct engine_made made;
	struct engine_stat stat;
	struct err err;
	engine_made_fn on_made;
	engine_dialed_fn on_dialed;
	engine_done_fn on_done;
	engine_stat_fn on_stat;
	engine_list_fn on_each;
	void *arg;
};

static void call_free(struct local_call *call)
{
	if (call->root_fd >= 0)
		(void)close(call->root_fd);
	if (call->pidfd >= 0)
		(void)close(call->pidfd);
	free(call);
}

static struct local_call *call_new(const struct engine *engine, const char *id, void *arg,
				   struct err *err)
{
	struct local_call *call;

	if (id && !str_is_name(str_of(id), ENGINE_ID_MAX)) {
		(void)err_set(err, ERR_INVALID_REQUEST, "id: a host label is needed");
		return NULL;
	}
	call = calloc(1, sizeof(*call));
	if (call) {
		call->arg = arg;
		call->pidfd = -1;
		call->made = (struct engine_made){ .channel = CHANNEL_NONE, .watch_fd = -1 };
		call->root_fd = fcntl(engine->root_fd, F_DUPFD_CLOEXEC, 3);
		(void)snprintf(call->id, sizeof(call->id), "%s", id ? id : "");
	}
	if (!call || call->root_fd < 0) {
		free(call);
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory or descriptors");
		return NULL;
	}
	return call;
}

static void drop_made(struct engine_made *made)
{
	engine_made_close(made);
	*made = (struct engine_made){ .channel = CHANNEL_NONE, .watch_fd = -1 };
}

static int out_of_memory(struct local_call *call, struct err *err)
{
	call_free(call);
	return err_set(err, ERR_UNAVAILABLE, "out of memory");
}

static void on_ready(void *arg)
{
	struct engine *engine = arg;
	struct engine_capabilities can = { .flags = ENGINE_SURVIVES |
						    (engine->proxied ? ENGINE_PROXIES : 0) };

	loop_timer_free(TAKE_PTR(engine->ready_timer));
	engine->on_ready(engine->ready_arg, &can);
}

static void local_close(struct engine *engine)
{
	loop_timer_free(engine->ready_timer);
	local_reap_all(engine);
	if (engine->root_fd >= 0)
		(void)close(engine->root_fd);
	free(engine);
}

static int local_open(const struct engine_config *config, struct engine **ret, struct err *err)
{
	const struct local_settings *settings = config->settings;
	struct engine *engine = calloc(1, sizeof(*engine));
	char path[PATH_MAX];

	if (!engine)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	engine->loop = config->loop;
	engine->streams = config->streams;
	engine->proxied = settings && settings->proxied;
	engine->on_ready = config->on_ready;
	engine->ready_arg = config->arg;
	engine->root_fd = -1;
	(void)snprintf(path, sizeof(path), "%s/local", config->state_dir);
	if ((mkdir(path, 0700) < 0 && errno != EEXIST) || !realpath(path, engine->root) ||
	    !realpath(config->agent_path, engine->agent_path))
		goto fail;
	if (!config->tools_path || !realpath(config->tools_path, engine->tools_path))
		engine->tools_path[0] = '\0';
	engine->root_fd = open(engine->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (engine->root_fd < 0 ||
	    loop_timer_new(config->loop, on_ready, engine, &engine->ready_timer) < 0)
		goto fail;
	loop_timer_set(engine->ready_timer, 0, 0);
	*ret = engine;
	return 0;
fail:
	(void)err_set_errno(err, ERR_ENGINE_FAILED, errno, "cannot use %s or %s", path,
			    config->agent_path);
	local_close(engine);
	return -1;
}

static void tell_made(void *arg)
{
	struct local_call *call = arg;

	call->on_made(call->arg, &call->made, call->err.code ? &call->err : NULL);
	call_free(call);
}

static int local_create(struct engine *engine, const struct engine_spec *spec, engine_made_fn done,
			void *arg, struct err *err)
{
	struct local_call *call = call_new(engine, spec->id, arg, err);

	if (!call)
		return -1;
	call->on_made = done;
	if (loop_defer(engine->loop, tell_made, call) < 0)
		return out_of_memory(call, err);
	/* What goes wrong is in call->err and told with the completion. */
	if (local_make(engine, call->id, &call->made, &call->err) < 0)
		call->made = (struct engine_made){ .channel = CHANNEL_NONE, .watch_fd = -1 };
	return 0;
}

/* Finds the agent of call->id among those we follow. */
static int find_agent(struct engine *engine, struct local_call *call)
{
	for (struct local_child *c = engine->children; c; c = c->next) {
		if (!str_is(str_of(c->id), call->id))
			continue;
		call->pid = c->pid;
		call->pidfd = fcntl(c->pidfd, F_DUPFD_CLOEXEC, 3);
		return call->pidfd < 0 ? -errno : 0;
	}
	return -ENOENT;
}

/* Connects to the agent; what goes wrong is in call->err. */
static void reach(struct engine *engine, struct local_call *call)
{
	pid_t pid;
	int r = local_dial(engine, call->id, &call->made.channel.fd, &pid, &call->made.watch_fd);

	call->made.channel.passes_descriptors = !engine->streams;
	if (r == 0 && find_agent(engine, call) < 0)
		r = local_follow(engine, call->id, pid);
	if (r == -ENOENT)
		(void)err_set(&call->err, ERR_SANDBOX_NOT_FOUND, "no sandbox %s", call->id);
	else if (r == -ESRCH)
		(void)err_set(&call->err, ERR_SANDBOX_GONE, "the agent of %s is dead", call->id);
	else if (r < 0)
		(void)err_set_errno(&call->err, ERR_ENGINE_FAILED, -r, "cannot reach %s", call->id);
	if (r < 0)
		drop_made(&call->made);
}

static int local_attach(struct engine *engine, const char *id, engine_made_fn done, void *arg,
			struct err *err)
{
	struct local_call *call = call_new(engine, id, arg, err);

	if (!call)
		return -1;
	call->on_made = done;
	if (loop_defer(engine->loop, tell_made, call) < 0)
		return out_of_memory(call, err);
	reach(engine, call);
	return 0;
}

static void tell_dialed(void *arg)
{
	struct local_call *call = arg;

	call->on_dialed(call->arg, &call->made.channel, call->err.code ? &call->err : NULL);
	if (call->made.watch_fd >= 0)
		(void)close(call->made.watch_fd);
	call_free(call);
}

static int local_redial(struct engine *engine, const char *id, engine_dialed_fn done, void *arg,
			struct err *err)
{
	struct local_call *call = call_new(engine, id, arg, err);

	if (!call)
		return -1;
	call->on_dialed = done;
	if (loop_defer(engine->loop, tell_dialed, call) < 0)
		return out_of_memory(call, err);
	reach(engine, call);
	return 0;
}

/* One of an earlier daemon; the connection it takes to learn the pid is not kept. */
static int find_foreign_agent(struct engine *engine, struct local_call *call)
{
	_cleanup_close_ int fd = -1;

	return local_dial(engine, call->id, &fd, &call->pid, &call->pidfd);
}

static void destroy_work(void *arg)
{
	struct local_call *call = arg;

	if (call->pid)
		call->result = tree_kill(call->pid, call->pidfd);
	if (call->result == 0)
		call->result = tree_remove(call->root_fd, call->id);
}

static void destroy_done(void *arg)
{
	struct local_call *call = arg;

	if (call->result < 0)
		(void)err_set_errno(&call->err, ERR_ENGINE_FAILED, -call->result,
				    "cannot remove sandbox %s", call->id);
	call->on_done(call->arg, call->result < 0 ? &call->err : NULL);
	call_free(call);
}

static int local_destroy(struct engine *engine, const char *id, engine_done_fn done, void *arg,
			 struct err *err)
{
	struct local_call *call = call_new(engine, id, arg, err);
	int r;

	if (!call)
		return -1;
	call->on_done = done;
	r = find_agent(engine, call);
	if (r < 0)
		r = find_foreign_agent(engine, call);
	if (r < 0)
		call->pid = 0;
	if (loop_work(engine->loop, destroy_work, destroy_done, call) < 0)
		return out_of_memory(call, err);
	return 0;
}

static void stat_work(void *arg)
{
	struct local_call *call = arg;
	struct tree_usage usage;

	if (!call->pid || tree_usage(call->pid, &usage) < 0)
		return;
	call->stat = (struct engine_stat){ .alive = true,
					   .pids = usage.pids,
					   .memory_bytes = usage.memory_bytes,
					   .cpu_us = usage.cpu_us };
}

static void stat_done(void *arg)
{
	struct local_call *call = arg;

	call->on_stat(call->arg, &call->stat, call->err.code ? &call->err : NULL);
	call_free(call);
}

static int local_stat(struct engine *engine, const char *id, engine_stat_fn done, void *arg,
		      struct err *err)
{
	struct local_call *call = call_new(engine, id, arg, err);
	struct stat st;

	if (!call)
		return -1;
	call->on_stat = done;
	if (fstatat(engine->root_fd, id, &st, AT_SYMLINK_NOFOLLOW) < 0)
		(void)err_set(&call->err, ERR_SANDBOX_NOT_FOUND, "no sandbox %s", id);
	else if (find_agent(engine, call) < 0) {
		char socket_path[ENGINE_ID_MAX + 16];

		/* To dial would replace the daemon's connection; the file's presence must do. */
		(void)snprintf(socket_path, sizeof(socket_path), "%s/" LOCAL_SOCKET, id);
		call->stat.alive = faccessat(engine->root_fd, socket_path, F_OK, 0) == 0;
	}
	if (loop_work(engine->loop, stat_work, stat_done, call) < 0)
		return out_of_memory(call, err);
	return 0;
}

static void tell_list(void *arg)
{
	struct local_call *call = arg;
	int fd = openat(call->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;

	if (!dir) {
		(void)err_set_errno(&call->err, ERR_ENGINE_FAILED, errno, "cannot list sandboxes");
		if (fd >= 0)
			(void)close(fd);
	}
	while (dir && (d = readdir(dir)))
		if (str_is_name(str_of(d->d_name), ENGINE_ID_MAX))
			call->on_each(call->arg, d->d_name, NULL);
	if (dir)
		(void)closedir(dir);
	call->on_each(call->arg, NULL, call->err.code ? &call->err : NULL);
	call_free(call);
}

static int local_list(struct engine *engine, engine_list_fn each, void *arg, struct err *err)
{
	struct local_call *call = call_new(engine, NULL, arg, err);

	if (!call)
		return -1;
	call->on_each = each;
	if (loop_defer(engine->loop, tell_list, call) < 0)
		return out_of_memory(call, err);
	return 0;
}

static const struct setting settings_of_local[] = {
	SETTING_ROW_BOOL(local_settings, proxied, "false",
			 "its agents listen on 127.0.0.1:3128 as proxies to the outside"),
};

const struct engine_driver engine_local = {
	.name = "local",
	.label = "no isolation: programs run directly on this host as the daemon's user",
	.warning =
		"NO ISOLATION: the local engine runs every command directly on this host, as the "
		"daemon's own user, with its files and its network. For debugging only; never "
		"give it code you would not run yourself.",
	.doc = "no isolation at all: for debugging only",
	.enable = "cay up --engine-local",
	.demands = ENGINE_DEMANDS_EXEC | ENGINE_DEMANDS_PROC_SELF,
	.settings = settings_of_local,
	.setting_count = ARRAY_LEN(settings_of_local),
	.settings_size = sizeof(struct local_settings),
	.open = local_open,
	.close = local_close,
	.create = local_create,
	.attach = local_attach,
	.dial = local_redial,
	.destroy = local_destroy,
	.stat = local_stat,
	.list = local_list,
};
