/* SPDX-License-Identifier: Apache-2.0 */
/* One run of archive-in. */
#ifndef CAY_TOOLS_ARCHIVE_UNPACK_H
#define CAY_TOOLS_ARCHIVE_UNPACK_H

#include <archive.h>
#include <archive_entry.h>
#include <limits.h>

#include "base/buf.h"
#include "tools/archive/member.h"
#include "tools/path.h"
#include "tools/content/temp.h"

/* Two threads in one directory wait for each other: they share only one that has many files. */
enum unpack_turn { TURN_FIRST, TURN_SECOND, TURN_BOTH };

/* Owner: op_archive_in(). */
struct unpack {
	struct op *op;
	struct archive *archive;
	int root_fd, spool_fd;
	struct path_owner owner;
	uint64_t max_entries, max_bytes, max_ratio;
	uint64_t in_bytes, index;
	struct str first; /* a piece that was read to see what it is */
	bool committed;
	struct buf later;
	int64_t told_us;
	char path[PATH_MAX];
	size_t path_len;
	int dir_fd; /* of the plain files that come now; -1: none */
	char dir[PATH_MAX];
	size_t dir_len;
	dev_t dir_dev;
	ino_t dir_ino;
	unsigned dir_files;    /* that came there so far */
	enum unpack_turn turn; /* whose those files are */
};

int unpack_fail_archive(struct unpack *u); /* -1 */
void unpack_tell_progress(struct unpack *u);
/* What became of the entry: counted, told of, or (-1) the end of all. */
int unpack_settle(struct unpack *u, uint64_t index, const char *name, int r) _must_check_;

/* unpack_file.c: the plain file at u->path. 1: another thread does it; -1: all failed; -errno. */
int unpack_file(struct unpack *u, struct archive_entry *entry) _must_check_;
/* u->path is in or is another directory, and no file under way stands there. -1: all failed. */
int unpack_change_directory(struct unpack *u) _must_check_;
/* Every file begun anywhere is done and settled. -1: all failed. */
int unpack_leave_directory(struct unpack *u) _must_check_;

/* A file that is made at its name; of either thread. */
struct unpack_made {
	int dir_fd;
	const char *name;
	mode_t mode;
	struct timespec mtime;
};
int unpack_check_limits(struct unpack *u, uint64_t more) _must_check_;
/* What the last archive_read_data_block() said: 0, -errno of the entry, -1. */
int unpack_read_end(struct unpack *u, int r) _must_check_;
int unpack_publish(struct temp *temp, const struct unpack_made *made,
		   struct path_owner owner) _must_check_;

/*
 * unpack_thread.c: a second thread that makes small files, for they cost the kernel's time and
 * nothing else. 1: it has it; 0: the caller has to; -1: all failed.
 */
int unpack_side_give(struct unpack *u, struct archive_entry *entry,
		     const struct unpack_made *made) _must_check_;
bool unpack_side_is_in(dev_t dev, ino_t ino); /* it has files of that directory */
bool unpack_side_is_on(const char *path); /* it has the file at that path, or one it goes through */
bool unpack_side_is_idle(void);		  /* or will be soon */
int unpack_side_close(struct unpack *u, int fd) _must_check_; /* once it has done what it has */
int unpack_side_wait(struct unpack *u);			      /* all it has is done and settled */
int unpack_side_end(struct unpack *u) _must_check_;	      /* and the thread ended */

/* unpack_directory.c: the directory at u->path is there; its mode and time come in the end. */
int unpack_remember(struct unpack *u, struct archive_entry *entry, bool made);
void unpack_finish_directories(struct unpack *u);

#endif
