/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of the native engine are templates: directories of this host, made by the builder
 * (src/build/cay-build) that the warden starts as root. The builder reports over a pipe that we
 * hold the other end of, so a build outlives a restart of the warden; its log goes to a file of the
 * caller's and outlives us, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/native/report.h"
#include "engine/native/warden.h"

/* One run of the builder. Owner: engine->builds, from the start of the request to watch.done(). */
struct native_build {
	struct native_build *next;
	struct engine *engine;
	struct engine_image_watch watch;
	int fd; /* of the pipe */
	struct loop_watch *readable;
	struct report_lines lines;
	bool accepted; /* the warden has started the builder */
	bool ended;    /* as its last line says */
	bool failed;
	struct err err;
};

static void build_free(struct native_build *build)
{
	struct native_build **at = &build->engine->builds;

	while (*at && *at != build)
		at = &(*at)->next;
	if (*at)
		*at = build->next;
	loop_watch_free(build->readable);
	if (build->fd >= 0)
		(void)close(build->fd);
	free(build);
}

static void finish(struct native_build *build, const struct err *err)
{
	struct engine_image_watch watch = build->watch;
	struct err copy;

	if (err)
		copy = *err;
	build_free(build);
	watch.done(watch.arg, err ? &copy : NULL);
}

static void on_line(void *arg, struct str line)
{
	struct native_build *build = arg;
	char step[ENGINE_STEP_MAX + 1];
	struct engine_progress progress = { step };
	struct report report;

	if (build->ended || report_parse(line, &report) < 0)
		return;
	if (report.kind == REPORT_STEP) {
		report.text.n = MIN(report.text.n, ENGINE_STEP_MAX);
		(void)!str_copy(step, sizeof(step), report.text);
		if (build->watch.on_progress)
			build->watch.on_progress(build->watch.arg, &progress);
		return;
	}
	build->ended = true;
	build->failed = report.kind == REPORT_FAILED;
	if (build->failed)
		(void)err_set(&build->err, report.code, "%.*s%s", (int)MIN(report.text.n, 300),
			      report.text.p, report.text.n ? "" : "the builder failed");
}

static void on_readable(void *arg, int events, int error)
{
	struct native_build *build = arg;
	char bytes[4096];
	ssize_t n;

	(void)events;
	(void)error;
	n = read(build->fd, bytes, sizeof(bytes));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		report_feed(&build->lines, (struct str){ bytes, (size_t)n }, on_line, build);
		return;
	}
	/* The builder has closed the other end. */
	loop_watch_free(TAKE_PTR(build->readable));
	if (!build->ended) {
		build->failed = true;
		(void)err_set(&build->err, ERR_ENGINE_FAILED,
			      "the builder was killed; its log shows how far it came");
	}
	if (build->accepted)
		finish(build, build->failed ? &build->err : NULL);
}

static void on_started(void *arg, const struct err *err)
{
	struct native_build *build = arg;

	build->accepted = true;
	if (err)
		finish(build, err);
	else if (!build->readable)
		finish(build, build->failed ? &build->err : NULL);
}

