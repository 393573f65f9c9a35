/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One program the agent runs for the daemon: its pipes or terminal, its rings, its end. Output is
 * drained whether it is read or not, unless a foreground reader holds it (stream.c). A finished one
 * stays readable for a while and then gives way.
 *
 *   running -> reaped (the status is known) -> ended (the output too; it may be told)
 *           -> hidden (nobody can ask for it any more) -> freed
 */
#ifndef CAY_AGENT_PROCESS_PROCESS_H
#define CAY_AGENT_PROCESS_PROCESS_H

#include <sys/types.h>

#include "agent/output/ring.h"
#include "agent/output/save.h"
#include "agent/process/user.h"
#include "base/buf.h"
#include "wire/agent.h"

struct agent;
struct follow;
struct group;
struct process;

/* In the environment of every program, with its id: what it starts can be told by that. */
#define PROCESS_MARK "CAY_PROCESS_ID="
#define PROCESS_PIPE_BYTES (512 << 10) /* of a pipe that carries much */

/* A flag of EXEC that is ours and never on the wire: a terminal that leaves newlines alone, and an
 * id that was checked when it was asked for. */
#define PROCESS_EXEC_WINDOW 128

struct process_stream {
	int fd; /* -1 behind the end */
	struct ring ring;
	uint64_t left; /* in the pipe when the program died and not read yet: the end waits for it
			*/
	bool watched;
	bool ready;   /* tool: there may be something to read */
	bool bulk;    /* reads are large: they go straight into the ring */
	bool grown;   /* the pipe was made larger, or cannot be */
	bool waiting; /* not read just now: a follow would lose bytes */
	bool pausing; /* with waiting: and only for a moment, because none of them has HOLD */
	unsigned full_reads;
};

/* Each has at most one of every kind running; 0: off. See timer.c. */
enum process_timer {
	TIMER_TIMEOUT,
	TIMER_STOP,  /* the grace of STOP, and looks whether everything has gone */
	TIMER_DRAIN, /* pipes that orphans keep open */
	TIMER_KEEP,
	TIMER_OUT, /* the pause of a stream: TIMER_OUT + stream */
	TIMER_ERR,
	TIMER_WINDOW,
	TIMER_HOLD, /* the end of struct process_hold */
	TIMER_COUNT,
};

/* Somebody waits for input to be written, or for the end. */
struct process_wait {
	uint32_t tag;
	uint64_t upto; /* of stdin: the count of bytes written that answers it */
};

struct process_waits {
	struct process_wait *items;
	size_t count, capacity, first;
};

/* Output kept for foreground readers that are not connected: their daemon is away, or they have
 * not come yet. TIMER_HOLD ends it. */
struct process_hold {
	uint32_t readers; /* how many are expected; 0: off */
	uint64_t from[2]; /* the oldest byte one of them needs */
};

/* What a window puts into a process; any may be NULL. */
struct process_hooks {
	/* The terminal's bytes; process_put() takes what is to be seen of them. */
	void (*on_output)(struct agent *agent, struct process *p, struct str bytes);
	void (*on_timer)(struct agent *agent, struct process *p);  /* TIMER_WINDOW */
	void (*on_reaped)(struct agent *agent, struct process *p); /* its last output comes next */
	/* Its end is known and all its output is in the ring; before any follow hears of it. */
	void (*on_end)(struct agent *agent, struct process *p);
	void (*on_free)(struct agent *agent, struct process *p);
	/* A follow with RUN: refuse it with a code, or end it by follow_end_at() when its run is
	 * over. */
	enum agent_refusal (*on_follow)(struct agent *agent, struct process *p, struct follow *f);
	void (*on_stdin)(struct agent *agent, struct process *p); /* some was taken */
	void (*on_list)(const struct process *p, struct agent_listed *listed);
};

/* Owner: the table of the agent (table.c), then whoever still holds it: follows, open pipes. */
struct process {
	uint32_t id;
	pid_t pid;
	struct user user;
	bool collect; /* somebody on this connection waits for EXIT */
	bool tool;
	bool tty;
	bool reaped;	/* status is valid, pid is not ours any more */
	bool ended;	/* the end may be told: output complete, or the grace is over */
	bool hidden;	/* not in the table; freed when nothing holds it any more */
	bool in_outbox; /* its EXIT is to be told */
	bool timed_out;
	bool stopping;
	bool killed_all; /* the grace of STOP is over */
	bool stop_forget;
	bool in_last;	      /* no more input is taken; in_fd is closed when in is empty */
	uint32_t in_refusing; /* the connection whose write is refused to its last piece; 0: none */
	uint16_t cols, rows;
	int wait_status;
	uint64_t asked_signals;	    /* bit n - 1: signal n was asked for */
	uint64_t kills_before;	    /* by the memory limit, at its start */
	struct agent_status status; /* of the end; the totals count on while it runs */
	int64_t start_us;
	int64_t start_ms; /* wall clock */
	int64_t end_us;
	int64_t kill_us; /* with stopping */
	uint32_t keep_ms;
	struct group *group;

