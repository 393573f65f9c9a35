/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipe between an encrypted socket and the plain end. One step function transfers what it can
 * and updates the watches. It never reads a byte that it has no space for.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "net/tls_session.h"

/* in each direction; at the limit reading stops, because the other side is slow */
#define PIPE_BYTES 65536
#define STEP_BYTES 16384  /* one record */
#define STEPS_PER_TURN 16 /* records in each direction before other connections are served */
#define SWEEP_MS 1000

/*
 * States: HANDSHAKE -> OPEN -> freed. In OPEN each direction ends separately: an end of input is
 * passed on when the bytes before it have been sent (close_notify in one direction, shutdown(2) in
 * the other).
 */
struct tls_pipe {
	struct tls *tls;
	slot_handle handle;
	struct tls_pipe *prev, *next;
	struct tls_ctx *ctx;
	struct tls_session *session;
	int net_fd, app_fd; /* app_fd: our end of the pair; -1 until the handshake is done */
	struct loop_watch *net_watch, *app_watch;
	struct buf in, out;	   /* plain bytes: to the app, from the app */
	int read_want, write_want; /* what the session waits for: LOOP_* */
	int64_t deadline_ms;	   /* of the handshake */
	bool net_eof, app_eof;	   /* end of input was received */
	bool net_shut, app_shut;   /* end of input was passed on */
	bool deferred;		   /* a step is scheduled */
	bool dead;		   /* freed by the scheduled step */
	tls_done_fn done;
	void *arg;
};

struct tls {
	struct loop *loop;
	struct slot_table pipes;
	struct tls_pipe *list;
	struct loop_timer *sweep;
	bool sweeping;
};

static void step(struct tls_pipe *pipe);

static void pipe_free(struct tls_pipe *pipe)
{
	loop_watch_free(pipe->net_watch);
	loop_watch_free(pipe->app_watch);
	tls_session_free(pipe->session);
	tls_ctx_unref(pipe->ctx);
	if (pipe->net_fd >= 0)
		(void)close(pipe->net_fd);
	if (pipe->app_fd >= 0)
		(void)close(pipe->app_fd);
	buf_done(&pipe->in);
	buf_done(&pipe->out);
	free(pipe);
}

/*
 * Removes the pipe from the tables at once; the memory is freed when no deferred step refers to it.
 */
static void pipe_end(struct tls_pipe *pipe)
{
	struct tls *tls = pipe->tls;

	if (pipe->dead)
		return;
	pipe->dead = true;
	(void)slot_take(&tls->pipes, pipe->handle);
	if (pipe->prev)
		pipe->prev->next = pipe->next;
	else
		tls->list = pipe->next;
	if (pipe->next)
		pipe->next->prev = pipe->prev;
	if (!pipe->deferred)
		pipe_free(pipe);
}

static void complete(struct tls_pipe *pipe, int status, int fd)
{
	tls_done_fn done = TAKE_PTR(pipe->done);
	void *arg = pipe->arg;

	if (status < 0)
		pipe_end(pipe);
	if (done)
		done(arg, status, fd);
}

/*
 * A failure after the handshake cannot be reported to a caller: the plain end sees the end of the
 * stream.
 */
static void fail(struct tls_pipe *pipe, int error)
{
	if (pipe->done)
		complete(pipe, error, -1);
	else
		pipe_end(pipe);
}

static void on_deferred(void *arg)
{
	struct tls_pipe *pipe = arg;

	pipe->deferred = false;
	if (pipe->dead)
		pipe_free(pipe);
	else
		step(pipe);
}

static int defer(struct tls_pipe *pipe)
{
	int r = pipe->deferred ? 0 : loop_defer(pipe->tls->loop, on_deferred, pipe);

	if (r == 0)
		pipe->deferred = true;
	return r;
}

static void on_event(void *arg, int events, int error)
{
	struct tls_pipe *pipe = arg;

	(void)events;
	if (pipe->dead)
		return;
	if (error)
		fail(pipe, error);
	else if (!pipe->deferred)
		step(pipe);
}

static int open_pair(struct tls_pipe *pipe, int *ret_fd)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	pipe->app_fd = pair[0];
	r = loop_watch_new(pipe->tls->loop, pair[0], on_event, pipe, &pipe->app_watch);
	if (r < 0)
		(void)close(pair[1]);
	else
		*ret_fd = pair[1];
	return r;
}

/* ---- one step ---- */

/*
 * The peer is gone: bytes it sent before are still delivered to the plain end; bytes it did not
 * receive are lost.
 */
static void lose_net(struct tls_pipe *pipe)
{
	pipe->net_eof = pipe->app_eof = pipe->net_shut = true;
	buf_clear(&pipe->out);
}

/* The plain end stopped reading; bytes it wrote before are still sent. */
static void lose_app(struct tls_pipe *pipe)
{
	pipe->net_eof = pipe->app_shut = true;
	buf_clear(&pipe->in);
}

