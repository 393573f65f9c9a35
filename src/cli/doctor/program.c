/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the versions of installed programs against published vulnerabilities. */
#include "cli/doctor/doctor.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/time.h"

#define CRIU_DIR "/var/lib/cay/criu" /* where cay-criu installs it */
#define GROUP "Programs"
#define ANSWER_MS 3000

#define V(a, b, c) ((uint64_t)(a) << 40 | (uint64_t)(b) << 32 | (uint64_t)(c))

uint64_t doctor_version(const char *text)
{
	unsigned long parts[3] = { 0, 0, 0 };

	while (*text != '\0' && !(isdigit((unsigned char)*text) && strchr(text, '.') != NULL))
		text++;
	for (size_t i = 0; i < 3 && isdigit((unsigned char)*text); i++) {
		char *end;

		parts[i] = strtoul(text, &end, 10);
		text = *end == '.' || *end == '-' ? end + 1 : end;
	}
	if (parts[0] > 0xffff || parts[1] > 0xff || parts[2] > 0xffffffff)
		return 0;
	return V(parts[0], parts[1], parts[2]);
}

/*
 * A version at or above `from` and below `fixed` lacks the fix. One row per branch with a fix; the
 * first row of a program covers all older versions.
 */
static const struct {
	const char *program;
	uint64_t from, fixed;
	const char *say;
} known_bad[] = {
	{ "runc", 0, V(1, 2, 0),
	  "lacks CVE-2025-31133, -52565, -52881, CVE-2026-41579 (1.3.6, 1.4.3)" },
	{ "runc", V(1, 2, 0), V(1, 2, 8), "lacks CVE-2025-31133, -52565, -52881 (1.2.8)" },
	{ "runc", V(1, 2, 8), V(1, 3, 0), "lacks CVE-2026-41579 (1.3.6, 1.4.3)" },
	{ "runc", V(1, 3, 0), V(1, 3, 6), "lacks CVE-2026-41579 (1.3.6)" },
	{ "runc", V(1, 4, 0), V(1, 4, 3), "lacks CVE-2026-41579 (1.4.3)" },
	{ "crun", 0, V(1, 27, 0), "lacks CVE-2026-30892 (1.27), CVE-2026-47766 (1.28)" },
	{ "crun", V(1, 27, 0), V(1, 28, 0), "lacks CVE-2026-47766 (1.28)" },
	{ "containerd", 0, V(1, 7, 33), "lacks the fixes of 2026 (1.7.33, 2.2.5, 2.3.2)" },
	{ "containerd", V(2, 0, 0), V(2, 0, 10), "lacks the fixes of 2026 (2.0.10)" },
	{ "containerd", V(2, 1, 0), V(2, 1, 9), "lacks the fixes of 2026 (2.1.9)" },
	{ "containerd", V(2, 2, 0), V(2, 2, 5), "lacks the fixes of 2026 (2.2.5)" },
	{ "containerd", V(2, 3, 0), V(2, 3, 2), "lacks the fixes of 2026 (2.3.2)" },
	{ "dockerd", 0, V(29, 4, 3),
	  "lacks CVE-2026-42306 and the newer seccomp profile (29.4.3)" },
	{ "docker", 0, V(29, 4, 3), "is a client older than the newest fixes (29.4.3)" },
};

const char *doctor_known_bad(const char *program, uint64_t version, unsigned kernel)
{
	if (strcmp(program, "criu") == 0 && version < V(4, 0, 0))
		return kernel >= 6013
			       ? "does not work on kernels from 6.13 on (the layout of the vDSO); "
				 "memory checkpoints need criu 4"
			       : "is older than 4; memory checkpoints are tested with criu 4";
	for (size_t i = 0; i < ARRAY_LEN(known_bad); i++)
		if (strcmp(known_bad[i].program, program) == 0 && version >= known_bad[i].from &&
		    version < known_bad[i].fixed)
			return known_bad[i].say;
	return NULL;
}

/*
 * Runs a program with a time limit; returns the first 256 bytes of its output. -ENOENT: not
 * installed.
 */
