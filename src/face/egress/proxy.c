/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every TCP connection of a sandbox ends here, wherever it was meant to go. Its first bytes say
 * what it is; the policy decides; then it is connected from the host's side and passed on both
 * ways, or refused so that its program can tell why. The state of one:
 *
 *   RELAY_LISTEN   its first bytes are awaited (hearing.h)
 *   RELAY_CONNECT  allowed; the other side is being connected
 *   RELAY_PASS     bytes go both ways (relay.c)
 *   RELAY_REFUSE   an answer was written; what it still sends is thrown away for a moment
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "face/kit/refusal.h"
#include "face/egress/relay.h"
#include "net/address.h"

#define CONNECT_MS 15000
#define REFUSE_MS 2000

static void on_out(void *arg, int events, int error);

/* Until it is due; 0: never. */
static void relay_time(struct relay *relay, int64_t ms)
{
	relay->due_ms = ms ? loop_now_ms(relay->face->config.loop) + ms : 0;
	if (ms && ms <= 1000)
		loop_timer_set(relay->timer, ms, 0);
}

void relay_free(struct relay *relay)
{
	(void)slot_take(&relay->face->relays, relay->handle);
	relay_unqueue(relay);
	loop_watch_free(relay->in.watch);
	loop_watch_free(relay->out.watch);
	loop_timer_free(relay->timer);
	if (relay->in.fd >= 0)
		(void)close(relay->in.fd);
	if (relay->out.fd >= 0)
		(void)close(relay->out.fd);
	buf_done(&relay->held);
	buf_done(&relay->in.ahead);
	buf_done(&relay->out.ahead);
	free(relay);
}

