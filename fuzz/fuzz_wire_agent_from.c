/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of an agent, which is hostile by assumption: every decoded frame must encode to the same
 * bytes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/agent.h"
#include "wire_again.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int put_boot_failed(struct buf *again, const struct agent_boot_failed *failed)
{
	char packed[AGENT_BOOT_FAILED_SIZE];

	agent_pack_boot_failed(packed, failed->step, (int)failed->errno_value, failed->name);
	return buf_append(again, packed, sizeof(packed));
}

/* 1: LISTED with a valid head and an invalid process. */
static int put_listing(struct buf *again, uint32_t tag, bool last, struct frame_reader *reader)
{
	struct agent_listing listing;
	struct agent_listed listed;
	int r, added;

	r = agent_listing_begin(&listing, again, tag);
	if (r < 0)
		return r;
	while ((r = agent_next_listed(reader, &listed)) == 1) {
		added = agent_listing_add(&listing, &listed);
		if (added < 0)
			return added;
	}
	agent_listing_end(&listing, last);
	return r < 0 ? 1 : 0;
}

static int put_ports(struct buf *again, uint32_t tag, struct frame_reader *reader)
{
	struct agent_port_listing listing;
	struct agent_port port;
	int r = agent_ports_begin(&listing, again, tag), added;

	while (r == 0 && (r = agent_next_port(reader, &port)) == 1) {
		added = agent_ports_add(&listing, &port);
		if (added == -ENOBUFS) /* more than are reported: parsed, never written */
			return 1;
		if (added < 0)
			return added;
		r = 0;
	}
	if (r < 0)
		return 1;
	agent_ports_end(&listing);
	return 0;
}

static int put_dialed(struct buf *again, const struct agent_dialed *dialed)
{
	char packed[AGENT_DIALED_SIZE];

	if (dialed->errno_value)
		return agent_put_dialed(again, dialed);
	agent_pack_dialed(packed, dialed->tag, 0);
	return buf_append(again, packed, sizeof(packed));
}

/* 1: not a frame of this direction. */
static int put_again(struct buf *again, const struct frame *frame)
{
	struct agent_boot_failed failed;
	struct agent_refused refused;
	struct agent_output output;
	struct agent_hello hello;
	struct agent_exit e;
	struct agent_followed followed;
	struct agent_window window;
	struct frame_reader reader;
	struct agent_done done;
	struct agent_dialed dialed;
	struct agent_port port;
	uint32_t pid, tag;
	bool last;

	if (agent_get_hello(frame, &hello) == 0)
		return agent_put_hello(again, &hello);
	if (agent_get_boot_failed(frame, &failed) == 0)
		return put_boot_failed(again, &failed);
	if (agent_get_started(frame, &pid) == 0)
		return agent_put_started(again, frame->process_id, pid);
	if (agent_get_output(frame, &output) == 0)
		return agent_put_output(again, &output);
	if (agent_get_exit(frame, &e) == 0)
		return agent_put_exit(again, &e);
	if (agent_get_refused(frame, &refused) == 0)
		return agent_put_refused(again, &refused);
	if (agent_get_done(frame, &done) == 0)
		return agent_put_done(again, &done);
	if (agent_get_followed(frame, &followed) == 0)
		return agent_put_followed(again, &followed);
	if (agent_get_window(frame, &window) == 0)
		return agent_put_window(again, &window);
	if (agent_get_dialed(frame, &dialed) == 0)
		return put_dialed(again, &dialed);
	if (agent_get_port_notice(frame, &port, &last) == 0)
		return agent_put_port_notice(again, &port, last);
	if (agent_get_ports_listed(frame, &tag, &reader) == 0)
		return put_ports(again, tag, &reader);
	if (agent_get_listed(frame, &tag, &last, &reader) == 0)
		return put_listing(again, tag, last, &reader);
	return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	wire_again(data, size, AGENT_FROM_MAX_BYTES, put_again);
	return 0;
}
