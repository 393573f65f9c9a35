/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native engine's daemon half: requests to cay-warden over one SEQPACKET connection. Answers
 * are matched by tag. When the warden goes away every open call fails as unavailable and the
 * connection is tried again until it is back; the sandboxes do not notice.
 */
#include "engine/native/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/log.h"
#include "sys/rights.h"

#define RECONNECT_MS 50
#define CONNECT_MS 10	      /* before the first answer: both daemons are started together */
#define OPEN_PATIENCE_MS 5000 /* then the operator hears that there is no warden */

static void on_readable(void *arg, int events, int error);

static_assert(NATIVE_FDS_MAX == WARDEN_FDS_MAX, "one function closes both");

static void close_fds(int fds[WARDEN_FDS_MAX])
{
	for (int i = 0; i < WARDEN_FDS_MAX; i++)
		if (fds[i] >= 0)
			(void)close(TAKE_FD(fds[i]));
}

static void call_free(struct native_call *call)
{
	close_fds(call->with_fds);
	free(call);
}

static struct engine_network network_of(const struct engine *engine,
					const struct warden_reply *reply)
{
	if (!reply || !reply->address)
		return (struct engine_network){ 0 };
	return (struct engine_network){ .address = reply->address,
					.gateway = engine->gateway,
					.proxy_port = WARDEN_PROXY_PORT,
					.dns_port = WARDEN_DNS_PORT,
					.sink = (engine->gateway & 0xffff0000) |
						WARDEN_SINK_NUMBER };
}

static void complete_made(struct native_call *call, const struct warden_reply *reply,
			  int fds[WARDEN_FDS_MAX], const struct err *err)
{
	struct engine_made made = { .channel = CHANNEL_NONE, .watch_fd = -1 };

	if (!err)
		made.channel = (struct channel){ TAKE_FD(fds[0]), !call->engine->config.streams };
	if (call->dials) {
		call->then.dialed(call->arg, &made.channel, err);
		return;
	}
	if (!err) {
		made.network = network_of(call->engine, reply);
		made.watch_fd = TAKE_FD(fds[1]);
	}
	call->then.made(call->arg, &made, err);
}

static void complete_stat(struct native_call *call, const struct warden_reply *reply,
			  const struct err *err)
{
	struct engine_stat stat = { 0 };

	if (reply) {
		stat.alive = reply->alive;
		stat.paused = reply->paused;
		stat.oom_kills = reply->oom_kills;
		stat.oom_killed = reply->oom_kills > 0;
		stat.memory_bytes = reply->memory_bytes;
		stat.memory_peak_bytes = reply->memory_peak_bytes;
		stat.cpu_us = reply->cpu_us;
		stat.pids = reply->pids;
		stat.disk_bytes = reply->disk_bytes;
		stat.sent_bytes = reply->sent_bytes;
		stat.received_bytes = reply->received_bytes;
		stat.has_stall = reply->has_stall;
		memcpy(stat.stall, reply->stall, sizeof(stat.stall));
	}
	call->then.stat(call->arg, &stat, err);
}

static void complete_snapshot(struct native_call *call, const struct warden_reply *reply,
			      const struct err *err)
{
	struct engine_snapshot_info snapshot = { 0 };

	if (reply) {
		snapshot.size_bytes = reply->size_bytes;
		snapshot.memory = reply->memory;
		snapshot.why = reply->memory || err ? NULL : reply->step;
		memcpy(snapshot.template_hash, reply->template_hash,
		       sizeof(snapshot.template_hash));
	}
	call->then.snapshot(call->arg, &snapshot, err);
}

static void complete(struct native_call *call, const struct warden_reply *reply,
		     int fds[WARDEN_FDS_MAX], const struct err *err)
{
	struct engine_network network;

	switch ((enum warden_op)call->op) {
	case WARDEN_CREATE:
	case WARDEN_ATTACH:
		complete_made(call, reply, fds, err);
		break;
	case WARDEN_STAT:
		complete_stat(call, reply, err);
		break;
	case WARDEN_SNAPSHOT:
		complete_snapshot(call, reply, err);
		break;
	case WARDEN_LIST:
		call->then.each(call->arg, NULL, err);
		break;
	case WARDEN_SNAPSHOT_LIST:
		call->then.entry(call->arg, NULL, err);
		break;
	case WARDEN_RESIZE:
		network = network_of(call->engine, err ? NULL : reply);
		if (call->request.flags & WARDEN_RELINK)
			call->then.linked(call->arg, &network, err);
		else
			call->then.done(call->arg, err);
		break;
	case WARDEN_BUILD:
	case WARDEN_DESTROY:
	case WARDEN_PAUSE:
	case WARDEN_SNAPSHOT_DELETE:
		call->then.done(call->arg, err);
		break;
	case WARDEN_HELLO:
	case WARDEN_DENIED:
	case WARDEN_OP_END:
		break;
	}
	call_free(call);
}

