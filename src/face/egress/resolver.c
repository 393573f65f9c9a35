/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver of sandboxes. Only names that the policy allows are looked up outside, and only
 * their IPv4 addresses, in questions of our own: a sandbox can send out nothing but the choice
 * among allowed names. Answers are parsed, checked and serialized again. Every question has its own
 * socket, port and id. Refused names resolve to the sink (service/network/egress_sink.c), where the
 * proxy explains the refusal; whether they exist is never looked up.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/value/ipv4.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "face/egress/private.h"
#include "net/dns.h"

#define ASK_MS 2000
#define ASK_TRIES 3
#define QUESTIONS_PER_TURN 64
/* maximum that sandboxes get, so that a changed policy or address is soon noticed */
#define TTL_MAX_SEC 300
#define SINK_TTL_SEC 1 /* a name that is allowed soon afterwards then resolves */
#define ARG_MAX 64

/* One question in progress. Owner: the face's table. */
struct lookup {
	struct egress_face *face;
	slot_handle handle;
	slot_handle sandbox;
	uint32_t from;
	struct dns_question question;
	size_t room;
	resolver_answer_fn answer;
	_Alignas(8) uint8_t arg[ARG_MAX];
	int fd;
	struct loop_watch *watch;
	struct loop_timer *timer;
	uint16_t id;
	unsigned tries;
	bool by_tcp;
	uint8_t *stream; /* of an answer over TCP */
	size_t have;
};

static void close_socket(struct lookup *lookup)
{
	loop_watch_free(lookup->watch);
	lookup->watch = NULL;
	if (lookup->fd >= 0)
		(void)close(TAKE_FD(lookup->fd));
}

static void lookup_free(struct lookup *lookup)
{
	(void)slot_take(&lookup->face->lookups, lookup->handle);
	close_socket(lookup);
	loop_timer_free(lookup->timer);
	free(lookup->stream);
	free(lookup);
}

static void reply_to(const struct dns_question *question, const struct dns_reply *reply,
		     size_t room, resolver_answer_fn answer, void *arg)
{
	uint8_t bytes[DNS_MESSAGE_MAX];
	size_t n = dns_reply_write(question, reply, bytes, MIN(room, sizeof(bytes)));

	if (n)
		answer(arg, bytes, n);
}

static void finish(struct lookup *lookup, const struct dns_reply *reply)
{
	reply_to(&lookup->question, reply, lookup->room, lookup->answer, lookup->arg);
	lookup_free(lookup);
}

/* ---- answers from outside ---- */

/*
 * A name that leads to the host or a private network is a rebinding: such addresses are left out.
 */
static void keep_allowed(const struct sandbox *sandbox, struct dns_reply *reply)
{
	size_t kept = 0;

	for (size_t i = 0; i < reply->count; i++)
		if (egress_answer_passes(sandbox, reply->addresses[i]))
			reply->addresses[kept++] = reply->addresses[i];
	reply->count = kept;
}

static void note_rebound(struct sandbox *sandbox, const struct lookup *lookup, uint32_t address)
{
	struct egress_ask ask = { .protocol = EGRESS_DNS,
				  .address = address,
				  .name = str_of(lookup->question.name) };
	struct egress_verdict verdict = { .why = ipv4_class(address) == IPV4_NEVER
							 ? EGRESS_HOST
							 : EGRESS_PRIVATE };

	egress_note(sandbox, &ask, &verdict);
}

static void answered(struct lookup *lookup, struct dns_reply *reply)
{
	struct sandbox *sandbox = egress_find(lookup->face->config.service, lookup->from);
	uint32_t first = reply->count ? reply->addresses[0] : 0;
	size_t all = reply->count;

	if (!sandbox || egress_handle(sandbox) != lookup->sandbox) {
		lookup_free(lookup);
		return;
	}
	keep_allowed(sandbox, reply);
	if (reply->count < all && reply->count == 0) {
		note_rebound(sandbox, lookup, first);
		reply->code = DNS_NXDOMAIN;
		reply->why = "cay: the name leads to private addresses only";
	}
	for (size_t i = 0; i < reply->count; i++)
		egress_pin(sandbox, str_of(lookup->question.name), reply->addresses[i],
			   reply->ttl_sec);
	reply->ttl_sec = MIN(reply->ttl_sec, TTL_MAX_SEC);
	finish(lookup, reply);
}

