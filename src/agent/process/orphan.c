/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that the daemon did not start: what a fork bomb or a daemon that left its parents
 * leaves behind. They are found in /proc, so that neither cgroups nor a new process are needed,
 * also when the sandbox has reached its limit of processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/agent.h"
#include "agent/digits.h"
#include "agent/process/proc_stat.h"
#include "agent/system/clock.h"
#include "base/time.h"

#define STOP_ROUNDS_MAX 32 /* until no new process appears; then all of them are killed */
#define LOOK_US 10000	   /* interval at which KILL_ALL checks what is left */
#define GIVE_UP_US 10000000
/* How long a list may take: a fork bomb leaves the agent little time, and requests wait for it. */
#define LIST_US 500000

enum root {
	ROOT_UNKNOWN,
	ROOT_LISTED, /* below a process of the table, or one of them */
	ROOT_ORPHAN,
	ROOT_FOREIGN, /* not below the agent */
};

struct entry {
	struct proc_stat stat;
	enum root root;
	bool chosen;
};

/* Owner: the function that takes it. Sorted by pid. */
struct census {
	struct entry *items;
	size_t count, capacity;
	int64_t end_us; /* when to stop looking; 0: never */
};

static bool add_entry(void *context, const struct proc_stat *stat)
{
	struct census *census = context;
	size_t capacity = census->capacity ? census->capacity * 2 : 256;
	struct entry *items;

	if (census->count == census->capacity) {
		items = realloc(census->items, capacity * sizeof(*items));
		if (!items)
			return false; /* the rest is seen the next time */
		census->items = items;
		census->capacity = capacity;
	}
	census->items[census->count++] = (struct entry){ .stat = *stat };
	return !census->end_us || clock_us() < census->end_us;
}

