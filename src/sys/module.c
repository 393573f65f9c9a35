/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/module.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMES_MAX 16

bool module_has_filesystem(const char *name)
{
	FILE *list = fopen("/proc/filesystems", "re");
	char line[128], word[64];
	bool found = false;

	while (list && !found && fgets(line, sizeof(line), list))
		found = (sscanf(line, "nodev %63s", word) == 1 ||
			 sscanf(line, " %63s", word) == 1) &&
			strcmp(word, name) == 0;
	if (list)
		(void)fclose(list);
	return found;
}

static const char *find_modprobe(void)
{
	static const char *const paths[] = { "/sbin/modprobe", "/usr/sbin/modprobe" };
	struct utsname kernel;
	char dir[sizeof(kernel.release) + 32];

	if (uname(&kernel) < 0)
		return NULL;
	(void)snprintf(dir, sizeof(dir), "/lib/modules/%s", kernel.release);
	for (size_t i = 0; access(dir, F_OK) == 0 && i < ARRAY_LEN(paths); i++)
		if (access(paths[i], X_OK) == 0)
			return paths[i];
	return NULL;
}

int module_load(const char *const *names, size_t count)
{
	const char *path = find_modprobe(), *words[NAMES_MAX + 3] = { "modprobe", "-qa" };
	static const char *const none[] = { NULL };
	union {
		const char *const *in;
		char *const *out;
	} argv = { .in = words }, envp = { .in = none };
	int pid, status;

	if (!path)
		return -ENOENT;
	if (count > NAMES_MAX)
		return -E2BIG;
	memcpy(words + 2, names, count * sizeof(*names));
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

		for (int fd = 0; fd < 3; fd++)
			(void)dup2(null_fd, fd);
		(void)execve(path, argv.out, envp.out);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return status == 0 ? 0 : -EIO;
}
