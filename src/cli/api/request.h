/* SPDX-License-Identifier: Apache-2.0 */
/* Request bodies, from the options that `create`, `run` and `exec` share. */
#ifndef CAY_CLI_API_REQUEST_H
#define CAY_CLI_API_REQUEST_H

#include "cli/api/api.h"
#include "cli/line/args.h"

#define REQUEST_STDIN_MAX (1024 * 1024)	   /* with -d or --json; more is refused */
#define REQUEST_BODY_MAX (4 * 1024 * 1024) /* stdin in base64, arguments, environment */

/* Zero: the daemon's default. */
struct exec_request {
	const char *const *words;
	size_t count;
	bool shell; /* one string, run by the shell */
	const char *user, *cwd;
	const char *name;	     /* of the process */
	const struct args *env_from; /* NULL: none */
	const char *term;	     /* TERM, unless env_from sets it */
	uint64_t timeout_sec;
	bool has_timeout; /* timeout 0 then means none */
	struct str stdin_bytes;
	bool has_stdin;
	bool keep_stdin_open; /* open or closed: sent only if it matters */
	bool close_stdin;
	bool hold;		 /* a reader attaches at once */
	unsigned int cols, rows; /* 0: no terminal */
};

/* Writes the body of POST /v1/sandboxes. */
int request_create(const struct args *args, struct buf *out, struct err *err) _must_check_;
/* The same, and sends it. */
int request_sandbox(struct cli *cli, const struct args *args, struct json **ret,
		    struct err *err) _must_check_;
/* Writes the body of POST .../exec, .../exec/stream or .../processes. */
int request_exec(const struct exec_request *req, struct buf *out, struct err *err) _must_check_;
/* Writes "K=V" options as one JSON object member; nothing if there are none. */
void request_pairs(struct json_writer *w, const struct args *args, const char *option,
		   const char *member);

/* Decodes base64 (RFC 4648, padded) into dst: 0, -EINVAL or -ENOBUFS. */
int request_unb64(struct str text, struct buf *dst) _must_check_;

/* Joins the arguments to one shell command line, each quoted as necessary. */
int request_quote(const char *const *words, size_t count, struct buf *out) _must_check_;

/* How a command is connected to this program. */
struct exec_way {
	/* -i: our standard input is the command's; otherwise that is empty, and ours is not read */
	bool input;
	bool tty;	/* -t */
	bool ephemeral; /* the caller handles signals and removes the sandbox */
};
/* Runs a command, passes on its output as it arrives, and returns its exit status or -1. */
int exec_call(struct cli *cli, const char *id, struct exec_request *req, const struct exec_way *way,
	      struct err *err);
/* -t needs a terminal. */
int exec_check_tty(struct cli *cli, bool tty, struct err *err) _must_check_;
/* exec -w: runs the words of req as a command of the named window. */
int window_exec(struct cli *cli, const char *id, const char *window, const struct exec_request *req,
		struct err *err);

#endif
