/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warden's loop. Requests are served first; in between, dead slots are removed and stock is
 * refilled, one unit at a time.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "base/log.h"
#include "warden/copy/job.h"
#include "warden/net/links.h"
#include "warden/storage/space.h"

/* Background work waits for this long without a request, unless it is urgent ... */
#define QUIET_MS 4
#define JOB_MS 20 /* ... and for this long while a job runs, because its caller waits */
#define URGENT_DYING 64
#define SWEEP_RETRY_MS 20
#define SHRINK_LOOK_MS 500

static void on_connect(struct warden *w)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	int fd = accept4(w->listen_fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
	    (peer.uid != w->daemon_uid && peer.uid != 0)) {
		log_warn("a stranger (uid %u) knocked and was turned away", (unsigned)peer.uid);
		(void)close(fd);
		return;
	}
	serve_drop_client(w); /* one daemon at a time: the newer one is the restarted one */
	w->client_fd = fd;
}

static void on_signal(struct warden *w)
{
	struct signalfd_siginfo info;

	while (read(w->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			sweep_reap(w);
		else
			w->stopping = true;
	}
}

static unsigned count_dying(const struct warden *w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->slot_top; i++)
		n += w->rows[i].state == SLOT_DYING;
	return n;
}

/* Where the work between requests stands. */
struct background {
	bool quiet; /* no request for QUIET_MS: continue without waiting until one comes */
	bool stuck; /* what is dying is not dead yet: look again later */
};

/* Of two times to wait, of which -1 is for ever. */
static int sooner_ms(int a_ms, int b_ms)
{
	return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* How long poll may wait: work is urgent, or waits for a quiet moment, or there is none. */
static int patience(const struct warden *w, unsigned dying, const struct background *b)
{
	const struct stock *p = &w->stock;
	bool sweeping = dying && !b->stuck;

	if ((stock_wanted(w) && stock_left(w) <= p->target / 8) ||
	    (sweeping && dying > URGENT_DYING))
		return 0;
	if (stock_wanted(w) || sweeping)
		return b->quiet ? 0 : jobs_running(w) ? JOB_MS : QUIET_MS;
	if (dying)
		return SWEEP_RETRY_MS;
	return stock_grown(w) ? SHRINK_LOOK_MS : sooner_ms(limits_look_ms(w), space_look_ms(w));
}

static void work(struct warden *w, unsigned dying, struct background *b)
{
	b->quiet = true;
	if (dying)
		b->stuck = !sweep_step(w);
	if (stock_wanted(w))
		stock_step(w);
	else if (stock_grown(w))
		stock_shrink(w);
}

static void on_request(struct warden *w, unsigned dying, struct background *b)
{
	serve_client(w);
	b->quiet = b->stuck = false;
	/* A client that always has the next request ready must not starve the sweep: one goes for
	 * each that comes. */
	if (dying > URGENT_DYING)
		(void)!sweep_step(w);
}

int event_loop_run(struct warden *w)
{
	struct background background = { false, false };

	jobs_add_check(w);
	while (!w->stopping) {
		struct pollfd fds[] = { { w->client_fd, POLLIN, 0 },
					{ w->listen_fd, POLLIN, 0 },
					{ w->signal_fd, POLLIN, 0 },
					{ links_log_fd(w), POLLIN, 0 } };
		unsigned dying = count_dying(w);
		int wait_ms = patience(w, dying, &background);
		int sleep_ms = notify_sleep_ms(&w->notify, wait_ms);
		int n = poll(fds, ARRAY_LEN(fds), sleep_ms);

		notify_alive(&w->notify);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0 && fds[3].revents)
			links_on_log(w);
		if (n > 0 && fds[2].revents)
			on_signal(w);
		if (n > 0 && fds[1].revents)
			on_connect(w);
		if (n > 0 && fds[0].revents)
			on_request(w, dying, &background);
		if (n == 0 && sleep_ms == wait_ms)
			work(w, dying, &background);
		limits_look(w);
		space_look(w);
	}
	return 0;
}
