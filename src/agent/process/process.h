/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One program that the agent runs for the daemon: its pipes or terminal, its rings, its end. Output
 * is drained whether it is read or not, unless a foreground reader holds it (stream.c). A finished
 * process stays readable for a while and is then removed.
 *
 *   running -> reaped (the status is known) -> ended (output is complete; the end is reported)
 *           -> hidden (requests no longer find it) -> freed
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

/* In the environment of every program, with its id, so that its descendants can be identified. */
#define PROCESS_MARK "CAY_PROCESS_ID="
#define PROCESS_PIPE_BYTES (512 << 10) /* of a pipe that carries much data */

/*
 * A flag of EXEC that is internal and never on the wire: a terminal that does not convert newlines,
 * and an id that was checked with the request.
 */
#define PROCESS_EXEC_WINDOW 128

struct process_stream {
	int fd; /* -1 after the end */
	struct ring ring;
	/* bytes in the pipe when the program died, not read yet: the end waits for them */
	uint64_t left;
	bool watched;
	bool ready;   /* tool: it may be readable */
	bool bulk;    /* reads are large, so they go directly into the ring */
	bool grown;   /* the pipe was enlarged, or cannot be */
	bool waiting; /* not read now, because a follow would lose bytes */
	bool pausing; /* with waiting: only for a short pause, because no follow has HOLD */
	unsigned full_reads;
};

/* Each process has at most one timer of every kind; 0: off. See timer.c. */
enum process_timer {
	TIMER_TIMEOUT,
	TIMER_STOP,  /* the grace period of STOP, and checks whether all processes have gone */
	TIMER_DRAIN, /* pipes that orphans keep open */
	TIMER_KEEP,
	TIMER_OUT, /* the pause of a stream: TIMER_OUT + stream */
	TIMER_ERR,
	TIMER_WINDOW,
	TIMER_HOLD, /* the end of struct process_hold */
	TIMER_COUNT,
};

/* A request that waits for input to be written, or for the end. */
struct process_wait {
	uint32_t tag;
	uint64_t upto; /* of stdin: answered when this many bytes were written */
};

struct process_waits {
	struct process_wait *items;
	size_t count, capacity, first;
};

/*
 * Output kept for foreground readers that are not connected: the daemon is not running, or they
 * have not arrived yet. TIMER_HOLD ends it.
 */
struct process_hold {
	uint32_t readers; /* number of expected readers; 0: off */
	uint64_t from[2]; /* the oldest byte that one of them needs */
};

/* A group to be released: that of a process that is listed, or one whose process is freed. */
struct spent_group {
	uint32_t process_id; /* if there is no group */
	struct group *group;
};

/* KILL_ALL in progress: answered when everything that lived then is gone. See orphan.c. */
#define KILL_ALL_WAITS_MAX 16
struct kill_all {
	uint32_t tags[KILL_ALL_WAITS_MAX];
	uint32_t count;
	uint32_t before_id; /* listed processes from here on were started later */
	int64_t look_us;    /* when to check again; with count */
	int64_t end_us;	    /* when to give up */
};

/* Functions of a window; each may be NULL. */
struct process_hooks {
	/* Output of the terminal; it passes the visible part to process_put(). */
	void (*on_output)(struct agent *agent, struct process *p, struct str bytes);
	void (*on_timer)(struct agent *agent, struct process *p);  /* TIMER_WINDOW */
	void (*on_reaped)(struct agent *agent, struct process *p); /* its last output follows */
	/* Its end is known and all output is in the ring; called before any follow is informed. */
	void (*on_end)(struct agent *agent, struct process *p);
	void (*on_free)(struct agent *agent, struct process *p);
	/*
	 * A follow with RUN: refuse it with a code, or end it with follow_end_at() if its run has
	 * ended.
	 */
	enum agent_refusal (*on_follow)(struct agent *agent, struct process *p, struct follow *f);
	void (*on_stdin)(struct agent *agent, struct process *p); /* input was accepted */
	void (*on_list)(const struct process *p, struct agent_listed *listed);
};

/* Owner: the agent's table (table.c), then its remaining users: follows, open pipes. */
struct process {
	uint32_t id;
	pid_t pid;
	struct user user;
	bool collect; /* a caller on this connection waits for EXIT */
	bool tool;
	bool tty;
	bool reaped; /* status is valid, and the pid may be reused */
	/* the end may be reported: output is complete, or the grace period has ended */
	bool ended;
	bool hidden;	/* not in the table; freed when unused */
	bool in_outbox; /* its EXIT is to be reported */
	bool timed_out;
	bool stopping;
	bool killed_all; /* the grace period of STOP has ended */
	bool stop_forget;
	bool in_last; /* accepts no more input; in_fd is closed when in is empty */
	/* the connection whose current write is refused up to its last piece; 0: none */
	uint32_t in_refusing;
	uint16_t cols, rows;
	int wait_status;
	uint64_t asked_signals;	    /* bit n - 1: signal n was requested */
	uint64_t kills_before;	    /* OOM kills of the sandbox when it started */
	struct agent_status status; /* at its end; the totals grow while it runs */
	int64_t start_us;
	int64_t start_ms; /* wall clock */
	int64_t end_us;
	int64_t kill_us; /* with stopping */
	uint32_t keep_ms;
	struct group *group;

	int in_fd;
	bool in_grown; /* the pipe was enlarged, or cannot be */
	struct buf in;
	uint64_t in_written;
	struct process_waits in_waits;
	struct process_waits stop_waits;