static int start(struct engine *engine, const struct engine_image_ref *image, uint32_t flags,
		 const struct engine_image_watch *watch, struct err *err)
{
	struct native_build *build = calloc(1, sizeof(*build));
	struct native_call call = { .then.done = on_started, .arg = build };
	struct warden_request req = { .op = WARDEN_BUILD, .flags = flags };
	_cleanup_close_ int report_fd = -1, null_fd = -1;
	int ends[2], fds[NATIVE_FDS_MAX], r;

	if (!build)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	*build = (struct native_build){
		.next = engine->builds, .engine = engine, .watch = *watch, .fd = -1
	};
	engine->builds = build;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		build_free(build);
		return err_set_errno(err, ERR_UNAVAILABLE, errno, "no pipe for the builder");
	}
	build->fd = ends[0];
	report_fd = ends[1];
	null_fd = watch->log_fd < 0 ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
	fds[0] = watch->log_fd < 0 ? null_fd : watch->log_fd;
	fds[1] = report_fd;
	r = fcntl(build->fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
	if (r >= 0)
		r = loop_watch_new(engine->config.loop, build->fd, on_readable, build,
				   &build->readable);
	if (r >= 0)
		r = loop_watch_set(build->readable, LOOP_READ);
	if (r < 0)
		(void)err_set_errno(err, ERR_UNAVAILABLE, r, "the builder cannot be watched");
	else if (str_copy(req.id, sizeof(req.id), str_of(image->name)) < 0)
		r = err_set(err, ERR_INVALID_REQUEST, "the template's name is too long");
	else
		r = warden_start(engine, &call, &req, fds, err);
	if (r < 0)
		build_free(build);
	return r < 0 ? -1 : 0;
}

static bool is_current(const struct engine_image_ref *image)
{
	static const uint8_t zeros[ENGINE_HASH_SIZE];

	return memcmp(image->hash, zeros, sizeof(zeros)) == 0;
}

static int image_check(struct engine *engine, const struct engine_image_ref *image, struct err *err)
{
	char file[BOUNDS_NAME_MAX + sizeof(".recipe")];
	struct stat st;

	/* Without the directory of recipes the builder alone knows what it can build. */
	if (engine->config.recipes_fd < 0)
		return 0;
	(void)snprintf(file, sizeof(file), "%s.recipe", image->name);
	if (fstatat(engine->config.recipes_fd, file, &st, 0) == 0 || errno != ENOENT)
		return 0;
	return err_set(err, ERR_TEMPLATE_NOT_FOUND, "no recipe for a template '%s'", image->name);
}

struct look {
	struct engine_image_ref image;
	bool have;
	engine_have_fn done;
	void *arg;
};

static void on_looked(void *arg)
{
	struct look *look = arg;

	look->done(look->arg, look->have, NULL);
	free(look);
}

static int image_have(struct engine *engine, const struct engine_image_ref *image,
		      engine_have_fn done, void *arg, struct err *err)
{
	struct look *look = calloc(1, sizeof(*look));
	char path[4096], hex[2 * ENGINE_HASH_SIZE + 1];
	struct stat st;

	if (!look || loop_defer(engine->config.loop, on_looked, look) < 0) {
		free(look);
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	}
	str_hex(hex, image->hash, sizeof(image->hash));
	(void)snprintf(path, sizeof(path), is_current(image) ? "%s/refs/%s" : "%s/%s",
		       engine->config.template_dir, is_current(image) ? image->name : hex);
	*look = (struct look){ *image, stat(path, &st) == 0, done, arg };
	return 0;
}

/* A version that is gone cannot be made again: the same recipe gives another hash. */
static int image_prepare(struct engine *engine, const struct engine_image_ref *image,
			 const struct engine_image_watch *watch, struct err *err)
{
	if (!is_current(image))
		return err_set(err, ERR_TEMPLATE_NOT_FOUND,
			       "this version of template '%s' is not on this host", image->name);
	if (image_check(engine, image, err) < 0)
		return -1;
	return start(engine, image, 0, watch, err);
}

static int image_remove(struct engine *engine, const struct engine_image_ref *image,
			const struct engine_image_watch *watch, struct err *err)
{
	return start(engine, image, WARDEN_REMOVE, watch, err);
}

/* The calls to the warden have failed by now; what is left are builders that run. */
void native_builds_done(struct engine *engine)
{
	struct err err;

	(void)err_set(&err, ERR_UNAVAILABLE, "the daemon was stopped; the builder continues");
	while (engine->builds)
		finish(engine->builds, &err);
}

const struct engine_image native_image = {
	.check = image_check,
	.have = image_have,
	.prepare = image_prepare,
	.remove = image_remove,
};
