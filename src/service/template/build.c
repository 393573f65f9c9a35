/* SPDX-License-Identifier: Apache-2.0 */
/* Template builds that this daemon requested: their state and their logs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/value/bounds.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "service/pool/pool_internal.h"
#include "service/copy/snapshot.h"
#include "service/template/template_internal.h"
#include "service/template/template_private.h"
#include "service/copy/copy_internal.h"
#include "service/sandbox/sandbox_internal.h"

const char *const build_state_names[] = { "running", "ready", "failed" };
static_assert(ARRAY_LEN(build_state_names) == BUILD_STATE_COUNT, "every state has a name");

static int log_path(const struct service *service, const char *name, char *dst, size_t size)
{
	int n = snprintf(dst, size, "%s/builds/%s.log", service->config.state_dir, name);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* The directory belongs to the daemon's user, unlike the one of the daemons' own logs. */
static int make_log_dir(const struct service *service)
{
	char path[4096];

	(void)snprintf(path, sizeof(path), "%s/builds", service->config.state_dir);
	return mkdir(path, 0750) < 0 && errno != EEXIST ? -errno : 0;
}

static struct build *find(const struct service *service, struct str name)
{
	for (size_t i = 0; i < BUILDS_MAX; i++)
		if (service->templates->builds[i] &&
		    str_is(name, service->templates->builds[i]->name))
			return service->templates->builds[i];
	return NULL;
}

const struct build *build_find(struct service *service, struct str name)
{
	return find(service, name);
}

/* A free entry, or that of the oldest finished build; -1 if all are running. */
static int find_place(struct service *service)
{
	int oldest = -1;

	for (int i = 0; i < BUILDS_MAX; i++) {
		const struct build *build = service->templates->builds[i];

		if (!build)
			return i;
		if (build->state != BUILD_RUNNING &&
		    (oldest < 0 ||
		     build->started_ms < service->templates->builds[oldest]->started_ms))
			oldest = i;
	}
	if (oldest >= 0) {
		free(service->templates->builds[oldest]);
		service->templates->builds[oldest] = NULL;
	}
	return oldest;
}

/* An engine builds or removes the image of a template. */
struct image_op {
	struct op op;
	char name[TEMPLATE_NAME_MAX + 1];
	template_removed_fn removed;
	void *arg;
};

static void on_step(void *arg, const struct engine_progress *progress)
{
	struct image_op *making = arg;
	struct build *build =
		making->op.service ? find(making->op.service, str_of(making->name)) : NULL;

	if (build)
		(void)snprintf(build->step, sizeof(build->step), "%s", progress->step);
}

static void on_built(void *arg, const struct err *err)
{
	struct image_op *making = arg;
	struct build *build =
		making->op.service ? find(making->op.service, str_of(making->name)) : NULL;

	if (build) {
		build->state = err ? BUILD_FAILED : BUILD_READY;
		build->finished_ms = time_real_ms();
		if (err)
			(void)snprintf(build->error, sizeof(build->error), "%.255s", err->message);
		if (err)
			log_warn("build of %s failed: %s", build->name, err->message);
		else
			log_info("build of %s is complete", build->name);
	}
	(void)op_end(&making->op);
}

/* The first engine that prepares images from recipes. */
static struct service_engine *builder(struct service *service, struct err *err)
{
	for (size_t i = 0; i < service->engine_count; i++)
		if (instance_can(&service->engines[i].instance, CAN_IMAGE))
			return &service->engines[i];
	(void)err_set(err, ERR_UNSUPPORTED, "no enabled engine can build templates");
	return NULL;
}

/* Refers to the current version of the name. */
static struct engine_image_ref image_named(const char *name)
{
	struct engine_image_ref image = { .kind = ENGINE_IMAGE_TEMPLATE };

	(void)!str_copy(image.name, sizeof(image.name), str_of(name));
	return image;
}

static int open_log(const struct service *service, const char *name, int *ret_fd, struct err *err)
{
	char path[4096];
	int r = log_path(service, name, path, sizeof(path));

	if (r == 0)
		r = make_log_dir(service);
	if (r == 0) {
		*ret_fd =
			open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_APPEND,
			     0640);
		r = *ret_fd < 0 ? -errno : 0;
	}
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot open the build's log") : 0;
}

static int run(struct service *service, struct service_engine *engine, struct build *build,
	       struct err *err)
{
	struct engine_image_ref image = image_named(build->name);
	struct engine_image_watch watch = { .on_progress = on_step, .done = on_built };
	_cleanup_close_ int fd = -1;
	struct image_op *making;

	if (open_log(service, build->name, &fd, err) < 0)
		return -1;
	making = OP_NEW(struct image_op, service, 0, err);
	if (!making)
		return -1;
	(void)snprintf(making->name, sizeof(making->name), "%s", build->name);
	watch.log_fd = fd;
	watch.arg = making;
	if (instance_image_prepare(&engine->instance, &image, &watch, err) < 0) {
		(void)op_end(&making->op);
		return -1;
	}
	return 0;
}

int build_check(struct service *service, struct str name, struct err *err)
{
	char text[TEMPLATE_NAME_MAX + 1];
	struct service_engine *engine;
	struct engine_image_ref image;

	if (!bounds_template_name(name) || str_copy(text, sizeof(text), name) < 0)
		return err_set(err, ERR_INVALID_REQUEST,
			       "a template's name is 1-%d characters of [a-z0-9._-], the first a "
			       "letter or digit",
			       TEMPLATE_NAME_MAX);
	engine = builder(service, NULL);
	image = image_named(text);
	return engine ? instance_image_check(&engine->instance, &image, err) : 0;
}

