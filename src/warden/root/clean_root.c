/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roots that can be reused: the overlay and its volume, without the other mounts. Most short-lived
 * sandboxes never write a file, and creating and removing both costs more than all other parts of
 * one. The slot therefore keeps a mount of its overlay, and if its sandbox is dead and nothing was
 * written, the next one gets it.
 *
 * Every write changes the times of a directory of the volume: its upper directory is empty, so even
 * a file deep in the template is first copied below it. The times must be exact: on a kernel with
 * coarse file times a change could be missed, and no root is kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "sys/mount/buildns.h"
#include "sys/mount/mount.h"
#include "sys/probe.h"
#include "warden/warden.h"

int clean_root_open(struct warden *w)
{
	w->clean_roots = calloc(KEEPING_SLOTS, sizeof(*w->clean_roots));
	if (!w->clean_roots)
		return -ENOMEM;
	for (unsigned i = 0; i < KEEPING_SLOTS; i++)
		w->clean_roots[i].fd = -1;
	w->keeps_clean_roots = probe_has(PROBE_EXACT_TIMES) && probe_times_exact(w->pool_fd);
	if (!w->keeps_clean_roots && probe_has(PROBE_EXACT_TIMES))
		log_info("file times in the storage pool are not exact: roots are used once");
	return 0;
}

static int stamp_take(const struct warden *w, uint64_t volume, struct clean_root_stamp *ret)
{
	static const char *const names[CLEAN_ROOT_DIRECTORIES] = { "upper", "work", "work/work" };
	_cleanup_close_ int fd = storage_volume_open(w, volume);

	if (fd < 0)
		return fd;
	for (size_t i = 0; i < CLEAN_ROOT_DIRECTORIES; i++) {
		struct stat st;

		if (fstatat(fd, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		ret->inode[i] = st.st_ino;
		ret->size[i] = st.st_size;
		ret->changed[i] = st.st_ctim;
		ret->written[i] = st.st_mtim;
		ret->read[i] = st.st_atim;
	}
	return 0;
}

static struct clean_root *clean_root_of(const struct warden *w, unsigned slot)
{
	return w->clean_roots && slot < KEEPING_SLOTS ? &w->clean_roots[slot] : NULL;
}

void clean_root_keep(struct warden *w, unsigned slot, const struct root *root)
{
	struct clean_root *clean = clean_root_of(w, slot),
			  kept = { .fd = -1, .volume = root->volume };

	if (!clean || !w->keeps_clean_roots)
		return;
	clean_root_forget(w, slot);
	if (mount_copy(root->fd, "", 0, -1, &kept.fd) < 0)
		return; /* it is then used once */
	if (mount_keep(kept.fd) < 0 || stamp_take(w, root->volume, &kept.stamp) < 0) {
		stock_close_later(w, kept.fd);
		return;
	}
	memcpy(kept.template_hash, root->template_hash, sizeof(kept.template_hash));
	*clean = kept;
}

bool clean_root_use(struct warden *w, unsigned slot, struct root *root)
{
	struct clean_root *clean = clean_root_of(w, slot);

	if (!clean || clean->fd < 0)
		return false;
	if (!clean->idle ||
	    memcmp(clean->template_hash, root->template_hash, sizeof(clean->template_hash)) != 0 ||
	    mount_copy(clean->fd, "", 0, -1, &root->fd) < 0) {
		clean_root_forget(w, slot);
		return false;
	}
	if (mount_keep(root->fd) < 0) {
		mount_close(TAKE_FD(root->fd));
		clean_root_forget(w, slot);
		return false;
	}
	clean->idle = false;
	root->volume = clean->volume;
	root->disk_size_mb = clean->disk_size_mb;
	return true;
}

bool clean_root_stays(struct warden *w, unsigned slot)
{
	struct clean_root *clean = clean_root_of(w, slot);
	const struct slot_row *row = &w->rows[slot];
	struct clean_root_stamp stamp;

	if (!clean || clean->fd < 0)
		return false;
	memset(&stamp, 0, sizeof(stamp));
	if (row->volume != clean->volume || row->shares_disk || row->disk_offset || w->stopping ||
	    stamp_take(w, row->volume, &stamp) < 0 ||
	    memcmp(&stamp, &clean->stamp, sizeof(stamp)) != 0) {
		clean_root_forget(w, slot);
		return false;
	}
	clean->idle = true;
	clean->disk_size_mb = row->disk_size_mb;
	return true;
}

void clean_root_forget(struct warden *w, unsigned slot)
{
	struct clean_root *clean = clean_root_of(w, slot);

	if (!clean || clean->fd < 0)
		return;
	stock_close_later(w, TAKE_FD(clean->fd));
	if (clean->idle)
		storage_volume_remove(w, clean->volume);
	clean->idle = false;
}

void clean_root_forget_all(struct warden *w)
{
	for (unsigned i = 0; i < KEEPING_SLOTS; i++)
		clean_root_forget(w, i);
}
