/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox between its parts and its first process. spawn.c gathers the parts and takes what came
 * of it, child.c is the process, nursery.c a second thread to wait for it in.
 */
#ifndef CAY_WARDEN_BIRTH_H
#define CAY_WARDEN_BIRTH_H

#include "warden/warden.h"

/* The warden's own, and those that another thread waits for. */
#define BIRTH_PLACES 4

struct birth {
	struct warden *w;
	unsigned slot;
	unsigned place; /* whose descriptors and stack it borrows: one birth at a time */
	const char *id;
	int userns_fd;
	struct netns net;
	int tell_fd; /* the agent's socket, by the child's number for it */
	struct cgroup_view view;
	bool is_copy; /* of a snapshot */
	int root_fd;  /* the overlay and what is mounted in it, still detached */
	int pid;      /* what came of it: the child, or -errno */
	int pidfd;
};

/* child.c. Returns when the agent runs, or failed to. */
void birth_clone(struct birth *b);

/* spawn.c: the slot's new state, and what goes to the daemon. */
int spawn_born(struct birth *b, int ret_fds[WARDEN_FDS_MAX]) _must_check_;

/*
 * nursery.c: a birth takes as long as everything else that a create needs, and most of it is the
 * child's own work. When something else waits for the warden, other threads wait for the children.
 */
int nursery_open(struct warden *w) _must_check_;
/* One that lives as long as the warden. */
int thread_start(void *(*run)(void *arg), void *arg) _must_check_;
/* Takes the birth and answers the request when it is over. Waits when all places are taken. */
void nursery_give(struct warden *w, const struct birth *b, const struct warden_request *req);
int nursery_fd(const struct warden *w);		     /* readable: somebody was born */
void nursery_look(struct warden *w);		     /* answers for those who were */
void nursery_settle(struct warden *w);		     /* waits for all others */
void nursery_wait(struct warden *w, const char *id); /* for this one, if it is there */

#endif
