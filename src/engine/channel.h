/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The byte stream between the daemon and one agent, as an engine hands it to the link: a connected
 * stream socket and one property. On the same host the agent can pass descriptors over it
 * (SCM_RIGHTS), and a port inside a sandbox is then a passed descriptor. Elsewhere (another host, a
 * virtual machine, gVisor) it cannot, and the link carries connections as streams in frames
 * (wire/stream.h). The layers above the link do not know which of the two is in use.
 *
 * An engine whose connection is not a socket puts a socket pair in front of it.
 */
#ifndef CAY_ENGINE_CHANNEL_H
#define CAY_ENGINE_CHANNEL_H

#include "base/macro.h"

/* Owner: the receiver of engine_made, until link_new() takes it or channel_close() is called. */
struct channel {
	int fd; /* -1: none */
	bool passes_descriptors;
};

#define CHANNEL_NONE ((struct channel){ .fd = -1 })

static inline void channel_close(const struct channel *channel)
{
	if (channel->fd >= 0)
		(void)close(channel->fd);
}

#endif
