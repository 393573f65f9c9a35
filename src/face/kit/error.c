/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/error.h"

static const struct {
	int status;
	const char *hint;
} table[] = {
	[ERR_OK] = { 200, NULL },
	[ERR_INVALID_REQUEST] = { 400, "Correct what the message names; GET /openapi.json lists "
				       "fields and ranges." },
	[ERR_UNAUTHENTICATED] = { 401, "Send 'Authorization: Bearer <key>'; the first key is in "
				       "<state>/admin.key." },
	[ERR_FORBIDDEN] = { 403, "Use a key whose scopes cover this call." },
	[ERR_NOT_FOUND] = { 404, "GET /openapi.json lists every route." },
	[ERR_SANDBOX_NOT_FOUND] = { 404, "It may have been destroyed or timed out; GET "
					 "/v1/sandboxes lists the live ones." },
	[ERR_TEMPLATE_NOT_FOUND] = { 404, "GET /v1/templates lists what is built; 'cay template "
					  "build NAME' builds one." },
	[ERR_KEY_NOT_FOUND] = { 404, "GET /v1/keys lists the keys." },
	[ERR_PROCESS_NOT_FOUND] = { 404, "GET .../processes lists the processes of this sandbox." },
	[ERR_FILE_NOT_FOUND] = { 404, "GET .../files?path=DIR lists a directory; relative paths "
				      "start at the workdir." },
	[ERR_WINDOW_NOT_FOUND] = { 404, "GET .../windows lists the windows of this sandbox; run "
					"creates one." },
	[ERR_CONTEXT_NOT_FOUND] = { 404, "GET .../code/contexts lists the code contexts of this "
					 "sandbox." },
	[ERR_SNAPSHOT_NOT_FOUND] = { 404, "GET .../snapshots lists the snapshots of a sandbox." },
	[ERR_WEBHOOK_NOT_FOUND] = { 404, "GET /v1/webhooks lists the webhooks of this key." },
	[ERR_DELIVERY_NOT_FOUND] = { 404, "GET .../deliveries?state=dead lists deliveries that "
					  "were abandoned and not sent again." },
	[ERR_PREVIEW_NOT_FOUND] = { 404, "GET .../previews lists the previews of this sandbox." },
	[ERR_PREVIEW_PRIVATE] = { 401, "Send a share token (?cay_token=, Cay-Preview-Token) or an "
				       "API key." },
	[ERR_PREVIEW_EXPIRED] = { 410, "Create a new preview or share token." },
	[ERR_PORT_CLOSED] = { 502, "Start the server inside, on 127.0.0.1 or any address; GET "
				   ".../ports lists listening ports." },
	[ERR_PORT_REFUSED] = { 403, "For ports 22 and 5900-5999, send allow_reserved." },
	[ERR_UPSTREAM_FAILED] = { 502, "The server inside broke the connection or the protocol." },
	[ERR_UPSTREAM_TIMEOUT] = { 504, "The server inside did not answer in time." },
	[ERR_PREVIEW_LOOP] = { 508, "This preview leads back to the daemon itself." },
	[ERR_SECRET_NOT_FOUND] = { 404, "GET /v1/secrets lists the secrets." },
	[ERR_METHOD_NOT_ALLOWED] = { 405, "See the Allow header." },
	[ERR_CONFLICT] = { 409, "The message names the conflict." },
	[ERR_WRONG_STATE] = { 409, "Check the state of the sandbox or process first." },
	[ERR_IDEMPOTENCY_MISMATCH] = { 409, "This Idempotency-Key was used with another body; "
					    "choose a new key." },
	[ERR_SNAPSHOT_REFUSED] = { 409,
				   "The message says why; such a snapshot can only be deleted." },
	[ERR_NOT_A_FILE] = { 409, "The path must name a regular file; GET .../files/stat shows "
				  "what it is." },
	[ERR_NOT_A_DIRECTORY] = { 409, "A part of the path is not a directory; GET .../files/stat "
				       "shows what it is." },
	[ERR_NOT_TEXT] = { 409, "GET .../files/raw returns the bytes." },
	[ERR_FILE_EXISTS] = { 409, "Remove it first, or send overwrite." },
	[ERR_DIRECTORY_NOT_EMPTY] = { 409, "Send recursive to remove its content, too." },
	[ERR_FILE_BUSY] = { 409, "Something inside uses it; try again." },
	[ERR_SYMLINK_LOOP] = { 409, "The symbolic links of this path lead in a circle." },
	[ERR_TREE_TOO_DEEP] = { 409, "Start in a deeper directory." },
	[ERR_EDIT_NO_MATCH] = { 409,
				"Read the file again: old_string must be in it byte for byte." },
	[ERR_EDIT_AMBIGUOUS] = { 409, "Add lines around old_string until it is unique, or send "
				      "replace_all." },
	[ERR_FILE_FORBIDDEN] = { 403,
				 "The user of this call may not do that; 'user' names another." },
	[ERR_READ_ONLY] = { 403, "This part of the tree cannot be changed." },
	[ERR_COMMAND_NOT_FOUND] = { 400, "The program does not exist in the sandbox: check the "
					 "name and PATH." },
	[ERR_COMMAND_NOT_EXECUTABLE] = { 400, "The file is there, but the user of this call cannot "
					      "run it." },
	[ERR_NAME_TOO_LONG] = { 400, "A name has at most 255 bytes." },
	[ERR_ARCHIVE_INVALID] = { 400,
				  "Send a tar, tar.zst or zip of files, directories and links." },
	[ERR_ARCHIVE_ESCAPE] = { 400, "No entry or link of an archive may leave the directory it "
				      "is unpacked into." },
	[ERR_ARCHIVE_TOO_LARGE] = { 413,
				    "Send it in parts; see max_entries, max_bytes and max_ratio." },
	[ERR_FILE_TOO_LARGE] = { 413, "GET .../files/raw has no such limit." },
	[ERR_RANGE_NOT_SATISFIABLE] = { 416, "Request one range inside the file; Content-Range "
					     "contains its size." },
	[ERR_TOO_MANY_WATCHES] = { 429, "Watch a smaller tree; the kernel's inotify budget is "
					"shared by all." },
	[ERR_PAYLOAD_TOO_LARGE] = { 413, "Send less; content of any size goes through PUT "
					 ".../files/raw." },
	[ERR_UNSUPPORTED_MEDIA_TYPE] = { 415, "Send the body as application/json." },
	[ERR_HOST_NOT_ALLOWED] = { 421, "Use the daemon's own address, or add the name to "
					"allowed_hosts." },
	[ERR_ORIGIN_NOT_ALLOWED] = { 403,
				     "Add the origin of the page to the setting cors_origins." },
	[ERR_UNSUPPORTED] = { 422, "The message says what is missing here." },
	[ERR_UNSUPPORTED_BY_ENGINE] = { 422, "GET /v1/options lists what each engine supports on "
					     "this host." },
	[ERR_QUOTA_EXCEEDED] = { 429, "Delete something, or raise the limit." },
	[ERR_RATE_LIMITED] = { 429, "Wait as long as Retry-After says." },
	[ERR_REQUEST_TIMEOUT] = { 408, "Send the request again, without long pauses in it." },
	[ERR_UPGRADE_REQUIRED] = { 426, "Connect with a WebSocket client." },
	[ERR_HEADERS_TOO_LARGE] = { 431, "Send fewer or shorter headers." },
	[ERR_INTERNAL] = { 500, "Look for the request_id in the daemon's log." },
	[ERR_BOOT_FAILED] = { 500, "'cay doctor' checks what this host is missing." },
	[ERR_ENGINE_FAILED] = { 500, "'cay doctor' checks the engine." },
	[ERR_INITIALIZER_FAILED] = { 422,
				     "Send retain_on_failure to keep the sandbox for inspection." },
	[ERR_SANDBOX_GONE] = { 410, "The sandbox ended while the call was running; its "
				    "state_reason says why." },
	[ERR_CAPACITY_EXCEEDED] = { 503, "Try again, or raise the limit." },
	[ERR_UNAVAILABLE] = { 503, "Try again shortly." },
	[ERR_TIMEOUT] = { 504, "Try again, or allow more time." },
	[ERR_TOOL_FAILED] = { 502, "Something inside ended or altered the file tool; try again." },
	[ERR_OUTPUT_LOST] = { 500, "Only foreground readers get every byte; see 'Back-pressure' in "
				   "docs/guides/commands.md." },
	[ERR_FILE_IO] = { 500, "The kernel inside refused; the message says how." },
	[ERR_OUT_OF_MEMORY] = { 507, "End something inside, or ask for more memory_mb." },
	[ERR_DISK_QUOTA] = { 507, "The quota of files or bytes is reached: delete some." },
	[ERR_DISK_FULL] = { 507, "Delete files, or ask for a larger disk." },
};

static_assert(ARRAY_LEN(table) == ERR_CODE_COUNT, "every code has a row");

int error_status(enum err_code code)
{
	return table[code].status;
}

const char *error_hint(enum err_code code)
{
	return table[code].hint;
}
