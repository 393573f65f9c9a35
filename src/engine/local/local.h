/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the local engine: the agents it started, and connecting to one by its socket. */
#ifndef CAY_ENGINE_LOCAL_LOCAL_H
#define CAY_ENGINE_LOCAL_LOCAL_H

#include <limits.h>
#include <sys/types.h>

#include "engine/host/deferred.h"

#define LOCAL_SOCKET "agent.sock" /* see engine/host/agent.h */
#define LOCAL_WORKSPACE "workspace"
/* files that the agent keeps for its programs; removed with the sandbox */
#define LOCAL_SCRATCH "scratch"

/* A known agent: our own child until it is reaped, or an earlier daemon's until it ends. */
struct local_child {
	struct engine *engine;
	char id[ENGINE_ID_MAX + 1];
	pid_t pid;
	int pidfd;
	struct loop_watch *watch;
	struct local_child *next;
};

/* Its configuration section: engine_local_NAME. */
struct local_settings {
	bool proxied;
};

struct engine {
	struct loop *loop;
	bool streams; /* as in engine_config */
	bool proxied; /* from its section */
	struct deferred_ready ready;
	char root[PATH_MAX]; /* <state>/local, absolute */
	int root_fd;
	char agent_path[PATH_MAX];
	char tools_path[PATH_MAX]; /* "": none */
	struct local_child *children;
};

extern const struct engine_driver engine_local;

/* Creates the directory, the socket and the agent; undoes everything on failure. */
int local_make(struct engine *engine, const char *id, struct engine_made *ret,
	       struct err *err) _must_check_;
/*
 * Connects to a running agent: 0 and *ret_pid, or -ENOENT (no such sandbox), -ESRCH (it is dead).
 */
int local_dial(struct engine *engine, const char *id, int *ret_fd, pid_t *ret_pid,
	       int *ret_pidfd) _must_check_;
/* Remembers the agent's pid until its death. */
int local_follow(struct engine *engine, const char *id, pid_t pid) _must_check_;
void local_reap_all(struct engine *engine);

#endif
