/* SPDX-License-Identifier: Apache-2.0 */
#include "caller.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/time.h"

#define BUFFER_MAX_BYTES (64U << 20)
#define RECV_BYTES (256U << 10)

void caller_open(struct caller *caller, struct rig *rig)
{
	*caller = (struct caller){ .fd = rig_connect(rig), .next_follow = 1, .next_tag = 1 };
	buf_init(&caller->in, BUFFER_MAX_BYTES);
	buf_init(&caller->out, BUFFER_MAX_BYTES);
	for (int i = 0; i < 2; i++)
		buf_init(&caller->collected[i], BUFFER_MAX_BYTES);
	caller->listed = calloc(CALLER_LISTED_MAX, sizeof(*caller->listed));
	for (int64_t until_us = time_mono_us() + rig_limit_us(5000);
	     !caller->hello.version && time_mono_us() < until_us;)
		caller_turn(caller, 10);
	assert_int_equal(caller->hello.version, AGENT_PROTOCOL_VERSION);
	caller->next_id = caller->hello.next_process_id;
}

void caller_close(struct caller *caller)
{
	(void)close(caller->fd);
	buf_done(&caller->in);
	buf_done(&caller->out);
	for (int i = 0; i < 2; i++)
		buf_done(&caller->collected[i]);
	for (size_t k = 0; k < caller->follow_count; k++)
		for (int i = 0; i < 2; i++)
			buf_done(&caller->follows[k].data[i]);
	free(caller->listed);
}

const char *const caller_as_root[] = {
	"--trust-any-peer", "--user", "root", "--cwd", "/tmp", NULL
};

struct caller *caller_new(struct rig *rig, const char *const *options)
{
	struct caller *caller = calloc(1, sizeof(*caller));

	assert_non_null(caller);
	rig_init(rig);
	rig_spawn_agent(rig, options);
	caller_open(caller, rig);
	return caller;
}

void caller_free(struct caller *caller, struct rig *rig)
{
	caller_close(caller);
	free(caller);
	rig_done(rig);
}

static struct caller_follow *find_follow(struct caller *caller, uint32_t id)
{
	for (size_t i = 0; i < caller->follow_count; i++)
		if (caller->follows[i].id == id)
			return &caller->follows[i];
	return NULL;
}

static void on_output(struct caller *caller, const struct agent_output *o)
{
	int i = o->stream == AGENT_STREAM_ERR;
	struct caller_follow *f;

	if (o->follow_id == 0) {
		assert_int_equal(buf_append(&caller->collected[i], o->bytes.p, o->bytes.n), 0);
		return;
	}
	f = find_follow(caller, o->follow_id);
	if (!f)
		return; /* unfollowed while it was on its way */
	assert_false(f->ended);
	assert_int_equal(f->process_id, o->process_id);
	assert_true(o->cursor >= f->cursor[i]);
	assert_true(o->bytes.n <= (uint64_t)f->credit);
	f->credit -= (int64_t)o->bytes.n;
	f->gap[i] += o->cursor - f->cursor[i];
	f->cursor[i] = o->cursor + o->bytes.n;
	f->bytes[i] += o->bytes.n;
	f->last_us = time_mono_us();
	if (f->keep)
		assert_int_equal(buf_append(&f->data[i], o->bytes.p, o->bytes.n), 0);
	if (f->regrant)
		caller_credit(caller, f, (uint32_t)o->bytes.n);
}

static void on_listed(struct caller *caller, const struct frame *frame)
{
	struct frame_reader reader;
	struct agent_listed info;
	bool last;
	int r;

	assert_int_equal(agent_get_listed(frame, &caller->listed_tag, &last, &reader), 0);
	caller->listed_frames++;
	while ((r = agent_next_listed(&reader, &info)) > 0) {
		struct caller_listed *l = &caller->listed[caller->listed_count++];

		assert_true(caller->listed_count <= CALLER_LISTED_MAX);
		*l = (struct caller_listed){ .info = info };
		assert_int_equal(str_copy(l->name, sizeof(l->name), info.name), 0);
		assert_int_equal(str_copy(l->user, sizeof(l->user), info.user), 0);
		assert_int_equal(str_copy(l->command, sizeof(l->command), info.command), 0);
		l->info.name = str_of(l->name);
		l->info.user = str_of(l->user);
		l->info.command = str_of(l->command);
	}
	assert_int_equal(r, 0);
	if (last)
		caller->done[caller->listed_tag] = true;
}

