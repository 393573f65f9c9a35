/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session/process_end.h"

#include <string.h>

#include "cli/api/api.h"
#include "cli/api/exit.h"

int signal_number(struct str text)
{
	uint64_t number;

	if (str_to_u64(text, 64, &number) == 0)
		return (int)number;
	if (str_starts(text, "SIG"))
		text = (struct str){ text.p + 3, text.n - 3 };
	for (int i = 1; i < 65; i++) {
		const char *known = sigabbrev_np(i);

		if (known != NULL && str_is(text, known))
			return i;
	}
	return 0;
}

static int signal_of(const struct json *end)
{
	const struct json *value = field(end, "signal");

	if (value == NULL)
		return 0;
	if (json_type(value) == JSON_INT)
		return json_int(value) > 0 && json_int(value) < 65 ? (int)json_int(value) : 0;
	return json_type(value) == JSON_STRING ? signal_number(json_str(value)) : 0;
}

int process_end_status(const struct json *end)
{
	struct str reason = field_str(end, "reason");
	int signum = signal_of(end);

	if (str_is(reason, "sandbox_gone"))
		return exit_is_end_of_life(field_str(end, "message")) ? EXIT_STATUS_TIMED_OUT
								      : EXIT_STATUS_CAY_FAILED;
	if (str_is(reason, "timeout") || field_bool(end, "timed_out"))
		return EXIT_STATUS_TIMED_OUT;
	if (signum > 0)
		return 128 + signum;
	return (int)(field_int(end, "exit_code", EXIT_STATUS_CAY_FAILED) & 0xff);
}

static void signal_words(char dst[32], const struct json *end)
{
	int signum = signal_of(end);
	const char *name = signum > 0 ? sigabbrev_np(signum) : NULL;

	dst[0] = '\0';
	if (name != NULL)
		(void)snprintf(dst, 32, ": SIG%s", name);
	else if (signum > 0)
		(void)snprintf(dst, 32, ": signal %d", signum);
}

static void oom_words(const struct cli *cli, const struct json *end)
{
	int64_t limit = field_int(end, "memory_limit_bytes", 0);
	int64_t peak = field_int(end, "memory_peak_bytes", 0);
	char text[2][STYLE_SPAN_SIZE];

	style_bytes(text[0], (uint64_t)limit);
	style_bytes(text[1], (uint64_t)peak);
	if (limit > 0 && peak > 0)
		cli_note(cli,
			 "cay: the command was killed by the memory limit (oom): limit %s, peak %s",
			 text[0], text[1]);
	else if (limit > 0)
		cli_note(cli, "cay: the command was killed by the memory limit (oom): limit %s",
			 text[0]);
	else
		cli_note(cli, "cay: the command was killed by the memory limit (oom)");
}

/* Of a command that did not end by it itself: its children, or other processes of the sandbox. */
static void kills_words(const struct cli *cli, const struct json *end)
{
	int64_t kills = field_int(end, "oom_kills", 0);

	if (kills == 1)
		cli_note(cli, "cay: the memory limit killed a process of the sandbox while the "
			      "command ran (oom_kills: 1)");
	else if (kills > 1)
		cli_note(cli,
			 "cay: the memory limit killed %lld processes of the sandbox while the "
			 "command ran (oom_kills: %lld)",
			 (long long)kills, (long long)kills);
}

void process_end_print(const struct cli *cli, const struct json *end, uint64_t timeout_sec)
{
	struct str reason = field_str(end, "reason"), message = field_str(end, "message");
	char text[CLI_HINT_MAX];

	signal_words(text, end);
	if (!str_is(reason, "oom"))
		kills_words(cli, end);
	if (str_is(reason, "timeout") || (reason.n == 0 && field_bool(end, "timed_out"))) {
		if (timeout_sec > 0)
			cli_note(cli,
				 "cay: the command was stopped by its time limit (timeout): %llu s",
				 (unsigned long long)timeout_sec);
		else
			cli_note(cli, "cay: the command was stopped by its time limit (timeout)");
	} else if (str_is(reason, "oom")) {
		oom_words(cli, end);
	} else if (str_is(reason, "killed_by_request")) {
		cli_note(cli, "cay: the command was killed on request (killed_by_request)%s", text);
	} else if (str_is(reason, "signaled")) {
		cli_note(cli, "cay: the command was ended by a signal (signaled)%s", text);
	} else if (str_is(reason, "sandbox_gone")) {
		style_clean(text, sizeof(text), message);
		cli_note(cli, "cay: the sandbox ended while the command ran (sandbox_gone)%s%s",
			 text[0] != '\0' ? ": " : "", text);
	}
}
