/* SPDX-License-Identifier: Apache-2.0 */
/* DNS over TCP for sandboxes: one question at a time on each connection. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "face/egress/private.h"
#include "net/dns.h"

#define IDLE_MS 10000
#define ASKERS_PER_SANDBOX 16 /* more are closed */

/* One connection. Owner: the face's table. */
struct asker {
	struct egress_face *face;
	slot_handle handle;
	uint32_t from;
	int fd;
	struct loop_watch *watch;
	int64_t due_ms;
	size_t have;
	bool asking; /* the next question is read after this reply */
	bool taking; /* next_question() is running and continues by itself */
	uint8_t bytes[2 + DNS_MESSAGE_MAX];
};

struct asker_ref {
	struct egress_face *face;
	slot_handle handle;
};

static void asker_free(struct asker *asker)
{
	(void)slot_take(&asker->face->askers, asker->handle);
	loop_watch_free(asker->watch);
	(void)close(asker->fd);
	free(asker);
}

static void asker_touch(struct asker *asker)
{
	asker->due_ms = loop_now_ms(asker->face->config.loop) + IDLE_MS;
}

static void next_question(struct asker *asker);

/* A reply is far smaller than a socket buffer: a peer that does not read is disconnected. */
static void answer(void *arg, const void *bytes, size_t size)
{
	const struct asker_ref *ref = arg;
	struct asker *asker = slot_get(&ref->face->askers, ref->handle);
	uint8_t whole[2 + DNS_MESSAGE_MAX];

	if (!asker)
		return;
	whole[0] = (uint8_t)(size >> 8);
	whole[1] = (uint8_t)size;
	memcpy(whole + 2, bytes, size);
	if (send(asker->fd, whole, size + 2, MSG_NOSIGNAL) != (ssize_t)(size + 2)) {
		asker_free(asker);
		return;
	}
	asker->asking = false;
	asker_touch(asker);
	if (loop_watch_set(asker->watch, LOOP_READ) < 0)
		asker_free(asker);
	else if (!asker->taking)
		next_question(asker); /* it may have arrived together with the previous one */
}

static void next_question(struct asker *asker)
{
	struct asker_ref ref = { asker->face, asker->handle };
	uint8_t question[DNS_MESSAGE_MAX];
	size_t size;

	while (asker && !asker->asking && asker->have >= 2) {
		size = (size_t)(asker->bytes[0] << 8 | asker->bytes[1]);
		if (size > DNS_MESSAGE_MAX || size == 0) {
			asker_free(asker);
			return;
		}
		if (asker->have < 2 + size)
			return;
		memcpy(question, asker->bytes + 2, size);
		asker->have -= 2 + size;
		memmove(asker->bytes, asker->bytes + 2 + size, asker->have);
		asker->asking = true;
		if (loop_watch_set(asker->watch, 0) < 0) {
			asker_free(asker);
			return;
		}
		asker->taking = true;
		resolver_ask(
			ref.face,
			&(struct resolver_query){ asker->from, question, size, DNS_MESSAGE_MAX },
			answer, &ref, sizeof(ref));
		asker = slot_get(&ref.face->askers, ref.handle);
		if (asker)
			asker->taking = false;
	}
}

static void on_bytes(void *arg, int events, int error)
{
	struct asker *asker = arg;
	ssize_t n =
		recv(asker->fd, asker->bytes + asker->have, sizeof(asker->bytes) - asker->have, 0);

	(void)events;
	if (error >= 0 && n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (error < 0 || n <= 0) {
		asker_free(asker);
		return;
	}
	asker->have += (size_t)n;
	asker_touch(asker);
	next_question(asker);
}

static unsigned askers_of(const struct egress_face *face, uint32_t from)
{
	const struct asker *asker;
	uint32_t cursor = 0;
	unsigned n = 0;

	while ((asker = slot_next(&face->askers, &cursor)))
		n += asker->from == from;
	return n;
}

static void asker_new(struct egress_face *face, int fd, uint32_t from)
{
	struct asker *asker = NULL;

	if (egress_find(face->config.service, from) && askers_of(face, from) < ASKERS_PER_SANDBOX)
		asker = calloc(1, sizeof(*asker));
	if (!asker) {
		(void)close(fd);
		return;
	}
	asker->face = face;
	asker->fd = fd;
	asker->from = from;
	asker_touch(asker);
	if (slot_put(&face->askers, asker, &asker->handle) < 0) {
		(void)close(fd);
		free(asker);
		return;
	}
	if (loop_watch_new(face->config.loop, fd, on_bytes, asker, &asker->watch) < 0 ||
	    loop_watch_set(asker->watch, LOOP_READ) < 0)
		asker_free(asker);
}

void dns_tcp_on_connection(void *arg, int events, int error)
{
	struct egress_face *face = arg;
	struct sockaddr_in from;
	socklen_t size = sizeof(from);
	int fd = accept4(face->dns_tcp_fd, (struct sockaddr *)&from, &size,
			 SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	(void)error;
	if (fd >= 0)
		asker_new(face, fd, ntohl(from.sin_addr.s_addr));
}

void dns_tcp_tick(struct egress_face *face)
{
	int64_t now_ms = loop_now_ms(face->config.loop);
	struct asker *asker;
	uint32_t cursor = 0;

	while ((asker = slot_next(&face->askers, &cursor)))
		if (asker->due_ms <= now_ms)
			asker_free(asker);
}

void dns_tcp_stop(struct egress_face *face)
{
	struct asker *asker;
	uint32_t cursor = 0;

	while ((asker = slot_next(&face->askers, &cursor)))
		asker_free(asker);
}
