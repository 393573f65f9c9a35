/* SPDX-License-Identifier: Apache-2.0 */
/* Hardening settings that a host of untrusted code should have. None is required for sandboxes. */
#include "cli/doctor/doctor.h"

#include <stdio.h>
#include <string.h>

#define GROUP "Hardening of the host"

static const struct {
	const char *name;
	uint64_t least, most; /* range of acceptable values */
	uint64_t set;	      /* recommended value */
	const char *why;
} wanted[] = {
	{ "kernel.kptr_restrict", 1, 2, 2, "hides kernel addresses" },
	{ "fs.protected_symlinks", 1, 1, 1, "no following of planted links in /tmp" },
	{ "fs.protected_hardlinks", 1, 1, 1, "no hard links to others' files" },
	{ "fs.protected_fifos", 1, 2, 2, "no planted pipes in /tmp" },
	{ "fs.protected_regular", 1, 2, 2, "no planted files in /tmp" },
	{ "kernel.unprivileged_bpf_disabled", 1, 2, 2, "BPF for root only" },
	{ "kernel.io_uring_disabled", 1, 2, 2, "io_uring off, unless the host needs it" },
	{ "kernel.perf_event_paranoid", 3, 4, 3, "perf for root only" },
	{ "kernel.dmesg_restrict", 1, 1, 1, "the kernel's log for root only" },
	{ "net.ipv4.conf.all.rp_filter", 1, 1, 1, "drops forged source addresses" },
	{ "net.ipv4.conf.all.accept_redirects", 0, 0, 0, "ignores redirects" },
	{ "net.ipv4.conf.all.send_redirects", 0, 0, 0, "sends no redirects" },
	{ "net.ipv4.conf.all.route_localnet", 0, 0, 0, "127/8 stays on the host" },
	{ "net.ipv6.conf.all.accept_redirects", 0, 0, 0, "ignores redirects" },
};

/* "net.ipv4.conf.all.rp_filter" is shown as "ipv4 rp_filter"; the advice has the whole name. */
static void label(char *dst, size_t size, const char *name)
{
	const char *last = strrchr(name, '.') + 1;
	bool net = strncmp(name, "net.", 4) == 0;

	(void)snprintf(dst, size, "%.*s%s", net ? 5 : 0, net ? "ipv4 " : "", last);
	if (strncmp(name, "net.ipv6", 8) == 0)
		dst[3] = '6';
}

/* All acceptable sysctls share one line, because people look for the others. */
static void check_table(struct doctor *d)
{
	size_t fine = 0;

	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		char path[128] = "/proc/sys/", name[40];
		size_t n = strlen(path);
		uint64_t value;
		struct check *c;

		for (const char *p = wanted[i].name; *p != '\0' && n + 1 < sizeof(path); p++)
			path[n++] = *p == '.' ? '/' : *p;
		path[n] = '\0';
		if (doctor_number(path, &value) < 0)
			continue; /* this kernel does not have it */
		if (value >= wanted[i].least && value <= wanted[i].most) {
			fine++;
			continue;
		}
		label(name, sizeof(name), wanted[i].name);
		c = doctor_add(d, GROUP, CHECK_WARN, name, "%llu", (unsigned long long)value);
		doctor_next(c, "sysctl -w %s=%llu  (%s)", wanted[i].name,
			    (unsigned long long)wanted[i].set, wanted[i].why);
	}
	(void)doctor_add(d, GROUP, CHECK_OK, "sysctls", "%zu as they should be", fine);
}

static void check_swap(struct doctor *d)
{
	char text[1024];
	bool swap =
		doctor_read("/proc/swaps", text, sizeof(text)) == 0 && strchr(text, '\n') != NULL;
	struct check *c = doctor_add(d, GROUP, swap ? CHECK_WARN : CHECK_OK, "swap", "%s",
				     swap ? "on" : "off");

	if (swap)
		doctor_next(c, "What sandboxes hold in memory may reach the disk: swapoff -a, or "
			       "encrypt the "
			       "swap.");
}

void doctor_sysctls(struct doctor *d)
{
	char text[256];
	struct check *c;
	uint64_t value;

	check_table(d);
	if (doctor_read("/proc/sys/kernel/core_pattern", text, sizeof(text)) == 0) {
		c = doctor_add(d, GROUP, text[0] == '|' ? CHECK_WARN : CHECK_OK, "core_pattern",
			       "%.100s", text);
		if (text[0] == '|')
			doctor_next(c, "A root program of the host reads what crashes in "
				       "sandboxes: sysctl -w "
				       "kernel.core_pattern=core");
	}
	if (doctor_number("/sys/kernel/mm/ksm/run", &value) == 0) {
		c = doctor_add(d, GROUP, value == 1 ? CHECK_WARN : CHECK_OK, "memory merging", "%s",
			       value == 1 ? "on" : "off");
		if (value == 1)
			doctor_next(c, "Merged pages tell one sandbox about another: echo 0 > "
				       "/sys/kernel/mm/ksm/run");
	}
	if (doctor_number("/sys/devices/system/cpu/smt/active", &value) == 0) {
		c = doctor_add(d, GROUP, value == 1 ? CHECK_WARN : CHECK_OK, "SMT", "%s",
			       value == 1 ? "on" : "off");
		if (value == 1)
			doctor_next(c, "For tenants hostile to each other: echo off > "
				       "/sys/devices/system/cpu/smt/control");
	}
	check_swap(d);
}
