/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the engine tests: a loop, a link on it, and commands with their results. */
#ifndef CAY_TESTS_ENGINE_RIG_H
#define CAY_TESTS_ENGINE_RIG_H

#include <sys/types.h>

#include "base/buf.h"
#include "engine/link.h"

struct rig {
	struct loop *loop;
	struct link *link;
	bool ready;
	bool gone;
	struct err why;
	bool streams; /* the next link gets a channel that passes no descriptors */
	bool egress;  /* a connection was offered: egress_fd, the newest one */
	int egress_fd;
	pid_t agent_pid;
	int listen_fd;
	char sock_path[108];
};

struct rig_result {
	int deliveries;
	struct link_result result;
	struct err err; /* code ERR_OK when the completion had none */
	struct buf out, errs;
	uint32_t process_id;
};

void rig_init(struct rig *rig);
void rig_done(struct rig *rig);
void rig_adopt(struct rig *rig, int fd, int hello_timeout_ms); /* makes the link */
void rig_drop_link(struct rig *rig);
#define RIG_PATIENCE_MS 30000 /* for expected events: a loaded machine is slow */
/* A time limit in microseconds for an event that is awaited: multiplied by CAY_TEST_SLACK, or by 4,
 * because sanitizers and busy hosts are slow. */
int64_t rig_limit_us(int timeout_ms);
bool rig_wait(struct rig *rig, const bool *flag, int timeout_ms);

/* The real program with a listening socket as descriptor 3. */
void rig_spawn_agent(struct rig *rig, const char *const *options);
void rig_start_agent(struct rig *rig, const char *const *options); /* and a link to it */
int rig_connect(struct rig *rig);
void rig_stop_agent(struct rig *rig);

void rig_exec(struct rig *rig, const struct link_exec *exec, struct rig_result *result);
void rig_wait_exec(struct rig *rig, struct rig_result *result, int timeout_ms);
/* Starts and waits. */
void rig_run(struct rig *rig, const struct link_exec *exec, struct rig_result *result);
void rig_sh(struct rig *rig, const char *script, struct rig_result *result);
void rig_result_done(struct rig_result *result);

#endif
