/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between cayd and cay-agent: frames of wire/frame.h over a Unix stream socket,
 * multiplexed by process id. The daemon chooses the ids, which only grow and are never reused.
 * HELLO names the first free one, so that a restarted daemon continues where its predecessor
 * stopped.
 *
 * The agent keeps the output of every process in one ring per stream, addressed by byte cursors
 * that only grow. A finished process stays readable for a while. A reader is a *follow*, numbered
 * by the daemon like the processes. It receives OUTPUT from its cursor on, as far as its credit
 * allows, and at the end one FOLLOWED. Every OUTPUT carries the cursor of its first byte, so a
 * reader that fell behind sees the gap and its size.
 *
 * A request whose result the daemon needs carries a *tag* (not 0) and is answered by exactly one
 * DONE with that tag. Tag 0 requests no answer.
 *
 * Both ends treat their peer as hostile. Decoders check every length, count, range and NUL and
 * return -EPROTO. Encoders refuse what the decoder would refuse (-EINVAL, -EMSGSIZE). Decoded
 * strings are views into the frame.
 */
#ifndef CAY_WIRE_AGENT_H
#define CAY_WIRE_AGENT_H

#include "wire/agent_types.h"
#include "wire/frame.h"

/* EXEC for the sender. */
struct agent_exec_args {
	const char *const *argv; /* NULL-terminated, at least one */
	const char *const *env;	 /* NULL-terminated; NULL: empty */
	const char *cwd;	 /* NULL or "": the agent's default */
	const char *user;	 /* NULL or "": the agent's default */
	const char *name;	 /* NULL or "": none */
	struct str stdin_bytes;
	uint64_t timeout_ms;	   /* 0: none */
	uint32_t output_max_bytes; /* per stream, kept by COLLECT from the start */
	uint32_t ring_bytes;	   /* per stream without COLLECT; 0: the default */
	uint32_t keep_ms;	   /* after its end; 0: the default */
	uint32_t follow_id;	   /* with FOLLOW, else 0 */
	uint32_t credit;	   /* with FOLLOW */
	uint16_t cols, rows;	   /* with TTY, else 0 */
	uint8_t flags;
};

/* EXEC as received; strings point into the frame and are NUL-terminated there. */
struct agent_exec {
	uint32_t process_id;
	uint8_t flags;
	uint64_t timeout_ms;
	uint32_t output_max_bytes;
	uint32_t ring_bytes;
	uint32_t keep_ms;
	uint32_t follow_id;
	uint32_t credit;
	uint16_t cols, rows;
	uint16_t argc;
	uint16_t envc;
	const char *user; /* "": default */
	const char *cwd;  /* "": default */
	const char *name; /* "": none */
	const char *args; /* argc + envc consecutive strings */
	struct str stdin_bytes;
};

/*
 * WINDOW_RUN: runs a command in the named window. If the window does not exist, creates it (as
 * process_id, with the agent's bash, like an EXEC with TTY). A command in progress is cancelled
 * first. The follow is created with the flags LIVE | OUT | RUN at the command's first byte.
 */
struct agent_window_args {
	const char *name;	/* [A-Za-z0-9._-], 1 to AGENT_NAME_MAX */
	const char *const *env; /* these three only if the window is created */
	const char *cwd;
	const char *user;
	struct str command; /* no NUL, not empty */
	uint32_t tag;
	uint32_t follow_id;
	uint32_t credit;
	uint32_t ring_bytes;
};

struct agent_window_run {
	uint32_t process_id; /* for the shell, if it must be created */
	uint32_t tag, follow_id, credit, ring_bytes;
	uint16_t envc;
	const char *name, *user, *cwd;
	const char *args; /* envc strings */
	struct str command;
};

struct agent_window {
	uint32_t process_id; /* of the window's shell */
	uint32_t tag;
	uint32_t run;	 /* counts the commands of this window from 1 */
	uint64_t cursor; /* where the command's output begins */
	bool made;	 /* the window did not exist before */
	bool cancelled;	 /* a command was in progress */
};

struct agent_follow {
	uint32_t process_id;
	uint32_t follow_id; /* not 0 */
	uint32_t credit;    /* bytes of output that may be in flight; OUTPUT uses it up */
	uint32_t run;	    /* with RUN */
	uint8_t flags;
	uint64_t out_cursor, err_cursor;
};

