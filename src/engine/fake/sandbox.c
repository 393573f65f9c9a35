/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that run nothing: each is a scripted agent and a descriptor that signals its death. */
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "engine/fake/agent.h"
#include "engine/fake/state.h"

struct fake_sandbox *fake_find(const struct engine *engine, const char *id)
{
	struct fake_sandbox *s = engine->sandboxes;

	while (s && !str_is(str_of(s->id), id))
		s = s->next;
	return s;
}

void fake_end(struct fake_sandbox *s)
{
	fake_agent_free(s->agent);
	s->agent = NULL;
	if (s->alive && eventfd_write(s->death_fd, 1) < 0)
		abort();
	s->alive = false;
}

static void on_crash(void *arg)
{
	fake_end(arg);
}

void fake_sandbox_free(struct fake_sandbox *s)
{
	for (struct fake_sandbox **at = &s->engine->sandboxes; *at; at = &(*at)->next) {
		if (*at == s) {
			*at = s->next;
			break;
		}
	}
	fake_end(s);
	(void)close(s->death_fd);
	free(s);
}

/* A new connection; an older one ends, as with the real agent. */
static int dial(struct fake_sandbox *s, struct engine_made *ret)
{
	int ends[2], watch_fd;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return -errno;
	watch_fd = fcntl(s->death_fd, F_DUPFD_CLOEXEC, 3);
	if (watch_fd < 0)
		abort();
	fake_agent_connect(s->agent, ends[1]);
	*ret = (struct engine_made){ .channel = { ends[0], !s->engine->streams },
				     .watch_fd = watch_fd };
	return 0;
}

int fake_sandbox_create(struct fake_call *call, struct engine_made *ret, struct err *err)
{
	const struct fake_snapshot *from = NULL;
	struct fake_sandbox *s;

	if (fake_find(call->engine, call->id))
		return err_set(err, ERR_CONFLICT, "sandbox %s exists", call->id);
	if (*call->snapshot_id) {
		from = fake_snapshot_find(call->engine, call->snapshot_id);
		if (!from)
			return err_set(err, ERR_SNAPSHOT_NOT_FOUND, "no snapshot %s",
				       call->snapshot_id);
	}
	if (call->memory && (!from || !from->info.memory))
		return err_set(err, ERR_SNAPSHOT_REFUSED, "it holds no memory");
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	s->engine = call->engine;
	s->limits = call->limits;
	s->alive = true;
	s->woken = call->memory;
	s->death_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	memcpy(s->id, call->id, sizeof(s->id));
	memcpy(s->origin, call->snapshot_id, sizeof(s->origin));
	memcpy(s->template_hash, from ? from->info.template_hash : call->image.hash,
	       sizeof(s->template_hash));
	if (call->temporary)
		fake_snapshot_drop(call->engine, call->snapshot_id);
	s->next = call->engine->sandboxes;
	call->engine->sandboxes = s;
	if (s->death_fd < 0 || fake_agent_new(s->engine->loop, on_crash, s, &s->agent) < 0 ||
	    dial(s, ret) < 0)
		abort();
	return 0;
}

int fake_sandbox_attach(struct fake_call *call, struct engine_made *ret, struct err *err)
{
	struct fake_sandbox *s = fake_find(call->engine, call->id);

	if (!s)
		return err_set(err, ERR_SANDBOX_NOT_FOUND, "no sandbox %s", call->id);
	if (!s->alive)
		return err_set(err, ERR_SANDBOX_GONE, "sandbox %s is dead", call->id);
	if (dial(s, ret) < 0)
		return err_set(err, ERR_ENGINE_FAILED, "no connection to %s", call->id);
	return 0;
}
