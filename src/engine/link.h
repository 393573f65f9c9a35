/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's end of the connection to one agent. The agent is untrusted: every frame is checked,
 * an unexpected frame ends the link, and no frame can grow a buffer past its limit.
 *
 * The link stores no output: a follow gets bytes as far as it gave credit, and the rest stays in
 * the agent's ring. Every completion is called exactly once, never from inside the call. The
 * service owns the link and calls it.
 */
#ifndef CAY_ENGINE_LINK_H
#define CAY_ENGINE_LINK_H

#include "base/err.h"
#include "base/str.h"
#include "engine/channel.h"
#include "net/loop.h"

struct link; /* owner: the sandbox object of service/ */

enum link_end {
	LINK_END_NONE,	  /* it is running */
	LINK_END_EXIT,	  /* the program ended by itself: exit_code */
	LINK_END_SIGNAL,  /* by a signal: signal, exit_code = 128 + signal */
	LINK_END_TIMEOUT, /* exit_code 124 */
	LINK_END_OOM,	  /* the memory limit: memory_limit_bytes, memory_peak_bytes if known */
	LINK_END_KILLED,  /* by a signal that we requested */
	/* never started: err has the reason (unknown user, missing cwd, not found, ...) */
	LINK_END_REFUSED,
	LINK_END_GONE, /* the link broke or the sandbox died */
};

struct link_status {
	enum link_end end;
	int exit_code;
	int signal;
	int64_t duration_us;
	/* bytes written by the program: the cursors of the next ones */
	uint64_t out_total, err_total;
	uint64_t memory_limit_bytes, memory_peak_bytes;
	/* processes of the sandbox that the memory limit killed while it ran */
	uint32_t oom_kills;
};

struct link_exec {
	const char *const *argv; /* NULL-terminated, at least one; argv[0] is looked up in PATH */
	const char *argv_field;	 /* static; its name in an error, NULL: none */
	/* "KEY=VALUE", NULL-terminated; the agent adds HOME, USER, LOGNAME if absent */
	const char *const *env;
	const char *cwd;	/* NULL: the template's working directory */
	const char *user;	/* NULL: the default user; a name or a number, nothing else */
	const char *name;	/* NULL: none */
	struct str stdin_bytes; /* then closed, unless stdin_open */
	bool stdin_open;
	bool tty;
	bool tool; /* AGENT_EXEC_TOOL: lossless, not listed; needs a follow */
	/*
	 * link_spawn(): a foreground reader waits for the output, which is not overwritten before
	 * it is read: the follow of the same call, or one that follows soon.
	 */
	bool hold;
	bool save;	     /* link_exec(): output beyond the limit goes to a file inside */
	uint16_t cols, rows; /* with tty */
	int64_t timeout_ms;  /* 0: none */
	/* link_exec(): per stream; bytes beyond it are counted and dropped */
	size_t output_max_bytes;
	uint32_t ring_bytes; /* link_spawn(): per stream; 0: the agent's default */
	uint32_t keep_ms;    /* after its end; 0: the agent's default */
};

struct link_result {
	struct link_status status;
	struct str out, err;	 /* valid during the call only */
	const char *full_output; /* the file inside with the full output, or NULL; valid during the
				    call */
	bool full_output_complete;
};
/* error is NULL unless the end is REFUSED or GONE. */
typedef void (*link_exec_fn)(void *arg, const struct link_result *result, const struct err *error);

/* A listening TCP port inside; strings are sanitized and live for the call. */
struct link_port {
	uint16_t port;
	const char *address; /* "127.0.0.1", "::" */
	uint32_t uid;
	uint32_t pid;	     /* inside; 0: unknown */
	const char *process; /* "": unknown */
};

struct link_hooks {
	void (*on_ready)(void *arg); /* HELLO arrived */
	void (*on_gone)(
		void *arg,
		const struct err *why); /* once; also for boot failures. Free the link afterwards */
	/* NULL: not wanted. The agent sends it unrequested, as often as it likes. */
	void (*on_port)(void *arg, const struct link_port *port, bool opened);
	/*
	 * A program inside connected to the agent's egress proxy: fd is the other end, which the
	 * receiver closes. NULL: such connections are refused.
	 */
	void (*on_egress)(void *arg, int fd);
};

