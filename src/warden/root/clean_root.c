/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A root without its furniture: the overlay and its volume alone. Most short sandboxes never write
 * a file, and to make both and take them down costs more than all else of one. So the slot keeps a
 * mount of its overlay, and when its sandbox is dead and nothing was written, the next one gets it.
 *
 * Whatever is written goes through a directory of the volume (its upper one is empty, so even what
 * lies deep in the template must first be copied to below it), and changes its times. Those must be
 * exact: on a kernel whose clock for files goes in steps a change could be missed, and no root is
 * kept.
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

int bare_open(struct warden *w)
{
	w->bares = calloc(KEEPING_SLOTS, sizeof(*w->bares));
	if (!w->bares)
		return -ENOMEM;
	for (unsigned i = 0; i < KEEPING_SLOTS; i++)
		w->bares[i].fd = -1;
	w->keeps_bares = probe_has(PROBE_EXACT_TIMES) && probe_times_exact(w->pool_fd);
	if (!w->keeps_bares && probe_has(PROBE_EXACT_TIMES))
		log_info("file times in the storage pool are not exact: roots are used once");
	return 0;
}

static int stamp_take(const struct warden *w, uint64_t volume, struct bare_stamp *ret)
{
	static const char *const names[BARE_DIRECTORIES] = { "upper", "work", "work/work" };
	_cleanup_close_ int fd = storage_volume_open(w, volume);

	if (fd < 0)
		return fd;
	for (size_t i = 0; i < BARE_DIRECTORIES; i++) {
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

static struct bare *bare_of(const struct warden *w, unsigned slot)
{
	return w->bares && slot < KEEPING_SLOTS ? &w->bares[slot] : NULL;
}

void bare_keep(struct warden *w, unsigned slot, const struct root *root)
{
	struct bare *bare = bare_of(w, slot), kept = { .fd = -1, .volume = root->volume };

	if (!bare || !w->keeps_bares)
		return;
	bare_forget(w, slot);
	if (mount_copy(root->fd, "", 0, -1, &kept.fd) < 0)
		return; /* then it is used once */
	if (mount_keep(kept.fd) < 0 || stamp_take(w, root->volume, &kept.stamp) < 0) {
		parts_close_later(w, kept.fd);
		return;
	}
	memcpy(kept.template_hash, root->template_hash, sizeof(kept.template_hash));
	*bare = kept;
}

bool bare_use(struct warden *w, unsigned slot, struct root *root)
{
	struct bare *bare = bare_of(w, slot);

	if (!bare || bare->fd < 0)
		return false;
	if (!bare->idle ||
	    memcmp(bare->template_hash, root->template_hash, sizeof(bare->template_hash)) != 0 ||
	    mount_copy(bare->fd, "", 0, -1, &root->fd) < 0) {
		bare_forget(w, slot);
		return false;
	}
	if (mount_keep(root->fd) < 0) {
		mount_close(TAKE_FD(root->fd));
		bare_forget(w, slot);
		return false;
	}
	bare->idle = false;
	root->volume = bare->volume;
	root->disk_size_mb = bare->disk_size_mb;
	return true;
}

bool bare_stays(struct warden *w, unsigned slot)
{
	struct bare *bare = bare_of(w, slot);
	const struct slot_row *row = &w->rows[slot];
	struct bare_stamp stamp;

	if (!bare || bare->fd < 0)
		return false;
	memset(&stamp, 0, sizeof(stamp));
	if (row->volume != bare->volume || row->shares_disk || row->disk_offset || w->stopping ||
	    stamp_take(w, row->volume, &stamp) < 0 ||
	    memcmp(&stamp, &bare->stamp, sizeof(stamp)) != 0) {
		bare_forget(w, slot);
		return false;
	}
	bare->idle = true;
	bare->disk_size_mb = row->disk_size_mb;
	return true;
}

void bare_forget(struct warden *w, unsigned slot)
{
	struct bare *bare = bare_of(w, slot);

	if (!bare || bare->fd < 0)
		return;
	parts_close_later(w, TAKE_FD(bare->fd));
	if (bare->idle)
		storage_volume_remove(w, bare->volume);
	bare->idle = false;
}

void bare_forget_all(struct warden *w)
{
	for (unsigned i = 0; i < KEEPING_SLOTS; i++)
		bare_forget(w, i);
}
