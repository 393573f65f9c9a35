/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS for programs without a loop. A thread with its own loop serves each connection until its
 * plain end is closed. The next dial, or tls_dial_settle(), joins threads that have ended.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

#include "net/tls.h"

/* Owner: the list; while the thread runs, only the thread uses it. */
struct dialled {
	struct dialled *next;
	struct loop *loop;
	struct tls *tls;
	pthread_t thread;
	int tell_fd; /* sends status, then descriptor, to the waiting caller */
	bool ended;  /* under the lock */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t one_ended = PTHREAD_COND_INITIALIZER;
static struct dialled *list;

static void dialled_free(struct dialled *dialled)
{
	tls_free(dialled->tls);
	loop_free(dialled->loop);
	if (dialled->tell_fd >= 0)
		(void)close(dialled->tell_fd);
	free(dialled);
}

/* The caller holds the lock. */
static void join_ended(void)
{
	for (struct dialled **at = &list; *at;) {
		struct dialled *dialled = *at;

		if (!dialled->ended) {
			at = &dialled->next;
			continue;
		}
		*at = dialled->next;
		(void)pthread_join(dialled->thread, NULL);
		dialled_free(dialled);
	}
}

static void on_dialled(void *arg, int status, int fd)
{
	struct dialled *dialled = arg;
	int answer[2] = { status, fd };

	(void)!write(dialled->tell_fd, answer, sizeof(answer));
}

static void *serve(void *arg)
{
	struct dialled *dialled = arg;

	while (tls_count(dialled->tls))
		loop_turn(dialled->loop, -1);
	(void)pthread_mutex_lock(&lock);
	dialled->ended = true;
	(void)pthread_cond_broadcast(&one_ended);
	(void)pthread_mutex_unlock(&lock);
	return NULL;
}

static int start(struct dialled *dialled, struct tls_ctx *ctx, int fd, const char *name)
{
	int r = loop_new(&dialled->loop);

	if (r == 0)
		r = tls_new(dialled->loop, 1, &dialled->tls);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	r = tls_connect(dialled->tls, ctx, fd, name, on_dialled, dialled, NULL);
	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&lock);
	join_ended();
	r = -pthread_create(&dialled->thread, NULL, serve, dialled);
	if (r == 0) {
		dialled->next = list;
		list = dialled;
	}
	(void)pthread_mutex_unlock(&lock);
	return r;
}

int tls_dial(struct tls_ctx *ctx, int fd, const char *server_name, int *ret_fd)
{
	struct dialled *dialled = calloc(1, sizeof(*dialled));
	int tell[2], answer[2], r;
	ssize_t n;

	if (!dialled || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, tell) < 0) {
		r = -errno;
		free(dialled);
		(void)close(fd);
		return r;
	}
	dialled->tell_fd = tell[1];
	r = start(dialled, ctx, fd, server_name);
	if (r < 0) {
		(void)close(tell[0]);
		dialled_free(dialled);
		return r;
	}
	do
		n = read(tell[0], answer, sizeof(answer));
	while (n < 0 && errno == EINTR);
	(void)close(tell[0]);
	if (n != sizeof(answer))
		return -ECONNRESET;
	if (answer[0] == 0)
		*ret_fd = answer[1];
	return answer[0];
}

void tls_dial_settle(int ms)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	(void)pthread_mutex_lock(&lock);
	for (join_ended(); list; join_ended())
		if (pthread_cond_timedwait(&one_ended, &lock, &until) != 0)
			break;
	join_ended();
	(void)pthread_mutex_unlock(&lock);
}
