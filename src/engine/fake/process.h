/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the scripted agent: agent.c speaks, process.c keeps, program.c and window.c play. */
#ifndef CAY_ENGINE_FAKE_PROCESS_H
#define CAY_ENGINE_FAKE_PROCESS_H

#include "base/buf.h"
#include "base/str.h"
#include "engine/fake/agent.h"
#include "net/loop.h"
#include "wire/agent.h"

struct fake_agent {
	struct loop *loop;
	int fd; /* -1: nobody is connected */
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

/* The last ring_bytes of what was written; of a collected one the first. */
struct fake_stream {
	struct buf data;
	uint64_t begin;
	uint64_t total;
};

/* What plays it while it runs. Every hook may be NULL. */
struct fake_program {
	const char *name;
	/* words[0] is its name; may end it at once */
	void (*start)(struct fake_process *p, const char **words);
	void (*on_input)(struct fake_process *p, struct str bytes);
	void (*on_close)(struct fake_process *p);
	void (*on_resize)(struct fake_process *p);
	void (*on_time)(struct fake_process *p);
	bool deathless; /* keeps no time limit */
	bool stubborn;	/* TERM does nothing */
};

/* Owner: agent->processes. */
struct fake_process {
	struct fake_agent *agent;
	const struct fake_program *program;
	uint32_t id;
	bool collect, tty, stdin_open;
	bool refusing; /* the rest of a write that did not fit */
	bool stopping; /* asked to end: the limit is the grace */
	bool forget;   /* once it has ended */
	uint32_t stop_tag;
	uint16_t cols, rows;
	uint32_t output_max_bytes, keep_ms;
	size_t hold_bytes;   /* of each stream */
	bool expects_reader; /* a foreground reader is to come: nothing is dropped until then */
	size_t unread_bytes;
	int64_t start_ms;
	struct agent_status status;
	struct fake_stream streams[2];
	struct loop_timer *timer; /* the program's */
	struct loop_timer *limit; /* its time limit, then how long it is kept */
	uint64_t count, step_ms;  /* the program's */
	char *name, *user, *cwd, *command;
	struct fake_window *window; /* NULL: it is none */
	struct fake_process *next;
};

struct fake_window {
	uint32_t run;
	bool busy;
	struct agent_status run_status;
	uint64_t run_cursor;
	int64_t active_ms;
	char variable[32], value[256]; /* the one it remembers */
};

/* Owner: agent->follows. */
struct fake_follow {
	uint32_t id;
	struct fake_process *process;
	uint8_t flags;
	uint32_t run;
	uint32_t credit;
	uint64_t cursors[2];
	bool closing; /* comes to its end at upto, with status */
	uint64_t upto[2];
	struct agent_status status;
	struct fake_follow *next;
};

/* Test code: a full buffer or a breach is the test's mistake. */
static inline void must(int r)
{
	if (r < 0)
		abort();
}

/* process.c */
struct fake_process *fake_process_new(struct fake_agent *agent, uint32_t id, uint32_t ring_bytes,
				      uint32_t output_max_bytes);
void fake_process_free(struct fake_process *p); /* its follows end */
struct fake_process *fake_process_find(const struct fake_agent *agent, uint32_t id);
bool fake_process_runs(const struct fake_process *p);
void fake_write(struct fake_process *p, int stream, struct str bytes);
void fake_trim(struct fake_process *p); /* drops what is too much */
void fake_exit(struct fake_process *p, uint32_t exit_code);
void fake_finish(struct fake_process *p, enum agent_end end, uint32_t value); /* code or signal */
void fake_signal(struct fake_process *p, int signum);
void fake_stop(struct fake_process *p, uint32_t tag, bool forget, uint32_t grace_ms);
void fake_list(struct fake_agent *agent, uint32_t process_id, uint32_t tag);

/* follow.c */
struct fake_follow *fake_follow_find(const struct fake_agent *agent, uint32_t id);
void fake_follow_new(struct fake_process *p, const struct agent_follow *wish);
void fake_follow_free(struct fake_agent *agent, struct fake_follow *f);
/* Those of p (of that run, 0: all) end where the output is now. */
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
/* A connection to the port: ends[0] is the client's. false: nothing listens there. The server's end
 * is handed over by the second call. */
bool fake_port_accept(const struct fake_agent *agent, uint16_t number, int ends[2]);
void fake_port_connected(const struct fake_agent *agent, uint16_t number, int server_fd);

/* tunnel.c */
void fake_tunnel_frame(struct fake_agent *agent, const struct frame *raw);
void fake_tunnels_free(struct fake_agent *agent);

#endif
