/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/link.h"

#include <errno.h>
#include <sys/socket.h>

#include "engine/link_state.h"
#include "net/foreign.h"

/*
 * One loop, one thread: bytes are received here and whole frames are handled in place, so that an
 * idle link has no buffer and output is not copied on its way to the follow.
 */
static char scratch[LINK_RECV_BYTES];

/* Fails everything pending with link->why. */
static void drop_all(struct link *link)
{
	link_drop_processes(link);
	link_drop_requests(link);
	link_drop_follows(link);
	link_drop_streams(link);
}

static void finish(void *arg)
{
	struct link *link = arg;

	drop_all(link);
	loop_timer_free(link->timer);
	buf_done(&link->in);
	buf_done(&link->out);
	free(link);
}

static void shut(struct link *link)
{
	link->state = LINK_GONE;
	loop_watch_free(link->watch);
	link->watch = NULL;
	loop_timer_clear(link->timer);
	if (link->fd >= 0)
		(void)close(link->fd);
	link->fd = -1;
	foreign_close(TAKE_FD(link->passed_fd));
}

void link_free(struct link *link)
{
	if (!link || link->freed)
		return;
	link->freed = true;
	if (link->state != LINK_GONE)
		(void)err_set(&link->why, ERR_SANDBOX_GONE, "the connection was given up");
	shut(link);
	/*
	 * Completions are never called from inside a call, and a caller up the stack may still use
	 * the link.
	 */
	link->deferred = loop_defer(link->loop, finish, link) == 0;
	if (!link->deferred && !link->busy)
		finish(link);
}

/* The end of every callback of ours. */
static void leave(struct link *link)
{
	link->busy = false;
	if (link->freed && !link->deferred)
		finish(link);
}

/* link->why is set. */
static void go_down(struct link *link)
{
	if (link->state == LINK_GONE)
		return;
	shut(link);
	drop_all(link);
	if (!link->freed)
		link->hooks.on_gone(link->arg, &link->why);
}

static void on_broken(void *arg)
{
	struct link *link = arg;

	link->breaking = false;
	if (link->freed)
		return;
	link->busy = true;
	go_down(link);
	leave(link);
}

void link_break(struct link *link, enum err_code code, const char *what)
{
	if (link->breaking)
		return;
	(void)err_set(&link->why, code, "%s", what);
	link->breaking = loop_defer(link->loop, on_broken, link) == 0;
}

int link_protocol_error(struct link *link, const char *what)
{
	return err_set(&link->why, ERR_ENGINE_FAILED, "the agent broke the protocol: %s", what);
}

int link_check_ready(const struct link *link, struct err *err)
{
	if (link->state == LINK_GONE)
		return err_set(err, ERR_SANDBOX_GONE, "%s", link->why.message);
	if (link->state == LINK_WAITING)
		return err_set(err, ERR_UNAVAILABLE, "the agent has not answered yet");
	return 0;
}

int link_check_process(const struct link *link, uint32_t process_id, struct err *err)
{
	if (link_check_ready(link, err) < 0)
		return -1;
	if (process_id == 0 || process_id >= link->next_process_id)
		return err_set(err, ERR_PROCESS_NOT_FOUND, "the sandbox has no such process");
	return 0;
}

int link_commit(struct link *link, size_t before, int r, struct err *err)
{
	if (r == 0 && buf_len(&link->out) + link->reserved_bytes <= LINK_OUT_MAX_BYTES) {
		link_flush(link);
		return 0;
	}
	link->out.tail = link->out.head + before;
	if (r == -EINVAL)
		return err_set(err, ERR_INVALID_REQUEST, "a value is out of its range");
	if (r == -EMSGSIZE)
		return err_set(err, ERR_PAYLOAD_TOO_LARGE, "the request has more than %u bytes",
			       AGENT_TO_MAX_BYTES);
	if (r == -ENOMEM)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	return err_set(err, ERR_CAPACITY_EXCEEDED, "too many bytes wait for this sandbox");
}

