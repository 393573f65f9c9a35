/* SPDX-License-Identifier: Apache-2.0 */
#include "inside.h"

#include <string.h>

char sandbox[64];

void new_sandbox(const char *body)
{
	(void)snprintf(sandbox, sizeof(sandbox), "%s", make(body));
}

struct answer *post(const char *path, const char *body)
{
	return call("POST", path_of("/v1/sandboxes/%s%s", sandbox, path), body);
}

struct answer *get(const char *path)
{
	return call("GET", path_of("/v1/sandboxes/%s%s", sandbox, path), NULL);
}

void start(const char *name, const char *command)
{
	expect_status(
		post("/processes", path_of("{\"command\":\"%s\",\"name\":\"%s\"}", command, name)),
		201);
}

void type(const char *name, const char *bytes)
{
	struct request req;
	struct answer a;

	request_send(&req, world.admin, "POST",
		     path_of("/v1/sandboxes/%s/processes/%s/stdin", sandbox, name),
		     "Content-Type: application/octet-stream\r\n", bytes);
	request_wait(&req, &a);
	expect_status(&a, 204);
	answer_free(&a);
}

void close_input(const char *name)
{
	expect_status(post(path_of("/processes/%s/close-stdin", name), "{}"), 204);
}

char *gather(const struct answer *a, const char *event)
{
	char *all = calloc(1, a->n + 1);
	char mark[64];

	(void)snprintf(mark, sizeof(mark), "event: %s\n", event);
	for (const char *at = a->body; (at = strstr(at, mark)); at++) {
		const char *data = strstr(at, "data: ") + 6;
		struct str line = { data, strcspn(data, "\n") };
		struct json *doc = json_parse(line, NULL);

		assert_non_null(doc);
		if (member(doc, "data"))
			(void)strcat(all, json_str(member(doc, "data")).p);
		json_free(doc);
	}
	return all;
}

size_t count(const char *text, const char *what)
{
	size_t n = 0;

	while ((text = strstr(text, what))) {
		n++;
		text++;
	}
	return n;
}

struct answer *del(const char *path)
{
	return call("DELETE", path_of("/v1/sandboxes/%s%s", sandbox, path), NULL);
}
