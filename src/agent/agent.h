/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the agent: one thread, one epoll, one daemon connection at a time, and the processes
 * it started. Everything that comes from inside the sandbox is hostile. Everything that comes over
 * an accepted connection is the daemon's.
 *
 * Every module of src/agent includes this header. main.c owns the struct.
 */
#ifndef CAY_AGENT_AGENT_H
#define CAY_AGENT_AGENT_H

#include "agent/port/dial.h"
#include "agent/process/cgroup.h"
#include "agent/system/proc_files.h"
#include "agent/system/oom.h"
#include "agent/port/ports.h"
#include "agent/process/process.h"
#include "agent/process/user.h"
#include "agent/relay/relay.h"
#include "base/buf.h"

/* tracked at once; at the limit the oldest finished one is dropped, or the request refused */
#define AGENT_PROCESSES_MAX 1024
#define AGENT_FOLLOWS_MAX 4096		  /* at the limit refused */
#define AGENT_BUCKETS 2048		  /* of the hash tables; a power of two */
#define AGENT_RINGS_MAX_BYTES (64U << 20) /* or an eighth of the sandbox's memory */
/*
 * Bytes queued for the daemon. At this mark the pump stops: output waits in the rings, which drop
 * bytes by their own policy, and pipes are still drained.
 */
#define AGENT_OUT_HIGH_BYTES (256U << 10)

#define AGENT_SCRATCH_MAX 128

enum agent_event {
	EVENT_LISTEN,
	EVENT_CONN,
	EVENT_CHILD,
	EVENT_IN,
	EVENT_OUT,
	EVENT_ERR,
	EVENT_REPORT,  /* of a window's shell */
	EVENT_COMMAND, /* to it */
	EVENT_DIAL,
	EVENT_RELAY,
	EVENT_EGRESS,
};

struct agent {
	int epoll_fd;
	int listen_fd;
	int signal_fd;
	int conn_fd;	  /* -1: no daemon */
	int proc_fd;	  /* /proc as it was before anything ran */
	int oom_adj_fd;	  /* our own oom_score_adj; -1: not available */
	char oom_adj[12]; /* its value when we were started */
	int null_fd;
	int tools_fd; /* the program for AGENT_EXEC_TOOL; -1: none */

	bool trust_any_peer;
	bool trust_own_user; /* accept peers that run as our user: for a socket at a path */
	bool same_user;	     /* not root, or --same-user: all programs run as our user */
	struct user self;
	const char *default_user;
	const char *default_cwd;
	/*
	 * Directory for our files that programs use: saved output, windows without root. It is safe
	 * in a script unquoted: "/", letters, digits, ".", "_", "-".
	 */
	const char *scratch;
	uint64_t files_soft, files_hard; /* RLIMIT_NOFILE at our start */
	/* our soft limit was raised to the hard one; children get the original */
	bool files_raised;

	int windows_fd; /* the directory of their files; -1: no window was created yet */
	char windows_path[AGENT_SCRATCH_MAX + 32];
	int64_t window_idle_us;
	int64_t hold_grace_us;

	struct groups groups;
	/* groups of processes that ended or were freed in this iteration; released after it */
	struct spent_group spent[32];
	size_t spent_count;
	struct kill_all kill_all;
	bool reap_due; /* there may be more zombies; no signal reports them */
	struct memory memory;
	struct ring_budget rings;
	size_t in_waiting; /* input of all processes; same limit as the rings */

	uint32_t connection; /* number of the current connection */
	uint32_t next_process_id;
	struct buf in;	  /* limit: one frame */
	struct buf out;	  /* limit: AGENT_OUT_HIGH_BYTES and a few frames */
	bool out_waits;	  /* the socket was full */
	bool out_armed;	  /* EPOLLOUT is on */
	bool conn_broken; /* close it at the end of this iteration */
	int given_fds[3]; /* received with the connection: groups, memory, disk; -1: none */

	/* Processes: table.c. */
	struct process *by_id[AGENT_BUCKETS];
	struct process *by_pid[AGENT_BUCKETS]; /* those not reaped yet */
	struct process *oldest, *newest;
	struct process *first_ended, *last_ended;
	uint32_t process_count; /* in the table */
	uint32_t process_live;	/* not reaped yet */
	uint32_t hidden_count;	/* removed from it, not freed yet */
	struct process *heap[2 * AGENT_PROCESSES_MAX];
	size_t heap_count;
	struct process *outbox_head, *outbox_tail; /* processes with an EXIT to report */

	/* Follows of this connection: follow.c. */
	struct follow *follows[AGENT_BUCKETS];
	uint32_t follow_count;
	struct follow *ready_head, *ready_tail; /* follows with bytes to send, in turn */

	struct dial dials[DIALS_MAX]; /* of this connection */
	uint32_t dial_count, dials_connected;
	struct relays relays;
	struct ports ports;
	struct inside inside;
};

int agent_watch(struct agent *agent, int op, int fd, uint32_t events, enum agent_event event,
		uint32_t id);

/* conn.c */
void conn_on_listen(struct agent *agent);
void conn_on_event(struct agent *agent, uint32_t events);
/* Sends the queue, and output of processes and follows, until the socket is full. */
void conn_flush(struct agent *agent);
void conn_drop_given(struct agent *agent);
/* Sends DONE; nothing for tag 0. */
void conn_done(struct agent *agent, uint32_t tag, enum agent_refusal refusal, int error);
/*
 * Sends one OUTPUT frame with the bytes of the pieces, without a copy if they are many. false: the
 * socket is full and took nothing.
 */
bool conn_output(struct agent *agent, const struct agent_output *head, const struct iovec *pieces,
		 int count);
/*
 * Sends bytes that are one or more frames after the queue; what the socket does not take is queued.
 */
void conn_send(struct agent *agent, const void *p, size_t n);
void conn_queue_output(struct agent *agent, const struct agent_output *head,
		       const struct iovec *pieces, int count);

/* request.c: -EPROTO ends the connection. */
int request_on_frame(struct agent *agent, const struct frame *frame) _must_check_;

/* table.c */
struct process *table_find(const struct agent *agent, uint32_t id);
struct process *table_find_any(const struct agent *agent, uint32_t id); /* also hidden ones */
struct process *table_find_pid(const struct agent *agent, pid_t pid);	/* not reaped yet */
void table_add(struct agent *agent, struct process *p);			/* by id, by pid, newest */
void table_remove_pid(struct agent *agent, struct process *p);
void table_hide(struct agent *agent, struct process *p);
void table_remove(struct agent *agent, struct process *p); /* frees a hidden one */
void table_add_ended(struct agent *agent, struct process *p);
void table_remove_ended(struct agent *agent, struct process *p);

/* timer.c */
void timer_set(struct agent *agent, struct process *p, enum process_timer timer, int64_t at_us);
void timer_clear(struct agent *agent, struct process *p, enum process_timer timer);
void timer_clear_all(struct agent *agent, struct process *p);
void timer_run(struct agent *agent);	       /* runs all due timers */
int timer_sleep_ms(const struct agent *agent); /* until the next one; -1: there is none */

#endif