static void ask_server(struct lookup *lookup);

static void try_next(struct lookup *lookup)
{
	static const struct dns_reply failed = { .code = DNS_SERVFAIL };

	close_socket(lookup);
	lookup->by_tcp = false;
	if (++lookup->tries < ASK_TRIES)
		ask_server(lookup);
	else
		finish(lookup, &failed);
}

static void on_timeout(void *arg)
{
	try_next(arg);
}

static void on_datagram(struct lookup *lookup)
{
	uint8_t bytes[DNS_MESSAGE_MAX];
	ssize_t n = recv(lookup->fd, bytes, sizeof(bytes), 0);
	struct dns_reply reply;
	int r;

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			try_next(lookup);
		return;
	}
	r = dns_answer_read(bytes, (size_t)n, lookup->id, lookup->question.name, &reply);
	if (r == -EMSGSIZE) {
		close_socket(lookup);
		lookup->by_tcp = true;
		ask_server(lookup);
	} else if (r == 0 && reply.code == DNS_SERVFAIL) {
		try_next(lookup);
	} else if (r == 0) {
		answered(lookup, &reply);
	} /* otherwise not an answer to this question: a guess; the real one may still arrive */
}

static int send_stream(struct lookup *lookup)
{
	uint8_t bytes[2 + 512];
	size_t n = dns_ask_write(lookup->id, lookup->question.name, bytes + 2, sizeof(bytes) - 2);

	bytes[0] = (uint8_t)(n >> 8);
	bytes[1] = (uint8_t)n;
	lookup->stream = malloc(2 + DNS_MESSAGE_MAX);
	if (!n || !lookup->stream)
		return -ENOMEM;
	if (send(lookup->fd, bytes, n + 2, MSG_NOSIGNAL) != (ssize_t)(n + 2))
		return -EIO;
	return loop_watch_set(lookup->watch, LOOP_READ);
}

