/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api/advice.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* By error code. Codes that only the daemon reports, with a hint that fits this program too, are
 * not here. */
static const struct {
	enum err_code code;
	const char *hint;
} hints[] = {
	{ ERR_INVALID_REQUEST, "'cay COMMAND --help' shows the arguments of a command." },
	{ ERR_UNAUTHENTICATED, "Pass a key with --key or CAY_API_KEY; root finds the first one in "
			       "<state>/admin.key when the command goes to the daemon of that "
			       "directory." },
	{ ERR_FORBIDDEN, "Use a key whose scopes cover this; 'cay key info' shows the scopes of "
			 "the current key." },
	{ ERR_NOT_FOUND, "The daemon may be of another version: 'cay version' shows both." },
	{ ERR_SANDBOX_NOT_FOUND,
	  "It may have been destroyed or timed out; 'cay ls' lists the live ones." },
	{ ERR_TEMPLATE_NOT_FOUND,
	  "'cay template ls' lists the templates; 'cay template build NAME' builds one." },
	{ ERR_KEY_NOT_FOUND, "'cay key ls' lists the keys." },
	{ ERR_PROCESS_NOT_FOUND, "'cay ps -a ID' lists the processes of a sandbox." },
	{ ERR_FILE_NOT_FOUND,
	  "'cay ls ID:DIR' lists a directory; relative paths start at the workdir." },
	{ ERR_WINDOW_NOT_FOUND,
	  "'cay windows ID' lists the windows of a sandbox; 'cay exec -w NAME ID' creates one." },
	{ ERR_SNAPSHOT_NOT_FOUND, "'cay snapshot ls' lists the snapshots." },
	{ ERR_SECRET_NOT_FOUND, "'cay secret ls' lists the secrets." },
	{ ERR_WEBHOOK_NOT_FOUND, "'cay webhook ls' lists the webhooks of this key." },
	{ ERR_DELIVERY_NOT_FOUND, "'cay webhook deliveries ID --status dead' lists the deliveries "
				  "that can be sent again." },
	{ ERR_PREVIEW_NOT_FOUND, "'cay preview ID' lists the previews of a sandbox." },
	{ ERR_PORT_CLOSED, "Start the server inside, on 127.0.0.1 or any address; 'cay ports ID' "
			   "lists the listening ports." },
	{ ERR_PORT_REFUSED, "Ports 22 and 5900-5999 need --reserved." },
	{ ERR_METHOD_NOT_ALLOWED,
	  "The daemon may be of another version: 'cay version' shows both." },
	{ ERR_WRONG_STATE,
	  "'cay info ID' shows the state of a sandbox; 'cay resume ID' resumes a paused or "
	  "hibernated one, and after 'cay update ID --auto-resume on' commands resume it." },
	{ ERR_CONFLICT, "The message names the conflict." },
	{ ERR_NOT_A_FILE, "A regular file is needed here; 'cay ls -l ID:PATH' shows what it is." },
	{ ERR_NOT_A_DIRECTORY,
	  "A part of the path is not a directory; 'cay ls -l ID:PATH' shows what it is." },
	{ ERR_NOT_TEXT, "'cay cat ID:PATH' prints the bytes." },
	{ ERR_FILE_EXISTS, "Remove it first." },
	{ ERR_DIRECTORY_NOT_EMPTY, "Remove its content first." },
	{ ERR_FILE_FORBIDDEN,
	  "Files are read and written as the user of the sandbox; 'cay exec -u root ID -- ...' "
	  "works as root." },
	{ ERR_ARCHIVE_INVALID, "A tar, tar.zst or zip of files, directories and links is needed." },
	{ ERR_ARCHIVE_TOO_LARGE, "Copy it in parts." },
	{ ERR_FILE_TOO_LARGE, "'cay cat ID:PATH' and 'cay cp' have no such limit." },
	{ ERR_PAYLOAD_TOO_LARGE, "'cay cp' copies content of any size." },
	{ ERR_UNSUPPORTED_BY_ENGINE,
	  "'cay status' shows the engines of this host, and 'cay doctor' what the host lacks." },
	{ ERR_QUOTA_EXCEEDED,
	  "Remove something, or raise the limit: 'cay key info' shows limits and use." },
	{ ERR_RATE_LIMITED, "Wait a moment and try again." },
	{ ERR_INTERNAL, "The daemon's log has details: <state>/logs/cayd.log, or journalctl." },
	{ ERR_ENGINE_FAILED, "'cay doctor' checks the engine." },
	{ ERR_UNAVAILABLE, "Try again shortly." },
	{ ERR_TIMEOUT, "Try again, or allow more time." },
	{ ERR_REQUEST_TIMEOUT, "The input arrived too slowly; try again." },
	{ ERR_TOOL_FAILED, "A process inside ended or changed the file tool; try again." },
	{ ERR_FILE_IO, "The kernel rejected the operation; the message has its error." },
	{ ERR_INITIALIZER_FAILED, "--retain-on-failure keeps the sandbox for inspection." },
	{ ERR_SANDBOX_GONE, "The sandbox ended while the command ran; 'cay events ID' shows why." },
	{ ERR_OUT_OF_MEMORY, "End processes inside, or create a sandbox with more --memory." },
	{ ERR_DISK_FULL, "Delete files, or create a sandbox with more --disk." },
	{ ERR_HOST_NOT_ALLOWED, "Use the address in <state>/url, or add this name to allowed_hosts "
				"in the daemon's configuration." },
};

