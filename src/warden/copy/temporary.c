/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots for sandboxes that are created from them at once, for forks. They are not needed after
 * the death of the warden, of its client or of the host, so nothing is recorded on disk: the
 * copy-on-write snapshot has an unfinished name, which every start removes, and is known only in
 * memory. That needs one commit of the pool instead of four, and none for the last sandbox created
 * from it, which gets the files themselves. Memory is stored beside them as CRIU wrote it, most of
 * it not even on disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "warden/memory/checkpoint.h"
#include "warden/copy/job.h"
#include "warden/copy/snapshot.h"

#define TEMPORARY_MAX 128 /* per daemon; one more is refused with EAGAIN */
#define FLUSHED_SUFFIX ".flushed"

struct temporary_snapshot {
	uint64_t number; /* its name in the pool; 0: none */
	/* memory was requested: it is a directory, like that of a durable snapshot */
	bool in_dir;
	bool memory;
	uint64_t size_bytes;
	char id[WARDEN_ID_SIZE];
	uint8_t template_hash[WARDEN_HASH_SIZE];
};

int temporary_open(struct warden *w)
{
	w->temporary = calloc(TEMPORARY_MAX, sizeof(*w->temporary));
	return w->temporary ? 0 : -ENOMEM;
}

static struct temporary_snapshot *find(const struct warden *w, const char *snapshot_id)
{
	for (unsigned i = 0; i < TEMPORARY_MAX; i++)
		if (w->temporary[i].number && strcmp(w->temporary[i].id, snapshot_id) == 0)
			return &w->temporary[i];
	return NULL;
}

int temporary_take(struct warden *w, const struct snapshot_order *order, struct job_result *result)
{
	char name[SNAPSHOT_NAME_SIZE], flushed[SNAPSHOT_NAME_SIZE + sizeof(FLUSHED_SUFFIX)];
	struct snapshot_target target = { w->snapshots_fd, name, flushed, false };
	_cleanup_close_ int dir_fd = -1;

	snapshot_name_unfinished(name, order->number);
	if (order->memory) {
		dir_fd = snapshot_make_directory(w, name);
		if (dir_fd < 0)
			return dir_fd;
		target = (struct snapshot_target){ dir_fd, SNAPSHOT_DATA, SNAPSHOT_FLUSHED, false };
		return snapshot_take_data(w, order, &target, result);
	}
	(void)snprintf(flushed, sizeof(flushed), "%s" FLUSHED_SUFFIX, name);
	return snapshot_take_data(w, order, &target, result);
}

int temporary_keep(struct warden *w, const struct snapshot_order *order, bool memory)
{
	for (unsigned i = 0; i < TEMPORARY_MAX; i++) {
		struct temporary_snapshot *p = &w->temporary[i];

		if (p->number)
			continue;
		limits_shared(w, order->slot);
		p->number = order->number;
		p->in_dir = order->memory;
		p->memory = memory;
		/* Exact enough: a sandbox near its limit is measured. */
		p->size_bytes = limits_disk_usage(w, order->slot);
		memcpy(p->id, order->snapshot_id, sizeof(p->id));
		memcpy(p->template_hash, w->rows[order->slot].template_hash,
		       sizeof(p->template_hash));
		return 0;
	}
	return -EAGAIN;
}

bool temporary_exists(const struct warden *w, const char *snapshot_id)
{
	return find(w, snapshot_id);
}

static void drop(struct warden *w, struct temporary_snapshot *p)
{
	snapshot_drop(w, p->number);
	p->number = 0;
}

bool temporary_delete(struct warden *w, const char *snapshot_id)
{
	struct temporary_snapshot *p = find(w, snapshot_id);

	if (p)
		drop(w, p);
	return p;
}

void temporary_drop_all(struct warden *w)
{
	for (unsigned i = 0; i < TEMPORARY_MAX; i++)
		if (w->temporary[i].number)
			drop(w, &w->temporary[i]);
}

/* Where its files are; -ENODATA if there is none of this name. */
static int begin(struct warden *w, const struct snapshot_order *order, struct job_result *result,
		 char name[SNAPSHOT_NAME_SIZE], int *ret_dir_fd)
{
	const struct temporary_snapshot *p = find(w, order->snapshot_id);

	job_step(result, "find snapshot");
	if (!p)
		return -ENODATA;
	result->size_bytes = p->size_bytes;
	memcpy(result->template_hash, p->template_hash, sizeof(result->template_hash));
	snapshot_name_unfinished(name, p->number);
	if (!p->in_dir)
		*ret_dir_fd = openat(w->snapshots_fd, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	else
		*ret_dir_fd = snapshot_open_below(w->snapshots_fd, name);
	if (p->in_dir)
		memcpy(name, SNAPSHOT_DATA, sizeof(SNAPSHOT_DATA));
	if (order->memory && !p->memory) {
		job_step(result, "it holds no memory");
		return -EKEYREJECTED;
	}
	return *ret_dir_fd < 0 ? -EIO : 0;
}

int temporary_copy(struct warden *w, const struct snapshot_order *order, struct job_result *result)
{
	char name[SNAPSHOT_NAME_SIZE];
	_cleanup_close_ int dir_fd = -1, fd = -1;
	int r = begin(w, order, result, name, &dir_fd);

	if (r < 0)
		return r;
	fd = openat(dir_fd, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	job_step(result, "copy on write");
	r = storage_volume_copy(w, w->rows[order->slot].volume, fd);
	fault_point(w, "copy.copied");
	return r < 0 ? r : snapshot_renew_work(w, w->rows[order->slot].volume);
}

int temporary_open_memory(struct warden *w, const char *snapshot_id)
{
	const struct temporary_snapshot *p = find(w, snapshot_id);
	char name[SNAPSHOT_NAME_SIZE];
	_cleanup_close_ int fd = -1;

	if (!p || !p->memory)
		return -ENODATA;
	snapshot_name_unfinished(name, p->number);
	fd = snapshot_open_below(w->snapshots_fd, name);
	return fd < 0 ? fd : snapshot_open_below(fd, CHECKPOINT_UNFINISHED);
}

int temporary_use_up(struct warden *w, const struct snapshot_order *order,
		     struct job_result *result)
{
	uint64_t volume = w->rows[order->slot].volume;
	char name[SNAPSHOT_NAME_SIZE];
	_cleanup_close_ int dir_fd = -1;
	struct temporary_snapshot *p;
	int r = begin(w, order, result, name, &dir_fd);

	if (r < 0)
		return r;
	job_step(result, "take the files");
	r = storage_volume_adopt(w, volume, dir_fd, name);
	fault_point(w, "use.adopted");
	if (r < 0)
		return r;
	p = find(w, order->snapshot_id);
	if (p->in_dir)
		drop(w, p); /* the rest of it */
	p->number = 0;
	return snapshot_renew_work(w, volume);
}
