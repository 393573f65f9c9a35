/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel modules. Distribution kernels have most features that the warden uses as modules. The
 * kernel loads many of them on first use, but not all, and none from within a container.
 */
#ifndef CAY_SYS_MODULE_H
#define CAY_SYS_MODULE_H

#include "base/macro.h"

/* Whether the running kernel has this file system type now. */
bool module_has_filesystem(const char *name);
/*
 * Loads the modules with one run of modprobe and waits for it. -ENOENT: this kernel has no modules,
 * or modprobe is missing. -EIO: modprobe failed for one of them, possibly because it is built in;
 * the caller finds out by using it.
 */
int module_load(const char *const *names, size_t count) _must_check_;

#endif
