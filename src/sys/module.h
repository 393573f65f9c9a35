/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel modules. A distribution's kernel has most of what the warden uses as modules. The kernel
 * loads many by itself on first use, but not all, and not from within a container.
 */
#ifndef CAY_SYS_MODULE_H
#define CAY_SYS_MODULE_H

#include "base/macro.h"

/* A file system type that the running kernel knows by now. */
bool module_has_filesystem(const char *name);
/*
 * Loads these with modprobe, in one run, and waits for it. -ENOENT: this kernel has no modules, or
 * there is no modprobe. -EIO: it failed for one of them, maybe because that is built in; the caller
 * finds out by using it.
 */
int module_load(const char *const *names, size_t count) _must_check_;

#endif