/* Fails every open call; each is taken out first, so a completion may start new ones. */
void warden_fail_all(struct engine *engine)
{
	struct native_call *call;
	uint32_t cursor = 0;
	struct err err;

	err_set(&err, ERR_UNAVAILABLE, "the native engine's warden is not running");
	engine->unsent_head = engine->unsent_tail = NULL; /* they are in the table as well */
	while ((call = slot_next(&engine->calls, &cursor))) {
		int none[WARDEN_FDS_MAX] = { -1, -1 };

		(void)slot_take(&engine->calls, call->handle);
		complete(call, NULL, none, &err);
	}
}

void warden_disconnect(struct engine *engine)
{
	loop_watch_free(engine->watch);
	engine->watch = NULL;
	if (engine->fd >= 0)
		(void)close(engine->fd);
	engine->fd = -1;
	engine->asked_ms = 0;
}

/* The daemon continues without its warden; callers that wait for it to be ready get the reason. */
static void complain(struct engine *engine, int error)
{
	struct err why;

	if (engine->complained || engine->state != NATIVE_OPENING ||
	    loop_now_ms(engine->config.loop) - engine->opened_ms < OPEN_PATIENCE_MS)
		return;
	engine->complained = true;
	(void)err_set_errno(&why, ERR_UNAVAILABLE, error, "no cay-warden at %s",
			    engine->socket_path);
	engine->config.on_lost(engine->config.arg, &why);
}

void warden_lose(struct engine *engine, const char *what)
{
	struct err why;

	log_warn("native engine: %s; reconnecting", what);
	warden_disconnect(engine);
	loop_timer_set(engine->retry, RECONNECT_MS, 0);
	if (engine->state == NATIVE_READY) {
		engine->state = NATIVE_LOST;
		(void)err_set(&why, ERR_UNAVAILABLE, "%s", what);
		engine->config.on_lost(engine->config.arg, &why);
	}
	complain(engine, -ECONNRESET);
	warden_fail_all(engine);
}

static int open_socket(struct engine *engine)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	memcpy(address.sun_path, engine->socket_path, sizeof(address.sun_path));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	engine->fd = TAKE_FD(fd);
	return 0;
}

int warden_send(struct engine *engine, const struct warden_request *req,
		const int fds[NATIVE_FDS_MAX])
{
	size_t count = 0;
	uint8_t bytes[WARDEN_REQUEST_SIZE];
	ssize_t n;

	warden_request_encode(bytes, req);
	while (fds && count < NATIVE_FDS_MAX && fds[count] >= 0)
		count++;
	n = rights_send(engine->fd, bytes, sizeof(bytes), fds, count, 0);
	return n < 0 ? (int)n : 0;
}

/* Sends as much as the socket takes. < 0: the connection is over. */
static int flush(struct engine *engine)
{
	while (engine->unsent_head) {
		struct native_call *call = engine->unsent_head;
		int r = warden_send(engine, &call->request, call->with_fds);

		if (r == -EAGAIN || r == -ENOBUFS)
			return loop_watch_set(engine->watch, LOOP_READ | LOOP_WRITE);
		if (r < 0)
			return r;
		engine->unsent_head = call->next_unsent;
		close_fds(call->with_fds);
	}
	engine->unsent_tail = NULL;
	return 0;
}

int warden_start(struct engine *engine, const struct native_call *want, struct warden_request *req,
		 const int fds[NATIVE_FDS_MAX], struct err *err)
{
	struct native_call *call;
	int r;

	if (engine->fd < 0)
		return err_set(err, ERR_UNAVAILABLE, "the native engine's warden is not running");
	if (warden_request_check(req) < 0)
		return err_set(err, ERR_INTERNAL, "the request does not fit the warden's protocol");
	call = malloc(sizeof(*call));
	if (!call)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	*call = *want;
	call->engine = engine;
	call->op = req->op;
	call->next_unsent = NULL;
	for (int i = 0; i < NATIVE_FDS_MAX; i++)
		call->with_fds[i] = fds && fds[i] >= 0 ? fcntl(fds[i], F_DUPFD_CLOEXEC, 0) : -1;
	memcpy(call->id, *req->id ? req->id : req->snapshot_id, sizeof(call->id));
	r = slot_put(&engine->calls, call, &call->handle);
	if (r < 0) {
		call_free(call);
		return err_set(err, ERR_CAPACITY_EXCEEDED, "too many calls to the warden are open");
	}
	call->request = *req;
	call->request.tag = call->handle;
	if (engine->unsent_tail)
		engine->unsent_tail->next_unsent = call;
	else
		engine->unsent_head = call;
	engine->unsent_tail = call;
	/* A broken connection shows as readable, too: the call then fails from the loop. */
	(void)flush(engine);
	return 0;
}

