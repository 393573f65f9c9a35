/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's version and its optional features, as the warden finds them at its start. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "cli/doctor/doctor.h"
#include "sys/probe.h"

#define GROUP "Kernel"

static void check_version(struct doctor *d)
{
	struct utsname u;
	unsigned major = 0, minor = 0;
	struct check *c;

	if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return;
	d->kernel = major * 1000 + minor;
	c = doctor_add(d, GROUP, d->kernel < PROBE_KERNEL_MIN ? CHECK_FAIL : CHECK_OK, "version",
		       "Linux %s", u.release);
	if (d->kernel < PROBE_KERNEL_MIN)
		doctor_next(c, "The native engine needs Linux 6.1 or newer. Debian 12, Ubuntu "
			       "24.04 and Debian 13 have one.");
}

/* A fallback does the same work, so it does not deserve a warning. */
static void check_feature(struct doctor *d, enum probe_feature feature)
{
	const struct probe_row *row = &probe_rows[feature];
	enum probe_state state = probe_state(feature);

	if (state == PROBE_PRESENT)
		(void)doctor_add(d, GROUP, CHECK_OK, row->name, "present: %s", row->what);
	else if (state == PROBE_UNKNOWN)
		(void)doctor_add(d, GROUP, CHECK_OK, row->name,
				 "%s, from Linux %u.%u on: not checked, because %s", row->what,
				 row->since / 1000, row->since % 1000,
				 geteuid() != 0 ? "only root can try it"
						: "its module is not loaded");
	else
		(void)doctor_add(d, GROUP, CHECK_OK, row->name, "%s; fallback: %s; cost: %s",
				 state == PROBE_DISABLED ? "disabled" : "missing", row->instead,
				 row->cost);
}

void doctor_features(struct doctor *d)
{
	char unknown[80], names[256];
	struct check *c;

	check_version(d);
	if (probe_disable(getenv("CAY_WITHOUT"), unknown, sizeof(unknown)) < 0) {
		c = doctor_add(d, GROUP, CHECK_FAIL, "CAY_WITHOUT", "no kernel feature is '%s'",
			       unknown);
		probe_names(names, sizeof(names));
		doctor_next(c, "The warden does not start with it. There are: %s, all.", names);
	}
	probe_all();
	for (int i = 0; i < PROBE_COUNT; i++)
		check_feature(d, (enum probe_feature)i);
}
