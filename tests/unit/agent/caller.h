/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of an agent's socket, frame by frame: every OUTPUT is checked against the
 * granted credit and the expected cursor.
 */
#ifndef CAY_TESTS_ENGINE_CALLER_H
#define CAY_TESTS_ENGINE_CALLER_H

#include "rig.h"
#include "wire/agent.h"

#define CALLER_FOLLOWS_MAX 512
#define CALLER_TAGS_MAX 8192
#define CALLER_LISTED_MAX 1100

struct caller_follow {
	uint32_t id;
	uint32_t process_id;
	uint32_t window_tag; /* made by WINDOW_RUN */
	int64_t credit;	     /* bytes that the agent may still send */
	bool regrant;	     /* return credit for each byte at once */
	bool keep;	     /* keep the bytes; otherwise they are only counted */
	uint64_t cursor[2];
	uint64_t gap[2];
	uint64_t bytes[2];
	struct buf data[2];
	bool ended;
	struct agent_followed end;
	int64_t last_us; /* when the last piece came */
};

struct caller_listed {
	struct agent_listed info; /* its strings point into the fields below */
	char name[AGENT_NAME_MAX + 1], user[AGENT_USER_MAX + 1], command[AGENT_COMMAND_MAX + 1];
};

struct caller {
	int fd;
	bool closed;
	struct buf in, out;
	struct agent_hello hello;
	uint32_t next_id, next_follow, next_tag;
	struct caller_follow follows[CALLER_FOLLOWS_MAX];
	size_t follow_count;
	/* by tag */
	bool done[CALLER_TAGS_MAX];
	struct agent_done dones[CALLER_TAGS_MAX];
	/* the last of each */
	uint32_t started_id, started_pid;
	bool refused;
	struct agent_refused refusal;
	char refusal_message[AGENT_MESSAGE_MAX + 1];
	uint32_t exit_id;
	struct agent_exit exit;
	char saved[AGENT_PATH_MAX + 1];
	struct buf collected[2]; /* of the one process collected at a time */
	struct caller_listed *listed;
	size_t listed_count, listed_frames;
	uint32_t listed_tag;
	struct agent_window windows[CALLER_TAGS_MAX]; /* by tag; done[] is set too */
	size_t frames;				      /* seen so far */
};

void caller_open(struct caller *caller, struct rig *rig); /* connects, waits for HELLO */
void caller_close(struct caller *caller);
/* A new agent and a caller of it, and the end of both. */
struct caller *caller_new(struct rig *rig, const char *const *options);
void caller_free(struct caller *caller, struct rig *rig);
extern const char *const caller_as_root[]; /* options: commands run as root, in /tmp */
void caller_turn(struct caller *caller,
		 int timeout_ms); /* sends the queue and handles received frames */
/* Runs until *flag is set; fails after rig_limit_us(timeout_ms). */
void caller_wait(struct caller *caller, const bool *flag, int timeout_ms);
void caller_pass(struct caller *caller, int ms); /* runs for that long */

/* Both send; the second waits for STARTED. */
uint32_t caller_exec(struct caller *caller, const struct agent_exec_args *args);
uint32_t caller_start(struct caller *caller, const struct agent_exec_args *args);
/* sh -c script; flags of EXEC. follow NULL: none. */
uint32_t caller_sh(struct caller *caller, const char *script, uint8_t flags, uint32_t credit,
		   struct caller_follow **follow);
struct caller_follow *caller_follow(struct caller *caller, uint32_t process_id, uint8_t flags,
				    uint64_t out_cursor, uint64_t err_cursor, uint32_t credit);
void caller_credit(struct caller *caller, struct caller_follow *f, uint32_t bytes);
void caller_unfollow(struct caller *caller, struct caller_follow *f);
/* Tagged requests: send, wait for DONE, return the refusal. */
uint32_t caller_stdin(struct caller *caller, uint32_t id, const char *bytes, size_t n, bool wait);
uint32_t caller_close_stdin(struct caller *caller, uint32_t id);
uint32_t caller_kill(struct caller *caller, uint32_t id, int signum);
uint32_t caller_resize(struct caller *caller, uint32_t id, uint16_t cols, uint16_t rows);
uint32_t caller_forget(struct caller *caller, uint32_t id);
uint32_t caller_stop(struct caller *caller, uint32_t id, uint32_t grace_ms, bool forget);
uint32_t caller_wait_done(struct caller *caller, uint32_t tag, int timeout_ms);
/* Fills listed[]; 0: all. */
size_t caller_list(struct caller *caller, uint32_t id);
/* The process's entry, or NULL. */
const struct agent_listed *caller_look(struct caller *caller, uint32_t id);
/* Waits for the end of a process without a follow. */
const struct agent_listed *caller_wait_end(struct caller *caller, uint32_t id, int timeout_ms);
/* Waits until the process has written that much to each stream. */
void caller_wait_totals(struct caller *caller, uint32_t id, uint64_t out, uint64_t err);
void caller_wait_exit(struct caller *caller, uint32_t id,
		      int timeout_ms); /* EXIT of a collected one */
/* Sends WINDOW_RUN; the answer is in windows[tag] or dones[tag], the output in the follow. */
uint32_t caller_window(struct caller *caller, struct agent_window_args *args,
		       struct caller_follow **follow);
const char *caller_text(struct caller_follow *f, int stream); /* with keep */

#endif