static enum err_code code_of(const struct warden_reply *reply)
{
	switch (-reply->error) {
	case ENOENT:
		return reply->op == WARDEN_CREATE ? ERR_TEMPLATE_NOT_FOUND : ERR_SANDBOX_NOT_FOUND;
	case ESRCH:
		return ERR_SANDBOX_GONE;
	case EEXIST:
		return ERR_CONFLICT;
	case ENODATA:
		return ERR_SNAPSHOT_NOT_FOUND;
	case EKEYREJECTED: /* the step says why */
		return ERR_SNAPSHOT_REFUSED;
	case ENOBUFS:
	case EMFILE:
	case ENFILE:
	case EAGAIN:
	case ENOMEM:
	case ENOSPC:
		return ERR_CAPACITY_EXCEEDED;
	case EOPNOTSUPP:
		return ERR_UNSUPPORTED_BY_ENGINE;
	default:
		return ERR_ENGINE_FAILED;
	}
}

/* One of a list. */
static void on_item(struct native_call *call, const struct warden_reply *reply)
{
	struct engine_snapshot_entry entry = { .id = reply->id,
					       .sandbox_id = *reply->step ? reply->step : NULL,
					       .size_bytes = reply->size_bytes,
					       .memory = reply->memory };

	if (reply->op == WARDEN_LIST) {
		call->then.each(call->arg, reply->id, NULL);
		return;
	}
	memcpy(entry.template_hash, reply->template_hash, sizeof(entry.template_hash));
	call->then.entry(call->arg, &entry, NULL);
}

static int on_reply(struct engine *engine, const struct warden_reply *reply,
		    int fds[WARDEN_FDS_MAX])
{
	struct native_call *call;
	struct err err;

	if (reply->op == WARDEN_HELLO) {
		hello_received(engine, reply);
		return 0;
	}
	if (reply->op == WARDEN_DENIED) {
		if (engine->config.on_rejected)
			engine->config.on_rejected(engine->config.arg, reply->address,
						   reply->to_address, (uint16_t)reply->to_port,
						   (uint8_t)reply->protocol);
		return 0;
	}
	call = slot_get(&engine->calls, reply->tag);
	if (!call || call->op != reply->op)
		return -EPROTO;
	if ((reply->op == WARDEN_LIST || reply->op == WARDEN_SNAPSHOT_LIST) && reply->more &&
	    !reply->error) {
		on_item(call, reply);
		return 0;
	}
	(void)slot_take(&engine->calls, reply->tag);
	if (reply->error == -ENODATA || reply->error == -EKEYREJECTED)
		err_set(&err, code_of(reply), "snapshot %s: %s", call->request.snapshot_id,
			reply->error == -ENODATA ? "there is none" : reply->step);
	else if (reply->error)
		err_set_errno(&err, code_of(reply), reply->error, "%s%s%s", call->id,
			      *reply->step ? ": " : "", reply->step);
	complete(call, reply, fds, reply->error ? &err : NULL);
	return 0;
}

/* 1: handled one; 0: nothing there; < 0: the connection is over. */
static int receive_one(struct engine *engine)
{
	uint8_t bytes[WARDEN_REPLY_SIZE + 1];
	struct warden_reply reply;
	struct rights got;
	ssize_t n = rights_receive(engine->fd, bytes, sizeof(bytes), WARDEN_FDS_MAX, MSG_DONTWAIT,
				   &got);
	int r;

	if (n < 0)
		return n == -EAGAIN || n == -EINTR ? 0 : (int)n;
	if (n == 0)
		return -EPIPE;
	r = warden_reply_decode(bytes, (size_t)n, &reply);
	if (r >= 0)
		r = on_reply(engine, &reply, got.fds);
	close_fds(got.fds);
	return r < 0 ? r : 1;
}

static void on_readable(void *arg, int events, int error)
{
	struct engine *engine = arg;
	int r = error;

	if (r >= 0 && (events & LOOP_WRITE)) {
		r = loop_watch_set(engine->watch, LOOP_READ);
		if (r >= 0)
			r = flush(engine);
	}
	for (int i = 0; i < 64 && r >= 0; i++) {
		r = receive_one(engine);
		if (r == 0 || engine->fd < 0)
			return;
	}
	if (r < 0)
		warden_lose(engine, r == -EPROTO ? "the warden broke the protocol"
						 : "the warden went away");
}

static int try_connect(struct engine *engine)
{
	int r = open_socket(engine);

	if (r < 0)
		return r;
	r = loop_watch_new(engine->config.loop, engine->fd, on_readable, engine, &engine->watch);
	if (r >= 0)
		r = loop_watch_set(engine->watch, LOOP_READ);
	if (r >= 0)
		r = hello_ask(engine, "");
	if (r < 0)
		warden_disconnect(engine);
	return r;
}

void warden_on_retry(void *arg)
{
	struct engine *engine = arg;
	int r = try_connect(engine);

	if (r >= 0)
		return;
	complain(engine, r);
	loop_timer_set(engine->retry,
		       engine->state == NATIVE_OPENING && !engine->complained ? CONNECT_MS
									      : RECONNECT_MS,
		       0);
}

void warden_begin(struct engine *engine)
{
	engine->opened_ms = loop_now_ms(engine->config.loop);
	if (try_connect(engine) < 0)
		loop_timer_set(engine->retry, CONNECT_MS, 0);
}
