/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local engine: the agent runs on the host itself, in its own directory, as the user of cayd.
 * It is for debugging cay without root and without namespaces; it isolates nothing.
 * - <state>/local/ID/agent.sock: where the agent listens; outlives cayd
 * - <state>/local/ID/workspace/: the default working directory
 */
#include "engine/local/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "engine/host/tree.h"

/* One operation in progress; owned by the loop until it completes. Has no pointer to the engine. */
struct local_call {
	char id[ENGINE_ID_MAX + 1];
	int root_fd;
	pid_t pid; /* 0: no agent is running */
	int pidfd;
	int result; /* -errno of the work */
	struct engine_stat stat;
	struct err err;
	engine_done_fn on_done;
	engine_stat_fn on_stat;
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

static int check_id(const char *id, struct err *err)
{
	if (str_is_name(str_of(id), ENGINE_ID_MAX))
		return 0;
	return err_set(err, ERR_INVALID_REQUEST, "id: a host label is needed");
}

static struct local_call *call_new(const struct engine *engine, const char *id, void *arg,
				   struct err *err)
{
	struct local_call *call;

	if (check_id(id, err) < 0)
		return NULL;
	call = calloc(1, sizeof(*call));
	if (call) {
		call->arg = arg;
		call->pidfd = -1;
		call->root_fd = fcntl(engine->root_fd, F_DUPFD_CLOEXEC, 3);
		(void)snprintf(call->id, sizeof(call->id), "%s", id);
	}
	if (!call || call->root_fd < 0) {
		free(call);
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory or descriptors");
		return NULL;
	}
	return call;
}

static int out_of_memory(struct local_call *call, struct err *err)
{
	call_free(call);
	return err_set(err, ERR_UNAVAILABLE, "out of memory");
}

static void local_close(struct engine *engine)
{
	deferred_ready_stop(&engine->ready);
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
	engine->root_fd = -1;
	(void)snprintf(path, sizeof(path), "%s/local", config->state_dir);
	if ((mkdir(path, 0700) < 0 && errno != EEXIST) || !realpath(path, engine->root) ||
	    !realpath(config->agent_path, engine->agent_path))
		goto fail;
	if (!config->tools_path || !realpath(config->tools_path, engine->tools_path))
		engine->tools_path[0] = '\0';
	engine->root_fd = open(engine->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (engine->root_fd < 0 ||
	    deferred_ready_start(&engine->ready, config,
				 ENGINE_SURVIVES | (engine->proxied ? ENGINE_PROXIES : 0)) < 0)
		goto fail;
	*ret = engine;
	return 0;
fail:
	(void)err_set_errno(err, ERR_ENGINE_FAILED, errno, "cannot use %s or %s", path,
			    config->agent_path);
	local_close(engine);
	return -1;
}

static int local_create(struct engine *engine, const struct engine_spec *spec, engine_made_fn done,
			void *arg, struct err *err)
{
	struct engine_made made = { .channel = CHANNEL_NONE, .watch_fd = -1 };
	struct err result = { .code = ERR_OK };

	if (check_id(spec->id, err) < 0)
		return -1;
	if (local_make(engine, spec->id, &made, &result) < 0)
		made = (struct engine_made){ .channel = CHANNEL_NONE, .watch_fd = -1 };
	return deferred_made(engine->loop, done, arg, &made, &result, err);
}

static struct local_child *find_child(struct engine *engine, const char *id)
{
	struct local_child *c = engine->children;

	while (c && !str_is(str_of(c->id), id))
		c = c->next;
	return c;
}

/* Finds the agent of call->id among those we know. */
static int find_agent(struct engine *engine, struct local_call *call)
{
	const struct local_child *c = find_child(engine, call->id);

	if (!c)
		return -ENOENT;
	call->pid = c->pid;
	call->pidfd = fcntl(c->pidfd, F_DUPFD_CLOEXEC, 3);
	return call->pidfd < 0 ? -errno : 0;
}

/* Connects to the agent; an error is in result. */
static struct engine_made reach(struct engine *engine, const char *id, struct err *result)
{
	struct engine_made made = { .channel = { -1, !engine->streams }, .watch_fd = -1 };
	pid_t pid;
	int r = local_dial(engine, id, &made.channel.fd, &pid, &made.watch_fd);

	result->code = ERR_OK;
	if (r == 0 && !find_child(engine, id))
		r = local_follow(engine, id, pid);
	if (r == 0)
		return made;
	engine_made_close(&made);
	if (r == -ENOENT)
		(void)err_set(result, ERR_SANDBOX_NOT_FOUND, "no sandbox %s", id);
	else if (r == -ESRCH)
		(void)err_set(result, ERR_SANDBOX_GONE, "the agent of %s is dead", id);
	else
		(void)err_set_errno(result, ERR_ENGINE_FAILED, -r, "cannot reach %s", id);
	return (struct engine_made){ .channel = CHANNEL_NONE, .watch_fd = -1 };
}

static int local_attach(struct engine *engine, const char *id, engine_made_fn done, void *arg,
			struct err *err)
{
	struct engine_made made;
	struct err result;

	if (check_id(id, err) < 0)
		return -1;
	made = reach(engine, id, &result);
	return deferred_made(engine->loop, done, arg, &made, &result, err);
}

static int local_redial(struct engine *engine, const char *id, engine_dialed_fn done, void *arg,
			struct err *err)
{
	struct engine_made made;
	struct err result;

	if (check_id(id, err) < 0)
		return -1;
	made = reach(engine, id, &result);
	if (made.watch_fd >= 0)
		(void)close(made.watch_fd);
	return deferred_dialed(engine->loop, done, arg, &made.channel, &result, err);
}

/* An agent of an earlier daemon; the connection by which the pid is found is not kept. */
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
	const struct err gone_already = { .code = ERR_OK };
	struct local_call *call = call_new(engine, id, arg, err);
	struct stat st;
	int r;

	if (!call)
		return -1;
	if (fstatat(engine->root_fd, id, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT) {
		call_free(call);
		return deferred_done(engine->loop, done, arg, &gone_already, err);
	}
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
	char socket_path[ENGINE_ID_MAX + 16];
	struct err result;
	struct stat st;

	if (!call)
		return -1;
	if (fstatat(engine->root_fd, id, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		call_free(call);
		(void)err_set(&result, ERR_SANDBOX_NOT_FOUND, "no sandbox %s", id);
		return deferred_stat(engine->loop, done, arg, &(struct engine_stat){ 0 }, &result,
				     err);
	}
	call->on_stat = done;
	if (find_agent(engine, call) < 0) {
		/*
		 * Dialling would replace the daemon's connection, so only the file's existence is
		 * checked.
		 */
		(void)snprintf(socket_path, sizeof(socket_path), "%s/" LOCAL_SOCKET, id);
		call->stat.alive = faccessat(engine->root_fd, socket_path, F_OK, 0) == 0;
	}
	if (loop_work(engine->loop, stat_work, stat_done, call) < 0)
		return out_of_memory(call, err);
	return 0;
}

static int local_list(struct engine *engine, engine_list_fn each, void *arg, struct err *err)
{
	int fd = openat(engine->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct deferred_list *names;
	const struct dirent *d;

	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return err_set_errno(err, ERR_ENGINE_FAILED, errno, "cannot list sandboxes");
	}
	names = deferred_list(engine->loop, each, arg, err);
	while (names && (d = readdir(dir)))
		if (str_is_name(str_of(d->d_name), ENGINE_ID_MAX))
			deferred_list_add(names, d->d_name);
	(void)closedir(dir);
	return names ? 0 : -1;
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