static void on_followed(struct caller *caller, const struct frame *frame)
{
	struct agent_followed end;
	struct caller_follow *f;

	assert_int_equal(agent_get_followed(frame, &end), 0);
	f = find_follow(caller, end.follow_id);
	if (!f)
		return;
	assert_false(f->ended);
	f->ended = true;
	f->end = end;
}

static void on_done(struct caller *caller, const struct frame *frame)
{
	struct agent_done done;

	assert_int_equal(agent_get_done(frame, &done), 0);
	assert_true(done.tag < CALLER_TAGS_MAX);
	assert_false(caller->done[done.tag]);
	caller->done[done.tag] = true;
	caller->dones[done.tag] = done;
}

static void on_window(struct caller *caller, const struct frame *frame)
{
	struct agent_window window;

	assert_int_equal(agent_get_window(frame, &window), 0);
	assert_true(window.tag < CALLER_TAGS_MAX);
	assert_false(caller->done[window.tag]);
	caller->done[window.tag] = true;
	caller->windows[window.tag] = window;
	for (size_t i = 0; i < caller->follow_count; i++)
		if (caller->follows[i].window_tag == window.tag) {
			caller->follows[i].process_id = window.process_id;
			caller->follows[i].cursor[0] = window.cursor;
		}
}

static void on_frame(struct caller *caller, const struct frame *frame)
{
	struct agent_output output;

	caller->frames++;
	switch (frame->type) {
	case AGENT_HELLO:
		assert_int_equal(agent_get_hello(frame, &caller->hello), 0);
		break;
	case AGENT_STARTED:
		assert_int_equal(agent_get_started(frame, &caller->started_pid), 0);
		caller->started_id = frame->process_id;
		break;
	case AGENT_OUTPUT:
		assert_int_equal(agent_get_output(frame, &output), 0);
		on_output(caller, &output);
		break;
	case AGENT_EXIT:
		assert_int_equal(agent_get_exit(frame, &caller->exit), 0);
		assert_int_equal(str_copy(caller->saved, sizeof(caller->saved), caller->exit.saved),
				 0);
		caller->exit_id = frame->process_id;
		break;
	case AGENT_REFUSED:
		assert_int_equal(agent_get_refused(frame, &caller->refusal), 0);
		assert_int_equal(str_copy(caller->refusal_message, sizeof(caller->refusal_message),
					  caller->refusal.message),
				 0);
		caller->refused = true;
		break;
	case AGENT_LISTED:
		on_listed(caller, frame);
		break;
	case AGENT_DONE:
		on_done(caller, frame);
		break;
	case AGENT_FOLLOWED:
		on_followed(caller, frame);
		break;
	case AGENT_WINDOW:
		on_window(caller, frame);
		break;
	case AGENT_PORT_NOTICE: /* the host's ports come and go as they like */
		break;
	default:
		fail_msg("frame type %d", frame->type);
	}
}

static void flush(struct caller *caller)
{
	while (buf_len(&caller->out)) {
		ssize_t n = send(caller->fd, buf_data(&caller->out), buf_len(&caller->out),
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0) {
			if (errno != EAGAIN)
				caller->closed = true;
			return;
		}
		buf_consume(&caller->out, (size_t)n);
	}
}

void caller_turn(struct caller *caller, int timeout_ms)
{
	struct pollfd pfd = { .fd = caller->fd };
	struct frame frame;
	ssize_t n;
	char *at;
	int r;

	flush(caller);
	pfd.events = (short)(POLLIN | (buf_len(&caller->out) ? POLLOUT : 0));
	if (poll(&pfd, 1, timeout_ms) <= 0 || !(pfd.revents & (POLLIN | POLLHUP)))
		return;
	assert_int_equal(buf_reserve(&caller->in, RECV_BYTES, &at), 0);
	n = recv(caller->fd, at, RECV_BYTES, MSG_DONTWAIT);
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			caller->closed = true;
		return;
	}
	buf_commit(&caller->in, (size_t)n);
	while ((r = frame_next(buf_str(&caller->in), AGENT_FROM_MAX_BYTES, &frame)) > 0) {
		on_frame(caller, &frame);
		buf_consume(&caller->in, frame_size(&frame));
	}
	assert_int_equal(r, 0);
	flush(caller);
}

