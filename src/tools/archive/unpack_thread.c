/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second thread of archive-in. Its queue contains whole small files; the first thread does
 * everything else, and records their results.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "tools/archive/unpack.h"
#include "tools/content/write.h"

#define JOBS 128U /* at the limit the first thread waits */
#define IDLE_JOBS 32U
#define JOB_BYTES 16384U

struct job {
	uint64_t index;
	int r;
	struct unpack_made made;
	size_t n;
	bool closes; /* not a file: closes its directory */
	dev_t dev;
	ino_t ino;
	char path[PATH_MAX]; /* as in the archive */
	char real[PATH_MAX]; /* below the root */
	char name[256];
	char content[JOB_BYTES];
};

/* put, done and settled only grow; job i is at i % JOBS. */
static struct {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more, less;
	bool started, refused, ends;
	bool sleeps, awaited; /* which thread must be woken */
	unsigned put, done, settled;
	struct path_owner owner;
	struct job jobs[JOBS];
} side = { .lock = PTHREAD_MUTEX_INITIALIZER,
	   .more = PTHREAD_COND_INITIALIZER,
	   .less = PTHREAD_COND_INITIALIZER };

static int make(const struct job *job)
{
	struct temp temp = TEMP_INIT;
	int r = temp_open(&temp, job->made.dir_fd, job->made.mode);

	if (r == 0)
		r = write_all(temp.fd, (struct str){ job->content, job->n });
	if (r == 0)
		r = unpack_publish(&temp, &job->made, side.owner);
	temp_done(&temp);
	return r == -EPERM ? -EACCES : r;
}

static void *run(void *arg)
{
	(void)pthread_mutex_lock(&side.lock);
	for (;;) {
		while (side.done == side.put && !side.ends) {
			side.sleeps = true;
			(void)pthread_cond_wait(&side.more, &side.lock);
		}
		side.sleeps = false;
		if (side.done == side.put)
			break;
		struct job *job = &side.jobs[side.done % JOBS];

		(void)pthread_mutex_unlock(&side.lock);
		job->r = job->closes ? 0 : make(job);
		if (job->closes)
			(void)close(job->made.dir_fd);
		(void)pthread_mutex_lock(&side.lock);
		side.done++;
		if (side.awaited)
			(void)pthread_cond_signal(&side.less);
	}
	(void)pthread_mutex_unlock(&side.lock);
	return arg;
}

/* Signals are for the first thread, whose reads they interrupt. */
static bool start(struct unpack *u)
{
	sigset_t all, before;

	if (side.started || side.refused)
		return side.started;
	side.owner = u->owner;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	side.started = pthread_create(&side.thread, NULL, run, NULL) == 0;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	side.refused = !side.started; /* the sandbox may be at its limit of processes */
	return side.started;
}

/* Waits until at most left jobs are pending, then records the results of the others. */
static int settle(struct unpack *u, unsigned left)
{
	unsigned done;
	int r = 0;

	(void)pthread_mutex_lock(&side.lock);
	side.awaited = true;
	while (side.put - side.done > left)
		(void)pthread_cond_wait(&side.less, &side.lock);
	side.awaited = false;
	done = side.done;
	(void)pthread_mutex_unlock(&side.lock);
	for (; side.settled != done; side.settled++) {
		const struct job *job = &side.jobs[side.settled % JOBS];

		if (!job->closes && unpack_settle(u, job->index, job->path, job->r) < 0)
			r = -1;
	}
	return r;
}

/* Equal names always go to the same thread, so that the last one in the archive wins. */
static bool is_ours(const char *name)
{
	uint32_t hash = 2166136261U;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619U;
	return (hash >> 16) & 1;
}

