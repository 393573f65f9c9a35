/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the link's files: link.c has the connection and its lifetime, link_exec.c the
 * programs, link_follow.c the readers, link_request.c requests that DONE or LISTED answer,
 * link_port.c the ports, link_stream.c connections in frames, link_window.c the windows,
 * link_text.c the translation of the agent's codes to errors.
 *
 * We assign three kinds of numbers: processes, follows and tags. Each only grows and is never
 * reused on a link. A record is in its table from the request to its last answer, or until its
 * caller abandons it. A process or follow that we assigned and no longer know was abandoned: its
 * frames were in flight and are ignored. A number that we never assigned is a protocol violation,
 * and so is an unknown tag, because tags are never abandoned.
 */
#ifndef CAY_ENGINE_LINK_STATE_H
#define CAY_ENGINE_LINK_STATE_H

#include "base/buf.h"
#include "engine/link.h"
#include "wire/agent.h"
#include "wire/stream.h"

#define LINK_RECV_BYTES (FRAME_HEADER_SIZE + AGENT_FROM_MAX_BYTES)
#define LINK_RECVS_PER_EVENT 4
/*
 * Limit of queued requests: at least one with the largest input and arguments. Beyond:
 * capacity_exceeded.
 */
#define LINK_OUT_MAX_BYTES (AGENT_STDIN_MAX_BYTES + AGENT_TO_MAX_BYTES)
/* Unfinished processes on one link; at the limit: quota_exceeded. */
#define LINK_PROCESSES_MAX 1024
#define LINK_FOLLOWS_MAX 4096
#define LINK_REQUESTS_MAX 4096
#define LINK_LISTED_MAX 4096 /* per answer; more is a protocol violation */
/*
 * Connections in frames. At the limit dialled ones get capacity_exceeded, and offered ones are
 * refused.
 */
#define LINK_STREAMS_MAX 1024
#define LINK_OFFERS_MAX 256
#define LINK_WINDOW_BYTES \
	(256U << 10) /* bytes of one stream that the agent may send and we have not passed on */
#define LINK_STREAMS_HIGH_BYTES (512U << 10) /* in the queue: above it, callers are not read */
/* Space in the queue for frames of streams that cannot wait; if it is full, the link ends. */
#define LINK_STREAMS_SPARE_BYTES (256U << 10)
/* The agent enforces time limits. If it has not done so within this time, the link does. */
#define LINK_TIMEOUT_GRACE_MS 5000

/* Abandoning must always be possible: the queue reserves space for these frames. */
#define LINK_UNFOLLOW_SIZE (FRAME_HEADER_SIZE + 4)
#define LINK_DETACH_SIZE FRAME_HEADER_SIZE

/* Records by number. The numbers are ours and grow, so their low bits are a perfect hash. */
struct link_node {
	uint32_t id;
	struct link_node *next;
};

struct link_table {
	struct link_node **buckets; /* NULL if the table is empty */
	uint32_t capacity;	    /* power of two */
	uint32_t count;
};

int link_table_add(struct link_table *table, struct link_node *node) _must_check_; /* -ENOMEM */
struct link_node *link_table_find(const struct link_table *table, uint32_t id);
void link_table_remove(struct link_table *table, const struct link_node *node);
/* Returns any record; nothing may be added between two calls with the same cursor. */
struct link_node *link_table_any(const struct link_table *table, uint32_t *cursor);

enum link_state { LINK_WAITING, LINK_READY, LINK_GONE };

/* A program for whose end (done) or start (started) a caller waits. Owner: link->processes. */
struct link_process {
	struct link_node node;
	struct link *link;
	link_exec_fn done; /* one of these two */
	link_started_fn started;
	void *arg;
	const char *argv_field; /* of the request */
	/* with started: the follow that starts with the program; 0: none */
	uint32_t follow_id;
	struct loop_timer *timer; /* NULL: no time limit */
	int64_t deadline_ms;	  /* of the timer, on the loop's clock */
	struct buf out, err;	  /* limit: output_max_bytes; more is a protocol violation */
};

/* Owner: link->follows. */
struct link_reader {
	struct link_node node;
	uint32_t process_id; /* 0: not started yet, no output is allowed */
	uint32_t credit;
	uint32_t owed; /* credit not yet sent to the agent; in link->owing while not 0 */
	uint8_t streams;
	uint64_t cursors[2]; /* no byte before these may arrive */
	struct link_follow_hooks hooks;
	void *arg;
	struct link_reader *next_owing, **pprev_owing;
};

/* The request of a tag. Owner: link->requests. */
struct link_request {
	struct link_node node;
	link_done_fn done; /* one of these five */
	link_list_fn each;
	link_window_fn window;
	link_dial_fn dialed;
	link_ports_fn ports;
	void *arg;
	uint32_t process_id; /* LIST: 0 for all; WINDOW_RUN: the number offered for a new shell */
	uint32_t follow_id;  /* WINDOW_RUN */
	bool orphans;	     /* ORPHANS: answered by LISTED, too */
	uint32_t listed;     /* LIST: number of processes so far, and the last of them */
	uint32_t last_id;
};

