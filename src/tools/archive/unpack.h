/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/tools/archive: the state of one run of archive-in. */
#ifndef CAY_TOOLS_ARCHIVE_UNPACK_H
#define CAY_TOOLS_ARCHIVE_UNPACK_H

#include <archive.h>
#include <archive_entry.h>
#include <limits.h>

#include "base/buf.h"
#include "tools/archive/member.h"
#include "tools/path.h"
#include "tools/content/temp.h"

/*
 * Two threads in one directory wait for each other's lock, so they share only a directory with many
 * files.
 */
enum unpack_turn { TURN_FIRST, TURN_SECOND, TURN_BOTH };

/* Owner: op_archive_in(). */
struct unpack {
	struct op *op;
	struct archive *archive;
	int root_fd, spool_fd;
	struct path_owner owner;
	uint64_t max_entries, max_bytes, max_ratio;
	uint64_t in_bytes, index;
	struct str first; /* a piece that was read to detect the format */
	bool committed;
	struct buf later;
	int64_t told_us;
	char path[PATH_MAX];
	size_t path_len;
	int dir_fd; /* directory of the current plain files; -1: none */
	char dir[PATH_MAX];
	size_t dir_len;
	dev_t dir_dev;
	ino_t dir_ino;
	unsigned dir_files;    /* number of files in it so far */
	enum unpack_turn turn; /* which thread writes them */
};

int unpack_fail_archive(struct unpack *u); /* -1 */
void unpack_tell_progress(struct unpack *u);
/* Records the result of the entry: counted, reported, or (-1) the end of the run. */
int unpack_settle(struct unpack *u, uint64_t index, const char *name, int r) _must_check_;

/*
 * unpack_file.c: writes the plain file at u->path. 1: the other thread does it; -1: the run failed;
 * -errno.
 */
int unpack_file(struct unpack *u, struct archive_entry *entry) _must_check_;
/*
 * u->path is another directory or in one, and no unfinished file is at that path. -1: the run
 * failed.
 */
int unpack_change_directory(struct unpack *u) _must_check_;
/* Completes all unfinished files. -1: the run failed. */
int unpack_leave_directory(struct unpack *u) _must_check_;

/* A file that is created at its final name, by either thread. */
struct unpack_made {
	int dir_fd;
	const char *name;
	mode_t mode;
	struct timespec mtime;
};
int unpack_check_limits(struct unpack *u, uint64_t more) _must_check_;
/* Evaluates the result of archive_read_data_block(): 0, -errno of the entry, -1. */
int unpack_read_end(struct unpack *u, int r) _must_check_;
int unpack_publish(struct temp *temp, const struct unpack_made *made,
		   struct path_owner owner) _must_check_;

/*
 * unpack_thread.c: a second thread that creates small files, whose cost is only kernel time. 1: it
 * takes the file; 0: the caller must write it; -1: the run failed.
 */
int unpack_side_give(struct unpack *u, struct archive_entry *entry,
		     const struct unpack_made *made) _must_check_;
bool unpack_side_is_in(dev_t dev, ino_t ino); /* it has files in that directory */
/* it has the file at that path, or one that the path leads through */
bool unpack_side_is_on(const char *path);
bool unpack_side_is_idle(void);				      /* or will be soon */
int unpack_side_close(struct unpack *u, int fd) _must_check_; /* after its pending work */
int unpack_side_wait(struct unpack *u);			      /* completes all its pending work */
int unpack_side_end(struct unpack *u) _must_check_;	      /* and ends the thread */

/* unpack_directory.c: creates the directory at u->path; its mode and time are set at the end. */
int unpack_remember(struct unpack *u, struct archive_entry *entry, bool made);
void unpack_finish_directories(struct unpack *u);

#endif
