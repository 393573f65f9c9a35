/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon/unit.h"

#include <stdio.h>

#include "cli/doctor/doctor.h"

/* One line per hierarchy of version 1; the rest is ignored. */
#define CGROUP_TEXT_MAX 8192

static const char *const units[] = { "cayd.service", "cay-warden.service" };

const char *unit_in(struct str text)
{
	size_t from = 0;

	/*
	 * Checks each component of each path; the hierarchy's number and name end with a colon
	 * before it.
	 */
	for (size_t i = 0; i <= text.n; i++) {
		struct str part;

		if (i < text.n && text.p[i] != '/' && text.p[i] != '\n')
			continue;
		part = (struct str){ text.p + from, i - from };
		from = i + 1;
		for (size_t k = 0; k < ARRAY_LEN(units); k++)
			if (str_is(part, units[k]))
				return units[k];
	}
	return NULL;
}

const char *unit_of(pid_t pid)
{
	char path[64], text[CGROUP_TEXT_MAX];

	(void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	return doctor_read(path, text, sizeof(text)) < 0 ? NULL : unit_in(str_of(text));
}