	struct process_stream streams[2];
	uint64_t told[2]; /* if collected: cursors of the bytes not sent yet */
	struct save save; /* if collected */
	struct follow *follows;
	struct process_hold hold;

	const struct process_hooks *hooks;
	void *window;

	int64_t timers_us[TIMER_COUNT];
	int64_t wake_us; /* the earliest of its timers */
	size_t heap_at;	 /* position in the heap of timers, if wake_us is set */

	struct process *by_id_next, *by_pid_next;
	struct process *older, *newer;		    /* list of all, by id */
	struct process *ended_before, *ended_after; /* list of finished ones, by their end */
	struct process *outbox_next;

	char name[AGENT_NAME_MAX + 1];
	uint16_t command_n;
	char command[]; /* command_n bytes, for display */
};

struct process_refusal {
	enum agent_refusal code;
	int error;
	char message[AGENT_MESSAGE_MAX];
	size_t message_n;
};

/* start.c: returns the running process, or NULL with *ret_refusal; sends nothing to the daemon. */
struct process *process_start(struct agent *agent, const struct agent_exec *exec,
			      struct process_refusal *ret_refusal);
/* Starts what the daemon requested and replies STARTED or REFUSED, unless it is collected. */
void process_exec(struct agent *agent, const struct agent_exec *exec);

/* process.c */
/* Zombies, including orphans of the sandbox; if more may be left, reap_due is set. */
void process_reap(struct agent *agent);
void process_settle(struct agent *agent, struct process *p); /* may free p */
/* The waiting caller has gone: keep it like any other. */
void process_detach(struct agent *agent, struct process *p);
/* Removes it from the table; follows get what is there. May free p. */
void process_hide(struct agent *agent, struct process *p);
void process_try_free(struct agent *agent, struct process *p);
/* Removes the oldest finished one with its follows. false: there is none. */
bool process_evict(struct agent *agent);
void process_on_timer(struct agent *agent, struct process *p, enum process_timer timer);
void process_on_conn_lost(struct agent *agent);
void process_release_groups(struct agent *agent); /* of processes that ended in this iteration */
/* Sends one frame of a collected process; false: none, or the socket is full. */
bool process_tell(struct agent *agent);
struct agent_status process_status(const struct process *p);

/* stream.c */
void stream_watch(struct agent *agent, struct process *p, int i, bool on);
void stream_close(struct agent *agent, struct process *p, int i);
void stream_on_event(struct agent *agent, struct process *p, int i);
/* After the program's death: reads what is left, as far as no reader is overrun. */
void stream_drain(struct agent *agent, struct process *p, int i);
/* A follow took bytes or ended: a stream that waited for it may continue. */
void stream_on_taken(struct agent *agent, struct process *p, int i);
/* n bytes were read at once: enlarges the pipe if this repeats. */
void stream_grow_pipe(struct process *p, int i, size_t n);
void stream_on_pause_over(struct agent *agent, struct process *p, int i);
/* Bytes of stream OUT that readers see; for hooks. */
void process_put(struct agent *agent, struct process *p, struct str bytes);

/* stdin.c */
void stdin_on_event(struct agent *agent, struct process *p);
void stdin_take(struct agent *agent, struct process *p, struct str bytes, uint32_t tag,
		uint8_t flags);
void stdin_close(struct agent *agent, struct process *p, uint32_t tag);
void stdin_start(struct agent *agent, struct process *p, const struct agent_exec *exec);
void stdin_drop(struct agent *agent, struct process *p, enum agent_refusal why);
bool stdin_is_open(const struct process *p);
bool stdin_has_room(const struct agent *agent, size_t n); /* for n more bytes in total */
/* For windows: queues bytes; -ENOBUFS at the limit. */
int stdin_put(struct agent *agent, struct process *p, struct str bytes) _must_check_;

int waits_add(struct process_waits *waits, struct process_wait wait) _must_check_;
void waits_clear(struct process_waits *waits);

/* stop.c */
void stop_signal(struct agent *agent, struct process *p, int signum, uint32_t tag);
void stop_start(struct agent *agent, struct process *p, uint32_t tag, uint32_t grace_ms,
		bool forget);
void stop_on_timer(struct agent *agent, struct process *p);
/* p leaves the list: a STOP of descendants that outlived it does not wait any longer. */
void stop_on_hide(struct agent *agent, struct process *p);
void stop_note(struct process *p, int signum);		 /* its end by this signal was requested */
bool stop_holds(struct agent *agent, struct process *p); /* its end waits for its descendants */
void stop_on_end(struct agent *agent, struct process *p);
/* SIGKILL to all that belongs to p: its group, its session, and processes that carry its mark. */
void stop_kill_all(struct agent *agent, struct process *p);

/* list.c */
void list_tell(struct agent *agent, uint32_t process_id, uint32_t tag);

/*
 * orphan.c: processes inside that the daemon did not start. An orphan is one whose parents lead to
 * the agent without a process of the table among them.
 */
void orphan_tell(struct agent *agent, uint32_t tag); /* LISTED with all orphans */
/* Any process below the agent. tree: also its descendants, which are stopped first. */
void orphan_signal(struct agent *agent, pid_t pid, int signum, bool tree, uint32_t tag);
void orphan_kill_all(struct agent *agent, uint32_t tag);
void orphan_run(struct agent *agent);
int orphan_sleep_ms(const struct agent *agent); /* -1: nothing to wait for */
void orphan_on_conn_lost(struct agent *agent);

#endif
