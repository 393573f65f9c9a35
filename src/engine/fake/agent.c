/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/fake/agent.h"

#include <errno.h>
#include <sys/socket.h>

#include "engine/fake/process.h"
#include "wire/stream.h"

#define RECV_BYTES 65536
#define IN_MAX_BYTES (FRAME_HEADER_SIZE + AGENT_TO_MAX_BYTES + RECV_BYTES)
#define OUT_MAX_BYTES (64U << 20) /* a test that needs more has a mistake: aborts */

char *fake_copy(struct str s)
{
	char *copy = strndup(s.n ? s.p : "", s.n);

	must(copy ? 0 : -ENOMEM);
	return copy;
}

void fake_done(struct fake_agent *agent, uint32_t tag, uint32_t refusal)
{
	struct agent_done done = { .tag = tag, .refusal = refusal };

	if (tag && agent->fd >= 0)
		must(agent_put_done(&agent->out, &done));
}

void fake_refuse(struct fake_agent *agent, uint32_t id, enum agent_refusal code, int error,
		 const char *detail)
{
	struct agent_refused refused = { .process_id = id,
					 .code = code,
					 .errno_value = (uint32_t)error,
					 .message = { detail,
						      strnlen(detail, AGENT_MESSAGE_MAX) } };

	must(agent_put_refused(&agent->out, &refused));
}

void fake_flush(struct fake_agent *agent)
{
	if (agent->fd < 0)
		return;
	fake_follow_pump(agent);
	while (buf_len(&agent->out)) {
		ssize_t n = send(agent->fd, buf_data(&agent->out), buf_len(&agent->out),
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			buf_clear(&agent->out);
			break;
		}
		buf_consume(&agent->out, (size_t)n);
	}
	must(loop_watch_set(agent->watch, LOOP_READ | (buf_len(&agent->out) ? LOOP_WRITE : 0)));
}

/* ---- requests about a process ---- */

static void on_stdin(struct fake_process *p, const struct frame *frame)
{
	struct fake_agent *agent = p->agent;
	uint32_t tag, refusal = 0;
	struct str bytes;

	must(agent_get_stdin(frame, &tag, &bytes));
	if (!fake_process_runs(p))
		refusal = AGENT_REFUSED_ENDED;
	else if (!p->stdin_open)
		refusal = AGENT_REFUSED_STDIN_CLOSED;
	else if (p->refusing ||
		 (!p->program->on_input && bytes.n > AGENT_STDIN_MAX_BYTES - p->unread_bytes))
		refusal = AGENT_REFUSED_STDIN_FULL;
	p->refusing = refusal == AGENT_REFUSED_STDIN_FULL && (frame->flags & AGENT_STDIN_MORE);
	fake_done(agent, tag, refusal);
	if (refusal)
		return;
	if (p->tty)
		fake_write(p, 0, bytes);
	if (p->program->on_input)
		p->program->on_input(p, bytes); /* p may be freed */
	else
		p->unread_bytes += bytes.n;
}

static void on_close_stdin(struct fake_process *p, uint32_t tag)
{
	bool open = p->stdin_open;

	fake_done(p->agent, tag,
		  !fake_process_runs(p) ? AGENT_REFUSED_ENDED
		  : !open		? AGENT_REFUSED_STDIN_CLOSED
					: 0);
	p->stdin_open = false;
	if (open && p->program->on_close)
		p->program->on_close(p);
}

static void on_resize(struct fake_process *p, const struct frame *frame)
{
	uint16_t cols, rows;
	uint32_t tag, refusal = 0;

	must(agent_get_resize(frame, &tag, &cols, &rows));
	if (!fake_process_runs(p))
		refusal = AGENT_REFUSED_ENDED;
	else if (!p->tty)
		refusal = AGENT_REFUSED_NO_TTY;
	fake_done(p->agent, tag, refusal);
	if (refusal)
		return;
	p->cols = cols;
	p->rows = rows;
	if (p->program->on_resize)
		p->program->on_resize(p);
}

static void on_kill(struct fake_process *p, const struct frame *frame)
{
	uint32_t tag;
	int signum;

	must(agent_get_kill(frame, &tag, &signum));
	fake_done(p->agent, tag, fake_process_runs(p) ? 0 : AGENT_REFUSED_ENDED);
	fake_signal(p, signum);
}

static void on_tagged(struct fake_process *p, const struct frame *frame)
{
	uint32_t tag;

	must(agent_get_tag(frame, &tag));
	if (frame->type == AGENT_CLOSE_STDIN) {
		on_close_stdin(p, tag);
		return;
	}
	fake_done(p->agent, tag, fake_process_runs(p) ? AGENT_REFUSED_STILL_RUNNING : 0);
	if (!fake_process_runs(p))
		fake_process_free(p);
}

static void on_process_frame(struct fake_process *p, const struct frame *frame)
{
	struct agent_follow follow;
	uint32_t tag, grace_ms;

	switch (frame->type) {
	case AGENT_STDIN:
		on_stdin(p, frame);
		break;
	case AGENT_CLOSE_STDIN:
	case AGENT_FORGET:
		on_tagged(p, frame);
		break;
	case AGENT_KILL:
		on_kill(p, frame);
		break;
	case AGENT_RESIZE:
		on_resize(p, frame);
		break;
	case AGENT_FOLLOW:
		must(agent_get_follow(frame, &follow));
		fake_follow_new(p, &follow);
		break;
	case AGENT_STOP:
		must(agent_get_stop(frame, &tag, &grace_ms));
		fake_stop(p, tag, frame->flags & AGENT_STOP_FORGET, grace_ms);
		break;
	case AGENT_DETACH:
		must(agent_get_detach(frame));
		p->collect = false;
		break;
	default:
		abort(); /* the daemon sent an invalid request */
	}
}

