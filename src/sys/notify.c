/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/notify.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/str.h"
#include "base/time.h"

#define WATCHDOG_MAX_US (86400ULL * 1000000) /* longer intervals count as no watchdog */

/* A path, or "@name" for an abstract socket. */
static int connect_to(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t n = strlen(name);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	_cleanup_close_ int fd = -1;

	if ((name[0] != '/' && name[0] != '@') || n < 2 || n >= sizeof(address.sun_path))
		return -EINVAL;
	memcpy(address.sun_path, name, n);
	if (name[0] == '@')
		address.sun_path[0] = '\0';
	else
		size++; /* the NUL */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, size) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Half of the interval that the manager requires. */
static int64_t interval_ms(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	uint64_t us, number;

	if (!usec || str_to_u64(str_of(usec), UINT64_MAX, &us) < 0 || us == 0 ||
	    us > WATCHDOG_MAX_US)
		return 0;
	if (pid &&
	    (str_to_u64(str_of(pid), INT32_MAX, &number) < 0 || number != (uint64_t)getpid()))
		return 0;
	return MAX((int64_t)us / 2000, 1);
}

void notify_open(struct notify *ret)
{
	const char *name = getenv("NOTIFY_SOCKET");
	int fd = name ? connect_to(name) : -1;

	*ret = (struct notify){ .fd = fd < 0 ? -1 : fd, .alive_ms = fd < 0 ? 0 : interval_ms() };
	(void)unsetenv("NOTIFY_SOCKET");
	(void)unsetenv("WATCHDOG_USEC");
	(void)unsetenv("WATCHDOG_PID");
}

void notify_close(struct notify *notify)
{
	if (notify->fd >= 0)
		(void)close(notify->fd);
	notify->fd = -1;
	notify->alive_ms = 0;
}

void notify_send(const struct notify *notify, const char *text)
{
	if (notify->fd >= 0)
		(void)!send(notify->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void notify_alive(struct notify *notify)
{
	int64_t now_ms;

	if (!notify->alive_ms)
		return;
	now_ms = time_boot_ms();
	if (now_ms < notify->next_ms)
		return;
	notify->next_ms = now_ms + notify->alive_ms;
	notify_send(notify, "WATCHDOG=1");
}

int notify_sleep_ms(const struct notify *notify, int timeout_ms)
{
	int64_t left_ms;

	if (!notify->alive_ms)
		return timeout_ms;
	left_ms = MAX(notify->next_ms - time_boot_ms(), 0);
	return timeout_ms < 0 || left_ms < timeout_ms ? (int)left_ms : timeout_ms;
}