static struct entry *find_entry(const struct census *census, pid_t pid)
{
	size_t low = 0, high = census->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (census->items[middle].stat.pid == pid)
			return &census->items[middle];
		if (census->items[middle].stat.pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/*
 * In a pid namespace of its own, everything is below the agent: a parent that is missing ended
 * while /proc was read, and its children are ours by now.
 */
static enum root root_without_parent(void)
{
	return getpid() == 1 ? ROOT_ORPHAN : ROOT_FOREIGN;
}

static enum root root_of(const struct agent *agent, const struct census *census,
			 const struct entry *entry)
{
	for (size_t step = 0; step <= census->count; step++) {
		if (entry->root != ROOT_UNKNOWN)
			return entry->root;
		if (table_find_pid(agent, entry->stat.pid))
			return ROOT_LISTED;
		if (entry->stat.parent == getpid())
			return ROOT_ORPHAN;
		entry = find_entry(census, entry->stat.parent);
		if (!entry)
			return root_without_parent();
	}
	return root_without_parent();
}

/* Gives the root to the whole chain, so that long chains are walked once. */
static void set_roots(const struct agent *agent, struct census *census)
{
	for (size_t i = 0; i < census->count; i++) {
		struct entry *at = &census->items[i];
		enum root root = root_of(agent, census, at);

		while (at && at->root == ROOT_UNKNOWN) {
			bool top =
				at->stat.parent == getpid() || table_find_pid(agent, at->stat.pid);

			at->root = root;
			at = top ? NULL : find_entry(census, at->stat.parent);
		}
	}
}

static struct census census_take(const struct agent *agent, int64_t end_us)
{
	struct census census = { .end_us = end_us };
	struct entry *self;

	if (agent->proc_fd >= 0)
		proc_each(agent->proc_fd, add_entry, &census);
	self = find_entry(&census, getpid());
	if (self)
		self->root = ROOT_FOREIGN; /* never a target */
	set_roots(agent, &census);
	return census;
}

static void census_done(struct census *census)
{
	free(census->items);
}

/* ---- the list ---- */

/* The clock of /proc is the boot clock of our time namespace. */
static uint64_t start_ms_of(const struct proc_stat *stat)
{
	long ticks = sysconf(_SC_CLK_TCK);
	int64_t age_ms = time_boot_ms() -
			 (int64_t)(stat->start_ticks * 1000 / (uint64_t)(ticks > 0 ? ticks : 100));

	return (uint64_t)MAX(time_real_ms() - MAX(age_ms, 0), 0);
}

/* Arguments separated by spaces; the name in brackets if there are none, as ps(1) shows it. */
static size_t read_command(int proc_fd, const char *pid_name, char command[AGENT_COMMAND_MAX])
{
	_cleanup_close_ int fd = proc_open(proc_fd, pid_name, "cmdline");
	ssize_t n = fd < 0 ? 0 : read(fd, command, AGENT_COMMAND_MAX);

	if (n <= 0) {
		if (fd >= 0)
			(void)close(fd);
		fd = proc_open(proc_fd, pid_name, "comm");
		n = fd < 0 ? 0 : read(fd, command + 1, AGENT_COMMAND_MAX - 2);
		if (n <= 0)
			return 0;
		command[0] = '[';
		while (n && command[n] == '\n')
			n--;
		command[n + 1] = ']';
		return (size_t)n + 2;
	}
	while (n > 1 && command[n - 1] == '\0')
		n--;
	for (ssize_t i = 0; i < n; i++)
		if (command[i] == '\0')
			command[i] = ' ';
	return (size_t)n;
}

/* One look at the files of users for a run of processes with the same one. */
static struct str user_name(struct user *last, bool *known, uint32_t uid)
{
	char number[DIGITS_MAX + 1];

	if (*known && last->uid == uid)
		return str_of(last->name);
	(void)digits_put(number, uid);
	*known = user_resolve(number, last) == 0;
	if (!*known || !last->name[0]) {
		*known = true;
		*last = (struct user){ .uid = uid };
		memcpy(last->name, number, strlen(number) + 1);
	}
	return str_of(last->name);
}

static int add_orphan(struct agent *agent, struct agent_listing *listing, uint32_t tag,
		      const struct agent_listed *listed)
{
	int r = agent_listing_add(listing, listed);

	if (r != -ENOBUFS)
		return r;
	agent_listing_end(listing, false);
	r = agent_listing_begin(listing, &agent->out, tag);
	return r < 0 ? r : agent_listing_add(listing, listed);
}

static int tell_one(struct agent *agent, struct agent_listing *listing, uint32_t tag,
		    const struct proc_stat *stat)
{
	static struct user last;
	static bool known;
	char command[AGENT_COMMAND_MAX], pid_name[DIGITS_MAX + 1];
	struct agent_listed listed = {
		.process_id = (uint32_t)stat->pid,
		.pid = (uint32_t)stat->pid,
		.flags = AGENT_PROCESS_ORPHAN,
		.start_ms = start_ms_of(stat),
	};
	struct stat st;

	(void)digits_put(pid_name, (uint64_t)stat->pid);
	if (fstatat(agent->proc_fd, pid_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0; /* it has ended */
	listed.user = user_name(&last, &known, st.st_uid);
	listed.command = (struct str){ command, read_command(agent->proc_fd, pid_name, command) };
	return add_orphan(agent, listing, tag, &listed);
}

void orphan_tell(struct agent *agent, uint32_t tag)
{
	int64_t end_us = clock_us() + LIST_US;
	struct census census = census_take(agent, end_us);
	struct agent_listing listing;
	int r = agent_listing_begin(&listing, &agent->out, tag);
	size_t told = 0;

	for (size_t i = 0; r == 0 && i < census.count && told < AGENT_ORPHANS_MAX; i++) {
		const struct entry *entry = &census.items[i];

		if (entry->root != ROOT_ORPHAN || entry->stat.zombie)
			continue;
		r = tell_one(agent, &listing, tag, &entry->stat);
		told++;
		if (clock_us() > end_us + LIST_US)
			break;
	}
	census_done(&census);
	if (r < 0) /* out of memory, or a daemon that requests and never reads */
		agent->conn_broken = true;
	else
		agent_listing_end(&listing, true);
}

/* ---- signals ---- */

/* Marks the target and everything below it; children have larger pids only usually. */
static void choose_tree(struct census *census, pid_t pid)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < census->count; i++) {
			struct entry *entry = &census->items[i];
			const struct entry *parent = find_entry(census, entry->stat.parent);

			if (entry->chosen || entry->root == ROOT_FOREIGN ||
			    !(entry->stat.pid == pid || (parent && parent->chosen)))
				continue;
			entry->chosen = more = true;
		}
	}
}

static void choose_all(struct census *census)
{
	for (size_t i = 0; i < census->count; i++)
		census->items[i].chosen = census->items[i].root != ROOT_FOREIGN;
}

/* Returns how many of the chosen ones were still running. */
static size_t stop_chosen(const struct agent *agent, const struct census *census)
{
	size_t count = 0;

	for (size_t i = 0; i < census->count; i++) {
		const struct entry *entry = &census->items[i];

		if (entry->chosen && !entry->stat.zombie && !entry->stat.stopped)
			count += proc_signal(agent->proc_fd, &entry->stat, SIGSTOP) == 0;
	}
	return count;
}

/*
 * Stopped processes do not fork: when a census shows no running one, it is complete. pid 0: all
 * that is below the agent.
 */
static void kill_tree(struct agent *agent, pid_t pid)
{
	struct census census;

	for (int round = 0;; round++) {
		census = census_take(agent, 0);
		if (pid)
			choose_tree(&census, pid);
		else
			choose_all(&census);
		if (stop_chosen(agent, &census) == 0 || round == STOP_ROUNDS_MAX)
			break;
		census_done(&census);
	}
	for (size_t i = 0; i < census.count; i++) {
		const struct entry *entry = &census.items[i];
		struct process *p = table_find_pid(agent, entry->stat.pid);

		if (!entry->chosen || entry->stat.zombie)
			continue;
		if (p)
			stop_note(p, SIGKILL);
		(void)!proc_signal(agent->proc_fd, &entry->stat, SIGKILL);
	}
	census_done(&census);
}

void orphan_signal(struct agent *agent, pid_t pid, int signum, bool tree, uint32_t tag)
{
	struct census census = census_take(agent, 0);
	const struct entry *entry = find_entry(&census, pid);
	struct process *p = table_find_pid(agent, pid);
	int r = 0;

	if (!entry || entry->root == ROOT_FOREIGN || entry->stat.zombie) {
		conn_done(agent, tag, AGENT_REFUSED_NO_PROCESS, 0);
	} else {
		if (p)
			stop_note(p, signum);
		if (tree && signum == SIGKILL)
			kill_tree(agent, pid);
		else
			r = proc_signal(agent->proc_fd, &entry->stat, signum);
		conn_done(agent, tag, r < 0 ? AGENT_REFUSED_NO_PROCESS : 0, -r);
	}
	census_done(&census);
}

/* ---- everything ---- */

/* In a pid namespace of its own one call reaches all of them at once, also those that fork. */
static void kill_everything(struct agent *agent)
{
	for (struct process *p = agent->oldest; p; p = p->newer)
		if (!p->reaped)
			stop_note(p, SIGKILL);
	if (getpid() == 1)
		(void)kill(-1, SIGKILL);
	else
		kill_tree(agent, 0);
}

/* Zombies count: until they are reaped they occupy the limit of processes. */
static bool anything_left(const struct agent *agent)
{
	struct census census;
	bool left = false;

	for (const struct process *p = agent->oldest; p && !left; p = p->newer)
		left = !p->reaped && p->id < agent->kill_all.before_id;
	if (left)
		return true;
	census = census_take(agent, 0);
	for (size_t i = 0; i < census.count && !left; i++)
		left = census.items[i].root == ROOT_ORPHAN;
	census_done(&census);
	return left;
}

void orphan_kill_all(struct agent *agent, uint32_t tag)
{
	struct kill_all *all = &agent->kill_all;

	if (all->count == KILL_ALL_WAITS_MAX) {
		conn_done(agent, tag, AGENT_REFUSED_QUOTA, 0);
		return;
	}
	kill_everything(agent);
	all->tags[all->count++] = tag;
	all->before_id = agent->next_process_id;
	all->look_us = clock_us();
	all->end_us = all->look_us + GIVE_UP_US;
}

static void answer_all(struct agent *agent, enum agent_refusal refusal)
{
	struct kill_all *all = &agent->kill_all;

	for (uint32_t i = 0; i < all->count; i++)
		conn_done(agent, all->tags[i], refusal, 0);
	all->count = 0;
}

void orphan_run(struct agent *agent)
{
	struct kill_all *all = &agent->kill_all;
	int64_t now_us = clock_us();

	if (!all->count || now_us < all->look_us)
		return;
	process_reap(agent);
	if (!anything_left(agent))
		answer_all(agent, 0);
	else if (now_us >= all->end_us) /* in the kernel, for example in a hung file system */
		answer_all(agent, AGENT_REFUSED_STILL_RUNNING);
	else
		all->look_us = now_us + LOOK_US;
}

int orphan_sleep_ms(const struct agent *agent)
{
	int64_t left_us = agent->kill_all.look_us - clock_us();

	if (!agent->kill_all.count)
		return -1;
	return left_us > 0 ? (int)(left_us / 1000) + 1 : 0;
}

void orphan_on_conn_lost(struct agent *agent)
{
	agent->kill_all.count = 0;
}
