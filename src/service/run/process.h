/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a sandbox: start, list, follow, write input, signal, stop. The agent keeps their
 * output inside the sandbox; the daemon only passes it on. Faces call these functions; the service
 * owns follows until their last hook was called.
 */
#ifndef CAY_SERVICE_RUN_PROCESS_H
#define CAY_SERVICE_RUN_PROCESS_H

#include "base/arena.h"
#include "service/sandbox/sandbox.h"

#define EXEC_ARGV_MAX 4096
#define EXEC_BYTES_MAX (512 * 1024)  /* arguments and environment together */
#define EXEC_STRING_MAX (128 * 1024) /* one string, including its NUL: the limit of execve() */
#define EXEC_TIMEOUT_MAX_SEC 86400
#define PROCESS_NAME_MAX 64
#define PROCESS_TTY_MAX 4096 /* columns, rows */
#define PROCESS_COLS 80	     /* of a new terminal */
#define PROCESS_ROWS 24
#define EXEC_CWD_MAX 4096
#define EXEC_USER_MAX 64
#define PROCESS_STOP_GRACE_MS 5000
#define PROCESSES_PER_SANDBOX 256
#define WINDOWS_PER_SANDBOX 32
#define STREAMS_PER_KEY 2000
#define OUTPUT_RING_BYTES (1024 * 1024)
#define OUTPUT_KEEP_SEC 300

/* A program and its environment. Views live during the call. */
struct exec_spec {
	struct str command;    /* run by the template's shell; alternatively argv or shell */
	struct text_list argv; /* run directly */
	struct str shell;      /* an interactive shell, with tty; empty: the template's shell */
	struct text_map env;
	struct str cwd, user;
	struct str name;		  /* empty: none */
	struct str stdin_text, stdin_b64; /* at most one of them */
	int64_t timeout_sec;		  /* 0: none */
	/* Replaces timeout_sec where seconds are too coarse; 0: not given. */
	int64_t timeout_ms;
	int64_t max_output_bytes; /* exec_start() only */
	int64_t cols, rows;	  /* with tty */
	uint32_t ring_bytes;	  /* per stream; 0: as configured */
	bool stdin_open;
	bool hold; /* process_start(): a foreground reader gets every byte; see follow_spec */
	bool tty;
	bool shell_only; /* run only the shell */
	/* process_start(): its id is noted there before it is started; NULL: none. */
	struct idempotency *idem;
};

struct process_status {
	/* exited, signaled, timeout, oom, killed_by_request, sandbox_gone; NULL: still running */
	const char *reason;
	int exit_code;
	int signal; /* 0: none */
	int64_t duration_us;
	uint64_t out_total, err_total; /* bytes written; also the cursor of the next byte */
	uint64_t memory_limit_bytes, memory_peak_bytes; /* 0: unknown, or not related to memory */
	/* processes of the sandbox that the memory limit killed while it ran, also its children */
	uint32_t oom_kills;
};

/* Strings live for the call; none is NULL. */
struct process_info {
	uint32_t process_id, pid;
	bool tty, stdin_open;
	bool window; /* name is the window's */
	uint16_t cols, rows;
	int64_t started_ms;
	uint64_t out_begin, err_begin; /* cursors of the oldest bytes that are kept */
	struct process_status status;
	const char *name, *user, *command;
};

enum { PROCESS_OUT = 1, PROCESS_ERR = 2 };

/* ---- follows ---- */

/*
 * A follow receives bytes as far as its credit allows; the reader returns credit when it has sent
 * them. If the link breaks, the follow continues after the last byte when the link is ready again.
 */
struct follow_hooks {
	/* cursor: of the first byte. If it is larger than expected, bytes were dropped. Bytes live
	 * for the call. */
	void (*on_output)(void *arg, int stream, uint64_t cursor, struct str bytes);
	/*
	 * Called once, as the last hook. err: the follow could not continue; for sandbox_gone,
	 * status has that reason, too.
	 */
	void (*on_end)(void *arg, const struct process_status *status, const struct err *err);
	/* Called instead of on_end when the service is closed, to free arg; NULL: not needed. */
	void (*on_drop)(void *arg);
};
struct follow_spec {
	uint64_t out_cursor, err_cursor;
	uint32_t credit;
	uint32_t run;	 /* not 0: follows this run of a window, and ends with it */
	uint8_t streams; /* PROCESS_OUT | PROCESS_ERR */
	bool live;
	/*
	 * With live: a foreground reader. Bytes whose credit it has not returned are not
	 * overwritten; when the ring is full, the program blocks.
	 */
	bool hold;
	bool waited; /* the sandbox's idle clock stops meanwhile */
};
int follow_open(struct sandbox *sandbox, uint32_t process_id, const struct follow_spec *spec,
		const struct follow_hooks *hooks, void *arg, slot_handle *ret,
		struct err *err) _must_check_;
