/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one run of the program: global options, the daemon's address, and reporting of
 * failures. main() owns it, and every command gets a pointer to it.
 */
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

/* Where a setting comes from; the first of these has precedence. */
enum setting_from { SETTING_FLAG, SETTING_ENVIRONMENT, SETTING_FILE, SETTING_NONE };

/* An abbreviated id and the whole one: resolve.h. */
#define CLI_RESOLVED_MAX 8 /* at the limit the oldest is dropped and looked up again */
struct resolved {
	int collection;
	char typed[64], id[64];
};

/* Owner: main(). */
struct cli {
	bool json;
	bool quiet;
	bool raw; /* the terminal is in raw mode: lines need a CR */
	enum color_mode color;
	bool color_out, color_err;
	const char *state; /* directory; borrowed */
	char state_found[PATH_MAX];
	bool state_given;  /* set by flag, environment or file */
	bool state_served; /* the daemon's address was found there before */
	bool state_flag;   /* set by flag: CAY_URL and CAY_API_KEY then mean another daemon */
	const char *url_flag, *key_flag;
	bool url_ignored;	       /* up and down: always the daemon of the state directory */
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

	/* Details of the last failure beyond struct err: the daemon's reply and what to do next. */
	char *error_body; /* verbatim JSON; NULL if none */
	int http_status;
	bool lost;	   /* no reply: the daemon may be restarting */
	int lost_error;	   /* its -errno; 0: the reply was 503 */
	uint64_t left_out; /* number of entries that the last archive lacks */
	int exit_status;   /* 0: from err's code */
	char hint[CLI_HINT_MAX];
};

void cli_init(struct cli *cli, const struct args *args);
void cli_done(struct cli *cli);

/* A setting that the daemon has, too: writes dst if it is set anywhere. */
enum setting_from cli_setting(const struct args *args, const char *name, const char *variable,
			      char *dst, size_t size);
/* Whether a URL is the address in the state directory. */
bool cli_url_is_local(const struct cli *cli, const char *url);
/* For commands that act on the state directory: fails if a URL names another daemon. */
int cli_use_state(struct cli *cli, struct err *err) _must_check_;
/* Finds address and key by that rule. Idempotent. */
int cli_connect(struct cli *cli, struct err *err) _must_check_;
/* Drops the connection, so that the next call finds the address again (after a start or fork). */
void cli_disconnect(struct cli *cli);
/* Reads a line, trimmed, of <state>/url or <state>/admin.key. -ENOENT if there is no daemon. */
int cli_read_line(const char *dir, const char *name, char *dst, size_t size) _must_check_;

/* Sets what to do next, which is printed after the message. Returns -1, like err_set(). */
int cli_hint(struct cli *cli, const char *fmt, ...) _printf_(2, 3);
/* Prints the failure (JSON with --json) on standard error and returns the exit status. */
int cli_report(struct cli *cli, const struct err *err);
/* A line for people on standard error, unless -q or --json. */
void cli_note(const struct cli *cli, const char *fmt, ...) _printf_(2, 3);

#endif
