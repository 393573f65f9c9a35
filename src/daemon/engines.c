/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/value/bounds.h"
#include "engine/driver.h"
#include "engine/native/native.h"

/* One build under way. Its success shows in the template's reference: the builder always renames a
 * new file into place, even when the content has not changed. Of a removal none is left. */
struct build_run {
	struct build_run *next;
	service_build_done_fn done;
	void *arg;
	char ref[CONFIG_TEXT_MAX + 80];
	struct stat before;
	struct loop_watch *watch;
	int fd;
	bool remove;
};

static struct loop *build_loop;
static const char *template_dir;
static struct build_run *builds;

static void read_ref(const struct build_run *run, struct stat *ret)
{
	if (stat(run->ref, ret) < 0)
		*ret = (struct stat){ .st_ino = 0 };
}

static void build_free(struct build_run *run)
{
	struct build_run **at = &builds;

	while (*at && *at != run)
		at = &(*at)->next;
	if (*at)
		*at = run->next;
	loop_watch_free(run->watch);
	if (run->fd >= 0)
		(void)close(run->fd);
	free(run);
}

static void on_ended(void *arg, int events, int error)
{
	struct build_run *run = arg;
	struct stat now;
	struct err err;
	bool good;

	(void)events;
	(void)error;
	read_ref(run, &now);
	good = run->remove ? now.st_ino == 0
			   : now.st_ino && (now.st_ino != run->before.st_ino ||
					    now.st_mtim.tv_sec != run->before.st_mtim.tv_sec ||
					    now.st_mtim.tv_nsec != run->before.st_mtim.tv_nsec);
	if (!good)
		(void)err_set(&err, ERR_ENGINE_FAILED, "the builder failed; its log says why");
	run->done(run->arg, good ? NULL : &err);
	build_free(run);
}

static void on_started(void *arg, const struct engine_made *made, const struct err *err)
{
	struct build_run *run = arg;
	struct err own;

	if (!err) {
		channel_close(&made->channel);
		run->fd = made->watch_fd;
		if (loop_watch_new(build_loop, run->fd, on_ended, run, &run->watch) == 0 &&
		    loop_watch_set(run->watch, LOOP_READ) == 0)
			return;
		(void)err_set(&own, ERR_INTERNAL, "the builder cannot be watched");
		err = &own;
	}
	run->done(run->arg, err);
	build_free(run);
}

static int build_native(void *engine, const char *name, bool remove, int log_fd,
			service_build_done_fn done, void *arg, struct err *err)
{
	struct build_run *run = calloc(1, sizeof(*run));

	if (!run)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	*run = (struct build_run){
		.next = builds, .done = done, .arg = arg, .fd = -1, .remove = remove
	};
	(void)snprintf(run->ref, sizeof(run->ref), "%s/refs/%s", template_dir, name);
	read_ref(run, &run->before);
	builds = run;
	if (native_build(engine, name, remove, log_fd, on_started, run, err) < 0) {
		build_free(run);
		return -1;
	}
	return 0;
}

/* -1: not found; then the builder alone says what it can build. */
static int recipes_fd = -1;

void engines_find_recipes(void)
{
	static const char *const places[] = { "../../templates", "../../share/cay/templates" };
	char program[CONFIG_TEXT_MAX], path[CONFIG_TEXT_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash;

	if (n <= 0)
		return;
	program[n] = '\0';
	slash = strrchr(program, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; recipes_fd < 0 && i < ARRAY_LEN(places); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", program, places[i]);
		recipes_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	if (recipes_fd < 0)
		recipes_fd = open("/usr/share/cay/templates", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int has_recipe(const char *name)
{
	char file[BOUNDS_NAME_MAX + sizeof(".recipe")];
	struct stat st;

	if (recipes_fd < 0)
		return -ENOENT;
	(void)snprintf(file, sizeof(file), "%s.recipe", name);
	if (fstatat(recipes_fd, file, &st, 0) == 0)
		return 1;
	return errno == ENOENT ? 0 : -errno;
}

void engines_choose(const struct config *config, struct loop *loop, struct service_config *ret)
{
	size_t n = 0;

	build_loop = loop;
	template_dir = config->templates;
	if (config->engine_native) {
		ret->engines[n++] = &engine_native;
		ret->build_engine = engine_native.name;
		ret->build = build_native;
		ret->recipe = has_recipe;
	}
	if (config->engine_local)
		ret->engines[n++] = &engine_local;
}

/* After the service: builds go on without us, their log and reference tell the rest. */
void engines_done(void)
{
	while (builds)
		build_free(builds);
	if (recipes_fd >= 0)
		(void)close(TAKE_FD(recipes_fd));
}
