/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points where the warden can be made to fail, and controls that can be left out: for tests only.
 */
#include "base/fault.h"

#include "warden/warden.h"

#ifdef CAY_FAULTS

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"

/*
 * "NAME": the warden and its job die here; "-NAME": only the job does. Or by number: base/fault.h.
 */
void fault_point(const struct warden *w, const char *name)
{
	const char *want = getenv("CAY_WARDEN_FAULT");

	if (fault_due())
		want = name;
	if (!want || strcmp(*want == '-' ? want + 1 : want, name) != 0)
		return;
	if (*want != '-')
		(void)kill(w->pid, SIGKILL);
	(void)kill(getpid(), SIGKILL);
}

unsigned fault_controls_off(void)
{
	/* in the order of enum control */
	static const char *const names[] = { "seccomp", "caps",	  "userns",   "procmask",
					     "devices", "pids",	  "memory",   "cpu",
					     "disk",	"netns",  "idmap",    "sockets",
					     "ptsmax",	"nodev",  "cgroupns", "oomscore",
					     "egress",	"covers", "inodes" };
	const char *list = getenv("CAY_WARDEN_DISABLE");
	unsigned off = 0;

	for (size_t i = 0; list && i < ARRAY_LEN(names); i++)
		if (strstr(list, names[i]))
			off |= 1U << i;
	if (off)
		log_warn("TEST BUILD: controls switched off: %s", list);
	return off;
}

#else

void fault_point(const struct warden *w, const char *name)
{
	(void)w;
	(void)name;
}

unsigned fault_controls_off(void)
{
	return 0;
}

#endif