static int fill(struct unpack *u, struct job *job)
{
	const void *bytes;
	la_int64_t at;
	size_t n;
	int r;

	job->n = 0;
	while ((r = archive_read_data_block(u->archive, &bytes, &n, &at)) == ARCHIVE_OK ||
	       r == ARCHIVE_WARN) {
		if (unpack_check_limits(u, n) < 0)
			return -1;
		if ((size_t)at != job->n || n > JOB_BYTES - job->n)
			return -EBADMSG; /* differs from its header */
		memcpy(job->content + job->n, bytes, n);
		job->n += n;
		u->op->end.bytes += n;
	}
	return unpack_read_end(u, r);
}

/* Checks all unrecorded jobs, which includes the pending ones. */
bool unpack_side_is_in(dev_t dev, ino_t ino)
{
	for (unsigned i = side.settled; i != side.put; i++)
		if (side.jobs[i % JOBS].dev == dev && side.jobs[i % JOBS].ino == ino)
			return true;
	return false;
}

bool unpack_side_is_on(const char *path)
{
	for (unsigned i = side.settled; i != side.put; i++) {
		const struct job *job = &side.jobs[i % JOBS];
		size_t n = strlen(job->real);

		if (!job->closes && strncmp(path, job->real, n) == 0 &&
		    (path[n] == '/' || path[n] == '\0'))
			return true;
	}
	return false;
}

bool unpack_side_is_idle(void)
{
	unsigned left;

	(void)pthread_mutex_lock(&side.lock);
	left = side.put - side.done;
	(void)pthread_mutex_unlock(&side.lock);
	return left < IDLE_JOBS;
}

static void put(void)
{
	(void)pthread_mutex_lock(&side.lock);
	side.put++;
	if (side.sleeps)
		(void)pthread_cond_signal(&side.more);
	(void)pthread_mutex_unlock(&side.lock);
}

int unpack_side_close(struct unpack *u, int fd)
{
	struct job *job;

	if (side.put == side.settled) {
		(void)close(fd);
		return 0;
	}
	if (settle(u, JOBS - 1) < 0) {
		(void)close(fd);
		return -1;
	}
	job = &side.jobs[side.put % JOBS];
	job->closes = true;
	job->made.dir_fd = fd;
	job->dev = u->dir_dev;
	job->ino = u->dir_ino;
	put();
	return 0;
}

int unpack_side_give(struct unpack *u, struct archive_entry *entry, const struct unpack_made *made)
{
	const char *path = archive_entry_pathname(entry);
	la_int64_t size = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : -1;
	struct job *job;
	int r;

	if (u->turn == TURN_FIRST || (u->turn == TURN_BOTH && !is_ours(made->name)))
		return 0;
	if (size < 0 || size > JOB_BYTES || archive_entry_sparse_count(entry) ||
	    strlen(path) >= sizeof(job->path) || strlen(made->name) >= sizeof(job->name) ||
	    !start(u))
		return unpack_side_wait(u);
	if (settle(u, JOBS - 1) < 0)
		return -1;
	job = &side.jobs[side.put % JOBS];
	job->closes = false;
	job->index = u->index;
	job->made = *made;
	job->dev = u->dir_dev;
	job->ino = u->dir_ino;
	memcpy(job->real, u->path, u->path_len);
	job->real[u->path_len] = '\0';
	memcpy(job->path, path, strlen(path) + 1);
	memcpy(job->name, made->name, strlen(made->name) + 1);
	job->made.name = job->name;
	r = fill(u, job);
	if (r < 0)
		return r;
	put();
	return 1;
}

int unpack_side_wait(struct unpack *u)
{
	return side.put == side.settled ? 0 : settle(u, 0);
}

int unpack_side_end(struct unpack *u)
{
	int r = unpack_leave_directory(u);

	if (!side.started)
		return r;
	(void)pthread_mutex_lock(&side.lock);
	side.ends = true;
	(void)pthread_cond_signal(&side.more);
	(void)pthread_mutex_unlock(&side.lock);
	(void)pthread_join(side.thread, NULL);
	side.started = side.ends = false;
	return r;
}