/* Takes ownership of the channel. The first frame must arrive within hello_timeout_ms. */
int link_new(struct loop *loop, const struct channel *channel, int hello_timeout_ms,
	     const struct link_hooks *hooks, void *arg, struct link **ret,
	     struct err *err) _must_check_;
void link_free(struct link *link); /* pending operations complete with GONE in the next iteration */
bool link_ready(const struct link *link);
/* The sandbox is frozen and sends nothing: time limits stop, and continue when it is thawed. */
void link_set_frozen(struct link *link, bool frozen);
bool link_has_tools(const struct link *link);

/* Starts a program, waits for its end, completes once. *ret_process_id is its number. */
int link_exec(struct link *link, const struct link_exec *exec, link_exec_fn done, void *arg,
	      uint32_t *ret_process_id, struct err *err) _must_check_;
/* The waiting caller has gone: done is not called, and the program continues and is kept. */
void link_detach(struct link *link, uint32_t process_id);

/* ---- follows ---- */

enum { LINK_OUT = 1, LINK_ERR = 2 };

/* Owner of a follow: the caller that created it, until on_end. */
struct link_follow_hooks {
	/*
	 * Bytes live for the call. cursor is that of the first byte: a larger one than expected
	 * means that bytes were dropped. Every byte uses up credit; return it with link_credit()
	 * when the byte has been sent.
	 */
	void (*on_output)(void *arg, int stream, uint64_t cursor, struct str bytes);
	/*
	 * Once, as the last call. status: how it ended; end NONE if it continues (not live, or
	 * link_unfollow() was not called and the run of a window ended). error: REFUSED or GONE.
	 */
	void (*on_end)(void *arg, const struct link_status *status, const struct err *error);
};

struct link_follow {
	uint64_t out_cursor, err_cursor;
	uint32_t credit;
	uint32_t run;	 /* not 0: of a window; ends with that run */
	uint8_t streams; /* LINK_OUT | LINK_ERR */
	bool live;
	/* with live: bytes that it has not taken are not overwritten; the program blocks */
	bool hold;
	bool tail; /* the cursors count back from the newest byte */
};

int link_follow(struct link *link, uint32_t process_id, const struct link_follow *follow,
		const struct link_follow_hooks *hooks, void *arg, uint32_t *ret_follow_id,
		struct err *err) _must_check_;
void link_credit(struct link *link, uint32_t follow_id, uint32_t bytes);
/* Neither on_end nor on_output is called afterwards. */
void link_unfollow(struct link *link, uint32_t follow_id);

/* ---- processes without a waiting caller ---- */

/* error NULL: it runs as process_id (pid inside the sandbox: pid). */
typedef void (*link_started_fn)(void *arg, uint32_t process_id, uint32_t pid,
				const struct err *error);
/* The reader of a process that is being started: it gets the output from the first byte on. */
struct link_first_reader {
	const struct link_follow_hooks *hooks;
	void *arg; /* of the hooks */
	uint32_t credit;
	uint32_t *ret_follow_id;
};
/* first NULL: the output has no reader yet. If the start is refused, only started is called. */
int link_spawn(struct link *link, const struct link_exec *exec, link_started_fn started, void *arg,
	       const struct link_first_reader *first, struct err *err) _must_check_;

/* The number of the next process, should its request be taken. */
uint32_t link_next_process(const struct link *link);
/* Numbers up to this one are not given to processes any more. */
void link_skip_processes(struct link *link, uint32_t upto);
/* Whether the agent had been asked for this process, or a later one, before this link was made. */
bool link_knew_process(const struct link *link, uint32_t process_id);

typedef void (*link_done_fn)(void *arg, const struct err *error);
/*
 * wait: done is called when the program's pipe has taken the bytes, otherwise when the agent has
 * them. done may be NULL in all calls below.
 */
