/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/port/ports.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/agent.h"
#include "agent/digits.h"
#include "agent/dirent.h"
#include "base/time.h"

#define LOOK_FIRST_US 50000LL
#define LOOK_LAST_US 5000000LL
#define LOOK_WHOLE_US 60000000LL   /* reads the tables although their size is unchanged */
#define TABLE_MAX_BYTES (1U << 20) /* per file; of more sockets only a part is reported */
#define PROCESSES_MAX 512	   /* processes searched for the owner of a socket */
#define FDS_MAX 256		   /* descriptors of each */
#define PATH_SIZE 64

/* One listening socket, while a list is being built. */
struct found {
	struct agent_port port;
	uint64_t inode;
	char name[AGENT_PORT_NAME_MAX];
};

/* Owner: the current poll; the agent has one thread, and polls do not nest. */
static struct {
	struct found ports[AGENT_PORTS_MAX];
	uint32_t count;
} table;

static bool same(const struct agent_port *a, const struct agent_port *b)
{
	return a->port == b->port && a->family == b->family &&
	       memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

static void add(const struct agent_port *port, uint64_t inode)
{
	if (table.count == AGENT_PORTS_MAX)
		return;
	for (uint32_t i = 0; i < table.count; i++)
		if (same(&table.ports[i].port, port)) /* several processes share it */
			return;
	table.ports[table.count++] = (struct found){ .port = *port, .inode = inode };
}

static void take_lines(char *text, size_t *n, bool v6)
{
	struct str rest = { text, *n }, line;
	struct agent_port port;
	uint64_t inode;

	while (str_cut(rest, '\n', &line, &rest))
		if (ports_parse_line(line, v6, &port, &inode) == 1)
			add(&port, inode);
	memmove(text, rest.p, rest.n);
	*n = rest.n;
}

static void look_at(const struct agent *agent, const char *path, bool v6)
{
	static char text[16384];
	_cleanup_close_ int fd = openat(agent->proc_fd, path, O_RDONLY | O_CLOEXEC);
	size_t have = 0, total = 0;
	ssize_t n;

	while (fd >= 0 && total < TABLE_MAX_BYTES && have < sizeof(text) &&
	       (n = read(fd, text + have, sizeof(text) - have)) > 0) {
		have += (size_t)n;
		total += (size_t)n;
		take_lines(text, &have, v6);
	}
}

/* Parses "TCP: inuse 3" or "TCP6: inuse 3"; an unreadable file counts as a change. */
static uint64_t sockets_in(const struct agent *agent, const char *path, const char *name)
{
	_cleanup_close_ int fd = openat(agent->proc_fd, path, O_RDONLY | O_CLOEXEC);
	char text[512];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	struct str rest = { text, n > 0 ? (size_t)n : 0 }, line, word;
	uint64_t count;

	while (str_cut(rest, '\n', &line, &rest)) {
		if (!str_starts(line, name))
			continue;
		line = (struct str){ line.p + strlen(name), line.n - strlen(name) };
		if (!str_cut(line, ' ', &word, &line))
			word = line;
		if (str_to_u64(word, UINT32_MAX, &count) == 0)
			return count;
	}
	return UINT64_MAX;
}

static void look(const struct agent *agent)
{
	table.count = 0;
	if (sockets_in(agent, "self/net/sockstat", "TCP: inuse "))
		look_at(agent, "self/net/tcp", false);
	if (sockets_in(agent, "self/net/sockstat6", "TCP6: inuse "))
		look_at(agent, "self/net/tcp6", true);
}

/*
 * For a list of our sockets the kernel walks the socket table of the whole host, which takes
 * milliseconds. The list is read only if there are sockets and their number has changed, and once
 * in a while.
 */
static bool is_due(struct agent *agent, int64_t now_us)
{
	struct ports *ports = &agent->ports;
	uint64_t v4 = sockets_in(agent, "self/net/sockstat", "TCP: inuse ");
	uint64_t v6 = sockets_in(agent, "self/net/sockstat6", "TCP6: inuse ");
	bool same_count = v4 != UINT64_MAX && v4 == ports->sockets[0] && v6 == ports->sockets[1];

	ports->sockets[0] = v4;
	ports->sockets[1] = v6;
	if (same_count && now_us < ports->looked_us + LOOK_WHOLE_US)
		return false;
	ports->looked_us = now_us;
	return true;
}

/* ---- owners ---- */

static void read_name(const struct agent *agent, const char *pid, struct found *found)
{
	char path[PATH_SIZE];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	(void)digits_text(digits_text(path, pid), "/comm");
	fd = openat(agent->proc_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	n = fd < 0 ? 0 : read(fd, found->name, sizeof(found->name));
	while (n > 0 && (found->name[n - 1] == '\n' || found->name[n - 1] == '\0'))
		n--;
	if (n > 0 && !memchr(found->name, 0, (size_t)n))
		found->port.name = (struct str){ found->name, (size_t)n };
}

static void on_socket(const struct agent *agent, const char *pid, uint64_t inode)
{
	uint64_t number;

	for (uint32_t i = 0; i < table.count; i++) {
		struct found *found = &table.ports[i];

		if (found->inode != inode || found->port.pid ||
		    str_to_u64(str_of(pid), INT32_MAX, &number) < 0)
			continue;
		found->port.pid = (uint32_t)number;
		read_name(agent, pid, found);
	}
}

static void on_fd(const struct agent *agent, int dir_fd, const char *pid, const char *name)
{
	char link[64];
	struct str text = { link, 0 };
	ssize_t n = readlinkat(dir_fd, name, link, sizeof(link));
	uint64_t inode;

	if (n <= 9)
		return;
	text.n = (size_t)n;
	if (!str_starts(text, "socket:[") || link[n - 1] != ']')
		return;
	if (str_to_u64((struct str){ link + 8, (size_t)n - 9 }, INT64_MAX, &inode) == 0)
		on_socket(agent, pid, inode);
}

/* Calls fn for at most max entries that are numbers. */
static void each_number(int dir_fd, unsigned max,
			void (*fn)(const struct agent *, int, const char *, const char *),
			const struct agent *agent, const char *pid)
{
	char space[4096] __attribute__((aligned(8)));
	long n;

	while (max && (n = syscall(SYS_getdents64, dir_fd, space, sizeof(space))) > 0) {
		for (long at = 0; at < n && max;) {
			const struct dirent64 *d = (const struct dirent64 *)(space + at);

			at += d->reclen;
			if (d->name[0] < '0' || d->name[0] > '9')
				continue;
			max--;
			fn(agent, dir_fd, pid, d->name);
		}
	}
}

/*
 * A process is inspected with the rights of its own user, because the agent has no others over it.
 */
static void on_process(const struct agent *agent, int proc_fd, const char *none, const char *pid)
{
	char path[PATH_SIZE];
	struct stat st;
	int fd;

	(void)none;
	if (strlen(pid) > DIGITS_MAX || fstatat(proc_fd, pid, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	(void)digits_text(digits_text(path, pid), "/fd");
	(void)setfsgid(st.st_gid);
	(void)setfsuid(st.st_uid);
	fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		each_number(fd, FDS_MAX, on_fd, agent, pid);
	(void)setfsuid(geteuid());
	(void)setfsgid(getegid());
	if (fd >= 0)
		(void)close(fd);
}

static void find_owners(const struct agent *agent)
{
	_cleanup_close_ int fd = openat(agent->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && table.count)
		each_number(fd, PROCESSES_MAX, on_process, agent, "");
}

int ports_on_request(struct agent *agent, const struct frame *frame)
{
	struct agent_port_listing listing;
	uint32_t tag;
	int r;

	if (agent_get_ports(frame, &tag) < 0)
		return -EPROTO;
	look(agent);
	find_owners(agent);
	r = agent_ports_begin(&listing, &agent->out, tag);
	for (uint32_t i = 0; r == 0 && i < table.count; i++)
		r = agent_ports_add(&listing, &table.ports[i].port);
	if (r < 0)
		agent->conn_broken = true;
	else
		agent_ports_end(&listing);
	return 0;
}

/* ---- notices ---- */

static void tell(struct agent *agent, const struct agent_port *port, bool opened)
{
	/* A daemon that does not read gets no more notices. */
	if (agent->conn_fd < 0 || buf_len(&agent->out) >= AGENT_OUT_HIGH_BYTES)
		return;
	if (agent_put_port_notice(&agent->out, port, opened) < 0)
		agent->conn_broken = true;
}

static bool compare(struct agent *agent)
{
	struct ports *ports = &agent->ports;
	uint32_t kept = 0;
	bool changed = false;

	for (uint32_t i = 0; i < ports->known_count; i++) {
		uint32_t at = 0;

		while (at < table.count && !same(&ports->known[i], &table.ports[at].port))
			at++;
		if (at < table.count) {
			table.ports[at].inode = 0; /* not new */
			ports->known[kept++] = ports->known[i];
		} else {
			changed = true;
			tell(agent, &ports->known[i], false);
		}
	}
	ports->known_count = kept;
	for (uint32_t i = 0; i < table.count; i++) {
		if (!table.ports[i].inode || ports->known_count == PORTS_KNOWN_MAX)
			continue;
		changed = true;
		ports->known[ports->known_count++] = table.ports[i].port;
		tell(agent, &table.ports[i].port, true);
	}
	return changed;
}

void ports_expect(struct agent *agent)
{
	struct ports *ports = &agent->ports;
	int64_t soon_us = time_mono_us() + LOOK_FIRST_US;

	if (agent->trust_any_peer) /* the network is the host's, so its ports are not reported */
		return;

	ports->wait_us = LOOK_FIRST_US;
	if (!ports->due_us || ports->due_us > soon_us)
		ports->due_us = soon_us;
}

/*
 * A poll costs 5 to 15 ms of processor time, because the kernel walks the connections of the whole
 * host. It is skipped if the agent is the only process.
 */
static bool nobody(void)
{
	return getpid() == 1 && kill(-1, 0) < 0 && errno == ESRCH;
}

void ports_run(struct agent *agent)
{
	struct ports *ports = &agent->ports;
	int64_t now_us;

	if (!ports->due_us)
		return;
	now_us = time_mono_us();
	if (now_us < ports->due_us)
		return;
	if (nobody()) {
		table.count = 0;
		(void)compare(agent);
		ports->due_us = 0;
		return;
	}
	ports->wait_us = MIN(ports->wait_us * 2, LOOK_LAST_US);
	if (is_due(agent, now_us)) {
		look(agent);
		if (compare(agent))
			ports->wait_us = LOOK_FIRST_US;
	}
	/*
	 * Background programs of an ended command are not tracked as processes: poll until the
	 * interval has become long.
	 */
	ports->due_us = agent->process_live || ports->known_count || ports->wait_us < LOOK_LAST_US
				? now_us + ports->wait_us
				: 0;
}

int ports_sleep_ms(const struct agent *agent)
{
	if (!agent->ports.due_us)
		return -1;
	return (int)(MAX(agent->ports.due_us - time_mono_us(), 0) / 1000 + 1);
}
