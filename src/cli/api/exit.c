/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api/exit.h"

#include <string.h>

static const unsigned char by_code[ERR_CODE_COUNT] = {
	[ERR_OK] = EXIT_STATUS_OK,
	[ERR_INVALID_REQUEST] = EXIT_STATUS_USAGE,
	[ERR_UNAUTHENTICATED] = EXIT_STATUS_UNAUTHENTICATED,
	[ERR_FORBIDDEN] = EXIT_STATUS_PERMISSION,
	[ERR_NOT_FOUND] = EXIT_STATUS_NOT_FOUND,
	[ERR_SANDBOX_NOT_FOUND] = EXIT_STATUS_NOT_FOUND,
	[ERR_TEMPLATE_NOT_FOUND] = EXIT_STATUS_NOT_FOUND,
	[ERR_KEY_NOT_FOUND] = EXIT_STATUS_NOT_FOUND,
	[ERR_PROCESS_NOT_FOUND] = EXIT_STATUS_NOT_FOUND,
	[ERR_CONFLICT] = EXIT_STATUS_CONFLICT,
	[ERR_WRONG_STATE] = EXIT_STATUS_CONFLICT,
	[ERR_IDEMPOTENCY_MISMATCH] = EXIT_STATUS_CONFLICT,
	[ERR_PAYLOAD_TOO_LARGE] = EXIT_STATUS_USAGE,
	[ERR_HOST_NOT_ALLOWED] = EXIT_STATUS_PERMISSION,
	[ERR_ORIGIN_NOT_ALLOWED] = EXIT_STATUS_PERMISSION,
	[ERR_UNSUPPORTED_BY_ENGINE] = EXIT_STATUS_RUNTIME,
	[ERR_QUOTA_EXCEEDED] = EXIT_STATUS_QUOTA,
	[ERR_RATE_LIMITED] = EXIT_STATUS_QUOTA,
	[ERR_BOOT_FAILED] = EXIT_STATUS_RUNTIME,
	[ERR_ENGINE_FAILED] = EXIT_STATUS_RUNTIME,
	[ERR_INITIALIZER_FAILED] = EXIT_STATUS_RUNTIME,
	[ERR_SANDBOX_GONE] = EXIT_STATUS_RUNTIME,
	[ERR_CAPACITY_EXCEEDED] = EXIT_STATUS_RUNTIME,
	[ERR_UNAVAILABLE] = EXIT_STATUS_RUNTIME,
	[ERR_TIMEOUT] = EXIT_STATUS_RUNTIME,
	[ERR_DISK_FULL] = EXIT_STATUS_QUOTA,
};

enum exit_status exit_of_code(enum err_code code)
{
	if ((unsigned)code >= ERR_CODE_COUNT)
		return EXIT_STATUS_GENERIC;
	/* Codes that the table does not list follow their HTTP status. */
	if (code != ERR_OK && by_code[code] == 0)
		return exit_of_http(err_http_status(code));
	return (enum exit_status)by_code[code];
}

enum exit_status exit_of_http(int http_status)
{
	static const struct {
		int http_status;
		enum exit_status status;
	} map[] = {
		{ 400, EXIT_STATUS_USAGE },	 { 401, EXIT_STATUS_UNAUTHENTICATED },
		{ 403, EXIT_STATUS_PERMISSION }, { 404, EXIT_STATUS_NOT_FOUND },
		{ 409, EXIT_STATUS_CONFLICT },	 { 410, EXIT_STATUS_RUNTIME },
		{ 413, EXIT_STATUS_USAGE },	 { 421, EXIT_STATUS_PERMISSION },
		{ 429, EXIT_STATUS_QUOTA },	 { 502, EXIT_STATUS_RUNTIME },
		{ 503, EXIT_STATUS_RUNTIME },	 { 504, EXIT_STATUS_RUNTIME },
		{ 507, EXIT_STATUS_QUOTA },
	};
	if (http_status >= 200 && http_status < 300)
		return EXIT_STATUS_OK;
	for (size_t i = 0; i < ARRAY_LEN(map); i++)
		if (map[i].http_status == http_status)
			return map[i].status;
	return EXIT_STATUS_GENERIC;
}

enum exit_status exit_of_answer(const char *name, int http_status)
{
	enum err_code code = err_from_name(name);

	if (strcmp(err_name(code), name) == 0)
		return exit_of_code(code);
	return exit_of_http(http_status);
}

bool exit_is_end_of_life(struct str message)
{
	static const char end[] = ": timeout";
	size_t n = sizeof(end) - 1;

	return message.n >= n && memcmp(message.p + message.n - n, end, n) == 0;
}

int exit_of_run(const struct err *err)
{
	if (err->code == ERR_COMMAND_NOT_FOUND)
		return EXIT_STATUS_NO_COMMAND;
	if (err->code == ERR_COMMAND_NOT_EXECUTABLE)
		return EXIT_STATUS_CANNOT_RUN;
	if (err->code == ERR_SANDBOX_GONE && exit_is_end_of_life(str_of(err->message)))
		return EXIT_STATUS_TIMED_OUT;
	return EXIT_STATUS_CAY_FAILED;
}

const char *exit_meaning(enum exit_status status)
{
	static const char *const meaning[] = {
		[EXIT_STATUS_OK] = "success",
		[EXIT_STATUS_GENERIC] = "any other failure",
		[EXIT_STATUS_USAGE] = "wrong usage, or a value the daemon refused",
		[EXIT_STATUS_NOT_FOUND] =
			"no such sandbox, process, window, template, key or route",
		[EXIT_STATUS_UNAUTHENTICATED] = "no key, or a key the daemon does not know",
		[EXIT_STATUS_PERMISSION] = "the key's scopes or the user's rights do not suffice",
		[EXIT_STATUS_QUOTA] = "a quota or rate limit is reached",
		[EXIT_STATUS_CONFLICT] = "conflict with the present state",
		[EXIT_STATUS_RUNTIME] =
			"engine, boot or availability failure; a failed check of 'cay doctor'",
	};
	return (unsigned)status < ARRAY_LEN(meaning) ? meaning[status] : "unknown";
}