int link_stdin(struct link *link, uint32_t process_id, struct str bytes, bool wait,
	       link_done_fn done, void *arg, struct err *err) _must_check_;
/*
 * For a stream of input: head and body as one message, of which only the part that the socket does
 * not take at once is copied; done as with wait.
 */
int link_feed(struct link *link, uint32_t process_id, struct str head, struct str body,
	      link_done_fn done, void *arg, struct err *err) _must_check_;
int link_close_stdin(struct link *link, uint32_t process_id, link_done_fn done, void *arg,
		     struct err *err) _must_check_;
int link_signal(struct link *link, uint32_t process_id, int signum, link_done_fn done, void *arg,
		struct err *err) _must_check_;
int link_resize(struct link *link, uint32_t process_id, uint16_t cols, uint16_t rows,
		link_done_fn done, void *arg, struct err *err) _must_check_;
/*
 * TERM, after grace_ms KILL for all its descendants; done is called when it has ended; then it is
 * forgotten.
 */
int link_stop(struct link *link, uint32_t process_id, uint32_t grace_ms, link_done_fn done,
	      void *arg, struct err *err) _must_check_;

/* One process as listed by the agent. Strings are sanitized, live for the call and may be empty. */
struct link_process_info {
	uint32_t process_id, pid;
	bool tty, window, collect, busy, stdin_open;
	bool orphan; /* link_orphans(): process_id is its pid */
	uint16_t cols, rows;
	int64_t start_ms; /* wall clock */
	uint64_t out_begin, err_begin;
	struct link_status status;
	uint32_t run;
	enum link_end run_end;
	int run_exit_code;
	uint64_t run_cursor;
	int64_t idle_ms;
	const char *name, *user, *command;
};
/*
 * Called for each process, oldest first, then once with info NULL: error says whether the list is
 * complete.
 */
typedef void (*link_list_fn)(void *arg, const struct link_process_info *info,
			     const struct err *error);
/* process_id 0: all processes. */
int link_list(struct link *link, uint32_t process_id, link_list_fn each, void *arg,
	      struct err *err) _must_check_;

/* ---- processes that were not started through the link ---- */

/* unsupported with an agent of an earlier version */
/* Those whose parents lead to the agent without a listed process among them, by pid. */
int link_orphans(struct link *link, link_list_fn each, void *arg, struct err *err) _must_check_;
/* Any process inside except the agent. tree: also its descendants; only with SIGKILL. */
int link_kill_pid(struct link *link, uint32_t pid, int signum, bool tree, link_done_fn done,
		  void *arg, struct err *err) _must_check_;
/* SIGKILL to everything inside except the agent; done is called when it is gone. */
int link_kill_all(struct link *link, link_done_fn done, void *arg, struct err *err) _must_check_;

/* ---- ports ---- */

/* fd: connected to the port, closed by the caller (net/foreign.h); -1 with error. */
typedef void (*link_dial_fn)(void *arg, int fd, const struct err *error);
int link_dial(struct link *link, uint16_t port, link_dial_fn done, void *arg,
	      struct err *err) _must_check_;
/* Called for each, then once with port NULL. */
typedef void (*link_ports_fn)(void *arg, const struct link_port *port, const struct err *error);
int link_ports(struct link *link, link_ports_fn each, void *arg, struct err *err) _must_check_;

/* ---- windows ---- */

struct link_window_run {
	const char *name;
	struct str command;
	const char *const *env; /* these three only if the window is created */
	const char *cwd, *user;
	uint32_t ring_bytes;
};
struct link_window {
	uint32_t process_id;
	uint32_t run;
	uint64_t cursor;
	bool made, cancelled;
};
typedef void (*link_window_fn)(void *arg, const struct link_window *window,
			       const struct err *error);
/*
 * started, then the follow of this run's output: on_end has the command's exit code. If the start
 * is refused, only started is called.
 */
int link_window_run(struct link *link, const struct link_window_run *run, link_window_fn started,
		    void *arg, const struct link_first_reader *first, struct err *err) _must_check_;

#endif
