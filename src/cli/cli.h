/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the program: what the global options say, where the daemon is, how failures look. */
#ifndef CAY_CLI_CLI_H
#define CAY_CLI_CLI_H

#include <limits.h>

#include "base/buf.h"
#include "base/json.h"
#include "cli/line/args.h"
#include "cli/output/style.h"
#include "http/client/client.h"

#define CLI_DEFAULT_STATE "/var/lib/cay"
#define CLI_DEFAULT_URL "http://127.0.0.1:7070"
#define CLI_URL_MAX 512
#define CLI_KEY_MAX 256
#define CLI_HINT_MAX 512

/* Who said what a setting is; the first of these wins. */
enum setting_from { SETTING_FLAG, SETTING_ENVIRONMENT, SETTING_FILE, SETTING_NONE };

/* The beginning of an id, and what it was found to be: resolve.h. */
#define CLI_RESOLVED_MAX 8 /* the oldest is looked up again */
struct resolved {
	int collection;
	char typed[64], id[64];
};

/* Owner: main(). */
struct cli {
	bool json;
	bool quiet;
	bool raw; /* the terminal is: a line needs its CR */
	enum color_mode color;
	bool color_out, color_err;
	const char *state; /* directory; borrowed */
	char state_found[PATH_MAX];
	bool state_given;  /* by flag, environment or file */
	bool state_served; /* its daemon's address was found there before */
	bool state_flag;   /* by flag: then CAY_URL and CAY_API_KEY mean another daemon */
	const char *url_flag, *key_flag;
	bool url_ignored;	       /* up and down: the daemon is the state directory's */
	const struct command *command; /* for hints about usage; may be NULL */

	char url[CLI_URL_MAX]; /* filled by cli_connect() */
	struct http_client *http;
	/* Watched while a call waits; see http_client_set_wake(). */
	int wake_fd;
	int (*wake)(void *arg);
	void *wake_arg;

	struct resolved resolved[CLI_RESOLVED_MAX];
	size_t resolved_count;
	bool resolving;

	/* The last failure beyond struct err: what the daemon answered, and what to do next. */
	char *error_body; /* verbatim JSON, NULL when none */
	int http_status;
	bool lost;	   /* no answer came: the daemon may be on its way back */
	int lost_error;	   /* -errno of it, 0: it answered 503 */
	uint64_t left_out; /* entries the archive that came last says it lacks */
	int exit_status;   /* 0: by err's code */
	char hint[CLI_HINT_MAX];
};

void cli_init(struct cli *cli, const struct args *args);
void cli_done(struct cli *cli);

/* A setting that the daemon has too: dst is written unless nobody said anything. */
enum setting_from cli_setting(const struct args *args, const char *name, const char *variable,
			      char *dst, size_t size);
/* Whether a URL is the address that the daemon of the state directory has written there. */
bool cli_url_is_local(const struct cli *cli, const char *url);
/* For commands that act on the state directory: refused when a URL names another daemon. */
int cli_use_state(struct cli *cli, struct err *err) _must_check_;
/* Finds address and key by that rule. Idempotent. */
int cli_connect(struct cli *cli, struct err *err) _must_check_;
/* Forgets the connection, so that the next call finds the address anew (after start, after fork).
 */
void cli_disconnect(struct cli *cli);
/* -ENOENT when there is no daemon; trims the line. For <state>/url and <state>/admin.key. */
int cli_read_line(const char *dir, const char *name, char *dst, size_t size) _must_check_;

/* What to do next; shown below the message. Returns -1, like err_set(). */
int cli_hint(struct cli *cli, const char *fmt, ...) _printf_(2, 3);
/* Prints the failure (JSON with --json) on standard error and returns the exit status. */
int cli_report(struct cli *cli, const struct err *err);
/* A line for people on standard error, unless -q or --json. */
void cli_note(const struct cli *cli, const char *fmt, ...) _printf_(2, 3);

#endif