void advice_hint(char dst[CLI_HINT_MAX], const struct cli *cli, enum err_code code,
		 struct str theirs)
{
	if (code == ERR_INVALID_REQUEST && cli->command != NULL) {
		(void)snprintf(dst, CLI_HINT_MAX, "cay %s --help", cli->command->name);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(hints); i++)
		if (hints[i].code == code)
			theirs = str_of(hints[i].hint);
	(void)snprintf(dst, CLI_HINT_MAX, "%.*s", (int)MIN(theirs.n, CLI_HINT_MAX - 1), theirs.p);
}

/* Fields whose option has another name; for all others underscores become dashes. */
static const struct {
	const char *field, *option;
} fields[] = {
	{ "cpu_count", "cpu" },
	{ "memory_mb", "memory" },
	{ "disk_size_mb", "disk" },
	{ "timeout_sec", "timeout" },
	{ "idle_timeout_sec", "idle-timeout" },
	{ "snapshot_id", "snapshot" },
	{ "network.mode", "network" },
	{ "network.allow", "allow" },
	{ "network.deny", "deny" },
	{ "pool.mode", "pool" },
	{ "initializers", "init" },
	{ "secrets", "secret" },
	{ "scopes", "scope" },
	{ "events", "event" },
	{ "hosts", "host" },
	{ "external_workspace_id", "workspace" },
	{ "expires_in_sec", "expires" },
	{ "ttl_sec", "expires" },
	{ "allow_reserved", "reserved" },
};

static bool command_has(const struct cli *cli, const char *option)
{
	const struct option_spec *spec = cli->command != NULL ? cli->command->options : NULL;

	while (spec != NULL && spec->name != NULL && strcmp(spec->name, option) != 0)
		spec++;
	return spec != NULL && spec->name != NULL;
}

/*
 * The option for a word of the message, "" if there is none. A plain word is a field only at the
 * start, where the daemon puts it.
 */
static void option_for(char dst[64], const struct cli *cli, struct str word, bool first)
{
	size_t i = 0;

	dst[0] = '\0';
	if (word.n > 40 ||
	    (!first && memchr(word.p, '_', word.n) == NULL && memchr(word.p, '.', word.n) == NULL))
		return;
	while (i < ARRAY_LEN(fields) && !str_is(word, fields[i].field))
		i++;
	if (i < ARRAY_LEN(fields))
		(void)snprintf(dst, 64, "%s", fields[i].option);
	else
		(void)snprintf(dst, 64, "%.*s", (int)word.n, word.p);
	for (char *c = dst; *c != '\0'; c++)
		*c = (char)(*c == '_' ? '-' : *c);
	if (!command_has(cli, dst))
		dst[0] = '\0';
}

/* "argv" of the API is what was typed as the command: the text that replaces `*used` bytes of it.
 */
static const char *command_for(struct str theirs, size_t *used)
{
	static const struct {
		const char *theirs, *ours;
	} starts[] = { { "argv: ", "" },
		       { "argv[0] ", "the command " },
		       { "argv ", "the command " } };

	for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
		*used = strlen(starts[i].theirs);
		if (theirs.n > *used && memcmp(theirs.p, starts[i].theirs, *used) == 0)
			return starts[i].ours;
	}
	*used = 0;
	return "";
}

void advice_message(char dst[ERR_MESSAGE_MAX], const struct cli *cli, struct str theirs)
{
	size_t at, n;

	n = (size_t)snprintf(dst, ERR_MESSAGE_MAX, "%s", command_for(theirs, &at));
	while (at < theirs.n && n + 1 < ERR_MESSAGE_MAX) {
		struct str word = { theirs.p + at, 0 };
		char option[64] = "";

		while (word.n < theirs.n - at && (islower((unsigned char)word.p[word.n]) ||
						  strchr("_.0123456789", word.p[word.n]) != NULL))
			word.n++;
		while (word.n > 0 && word.p[word.n - 1] == '.') /* the end of a sentence */
			word.n--;
		if (word.n > 0 && (at == 0 || !isalnum((unsigned char)theirs.p[at - 1])))
			option_for(option, cli, word, at == 0);
		word.n = MAX(word.n, 1);
		if (option[0] != '\0')
			n += (size_t)snprintf(dst + n, ERR_MESSAGE_MAX - n, "--%s", option);
		else
			n += (size_t)snprintf(dst + n, ERR_MESSAGE_MAX - n, "%.*s", (int)word.n,
					      word.p);
		at += word.n;
	}
	dst[MIN(n, ERR_MESSAGE_MAX - 1)] = '\0';
}
