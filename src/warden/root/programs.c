/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/root/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "sys/mount/buildns.h"
#include "sys/mount/mount.h"

#define ATTRIBUTES (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID)

int programs_open(struct warden *w, int shared_fd)
{
	int r = mount_copy(shared_fd, PROGRAMS_DIR, ATTRIBUTES, -1, &w->layers_fd[0]);

	return r < 0 ? r : mount_copy(shared_fd, PROGRAMS_MASKS, ATTRIBUTES, -1, &w->layers_fd[1]);
}

/* As for roots (root.c), the names are links that exist while the overlay is mounted. */
static int mount_named(const int layers_fd[2], int *ret_fd)
{
	static const char *const links[2] = { "/" PROGRAMS_DIR, "/" PROGRAMS_MASKS };
	static const struct mount_option options[] = { { "lowerdir",
							 "/" PROGRAMS_DIR ":/" PROGRAMS_MASKS, -1 },
						       { "redirect_dir", "nofollow", -1 },
						       { "xino", "off", -1 },
						       { "uuid", "off", -1 } };
	char name[MOUNT_NAME_SIZE];
	int r = 0;

	buildns_enter();
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(links); i++) {
		mount_name(layers_fd[i], name);
		r = symlink(name, links[i]) < 0 ? -errno : 0;
	}
	if (r >= 0)
		r = mount_make("overlay", options, ARRAY_LEN(options), ATTRIBUTES, ret_fd);
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		(void)unlink(links[i]);
	return r;
}

/* Without an upper layer, overlayfs demands two lower ones. */
static int mount_layers(const int layers_fd[2], int *ret_fd)
{
	const struct mount_option options[] = { { "lowerdir+", NULL, layers_fd[0] },
						{ "lowerdir+", NULL, layers_fd[1] },
						{ "redirect_dir", "nofollow", -1 },
						{ "xino", "off", -1 },
						{ "uuid", "null", -1 } };

	if (buildns_is_open())
		return mount_named(layers_fd, ret_fd);
	return mount_make("overlay", options, ARRAY_LEN(options), ATTRIBUTES, ret_fd);
}

static int keep(int fd, int *ret_fd)
{
	int r = mount_keep(fd);

	if (r < 0)
		mount_close(fd);
	else
		*ret_fd = fd;
	return r;
}

int programs_make(struct warden *w, unsigned slot)
{
	int fd = -1, r;

	if (w->programs_fd[slot] >= 0)
		return 0;
	if (control_on(w, CONTROL_INODES) || slot == 0) {
		r = mount_layers(w->layers_fd, &fd);
	} else {
		r = programs_make(w, 0);
		if (r >= 0)
			r = mount_copy(w->programs_fd[0], "", 0, -1, &fd);
	}
	return r < 0 ? r : keep(fd, &w->programs_fd[slot]);
}

int programs_copy(struct warden *w, unsigned slot, const char *path, uint64_t attributes,
		  int *ret_fd)
{
	return mount_copy(w->programs_fd[slot], path, ATTRIBUTES | attributes, -1, ret_fd);
}

int programs_copy_other(struct warden *w, int dir_fd, const char *path, int *ret_fd)
{
	int layers_fd[2] = { -1, w->layers_fd[1] }, fd = -1, overlay_fd = -1;
	int r = mount_copy(dir_fd, path, ATTRIBUTES, -1, &fd);

	if (r >= 0)
		r = keep(fd, &layers_fd[0]);
	if (r < 0)
		return r;
	r = mount_layers(layers_fd, &fd);
	if (r >= 0)
		r = keep(fd, &overlay_fd);
	if (r >= 0)
		r = mount_copy(overlay_fd, "", 0, -1, ret_fd);
	mount_close(overlay_fd);
	mount_close(layers_fd[0]);
	return r;
}