/* How a process ended, or that it is running (end NONE: all members except the totals are 0). */
struct agent_status {
	enum agent_end end;
	uint32_t exit_code;
	uint32_t signal;
	uint64_t duration_us;
	uint64_t out_total, err_total; /* bytes written so far: the cursors of the next ones */
	uint64_t memory_limit_bytes;   /* with OOM; 0: unknown */
	uint64_t memory_peak_bytes;
	/* processes of the sandbox that the memory limit killed while it ran; saturates */
	uint32_t oom_kills;
};

/* Flags of a listed process. */
enum {
	AGENT_PROCESS_TTY = 1,
	AGENT_PROCESS_WINDOW = 2,
	AGENT_PROCESS_COLLECT = 4, /* a caller waits for it */
	AGENT_PROCESS_BUSY = 8,	   /* window: a command runs */
	AGENT_PROCESS_STDIN_OPEN = 16,
	/* in the answer to ORPHANS: process_id is its pid, and it has no name, output or end */
	AGENT_PROCESS_ORPHAN = 32,
	AGENT_PROCESS_FLAGS = 63,
};
#define AGENT_ORPHANS_MAX 1024 /* per answer to ORPHANS; further ones are not reported */

/*
 * One process in LISTED, in order of increasing ids. Strings are views into the frame without NUL;
 * their content is not trusted.
 */
struct agent_listed {
	uint32_t process_id;
	uint32_t pid;
	uint8_t flags;
	uint16_t cols, rows;
	uint64_t start_ms;  /* wall clock */
	uint64_t out_begin; /* cursor of the oldest byte held */
	uint64_t err_begin;
	struct agent_status status;
	uint32_t run;		/* window: number of the last command, 0: none yet */
	uint32_t run_exit_code; /* and how it ended */
	enum agent_end run_end;
	uint64_t run_cursor; /* where its output begins */
	uint64_t idle_ms;    /* window: since the last command, input or output */
	struct str name, user, command;
};

struct agent_hello {
	uint16_t version;
	uint32_t features;
	uint32_t next_process_id;
	/* processes of an earlier connection that still run or have unread output */
	uint32_t process_count;
};

struct agent_boot_failed {
	uint32_t step;
	uint32_t errno_value;
	char name[AGENT_STEP_NAME_SIZE]; /* name of the step; [a-z0-9 _-] only, NUL-terminated */
};

struct agent_output {
	uint32_t process_id;
	uint32_t follow_id; /* 0: the collected output of an EXEC */
	enum agent_stream stream;
	uint64_t cursor;
	struct str bytes; /* not empty */
};
#define AGENT_OUTPUT_HEADER_SIZE 16
#define AGENT_OUTPUT_BYTES_MAX (AGENT_FROM_MAX_BYTES - AGENT_OUTPUT_HEADER_SIZE)

struct agent_exit {
	uint32_t process_id;
	struct agent_status status;
	struct str saved; /* path of the file with the full output; empty: there is none */
	bool saved_all;	  /* the file contains everything */
};

struct agent_followed {
	uint32_t process_id;
	uint32_t follow_id;
	uint32_t refusal;	    /* 0, or enum agent_refusal: no such process or position */
	struct agent_status status; /* end NONE: a follow without LIVE reached the end */
};

struct agent_done {
	uint32_t tag;
	uint32_t refusal; /* 0: done */
	uint32_t errno_value;
};

struct agent_refused {
	uint32_t process_id;
	enum agent_refusal code;
	uint32_t errno_value;
	struct str message; /* no NUL; otherwise not trusted */
};

struct agent_dialed {
	uint32_t tag;
	uint32_t errno_value; /* 0: connected */
};

/* A listening TCP port. */
struct agent_port {
	uint16_t port;
	uint8_t family;	     /* 4 or 6 */
	uint8_t address[16]; /* as on the wire; family 4 uses the first four bytes, the rest is 0 */
	uint32_t uid;
	uint32_t pid;	 /* 0: unknown; then there is no name */
	struct str name; /* name of the program; at most AGENT_PORT_NAME_MAX, no NUL; not trusted */
};

/* Daemon to agent. */
int agent_put_exec(struct buf *out, uint32_t process_id,
		   const struct agent_exec_args *args) _must_check_;
int agent_put_stdin(struct buf *out, uint32_t process_id, uint32_t tag, uint8_t flags,
		    struct str bytes) _must_check_;
int agent_put_close_stdin(struct buf *out, uint32_t process_id, uint32_t tag) _must_check_;
int agent_put_kill(struct buf *out, uint32_t process_id, uint32_t tag, int signum) _must_check_;
int agent_put_list(struct buf *out, uint32_t process_id, uint32_t tag) _must_check_; /* 0: all */
int agent_put_orphans(struct buf *out, uint32_t tag) _must_check_;
int agent_put_kill_pid(struct buf *out, uint32_t pid, uint32_t tag, int signum,
		       uint8_t flags) _must_check_;
