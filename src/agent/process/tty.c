/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "agent/agent.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif
#define DEFAULT_END_KEY 4 /* ^D */

/* devpts gives the new terminal to the user that opens the multiplexer. */
static int open_multiplexer(const struct user *user)
{
	int fd, error;

	if (user) {
		(void)setfsgid(user->gid);
		(void)setfsuid(user->uid);
	}
	/*
	 * The sandbox may have put anything there; it must neither block nor become our terminal.
	 */
	fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	error = errno;
	if (user) {
		(void)setfsuid(geteuid());
		(void)setfsgid(getegid());
	}
	return fd < 0 ? -error : fd;
}

int tty_open(const struct user *user, uint16_t cols, uint16_t rows, int *ret_master, int *ret_slave)
{
	struct winsize size = { .ws_row = rows, .ws_col = cols };
	_cleanup_close_ int master = open_multiplexer(user);
	int slave, locked = 0;

	if (master < 0)
		return master;
	if (ioctl(master, TIOCSPTLCK, &locked) < 0)
		return -errno;
	/* Through the master, not by a path that the sandbox could have replaced. */
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	(void)ioctl(master, TIOCSWINSZ, &size);
	*ret_master = TAKE_FD(master);
	*ret_slave = slave;
	return 0;
}

static int resize(struct process *p, uint16_t cols, uint16_t rows)
{
	struct winsize size = { .ws_row = rows, .ws_col = cols }, before = { 0 };
	int master = p->streams[0].fd;
	bool same;
	pid_t group;

	same = ioctl(master, TIOCGWINSZ, &before) == 0 && before.ws_row == rows &&
	       before.ws_col == cols;
	if (ioctl(master, TIOCSWINSZ, &size) < 0)
		return -errno;
	p->cols = cols;
	p->rows = rows;
	if (same && ioctl(master, TIOCGPGRP, &group) == 0 && group > 1)
		(void)kill(-group, SIGWINCH);
	return 0;
}

void tty_resize(struct agent *agent, struct process *p, uint16_t cols, uint16_t rows, uint32_t tag)
{
	int r;

	if (!p->tty) {
		conn_done(agent, tag, AGENT_REFUSED_NO_TTY, 0);
		return;
	}
	if (p->reaped || p->streams[0].fd < 0) {
		conn_done(agent, tag, AGENT_REFUSED_ENDED, 0);
		return;
	}
	r = resize(p, cols, rows);
	conn_done(agent, tag, r < 0 ? AGENT_REFUSED_OTHER : 0, -r);
}

int tty_signal(const struct process *p, int signum)
{
	return ioctl(p->streams[0].fd, TIOCSIG, signum) < 0 ? -errno : 0;
}

void tty_keep_newlines(int slave)
{
	struct termios t;

	if (tcgetattr(slave, &t) < 0)
		return;
	t.c_oflag &= ~(tcflag_t)ONLCR;
	(void)tcsetattr(slave, TCSANOW, &t);
}

char tty_end_key(int master)
{
	struct termios t;

	if (tcgetattr(master, &t) < 0 || !t.c_cc[VEOF])
		return DEFAULT_END_KEY;
	return (char)t.c_cc[VEOF];
}
