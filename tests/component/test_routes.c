/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every route of every face, with each single scope, with the key of a stranger, and without a key.
 * What is expected comes from the route tables. Every answer is searched for tokens that grant more
 * than the key of the caller has.
 */
#include <errno.h>
#include <string.h>

#include "base/value/poster.h"
#include "face/kit/route.h"
#include "service/account/auth.h"
#include "world.h"

#define ALL                                                                                        \
	"[\"sandboxes:read\",\"sandboxes:write\",\"exec\",\"templates:read\",\"templates:write\"," \
	"\"keys\",\"metrics\",\"webhooks\",\"secrets\"]"
#define THINGS 8

struct route_row {
	const char *face, *method, *pattern;
	uint32_t scopes; /* all of them are needed */
	bool open;	 /* needs no key */
	bool body;	 /* takes one */
};
static struct route_row rows[256];
static size_t row_count;

/* What the victim has: ids that lists of others must not show, and tokens that no answer shows. */
static char ids[THINGS][80], tokens[THINGS][160];
static size_t id_count, token_count;
static const char *box_id, *snapshot_id, *preview_id, *webhook_id, *secret_id, *key_id;

static const char *keep(char list[][80], size_t *n, const char *text)
{
	assert_true(*n < THINGS && *text);
	(void)snprintf(list[*n], sizeof(list[*n]), "%s", text);
	return list[(*n)++];
}

static void keep_token(const char *text)
{
	assert_true(token_count < THINGS && *text);
	(void)snprintf(tokens[token_count++], sizeof(tokens[0]), "%s", text);
}

static int check_url(struct poster *poster, struct str url)
{
	(void)poster;
	(void)url;
	return 0;
}

static int never(struct poster *poster, const struct poster_request *r, poster_fn done, void *arg,
		 uint64_t *ret)
{
	(void)poster;
	(void)r;
	(void)done;
	(void)arg;
	(void)ret;
	return -EIO;
}

static void nothing(struct poster *poster, uint64_t handle)
{
	(void)poster;
	(void)handle;
}

static void add_rows(const struct route_table *table)
{
	static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };

	for (size_t i = 0; i < table->count; i++) {
		const struct route *route = route_at(table, i);

		assert_true(row_count < ARRAY_LEN(rows));
		rows[row_count++] = (struct route_row){ .face = table->face,
							.method = methods[route->method],
							.pattern = route->pattern,
							.scopes = route->scope,
							.open = (route->flags & ROUTE_OPEN) != 0,
							.body = route->method != HTTP_GET &&
								route->method != HTTP_DELETE };
	}
}

static int setup(void **state)
{
	static struct poster poster = { .check = check_url, .post = never, .cancel = nothing };

	(void)state;
	world_prepare();
	world.config.poster = &poster;
	world_start();
	row_count = 0;
	add_rows(&rest_route_table);
	add_rows(&e2b_control_table);
	assert_true(row_count > 120);
	id_count = token_count = 0;
	return 0;
}

static const struct answer *made(const char *key, const char *path, const char *body)
{
	const struct answer *a = call_as(key, "POST", path, body);

	expect_status(a, 201);
	return a;
}

