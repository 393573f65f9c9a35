/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the kernel, its file systems and its limits. They change nothing. */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include "base/str.h"

#define GROUP_KERNEL "Kernel"
#define GROUP_LIMITS "Limits"

#define MEMORY_LEAST_MIB 400 /* a machine of 512 MB shows about 450 */
#define MEMORY_USUAL_MIB 1536
#define CAP_SYS_ADMIN_BIT 21
#define CAP_SYS_RESOURCE_BIT 24

static bool has_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = strstr(text, word); p != NULL; p = strstr(p + 1, word))
		if ((p == text || p[-1] == ' ' || p[-1] == ',') &&
		    (p[n] == '\0' || p[n] == ' ' || p[n] == ',' || p[n] == '\n'))
			return true;
	return false;
}

/* Reads the available controllers of v2 and v1. */
static void read_cgroups(char v2[256], char v1[512], char v2_path[PATH_MAX])
{
	FILE *mounts = fopen("/proc/self/mounts", "re");
	char line[1024], where[512], type[32], options[256], path[PATH_MAX];

	v1[0] = v2[0] = v2_path[0] = '\0';
	while (mounts != NULL && fgets(line, sizeof(line), mounts) != NULL) {
		if (sscanf(line, "%*s %511s %31s %255s", where, type, options) != 3)
			continue;
		if (strcmp(type, "cgroup2") == 0) {
			(void)snprintf(v2_path, PATH_MAX, "%s", where);
			(void)snprintf(path, sizeof(path), "%s/cgroup.controllers", where);
			if (doctor_read(path, v2, 256) < 0)
				v2[0] = '\0';
		} else if (strcmp(type, "cgroup") == 0) {
			size_t n = strlen(v1);

			(void)snprintf(v1 + n, 512 - n, "%s,", options);
		}
	}
	if (mounts != NULL)
		(void)fclose(mounts);
}

static void check_cgroups(struct doctor *d)
{
	static const char *const needed[] = { "memory", "cpu", "pids" };
	char v2[256], v1[512], v2_path[PATH_MAX];
	struct check *c;

	read_cgroups(v2, v1, v2_path);
	for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
		bool on_v2 = has_word(v2, needed[i]), on_v1 = has_word(v1, needed[i]);
		char name[40];

		(void)snprintf(name, sizeof(name), "cgroup %s", needed[i]);
		c = doctor_add(d, GROUP_KERNEL, on_v2 || on_v1 ? CHECK_OK : CHECK_FAIL, name, "%s",
			       on_v2   ? "version 2"
			       : on_v1 ? "version 1"
				       : "no such controller");
		if (!on_v2 && !on_v1)
			doctor_next(c,
				    "Without it %s cannot be limited: mount cgroup v2 on "
				    "/sys/fs/cgroup, "
				    "or boot with cgroup_enable=%s.",
				    needed[i], needed[i]);
	}
	c = doctor_add(d, GROUP_KERNEL, v2_path[0] != '\0' ? CHECK_OK : CHECK_WARN, "cgroup kill",
		       "%s", v2_path[0] != '\0' ? v2_path : "no version 2 hierarchy");
	if (v2_path[0] == '\0')
		doctor_next(
			c, "Killing a whole sandbox at once needs cgroup v2: mount -t cgroup2 none "
			   "/sys/fs/cgroup/unified");
}

static void check_namespaces(struct doctor *d)
{
	static const char *const kinds[] = { "user", "pid", "mnt",    "net",
					     "uts",  "ipc", "cgroup", "time" };
	char path[64], value[32], missing[128] = "";
	struct check *c;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
		if (access(path, F_OK) < 0) {
			size_t n = strlen(missing);

			(void)snprintf(missing + n, sizeof(missing) - n, " %s", kinds[i]);
		}
	}
	c = doctor_add(d, GROUP_KERNEL, missing[0] != '\0' ? CHECK_FAIL : CHECK_OK, "namespaces",
		       "%s%s", missing[0] != '\0' ? "missing:" : "all eight kinds", missing);
	if (missing[0] != '\0')
		doctor_next(c, "Run a kernel built with these namespaces.");
	if (doctor_read("/proc/sys/user/max_user_namespaces", value, sizeof(value)) < 0)
		(void)snprintf(value, sizeof(value), "0");
	c = doctor_add(d, GROUP_KERNEL, strcmp(value, "0") == 0 ? CHECK_FAIL : CHECK_OK,
		       "user namespaces", "at most %s", value);
	if (strcmp(value, "0") == 0)
		doctor_next(c, "sysctl -w user.max_user_namespaces=65536");
}

