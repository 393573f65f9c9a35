/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WARDEN_COPY_SNAPSHOT_H
#define CAY_WARDEN_COPY_SNAPSHOT_H

#include "warden/warden.h"

#define SNAPSHOT_DATA "data"	   /* the files, in the snapshot's directory */
#define SNAPSHOT_FLUSHED "flushed" /* taken only for what it does to the page cache */
#define SNAPSHOT_MANIFEST "manifest"
#define SNAPSHOT_ENGINE "native"
#define SNAPSHOT_NAME_SIZE 32 /* of an unfinished one */

/* The parameters of a job. */
struct snapshot_order {
	unsigned slot;
	uint64_t number; /* names what is unfinished */
	bool temporary;	 /* WARDEN_TEMPORARY: see temporary.c */
	bool memory;	 /* WARDEN_MEMORY: see checkpoint.c */
	char sandbox_id[WARDEN_ID_SIZE];
	char snapshot_id[WARDEN_ID_SIZE];
};

struct job_result;

/* Removes unfinished ones. Without btrfs there are no snapshots: w->snapshots_fd is then -1. */
int snapshot_open(struct warden *w) _must_check_;
bool snapshot_exists(const struct warden *w, const char *snapshot_id);
/* Names with a dot are unfinished ones. */
int snapshot_each(struct warden *w, int (*each)(void *arg, const char *name), void *arg);
int snapshot_delete(struct warden *w,
		    const char *snapshot_id) _must_check_; /* 0 when there is none */
void snapshot_clear(struct warden *w, const char *name);   /* what there is of this directory */
void snapshot_drop(struct warden *w, uint64_t number);	   /* what there is of an unfinished one */
/* Ends the hold of a snapshot, its own or one that died: the sandbox continues, unless it is
 * paused.
 */
void snapshot_thaw(struct warden *w, unsigned slot);

/* What its manifest says. */
int snapshot_read(struct warden *w, const char *snapshot_id, struct manifest *ret) _must_check_;
/* The memory in one that was looked at before: a directory. */
int snapshot_open_memory(struct warden *w, const char *snapshot_id) _must_check_;

/* In a job's process: stores the files of a slot as a snapshot; and back, as the slot's volume. */
int snapshot_take(struct warden *w, const struct snapshot_order *order,
		  struct job_result *result) _must_check_;
int snapshot_copy(struct warden *w, const struct snapshot_order *order,
		  struct job_result *result) _must_check_;
int snapshot_describe(const struct snapshot_order *order,
		      const uint8_t template_hash[WARDEN_HASH_SIZE], int data_fd,
		      struct manifest *ret) _must_check_;
/* Sealed, and on disk. */
int snapshot_write_manifest(struct warden *w, int dir_fd,
			    const struct manifest *manifest) _must_check_;
/* The overlay of a copy must not inherit the mark of an unclean unmount from its source. */
int snapshot_renew_work(struct warden *w, uint64_t volume) _must_check_;
/* Of an unfinished one, for its parts. */
int snapshot_make_directory(struct warden *w, const char *name) _must_check_;
int snapshot_open_below(int dir_fd, const char *name) _must_check_; /* a directory, no link */
void snapshot_name_unfinished(char dst[SNAPSHOT_NAME_SIZE], uint64_t number);
/* The files of a slot at one instant, during which it is stopped. */
struct snapshot_target {
	int dir_fd; /* where the copy goes */
	const char *name;
	const char *flushed; /* a name for what is taken only for what it does to the page cache */
	bool read_only;
};
int snapshot_take_data(struct warden *w, const struct snapshot_order *order,
		       const struct snapshot_target *target,
		       struct job_result *result) _must_check_;

/* temporary.c: snapshots for this connection only, known only in memory */
int temporary_open(struct warden *w) _must_check_;
int temporary_take(struct warden *w, const struct snapshot_order *order,
		   struct job_result *result) _must_check_; /* in a job's process */
int temporary_keep(struct warden *w, const struct snapshot_order *order,
		   bool memory) _must_check_; /* it was taken */
int temporary_open_memory(struct warden *w,
			  const char *snapshot_id) _must_check_; /* a directory; -ENODATA: none */
bool temporary_exists(const struct warden *w, const char *snapshot_id);
bool temporary_delete(struct warden *w, const char *snapshot_id); /* false: there is none */
void temporary_drop_all(struct warden *w);			  /* their client is gone */
/* As snapshot_copy(); -ENODATA when there is none of this name. */
int temporary_copy(struct warden *w, const struct snapshot_order *order,
		   struct job_result *result) _must_check_;
/* The same at once, for the last use: its files become the slot's volume. */
int temporary_use_up(struct warden *w, const struct snapshot_order *order,
		     struct job_result *result) _must_check_;

/* Only measures: the current size of a slot's files, and the quota's count. */
int snapshot_measure(struct warden *w, const struct snapshot_order *order,
		     struct job_result *result) _must_check_;

#endif