/* Ends with a reset, immediately. */
void relay_reset(struct relay *relay)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	(void)setsockopt(relay->in.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	if (relay->out.fd >= 0)
		(void)setsockopt(relay->out.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	relay_free(relay);
}

struct sandbox *relay_sandbox(const struct relay *relay)
{
	struct sandbox *sandbox = egress_find(relay->face->config.service, relay->from);

	/* Another sandbox may have the address by now. */
	return sandbox && egress_handle(sandbox) == relay->sandbox ? sandbox : NULL;
}

/* ---- refusing ---- */

/* An HTTP client gets an HTTP reply. */
static void answer_http(struct relay *relay, const struct buf *answer, int r)
{
	if (r == 0)
		(void)!send(relay->in.fd, buf_str(answer).p, buf_len(answer), MSG_NOSIGNAL);
}

/* After the reply: closing with unread bytes would reset the connection and discard the reply. */
static void linger(struct relay *relay)
{
	relay->state = RELAY_REFUSE;
	(void)shutdown(relay->in.fd, SHUT_WR);
	if (loop_watch_set(relay->in.watch, LOOP_READ) < 0)
		relay_free(relay);
	else
		relay_time(relay, REFUSE_MS);
}

static void drop_out(struct relay *relay)
{
	loop_watch_free(TAKE_PTR(relay->out.watch));
	if (relay->out.fd >= 0)
		(void)close(TAKE_FD(relay->out.fd));
}

void relay_cut(struct relay *relay)
{
	relay->cut = relay->in.ended = true;
	relay_time(relay, REFUSE_MS);
}

void relay_refuse(struct relay *relay, struct sandbox *sandbox,
		  const struct egress_verdict *verdict)
{
	static const uint8_t alert[] = { 21, 3, 3, 0, 2, 2, 49 }; /* fatal, access denied */
	struct buf answer;

	drop_out(relay);
	egress_note(sandbox, &relay->ask, verdict);
	if (relay->ask.protocol == EGRESS_HTTP) {
		buf_init(&answer, REFUSAL_MAX);
		answer_http(relay, &answer, refusal_denied(sandbox, &relay->ask, verdict, &answer));
		buf_done(&answer);
		linger(relay);
	} else if (relay->ask.protocol == EGRESS_TLS) {
		(void)!send(relay->in.fd, alert, sizeof(alert), MSG_NOSIGNAL);
		linger(relay);
	} else {
		relay_reset(relay);
	}
}

/* ---- connecting ---- */

static void unreachable(struct relay *relay, int error)
{
	struct sandbox *sandbox = relay_sandbox(relay);
	struct buf answer;

	if (!sandbox || relay->ask.protocol != EGRESS_HTTP) {
		relay_reset(relay);
		return;
	}
	buf_init(&answer, REFUSAL_MAX);
	answer_http(relay, &answer, refusal_unreachable(sandbox, &relay->ask, error, &answer));
	buf_done(&answer);
	linger(relay);
}

static int start_connect(struct relay *relay)
{
	struct sockaddr_in to = egress_sockaddr(relay->ask.address, relay->ask.port);
	int one = 1;

	relay->out.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (relay->out.fd < 0)
		return -errno;
	(void)setsockopt(relay->out.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(relay->out.fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	if (connect(relay->out.fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
		return -errno;
	return 0;
}

static void connect_out(struct relay *relay)
{
	int r = start_connect(relay);

	if (r < 0) {
		unreachable(relay, -r);
		return;
	}
	relay->state = RELAY_CONNECT;
	relay_time(relay, CONNECT_MS);
	if (loop_watch_set(relay->in.watch, 0) < 0 ||
	    loop_watch_new(relay->face->config.loop, relay->out.fd, on_out, relay,
			   &relay->out.watch) < 0 ||
	    loop_watch_set(relay->out.watch, LOOP_WRITE) < 0)
		relay_reset(relay);
}

/* ---- deciding ---- */

bool relay_is_local(uint32_t address)
{
	struct sockaddr_in to = egress_sockaddr(address, 9);

	return address_is_local((struct sockaddr *)&to, sizeof(to));
}

bool relay_intercepted(struct relay *relay, struct sandbox *sandbox,
		       const struct egress_verdict *verdict, struct str read)
{
	const struct egress_config *config = &relay->face->config;

	if (!config->intercept)
		return false;
	loop_watch_free(relay->in.watch);
	relay->in.watch = NULL;
	if (config->intercept(config->intercept_arg, sandbox, &relay->ask, verdict, relay->in.fd,
			      read) == 1) {
		relay->in.fd = -1;
		relay_free(relay);
		return true;
	}
	if (loop_watch_new(config->loop, relay->in.fd, relay_on_in, relay, &relay->in.watch) == 0)
		return false;
	relay_free(relay);
	return true;
}

void relay_judge(struct relay *relay, struct sandbox *sandbox, struct egress_verdict *ret)
{
	relay->version = egress_version(sandbox);
	relay->said = relay->hearing.said;
	relay->ask.protocol = relay->said.protocol;
	relay->ask.name = str_of(relay->said.name);
	egress_judge(sandbox, &relay->ask, ret);
	if (relay->said.odd && ret->why != EGRESS_DENIED &&
	    (ret->why != EGRESS_ALLOWED || egress_needs_name(sandbox, &relay->ask)))
		ret->why = EGRESS_BAD_NAME;
}

void relay_settle(struct relay *relay, struct sandbox *sandbox,
		  const struct egress_verdict *verdict)
{
	bool named = egress_needs_name(sandbox, &relay->ask);

	if (verdict->why == EGRESS_LEARNED)
		egress_note(sandbox, &relay->ask, verdict);
	relay->checked = relay->ask.protocol == EGRESS_HTTP && named;
	relay->turns =
		relay->ask.protocol == EGRESS_TCP && named && relay->hearing.state == HEARING_SAID;
}

static void relay_decide(struct relay *relay)
{
	struct sandbox *sandbox = relay_sandbox(relay);
	struct egress_verdict verdict;

	if (!sandbox) {
		relay_reset(relay);
		return;
	}
	relay_judge(relay, sandbox, &verdict);
	if (relay_intercepted(relay, sandbox, &verdict, buf_str(&relay->in.ahead)))
		return;
	if (!egress_passes(&verdict)) {
		relay_refuse(relay, sandbox, &verdict);
		return;
	}
	relay_settle(relay, sandbox, &verdict);
	connect_out(relay);
}

void relay_listen(struct relay *relay)
{
	int64_t left_ms = relay->hearing.due_ms - loop_now_ms(relay->face->config.loop);

	if (relay->hearing.state == HEARING_SAID || relay->hearing.state == HEARING_SILENT)
		relay_decide(relay);
	else
		relay_time(relay, MAX(left_ms, 1));
}

/* The bytes stay in the socket until enough have arrived; they are then read once, into `ahead`. */
static void on_first_bytes(struct relay *relay)
{
	char *at;
	ssize_t n;

	if (buf_reserve(&relay->in.ahead, SNIFF_MAX - buf_len(&relay->in.ahead), &at) < 0) {
		relay_reset(relay);
		return;
	}
	n = recv(relay->in.fd, at, SNIFF_MAX - buf_len(&relay->in.ahead), 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		relay_free(relay);
		return;
	}
	if (n == 0) {
		relay->in.ended = true;
		if (buf_len(&relay->in.ahead) == 0) {
			relay_free(relay); /* opened and closed without a request */
			return;
		}
	}
	buf_commit(&relay->in.ahead, (size_t)n);
	hearing_bytes(&relay->hearing, buf_data(&relay->in.ahead), buf_len(&relay->in.ahead),
		      n == 0, loop_now_ms(relay->face->config.loop));
	relay_listen(relay);
}

/* ---- events ---- */

void relay_on_in(void *arg, int events, int error)
{
	struct relay *relay = arg;

	(void)events;
	if (error < 0) {
		relay_reset(relay);
		return;
	}
	switch (relay->state) {
	case RELAY_LISTEN:
		on_first_bytes(relay);
		break;
	case RELAY_REFUSE:
		if (recv(relay->in.fd, relay->face->scratch, sizeof(relay->face->scratch), 0) <= 0)
			relay_free(relay);
		break;
	case RELAY_CONNECT:
		break;
	case RELAY_PASS:
		relay_ready(relay);
		break;
	}
}

/* The bytes that were read for the decision are relayed first. */
static void begin(struct relay *relay)
{
	bool ended = relay->in.ended;

	if (relay->checked) {
		relay->held = relay->in.ahead;
		buf_init(&relay->in.ahead, RELAY_AHEAD_MAX);
		relay->in.ended = false;
		if (relay_check(relay) < 0)
			return;
		relay->in.ended = relay->in.ended || ended;
	}
	relay_pass(relay);
}

static void on_out(void *arg, int events, int error)
{
	struct relay *relay = arg;
	socklen_t size = sizeof(int);
	int failed = 0;

	(void)events;
	if (relay->state == RELAY_PASS) {
		if (error < 0)
			relay_reset(relay);
		else
			relay_ready(relay);
		return;
	}
	if (getsockopt(relay->out.fd, SOL_SOCKET, SO_ERROR, &failed, &size) < 0 || failed) {
		unreachable(relay, failed ? failed : EIO);
		return;
	}
	relay->state = RELAY_PASS;
	relay_time(relay, 0);
	begin(relay);
}

static void on_due(struct relay *relay)
{
	relay->due_ms = 0;
	switch (relay->state) {
	case RELAY_LISTEN:
		hearing_time(&relay->hearing, loop_now_ms(relay->face->config.loop));
		relay_listen(relay);
		break;
	case RELAY_CONNECT:
		loop_watch_free(relay->out.watch);
		relay->out.watch = NULL;
		unreachable(relay, ETIMEDOUT);
		break;
	case RELAY_REFUSE:
		relay_free(relay);
		break;
	case RELAY_PASS:
		if (relay->cut)
			relay_reset(relay);
		break;
	}
}

void relay_on_timer(void *arg)
{
	struct relay *relay = arg;

	if (relay->due_ms && relay->due_ms <= loop_now_ms(relay->face->config.loop))
		on_due(relay);
}

/* A connection that another policy allowed is judged again. */
static bool still_allowed(struct relay *relay)
{
	struct sandbox *sandbox = relay_sandbox(relay);
	struct egress_verdict verdict;

	if (!sandbox)
		return false;
	if (relay->version == egress_version(sandbox))
		return true;
	relay->version = egress_version(sandbox);
	/* The new policy depends on names, and the name of this connection was not read. */
	if ((relay->blind || (relay->ask.protocol == EGRESS_HTTP && !relay->checked)) &&
	    egress_needs_name(sandbox, &relay->ask))
		return false;
	if (relay->hearing.state == HEARING_SAID)
		relay->turns = relay->ask.protocol == EGRESS_TCP &&
			       egress_needs_name(sandbox, &relay->ask);
	egress_judge(sandbox, &relay->ask, &verdict);
	/* Its name was resolved once. The connection continues even if the resolver has
	 * forgotten that. */
	return egress_passes(&verdict) || verdict.why == EGRESS_NOT_RESOLVED;
}

void proxy_tick(struct egress_face *face)
{
	int64_t now_ms = loop_now_ms(face->config.loop);
	struct relay *relay;
	uint32_t cursor = 0;

	while ((relay = slot_next(&face->relays, &cursor))) {
		if ((relay->state == RELAY_PASS || relay->state == RELAY_CONNECT) &&
		    !still_allowed(relay))
			relay_reset(relay);
		else if (relay->due_ms && relay->due_ms <= now_ms)
			on_due(relay);
	}
}

void proxy_stop(struct egress_face *face)
{
	struct relay *relay;
	uint32_t cursor = 0;

	while ((relay = slot_next(&face->relays, &cursor)))
		relay_free(relay);
}