void link_flush(struct link *link)
{
	int events = LOOP_READ;

	for (;;) {
		ssize_t n;

		link_put_owed(link);
		if (buf_len(&link->out) == 0)
			break;
		n = send(link->fd, buf_data(&link->out), buf_len(&link->out),
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0) {
			buf_consume(&link->out, (size_t)n);
		} else if (errno == EAGAIN) {
			events |= LOOP_WRITE;
			break;
		} else if (errno != EINTR) {
			/*
			 * Frames that the agent sent before must still be read; the reader finds
			 * the end.
			 */
			buf_clear(&link->out);
			break;
		}
	}
	if (link->waiting && buf_len(&link->out) < LINK_STREAMS_HIGH_BYTES / 2)
		link_streams_resume(link);
	if (buf_len(&link->out) == 0)
		buf_done(&link->out);
	if (events == link->events)
		return;
	if (loop_watch_set(link->watch, events) == 0)
		link->events = events;
	else
		link_break(link, ERR_ENGINE_FAILED, "cannot watch the agent's connection");
}

static int on_hello(struct link *link, const struct frame *frame)
{
	struct agent_boot_failed failed;
	struct agent_hello hello;

	if (frame->type == AGENT_BOOT_FAILED && agent_get_boot_failed(frame, &failed) == 0)
		return err_set_errno(&link->why, ERR_BOOT_FAILED, (int)failed.errno_value,
				     "the sandbox could not be set up, step %u (%s)", failed.step,
				     failed.name);
	if (frame->type != AGENT_HELLO || agent_get_hello(frame, &hello) < 0)
		return link_protocol_error(link, "no hello");
	if (hello.version != AGENT_PROTOCOL_VERSION)
		return err_set(&link->why, ERR_ENGINE_FAILED,
			       "the agent speaks protocol %u, this daemon %u", hello.version,
			       AGENT_PROTOCOL_VERSION);
	link->state = LINK_READY;
	link->features = hello.features;
	link->first_process_id = link->next_process_id = hello.next_process_id;
	loop_timer_clear(link->timer);
	link->hooks.on_ready(link->arg);
	return 0;
}

/* 0 or -1 with link->why set. */
static int on_frame(struct link *link, const struct frame *frame)
{
	if (link->state == LINK_WAITING)
		return on_hello(link, frame);
	if (stream_is_frame(frame))
		return link_on_stream(link, frame);
	switch (frame->type) {
	case AGENT_STARTED:
		return link_on_started(link, frame);
	case AGENT_OUTPUT:
		return link_on_output(link, frame);
	case AGENT_EXIT:
		return link_on_exit(link, frame);
	case AGENT_REFUSED:
		return link_on_refused(link, frame);
	case AGENT_LISTED:
		return link_on_listed(link, frame);
	case AGENT_DONE:
		return link_on_done(link, frame);
	case AGENT_FOLLOWED:
		return link_on_followed(link, frame);
	case AGENT_WINDOW:
		return link_on_window(link, frame);
	case AGENT_DIALED:
		return link_on_dialed(link, frame);
	case AGENT_PORTS_LISTED:
		return link_on_ports(link, frame);
	case AGENT_PORT_NOTICE:
		return link_on_port_notice(link, frame);
	default:
		return link_protocol_error(link, "an unexpected frame");
	}
}

/* Handles complete frames; returns their number of bytes, or -1 with link->why set. */
static ssize_t on_bytes(struct link *link, struct str bytes)
{
	struct str rest = bytes;
	struct frame frame;
	int r;

	while (link->state != LINK_GONE &&
	       (r = frame_next(rest, AGENT_FROM_MAX_BYTES, &frame)) != 0) {
		if (r < 0)
			return link_protocol_error(link, "bad frame header");
		if (on_frame(link, &frame) < 0)
			return -1;
		rest.p += frame_size(&frame);
		rest.n -= frame_size(&frame);
	}
	return (ssize_t)(bytes.n - rest.n);
}

/* The new bytes are in scratch; an incomplete frame at their end is copied out. */
static int take_scratch(struct link *link, size_t n)
{
	ssize_t used = on_bytes(link, (struct str){ scratch, n });
	struct str rest;
	char *at;

	if (used < 0)
		return -1;
	if ((size_t)used == n || link->state == LINK_GONE)
		return 0;
	rest = (struct str){ scratch + used, n - (size_t)used };
	if (buf_reserve(&link->in, rest.n + frame_missing(rest), &at) < 0)
		return err_set(&link->why, ERR_UNAVAILABLE, "out of memory");
	memcpy(at, rest.p, rest.n);
	buf_commit(&link->in, rest.n);
	return 0;
}

/* The new bytes follow those of the incomplete frame, without any of the next one. */
static int take_torn(struct link *link, size_t n)
{
	ssize_t used;

	buf_commit(&link->in, n);
	used = on_bytes(link, buf_str(&link->in));
	if (used < 0)
		return -1;
	if (used > 0)
		buf_done(&link->in);
	return 0;
}

