/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few threads that wait for births, and do nothing else: they share the warden's memory and
 * descriptors, so each touches only the birth it was given. A thread's credentials and namespaces
 * are its own in Linux; whatever the first thread enters for a moment, children are born at home.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "warden/birth.h"

#define BEDS (BIRTH_PLACES - 1)
#define THREAD_STACK_BYTES (64 * 1024)

struct bed {
	struct birth birth;
	struct warden_request req; /* to be answered */
	bool taken; /* the first thread's, as all but the birth while it is under way */
	atomic_bool born;
	sem_t given;
	int born_fd;
};

struct nursery {
	struct bed beds[BEDS];
	int born_fd;
};

static void *wait_for_births(void *arg)
{
	struct bed *bed = arg;
	const uint64_t one = 1;

	for (;;) {
		while (sem_wait(&bed->given) < 0)
			;
		birth_clone(&bed->birth);
		atomic_store(&bed->born, true);
		if (write(bed->born_fd, &one, sizeof(one)) != sizeof(one))
			abort(); /* nobody would ever hear of it */
	}
	return NULL;
}

int thread_start(void *(*run)(void *arg), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r = pthread_attr_init(&attr);

	if (r == 0)
		r = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (r == 0)
		r = pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
	if (r == 0)
		r = pthread_create(&thread, &attr, run, arg);
	(void)pthread_attr_destroy(&attr);
	return -r;
}

int nursery_open(struct warden *w)
{
	struct nursery *n = calloc(1, sizeof(*n));
	int r = 0;

	if (!n)
		return -ENOMEM;
	w->nursery = n;
	n->born_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (n->born_fd < 0)
		return -errno;
	for (size_t i = 0; r >= 0 && i < BEDS; i++) {
		n->beds[i].born_fd = n->born_fd;
		if (sem_init(&n->beds[i].given, 0, 0) < 0)
			return -errno;
		r = thread_start(wait_for_births, &n->beds[i]);
	}
	return r;
}

int nursery_fd(const struct warden *w)
{
	return w->nursery->born_fd;
}

static void leave(struct warden *w, struct bed *bed)
{
	int fds[WARDEN_FDS_MAX] = { -1, -1 };
	struct warden_request req = bed->req;
	int r = spawn_born(&bed->birth, fds);

	bed->taken = false; /* before the answer: one that fails settles all others */
	serve_created(w, &req, r, fds);
}

static bool look(struct warden *w)
{
	struct nursery *n = w->nursery;
	bool found = false;
	uint64_t count;

	if (read(n->born_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		abort();
	for (size_t i = 0; i < BEDS; i++)
		if (n->beds[i].taken && atomic_load(&n->beds[i].born)) {
			leave(w, &n->beds[i]);
			found = true;
		}
	return found;
}

void nursery_look(struct warden *w)
{
	(void)look(w);
}

/* Looks before it waits: an answer that fails comes here in the middle of a look. */
static void wait_for_one(struct warden *w)
{
	struct pollfd fd = { w->nursery->born_fd, POLLIN, 0 };

	if (!look(w))
		(void)!poll(&fd, 1, -1);
}

static struct bed *empty_bed(struct nursery *n)
{
	for (size_t i = 0; i < BEDS; i++)
		if (!n->beds[i].taken)
			return &n->beds[i];
	return NULL;
}

void nursery_give(struct warden *w, const struct birth *b, const struct warden_request *req)
{
	struct nursery *n = w->nursery;
	struct bed *bed;

	while (!(bed = empty_bed(n)))
		wait_for_one(w);
	bed->birth = *b;
	bed->birth.place = (unsigned)(bed - n->beds) + 1;
	bed->req = *req;
	bed->taken = true;
	atomic_store(&bed->born, false);
	if (sem_post(&bed->given) < 0)
		abort();
}

void nursery_settle(struct warden *w)
{
	for (size_t i = 0; w->nursery && i < BEDS; i++)
		while (w->nursery->beds[i].taken)
			wait_for_one(w);
}

void nursery_wait(struct warden *w, const char *id)
{
	for (size_t i = 0; i < BEDS; i++) {
		struct bed *bed = &w->nursery->beds[i];

		while (bed->taken && strcmp(bed->req.id, id) == 0)
			wait_for_one(w);
	}
}