struct link {
	struct loop *loop;
	struct loop_watch *watch;
	struct loop_timer *timer; /* deadline of HELLO */
	int fd;
	bool passes_descriptors;
	int events;
	enum link_state state;
	int64_t frozen_ms; /* since when it is frozen, on the loop's clock; 0: not frozen */
	bool freed;	   /* the owner has freed it; the memory is freed in the next iteration */
	bool busy;	   /* inside one of our callbacks */
	bool deferred;	   /* finish() is scheduled */
	bool breaking;	   /* on_broken() is scheduled */
	struct link_hooks hooks;
	void *arg;
	struct err why;
	uint32_t features;
	struct buf in;	       /* an incomplete frame; limit: one frame */
	int passed_fd;	       /* received with bytes of an incomplete frame; -1: none */
	struct buf out;	       /* limit: LINK_OUT_MAX_BYTES, and the reserve of the streams */
	size_t reserved_bytes; /* in out, for UNFOLLOW and DETACH */
	uint32_t first_process_id;
	uint32_t next_process_id;
	uint32_t next_follow_id;
	uint32_t next_tag;
	struct link_table processes;
	struct link_table follows;
	struct link_table requests;
	struct link_table streams;
	uint32_t next_stream; /* odd; the agent's are even */
	uint32_t last_offer;
	uint32_t offer_count;
	struct link_stream *waiting; /* have more bytes for the agent than the queue takes */
	struct link_reader *owing;
};

/* link.c */
void link_flush(struct link *link);
/* Ends the link in the next iteration; for callers that cannot return an error. */
void link_break(struct link *link, enum err_code code, const char *what);
/* Sets link->why and returns -1: the caller ends the link. */
int link_protocol_error(struct link *link, const char *what);
int link_check_ready(const struct link *link, struct err *err) _must_check_;
/* Whether a process with this number can exist. */
int link_check_process(const struct link *link, uint32_t process_id, struct err *err) _must_check_;
/*
 * The end of every request: r is the result of the encoders, before the size of the queue before
 * them. Sends the frames, or removes all of them and fills err.
 */
int link_commit(struct link *link, size_t before, int r, struct err *err) _must_check_;

/* link_exec.c */
int link_on_collected(struct link *link, const struct agent_output *output) _must_check_;
int link_on_exit(struct link *link, const struct frame *frame) _must_check_;
int link_on_started(struct link *link, const struct frame *frame) _must_check_;
int link_on_refused(struct link *link, const struct frame *frame) _must_check_;
void link_drop_processes(struct link *link); /* these complete everything with GONE and link->why */

/* link_follow.c */
struct link_reader *link_reader_new(struct link *link, const struct link_follow_hooks *hooks,
				    void *arg, uint32_t credit, uint8_t streams, struct err *err);
struct link_reader *link_reader_find(const struct link *link, uint32_t follow_id);
void link_reader_free(struct link *link, struct link_reader *reader);
void link_put_owed(struct link *link);
int link_on_output(struct link *link, const struct frame *frame) _must_check_;
int link_on_followed(struct link *link, const struct frame *frame) _must_check_;
void link_drop_follows(struct link *link);

/* link_request.c */
struct link_request *link_request_new(struct link *link, void *arg, struct err *err);
struct link_request *link_request_find(const struct link *link, uint32_t tag);
void link_request_free(struct link *link, struct link_request *request);
int link_on_done(struct link *link, const struct frame *frame) _must_check_;
int link_on_listed(struct link *link, const struct frame *frame) _must_check_;
void link_drop_requests(struct link *link);

/* Removes the record, then reports the failure to its caller. */
void link_request_fail(struct link *link, struct link_request *request, const struct err *error);

/* link_port.c */
int link_on_dialed(struct link *link, const struct frame *frame) _must_check_;
int link_on_ports(struct link *link, const struct frame *frame) _must_check_;
int link_on_port_notice(struct link *link, const struct frame *frame) _must_check_;
/* As recv(2); takes the one descriptor that may arrive with the bytes. -EPROTO for more. */
ssize_t link_receive(struct link *link, char *at, size_t want) _must_check_;

/* Translates the errno of a failed dial. */
void link_dial_error(struct err *err, int error);

/* link_stream.c */
int link_stream_dial(struct link *link, uint16_t port, link_dial_fn done, void *arg,
		     struct err *err) _must_check_;
int link_on_stream(struct link *link, const struct frame *frame) _must_check_;
void link_streams_resume(struct link *link); /* the queue has space again */
void link_drop_streams(struct link *link);

/* link_window.c */
int link_on_window(struct link *link, const struct frame *frame) _must_check_;

/* link_text.c */
void link_status_of(struct link_status *ret, const struct agent_status *status);
enum link_end link_end_of(enum agent_end end);
/* Translates a refusal; detail comes from inside the sandbox and may be empty. */
void link_refusal(struct err *err, uint32_t refusal, uint32_t errno_value, const char *argv_field,
		  struct str detail); /* argv_field: NULL, or the name of the program's field */
int link_refusal_exit_code(uint32_t refusal); /* as a shell would report it */
/*
 * Copies text of the sandbox for people and logs: UTF-8, without control characters. dst holds s.n
 * + 1 bytes. Returns whether the bytes are unchanged.
 */
bool link_clean(char *dst, struct str s);

#endif
