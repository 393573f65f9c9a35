/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox's root: an overlay of a template, read-only and seen through the slot's ids, below a
 * volume of its own. It stays detached until the sandbox moves it into place, so it can be made
 * ahead, for the template that was asked for last.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include "base/log.h"
#include "sys/mount/buildns.h"
#include "sys/mount/mount.h"
#include "sys/syscalls.h"
#include "warden/warden.h"

/* Makes a mount one that an overlay can have below it; takes it. */
static int keep(int fd, int *ret_fd)
{
	int r = mount_keep(fd);

	if (r < 0)
		mount_close(fd);
	else
		*ret_fd = fd;
	return r;
}

static int open_template(struct warden *w, const uint8_t hash[WARDEN_HASH_SIZE], int idmap_fd,
			 int *ret_fd)
{
	char path[2 * WARDEN_HASH_SIZE + 16];
	_cleanup_close_ int fd = -1;
	int view_fd, r;

	str_hex(path, hash, WARDEN_HASH_SIZE);
	memcpy(path + 2 * WARDEN_HASH_SIZE, "/tree/rootfs", sizeof("/tree/rootfs"));
	fd = sys_openat2(w->templates_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC,
			 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
	if (fd < 0)
		return fd;
	r = mount_copy(fd, "", MOUNT_ATTR_RDONLY, idmap_fd, &view_fd);
	return r < 0 ? r : keep(view_fd, ret_fd);
}

static int open_pool(struct warden *w, int idmap_fd, int *ret_fd)
{
	int view_fd, r = mount_copy(w->pool_fd, "", 0, idmap_fd, &view_fd);

	return r < 0 ? r : keep(view_fd, ret_fd);
}

/*
 * Layers by name, where there is a build namespace: kernels before 6.13 take no descriptors for
 * them, and those before 6.15 show where a descriptor's mount is attached. The sandbox can read the
 * names in its mounts, so they are links that exist while the overlay is mounted, and say what the
 * newest kernels say: the volume's name, which is drawn. uuid=off is what kernels before 6.6 have
 * of uuid=null.
 */
#define LOWER_LINK "/template"

static int mount_named(const char *upper, const char *work, uint64_t attributes, int *ret_fd)
{
	const struct mount_option options[] = {
		{ "lowerdir", LOWER_LINK, -1 }, { "upperdir", upper, -1 },
		{ "workdir", work, -1 },	{ "redirect_dir", "nofollow", -1 },
		{ "metacopy", "off", -1 },	{ "index", "off", -1 },
		{ "xino", "off", -1 },		{ "uuid", "off", -1 },
		{ "volatile", NULL, -1 },
	};

	return mount_make("overlay", options, ARRAY_LEN(options), attributes, ret_fd);
}

static int mount_overlay_named(const struct outlook *outlook, uint64_t volume, uint64_t attributes,
			       int *ret_fd)
{
	char lower[MOUNT_NAME_SIZE], pool[MOUNT_NAME_SIZE], name[VOLUME_NAME_SIZE];
	char target[MOUNT_NAME_SIZE + VOLUME_NAME_SIZE], link[VOLUME_NAME_SIZE + 1];
	char upper[VOLUME_NAME_SIZE + 8], work[VOLUME_NAME_SIZE + 8];
	int r = 0;

	mount_name(outlook->lower_fd, lower);
	mount_name(outlook->pool_fd, pool);
	storage_volume_name(name, volume);
	(void)snprintf(link, sizeof(link), "/%s", name);
	(void)snprintf(target, sizeof(target), "%s/%s", pool, name);
	(void)snprintf(upper, sizeof(upper), "%s/upper", link);
	(void)snprintf(work, sizeof(work), "%s/work", link);
	buildns_enter();
	if (symlink(lower, LOWER_LINK) < 0 || symlink(target, link) < 0)
		r = -errno;
	if (r >= 0)
		r = mount_named(upper, work, attributes, ret_fd);
	(void)unlink(link);
	(void)unlink(LOWER_LINK);
	return r;
}

static int mount_overlay(struct warden *w, unsigned slot, uint64_t volume, int volume_fd,
			 int *ret_fd)
{
	const struct outlook *outlook = &w->outlooks[slot];
	_cleanup_close_ int upper =
		openat(volume_fd, "upper", O_PATH | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW);
	_cleanup_close_ int work =
		openat(volume_fd, "work", O_PATH | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW);
	uint64_t attributes = control_on(w, CONTROL_NODEV) ? MOUNT_ATTR_NODEV : 0;

	if (upper < 0 || work < 0)
		return -ENOENT;
	if (buildns_is_open())
		return mount_overlay_named(outlook, volume, attributes, ret_fd);
	const struct mount_option options[] = {
		{ "lowerdir+", NULL, outlook->lower_fd },
		{ "upperdir", NULL, upper },
		{ "workdir", NULL, work },
		{ "redirect_dir", "nofollow", -1 },
		{ "metacopy", "off", -1 },
		{ "index", "off", -1 },
		{ "xino", "off", -1 },
		{ "uuid", "null", -1 },
		{ "volatile", NULL, -1 },
	};
	return mount_make("overlay", options, ARRAY_LEN(options), attributes, ret_fd);
}

/*
 * Overlayfs accesses the upper layer with the credentials of the mounting process, and those must
 * be mapped on the idmapped volume: mount as the sandbox's root id, but with all capabilities.
 */
static int mount_as(struct warden *w, uint32_t id, unsigned slot, struct root *root, int volume_fd)
{
	int r;

	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return -errno;
	(void)setfsgid(id);
	(void)setfsuid(id);
	r = mount_overlay(w, slot, root->volume, volume_fd, &root->fd);
	(void)setfsuid(0);
	(void)setfsgid(0);
	if (prctl(PR_SET_SECUREBITS, 0, 0, 0, 0) < 0)
		abort(); /* no sandbox may be born with ours */
	return r;
}

/* Overlayfs takes copies of its own of both mounts, so they serve all roots of the slot. */
static int outlook_open(struct warden *w, unsigned slot, const uint8_t hash[WARDEN_HASH_SIZE],
			int idmap_fd, const char **ret_step)
{
	struct outlook *outlook = &w->outlooks[slot];
	int r = 0;

	*ret_step = "open template";
	if (outlook->lower_fd >= 0 && memcmp(outlook->template_hash, hash, WARDEN_HASH_SIZE) != 0)
		stock_close_later(w, TAKE_FD(outlook->lower_fd));
	if (outlook->lower_fd < 0)
		r = open_template(w, hash, idmap_fd, &outlook->lower_fd);
	if (r < 0)
		return r;
	memcpy(outlook->template_hash, hash, WARDEN_HASH_SIZE);
	*ret_step = "open pool";
	return outlook->pool_fd >= 0 ? 0 : open_pool(w, idmap_fd, &outlook->pool_fd);
}

static int mount_root(struct warden *w, unsigned slot, struct root *root, const char **ret_step)
{
	bool mapped = control_on(w, CONTROL_IDMAP) && control_on(w, CONTROL_USERNS);
	_cleanup_close_ int volume = -1;
	int r;

	r = outlook_open(w, slot, root->template_hash, mapped ? w->userns_fd[slot] : -1, ret_step);
	if (r < 0)
		return r;
	*ret_step = "open volume";
	volume = storage_volume_open_in(w->outlooks[slot].pool_fd, root->volume);
	if (volume < 0)
		return volume;
	*ret_step = "mount root";
	return mount_as(w, mapped ? slot_first_id(w, slot) : 0, slot, root, volume);
}

/* A root that can be mounted into. */
static int mount_root_kept(struct warden *w, unsigned slot, struct root *root,
			   const char **ret_step)
{
	int r = mount_root(w, slot, root, ret_step);

	if (r < 0)
		return r;
	*ret_step = "keep root";
	return keep(TAKE_FD(root->fd), &root->fd);
}

static int finish(struct warden *w, unsigned slot, struct root *root, const char **ret_step)
{
	int r;

	root->shm_memory_mb = w->usual.memory_mb;
	root->quota = storage_quota_of(w, root->volume);
	r = root_furnish(w, slot, root, ret_step);
	if (r < 0) {
		mount_close(TAKE_FD(root->fd));
		return r;
	}
	*ret_step = "settle root";
	r = mount_settle(&root->fd);
	if (r >= 0)
		w->roots[slot] = *root;
	return r;
}

int root_build_over(struct warden *w, unsigned slot, uint64_t volume,
		    const uint8_t hash[WARDEN_HASH_SIZE], const char **ret_step)
{
	struct root root = { .fd = -1, .volume = volume };
	int r;

	memcpy(root.template_hash, hash, sizeof(root.template_hash));
	r = mount_root_kept(w, slot, &root, ret_step);
	return r < 0 ? r : finish(w, slot, &root, ret_step);
}

int root_build_plain(struct warden *w, unsigned slot, uint64_t volume,
		     const uint8_t hash[WARDEN_HASH_SIZE], const char **ret_step)
{
	struct root root = { .fd = -1, .volume = volume };
	int r;

	memcpy(root.template_hash, hash, sizeof(root.template_hash));
	r = mount_root(w, slot, &root, ret_step);
	if (r >= 0)
		w->roots[slot] = root;
	return r;
}

int root_build(struct warden *w, unsigned slot, const uint8_t hash[WARDEN_HASH_SIZE],
	       const char **ret_step)
{
	struct root root = { .fd = -1 };
	uint32_t disk_size_mb = w->usual.disk_size_mb;
	int r = 0;

	memcpy(root.template_hash, hash, sizeof(root.template_hash));
	*ret_step = "make volume";
	if (!clean_root_use(w, slot, &root)) {
		r = storage_volume_make(w, &root.volume);
		if (r < 0)
			return r;
		if (storage_volume_mark(w, root.volume, hash) < 0)
			log_debug("a volume has no mark of its template");
		r = mount_root_kept(w, slot, &root, ret_step);
		if (r >= 0)
			clean_root_keep(w, slot, &root);
	}
	if (r >= 0 && root.disk_size_mb != disk_size_mb &&
	    storage_volume_limit(w, root.volume, (uint64_t)disk_size_mb << 20) >= 0)
		/* otherwise retried, and reported, at the create */
		root.disk_size_mb = disk_size_mb;
	if (r >= 0)
		r = finish(w, slot, &root, ret_step);
	if (r < 0) {
		clean_root_forget(w, slot);
		storage_volume_remove(w, root.volume);
	}
	return r;
}

bool root_fits(const struct warden *w, unsigned slot, const uint8_t hash[WARDEN_HASH_SIZE])
{
	return w->roots[slot].fd >= 0 &&
	       memcmp(w->roots[slot].template_hash, hash, WARDEN_HASH_SIZE) == 0;
}

void root_drop(struct warden *w, unsigned slot)
{
	if (w->roots[slot].fd >= 0)
		clean_root_forget(w, slot);
	root_discard(w, &w->roots[slot]);
}

void root_discard(struct warden *w, struct root *root)
{
	if (root->fd < 0)
		return;
	(void)close(TAKE_FD(root->fd)); /* the last reference: this unmounts */
	storage_volume_remove(w, root->volume);
}