void caller_wait(struct caller *caller, const bool *flag, int timeout_ms)
{
	int64_t until_us = time_mono_us() + rig_limit_us(timeout_ms);

	while (!*flag && !caller->closed && time_mono_us() < until_us)
		caller_turn(caller, 10);
	if (!*flag)
		fail_msg("nothing came%s", caller->closed ? ": closed" : "");
}

void caller_pass(struct caller *caller, int ms)
{
	int64_t until_us = time_mono_us() + ms * 1000LL, left_us;

	while ((left_us = until_us - time_mono_us()) > 0)
		caller_turn(caller, (int)(left_us / 1000) + 1);
}

static struct caller_follow *new_follow(struct caller *caller, uint32_t process_id, uint32_t credit)
{
	struct caller_follow *f = &caller->follows[caller->follow_count++];

	assert_true(caller->follow_count <= CALLER_FOLLOWS_MAX);
	*f = (struct caller_follow){
		.id = caller->next_follow++,
		.process_id = process_id,
		.credit = credit,
		.regrant = true,
		.keep = true,
	};
	for (int i = 0; i < 2; i++)
		buf_init(&f->data[i], BUFFER_MAX_BYTES);
	return f;
}

uint32_t caller_exec(struct caller *caller, const struct agent_exec_args *args)
{
	uint32_t id = caller->next_id++;

	caller->refused = false;
	for (int i = 0; i < 2; i++)
		buf_clear(&caller->collected[i]);
	assert_int_equal(agent_put_exec(&caller->out, id, args), 0);
	flush(caller);
	return id;
}

uint32_t caller_start(struct caller *caller, const struct agent_exec_args *args)
{
	uint32_t id = caller_exec(caller, args);
	int64_t until_us = time_mono_us() + 20000000;

	while (caller->started_id != id && !caller->refused && time_mono_us() < until_us)
		caller_turn(caller, 10);
	if (caller->refused)
		fail_msg("refused: %d errno %u %s", caller->refusal.code,
			 caller->refusal.errno_value, caller->refusal_message);
	assert_int_equal(caller->started_id, id);
	return id;
}

uint32_t caller_sh(struct caller *caller, const char *script, uint8_t flags, uint32_t credit,
		   struct caller_follow **follow)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	const char *const env[] = { "PATH=/usr/local/bin:/usr/bin:/bin:/sbin", NULL };
	struct agent_exec_args args = { .argv = argv, .env = env, .cwd = "/tmp", .flags = flags };

	if (flags & AGENT_EXEC_TTY) {
		args.cols = 80;
		args.rows = 24;
	}
	if (follow) {
		*follow = new_follow(caller, caller->next_id, credit);
		args.flags |= AGENT_EXEC_FOLLOW;
		args.follow_id = (*follow)->id;
		args.credit = credit;
	}
	return caller_start(caller, &args);
}

struct caller_follow *caller_follow(struct caller *caller, uint32_t process_id, uint8_t flags,
				    uint64_t out_cursor, uint64_t err_cursor, uint32_t credit)
{
	struct caller_follow *f = new_follow(caller, process_id, credit);
	struct agent_follow request = {
		.process_id = process_id,
		.follow_id = f->id,
		.credit = credit,
		.flags = flags,
		.out_cursor = out_cursor,
		.err_cursor = err_cursor,
	};

	if (!(flags & AGENT_FOLLOW_TAIL)) {
		f->cursor[0] = out_cursor;
		f->cursor[1] = err_cursor;
	}
	assert_int_equal(agent_put_follow(&caller->out, &request), 0);
	flush(caller);
	return f;
}

void caller_credit(struct caller *caller, struct caller_follow *f, uint32_t bytes)
{
	if (!bytes)
		return;
	f->credit += bytes;
	assert_int_equal(agent_put_credit(&caller->out, f->id, bytes), 0);
}