/* It has ended and was forgotten, or never existed. */
static void on_lost_frame(struct fake_agent *agent, const struct frame *frame)
{
	struct agent_followed followed = { .refusal = AGENT_REFUSED_NO_PROCESS };
	struct agent_follow follow;
	struct frame_reader reader;

	if (frame->type == AGENT_DETACH)
		return;
	if (frame->type == AGENT_FOLLOW) {
		must(agent_get_follow(frame, &follow));
		followed.process_id = follow.process_id;
		followed.follow_id = follow.follow_id;
		must(agent_put_followed(&agent->out, &followed));
		return;
	}
	reader = frame_reader_of(frame->payload); /* all others begin with their tag */
	fake_done(agent, frame_u32(&reader), AGENT_REFUSED_NO_PROCESS);
}

static void on_frame(struct fake_agent *agent, const struct frame *frame)
{
	struct fake_process *p = fake_process_find(agent, frame->process_id);
	struct agent_window_run run;
	struct agent_exec exec;
	struct fake_follow *f;
	uint32_t id, value;
	uint16_t port;

	if (stream_is_frame(frame)) {
		fake_tunnel_frame(agent, frame);
		return;
	}
	switch (frame->type) {
	case AGENT_EXEC:
		must(agent_get_exec(frame, &exec));
		fake_exec(agent, &exec);
		break;
	case AGENT_WINDOW_RUN:
		must(agent_get_window_run(frame, &run));
		fake_window_run(agent, &run);
		break;
	case AGENT_LIST:
		must(agent_get_tag(frame, &value));
		fake_list(agent, frame->process_id, value);
		break;
	case AGENT_DIAL:
		must(agent_get_dial(frame, &value, &port));
		fake_dial(agent, value, port);
		break;
	case AGENT_PORTS:
		must(agent_get_ports(frame, &value));
		fake_ports_list(agent, value);
		break;
	case AGENT_CREDIT:
		must(agent_get_credit(frame, &id, &value));
		f = fake_follow_find(agent, id);
		if (f)
			f->credit += value;
		break;
	case AGENT_UNFOLLOW:
		must(agent_get_unfollow(frame, &id));
		f = fake_follow_find(agent, id);
		if (f)
			fake_follow_free(agent, f);
		break;
	default:
		if (p)
			on_process_frame(p, frame);
		else
			on_lost_frame(agent, frame);
	}
}

/* ---- the connection ---- */

void fake_agent_disconnect(struct fake_agent *agent)
{
	if (agent->fd < 0)
		return;
	for (const struct fake_follow *f = agent->follows; f; f = f->next)
		if (f->flags & AGENT_FOLLOW_HOLD)
			f->process->expects_reader = true;
	while (agent->follows)
		fake_follow_free(agent, agent->follows);
	fake_tunnels_free(agent);
	for (struct fake_process *p = agent->processes; p; p = p->next) {
		p->collect = false; /* its waiting caller has gone: kept like any other */
		p->refusing = false;
		p->stop_tag = 0;
	}
	loop_watch_free(agent->watch);
	agent->watch = NULL;
	(void)close(agent->fd);
	agent->fd = -1;
	buf_done(&agent->in);
	buf_done(&agent->out);
}

static void on_watch(void *arg, int events, int error)
{
	struct fake_agent *agent = arg;
	struct frame frame;
	char *at;
	ssize_t n;
	int r = 0;

	must(buf_reserve(&agent->in, RECV_BYTES, &at));
	n = recv(agent->fd, at, RECV_BYTES, MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN) || error < 0) {
		fake_agent_disconnect(agent); /* the daemon disconnected; programs continue */
		return;
	}
	if (n > 0)
		buf_commit(&agent->in, (size_t)n);
	while (!agent->crashing &&
	       (r = frame_next(buf_str(&agent->in), AGENT_TO_MAX_BYTES, &frame)) > 0) {
		size_t size = frame_size(&frame);

		on_frame(agent, &frame);
		buf_consume(&agent->in, size);
	}
	must(r);
	fake_flush(agent);
	if (agent->crashing)
		agent->on_crash(agent->arg); /* frees us: nothing may follow */
}

void fake_agent_connect(struct fake_agent *agent, int fd)
{
	struct agent_hello hello = { .version = AGENT_PROTOCOL_VERSION,
				     .features = AGENT_HAS_CGROUPS | AGENT_HAS_PORTS |
						 AGENT_HAS_HOLD | AGENT_HAS_STREAMS,
				     .next_process_id = agent->next_id };

	fake_agent_disconnect(agent);
	for (const struct fake_process *p = agent->processes; p; p = p->next)
		hello.process_count += fake_process_runs(p);
	agent->fd = fd;
	buf_init(&agent->in, IN_MAX_BYTES);
	buf_init(&agent->out, OUT_MAX_BYTES);
	must(loop_watch_new(agent->loop, fd, on_watch, agent, &agent->watch));
	must(agent_put_hello(&agent->out, &hello));
	fake_flush(agent);
}

int fake_agent_new(struct loop *loop, void (*on_crash)(void *arg), void *arg,
		   struct fake_agent **ret)
{
	struct fake_agent *agent = calloc(1, sizeof(*agent));

	if (!agent)
		return -ENOMEM;
	*agent = (struct fake_agent){
		.loop = loop, .fd = -1, .next_id = 1, .on_crash = on_crash, .arg = arg
	};
	*ret = agent;
	return 0;
}

void fake_agent_free(struct fake_agent *agent)
{
	if (!agent)
		return;
	fake_agent_disconnect(agent);
	while (agent->processes)
		fake_process_free(agent->processes);
	fake_ports_free(agent);
	free(agent);
}
