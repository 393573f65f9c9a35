/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the scripted agent: agent.c has the protocol, process.c the processes, program.c and
 * window.c the programs.
 */
#ifndef CAY_ENGINE_FAKE_PROCESS_H
#define CAY_ENGINE_FAKE_PROCESS_H

#include "base/buf.h"
#include "base/str.h"
#include "engine/fake/agent.h"
#include "net/loop.h"
#include "wire/agent.h"

struct fake_agent {
	struct loop *loop;
	int fd; /* -1: not connected */
	struct loop_watch *watch;
	struct buf in, out;
	uint32_t next_id;
	struct fake_process *processes; /* oldest first */
	struct fake_follow *follows;
	struct fake_tunnel *tunnels;
	struct fake_port *ports;
	bool crashing;
	void (*on_crash)(void *arg);
	void *arg;
};

/* The last ring_bytes of the output; for a collected process the first. */
struct fake_stream {
	struct buf data;
	uint64_t begin;
	uint64_t total;
};

/* The program that a process runs. Every hook may be NULL. */
struct fake_program {
	const char *name;
	/* words[0] is its name; may end it at once */
	void (*start)(struct fake_process *p, const char **words);
	void (*on_input)(struct fake_process *p, struct str bytes);
	void (*on_close)(struct fake_process *p);
	void (*on_resize)(struct fake_process *p);
	void (*on_time)(struct fake_process *p);
	bool deathless; /* ignores its time limit */
	bool stubborn;	/* ignores TERM */
};

/* Owner: agent->processes. */
struct fake_process {
	struct fake_agent *agent;
	const struct fake_program *program;
	uint32_t id;
	bool collect, tty, stdin_open;
	bool refusing; /* the rest of a write that did not fit */
	bool stopping; /* being stopped: limit is the grace period */
	bool forget;   /* when it has ended */
	uint32_t stop_tag;
	uint16_t cols, rows;
	uint32_t output_max_bytes, keep_ms;
	size_t hold_bytes;   /* of each stream */
	bool expects_reader; /* a foreground reader is expected: nothing is dropped until then */
	size_t unread_bytes;
	int64_t start_ms;
	struct agent_status status;
	struct fake_stream streams[2];
	struct loop_timer *timer; /* the program's */
	struct loop_timer *limit; /* its time limit, then its retention time */
	uint64_t count, step_ms;  /* the program's */
	char *name, *user, *cwd, *command;
	struct fake_window *window; /* NULL: not a window */
	struct fake_process *next;
};

struct fake_window {
	uint32_t run;
	bool busy;
	struct agent_status run_status;
	uint64_t run_cursor;
	int64_t active_ms;
	char variable[32], value[256]; /* the one variable it remembers */
};

/* Owner: agent->follows. */
struct fake_follow {
	uint32_t id;
	struct fake_process *process;
	uint8_t flags;
	uint32_t run;
	uint32_t credit;
	uint64_t cursors[2];
	bool closing; /* ends at upto, with status */
	uint64_t upto[2];
	struct agent_status status;
	struct fake_follow *next;
};

/* Test code: a full buffer or a violation is a mistake of the test. */
static inline void must(int r)
{
	if (r < 0)
		abort();
}

/* process.c */
struct fake_process *fake_process_new(struct fake_agent *agent, uint32_t id, uint32_t ring_bytes,
				      uint32_t output_max_bytes);
void fake_process_free(struct fake_process *p); /* ends its follows */
struct fake_process *fake_process_find(const struct fake_agent *agent, uint32_t id);
bool fake_process_runs(const struct fake_process *p);
void fake_write(struct fake_process *p, int stream, struct str bytes);
void fake_trim(struct fake_process *p); /* drops bytes over the limit */
void fake_exit(struct fake_process *p, uint32_t exit_code);
void fake_finish(struct fake_process *p, enum agent_end end, uint32_t value); /* code or signal */
void fake_signal(struct fake_process *p, int signum);
void fake_stop(struct fake_process *p, uint32_t tag, bool forget, uint32_t grace_ms);
void fake_list(struct fake_agent *agent, uint32_t process_id, uint32_t tag);

/* follow.c */
struct fake_follow *fake_follow_find(const struct fake_agent *agent, uint32_t id);
void fake_follow_new(struct fake_process *p, const struct agent_follow *wish);
void fake_follow_free(struct fake_agent *agent, struct fake_follow *f);
/* Ends the follows of p (of that run, 0: all) at the current end of the output. */
void fake_follow_close(struct fake_process *p, uint32_t run, const struct agent_status *status);
void fake_follow_pump(struct fake_agent *agent);

/* program.c */
void fake_exec(struct fake_agent *agent, const struct agent_exec *exec);

/* window.c */
void fake_window_run(struct fake_agent *agent, const struct agent_window_run *run);

/* agent.c */
void fake_done(struct fake_agent *agent, uint32_t tag, uint32_t refusal);
void fake_refuse(struct fake_agent *agent, uint32_t id, enum agent_refusal code, int error,
		 const char *detail);
void fake_flush(struct fake_agent *agent);
char *fake_copy(struct str s);

/* port.c */
void fake_dial(struct fake_agent *agent, uint32_t tag, uint16_t number);
void fake_ports_list(struct fake_agent *agent, uint32_t tag);
void fake_ports_free(struct fake_agent *agent);
/*
 * A connection to the port: ends[0] is the client's. false: nothing listens there. The second call
 * hands over the server's end.
 */
bool fake_port_accept(const struct fake_agent *agent, uint16_t number, int ends[2]);
void fake_port_connected(const struct fake_agent *agent, uint16_t number, int server_fd);

/* tunnel.c */
void fake_tunnel_frame(struct fake_agent *agent, const struct frame *raw);
void fake_tunnels_free(struct fake_agent *agent);

#endif
