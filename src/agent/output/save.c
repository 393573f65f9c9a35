/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/save.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/fsuid.h>

#include "agent/agent.h"
#include "agent/digits.h"
#include "base/time.h"

#define PREFIX "/.cay-cmd-"
#define SUFFIX ".log"
static_assert(AGENT_SCRATCH_MAX + sizeof(PREFIX SUFFIX) + 2 * DIGITS_MAX + 1 <= SAVE_PATH_SIZE,
	      "paths fit");

void save_init(struct save *save, bool wanted)
{
	*save = (struct save){ .wanted = wanted, .fd = -1 };
}

void save_done(struct save *save)
{
	if (save->fd >= 0)
		(void)close(save->fd);
	save->fd = -1;
	save->wanted = false;
}

/*
 * Creates the file as the user, where only the user can: a planted link cannot make us write
 * elsewhere.
 */
static int make_file(struct save *save, const struct process *p, const struct agent *agent)
{
	char *at = digits_text(digits_text(save->path, agent->scratch), PREFIX);
	bool same_user = agent->same_user;
	int error;

	at = digits_put(at, (uint64_t)time_real_ms());
	at = digits_put(digits_text(at, "-"), p->id);
	(void)digits_text(at, SUFFIX);
	if (!same_user) {
		(void)setfsgid(p->user.gid);
		(void)setfsuid(p->user.uid);
	}
	save->fd = open(save->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
			0600);
	error = errno;
	if (!same_user) {
		(void)setfsuid(geteuid());
		(void)setfsgid(getegid());
	}
	if (save->fd >= 0)
		return 0;
	save->path[0] = '\0';
	return -error;
}

/* A full disk or a limit only means that the file is incomplete. */
static void write_all(struct save *save, struct str bytes)
{
	while (bytes.n && save->fd >= 0) {
		size_t most = (size_t)MIN((uint64_t)bytes.n, SAVE_MAX_BYTES - save->written);
		ssize_t n = most ? write(save->fd, bytes.p, most) : 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			save->all = false;
			(void)close(save->fd);
			save->fd = -1;
			return;
		}
		save->written += (uint64_t)n;
		bytes.p += n;
		bytes.n -= (size_t)n;
	}
}

static void write_held(struct save *save, const struct ring *ring, uint64_t end)
{
	uint64_t cursor = ring->begin;

	while (cursor < end) {
		struct str piece = ring_peek(ring, &cursor);

		piece.n = (size_t)MIN((uint64_t)piece.n, end - cursor);
		write_all(save, piece);
		cursor += piece.n;
	}
}

void save_put(struct process *p, int i, uint64_t before, struct str bytes,
	      const struct agent *agent)
{
	const struct ring *ring = &p->streams[i].ring;
	struct save *save = &p->save;

	if (!save->path[0]) {
		if (ring->end == ring->total)
			return; /* everything is still in the rings */
		if (make_file(save, p, agent) < 0) {
			save->wanted = false;
			return;
		}
		save->all = true;
		for (int k = 0; k < 2; k++)
			write_held(save, &p->streams[k].ring,
				   k == i ? before : p->streams[k].ring.end);
	}
	write_all(save, bytes);
}