static int on_end(struct link *link, int error)
{
	if (link->state == LINK_WAITING)
		return err_set_errno(&link->why, ERR_BOOT_FAILED, error,
				     "the sandbox ended before its agent answered");
	return err_set_errno(&link->why, ERR_SANDBOX_GONE, error,
			     "the connection to the sandbox's agent ended");
}

static int receive(struct link *link)
{
	for (int i = 0; i < LINK_RECVS_PER_EVENT && link->state != LINK_GONE; i++) {
		bool torn = buf_len(&link->in) > 0;
		size_t want = sizeof(scratch);
		char *at = scratch;
		ssize_t n;

		if (torn) {
			want = frame_missing(buf_str(&link->in));
			if (buf_reserve(&link->in, want, &at) < 0)
				return err_set(&link->why, ERR_UNAVAILABLE, "out of memory");
		}
		n = link_receive(link, at, want);
		if (n == -EINTR)
			continue;
		if (n == -EAGAIN)
			return 0;
		if (n == -EPROTO)
			return link_protocol_error(link, "unexpected descriptors");
		if (n <= 0)
			return on_end(link, n < 0 ? (int)-n : 0);
		if ((torn ? take_torn(link, (size_t)n) : take_scratch(link, (size_t)n)) < 0)
			return -1;
		if (link->passed_fd >= 0 && buf_len(&link->in) == 0)
			return link_protocol_error(link, "an unexpected descriptor");
		if ((size_t)n < want)
			return 0;
	}
	return 0;
}

static void on_watch(void *arg, int events, int error)
{
	struct link *link = arg;
	int r = 0;

	link->busy = true;
	if (error < 0)
		r = on_end(link, -error);
	else if (events & LOOP_READ)
		r = receive(link);
	if (r < 0)
		go_down(link);
	else if (link->state != LINK_GONE && (events & LOOP_WRITE))
		link_flush(link);
	leave(link);
}

static void on_hello_timeout(void *arg)
{
	struct link *link = arg;

	if (link->state != LINK_WAITING)
		return;
	link->busy = true;
	(void)err_set(&link->why, ERR_BOOT_FAILED, "the agent did not answer in time");
	go_down(link);
	leave(link);
}

/*
 * Input for tools is sent in large pieces: one should fit while the previous one is read. The
 * kernel reduces the value to the host's limit; more bytes are then queued here.
 */
static void widen(int fd)
{
	int bytes = 512 << 10;

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

int link_new(struct loop *loop, const struct channel *channel, int hello_timeout_ms,
	     const struct link_hooks *hooks, void *arg, struct link **ret, struct err *err)
{
	struct link *link = calloc(1, sizeof(*link));
	int r = -ENOMEM;

	if (!link)
		goto fail;
	*link = (struct link){ .loop = loop,
			       .fd = channel->fd,
			       .passes_descriptors = channel->passes_descriptors,
			       .hooks = *hooks,
			       .arg = arg,
			       .passed_fd = -1 };
	link->next_follow_id = link->next_tag = link->next_stream = 1;
	buf_init(&link->in, FRAME_HEADER_SIZE + AGENT_FROM_MAX_BYTES);
	buf_init(&link->out, LINK_OUT_MAX_BYTES + LINK_STREAMS_SPARE_BYTES);
	widen(link->fd);
	r = loop_timer_new(loop, on_hello_timeout, link, &link->timer);
	if (r < 0)
		goto fail;
	r = loop_watch_new(loop, link->fd, on_watch, link, &link->watch);
	if (r < 0)
		goto fail;
	r = loop_watch_set(link->watch, LOOP_READ);
	if (r < 0)
		goto fail;
	link->events = LOOP_READ;
	loop_timer_set(link->timer, hello_timeout_ms, 0);
	*ret = link;
	return 0;
fail:
	if (link) {
		loop_watch_free(link->watch);
		loop_timer_free(link->timer);
		free(link);
	}
	channel_close(channel);
	return err_set_errno(err, ERR_UNAVAILABLE, -r, "cannot watch the agent's connection");
}

bool link_ready(const struct link *link)
{
	return link->state == LINK_READY;
}

bool link_has_tools(const struct link *link)
{
	return link->state == LINK_READY && (link->features & AGENT_HAS_TOOLS);
}
