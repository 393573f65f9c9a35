/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects to the agent of a running sandbox through its net namespace, where only the agent
 * listens.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "sys/rights.h"
#include "sys/syscalls.h"
#include "warden/warden.h"
#include "wire/agent.h"

/*
 * The first process of a sandbox that ends leaves its namespaces before it waits for all others to
 * die, and is reaped after that: from here on it counts as dead.
 */
int attach_open_net(const struct warden *w, unsigned slot)
{
	char path[32];
	int fd;

	(void)snprintf(path, sizeof(path), "%d/ns/net", w->rows[slot].pid);
	fd = openat(w->proc_fd, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * Returns cgroups and disk usage to an agent that closed them for a checkpoint; any other agent
 * ignores this.
 */
static void give_back(struct warden *w, unsigned slot, int agent_fd)
{
	struct cgroup_view view;
	char frame[FRAME_HEADER_SIZE];
	_cleanup_close_ int disk_fd =
		storage_quota_open(w, storage_quota_of(w, w->rows[slot].volume));

	cgroup_view_make(&w->cgroups, slot, &view);
	agent_pack_empty(frame, AGENT_TAKE_BACK);
	if (view.groups_fd >= 0 && view.memory_fd >= 0)
		(void)!rights_send(agent_fd, frame, sizeof(frame),
				   (int[]){ view.groups_fd, view.memory_fd, disk_fd },
				   disk_fd < 0 ? 2 : 3, MSG_DONTWAIT);
	cgroup_view_close(&view);
}

int attach_slot(struct warden *w, unsigned slot, int ret_fds[WARDEN_FDS_MAX])
{
	_cleanup_close_ int net_fd = -1, pidfd = sys_pidfd_open(w->rows[slot].pid);
	int r;

	if (pidfd < 0 || !slots_alive(w, slot))
		return -ESRCH;
	net_fd = attach_open_net(w, slot);
	if (net_fd < 0)
		return -ESRCH;
	r = netns_dial(w->home.net_fd, net_fd, &ret_fds[0]);
	if (r < 0)
		return r;
	give_back(w, slot, ret_fds[0]);
	ret_fds[1] = TAKE_FD(pidfd);
	return 0;
}
