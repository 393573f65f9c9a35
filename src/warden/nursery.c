/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread that waits for births, and does nothing else: it shares the warden's memory and
 * descriptors, so it touches only the birth it was given. A thread's credentials and namespaces are
 * its own in Linux; whatever the first thread enters for a moment, children are born at home.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "warden/birth.h"

#define THREAD_STACK_BYTES (64 * 1024)

struct nursery {
	struct birth birth;
	struct warden_request req; /* to be answered */
	bool busy;		   /* the first thread's: a birth was given and is not settled */
	sem_t given;
	int born_fd;
};

static void *wait_for_births(void *arg)
{
	struct nursery *n = arg;
	const uint64_t one = 1;

	for (;;) {
		while (sem_wait(&n->given) < 0)
			;
		birth_clone(&n->birth);
		if (write(n->born_fd, &one, sizeof(one)) != sizeof(one))
			abort(); /* nobody would ever hear of it */
	}
	return NULL;
}

int nursery_open(struct warden *w)
{
	struct nursery *n = calloc(1, sizeof(*n));
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	if (!n)
		return -ENOMEM;
	w->nursery = n;
	n->born_fd = eventfd(0, EFD_CLOEXEC);
	if (n->born_fd < 0 || sem_init(&n->given, 0, 0) < 0)
		return -errno;
	r = pthread_attr_init(&attr);
	if (r == 0)
		r = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (r == 0)
		r = pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
	if (r == 0)
		r = pthread_create(&thread, &attr, wait_for_births, n);
	(void)pthread_attr_destroy(&attr);
	return -r;
}

int nursery_fd(const struct warden *w)
{
	return w->nursery->born_fd;
}

bool nursery_has(const struct warden *w, const char *id)
{
	return w->nursery->busy && strcmp(w->nursery->req.id, id) == 0;
}

void nursery_give(struct warden *w, const struct birth *b, const struct warden_request *req)
{
	struct nursery *n = w->nursery;

	nursery_settle(w);
	n->birth = *b;
	n->req = *req;
	n->busy = true;
	if (sem_post(&n->given) < 0)
		abort();
}

void nursery_settle(struct warden *w)
{
	struct nursery *n = w->nursery;
	int fds[WARDEN_FDS_MAX] = { -1, -1 };
	uint64_t count;
	int r;

	if (!n || !n->busy)
		return;
	while (read(n->born_fd, &count, sizeof(count)) < 0)
		if (errno != EINTR)
			abort();
	n->busy = false; /* an answer that fails comes back here */
	r = spawn_born(&n->birth, fds);
	serve_created(w, &n->req, r, fds);
}
