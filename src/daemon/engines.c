/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/engines.h"

#include <stdio.h>
#include <sys/stat.h>

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
		if (made->agent_fd >= 0)
			(void)close(made->agent_fd);
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

void engines_choose(const struct config *config, struct loop *loop, struct service_config *ret)
{
	size_t n = 0;

	build_loop = loop;
	template_dir = config->templates;
	if (config->engine_native) {
		ret->engines[n++] = &engine_native;
		ret->build_engine = engine_native.name;
		ret->build = build_native;
	}
	if (config->engine_local)
		ret->engines[n++] = &engine_local;
}

/* After the service: builds go on without us, their log and reference tell the rest. */
void engines_done(void)
{
	while (builds)
		build_free(builds);
}
