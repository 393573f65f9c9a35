/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the REST and E2B faces of a whole daemon on the fake engine
 * (tests/component/world.h). The daemon lives as long as the program, so that requests also meet
 * what earlier ones left.
 *
 * An input is a request with its line ends as they come. These words stand for what an input cannot
 * know: @KEY@ the admin key, @E2B@ the same as E2B spells it, @TOKEN@ the access token of the
 * inside, @ID@ a sandbox that runs. Whatever is asked, the daemon answers well-formed HTTP or
 * closes the connection, never with 500, and serves the next client.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "http/message/head.h"
#include "world.h"

#define INPUT_MAX 8192
#define HEADERS_MAX 100
#define CHANGES_MAX 16 /* then all sandboxes are deleted */
#define ANSWER_MS 20   /* a complete request is answered sooner, unless it asks to wait */
#define QUIET_TURNS 3  /* of the loop, after which an incomplete request gets no answer */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char id[64], token[80];
static unsigned changes;
static bool changed; /* by the last request, possibly */

static void end(void)
{
	(void)world_teardown(NULL);
}

static void new_sandbox(void)
{
	const struct answer *a =
		call("POST", "/v2/sandboxes", "{\"templateID\":\"base\",\"timeout\":3600}");

	expect_status(a, 201);
	(void)snprintf(id, sizeof(id), "%s", text_of(a, "sandboxID"));
	(void)snprintf(token, sizeof(token), "%s", text_of(a, "envdAccessToken"));
}

static void begin(void)
{
	world_prepare();
	world.config.max_sandboxes = 100;
	world_start();
	(void)atexit(end);
	new_sandbox();
}

/* The sandbox of the inputs runs after a request that may have changed it, and not hundreds of
 * others. */
static void tidy(void)
{
	const struct answer *a;

	if (!changed)
		return;
	changed = false;
	a = call("GET", path_of("/v1/sandboxes/%s", id), NULL);
	if (a->status == 200 && strcmp(text_of(a, "state"), "running") == 0 &&
	    ++changes % CHANGES_MAX)
		return;
	for (;;) {
		const struct json *rows, *row;
		char path[128];

		a = call("GET", "/v1/sandboxes?limit=1", NULL);
		expect_status(a, 200);
		rows = member(a->doc, "data");
		row = rows ? json_at(rows, 0) : NULL;
		if (!row)
			break;
		(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s",
			       json_str(member(row, "id")).p);
		(void)call("DELETE", path, NULL);
		world_turns(1);
	}
	new_sandbox();
}

static const char *meaning(struct str *word)
{
	static const struct {
		const char *word, *text;
		size_t skip;
	} words[] = {
		{ "@KEY@", world.admin, 0 },
		{ "@E2B@", world.admin, 4 },
		{ "@TOKEN@", token, 0 },
		{ "@ID@", id, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		size_t n = strlen(words[i].word);

		if (word->n >= n && memcmp(word->p, words[i].word, n) == 0) {
			word->n = n;
			return words[i].text + words[i].skip;
		}
	}
	return NULL;
}

static void write_input(struct buf *out, const char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		struct str word = { p + i, n - i };
		const char *text = p[i] == '@' ? meaning(&word) : NULL;

		if (text && buf_puts(out, text) == 0)
			i += word.n;
		else if (!text && buf_append(out, p + i, 1) == 0)
			i++;
		else
			return;
	}
}

/* The server waits for more of this request: no answer is owed. */
static bool is_incomplete(struct str text)
{
	struct http_header headers[HEADERS_MAX];
	struct http_head head = { .headers = headers, .header_max = HEADERS_MAX };
	struct http_scan scan = { 0 };
	enum http_verdict verdict;
	size_t n = 0;

	verdict = http_head_scan(&scan, true, text.p, text.n, INPUT_MAX * 16, &n);
	if (verdict != HTTP_OK)
		return verdict == HTTP_MORE;
	if (http_head_parse_request(&head, text.p, n) != HTTP_OK)
		return false;
	changed = (head.method != HTTP_GET && head.method != HTTP_HEAD) || text.n > n;
	return head.chunked ||
	       (head.content_length > 0 && (uint64_t)head.content_length > text.n - n);
}

static void wait_for_answer(struct request *req, bool incomplete)
{
	int64_t end_us = time_mono_us() + ANSWER_MS * 1000;

	for (int quiet = 0; !request_ended(req) && quiet < QUIET_TURNS;) {
		if (req->n > 0 || incomplete) {
			quiet++; /* a stream, a connection that is kept, or no answer at all */
			loop_turn(world.loop, 0);
		} else if (time_mono_us() < end_us) {
			loop_turn(world.loop, 1);
		} else {
			return;
		}
	}
}

static void judge(struct request *req)
{
	if (req->n == 0)
		return;
	req->bytes[req->n] = '\0';
	if (req->n < 12 || strncmp(req->bytes, "HTTP/1.1 ", 9) != 0)
		fail_msg("no HTTP: %.200s", req->bytes);
	if (strncmp(req->bytes + 9, "500", 3) == 0)
		fail_msg("an internal error: %.600s", req->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct request req;
	struct buf bytes;

	if (size == 0 || size > INPUT_MAX)
		return 0;
	if (!world.service)
		begin();
	tidy();
	buf_init(&bytes, INPUT_MAX * 16);
	write_input(&bytes, (const char *)data, size);
	request_open(&req);
	request_write(&req, buf_str(&bytes));
	wait_for_answer(&req, is_incomplete(buf_str(&bytes)));
	buf_done(&bytes);
	judge(&req);
	request_drop(&req);
	loop_turn(world.loop, 0);
	world.shutdown = false;
	return 0;
}