	int in_fd;
	bool in_grown; /* its pipe was made larger, or cannot be */
	struct buf in;
	uint64_t in_written;
	struct process_waits in_waits;
	struct process_waits stop_waits;

	struct process_stream streams[2];
	uint64_t told[2]; /* of a collected one: cursors of what is not sent yet */
	struct save save; /* of a collected one */
	struct follow *follows;
	struct process_hold hold;

	const struct process_hooks *hooks;
	void *window;

	int64_t timers_us[TIMER_COUNT];
	int64_t wake_us; /* the earliest of them */
	size_t heap_at;	 /* in the heap of timers, when wake_us is set */

	struct process *by_id_next, *by_pid_next;
	struct process *older, *newer;		    /* all, by id */
	struct process *ended_before, *ended_after; /* the finished ones, by their end */
	struct process *outbox_next;

	char name[AGENT_NAME_MAX + 1];
	uint16_t command_n;
	char command[]; /* command_n bytes, for people */
};

struct process_refusal {
	enum agent_refusal code;
	int error;
	char message[AGENT_MESSAGE_MAX];
	size_t message_n;
};

/* start.c: NULL and *ret_refusal, or the running process; nothing is told to the daemon. */
struct process *process_start(struct agent *agent, const struct agent_exec *exec,
			      struct process_refusal *ret_refusal);
/* Starts what the daemon asked for and answers STARTED or REFUSED, unless it is collected. */
void process_exec(struct agent *agent, const struct agent_exec *exec);

/* process.c */
void process_reap(struct agent *agent); /* everything there is, orphans of the sandbox included */
void process_settle(struct agent *agent, struct process *p); /* p may be gone behind it */
/* Whoever waited has gone: it is kept as any other. */
void process_detach(struct agent *agent, struct process *p);
/* Not found any more; follows get what is there. p may be gone behind it. */
void process_hide(struct agent *agent, struct process *p);
void process_try_free(struct agent *agent, struct process *p);
/* The oldest finished one gives way, follows and all. false: there is none. */
bool process_evict(struct agent *agent);
void process_on_timer(struct agent *agent, struct process *p, enum process_timer timer);
void process_on_conn_lost(struct agent *agent);
void process_release_groups(struct agent *agent); /* of those that ended in this turn */
/* Sends one frame of what collected processes have to tell; false: nothing, or the socket is full.
 */
bool process_tell(struct agent *agent);
struct agent_status process_status(const struct process *p);

/* stream.c */
void stream_watch(struct agent *agent, struct process *p, int i, bool on);
void stream_close(struct agent *agent, struct process *p, int i);
void stream_on_event(struct agent *agent, struct process *p, int i);
/* After the program's death: reads what is left as far as nobody is overrun. */
void stream_drain(struct agent *agent, struct process *p, int i);
/* A follow took bytes or went: a stream that waited for it may go on. */
void stream_on_taken(struct agent *agent, struct process *p, int i);
/* Reads keep filling it: n bytes came at once. */
void stream_grow_pipe(struct process *p, int i, size_t n);
void stream_on_pause_over(struct agent *agent, struct process *p, int i);
/* Bytes of stream OUT as readers shall see them; for hooks. */
void process_put(struct agent *agent, struct process *p, struct str bytes);

/* stdin.c */
void stdin_on_event(struct agent *agent, struct process *p);
void stdin_take(struct agent *agent, struct process *p, struct str bytes, uint32_t tag,
		uint8_t flags);
void stdin_close(struct agent *agent, struct process *p, uint32_t tag);
void stdin_start(struct agent *agent, struct process *p, const struct agent_exec *exec);
void stdin_drop(struct agent *agent, struct process *p, enum agent_refusal why);
bool stdin_is_open(const struct process *p);
bool stdin_has_room(const struct agent *agent, size_t n); /* for n more bytes, of anybody */
/* For windows: queues bytes; -ENOBUFS when there is no room. */
int stdin_put(struct agent *agent, struct process *p, struct str bytes) _must_check_;

int waits_add(struct process_waits *waits, struct process_wait wait) _must_check_;
void waits_clear(struct process_waits *waits);

/* stop.c */
void stop_signal(struct agent *agent, struct process *p, int signum, uint32_t tag);
void stop_start(struct agent *agent, struct process *p, uint32_t tag, uint32_t grace_ms,
		bool forget);
void stop_on_timer(struct agent *agent, struct process *p);
bool stop_holds(struct agent *agent, struct process *p); /* its end waits for what it left */
void stop_on_end(struct agent *agent, struct process *p);
/* SIGKILL to all that belongs to p: its group, its session, whatever carries its mark. */
void stop_kill_all(struct agent *agent, struct process *p);

/* list.c */
void list_tell(struct agent *agent, uint32_t process_id, uint32_t tag);

#endif