static void on_stream(struct lookup *lookup)
{
	struct dns_reply reply;
	size_t size;
	ssize_t n;

	if (!lookup->stream) {
		if (send_stream(lookup) < 0)
			try_next(lookup);
		return;
	}
	n = recv(lookup->fd, lookup->stream + lookup->have, 2 + DNS_MESSAGE_MAX - lookup->have, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		lookup->have += (size_t)n;
	size = lookup->have < 2 ? DNS_MESSAGE_MAX + 1
				: (size_t)(lookup->stream[0] << 8 | lookup->stream[1]);
	if (n > 0 && (lookup->have < 2 || (size <= DNS_MESSAGE_MAX && lookup->have < 2 + size)))
		return;
	if (n > 0 && size <= DNS_MESSAGE_MAX &&
	    dns_answer_read(lookup->stream + 2, size, lookup->id, lookup->question.name, &reply) ==
		    0)
		answered(lookup, &reply);
	else
		try_next(lookup);
}

static void on_server(void *arg, int events, int error)
{
	struct lookup *lookup = arg;

	(void)events;
	if (error < 0)
		try_next(lookup);
	else if (lookup->by_tcp)
		on_stream(lookup);
	else
		on_datagram(lookup);
}

/* ---- questions outside ---- */

static int open_socket(struct lookup *lookup)
{
	const struct egress_face *face = lookup->face;
	const struct sockaddr_in *server = &face->servers[lookup->tries % face->server_count];
	int type = lookup->by_tcp ? SOCK_STREAM : SOCK_DGRAM;
	uint8_t bytes[512];
	size_t n;
	int r;

	free(TAKE_PTR(lookup->stream));
	lookup->have = 0;
	rand_bytes(&lookup->id, sizeof(lookup->id));
	/* The kernel chooses a random port for each. */
	lookup->fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (lookup->fd < 0)
		return -errno;
	if (connect(lookup->fd, (const struct sockaddr *)server, sizeof(*server)) < 0 &&
	    errno != EINPROGRESS)
		return -errno;
	r = loop_watch_new(face->config.loop, lookup->fd, on_server, lookup, &lookup->watch);
	if (r < 0 || lookup->by_tcp)
		return r < 0 ? r : loop_watch_set(lookup->watch, LOOP_WRITE);
	n = dns_ask_write(lookup->id, lookup->question.name, bytes, sizeof(bytes));
	if (!n || send(lookup->fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
		return -EIO;
	return loop_watch_set(lookup->watch, LOOP_READ);
}

/*
 * A server that cannot be asked at all is left to the timer, so that the result never comes from
 * inside the call.
 */
static void ask_server(struct lookup *lookup)
{
	int r = lookup->face->server_count ? open_socket(lookup) : -EHOSTUNREACH;

	if (r < 0)
		close_socket(lookup);
	loop_timer_set(lookup->timer, r < 0 ? 0 : ASK_MS, 0);
}

static unsigned lookups_of(const struct egress_face *face, uint32_t from)
{
	const struct lookup *lookup;
	uint32_t cursor = 0;
	unsigned n = 0;

	while ((lookup = slot_next(&face->lookups, &cursor)))
		n += lookup->from == from;
	return n;
}

static struct lookup *lookup_new(struct egress_face *face, uint32_t from, slot_handle sandbox)
{
	struct lookup *lookup;

	if (lookups_of(face, from) >= LOOKUPS_PER_SANDBOX)
		return NULL;
	lookup = calloc(1, sizeof(*lookup));
	if (!lookup)
		return NULL;
	lookup->face = face;
	lookup->from = from;
	lookup->sandbox = sandbox;
	lookup->fd = -1;
	if (slot_put(&face->lookups, lookup, &lookup->handle) < 0) {
		free(lookup);
		return NULL;
	}
	if (loop_timer_new(face->config.loop, on_timeout, lookup, &lookup->timer) < 0) {
		lookup_free(lookup);
		return NULL;
	}
	return lookup;
}

/* ---- questions of sandboxes ---- */

static bool is_reverse(const char *name)
{
	struct str s = str_of(name);

	return s.n > 5 && strcmp(name + s.n - 5, ".arpa") == 0;
}

static enum egress_question kind_of(const struct dns_question *question)
{
	return question->type == DNS_A	    ? EGRESS_ASKS_A
	       : question->type == DNS_AAAA ? EGRESS_ASKS_AAAA
					    : EGRESS_ASKS_OTHER;
}

/* For the sandbox the name exists and has one address. */
static void lead_to_sink(const struct sandbox *sandbox, const struct dns_question *question,
			 const struct egress_verdict *verdict, struct dns_reply *reply)
{
	uint32_t sink = egress_sink(sandbox);

	if (verdict->why == EGRESS_BAD_NAME || !sink) {
		reply->code = DNS_NXDOMAIN;
		return;
	}
	if (question->type != DNS_A)
		return;
	reply->addresses[0] = sink;
	reply->count = 1;
	reply->ttl_sec = SINK_TTL_SEC;
}

/* Programs look up the names of addresses automatically: nothing to report. */
static bool refused(struct sandbox *sandbox, const struct dns_question *question,
		    struct dns_reply *reply, char *why, size_t why_size)
{
	struct egress_ask ask = { .protocol = EGRESS_DNS, .name = str_of(question->name) };
	char name[EGRESS_NAME_MAX + 1], hint[EGRESS_NAME_MAX + 128];
	struct egress_verdict verdict;

	if (is_reverse(question->name)) {
		reply->code = DNS_NXDOMAIN;
		return true;
	}
	if (egress_name_parse(str_of(question->name), name) < 0)
		verdict = (struct egress_verdict){ .why = EGRESS_BAD_NAME };
	else
		egress_judge(sandbox, &ask, &verdict);
	if (verdict.why == EGRESS_ALLOWED)
		return false;
	if (egress_passes(&verdict) || verdict.why == EGRESS_BAD_NAME ||
	    egress_sink_asked(sandbox, ask.name, kind_of(question)))
		egress_note(sandbox, &ask, &verdict);
	if (egress_passes(&verdict))
		return false;
	egress_explain(sandbox, &ask, &verdict, hint, sizeof(hint));
	(void)snprintf(why, why_size, "cay: %s; %s", egress_why_name(verdict.why), hint);
	reply->why = why;
	lead_to_sink(sandbox, question, &verdict, reply);
	return true;
}

/* Answers without asking a server, if possible; false: ask. */
static bool answer_here(struct sandbox *sandbox, const struct dns_question *question, int code,
			struct dns_reply *reply, char *why, size_t why_size)
{
	*reply = (struct dns_reply){ .code = DNS_NOERROR };
	if (code != DNS_NOERROR) {
		reply->code = (enum dns_code)code;
		return true;
	}
	if (refused(sandbox, question, reply, why, why_size))
		return true;
	/*
	 * There is no IPv6 inside, and other record types are not supported: the name exists,
	 * without them.
	 */
	return question->type != DNS_A;
}

void resolver_ask(struct egress_face *face, const struct resolver_query *query,
		  resolver_answer_fn answer, void *arg, size_t arg_size)
{
	struct sandbox *sandbox = egress_find(face->config.service, query->from);
	size_t room = query->answer_max;
	char why[EGRESS_NAME_MAX + 160];
	struct dns_question question;
	struct dns_reply reply;
	struct lookup *lookup;
	int code = dns_question_read(query->bytes, query->size, &question);

	if (!sandbox || code < 0 || arg_size > ARG_MAX)
		return;
	if (!room)
		room = MIN(MAX(question.udp_size, 512), DNS_UDP_SIZE);
	if (answer_here(sandbox, &question, code, &reply, why, sizeof(why))) {
		reply_to(&question, &reply, room, answer, arg);
		return;
	}
	lookup = lookup_new(face, query->from, egress_handle(sandbox));
	if (!lookup) {
		reply.code = DNS_SERVFAIL;
		reply_to(&question, &reply, room, answer, arg);
		return;
	}
	lookup->question = question;
	lookup->room = room;
	lookup->answer = answer;
	memcpy(lookup->arg, arg, arg_size);
	ask_server(lookup);
}

struct datagram_peer {
	struct egress_face *face;
	struct sockaddr_in from;
};

static void answer_datagram(void *arg, const void *bytes, size_t size)
{
	const struct datagram_peer *peer = arg;

	if (peer->face->dns_fd >= 0)
		(void)!sendto(peer->face->dns_fd, bytes, size, MSG_NOSIGNAL,
			      (const struct sockaddr *)&peer->from, sizeof(peer->from));
}

void resolver_on_question(void *arg, int events, int error)
{
	struct egress_face *face = arg;

	(void)events;
	(void)error;
	for (int i = 0; i < QUESTIONS_PER_TURN; i++) {
		struct datagram_peer peer = { .face = face };
		socklen_t length = sizeof(peer.from);
		ssize_t n = recvfrom(face->dns_fd, face->scratch, sizeof(face->scratch), 0,
				     (struct sockaddr *)&peer.from, &length);

		if (n < 0)
			return;
		resolver_ask(face,
			     &(struct resolver_query){ .from = ntohl(peer.from.sin_addr.s_addr),
						       .bytes = face->scratch,
						       .size = (size_t)n },
			     answer_datagram, &peer, sizeof(peer));
	}
}

void resolver_stop(struct egress_face *face)
{
	struct lookup *lookup;
	uint32_t cursor = 0;

	while ((lookup = slot_next(&face->lookups, &cursor)))
		lookup_free(lookup);
}
