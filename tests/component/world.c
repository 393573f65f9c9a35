/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <ftw.h>
#include <string.h>
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
	struct http_limits limits;
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
	limits = http_limits_default;
	if (world.body_timeout_ms)
		limits.body_timeout_ms = world.body_timeout_ms;
	assert_int_equal(http_server_new(world.loop, &limits, handle, NULL, &world.server), 0);
	rest_set_server(world.rest, world.server);
	e2b_set_server(world.e2b, world.server);
	preview_set_server(world.preview, world.server);
	read_admin_key();
	world_until(service_ready(world.service, &err));
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

int world_teardown(void **state)
{
	(void)state;
	call_done();
	if (world.service)
		world_stop();
	engine_fake.close(world.engine);
	world_turns(5);
	loop_free(world.loop);
	(void)nftw(world.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}