int agent_put_kill_all(struct buf *out, uint32_t tag) _must_check_;
int agent_put_follow(struct buf *out, const struct agent_follow *follow) _must_check_;
int agent_put_resize(struct buf *out, uint32_t process_id, uint32_t tag, uint16_t cols,
		     uint16_t rows) _must_check_;
int agent_put_forget(struct buf *out, uint32_t process_id, uint32_t tag) _must_check_;
int agent_put_credit(struct buf *out, uint32_t follow_id, uint32_t bytes) _must_check_;
int agent_put_unfollow(struct buf *out, uint32_t follow_id) _must_check_;
int agent_put_stop(struct buf *out, uint32_t process_id, uint32_t tag, uint8_t flags,
		   uint32_t grace_ms) _must_check_;
int agent_put_detach(struct buf *out, uint32_t process_id) _must_check_;
/* LET_GO and TAKE_BACK, for a sender without a buffer. */
void agent_pack_empty(char dst[FRAME_HEADER_SIZE], enum agent_type type);
int agent_put_window_run(struct buf *out, uint32_t process_id,
			 const struct agent_window_args *args) _must_check_;
int agent_put_dial(struct buf *out, uint32_t tag, uint16_t port) _must_check_;
int agent_put_ports(struct buf *out, uint32_t tag) _must_check_;

/* The size that agent_put_exec() needs without stdin_bytes; SIZE_MAX if out of range. */
size_t agent_exec_size(const struct agent_exec_args *args);
bool agent_name_ok(struct str name); /* 1 to AGENT_NAME_MAX of [A-Za-z0-9._-] */

int agent_get_exec(const struct frame *frame, struct agent_exec *ret) _must_check_;
/*
 * argv has space for argc + 1 and env for envc + 1 pointers; both are NULL-terminated afterwards.
 */
void agent_exec_pointers(const struct agent_exec *exec, const char **argv, const char **env);
int agent_get_stdin(const struct frame *frame, uint32_t *ret_tag, struct str *ret) _must_check_;
/* Frames that contain only a tag: CLOSE_STDIN, LIST, FORGET, ORPHANS, KILL_ALL. */
int agent_get_tag(const struct frame *frame, uint32_t *ret_tag) _must_check_;
int agent_get_kill(const struct frame *frame, uint32_t *ret_tag, int *ret_signum) _must_check_;
int agent_get_kill_pid(const struct frame *frame, uint32_t *ret_tag, int *ret_signum) _must_check_;
int agent_get_follow(const struct frame *frame, struct agent_follow *ret) _must_check_;
int agent_get_resize(const struct frame *frame, uint32_t *ret_tag, uint16_t *ret_cols,
		     uint16_t *ret_rows) _must_check_;
int agent_get_credit(const struct frame *frame, uint32_t *ret_follow_id,
		     uint32_t *ret_bytes) _must_check_;
int agent_get_unfollow(const struct frame *frame, uint32_t *ret_follow_id) _must_check_;
int agent_get_stop(const struct frame *frame, uint32_t *ret_tag,
		   uint32_t *ret_grace_ms) _must_check_;
int agent_get_detach(const struct frame *frame) _must_check_;
int agent_get_empty(const struct frame *frame) _must_check_; /* LET_GO, TAKE_BACK */
int agent_get_window_run(const struct frame *frame, struct agent_window_run *ret) _must_check_;
void agent_window_pointers(const struct agent_window_run *run, const char **env); /* envc + 1 */
int agent_get_dial(const struct frame *frame, uint32_t *ret_tag, uint16_t *ret_port) _must_check_;
int agent_get_ports(const struct frame *frame, uint32_t *ret_tag) _must_check_;

/* Agent to daemon. */
int agent_put_hello(struct buf *out, const struct agent_hello *hello) _must_check_;
int agent_put_started(struct buf *out, uint32_t process_id, uint32_t pid) _must_check_;
int agent_put_output(struct buf *out, const struct agent_output *output) _must_check_;
/* Only the head, for a sender that writes the bytes from where they are. */
void agent_pack_output(char dst[FRAME_HEADER_SIZE + AGENT_OUTPUT_HEADER_SIZE],
		       const struct agent_output *output);
