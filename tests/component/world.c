/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/time.h"
#include "engine/registry.h"

#define PREVIEW_DOMAIN "cay.localhost"

struct world world;

/* ---- an engine that outlives the daemon ---- */

static int keep_open(const struct engine_config *config, struct engine **ret, struct err *err)
{
	const char *link = getenv("CAY_TEST_LINK");
	struct engine_config own = *config;

	own.streams = link && strcmp(link, "streams") == 0;
	if (world.engine)
		fake_reopen(world.engine, &own);
	else if (engine_fake.open(&own, &world.engine, err) < 0)
		return -1;
	fake_add_flags(world.engine, ENGINE_SURVIVES);
	*ret = world.engine;
	return 0;
}

static void keep_close(struct engine *engine)
{
	fake_reopen(engine, NULL);
}

static struct engine_driver driver;

struct engine_driver *world_driver(void)
{
	return &driver;
}

/* An engine that this program knows and the operator did not enable. */
static const struct engine_driver disabled = { .name = "local", .enable = "cay up --engine-local" };
static const struct engine_choice choices[] = { { &driver, true, NULL },
						{ &disabled, false, NULL } };

void world_engine_lost(bool lost)
{
	fake_lose(world.engine, lost);
}

/* ---- files ---- */

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

void world_template(const char *name, const char *meta)
{
	char path[256], hash[65];
	unsigned char digest[32] = { 0 };

	memcpy(digest, name, MIN(strlen(name), sizeof(digest)));
	str_hex(hash, digest, sizeof(digest));
	(void)snprintf(path, sizeof(path), "%s/%s", world.templates, hash);
	(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "%s/%s/meta.json", world.templates, hash);
	write_file(path, meta);
	(void)snprintf(path, sizeof(path), "%s/refs/%s", world.templates, name);
	char ref[128];

	(void)snprintf(ref, sizeof(ref), "1 %s\n", hash);
	write_file(path, ref);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

/* ---- life ---- */

static void on_shutdown(void *arg)
{
	(void)arg;
	world.shutdown = true;
}

void world_prepare(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[128];

	log_init("component", LOG_ERROR);
	memset(&world, 0, sizeof(world));
	(void)snprintf(world.dir, sizeof(world.dir), "%s/cay-component-XXXXXX",
		       tmp && strlen(tmp) < 32 ? tmp : "/tmp");
	assert_non_null(mkdtemp(world.dir));
	(void)snprintf(world.templates, sizeof(world.templates), "%s/templates", world.dir);
	assert_int_equal(mkdir(world.templates, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/refs", world.templates);
	assert_int_equal(mkdir(path, 0755), 0);
	world_template("base",
		       "{\"name\":\"base\",\"workdir\":\"/workspace\",\"user\":\"sandbox\","
		       "\"shell\":\"/bin/bash\",\"env\":{\"LANG\":\"C.UTF-8\",\"A\":\"t\"}}");
	assert_int_equal(loop_new(&world.loop), 0);
	driver = engine_fake;
	driver.open = keep_open;
	driver.close = keep_close;
	driver.warning = NULL;
	world.config = (struct service_config){
		.loop = world.loop,
		.state_dir = world.dir,
		.template_dir = world.templates,
		.engines = choices,
		.engine_count = ARRAY_LEN(choices),
		.recipes_fd = -1,
		.default_template = "base",
		.pool_min = 2,
		.pool_max = 4,
		.pids_max = 100,
		.max_sandboxes = 1000,
		.preview_suffix = "." PREVIEW_DOMAIN,
		.max_sandboxes_per_key = 100,
	};
}

static void read_admin_key(void)
{
	char path[128];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/admin.key", world.dir);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(world.admin, sizeof(world.admin), file));
	(void)fclose(file);
	world.admin[strcspn(world.admin, "\n")] = '\0';
}

static void handle(void *ctx, struct http_req *req)
{
	(void)ctx;
	if (e2b_takes_port(world.e2b, req))
		e2b_handle(world.e2b, req);
	else if (preview_takes(world.preview, req))
		preview_handle(world.preview, req);
	else if (e2b_takes(world.e2b, req))
		e2b_handle(world.e2b, req);
	else
		rest_handle(world.rest, req);
}

void world_start(void)
{
	struct rest_config config;
	struct preview_config preview;
	struct e2b_config e2b;
	struct err err;

	if (world.engine)
		fake_forget_temporary(world.engine);
	if (service_open(&world.config, &world.service, &err) < 0)
		fail_msg("%s", err.message);
	config = (struct rest_config){ .service = world.service,
				       .allowed_hosts = "cay.example other:81",
				       .heartbeat_ms = world.heartbeat_ms,
				       .open_per_min = world.open_per_min,
				       .on_shutdown = on_shutdown };
	assert_int_equal(rest_new(&config, &world.rest), 0);
	e2b = (struct e2b_config){ .service = world.service, .preview_domain = PREVIEW_DOMAIN };
	assert_int_equal(e2b_new(&e2b, &world.e2b), 0);
	preview = (struct preview_config){ .loop = world.loop,
					   .service = world.service,
					   .domain = PREVIEW_DOMAIN,
					   .suffix = "." PREVIEW_DOMAIN };
	assert_int_equal(preview_new(&preview, &world.preview), 0);
	assert_int_equal(
		http_server_new(world.loop, &http_limits_default, handle, NULL, &world.server), 0);
	rest_set_server(world.rest, world.server);
	e2b_set_server(world.e2b, world.server);
	preview_set_server(world.preview, world.server);
	read_admin_key();
	for (int i = 0; i < 1000 && !service_ready(world.service, &err); i++)
		loop_turn(world.loop, 5);
	assert_true(service_ready(world.service, &err));
}

void world_stop(void)
{
	rest_set_server(world.rest, NULL);
	e2b_set_server(world.e2b, NULL);
	preview_set_server(world.preview, NULL);
	http_server_free(world.server);
	preview_free(world.preview);
	service_close(world.service);
	rest_free(world.rest);
	e2b_free(world.e2b);
	world.server = NULL;
	world.service = NULL;
	world.rest = NULL;
}

void world_restart(void)
{
	world_stop();
	world_turns(5);
	world_start();
	world_turns(20);
}

void world_turns(int ms)
{
	int64_t end_us = time_mono_us() + (int64_t)ms * 1000;

	/* As many turns as well: on a busy host the time may pass while this process does not run.
	 */
	for (int turns = 0; turns < ms || time_mono_us() < end_us; turns++)
		loop_turn(world.loop, 1);
}

int world_setup(void **state)
{
	(void)state;
	world_prepare();
	world_start();
	return 0;
}

int world_setup_pool(void **state)
{
	(void)state;
	world_prepare();
	world.config.pool_enabled = true;
	world_start();
	world_turns(200);
	return 0;
}

static struct answer last;

int world_teardown(void **state)
{
	(void)state;
	answer_free(&last);
	if (world.service)
		world_stop();
	engine_fake.close(world.engine);
	world_turns(5);
	loop_free(world.loop);
	(void)nftw(world.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}

/* ---- requests ---- */

void request_open(struct request *req)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
			 0);
	assert_int_equal(http_server_adopt(world.server, ends[1]), 0);
	*req = (struct request){ .fd = ends[0] };
}

void request_write(struct request *req, struct str bytes)
{
	while (bytes.n) {
		ssize_t n = write(req->fd, bytes.p, bytes.n);

		if (n < 0 && errno == EAGAIN)
			loop_turn(world.loop, 1);
		else if (n < 0)
			break; /* refused before the end: the answer tells */
		else
			bytes = (struct str){ bytes.p + n, bytes.n - (size_t)n };
	}
}

void request_send_bytes(struct request *req, const char *key, const char *method, const char *path,
			const char *headers, struct str body)
{
	char auth[128] = "";
	struct buf text;
	int r;

	if (key)
		(void)snprintf(auth, sizeof(auth), "Authorization: Bearer %s\r\n", key);
	buf_init(&text, body.n + 65536);
	r = buf_printf(&text, "%s %s HTTP/1.1\r\n%sConnection: close\r\n%s%s", method, path,
		       headers && strstr(headers, "Host:") ? "" : "Host: localhost\r\n", auth,
		       headers ? headers : "");
	if (r == 0 && body.p)
		r = buf_printf(&text, "%sContent-Length: %zu\r\n",
			       headers && strstr(headers, "Content-Type")
				       ? ""
				       : "Content-Type: application/json\r\n",
			       body.n);
	if (r == 0)
		r = buf_puts(&text, "\r\n");
	if (r == 0)
		r = buf_append(&text, body.p, body.n);
	assert_int_equal(r, 0);
	request_open(req);
	request_write(req, buf_str(&text));
	buf_done(&text);
}

void request_send(struct request *req, const char *key, const char *method, const char *path,
		  const char *headers, const char *body)
{
	request_send_bytes(req, key, method, path, headers, str_of(body));
}

static void pump(struct request *req)
{
	for (;;) {
		ssize_t r;

		if (req->size - req->n < 4096) {
			req->size = req->size ? req->size * 2 : 16384;
			req->bytes = realloc(req->bytes, req->size);
			assert_non_null(req->bytes);
		}
		r = read(req->fd, req->bytes + req->n, req->size - req->n - 1);
		if (r < 0 && errno == EAGAIN)
			return;
		if (r <= 0) {
			req->done = true;
			return;
		}
		req->n += (size_t)r;
	}
}

const char *request_until(struct request *req, const char *text)
{
	int64_t end_us = time_mono_us() + 5000000;
	char *at;

	for (;;) {
		pump(req);
		req->bytes[req->n] = '\0';
		at = memmem(req->bytes + req->seen, req->n - req->seen, text, strlen(text));
		if (at)
			break;
		if (req->done || time_mono_us() > end_us)
			fail_msg("no '%s' behind: %s", text, req->bytes + req->seen);
		loop_turn(world.loop, 5);
	}
	req->seen = (size_t)(at - req->bytes) + strlen(text);
	return at;
}

bool request_ended(struct request *req)
{
	pump(req);
	return req->done;
}

/* In place; the body is then the raw bytes. An incomplete body is not changed. */
static void unchunk(struct answer *answer, size_t n)
{
	char *from = answer->body, *to = answer->body, *end = answer->body + n;

	if (!strstr(answer->head, "Transfer-Encoding: chunked"))
		return;
	while (from < end) {
		size_t size = strtoul(from, &from, 16);

		from += 2;
		if (size == 0 || from + size > end)
			break;
		memmove(to, from, size);
		to += size;
		from += size + 2;
		answer->complete = from + 3 <= end && strncmp(from, "0\r\n", 3) == 0;
	}
	*to = '\0';
	answer->n = (size_t)(to - answer->body);
}

void request_wait(struct request *req, struct answer *ret)
{
	int64_t end_us = time_mono_us() + 5000000;
	char *body;

	while (!req->done) {
		loop_turn(world.loop, 5);
		pump(req);
		if (time_mono_us() > end_us)
			fail_msg("no answer within 5 s");
	}
	(void)close(req->fd);
	assert_true(req->n > 12);
	req->bytes[req->n] = '\0';
	*ret = (struct answer){ .head = req->bytes };
	ret->status = atoi(req->bytes + 9);
	body = strstr(req->bytes, "\r\n\r\n");
	assert_non_null(body);
	body[2] = '\0';
	ret->body = body + 4;
	ret->n = req->n - (size_t)(ret->body - req->bytes);
	unchunk(ret, ret->n);
	if (ret->body[0] == '{')
		ret->doc = json_parse(str_of(ret->body), NULL);
}

void request_drop(struct request *req)
{
	(void)close(req->fd);
	free(req->bytes);
}

void answer_free(struct answer *answer)
{
	json_free(answer->doc);
	free(answer->head);
	*answer = (struct answer){ 0 };
}

struct answer *call_as(const char *key, const char *method, const char *path, const char *body)
{
	struct request req;

	answer_free(&last);
	request_send(&req, key, method, path, NULL, body);
	request_wait(&req, &last);
	return &last;
}

struct answer *call(const char *method, const char *path, const char *body)
{
	return call_as(world.admin, method, path, body);
}

/* ---- answers ---- */

const struct json *member(const struct json *object, const char *key)
{
	const struct json *value;
	const char *name;
	void *it = NULL;

	while (object && json_type(object) == JSON_OBJECT && json_next(object, &it, &name, &value))
		if (strcmp(name, key) == 0)
			return value;
	return NULL;
}

static const char *text(const struct json *value)
{
	return value && json_type(value) == JSON_STRING ? json_str(value).p : "";
}

const char *text_of(const struct answer *answer, const char *key)
{
	return text(member(answer->doc, key));
}

int64_t int_of(const struct answer *answer, const char *key)
{
	const struct json *value = member(answer->doc, key);

	return value && json_type(value) == JSON_INT ? json_int(value) : -1;
}

const char *error_code(const struct answer *answer)
{
	return text(member(member(answer->doc, "error"), "code"));
}

const char *error_message(const struct answer *answer)
{
	return text(member(member(answer->doc, "error"), "message"));
}

static char *next_buffer(void)
{
	static char buffers[64][512];
	static unsigned turn;

	return buffers[turn++ % 64];
}

const char *path_of(const char *fmt, ...)
{
	char *buffer = next_buffer();
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(buffer, 512, fmt, ap);
	va_end(ap);
	return buffer;
}

const char *make(const char *body)
{
	const struct answer *a = call("POST", "/v1/sandboxes", body);
	char *id = next_buffer();

	expect_status(a, 201);
	(void)snprintf(id, 512, "%s", text_of(a, "id"));
	return id;
}

const char *make_key(const char *scopes)
{
	const struct answer *a =
		call("POST", "/v1/keys", path_of("{\"name\":\"k\",\"scopes\":%s}", scopes));
	char *key = next_buffer();

	expect_status(a, 201);
	(void)snprintf(key, 512, "%s", text_of(a, "key"));
	return key;
}

void follow_send(struct request *req, const char *id, const char *process, const char *query)
{
	request_send(req, world.admin, "GET",
		     path_of("/v1/sandboxes/%s/processes/%s/output?%s", id, process, query), NULL,
		     NULL);
}