int build_start(struct service *service, struct str name, const struct build **ret, struct err *err)
{
	struct service_engine *engine = builder(service, err);
	struct build *build;
	int place;

	if (!engine || build_check(service, name, err) < 0)
		return -1;
	if (template_removing(service, name))
		return err_set(err, ERR_CONFLICT, "template '%.*s' is being removed", (int)name.n,
			       name.p);
	build = find(service, name);
	if (build && build->state == BUILD_RUNNING)
		return err_set(err, ERR_CONFLICT, "template '%s' is being built", build->name);
	if (!build) {
		place = find_place(service);
		build = place >= 0 ? calloc(1, sizeof(*build)) : NULL;
		if (!build)
			return err_set(err, ERR_CAPACITY_EXCEEDED, "too many builds are running");
		service->templates->builds[place] = build;
	}
	*build = (struct build){ .state = BUILD_RUNNING, .started_ms = time_real_ms() };
	(void)!str_copy(build->name, sizeof(build->name), name);
	rand_label(build->id, sizeof(build->id) - 1);
	if (run(service, engine, build, err) < 0) {
		build->state = BUILD_FAILED;
		build->finished_ms = time_real_ms();
		(void)snprintf(build->error, sizeof(build->error), "%.255s", err->message);
		return -1;
	}
	*ret = build;
	return 0;
}

/* ---- removal ---- */

/* Finds users of the template in this daemon. The builder checks the other daemons of the host. */
static int check_users(struct service *service, const struct key *key, const char *name,
		       struct err *err)
{
	char users[200] = "";
	size_t n = 0, shown = 0, others = 0;
	struct sandbox *sandbox;
	uint32_t cursor = 0;

	while ((sandbox = sandbox_next(service, &cursor))) {
		if (sandbox->pooled || sandbox_state(sandbox) == SANDBOX_DESTROYED ||
		    strcmp(sandbox->template->name, name) != 0)
			continue;
		if (shown < 4 && (key_is_admin(key) || strcmp(sandbox->attrs.owner, key->id) == 0))
			n += (size_t)snprintf(users + n, sizeof(users) - n, "%ssandbox %s",
					      shown++ ? ", " : "", sandbox->id);
		else
			others++;
	}
	for (struct snapshot *s = snapshot_oldest(service); s; s = s->next) {
		if (strcmp(s->template->name, name) != 0)
			continue;
		if (shown < 6 && (key_is_admin(key) || strcmp(s->owner, key->id) == 0))
			n += (size_t)snprintf(users + n, sizeof(users) - n, "%ssnapshot %s",
					      shown++ ? ", " : "", s->id);
		else
			others++;
	}
	if (!shown && !others)
		return 0;
	if (others)
		(void)snprintf(users + n, sizeof(users) - n, "%s%zu %s", shown ? " and " : "",
			       others, shown ? "more" : "sandboxes or snapshots");
	return err_set(err, ERR_CONFLICT, "template '%s' is in use: %s", name, users);
}

static void on_removed(void *arg, const struct err *error)
{
	struct image_op removal = *(struct image_op *)arg;
	struct service *service = op_end(arg);
	const char *name = removal.name;
	struct err err;

	if (!service)
		return;
	template_set_removing(service, str_of(name), false);
	if (error) {
		(void)err_set(&err, error->code, "template '%s' was not removed: %.250s", name,
			      error->message);
		log_warn("%s", err.message);
	} else {
		log_info("template %s was removed", name);
	}
	removal.removed(removal.arg, error ? &err : NULL);
}

int template_remove(struct service *service, const struct key *key, struct str name,
		    template_removed_fn done, void *arg, struct err *err)
{
	struct template *tpl = template_find(service, name, err);
	struct service_engine *engine = tpl ? builder(service, err) : NULL;
	const struct build *build = tpl ? find(service, name) : NULL;
	struct engine_image_watch watch = { .done = on_removed };
	struct engine_image_ref image;
	_cleanup_close_ int fd = -1;
	struct image_op *removal;

	if (!engine)
		return -1;
	if (build && build->state == BUILD_RUNNING)
		return err_set(err, ERR_CONFLICT, "template '%s' is being built", tpl->name);
	if (check_users(service, key, tpl->name, err) < 0 ||
	    open_log(service, tpl->name, &fd, err) < 0)
		return -1;
	removal = OP_NEW(struct image_op, service, 0, err);
	if (!removal)
		return -1;
	removal->removed = done;
	removal->arg = arg;
	(void)snprintf(removal->name, sizeof(removal->name), "%s", tpl->name);
	template_set_removing(service, name, true);
	pool_drop_template(service, tpl->name);
	image = image_named(tpl->name);
	watch.log_fd = fd;
	watch.arg = removal;
	if (instance_image_remove(&engine->instance, &image, &watch, err) == 0)
		return 0;
	(void)op_end(&removal->op);
	template_set_removing(service, name, false);
	return -1;
}

int build_log(struct service *service, const struct build *build, int64_t *cursor, char *dst,
	      size_t size, size_t *ret_n)
{
	char path[4096];
	_cleanup_close_ int fd = -1;
	int64_t from = *cursor;
	struct stat st;
	ssize_t n;
	int r = log_path(service, build->name, path, sizeof(path));

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (from < 0)
		from = MAX(0, st.st_size - (int64_t)size);
	n = pread(fd, dst, size, from);
	if (n < 0)
		return -errno;
	*cursor = from + n;
	*ret_n = (size_t)n;
	return 0;
}

void build_done_all(struct service *service)
{
	for (size_t i = 0; i < BUILDS_MAX; i++)
		free(service->templates->builds[i]);
}