void caller_unfollow(struct caller *caller, struct caller_follow *f)
{
	assert_int_equal(agent_put_unfollow(&caller->out, f->id), 0);
	f->id = 0;
	flush(caller);
}

uint32_t caller_wait_done(struct caller *caller, uint32_t tag, int timeout_ms)
{
	caller_wait(caller, &caller->done[tag], timeout_ms);
	return caller->dones[tag].refusal;
}

#define TAGGED(call)                                   \
	({                                             \
		uint32_t tag_ = caller->next_tag++;    \
                                                       \
		assert_int_equal((call), 0);           \
		caller_wait_done(caller, tag_, 20000); \
	})

uint32_t caller_stdin(struct caller *caller, uint32_t id, const char *bytes, size_t n, bool wait)
{
	return TAGGED(agent_put_stdin(&caller->out, id, tag_, wait ? AGENT_STDIN_WAIT : 0,
				      (struct str){ bytes, n }));
}

uint32_t caller_close_stdin(struct caller *caller, uint32_t id)
{
	return TAGGED(agent_put_close_stdin(&caller->out, id, tag_));
}

uint32_t caller_kill(struct caller *caller, uint32_t id, int signum)
{
	return TAGGED(agent_put_kill(&caller->out, id, tag_, signum));
}

uint32_t caller_resize(struct caller *caller, uint32_t id, uint16_t cols, uint16_t rows)
{
	return TAGGED(agent_put_resize(&caller->out, id, tag_, cols, rows));
}

uint32_t caller_forget(struct caller *caller, uint32_t id)
{
	return TAGGED(agent_put_forget(&caller->out, id, tag_));
}

uint32_t caller_stop(struct caller *caller, uint32_t id, uint32_t grace_ms, bool forget)
{
	return TAGGED(
		agent_put_stop(&caller->out, id, tag_, forget ? AGENT_STOP_FORGET : 0, grace_ms));
}

size_t caller_list(struct caller *caller, uint32_t id)
{
	caller->listed_count = caller->listed_frames = 0;
	(void)TAGGED(agent_put_list(&caller->out, id, tag_));
	return caller->listed_count;
}

const struct agent_listed *caller_look(struct caller *caller, uint32_t id)
{
	return caller_list(caller, id) ? &caller->listed[0].info : NULL;
}

void caller_wait_exit(struct caller *caller, uint32_t id, int timeout_ms)
{
	int64_t until_us = time_mono_us() + rig_limit_us(timeout_ms);

	while (caller->exit_id != id && !caller->refused && !caller->closed &&
	       time_mono_us() < until_us)
		caller_turn(caller, 10);
	assert_int_equal(caller->exit_id, id);
}

uint32_t caller_window(struct caller *caller, struct agent_window_args *args,
		       struct caller_follow **follow)
{
	struct caller_follow *f = new_follow(caller, caller->next_id, 1U << 20);

	args->tag = f->window_tag = caller->next_tag++;
	args->follow_id = f->id;
	args->credit = 1U << 20;
	assert_int_equal(agent_put_window_run(&caller->out, caller->next_id++, args), 0);
	flush(caller);
	*follow = f;
	return args->tag;
}

const struct agent_listed *caller_wait_end(struct caller *caller, uint32_t id, int timeout_ms)
{
	int64_t until_us = time_mono_us() + rig_limit_us(timeout_ms);
	const struct agent_listed *l;

	while ((l = caller_look(caller, id)) && l->status.end == AGENT_END_NONE) {
		assert_true(time_mono_us() < until_us);
		caller_pass(caller, 5);
	}
	assert_non_null(l);
	return l;
}

void caller_wait_totals(struct caller *caller, uint32_t id, uint64_t out, uint64_t err)
{
	int64_t until_us = time_mono_us() + rig_limit_us(5000);
	const struct agent_listed *l;

	while ((l = caller_look(caller, id)) &&
	       (l->status.out_total < out || l->status.err_total < err)) {
		assert_true(time_mono_us() < until_us);
		caller_pass(caller, 5);
	}
	assert_non_null(l);
}

const char *caller_text(struct caller_follow *f, int stream)
{
	struct buf *data = &f->data[stream];

	assert_int_equal(buf_putc(data, '\0'), 0);
	data->tail--; /* not a part of it */
	return buf_data(data);
}
