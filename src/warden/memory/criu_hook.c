/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that CRIU calls at each of its stages. When everything was written, or created again,
 * it notifies the warden's job over a socket, with the pid of the first process, and the job does
 * its part while the sandbox is stopped. A job that is dead, or refuses, fails the stage, and CRIU
 * undoes its work. The program is static, because only CRIU's own libraries exist where it runs.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "warden/memory/criu_hook.h"

int main(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = CRIU_HOOK_SOCKET };
	const char *stage = getenv("CRTOOLS_SCRIPT_ACTION"), *pid = getenv("CRTOOLS_INIT_PID");
	int fd, answer = 0;

	if (!stage || (strcmp(stage, "post-dump") != 0 && strcmp(stage, "post-restore") != 0))
		return 0;
	if (!pid)
		pid = "0";
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    send(fd, pid, strlen(pid), MSG_NOSIGNAL) < 0)
		return 1;
	return recv(fd, &answer, 1, 0) == 1 && answer == CRIU_HOOK_GO ? 0 : 1;
}
