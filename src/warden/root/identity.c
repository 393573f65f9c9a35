/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox made from another's files must not be taken for it: machine id and boot id are its own.
 * They lie in small files of the shared tmpfs, two per slot, made with the slot and written when
 * its owner is known; the child lays them over /etc/machine-id and the kernel's boot id, as it does
 * with the masks of /proc.
 *
 * The machine id follows from the sandbox's id, so it stays through hibernation and restore and
 * differs in every copy; the boot id is new at every start. A copy also has a mark: whose it is,
 * and a word that no other start has, for processes that came along with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/rand.h"
#include "base/str.h"
#include "warden/warden.h"

void identity_path(char dst[IDENTITY_PATH_SIZE], enum identity_file which, unsigned slot)
{
	static const char *const names[] = { "machine", "boot", "forked" };

	(void)snprintf(dst, IDENTITY_PATH_SIZE, "ids/%u.%s", slot, names[which]);
}

static int write_file(struct warden *w, unsigned slot, enum identity_file which, int flags,
		      const char *text)
{
	char path[IDENTITY_PATH_SIZE];
	_cleanup_close_ int fd = -1;
	size_t n = strlen(text);

	identity_path(path, which, slot);
	fd = openat(w->shared_fd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0444);
	if (fd < 0)
		return -errno;
	return pwrite(fd, text, n, 0) == (ssize_t)n ? 0 : -EIO;
}

/* A random UUID, as the kernel writes it. */
static void boot_id(char dst[40])
{
	uint8_t id[16];
	char hex[2 * sizeof(id) + 1];

	rand_bytes(id, sizeof(id));
	id[6] = (id[6] & 0x0f) | 0x40;
	id[8] = (id[8] & 0x3f) | 0x80;
	str_hex(hex, id, sizeof(id));
	(void)snprintf(dst, 40, "%.8s-%.4s-%.4s-%.4s-%.12s\n", hex, hex + 8, hex + 12, hex + 16,
		       hex + 20);
}

int identity_make(struct warden *w, unsigned slot)
{
	int r = write_file(w, slot, IDENTITY_BOOT, O_CREAT, "");

	return r < 0 ? r : write_file(w, slot, IDENTITY_MACHINE, O_CREAT, "");
}

/* Both ids have one length each: they are written over those of the slot's last owner. */
int identity_renew(struct warden *w, unsigned slot)
{
	char text[40];

	boot_id(text);
	return write_file(w, slot, IDENTITY_BOOT, 0, text);
}

int identity_name(struct warden *w, unsigned slot, const char *id, bool is_copy)
{
	uint8_t bytes[16];
	char text[2 * sizeof(bytes) + 2];
	char marker[IDENTITY_MARK_SIZE], generation[2 * sizeof(bytes) + 1];
	int r;

	manifest_derive(bytes, w->snapshot_key, "machine id", id);
	str_hex(text, bytes, sizeof(bytes));
	text[2 * sizeof(bytes)] = '\n';
	text[2 * sizeof(bytes) + 1] = '\0';
	r = write_file(w, slot, IDENTITY_MACHINE, 0, text);
	if (r < 0 || !is_copy)
		return r;
	rand_bytes(bytes, sizeof(bytes));
	str_hex(generation, bytes, sizeof(bytes));
	(void)snprintf(marker, sizeof(marker), "%s\n%s\n", id, generation);
	return write_file(w, slot, IDENTITY_FORKED, O_CREAT | O_TRUNC, marker);
}
