/* SPDX-License-Identifier: Apache-2.0 */
#include "net/reach.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/str.h"
#include "net/address.h"

/*
 * Owner: the loop's worker during the lookup, then the caller of reach_start(), until done or
 * cancel.
 */
struct reach {
	struct reach *next; /* queue of lookups */
	struct loop *loop;
	char host[REACH_HOST_MAX + 1];
	char port[8];
	bool private_ok;
	bool looking;	/* the worker is using it */
	bool cancelled; /* free it when the worker has finished */
	int error;	/* of getaddrinfo() */
	struct addrinfo *list, *at;
	int fd;
	int why; /* error of the last address tried */
	struct loop_watch *watch;
	reach_fn done;
	void *arg;
};

static struct reach *waiting_first, *waiting_last;
static unsigned lookups;

static void reach_free(struct reach *reach)
{
	loop_watch_free(reach->watch);
	if (reach->fd >= 0)
		(void)close(reach->fd);
	if (reach->list)
		freeaddrinfo(reach->list);
	free(reach);
}

static void complete(struct reach *reach, int status)
{
	reach_fn done = reach->done;
	void *arg = reach->arg;
	int fd = -1;

	if (status == 0) {
		loop_watch_free(TAKE_PTR(reach->watch));
		fd = TAKE_FD(reach->fd);
	}
	reach_free(reach);
	done(arg, status, fd);
}

/* ---- connecting ---- */

static void try_next(struct reach *reach);

static void give_up_address(struct reach *reach, int error)
{
	reach->why = error;
	loop_watch_free(TAKE_PTR(reach->watch));
	if (reach->fd >= 0)
		(void)close(TAKE_FD(reach->fd));
}

static void on_writable(void *arg, int events, int error)
{
	struct reach *reach = arg;
	int so_error = 0;
	socklen_t len = sizeof(so_error);

	(void)events;
	if (error == 0 && getsockopt(reach->fd, SOL_SOCKET, SO_ERROR, &so_error, &len) < 0)
		error = -errno;
	if (error == 0)
		error = -so_error;
	if (error == 0) {
		complete(reach, 0);
		return;
	}
	give_up_address(reach, error);
	try_next(reach);
}

static int connect_to(struct reach *reach, const struct addrinfo *at)
{
	int one = 1, r;

	reach->fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (reach->fd < 0)
		return -errno;
	(void)setsockopt(reach->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(reach->fd, at->ai_addr, at->ai_addrlen) < 0 && errno != EINPROGRESS)
		return -errno;
	r = loop_watch_new(reach->loop, reach->fd, on_writable, reach, &reach->watch);
	return r < 0 ? r : loop_watch_set(reach->watch, LOOP_WRITE);
}

static void try_next(struct reach *reach)
{
	while (reach->at) {
		const struct addrinfo *at = reach->at;
		int r = -EPERM;

		reach->at = at->ai_next;
		if (reach->private_ok || (address_is_public(at->ai_addr) &&
					  !address_is_local(at->ai_addr, at->ai_addrlen)))
			r = connect_to(reach, at);
		if (r == 0)
			return;
		give_up_address(reach, r);
	}
	complete(reach, reach->why ? reach->why : -EHOSTUNREACH);
}

/* ---- name lookup ---- */

static void start_lookup(void);

static void look_up(void *arg)
{
	struct reach *reach = arg;
	struct addrinfo want = { .ai_family = AF_UNSPEC,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_NUMERICSERV };

	reach->error = getaddrinfo(reach->host, reach->port, &want, &reach->list);
}

static void on_looked_up(void *arg)
{
	struct reach *reach = arg;

	lookups--;
	start_lookup();
	reach->looking = false;
	if (reach->cancelled) {
		reach_free(reach);
		return;
	}
	if (reach->error) {
		reach->list = NULL;
		reach->why = -EHOSTUNREACH;
	}
	reach->at = reach->list;
	try_next(reach);
}

static void start_lookup(void)
{
	while (waiting_first && lookups < REACH_LOOKUPS_MAX) {
		struct reach *reach = waiting_first;

		waiting_first = reach->next;
		if (!waiting_first)
			waiting_last = NULL;
		reach->next = NULL;
		if (loop_work(reach->loop, look_up, on_looked_up, reach) == 0) {
			reach->looking = true;
			lookups++;
		} else { /* out of memory: retried when another lookup ends, or cancelled */
			reach->next = waiting_first;
			waiting_first = reach;
			if (!waiting_last)
				waiting_last = reach;
			return;
		}
	}
}

int reach_start(struct loop *loop, const char *host, uint16_t port, bool private_ok, reach_fn done,
		void *arg, struct reach **ret)
{
	struct reach *reach = calloc(1, sizeof(*reach));

	if (!reach)
		return -ENOMEM;
	*reach = (struct reach){
		.loop = loop, .private_ok = private_ok, .fd = -1, .done = done, .arg = arg
	};
	if (str_copy(reach->host, sizeof(reach->host), str_of(host)) < 0) {
		free(reach);
		return -EINVAL;
	}
	(void)snprintf(reach->port, sizeof(reach->port), "%u", (unsigned)port);
	if (waiting_last)
		waiting_last->next = reach;
	else
		waiting_first = reach;
	waiting_last = reach;
	start_lookup();
	*ret = reach;
	return 0;
}

static void forget_waiting(struct reach *reach)
{
	struct reach **at = &waiting_first, *last = NULL;

	while (*at) {
		if (*at == reach)
			*at = reach->next;
		else {
			last = *at;
			at = &(*at)->next;
		}
	}
	waiting_last = last;
}

void reach_cancel(struct reach *reach)
{
	forget_waiting(reach);
	if (reach->looking)
		reach->cancelled = true;
	else
		reach_free(reach);
}
