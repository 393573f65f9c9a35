/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "sys/file.h"
#include "warden/copy/snapshot.h"

#define OWNER_FILE "owner" /* in the pool; volumes begin with "v", so no sweep takes it */
#define OWNER_FILE_NEW "owner.new"

static int read_owner(struct warden *w)
{
	char text[WARDEN_ID_SIZE + 1];
	int n = file_read(w->pool_fd, OWNER_FILE, text, sizeof(text));

	if (n == -ENOENT)
		return 0;
	if (n < 0)
		return n;
	if (n == 0 || !bounds_id(str_of(text)))
		return -EUCLEAN;
	memcpy(w->owner, text, (size_t)n);
	return 0;
}

int owner_open(struct warden *w)
{
	int r;

	w->table_owner[WARDEN_ID_SIZE - 1] = '\0';
	r = read_owner(w);
	if (r < 0) {
		log_error("storage pool: its file '" OWNER_FILE "' cannot be read: %s",
			  strerror(-r));
		return r;
	}
	if (!w->owner[0] || !w->table_owner[0] || strcmp(w->owner, w->table_owner) == 0)
		return 0;
	log_error("the storage pool belongs to database %s, and warden.slots to database %s: one "
		  "of them comes from another state directory. Put back the file that belongs "
		  "here. If warden.slots is the wrong one, moving it away is enough",
		  w->owner, w->table_owner);
	return -EXDEV;
}

int owner_claim(struct warden *w, const char *id)
{
	_cleanup_close_ int fd = -1;
	size_t n = strlen(id);

	if (strcmp(w->owner, id) != 0) {
		fd = openat(w->pool_fd, OWNER_FILE_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			    0600);
		if (fd < 0)
			return -errno;
		if (write(fd, id, n) != (ssize_t)n)
			return -EIO;
		if (fsync(fd) < 0 ||
		    renameat(w->pool_fd, OWNER_FILE_NEW, w->pool_fd, OWNER_FILE) < 0)
			return -errno;
		log_info("the storage pool belongs to database %s", id);
	}
	memset(w->owner, 0, sizeof(w->owner));
	memcpy(w->owner, id, n);
	memcpy(w->table_owner, w->owner, sizeof(w->owner));
	return 0;
}

static int found(void *arg, const char *name)
{
	bool *finished = arg;

	*finished = !strchr(name, '.');
	return *finished ? -ECANCELED : 0; /* one is enough */
}

bool owner_holds(struct warden *w)
{
	bool snapshots = false;

	for (unsigned i = 0; i < w->slot_top; i++)
		if (w->rows[i].state == SLOT_LIVE)
			return true;
	(void)snapshot_each(w, found, &snapshots);
	return snapshots;
}