/* A tenant with one thing of each kind. */
static void make_victim(char key[64])
{
	const struct answer *a;

	(void)snprintf(key, 64, "%s", make_key(ALL));
	keep_token(key);
	a = made(key, "/sandboxes", "{\"templateID\":\"base\",\"timeout\":600}");
	keep_token(text_of(a, "envdAccessToken"));
	keep_token(text_of(a, "trafficAccessToken"));
	box_id = keep(ids, &id_count, text_of(a, "sandboxID"));
	a = made(key, path_of("/v1/sandboxes/%s/snapshots", box_id), "{}");
	snapshot_id = keep(ids, &id_count, text_of(a, "id"));
	a = made(key, path_of("/v1/sandboxes/%s/previews", box_id), "{\"port\":8080}");
	preview_id = keep(ids, &id_count, text_of(a, "id"));
	a = made(key, path_of("/v1/sandboxes/%s/previews/%s/share", box_id, preview_id), "{}");
	keep_token(text_of(a, "token"));
	(void)made(key, path_of("/v1/sandboxes/%s/processes", box_id),
		   "{\"command\":\"sleep 400\"}");
	a = made(key, "/v1/webhooks", "{\"url\":\"http://victim.test/\"}");
	keep_token(text_of(a, "secret"));
	webhook_id = keep(ids, &id_count, text_of(a, "id"));
	a = made(key, "/v1/secrets", "{\"name\":\"V\",\"value\":\"value-of-the-victim\"}");
	keep_token("value-of-the-victim");
	secret_id = keep(ids, &id_count, text_of(a, "id"));
	a = made(key, "/v1/keys", "{\"name\":\"below\",\"scopes\":[\"exec\"]}");
	keep_token(text_of(a, "key"));
	key_id = keep(ids, &id_count, text_of(a, "id"));
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* The first brace of a pattern names what its path is about, the others something in it. */
static const char *thing_of(const char *pattern, const char *brace)
{
	if (strncmp(brace, "{pid}", 5) == 0)
		return strstr(pattern, "/previews/") ? preview_id : "1";
	if (begins(pattern, "/v1/snapshots"))
		return snapshot_id;
	if (begins(pattern, "/v1/webhooks"))
		return strncmp(brace, "{id}", 4) == 0 ? webhook_id : "1";
	if (begins(pattern, "/v1/secrets") || begins(pattern, "/secrets"))
		return secret_id;
	if (begins(pattern, "/v1/keys"))
		return key_id;
	if (strstr(pattern, "/templates"))
		return "none";
	return strncmp(brace, "{id}", 4) == 0 ? box_id : "none";
}

static const char *path_for(const char *pattern)
{
	char text[256];
	const char *at = pattern;
	size_t n = 0;

	while (*at && n + 64 < sizeof(text)) {
		if (*at != '{') {
			text[n++] = *at++;
			continue;
		}
		n += (size_t)sprintf(text + n, "%s", thing_of(pattern, at));
		at = strchr(at, '}') + 1;
	}
	text[n] = '\0';
	if (strcmp(text, "/v1/events") == 0 || strstr(text, "/events"))
		return path_of("%s?format=json", text); /* the stream does not end */
	return path_of("%s", text);
}

/* One that passes the checks of its fields, where they have some that are required. */
static const char *body_for(const struct route_row *row)
{
	static const struct {
		const char *end, *body;
	} bodies[] = {
		{ "/exec", "{\"command\":\"true\"}" },
		{ "/exec/stream", "{\"command\":\"true\"}" },
		{ "/processes", "{\"command\":\"true\"}" },
		{ "/previews", "{\"port\":8081}" },
		{ "/restore", "{\"snapshot_id\":\"none\"}" },
		{ "/shutdown", "{\"destroy\":7}" }, /* refused, should it get that far */
		{ "/timeout", "{\"timeout\":60}" },
		{ "/rotate", "{\"value\":\"another-value\"}" },
	};
	size_t n = strlen(row->pattern);

	if (!row->body)
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		size_t end = strlen(bodies[i].end);

		if (n > end && strcmp(row->pattern + n - end, bodies[i].end) == 0)
			return bodies[i].body;
	}
	return "{}";
}

static void search(const struct route_row *row, const struct answer *a)
{
	for (size_t i = 0; i < token_count; i++)
		if (strstr(a->head, tokens[i]) || (a->body && strstr(a->body, tokens[i])))
			fail_msg("%s %s %s shows token %zu", row->face, row->method, row->pattern,
				 i);
}

static const struct answer *ask(const struct route_row *row, const char *key)
{
	const struct answer *a = call_as(key, row->method, path_for(row->pattern), body_for(row));

	search(row, a);
	return a;
}

#define expect_row(row, a, ok)                                                                  \
	do {                                                                                    \
		if (!(ok))                                                                      \
			fail_msg("%s %s %s: %d %s", (row)->face, (row)->method, (row)->pattern, \
				 (a)->status, (a)->body);                                       \
	} while (0)

static bool is_good(int status)
{
	return status >= 200 && status < 300;
}

static void test_without_a_key(void **state)
{
	char victim[64];

	(void)state;
	make_victim(victim);
	for (size_t i = 0; i < row_count; i++) {
		const struct answer *a = ask(&rows[i], NULL);

		expect_row(&rows[i], a, rows[i].open ? a->status == 200 : a->status == 401);
		if (rows[i].open)
			continue;
		a = ask(&rows[i], "cay_0000000000000000000000000000000000000000");
		expect_row(&rows[i], a, a->status == 401);
	}
}

/* One scope and nothing of its own: the table says which routes are closed. Behind the others, what
 * belongs to the victim is absent. */