/* Overlay layers are idmapped: which file systems support that, and since which kernel. */
static void check_idmap(struct doctor *d)
{
	static const struct {
		unsigned long magic;
		const char *name;
		unsigned since;
	} able[] = {
		{ 0xef53, "ext4", 5012 },      { 0x58465342, "xfs", 5012 },
		{ 0x9123683e, "btrfs", 5015 }, { 0x01021994, "tmpfs", 6003 },
		{ 0xf2f52010, "f2fs", 5018 },  { 0x2fc12fc1, "zfs", 6000 },
	};
	const char *where = access(d->state, F_OK) == 0 ? d->state : "/var/lib";
	struct statfs fs;
	struct check *c;

	if (statfs(where, &fs) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(able); i++) {
		if ((unsigned long)fs.f_type != able[i].magic)
			continue;
		c = doctor_add(d, GROUP_KERNEL, d->kernel >= able[i].since ? CHECK_OK : CHECK_WARN,
			       "idmapped mounts", "%s on %s", able[i].name, where);
		if (c->level != CHECK_OK)
			doctor_next(
				c,
				"%s can be idmapped from Linux %u.%u on: update, or move the state "
				"directory.",
				able[i].name, able[i].since / 1000, able[i].since % 1000);
		return;
	}
	c = doctor_add(d, GROUP_KERNEL, CHECK_WARN, "idmapped mounts", "unknown for %s (type %lx)",
		       where, (unsigned long)fs.f_type);
	doctor_next(c, "Put the state directory on ext4, xfs or btrfs: those are known to work.");
}

void doctor_kernel(struct doctor *d)
{
	doctor_features(d);
	check_namespaces(d);
	check_cgroups(d);
	check_idmap(d);
}

static uint64_t effective_caps(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	unsigned long long caps = 0;
	char line[256];

	while (status != NULL && fgets(line, sizeof(line), status) != NULL)
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	if (status != NULL)
		(void)fclose(status);
	return caps;
}

static void check_rights(struct doctor *d)
{
	uint64_t caps = effective_caps();
	bool admin = caps >> CAP_SYS_ADMIN_BIT & 1, resource = caps >> CAP_SYS_RESOURCE_BIT & 1;
	struct check *c;

	c = doctor_add(
		d, GROUP_LIMITS, geteuid() == 0 && !admin ? CHECK_FAIL : CHECK_OK, "rights", "%s",
		geteuid() != 0
			? "not root: 'sudo cay up', or 'cay up --engine-local' without isolation"
		: admin ? "root with CAP_SYS_ADMIN"
			: "root without CAP_SYS_ADMIN");
	if (c->level != CHECK_OK)
		doctor_next(
			c,
			"This root user cannot mount or create namespaces: leave the container, or "
			"give it "
			"the capability.");
	if (geteuid() != 0)
		return;
	c = doctor_add(d, GROUP_LIMITS, resource ? CHECK_OK : CHECK_WARN, "CAP_SYS_RESOURCE", "%s",
		       resource ? "there" : "missing");
	if (!resource)
		doctor_next(c, "Hard limits (open files, below) cannot be raised from here.");
}

/* By default each sandbox may use up to 1 GiB. All together are limited by sys/cgroup/cgroup.c. */
static void check_memory(struct doctor *d)
{
	struct sysinfo info;
	uint64_t mib;
	struct check *c;

	if (sysinfo(&info) < 0)
		return;
	mib = (uint64_t)info.totalram * info.mem_unit >> 20;
	c = doctor_add(d, GROUP_LIMITS, mib < MEMORY_USUAL_MIB ? CHECK_WARN : CHECK_OK, "memory",
		       "%llu MiB", (unsigned long long)mib);
	if (mib < MEMORY_LEAST_MIB)
		doctor_next(c, "Too little: cay is tested with at least 512 MB.");
	else if (mib < MEMORY_USUAL_MIB)
		doctor_next(c,
			    "All sandboxes together may use %llu MiB, and each may use 1 GiB by "
			    "default: create them with a smaller --memory, and set pool_min = 0 "
			    "(docs/reference/config.md).",
			    (unsigned long long)(mib - MIN(MAX(mib * 8 / 100, 128), mib / 4)));
}

void doctor_limits(struct doctor *d)
{
	uint64_t pid_max, instances;
	struct rlimit files;
	struct check *c;

	check_rights(d);
	check_memory(d);
	if (doctor_number("/proc/sys/kernel/pid_max", &pid_max) < 0)
		return;
	c = doctor_add(d, GROUP_LIMITS, pid_max < 131072 ? CHECK_WARN : CHECK_OK, "kernel.pid_max",
		       "%llu", (unsigned long long)pid_max);
	if (pid_max < 131072)
		doctor_next(c,
			    "All sandboxes together can have that many processes (about %llu "
			    "sandboxes of "
			    "32): sysctl -w kernel.pid_max=4194304",
			    (unsigned long long)(pid_max > 2000 ? (pid_max - 2000) / 32 : 0));
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		c = doctor_add(d, GROUP_LIMITS, files.rlim_max < 65536 ? CHECK_WARN : CHECK_OK,
			       "open files", "%llu", (unsigned long long)files.rlim_max);
		if (files.rlim_max < 65536)
			doctor_next(
				c,
				"Enough for about %llu sandboxes; raise the hard limit (ulimit -Hn "
				"1048576, LimitNOFILE= in a unit).",
				(unsigned long long)(files.rlim_max / 8));
	}
	if (doctor_number("/proc/sys/fs/inotify/max_user_instances", &instances) == 0) {
		c = doctor_add(d, GROUP_LIMITS, instances < 1024 ? CHECK_WARN : CHECK_OK, "inotify",
			       "%llu instances per user", (unsigned long long)instances);
		if (instances < 1024)
			doctor_next(c, "Watching files uses one each: sysctl -w "
				       "fs.inotify.max_user_instances=8192");
	}
}
