/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ENGINE_FAKE_AGENT_H
#define CAY_ENGINE_FAKE_AGENT_H

#include "net/loop.h"

struct fake_agent; /* owner: its sandbox */

/* on_crash: a program requested the death of the sandbox. */
int fake_agent_new(struct loop *loop, void (*on_crash)(void *arg), void *arg,
		   struct fake_agent **ret) _must_check_;
void fake_agent_free(struct fake_agent *agent); /* NULL is allowed */
/* Takes fd and sends HELLO on it; the previous connection ends, the processes continue. */
void fake_agent_connect(struct fake_agent *agent, int fd);
void fake_agent_disconnect(struct fake_agent *agent);

/* A dialled connection: fd is the server's end, non-blocking, and owned by the callee. */
typedef void (*fake_dialed_fn)(void *arg, int fd);
void fake_port_open(struct fake_agent *agent, uint16_t number, fake_dialed_fn fn, void *arg);
void fake_port_close(struct fake_agent *agent, uint16_t number);

#endif