static void test_one_scope(void **state)
{
	char victim[64];

	(void)state;
	make_victim(victim);
	for (int bit = 0; bit < AUTH_SCOPE_COUNT; bit++) {
		char key[64];

		if (1u << bit == AUTH_ADMIN) /* an admin key may see every tenant */
			continue;
		(void)snprintf(key, sizeof(key), "%s",
			       make_key(path_of("[\"%s\"]", auth_scope_names[bit])));
		for (size_t i = 0; i < row_count; i++) {
			const struct answer *a;

			if (rows[i].open)
				continue;
			a = ask(&rows[i], key);
			if (rows[i].scopes & ~(1u << bit))
				expect_row(&rows[i], a, a->status == 403);
			else
				expect_row(&rows[i], a, a->status != 401 && a->status != 403);
		}
	}
}

/* All scopes, but another tenant: nothing of the victim is found, changed or listed. */
static void test_connection_from_inside_is_closed(void **state)
{
	char victim[64], key[64];

	(void)state;
	make_victim(victim);
	(void)snprintf(key, sizeof(key), "%s", make_key(ALL));
	for (size_t i = 0; i < row_count; i++) {
		const struct route_row *row = &rows[i];
		const struct answer *a;

		if (row->open || (row->scopes & AUTH_ADMIN))
			continue;
		a = ask(row, key);
		if (strchr(row->pattern, '{') && !strstr(row->pattern, "/templates"))
			expect_row(row, a,
				   a->status == 404 || a->status == 422 || a->status == 501);
		for (size_t k = 0; is_good(a->status) && k < id_count; k++)
			expect_row(row, a, !a->body || !strstr(a->body, ids[k]));
	}
	/* All of it is still there. */
	expect_status(call_as(victim, "GET", path_of("/v1/sandboxes/%s", box_id), NULL), 200);
	expect_status(call_as(victim, "GET", path_of("/v1/snapshots/%s", snapshot_id), NULL), 200);
	expect_status(call_as(victim, "GET", path_of("/v1/webhooks/%s", webhook_id), NULL), 200);
	expect_status(call_as(victim, "GET", path_of("/v1/secrets/%s", secret_id), NULL), 200);
	expect_status(call_as(victim, "GET", path_of("/v1/keys/%s", key_id), NULL), 200);
}

/* The owner of a sandbox without the scope exec: no route that it may call returns a token of the
 * inside. */
static void test_own_without_exec(void **state)
{
	const struct answer *a;
	char key[64];

	(void)state;
	(void)snprintf(key, sizeof(key), "%s",
		       make_key("[\"sandboxes:read\",\"sandboxes:write\",\"templates:read\","
				"\"keys\",\"metrics\",\"webhooks\",\"secrets\"]"));
	a = made(key, "/v1/sandboxes", "{\"timeout_sec\":600}");
	box_id = keep(ids, &id_count, text_of(a, "id"));
	snapshot_id = preview_id = webhook_id = secret_id = key_id = "none";
	a = call("POST", path_of("/sandboxes/%s/connect", box_id), "{}"); /* of the admin */
	expect_status(a, 200);
	keep_token(text_of(a, "envdAccessToken"));
	keep_token(text_of(a, "trafficAccessToken"));
	for (size_t i = 0; i < row_count; i++) {
		const struct route_row *row = &rows[i];

		if (row->open || strcmp(row->method, "DELETE") == 0)
			continue;
		a = ask(row, key);
		if (row->scopes & (AUTH_ADMIN | AUTH_EXEC | AUTH_TEMPLATES_WRITE))
			expect_row(row, a, a->status == 403);
	}
	/* It cannot grant itself, or a key below it, a scope that it lacks. */
	expect_status(call_as(key, "POST", "/v1/keys", "{\"name\":\"x\",\"scopes\":[\"exec\"]}"),
		      403);
	expect_status(call_as(key, "POST", "/v1/keys", "{\"name\":\"x\",\"scopes\":[\"admin\"]}"),
		      403);
}

/* ---- inside a sandbox: its token counts, and no key ---- */

struct inner_row {
	const struct route_table *table;
	const struct route *route;
	unsigned port;
};

/* Every table but the control plane's: the row, and the port at which it is served. */
static size_t inner_rows(struct inner_row *list, size_t max)
{
	size_t n = 0;

	for (size_t t = 0; e2b_route_tables[t]; t++) {
		const struct route_table *table = e2b_route_tables[t];

		for (size_t i = 0; table != &e2b_control_table && i < table->count; i++) {
			assert_true(n < max);
			list[n++] = (struct inner_row){ table, route_at(table, i),
							table == &e2b_code_table ? 49999 : 49983 };
		}
	}
	assert_true(n > 25);
	return n;
}

