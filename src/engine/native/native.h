/* SPDX-License-Identifier: Apache-2.0 */
/* What only the native engine has: template builds, done by the warden on the host. */
#ifndef CAY_ENGINE_NATIVE_NATIVE_H
#define CAY_ENGINE_NATIVE_NATIVE_H

#include "engine/driver.h"

/*
 * Starts the template builder, or with remove has it remove the template; its output goes to log_fd
 * (kept by the caller). done gets a descriptor (made->watch_fd) that is readable once the builder
 * has ended; its success shows in the template directory.
 */
int native_build(struct engine *engine, const char *name, bool remove, int log_fd,
		 engine_made_fn done, void *arg, struct err *err);

#endif
