/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the link, shared by its files only: link.c has bytes and life, link_exec.c the
 * programs, link_follow.c the readers, link_request.c what is answered by DONE or LISTED,
 * link_port.c the ports, link_stream.c connections in frames, link_window.c the windows,
 * link_words.c what the agent's words mean to people.
 *
 * Three kinds of numbers are given out by us, each growing, never twice on a link: processes,
 * follows, tags. A record is in its table from the request to its last answer or until whoever
 * waited gave up. A process or follow we gave out and do not know any more was given up: its frames
 * were on their way and are ignored. A number we never gave out is a breach of protocol, and so is
 * an unknown tag, for tags are never given up.
 */
#ifndef CAY_ENGINE_LINK_STATE_H
#define CAY_ENGINE_LINK_STATE_H

#include "base/buf.h"
#include "engine/link.h"
#include "wire/agent.h"
#include "wire/stream.h"

#define LINK_RECV_BYTES (FRAME_HEADER_SIZE + AGENT_FROM_MAX_BYTES)
#define LINK_RECVS_PER_EVENT 4
/* Requests waiting: at least one with the largest input and arguments. Then capacity_exceeded. */
#define LINK_OUT_MAX_BYTES (AGENT_STDIN_MAX_BYTES + AGENT_TO_MAX_BYTES)
/* Unfinished ones on one link; at the limit: quota_exceeded. */
#define LINK_PROCESSES_MAX 1024
#define LINK_FOLLOWS_MAX 4096
#define LINK_REQUESTS_MAX 4096
#define LINK_LISTED_MAX 4096 /* in one answer; more is a breach of protocol */
/* Connections in frames. Dialled ones at the limit: capacity_exceeded; offered ones: refused. */
#define LINK_STREAMS_MAX 1024
#define LINK_OFFERS_MAX 256
#define LINK_WINDOW_BYTES \
	(256U << 10) /* what the agent may send of one and we have not passed on */
#define LINK_STREAMS_HIGH_BYTES (512U << 10) /* in the queue: callers are not read meanwhile */
/* Space of the queue for frames of streams that cannot wait; when it is full, the link ends. */
#define LINK_STREAMS_SPARE_BYTES (256U << 10)
/* The agent keeps the time limits. One that does not within this is not believed any longer. */
#define LINK_TIMEOUT_GRACE_MS 5000

/* Giving up must always be possible: room for these frames is kept free in the queue. */
#define LINK_UNFOLLOW_SIZE (FRAME_HEADER_SIZE + 4)
#define LINK_DETACH_SIZE FRAME_HEADER_SIZE

/* Records by number. The numbers are ours and grow: their low bits are a perfect hash. */
struct link_node {
	uint32_t id;
	struct link_node *next;
};

struct link_table {
	struct link_node **buckets; /* NULL while the table is empty */
	uint32_t capacity;	    /* power of two */
	uint32_t count;
};

int link_table_add(struct link_table *table, struct link_node *node) _must_check_; /* -ENOMEM */
struct link_node *link_table_find(const struct link_table *table, uint32_t id);
void link_table_remove(struct link_table *table, const struct link_node *node);
/* Any record; nothing may be added between two calls with the same cursor. */
struct link_node *link_table_any(const struct link_table *table, uint32_t *cursor);

enum link_state { LINK_WAITING, LINK_READY, LINK_GONE };

/* A program whose end (done) or start (started) somebody waits for. Owner: link->processes. */
struct link_process {
	struct link_node node;
	struct link *link;
	link_exec_fn done; /* one of these two */
	link_started_fn started;
	void *arg;
	const char *argv_field;	  /* of the request */
	uint32_t follow_id;	  /* with started: begins with the program; 0: none */
	struct loop_timer *timer; /* NULL: no time limit */
	int64_t deadline_ms;	  /* of the timer, on the loop's clock */
	struct buf out, err;	  /* limit: output_max_bytes; more is a breach of protocol */
};

/* Owner: link->follows. */
struct link_reader {
	struct link_node node;
	uint32_t process_id; /* 0: not started yet, nothing may come */
	uint32_t credit;
	uint32_t owed; /* credit the agent does not know of yet; in link->owing while not 0 */
	uint8_t streams;
	uint64_t cursors[2]; /* nothing before these may come any more */
	struct link_follow_hooks hooks;
	void *arg;
	struct link_reader *next_owing, **pprev_owing;
};

