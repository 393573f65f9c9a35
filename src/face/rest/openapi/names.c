/* SPDX-License-Identifier: Apache-2.0 */
/* Names of operations in the OpenAPI document: a verb and the words of the path, for example
 * listSandboxes, getSandboxProcess, pauseSandbox. They are derived from the table, so every new
 * route has one; a test checks that they are unique. */
#include <stdio.h>

#include "face/rest/call.h"

static const struct {
	const char *prefix, *tag;
} tags[] = {
	/* the first that fits */
	{ "/v1/sandboxes/{id}/processes", "Processes" },
	{ "/v1/sandboxes/{id}/exec", "Commands" },
	{ "/v1/sandboxes/{id}/pty", "Terminals" },
	{ "/v1/sandboxes/{id}/windows", "Windows" },
	{ "/v1/sandboxes/{id}/code", "Code" },
	{ "/v1/sandboxes/{id}/files", "Files" },
	{ "/v1/sandboxes/{id}/previews", "Previews" },
	{ "/v1/sandboxes/{id}/ports", "Previews" },
	{ "/v1/sandboxes/{id}/snapshots", "Snapshots" },
	{ "/v1/snapshots", "Snapshots" },
	{ "/v1/sandboxes/{id}/events", "Events" },
	{ "/v1/events", "Events" },
	{ "/v1/sandboxes/{id}/usage", "Usage" },
	{ "/v1/usage", "Usage" },
	{ "/v1/sandboxes", "Sandboxes" },
	{ "/v1/webhooks", "Webhooks" },
	{ "/v1/keys", "Keys" },
	{ "/v1/tickets", "Keys" },
	{ "/v1/secrets", "Secrets" },
	{ "/v1/templates", "Templates" },
	{ "", "System" },
};

static const struct {
	const char *tag, *doc;
} descriptions[] = {
	{ "Sandboxes", "Create, find, change and destroy sandboxes." },
	{ "Commands", "Run a command and wait, or stream its output." },
	{ "Processes", "Processes that run without a waiting client." },
	{ "Terminals", "Shells over a WebSocket." },
	{ "Windows", "Named shells that keep their state." },
	{ "Code", "Run code in contexts that keep their state." },
	{ "Files", "Files inside a sandbox." },
	{ "Previews", "Ports of a sandbox and their addresses outside." },
	{ "Snapshots", "Copies of a sandbox's files and memory." },
	{ "Events", "What happened to sandboxes, as a page or a stream." },
	{ "Usage", "What was used, for billing." },
	{ "Webhooks", "Send events to a URL." },
	{ "Keys", "API keys and tickets." },
	{ "Secrets", "Values that sandboxes can use and that are never returned." },
	{ "Templates", "File systems that sandboxes start from." },
	{ "System", "The daemon itself." },
};

const char *operation_tag(const struct rest_route *route)
{
	size_t i = 0;

	while (!str_starts(str_of(route->row.pattern), tags[i].prefix))
		i++;
	return tags[i].tag;
}

void operation_write_tags(struct json_writer *w)
{
	json_begin_array(w, "tags");
	for (size_t i = 0; i < ARRAY_LEN(descriptions); i++) {
		json_begin_object(w, NULL);
		json_put_text(w, "name", descriptions[i].tag);
		json_put_text(w, "description", descriptions[i].doc);
		json_end_object(w);
	}
	json_end_array(w);
}

/* close-stdin becomes CloseStdin; one: sandboxes becomes Sandbox. */
static void put_word(char *dst, struct str word, bool one)
{
	size_t n = strlen(dst);
	bool upper = n > 0;

	if (one && word.n > 4 && memcmp(word.p + word.n - 4, "sses", 4) == 0)
		word.n -= 2;
	else if (one && word.n > 3 && memcmp(word.p + word.n - 3, "xes", 3) == 0)
		word.n -= 2;
	else if (one && word.n > 3 && memcmp(word.p + word.n - 3, "ies", 3) == 0)
		word = STR_LIT("delivery"); /* singular */
	else if (one && word.n > 1 && word.p[word.n - 1] == 's')
		word.n -= 1;
	for (size_t i = 0; i < word.n && n + 1 < OPERATION_ID_MAX; i++) {
		char c = word.p[i];

		if (c == '-' || c == '.') {
			upper = true;
			continue;
		}
		dst[n++] = (char)(upper && c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
		upper = false;
	}
	dst[n] = '\0';
}

static bool is_list(const struct rest_route *route)
{
	const struct field *answer = route->page ? route->page : route->answer;

	return answer && answer->name && strcmp(answer->name, "data") == 0;
}

/* Whether the objects of the path can be listed: then POST creates another one. */
static bool is_collection(const struct rest_route *route)
{
	for (size_t i = 0; i < rest_route_count; i++)
		if (rest_routes[i].row.method == HTTP_GET && rest_routes[i].handle &&
		    strcmp(rest_routes[i].row.pattern, route->row.pattern) == 0)
			return is_list(&rest_routes[i]);
	return false;
}

static const char *verb_of(const struct rest_route *route, bool item)
{
	switch (route->row.method) {
	case HTTP_GET:
		return !item && is_list(route) ? "list" : "get";
	case HTTP_POST:
		return is_collection(route) || strcmp(route->row.pattern, "/v1/tickets") == 0
			       ? "create"
			       : "";
	case HTTP_PUT:
		return "put";
	case HTTP_PATCH:
		return "update";
	case HTTP_DELETE:
		return "delete";
	case HTTP_HEAD:
	case HTTP_OPTIONS:
	case HTTP_OTHER:
		break;
	}
	return "do";
}

void operation_id(const struct rest_route *route, char ret[OPERATION_ID_MAX])
{
	struct str words[8], rest = str_of(route->row.pattern), word;
	bool braced[8] = { false }; /* an id follows the word */
	size_t count = 0;
	const char *verb;

	while (rest.n && count < ARRAY_LEN(words)) {
		if (!str_cut(rest, '/', &word, &rest)) {
			word = rest;
			rest.n = 0;
		}
		if (word.n && word.p[0] == '{' && count)
			braced[count - 1] = true;
		else if (word.n && !str_is(word, "v1"))
			words[count++] = word;
	}
	verb = verb_of(route, count && braced[count - 1]);
	(void)snprintf(ret, OPERATION_ID_MAX, "%s", verb);
	if (!*verb) /* the last word is the action: pauseSandbox */
		put_word(ret, words[count - 1], false);
	for (size_t i = 0; i < count - (*verb ? 0 : 1); i++)
		put_word(ret, words[i],
			 braced[i] || (i + 1 == count && strcmp(verb, "create") == 0));
}