void follow_credit(struct service *service, slot_handle follow, uint32_t bytes);
void follow_close(struct service *service, slot_handle follow); /* no hook is called afterwards */

/* ---- start ---- */

/* follow 0: none. If err is set, nothing was started and no hook is called. */
typedef void (*process_started_fn)(void *arg, uint32_t process_id, uint32_t pid, slot_handle follow,
				   const struct err *err);
/* Follows the process from its first byte on, with this credit. hooks NULL: no follow. */
struct process_reader {
	const struct follow_hooks *hooks;
	void *arg;
	uint32_t credit;
};
/* reader NULL: the process starts without a follow. */
int process_start(struct sandbox *sandbox, const struct exec_spec *spec, process_started_fn started,
		  void *arg, const struct process_reader *reader, struct err *err) _must_check_;

/* Whether an earlier daemon asked the agent to start this process. If not, it never ran. */
bool process_was_begun(const struct sandbox *sandbox, uint32_t process_id);
/* It was not, although its start was noted and published: publishes that it did not start. */
void process_never_begun(const struct sandbox *sandbox, uint32_t process_id);

/* ---- inspect ---- */

/* Called for each, oldest first, then once with info NULL; err says whether the list is complete.
 */
typedef void (*process_each_fn)(void *arg, const struct process_info *info, const struct err *err);
int process_list(struct sandbox *sandbox, process_each_fn each, void *arg,
		 struct err *err) _must_check_;
/*
 * One process, by its id or name (of several the running one, otherwise the newest). Called once.
 */
typedef void (*process_found_fn)(void *arg, const struct process_info *info, const struct err *err);
int process_find(struct sandbox *sandbox, struct str id, process_found_fn found, void *arg,
		 struct err *err) _must_check_;
/* Whether id is a process id; process_find() is then not needed. */
bool process_id_parse(struct str id, uint32_t *ret);

/*
 * Processes that were not started here and whose ancestors have ended, by pid; only pid, user,
 * command and started_ms are set. None if the sandbox's agent is of an earlier version.
 */
int process_orphans(struct sandbox *sandbox, process_each_fn each, void *arg,
		    struct err *err) _must_check_;
/* "pid:N": a process by its pid inside, whether it was started here or not. */
bool process_pid_parse(struct str id, uint32_t *ret);

/* ---- control ---- */

typedef void (*process_done_fn)(void *arg, const struct err *err);
/*
 * wait: done is called when the program has taken the bytes, otherwise when they are queued for it.
 * done may be NULL.
 */
int process_stdin(struct sandbox *sandbox, uint32_t process_id, struct str bytes, bool wait,
		  process_done_fn done, void *arg, struct err *err) _must_check_;
int process_close_stdin(struct sandbox *sandbox, uint32_t process_id, process_done_fn done,
			void *arg, struct err *err) _must_check_;
int process_signal(struct sandbox *sandbox, uint32_t process_id, int signum, process_done_fn done,
		   void *arg, struct err *err) _must_check_;
int process_resize(struct sandbox *sandbox, uint32_t process_id, int64_t cols, int64_t rows,
		   process_done_fn done, void *arg, struct err *err) _must_check_;
/*
 * Sends TERM and, after the grace period, KILL to all its descendants. done is called when the
 * process is dead and removed.
 */
int process_stop(struct sandbox *sandbox, uint32_t process_id, process_done_fn done, void *arg,
		 struct err *err) _must_check_;
/* A signal to one process by its pid; with kill, SIGKILL to it and to its descendants. */
int process_signal_pid(struct sandbox *sandbox, uint32_t pid, int signum, process_done_fn done,
		       void *arg, struct err *err) _must_check_;
int process_kill_pid(struct sandbox *sandbox, uint32_t pid, process_done_fn done, void *arg,
		     struct err *err) _must_check_;
/* SIGKILL to everything in the sandbox except its agent; done is called when it is gone. */
int process_kill_all(struct sandbox *sandbox, process_done_fn done, void *arg,
		     struct err *err) _must_check_;
/*
 * Parses "TERM" or "SIGTERM" or, without a name, a number such as 15. 0 with err set if it is not a
 * signal.
 */
int process_signal_parse(struct str name, int64_t number, struct err *err);

/* Decodes the base64 text of a field into the arena. */
int input_decode(struct arena *arena, const char *what, struct str b64, struct str *ret,
		 struct err *err) _must_check_;

/* ---- open streams of a key ---- */

int stream_admit(struct service *service, struct key *key, struct err *err) _must_check_;
void stream_end(struct service *service, const char *key_id);
/* Limit for terminal input that waits in the daemon until a program reads it, per key. More is
 * refused with quota_exceeded. */
#define STREAM_INPUT_PER_KEY (16u * 1024 * 1024)
int stream_hold_input(struct service *service, const char *key_id, uint32_t bytes,
		      struct err *err) _must_check_;
void stream_release_input(struct service *service, const char *key_id, uint32_t bytes);

#endif
