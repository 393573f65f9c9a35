/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel features that Linux 6.1, the oldest supported kernel, lacks. Each has a row: what it is,
 * since which kernel, its fallback and the cost of that. A feature is probed once, by using it on a
 * file system mounted for the purpose, and the result is kept. Tests disable features, so that
 * every fallback also runs on a kernel that does not need it (docs/decisions/023).
 *
 * Called by the warden at its start, while the host's /proc and /sys are reachable, and by 'cay
 * doctor'. One thread.
 */
#ifndef CAY_SYS_PROBE_H
#define CAY_SYS_PROBE_H

#include "base/macro.h"

#define PROBE_KERNEL_MIN 6001 /* major * 1000 + minor */

enum probe_feature {
	PROBE_OVERLAY_FD,
	PROBE_DETACHED_COPY,
	PROBE_DETACHED_TARGET,
	PROBE_EXACT_TIMES,
	PROBE_SIMPLE_QUOTA,
	PROBE_TIME_AT_EXEC,
	PROBE_COUNT
};

enum probe_state {
	PROBE_UNKNOWN, /* not probed yet, or not permitted to probe */
	PROBE_PRESENT,
	PROBE_MISSING,
	PROBE_DISABLED, /* by probe_disable() */
};

struct probe_row {
	const char *name;    /* for --without and CAY_WITHOUT */
	unsigned since;	     /* major * 1000 + minor */
	const char *what;    /* what it provides */
	const char *instead; /* fallback */
	const char *cost;    /* cost of the fallback */
};
extern const struct probe_row probe_rows[PROBE_COUNT];

/*
 * Disables features: names separated by commas, or "all"; NULL and "" disable none. -EINVAL and the
 * first unknown name if one does not exist; then nothing is disabled.
 */
int probe_disable(const char *list, char *ret_unknown, size_t size) _must_check_;
/* All names, separated by commas. */
void probe_names(char *dst, size_t size);

/* Probes all features that were not probed yet; needs CAP_SYS_ADMIN. */
void probe_all(void);
enum probe_state probe_state(enum probe_feature feature);
/* Whether to use the feature. Probes it first if necessary. */
bool probe_has(enum probe_feature feature);

/* Whether consecutive changes of this directory have different times. */
bool probe_times_exact(int dir_fd);

#endif
