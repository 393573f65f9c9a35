/* SPDX-License-Identifier: Apache-2.0 */
/* Images that are only names: preparing one reports two steps and writes them to the log. */
#include <fcntl.h>
#include <stdio.h>

#include "engine/fake/state.h"

static const char *const steps[] = { "first step", "second step" };

static int image_check(struct engine *engine, const struct engine_image_ref *image, struct err *err)
{
	(void)engine;
	if (str_starts(str_of(image->name), "unknown"))
		return err_set(err, ERR_TEMPLATE_NOT_FOUND, "no recipe for a template '%s'",
			       image->name);
	return 0;
}

static int image_have(struct engine *engine, const struct engine_image_ref *image,
		      engine_have_fn done, void *arg, struct err *err)
{
	struct fake_call *call = fake_call_new(engine, FAKE_IMAGE_HAVE, "", arg, err);

	if (!call)
		return -1;
	call->image = *image;
	call->fn.have = done;
	return fake_call_start(call, err);
}

void fake_image_complete_have(struct fake_call *call, struct err *err)
{
	call->fn.have(call->arg, !err->code && call->engine->images, err->code ? err : NULL);
}

static int start(struct engine *engine, enum fake_op op, const struct engine_image_ref *image,
		 const struct engine_image_watch *watch, struct err *err)
{
	struct fake_call *call = fake_call_new(engine, op, "", watch->arg, err);

	if (!call)
		return -1;
	call->image = *image;
	call->watch = *watch;
	if (watch->log_fd >= 0)
		call->watch.log_fd = fcntl(watch->log_fd, F_DUPFD_CLOEXEC, 3);
	return fake_call_start(call, err);
}

static int image_prepare(struct engine *engine, const struct engine_image_ref *image,
			 const struct engine_image_watch *watch, struct err *err)
{
	if (image_check(engine, image, err) < 0)
		return -1;
	return start(engine, FAKE_IMAGE_PREPARE, image, watch, err);
}

static int image_remove(struct engine *engine, const struct engine_image_ref *image,
			const struct engine_image_watch *watch, struct err *err)
{
	return start(engine, FAKE_IMAGE_REMOVE, image, watch, err);
}

void fake_image_complete(struct fake_call *call, struct err *err)
{
	const struct engine_image_watch *watch = &call->watch;

	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct engine_progress progress = { steps[i] };

		if (watch->on_progress)
			watch->on_progress(watch->arg, &progress);
		if (watch->log_fd >= 0 && dprintf(watch->log_fd, "==> %s\n", steps[i]) < 0)
			abort();
	}
	if (watch->log_fd >= 0)
		(void)close(watch->log_fd);
	if (!err->code)
		call->engine->images |= call->op == FAKE_IMAGE_PREPARE;
	watch->done(watch->arg, err->code ? err : NULL);
}

const struct engine_image fake_image = {
	.check = image_check,
	.have = image_have,
	.prepare = image_prepare,
	.remove = image_remove,
};