/* What a tag stands for. Owner: link->requests. */
struct link_request {
	struct link_node node;
	link_done_fn done; /* one of these five */
	link_list_fn each;
	link_window_fn window;
	link_dial_fn dialed;
	link_ports_fn ports;
	void *arg;
	uint32_t process_id; /* LIST: 0 for all; WINDOW_RUN: the one offered for a new shell */
	uint32_t follow_id;  /* WINDOW_RUN */
	uint32_t listed;     /* LIST: how many so far, and the last of them */
	uint32_t last_id;
};

struct link {
	struct loop *loop;
	struct loop_watch *watch;
	struct loop_timer *timer; /* for the hello */
	int fd;
	bool passes_descriptors;
	int events;
	enum link_state state;
	int64_t frozen_ms; /* since when, on the loop's clock; 0: it is not */
	bool freed;	   /* the owner let go; memory goes on the next turn */
	bool busy;	   /* inside one of our callbacks */
	bool deferred;	   /* finish() is on its way */
	bool breaking;	   /* on_broken() is on its way */
	struct link_hooks hooks;
	void *arg;
	struct err why;
	uint32_t features;
	struct buf in;	       /* a torn frame; limit: one frame */
	int passed_fd;	       /* came with bytes of a frame that is not complete; -1: none */
	struct buf out;	       /* limit: LINK_OUT_MAX_BYTES, and the spare of the streams */
	size_t reserved_bytes; /* of out, for UNFOLLOW and DETACH */
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
	struct link_stream *waiting; /* have more for the agent than the queue takes */
	struct link_reader *owing;
};

/* link.c */
void link_flush(struct link *link);
/* Ends the link on the next turn; for callers that have no way to say so. */
void link_break(struct link *link, enum err_code code, const char *what);
/* Sets link->why and returns -1: the caller ends the link. */
int link_protocol_error(struct link *link, const char *what);
int link_check_ready(const struct link *link, struct err *err) _must_check_;
/* Whether a process of this number can exist. */
int link_check_process(const struct link *link, uint32_t process_id, struct err *err) _must_check_;
/*
 * The end of every request: r is what the encoders said, before what was queued before them. Sends
 * it, or takes all of it back and fills err.
 */
int link_commit(struct link *link, size_t before, int r, struct err *err) _must_check_;

/* link_exec.c */
int link_on_collected(struct link *link, const struct agent_output *output) _must_check_;
int link_on_exit(struct link *link, const struct frame *frame) _must_check_;
int link_on_started(struct link *link, const struct frame *frame) _must_check_;
int link_on_refused(struct link *link, const struct frame *frame) _must_check_;
void link_drop_processes(struct link *link); /* these complete all with GONE and link->why */

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

/* Removes the record, then tells the failure to whoever waits. */
void link_request_fail(struct link *link, struct link_request *request, const struct err *error);

/* link_port.c */
int link_on_dialed(struct link *link, const struct frame *frame) _must_check_;
int link_on_ports(struct link *link, const struct frame *frame) _must_check_;
int link_on_port_notice(struct link *link, const struct frame *frame) _must_check_;
/* As recv(2), and takes the one descriptor that may come with the bytes: -EPROTO for more. */
ssize_t link_receive(struct link *link, char *at, size_t want) _must_check_;

/* What the errno of a failed dial means. */
void link_dial_error(struct err *err, int error);

/* link_stream.c */
int link_stream_dial(struct link *link, uint16_t port, link_dial_fn done, void *arg,
		     struct err *err) _must_check_;
int link_on_stream(struct link *link, const struct frame *frame) _must_check_;
void link_streams_resume(struct link *link); /* the queue has space again */
void link_drop_streams(struct link *link);

/* link_window.c */
int link_on_window(struct link *link, const struct frame *frame) _must_check_;

/* link_words.c */
void link_status_of(struct link_status *ret, const struct agent_status *status);
enum link_end link_end_of(enum agent_end end);
/* What a refusal means; detail comes from inside the sandbox and may be empty. */
void link_refusal(struct err *err, uint32_t refusal, uint32_t errno_value, const char *argv_field,
		  struct str detail); /* argv_field: NULL, or what to call the program's field */
int link_refusal_exit_code(uint32_t refusal); /* what a shell would say */
/*
 * Copies words of the sandbox for people and logs: UTF-8, nothing that drives a terminal. dst holds
 * s.n + 1 bytes. Returns whether they are the same bytes still.
 */
bool link_clean(char *dst, struct str s);

#endif