/* Each returns 1 if bytes were transferred, 0 if not, -ENOMEM if the pipe must end. */

static int move_net_in(struct tls_pipe *pipe)
{
	ssize_t n;
	char *p;

	pipe->read_want = 0;
	if (pipe->net_eof || PIPE_BYTES - buf_len(&pipe->in) < STEP_BYTES)
		return 0;
	if (buf_reserve(&pipe->in, STEP_BYTES, &p) < 0)
		return -ENOMEM;
	n = tls_session_read(pipe->session, p, STEP_BYTES, &pipe->read_want);
	if (n == -EAGAIN)
		return 0;
	if (n < 0)
		lose_net(pipe);
	else if (n == 0)
		pipe->net_eof = true;
	else
		buf_commit(&pipe->in, (size_t)n);
	return 1;
}

static int move_in_app(struct tls_pipe *pipe)
{
	ssize_t n;

	if (buf_len(&pipe->in)) {
		n = send(pipe->app_fd, buf_data(&pipe->in), buf_len(&pipe->in), MSG_NOSIGNAL);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0) {
			lose_app(pipe);
			return 1;
		}
		buf_consume(&pipe->in, (size_t)n);
		return 1;
	}
	if (pipe->net_eof && !pipe->app_shut) {
		pipe->app_shut = true;
		(void)shutdown(pipe->app_fd, SHUT_WR);
	}
	return 0;
}

