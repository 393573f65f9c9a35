/* SPDX-License-Identifier: Apache-2.0 */
/* Translates codes of the agent to errors and states of the layers above. */
#include "engine/link_state.h"

enum link_end link_end_of(enum agent_end end)
{
	static const enum link_end ends[] = {
		[AGENT_END_NONE] = LINK_END_NONE,     [AGENT_END_EXIT] = LINK_END_EXIT,
		[AGENT_END_SIGNAL] = LINK_END_SIGNAL, [AGENT_END_TIMEOUT] = LINK_END_TIMEOUT,
		[AGENT_END_OOM] = LINK_END_OOM,	      [AGENT_END_KILLED] = LINK_END_KILLED,
	};

	return ends[end];
}

void link_status_of(struct link_status *ret, const struct agent_status *status)
{
	*ret = (struct link_status){
		.end = link_end_of(status->end),
		.exit_code = (int)status->exit_code,
		.signal = (int)status->signal,
		.duration_us = (int64_t)status->duration_us,
		.out_total = status->out_total,
		.err_total = status->err_total,
		.memory_limit_bytes = status->memory_limit_bytes,
		.memory_peak_bytes = status->memory_peak_bytes,
		.oom_kills = status->oom_kills,
	};
}

static const struct {
	enum err_code code;
	int exit_code;
	const char *text;
	bool of_program; /* the field is the one that named the program */
} refusals[] = {
	[AGENT_REFUSED_OTHER] = { ERR_ENGINE_FAILED, 125, "the program could not be started" },
	[AGENT_REFUSED_BAD_REQUEST] = { ERR_INVALID_REQUEST, 125, "the agent refused" },
	[AGENT_REFUSED_UNKNOWN_USER] = { ERR_INVALID_REQUEST, 125,
					 "user: the sandbox has no such user" },
	[AGENT_REFUSED_USER_NOT_ALLOWED] = { ERR_INVALID_REQUEST, 125,
					     "user: this engine cannot change the user" },
	[AGENT_REFUSED_CWD_MISSING] = { ERR_INVALID_REQUEST, 125, "cwd: no such directory" },
	[AGENT_REFUSED_CWD_NOT_DIRECTORY] = { ERR_INVALID_REQUEST, 125, "cwd: not a directory" },
	[AGENT_REFUSED_CWD_FORBIDDEN] = { ERR_INVALID_REQUEST, 125,
					  "cwd: the user may not go there" },
	[AGENT_REFUSED_NOT_FOUND] = { ERR_COMMAND_NOT_FOUND, 127, "no such program", true },
	[AGENT_REFUSED_FORBIDDEN] = { ERR_COMMAND_NOT_EXECUTABLE, 126,
				      "the user may not execute this", true },
	[AGENT_REFUSED_BAD_FORMAT] = { ERR_COMMAND_NOT_EXECUTABLE, 126, "not a program", true },
	[AGENT_REFUSED_TOO_BIG] = { ERR_COMMAND_NOT_EXECUTABLE, 126,
				    "with env too large to be started", true },
	[AGENT_REFUSED_PROCESS_LIMIT] = { ERR_QUOTA_EXCEEDED, 126,
					  "the sandbox has reached its limit of processes "
					  "(GET processes lists them, DELETE processes ends all)" },
	[AGENT_REFUSED_NO_MEMORY] = { ERR_QUOTA_EXCEEDED, 126,
				      "the sandbox has no memory left to start a program" },
	[AGENT_REFUSED_QUOTA] = { ERR_QUOTA_EXCEEDED, 125,
				  "the agent follows as many commands as it can" },
	[AGENT_REFUSED_NO_PROCESS] = { ERR_PROCESS_NOT_FOUND, 125,
				       "the sandbox has no such process" },
	[AGENT_REFUSED_ENDED] = { ERR_WRONG_STATE, 125, "the process has ended" },
	[AGENT_REFUSED_STILL_RUNNING] = { ERR_WRONG_STATE, 125, "the process still runs" },
	[AGENT_REFUSED_STDIN_CLOSED] = { ERR_WRONG_STATE, 125,
					 "the standard input of the process is closed" },
	[AGENT_REFUSED_STDIN_FULL] = { ERR_QUOTA_EXCEEDED, 125,
				       "the process has not read its earlier input yet" },
	[AGENT_REFUSED_NO_TTY] = { ERR_WRONG_STATE, 125, "the process has no terminal" },
	[AGENT_REFUSED_CURSOR_AHEAD] = { ERR_INVALID_REQUEST, 125,
					 "cursor: beyond what the process has written" },
	[AGENT_REFUSED_NO_SHELL] = { ERR_UNSUPPORTED, 125,
				     "windows need bash, which this sandbox does not have" },
	[AGENT_REFUSED_WINDOW_BROKEN] = { ERR_CONFLICT, 125,
					  "the shell of the window did not come back and was "
					  "ended; run the command again in a new one" },
};
static_assert(ARRAY_LEN(refusals) == AGENT_REFUSED_LAST + 1, "a refusal without words");

void link_refusal(struct err *err, uint32_t refusal, uint32_t errno_value, const char *argv_field,
		  struct str detail)
{
	char words[AGENT_MESSAGE_MAX + 1];

	(void)link_clean(words, (struct str){ detail.p, MIN(detail.n, sizeof(words) - 1) });
	if (!refusals[refusal].of_program)
		argv_field = NULL;
	(void)err_set(err, refusals[refusal].code, "%s%s%s%s%s", argv_field ? argv_field : "",
		      argv_field ? ": " : "", refusals[refusal].text, words[0] ? ": " : "", words);
	err->errno_value = (int)errno_value;
}

int link_refusal_exit_code(uint32_t refusal)
{
	return refusals[refusal].exit_code;
}

bool link_clean(char *dst, struct str s)
{
	bool is_utf8 = str_is_utf8(s.p, s.n), same = true;
	size_t n = s.n;

	/* The agent truncates long strings; the rest of a split character is removed. */
	for (size_t cut = 1; !is_utf8 && cut < 4 && cut <= s.n; cut++) {
		is_utf8 = str_is_utf8(s.p, s.n - cut);
		if (is_utf8)
			n = s.n - cut;
	}
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		/* U+0080 to U+009F are control characters as well. */
		bool c1 = is_utf8 && c == 0xc2 && (unsigned char)s.p[i + 1] < 0xa0;

		if (c < 0x20 || c == 0x7f || (c >= 0x80 && !is_utf8) || c1)
			dst[i] = '?';
		else
			dst[i] = s.p[i];
		if (c1)
			dst[++i] = '?';
		same = same && dst[i] == s.p[i];
	}
	dst[n] = '\0';
	return same && n == s.n;
}