static int ask_program(const char *const *argv, char dst[256])
{
	int fds[2], status, n_total = 0;
	int64_t end_ms = time_boot_ms() + ANSWER_MS;
	pid_t child;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child == 0) {
		union {
			const char *const *in;
			char *const *out;
		} words = { .in = argv };
		int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

		(void)dup2(null_fd, STDIN_FILENO);
		(void)dup2(fds[1], STDOUT_FILENO);
		(void)dup2(fds[1], STDERR_FILENO);
		(void)execvp(words.out[0], words.out);
		_exit(127);
	}
	(void)close(fds[1]);
	while (child > 0 && n_total < 255) {
		struct pollfd p = { .fd = fds[0], .events = POLLIN };
		int64_t left_ms = end_ms - time_boot_ms();
		ssize_t n;

		if (left_ms <= 0 || poll(&p, 1, (int)left_ms) <= 0)
			break;
		n = read(fds[0], dst + n_total, (size_t)(255 - n_total));
		if (n <= 0)
			break;
		n_total += (int)n;
	}
	(void)close(fds[0]);
	dst[n_total] = '\0';
	if (child < 0)
		return -EAGAIN;
	if (time_boot_ms() >= end_ms)
		(void)kill(child, SIGKILL);
	if (waitpid(child, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 127 && n_total == 0 ? -ENOENT : 0;
}

static void check_program(struct doctor *d, const char *name, const char *flag,
			  const char *what_for)
{
	const char *argv[] = { name, flag, NULL };
	char text[256], shown[64];
	const char *bad;
	struct check *c;
	uint64_t version;

	if (ask_program(argv, text) < 0) {
		(void)doctor_add(d, GROUP, CHECK_OK, name, "not installed; needed only %s",
				 what_for);
		return;
	}
	text[strcspn(text, "\n")] = '\0';
	version = doctor_version(text);
	if (strcmp(name, "runsc") == 0)
		(void)snprintf(shown, sizeof(shown), "%.50s", text);
	else
		(void)snprintf(shown, sizeof(shown), "%u.%u.%u", (unsigned)(version >> 40),
			       (unsigned)(version >> 32 & 0xff), (unsigned)version);
	bad = doctor_known_bad(name, version, d->kernel);
	c = doctor_add(d, GROUP, bad != NULL ? CHECK_WARN : CHECK_OK, name, "%s", shown);
	if (bad != NULL)
		doctor_next(c, "%s %s %s. It is needed only %s.", name, shown, bad, what_for);
}

static void check_presence(struct doctor *d, const char *label, const char *const *names,
			   const char *next)
{
	struct check *c;
	char text[256];

	for (; *names != NULL; names++) {
		const char *argv[] = { *names, "--version", NULL };

		if (ask_program(argv, text) == 0) {
			(void)doctor_add(d, GROUP, CHECK_OK, label, "%s", *names);
			return;
		}
	}
	c = doctor_add(d, GROUP, CHECK_WARN, label, "missing");
	doctor_next(c, "%s", next);
}

/* The CRIU that cay-criu fetched runs with its own libraries; otherwise the host may have one. */
static void check_criu(struct doctor *d)
{
	const char *dir = getenv("CAY_CRIU");
	char loader[PATH_MAX], libraries[PATH_MAX], program[PATH_MAX], text[256];
	const char *argv[] = { loader, "--library-path", libraries, program, "check", NULL };
	struct check *c;

	if (dir == NULL || dir[0] == '\0')
		dir = CRIU_DIR;
	(void)snprintf(loader, sizeof(loader), "%s/usr/lib64/ld-linux-x86-64.so.2", dir);
	(void)snprintf(libraries, sizeof(libraries), "%s/usr/lib/x86_64-linux-gnu", dir);
	(void)snprintf(program, sizeof(program), "%s/usr/sbin/criu", dir);
	if (access(program, X_OK) < 0) {
		check_program(d, "criu", "--version", "for memory that outlives a hibernation");
		doctor_next(
			&d->checks[d->count - 1],
			"Hibernation saves only files. To save processes as well: sudo cay-criu "
			"(beside cayd) fetches CRIU 4 into " CRIU_DIR ".");
		return;
	}
	if (geteuid() != 0) {
		(void)doctor_add(d, GROUP, CHECK_OK, "criu",
				 "in %s; not checked: only root can run its check", dir);
		return;
	}
	if (ask_program(argv, text) == 0 && strstr(text, "Looks good") != NULL) {
		(void)doctor_add(d, GROUP, CHECK_OK, "criu", "in %s: hibernating keeps memory",
				 dir);
		return;
	}
	text[strcspn(text, "\n")] = '\0';
	c = doctor_add(d, GROUP, CHECK_WARN, "criu", "in %s does not work here", dir);
	doctor_next(c, "Hibernating keeps files only. It says: %.200s", text);
}

/* Daemons are in sbin, which is not in the PATH of an ordinary user on Debian. */
static void look_in_sbin(void)
{
	const char *path = getenv("PATH");
	char longer[PATH_MAX];

	if (snprintf(longer, sizeof(longer), "%s:/usr/local/sbin:/usr/sbin:/sbin",
		     path != NULL ? path : "/usr/bin:/bin") < (int)sizeof(longer))
		(void)setenv("PATH", longer, 1);
}

void doctor_programs(struct doctor *d)
{
	static const char *const builders[] = { "mmdebstrap", "debootstrap", NULL };

	look_in_sbin();
	check_presence(d, "template builder", builders,
		       "Templates cannot be built without it: apt install mmdebstrap");
	check_criu(d);
	check_program(d, "runsc", "--version", "for the gVisor engine");
	check_program(d, "dockerd", "--version", "for the Docker engine");
	check_program(d, "docker", "--version", "for the Docker engine");
	check_program(d, "containerd", "--version", "for the Docker engine");
	check_program(d, "runc", "--version", "for the Docker engine");
	check_program(d, "crun", "--version", "for benchmarks");
}