int agent_put_exit(struct buf *out, const struct agent_exit *exit) _must_check_;
int agent_put_refused(struct buf *out, const struct agent_refused *refused) _must_check_;
int agent_put_done(struct buf *out, const struct agent_done *done) _must_check_;
int agent_put_followed(struct buf *out, const struct agent_followed *followed) _must_check_;
int agent_put_window(struct buf *out, const struct agent_window *window) _must_check_;
#define AGENT_DIALED_SIZE (FRAME_HEADER_SIZE + 8)
/* For a sender that passes a descriptor with it: a separate message, not queued. */
void agent_pack_dialed(char dst[AGENT_DIALED_SIZE], uint32_t tag, uint32_t errno_value);
int agent_put_dialed(struct buf *out, const struct agent_dialed *dialed) _must_check_;
int agent_put_port_notice(struct buf *out, const struct agent_port *port, bool opened) _must_check_;
/* One frame: begin it, add the ports, end it. */
struct agent_port_listing {
	struct buf *out;
	size_t start;
	uint32_t count;
};
int agent_ports_begin(struct agent_port_listing *l, struct buf *out, uint32_t tag) _must_check_;
int agent_ports_add(struct agent_port_listing *l, const struct agent_port *port) _must_check_;
void agent_ports_end(struct agent_port_listing *l);
/* LISTED: begin, add until -ENOBUFS (the frame is full: end it and begin another), end. */
struct agent_listing {
	struct buf *out;
	size_t start;
};
int agent_listing_begin(struct agent_listing *l, struct buf *out, uint32_t tag) _must_check_;
int agent_listing_add(struct agent_listing *l, const struct agent_listed *listed) _must_check_;
void agent_listing_end(struct agent_listing *l, bool last);

int agent_get_hello(const struct frame *frame, struct agent_hello *ret) _must_check_;
int agent_get_boot_failed(const struct frame *frame, struct agent_boot_failed *ret) _must_check_;
int agent_get_started(const struct frame *frame, uint32_t *ret_pid) _must_check_;
int agent_get_output(const struct frame *frame, struct agent_output *ret) _must_check_;
int agent_get_exit(const struct frame *frame, struct agent_exit *ret) _must_check_;
int agent_get_refused(const struct frame *frame, struct agent_refused *ret) _must_check_;
int agent_get_done(const struct frame *frame, struct agent_done *ret) _must_check_;
int agent_get_followed(const struct frame *frame, struct agent_followed *ret) _must_check_;
int agent_get_window(const struct frame *frame, struct agent_window *ret) _must_check_;
/* LISTED: the tag, whether it is the last frame, and a reader for agent_next_listed(). */
int agent_get_listed(const struct frame *frame, uint32_t *ret_tag, bool *ret_last,
		     struct frame_reader *ret) _must_check_;
/* 1: *ret is one process; 0: end; -EPROTO. */
int agent_next_listed(struct frame_reader *reader, struct agent_listed *ret) _must_check_;

int agent_get_dialed(const struct frame *frame, struct agent_dialed *ret) _must_check_;
int agent_get_port_notice(const struct frame *frame, struct agent_port *ret,
			  bool *ret_opened) _must_check_;
/* PORTS_LISTED: the tag and a reader for agent_next_port(): 1: one port, 0: end, -EPROTO. */
int agent_get_ports_listed(const struct frame *frame, uint32_t *ret_tag,
			   struct frame_reader *ret) _must_check_;
int agent_next_port(struct frame_reader *reader, struct agent_port *ret) _must_check_;

/*
 * BOOT_FAILED is sent by the code that prepares the sandbox between clone and exec. It uses only
 * this array: no allocation and no buffer. name may be NULL; characters outside its alphabet become
 * '-'.
 */
#define AGENT_BOOT_FAILED_SIZE (FRAME_HEADER_SIZE + 8 + AGENT_STEP_NAME_SIZE)
static inline void agent_pack_boot_failed(char dst[AGENT_BOOT_FAILED_SIZE], uint32_t step,
					  int errno_value, const char *name)
{
	char *at = dst + FRAME_HEADER_SIZE + 8;
	size_t i = 0;

	frame_store_header(dst, 8 + AGENT_STEP_NAME_SIZE, AGENT_BOOT_FAILED, 0, 0);
	frame_store32(dst + FRAME_HEADER_SIZE, step);
	frame_store32(dst + FRAME_HEADER_SIZE + 4,
		      (uint32_t)(errno_value < 0 ? -errno_value : errno_value));
	for (; name && name[i] && i < AGENT_STEP_NAME_SIZE - 1; i++) {
		char c = name[i];
		bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ' ' || c == '_';

		at[i] = ok ? c : '-';
	}
	for (; i < AGENT_STEP_NAME_SIZE; i++)
		at[i] = '\0';
}

#endif