static int move_app_out(struct tls_pipe *pipe)
{
	ssize_t n;
	char *p;

	if (pipe->app_eof || PIPE_BYTES - buf_len(&pipe->out) < STEP_BYTES)
		return 0;
	if (buf_reserve(&pipe->out, STEP_BYTES, &p) < 0)
		return -ENOMEM;
	n = recv(pipe->app_fd, p, STEP_BYTES, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		pipe->app_eof = true; /* an error ends the input as well */
	else
		buf_commit(&pipe->out, (size_t)n);
	return 1;
}

static int move_out_net(struct tls_pipe *pipe)
{
	ssize_t n;

	pipe->write_want = 0;
	if (buf_len(&pipe->out)) {
		n = tls_session_write(pipe->session, buf_data(&pipe->out), buf_len(&pipe->out),
				      &pipe->write_want);
		if (n == -EAGAIN)
			return 0;
		if (n < 0)
			lose_net(pipe);
		else
			buf_consume(&pipe->out, (size_t)n);
		return 1;
	}
	if (pipe->app_eof && !pipe->net_shut) {
		n = tls_session_close(pipe->session, &pipe->write_want);
		if (n == -EAGAIN)
			return 0;
		pipe->net_shut = true;
		(void)shutdown(pipe->net_fd, SHUT_WR);
	}
	return 0;
}

/* Both directions of the plain end are closed, so no reader is left for incoming bytes. */
static bool app_gone(const struct tls_pipe *pipe)
{
	struct pollfd pfd = { .fd = pipe->app_fd };

	return poll(&pfd, 1, 0) == 1 && (pfd.revents & (POLLHUP | POLLERR));
}

static bool is_over(const struct tls_pipe *pipe)
{
	return pipe->net_shut && (pipe->app_shut || app_gone(pipe));
}

static void set_watches(struct tls_pipe *pipe)
{
	bool room_in = !pipe->net_eof && PIPE_BYTES - buf_len(&pipe->in) >= STEP_BYTES;
	bool room_out = !pipe->app_eof && PIPE_BYTES - buf_len(&pipe->out) >= STEP_BYTES;
	int net = pipe->write_want | (room_in ? pipe->read_want : 0);
	int app = (room_out ? LOOP_READ : 0) | (buf_len(&pipe->in) ? LOOP_WRITE : 0);

	if (loop_watch_set(pipe->net_watch, net) < 0 ||
	    (pipe->app_watch && loop_watch_set(pipe->app_watch, app) < 0))
		fail(pipe, -EBADF);
}

static void step_handshake(struct tls_pipe *pipe)
{
	int fd = -1, r = tls_session_handshake(pipe->session, &pipe->read_want);

	if (r == -EAGAIN) {
		if (loop_watch_set(pipe->net_watch, pipe->read_want) < 0)
			fail(pipe, -EBADF);
		return;
	}
	if (r == 0)
		r = open_pair(pipe, &fd);
	if (r == 0)
		r = defer(pipe); /* a separate first step, because done may do anything */
	if (r < 0) {
		if (fd >= 0)
			(void)close(fd);
		fail(pipe, r);
		return;
	}
	pipe->deadline_ms = 0;
	complete(pipe, 0, fd);
}

static void step(struct tls_pipe *pipe)
{
	if (pipe->app_fd < 0) {
		step_handshake(pipe);
		return;
	}
	for (int i = 0; i < STEPS_PER_TURN; i++) {
		int in = move_net_in(pipe), out = move_app_out(pipe);
		int moved = move_in_app(pipe) + move_out_net(pipe);

		if (in == 0 && out == 0 && moved == 0)
			break;
		if (in < 0 || out < 0 || (i == STEPS_PER_TURN - 1 && defer(pipe) < 0)) {
			pipe_end(pipe);
			return;
		}
	}
	if (is_over(pipe))
		pipe_end(pipe);
	else
		set_watches(pipe);
}

/* ---- the pipes of a loop ---- */

/*
 * Checks deadlines, and plain ends that were closed after a half-close, which the kernel reports
 * only to an explicit poll.
 */
static void on_sweep(void *arg)
{
	struct tls *tls = arg;
	int64_t now = loop_now_ms(tls->loop);
	struct tls_pipe *next;

	for (struct tls_pipe *pipe = tls->list; pipe; pipe = next) {
		next = pipe->next;
		if (pipe->app_fd < 0 && now >= pipe->deadline_ms) {
			fail(pipe, -ETIMEDOUT);
			next = tls->list; /* a completion may have ended any pipe */
		} else if (pipe->app_fd >= 0 && pipe->app_eof && app_gone(pipe) &&
			   buf_len(&pipe->out) == 0) {
			pipe_end(pipe);
		}
	}
	if (!tls->list) {
		tls->sweeping = false;
		loop_timer_clear(tls->sweep);
	}
}

int tls_new(struct loop *loop, uint32_t limit, struct tls **ret)
{
	struct tls *tls = calloc(1, sizeof(*tls));
	int r;

	if (!tls)
		return -ENOMEM;
	tls->loop = loop;
	slot_init(&tls->pipes, limit);
	r = loop_timer_new(loop, on_sweep, tls, &tls->sweep);
	if (r < 0) {
		free(tls);
		return r;
	}
	*ret = tls;
	return 0;
}

void tls_free(struct tls *tls)
{
	if (!tls)
		return;
	while (tls->list)
		pipe_end(tls->list);
	loop_timer_free(tls->sweep);
	slot_done(&tls->pipes);
	free(tls);
}

uint32_t tls_count(const struct tls *tls)
{
	return tls->pipes.live;
}

static int pipe_start(struct tls *tls, struct tls_pipe *pipe, struct str unread,
		      const char *server_name)
{
	int r = tls_session_new(pipe->ctx, pipe->net_fd, unread, server_name, &pipe->session);

	if (r == 0)
		r = loop_watch_new(tls->loop, pipe->net_fd, on_event, pipe, &pipe->net_watch);
	if (r == 0)
		r = slot_put(&tls->pipes, pipe, &pipe->handle);
	if (r < 0)
		return r;
	pipe->next = tls->list;
	if (pipe->next)
		pipe->next->prev = pipe;
	tls->list = pipe;
	r = defer(pipe);
	if (r < 0) {
		(void)slot_take(&tls->pipes, pipe->handle);
		tls->list = pipe->next;
		if (pipe->next)
			pipe->next->prev = NULL;
		return r;
	}
	if (!tls->sweeping)
		loop_timer_set(tls->sweep, SWEEP_MS, SWEEP_MS);
	tls->sweeping = true;
	return 0;
}

static int pipe_new(struct tls *tls, struct tls_ctx *ctx, int own_fd, struct str unread,
		    const char *server_name, tls_done_fn done, void *arg, slot_handle *ret)
{
	_cleanup_close_ int fd = own_fd;
	struct tls_pipe *pipe = calloc(1, sizeof(*pipe));
	int r;

	if (!pipe)
		return -ENOMEM;
	pipe->tls = tls;
	pipe->ctx = tls_ctx_ref(ctx);
	pipe->net_fd = TAKE_FD(fd);
	pipe->app_fd = -1;
	pipe->done = done;
	pipe->arg = arg;
	pipe->deadline_ms = loop_now_ms(tls->loop) + TLS_HANDSHAKE_MS;
	buf_init(&pipe->in, PIPE_BYTES);
	buf_init(&pipe->out, PIPE_BYTES);
	r = pipe_start(tls, pipe, unread, server_name);
	if (r < 0) {
		pipe_free(pipe);
		return r;
	}
	if (ret)
		*ret = pipe->handle;
	return 0;
}

int tls_accept(struct tls *tls, struct tls_ctx *ctx, int fd, struct str unread, tls_done_fn done,
	       void *arg, slot_handle *ret)
{
	return pipe_new(tls, ctx, fd, unread, NULL, done, arg, ret);
}

int tls_connect(struct tls *tls, struct tls_ctx *ctx, int fd, const char *server_name,
		tls_done_fn done, void *arg, slot_handle *ret)
{
	return pipe_new(tls, ctx, fd, (struct str){ NULL, 0 }, server_name, done, arg, ret);
}

void tls_cancel(struct tls *tls, slot_handle handle)
{
	struct tls_pipe *pipe = slot_get(&tls->pipes, handle);

	if (pipe && pipe->done)
		pipe_end(pipe);
}
