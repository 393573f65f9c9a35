/* SPDX-License-Identifier: Apache-2.0 */
#include "home.h"

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/log.h"
#include "engine/registry.h"
#include "service/sandbox/sandbox_internal.h"

struct home home;
static const struct engine_choice choices[] = { { &engine_fake, true, NULL } };

void home_file(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", home.dir, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

void home_template(const char *name, char letter, const char *meta)
{
	char path[192], hash[65], ref[96];

	memset(hash, letter, 64);
	hash[64] = '\0';
	(void)snprintf(path, sizeof(path), "%s/%s", home.templates, hash);
	(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "templates/%s/meta.json", hash);
	home_file(path, meta);
	(void)snprintf(path, sizeof(path), "templates/refs/%s", name);
	(void)snprintf(ref, sizeof(ref), "1 %s\n", hash);
	home_file(path, ref);
}

void home_prepare(void)
{
	char path[128];

	log_init("unit", LOG_ERROR);
	memset(&home, 0, sizeof(home));
	(void)snprintf(home.dir, sizeof(home.dir), "/tmp/cay-service-XXXXXX");
	assert_non_null(mkdtemp(home.dir));
	(void)snprintf(home.templates, sizeof(home.templates), "%s/templates", home.dir);
	assert_int_equal(mkdir(home.templates, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/refs", home.templates);
	assert_int_equal(mkdir(path, 0755), 0);
	home_template("base", 'b',
		      "{\"name\":\"base\",\"workdir\":\"/workspace\",\"user\":\"sandbox\"}");
	assert_int_equal(loop_new(&home.loop), 0);
	home.config = (struct service_config){ .loop = home.loop,
					       .state_dir = home.dir,
					       .template_dir = home.templates,
					       .engines = choices,
					       .engine_count = ARRAY_LEN(choices),
					       .recipes_fd = -1,
					       .default_template = "base",
					       .pool_min = 2,
					       .pool_max = 4,
					       .pids_max = 100,
					       .max_sandboxes = 100,
					       .max_sandboxes_per_key = 10 };
}

void home_open(void)
{
	char path[128], text[64] = "";
	struct err err;
	FILE *file;

	if (service_open(&home.config, &home.service, &err) < 0)
		fail_msg("%s", err.message);
	(void)snprintf(path, sizeof(path), "%s/admin.key", home.dir);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	(void)fclose(file);
	home.admin = auth_find(home.service, str_trim(str_of(text), "\n"));
	assert_non_null(home.admin);
	HOME_UNTIL(service_ready(home.service, &err));
}

void home_close(void)
{
	service_close(TAKE_PTR(home.service));
	loop_turn(home.loop, 0);
}

void home_reopen(void)
{
	home_close();
	home_open();
}

int home_setup(void **state)
{
	(void)state;
	home_prepare();
	home_open();
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

int home_teardown(void **state)
{
	(void)state;
	if (home.service)
		home_close();
	for (int i = 0; i < 20; i++) /* pending operations complete after the end */
		loop_turn(home.loop, 1);
	loop_free(home.loop);
	fake_forget_snapshots();
	return nftw(home.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

struct key *home_key(const char *name, uint32_t scopes)
{
	const struct key_spec spec = { .name = str_of(name), .scopes = scopes };
	char text[AUTH_KEY_TEXT_SIZE];
	const struct key *made;
	struct err err;

	if (auth_create(home.service, NULL, &spec, text, &made, &err) < 0)
		fail_msg("%s", err.message);
	return auth_find(home.service, str_of(text));
}

struct made {
	bool done;
	struct err err;
};

static void on_made(void *arg, const struct sandbox *sandbox, const struct err *err)
{
	struct made *made = arg;

	(void)sandbox;
	made->done = true;
	if (err)
		made->err = *err;
}

struct sandbox *home_sandbox(struct key *key, const char *name)
{
	const struct sandbox_spec spec = { .template = STR_LIT("base"),
					   .name = str_of(name),
					   .cpu_milli = 1000,
					   .memory_mb = 256,
					   .disk_size_mb = 1024,
					   .timeout_sec = 300 };
	struct made made = { .err = { .code = ERR_OK } };
	const struct sandbox *now;
	struct sandbox *found;
	struct err err;
	int r = sandbox_create(home.service, key, &spec, on_made, &made, &now, &err);

	if (r < 0)
		fail_msg("%s", err.message);
	if (r == 0)
		HOME_UNTIL(made.done);
	if (made.err.code)
		fail_msg("%s", made.err.message);
	found = sandbox_find(home.service, key, str_of(name), &err);
	assert_non_null(found);
	return found;
}