/* lines: credentials, each with CRLF. by_host: the sandbox is named by the host, not by headers. */
static const struct answer *enter(const struct inner_row *row, const char *lines, bool by_host)
{
	static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };
	static struct answer last;
	const char *where = by_host ? path_of("Host: %u-%s.cay.localhost\r\n", row->port, box_id)
				    : path_of("E2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: %u\r\n",
					      box_id, row->port);
	bool body = row->route->method == HTTP_POST;
	struct request req;

	answer_free(&last);
	request_send(&req, NULL, methods[row->route->method], path_for(row->route->pattern),
		     path_of("%s%s", where, lines), body ? "{}" : NULL);
	request_wait(&req, &last);
	for (size_t i = 0; i < token_count; i++)
		if (strstr(last.head, tokens[i]) || (last.body && strstr(last.body, tokens[i])))
			fail_msg("%s %s shows token %zu", row->table->face, row->route->pattern, i);
	return &last;
}

/* Which contexts there are is open to the traffic token: clients send no other there. */
static bool takes_traffic(const struct inner_row *row)
{
	return row->table == &e2b_code_table && begins(row->route->pattern, "/contexts");
}

static void refuse_all(const char *given, bool traffic)
{
	struct inner_row list[64];
	size_t n = inner_rows(list, ARRAY_LEN(list));
	char lines[256]; /* path_of() uses its buffers again */

	(void)snprintf(lines, sizeof(lines), "%s", given);
	for (size_t i = 0; i < n; i++) {
		bool open = list[i].route->flags & ROUTE_OPEN;

		if (i % 10 == 0)
			world_restart(); /* wrong tokens are counted, and too many are refused */
		assert_true(open || (list[i].route->flags & ROUTE_TOKEN));
		for (int by_host = 0; by_host < 2; by_host++) {
			const struct answer *a = enter(&list[i], lines, by_host);

			if (open ? a->status != 204
				 : (a->status != 401) != (traffic && takes_traffic(&list[i])))
				fail_msg("%s %s with '%s': %d %s", list[i].table->face,
					 list[i].route->pattern, lines, a->status, a->body);
		}
	}
}

static void test_inside_without_its_token(void **state)
{
	char victim[64], stranger[64], other[160], inner[160], traffic[160];
	const struct answer *a;

	(void)state;
	make_victim(victim);
	(void)snprintf(inner, sizeof(inner), "%s", tokens[1]);
	(void)snprintf(traffic, sizeof(traffic), "%s", tokens[2]);
	(void)snprintf(stranger, sizeof(stranger), "%s", make_key(ALL));
	a = made(stranger, "/sandboxes", "{\"templateID\":\"base\",\"timeout\":600}");
	(void)snprintf(other, sizeof(other), "%s", text_of(a, "envdAccessToken"));
	refuse_all("", false);
	refuse_all("X-Access-Token: \r\n", false);
	refuse_all(path_of("X-Access-Token: %s\r\n", other), false);
	refuse_all(path_of("X-Access-Token: %.63s\r\n", inner), false);
	refuse_all(path_of("X-Access-Token: %s\r\n", traffic), false);
	refuse_all(path_of("X-Access-Token: %s\r\n", victim), false);
	refuse_all(path_of("X-API-Key: %s\r\n", victim), false);
	refuse_all(path_of("Authorization: Bearer %s\r\n", stranger), false);
	refuse_all(path_of("E2b-Traffic-Access-Token: %s\r\n", traffic), true);
}

/* The sandbox's own token opens every one of them, and none of them shows another token. */
static void test_inside_with_its_token(void **state)
{
	struct inner_row list[64];
	size_t n = inner_rows(list, ARRAY_LEN(list));
	char victim[64];

	(void)state;
	make_victim(victim);
	for (size_t i = 0; i < n; i++) {
		const struct answer *a =
			enter(&list[i], path_of("X-Access-Token: %s\r\n", tokens[1]), false);

		if (a->status == 401 || a->status == 403)
			fail_msg("%s %s: %d %s", list[i].table->face, list[i].route->pattern,
				 a->status, a->body);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_without_a_key),
		TEST(test_one_scope),
		TEST(test_connection_from_inside_is_closed),
		TEST(test_own_without_exec),
		TEST(test_inside_without_its_token),
		TEST(test_inside_with_its_token),
	};

	return cmocka_run_group_tests_name("routes", tests, NULL, NULL);
}
