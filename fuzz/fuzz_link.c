/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile agent against the daemon's whole end of the link, over a socket pair. The first byte
 * selects the kind of channel and whether a valid HELLO precedes the input; requests of every kind
 * are pending then. Whatever arrives: every completion is called once, and nothing leaks.
 */
#include <assert.h>
#include <sys/socket.h>

#include "engine/link.h"
#include "wire/agent.h"

#define INPUT_MAX 60000 /* fits into a socket's buffer */
#define FIRST_ID 41
#define CREDIT 1000

enum { NO_DESCRIPTORS = 1, NO_HELLO = 2, FROZEN = 4, LEAVE_EARLY = 8 };
enum { EXEC, SPAWN, FOLLOW, STDIN, SIGNAL, STOP, LIST, DIAL, PORTS, WINDOW, REQUESTS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int owed[REQUESTS];
static int gone;
static uint64_t credit; /* of the follows, not used yet */
static struct loop *loop;

static void complete(void *arg)
{
	int *count = arg;

	assert(*count == 1);
	*count = 0;
}

static void on_ready(void *arg)
{
	(void)arg;
}

static void on_gone(void *arg, const struct err *why)
{
	(void)arg;
	assert(why && why->message[0]);
	gone++;
}

static void on_egress(void *arg, int fd)
{
	(void)arg;
	(void)close(fd);
}

static void on_port(void *arg, const struct link_port *port, bool opened)
{
	(void)arg;
	(void)opened;
	assert(port->address && port->process);
}

static void on_exec(void *arg, const struct link_result *result, const struct err *error)
{
	assert(result->out.n <= 64 && result->err.n <= 64);
	assert((error != NULL) ==
	       (result->status.end == LINK_END_REFUSED || result->status.end == LINK_END_GONE));
	complete(arg);
}

static void on_started(void *arg, uint32_t process_id, uint32_t pid, const struct err *error)
{
	(void)process_id;
	(void)pid;
	(void)error;
	complete(arg);
}

static void on_window(void *arg, const struct link_window *window, const struct err *error)
{
	assert(!window == !!error);
	complete(arg);
}

static void on_done(void *arg, const struct err *error)
{
	(void)error;
	complete(arg);
}

static void on_process(void *arg, const struct link_process_info *info, const struct err *error)
{
	if (!info)
		complete(arg);
	else
		assert(!error && info->name && info->user && info->command);
}

static void on_ports(void *arg, const struct link_port *port, const struct err *error)
{
	(void)error;
	if (!port)
		complete(arg);
}

static void on_dial(void *arg, int fd, const struct err *error)
{
	assert((fd < 0) == (error != NULL));
	if (fd >= 0)
		(void)close(fd);
	complete(arg);
}

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	(void)arg;
	(void)cursor;
	assert((stream == LINK_OUT || stream == LINK_ERR) && bytes.n <= credit);
	credit -= bytes.n;
}

static void on_end(void *arg, const struct link_status *status, const struct err *error)
{
	(void)status;
	(void)error;
	if (arg)
		complete(arg);
}

static const struct link_follow_hooks readers = { .on_output = on_output, .on_end = on_end };

static void request(struct link *link)
{
	static const char *const argv[] = { "a", NULL };
	const struct link_exec collect = { .argv = argv, .env = argv + 1, .output_max_bytes = 64 };
	const struct link_exec stay = { .argv = argv, .env = argv + 1, .stdin_open = true };
	const struct link_follow follow = { .credit = CREDIT };
	const struct link_window_run run = { .name = "w",
					     .command = STR_LIT("true"),
					     .env = argv + 1 };
	uint32_t id, followed, first_id, window_id;
	const struct link_first_reader first = { &readers, NULL, CREDIT, &first_id };
	const struct link_first_reader window = { &readers, NULL, CREDIT, &window_id };
	struct err err;

	credit = 3 * CREDIT;
	owed[EXEC] = link_exec(link, &collect, on_exec, &owed[EXEC], &id, &err) == 0;
	owed[SPAWN] = link_spawn(link, &stay, on_started, &owed[SPAWN], &first, &err) == 0;
	owed[FOLLOW] = link_follow(link, FIRST_ID + 5, &follow, &readers, &owed[FOLLOW], &followed,
				   &err) == 0;
	owed[STDIN] = link_stdin(link, FIRST_ID + 1, STR_LIT("in"), true, on_done, &owed[STDIN],
				 &err) == 0;
	owed[SIGNAL] = link_signal(link, FIRST_ID + 1, 15, on_done, &owed[SIGNAL], &err) == 0;
	owed[STOP] = link_stop(link, FIRST_ID + 5, 10, on_done, &owed[STOP], &err) == 0;
	owed[LIST] = link_list(link, 0, on_process, &owed[LIST], &err) == 0;
	owed[DIAL] = link_dial(link, 80, on_dial, &owed[DIAL], &err) == 0;
	owed[PORTS] = link_ports(link, on_ports, &owed[PORTS], &err) == 0;
	owed[WINDOW] = link_window_run(link, &run, on_window, &owed[WINDOW], &window, &err) == 0;
}

static void say_hello(int fd)
{
	const struct agent_hello hello = { .version = AGENT_PROTOCOL_VERSION,
					   .features = AGENT_HAS_CGROUPS,
					   .next_process_id = FIRST_ID };
	struct buf out;

	buf_init(&out, 4096);
	if (agent_put_hello(&out, &hello) < 0 ||
	    send(fd, buf_data(&out), buf_len(&out), MSG_NOSIGNAL) != (ssize_t)buf_len(&out))
		abort();
	buf_done(&out);
	loop_turn(loop, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct link_hooks hooks = {
		.on_ready = on_ready, .on_gone = on_gone, .on_egress = on_egress, .on_port = on_port
	};
	struct channel channel;
	struct link *link;
	struct err err;
	int pair[2];

	if (size < 1 || size > INPUT_MAX)
		return 0;
	if ((!loop && loop_new(&loop) < 0) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		abort();
	gone = 0;
	channel = (struct channel){ pair[1], !(data[0] & NO_DESCRIPTORS) };
	if (link_new(loop, &channel, 60000, &hooks, NULL, &link, &err) < 0)
		abort();
	if (!(data[0] & NO_HELLO))
		say_hello(pair[0]);
	request(link);
	link_set_frozen(link, data[0] & FROZEN);
	(void)!send(pair[0], data + 1, size - 1, MSG_NOSIGNAL);
	for (int i = 0; i < 3; i++)
		loop_turn(loop, 0);
	(void)close(pair[0]);
	for (int i = 0; i < 2 && !(data[0] & LEAVE_EARLY); i++)
		loop_turn(loop, 0);
	link_free(link);
	loop_turn(loop, 0);
	assert(gone <= 1);
	for (int i = 0; i < REQUESTS; i++)
		assert(!owed[i]);
	return 0;
}
