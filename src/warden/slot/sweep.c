/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a sandbox: killed at once, removed after the reply, slot by slot. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/log.h"
#include "sys/syscalls.h"
#include "warden/copy/job.h"
#include "wire/agent.h"

/* Killing pid 1 ends its whole pid namespace; the cgroup includes a child that never got there. */
int sweep_kill(struct warden *w, unsigned slot)
{
	struct slot_row *row = &w->rows[slot];
	int pidfd;

	if (row->pid <= 0)
		return cgroup_kill(&w->cgroups, slot);
	if (w->bonds[slot] == BOND_REAPED)
		return 0;
	if (row->frozen || row->held)
		(void)!cgroup_freeze(&w->cgroups, slot, false); /* a frozen task does not die */
	if (w->bonds[slot] == BOND_CHILD)
		return kill(row->pid, SIGKILL) < 0 ? -errno : 0;
	pidfd = sys_pidfd_open(row->pid);
	if (pidfd < 0)
		return pidfd == -ESRCH ? 0 : pidfd;
	/* The pidfd is pinned first and checked afterwards: a reused pid is not in our cgroup. */
	if (slots_alive(w, slot))
		(void)sys_pidfd_kill(pidfd, SIGKILL);
	(void)close(pidfd);
	return 0;
}

void sweep_hold_net(struct warden *w, unsigned slot)
{
	char path[32];

	if (w->spaces[slot].fd >= 0 || w->bonds[slot] != BOND_CHILD)
		return; /* otherwise the pid may have been reused */
	(void)snprintf(path, sizeof(path), "%d/ns/net", w->rows[slot].pid);
	w->spaces[slot].fd = openat(w->proc_fd, path, O_RDONLY | O_CLOEXEC);
}

static void on_reaped(struct warden *w, unsigned slot, int status)
{
	w->bonds[slot] = BOND_REAPED;
	/* Not killed by us: it may have failed to start, because of a part that its slot keeps. */
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		stock_forget(w, slot);
}

void sweep_reap(struct warden *w)
{
	int status, pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		log_debug("child %d ended with status %d", pid, status);
		if (jobs_ended(w, pid, status))
			continue;
		for (unsigned i = 0; i < w->slot_top; i++)
			if (w->bonds[i] == BOND_CHILD && w->rows[i].pid == pid)
				on_reaped(w, i, status);
	}
}

static bool is_gone(const struct warden *w, unsigned slot)
{
	if (w->bonds[slot] != BOND_NONE)
		return w->bonds[slot] == BOND_REAPED;
	return cgroup_is_empty(&w->cgroups, slot) && !slots_alive(w, slot);
}

static bool sweep_one(struct warden *w, unsigned slot)
{
	struct slot_row *row = &w->rows[slot];

	if (jobs_busy(w, slot)) {
		jobs_kill_slot(w, slot); /* it uses the volume, and may freeze what is to die */
		return false;
	}
	if (!is_gone(w, slot)) {
		/* However it was frozen, and however late: a frozen task does not die. */
		(void)!cgroup_freeze(&w->cgroups, slot, false);
		cgroup_thaw_below(&w->cgroups, slot);
		(void)!sweep_kill(w, slot);
		return false;
	}
	root_drop(w, slot); /* of one that never started */
	if (slot >= KEEPING_SLOTS)
		stock_forget(w, slot);
	if (row->volume && !clean_root_stays(w, slot))
		storage_volume_remove(w, row->volume);
	cgroup_recycle(&w->cgroups, slot);
	if (row->frozen_us)
		(void)!cgroup_note(&w->cgroups, slot, AGENT_FROZEN_NOTE, 0);
	row->frozen_us = 0;
	row->volume = 0;
	row->pid = 0;
	row->id[0] = '\0';
	row->frozen = row->held = 0;
	if (row->disk_offset)
		(void)!cgroup_note(&w->cgroups, slot, AGENT_DISK_OFFSET_NOTE, 0);
	row->disk_offset = 0;
	row->shares_disk = 0;
	if (w->spaces[slot].fd >= 0 && slot < KEEPING_SLOTS && !row->link)
		stock_keep_net(w, &w->spaces[slot]);
	else
		netspace_close(&w->spaces[slot]);
	row->link = 0;
	processors_free(w, slot);
	w->bonds[slot] = BOND_NONE;
	row->state = SLOT_FREE;
	if (row->has_cgroups)
		stock_keep_cgroups(w, slot);
	slots_trim(w);
	return true;
}

bool sweep_step(struct warden *w)
{
	for (unsigned i = 0; i < w->slot_top; i++)
		if (w->rows[i].state == SLOT_DYING && sweep_one(w, i))
			return true;
	return false;
}
