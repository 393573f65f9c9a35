/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the hooks of a sandbox whose processes are copies of another sandbox's, or were saved
 * earlier. Such processes have copied state, for example of random number generators. The
 * executable files in /etc/cay/fork.d run before the copy becomes `running`, so that they can
 * reseed them.
 */
#include <stdio.h>

#include "base/log.h"
#include "engine/link.h"
#include "service/sandbox/attach_internal.h"
#include "service/service_internal.h"

#define HOOK_MS 30000
#define EXIT_NO_PROGRAM 127
#define WORDS_MAX 160 /* bytes of the hook's stderr in the error */

static const char script[] =
	"cd / || exit\n"
	"for hook in /etc/cay/fork.d/*; do\n"
	"	[ -f \"$hook\" ] && [ -x \"$hook\" ] || continue\n"
	"	\"$hook\" >/dev/null || { r=$?; echo \" ($hook: status $r)\" >&2; exit \"$r\"; }\n"
	"done\n"
	"exit 0\n";

static void failed(struct sandbox *sandbox, const struct link_result *result)
{
	char words[WORDS_MAX + 1];
	size_t n = MIN(result->err.n, WORDS_MAX);
	struct err err;

	/* The script's last line names the failed hook. It comes from the sandbox and is not
	 * trusted. */
	for (size_t i = 0; i < n; i++) {
		char c = result->err.p[result->err.n - n + i];

		words[i] = c;
		if (c < ' ' || c > '~')
			words[i] = ' ';
	}
	words[n] = '\0';
	(void)err_set(&err, ERR_BOOT_FAILED, "the sandbox's fork hook %s:%s%s",
		      result->status.end == LINK_END_TIMEOUT ? "took too long" : "failed",
		      n ? " " : "", words);
	attach_failed(sandbox, &err);
}

static void on_done(void *arg, const struct link_result *result, const struct err *error)
{
	struct op *op = arg;
	struct sandbox *sandbox = op_end_sandbox(op);

	if (!sandbox || result->status.end == LINK_END_GONE ||
	    (sandbox_state(sandbox) != SANDBOX_PROVISIONING &&
	     sandbox_state(sandbox) != SANDBOX_PAUSED))
		return; /* the loss of the link or the destroy reports the reason */
	if (result->status.end == LINK_END_REFUSED && result->status.exit_code != EXIT_NO_PROGRAM)
		attach_failed(sandbox, error);
	else if (result->status.end ==
			 LINK_END_REFUSED || /* the image has no shell, so it has no hooks */
		 (result->status.end == LINK_END_EXIT && result->status.exit_code == 0))
		attach_said_hello(sandbox);
	else
		failed(sandbox, result);
}

int fork_hook_start(struct sandbox *sandbox)
{
	static const char *const argv[] = { "/bin/sh", "-c", script, NULL };
	char id[sizeof("CAY_SANDBOX_ID=") + SANDBOX_ID_LEN];
	const char *const env[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", id, NULL
	};
	struct link_exec exec = { .argv = argv,
				  .env = env,
				  .cwd = "/",
				  .user = "root",
				  .timeout_ms = HOOK_MS,
				  .output_max_bytes = 4096 };
	struct op *op = op_new(sandbox->service, sandbox->handle, NULL);
	uint32_t process_id;
	struct err err;

	if (!op)
		return -1;
	(void)snprintf(id, sizeof(id), "CAY_SANDBOX_ID=%s", sandbox->id);
	if (link_exec(sandbox->link, &exec, on_done, op, &process_id, &err) == 0)
		return 0;
	(void)op_end(op);
	log_warn("sandbox %s: the fork hooks were not run: %s", sandbox->id, err.message);
	return -1;
}
