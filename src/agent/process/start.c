/* SPDX-License-Identifier: Apache-2.0 */
/* From EXEC to a running process: its user, directory and pipes. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "agent/system/clock.h"
#include "agent/digits.h"
#include "agent/output/follow.h"
#include "agent/output/hold.h"
#include "agent/process/spawn.h"
#include "agent/process/tty.h"
#include "base/time.h"

#define OOM_ADJ_CHILD "500"
#define TOOLS_NAME "cay-tools"
/* PROCESS_MARK, HOME, USER, LOGNAME, TERM and the end; the variables of the egress proxy */
#define ADDED_ENV (6 + EGRESS_VARIABLES)

/* A request that is becoming a process. */
struct start {
	const struct agent_exec *exec;
	const char **argv;
	const char **env;
	const char *user_name;
	const char *cwd;
	struct user user;
	int child_fds[3];
	int our_fds[3];
	struct group *group;
	enum agent_refusal code;
	int error;
	const char *detail; /* subject of the refusal */
};

static int refuse(struct start *s, enum agent_refusal code, int error, const char *detail)
{
	s->code = code;
	s->error = error;
	s->detail = detail;
	return -1;
}

static int find_user(struct agent *agent, struct start *s)
{
	const char *wanted = s->exec->user;
	int r;

	if (!wanted[0] && agent->same_user) {
		s->user = agent->self;
		return 0;
	}
	if (!wanted[0])
		wanted = agent->default_user;
	r = user_resolve(wanted, &s->user);
	if (r < 0)
		return refuse(s, AGENT_REFUSED_UNKNOWN_USER, -r, wanted);
	if (agent->same_user && s->user.uid != agent->self.uid)
		return refuse(s, AGENT_REFUSED_USER_NOT_ALLOWED, EPERM, wanted);
	return 0;
}

static bool starts_with(const char *s, const char *key)
{
	return strncmp(s, key, strlen(key)) == 0;
}

static void add_env(struct start *s, size_t *count, char *space, const char *key, const char *value)
{
	size_t n = strlen(key);

	for (size_t i = 0; i < *count; i++)
		if (starts_with(s->env[i], key))
			return;
	memcpy(space, key, n);
	memcpy(space + n, value, strlen(value) + 1);
	s->env[(*count)++] = space;
	s->env[*count] = NULL;
}

/*
 * First in the environment, where a search finds it soon; one that the request contains is
 * replaced.
 */
static size_t put_mark(struct start *s, size_t envc, char *space)
{
	size_t kept = 1;

	(void)digits_put(digits_text(space, PROCESS_MARK), s->exec->process_id);
	for (size_t i = 0; i < envc; i++)
		if (!starts_with(s->env[1 + i], PROCESS_MARK))
			s->env[kept++] = s->env[1 + i];
	s->env[0] = space;
	s->env[kept] = NULL;
	return kept;
}

static int make_arguments(const struct agent *agent, struct start *s)
{
	static char home[8 + USER_HOME_MAX], user[8 + USER_NAME_MAX], logname[10 + USER_NAME_MAX],
		mark[sizeof(PROCESS_MARK) + DIGITS_MAX], term[24];
	size_t argc = s->exec->argc, envc = s->exec->envc;

	s->argv = malloc((argc + 1 + envc + ADDED_ENV) * sizeof(*s->argv));
	if (!s->argv)
		return refuse(s, AGENT_REFUSED_NO_MEMORY, ENOMEM, "");
	s->env = s->argv + argc + 1;
	agent_exec_pointers(s->exec, s->argv, s->env + 1);
	envc = put_mark(s, envc, mark);
	add_env(s, &envc, home, "HOME=", s->user.home);
	add_env(s, &envc, user, "USER=", s->user.name);
	add_env(s, &envc, logname, "LOGNAME=", s->user.name);
	if (s->exec->flags & AGENT_EXEC_TTY)
		add_env(s, &envc, term, "TERM=", "xterm-256color");
	if (agent->relays.egress_fd >= 0)
		egress_add_env(s->env, envc);
	return 0;
}

static int make_tty(struct agent *agent, struct start *s)
{
	int master, slave;
	int r = tty_open(agent->same_user ? NULL : &s->user, s->exec->cols, s->exec->rows, &master,
			 &slave);

	if (r < 0)
		return refuse(s, AGENT_REFUSED_OTHER, -r, "terminal");
	if (s->exec->flags & PROCESS_EXEC_WINDOW)
		tty_keep_newlines(slave);
	s->our_fds[1] = master;
	s->child_fds[0] = s->child_fds[1] = s->child_fds[2] = slave;
	/* Writing has a separate descriptor, so that epoll watches it separately. */
	s->our_fds[0] = fcntl(master, F_DUPFD_CLOEXEC, 3);
	if (s->our_fds[0] < 0)
		return refuse(s, AGENT_REFUSED_OTHER, errno, "terminal");
	return 0;
}

static int make_pipes(struct agent *agent, struct start *s)
{
	bool wants_stdin = s->exec->stdin_bytes.n || (s->exec->flags & AGENT_EXEC_STDIN_OPEN);

	for (int i = 0; i < 3; i++) {
		int ends[2];

		if (i == 0 && !wants_stdin) {
			s->child_fds[0] = agent->null_fd;
			continue;
		}
		if (pipe2(ends, O_CLOEXEC) < 0)
			return refuse(s, AGENT_REFUSED_OTHER, errno, "pipe");
		s->child_fds[i] = ends[i != 0];
		s->our_fds[i] = ends[i == 0];
		/* Only our end: the program expects its own to block. */
		if (fcntl(s->our_fds[i], F_SETFL, O_NONBLOCK | (i == 0 ? O_WRONLY : 0)) < 0)
			return refuse(s, AGENT_REFUSED_OTHER, errno, "pipe");
	}
	return 0;
}

/*
 * Many processes need more descriptors than the usual limit. It is raised only when they run short,
 * because each child then needs the old limit back.
 */
static void raise_files(struct agent *agent, const struct start *s)
{
	struct rlimit all = { agent->files_hard, agent->files_hard };

	if (agent->files_raised || (uint64_t)s->our_fds[1] < agent->files_soft / 2 ||
	    agent->files_hard <= agent->files_soft)
		return;
	agent->files_raised = setrlimit(RLIMIT_NOFILE, &all) == 0;
}

static int explain(struct start *s, const struct spawn *spawned)
{
	static const struct {
		enum spawn_step step;
		int error; /* 0: any other */
		enum agent_refusal code;
	} table[] = {
		{ SPAWN_CLONE, EAGAIN, AGENT_REFUSED_PROCESS_LIMIT },
		{ SPAWN_CLONE, ENOMEM, AGENT_REFUSED_NO_MEMORY },
		{ SPAWN_USER, 0, AGENT_REFUSED_USER_NOT_ALLOWED },
		{ SPAWN_CWD, ENOENT, AGENT_REFUSED_CWD_MISSING },
		{ SPAWN_CWD, ENAMETOOLONG, AGENT_REFUSED_CWD_MISSING },
		{ SPAWN_CWD, ENOTDIR, AGENT_REFUSED_CWD_NOT_DIRECTORY },
		{ SPAWN_CWD, 0, AGENT_REFUSED_CWD_FORBIDDEN },
		{ SPAWN_EXEC, ENOENT, AGENT_REFUSED_NOT_FOUND },
		{ SPAWN_EXEC, ENOTDIR, AGENT_REFUSED_NOT_FOUND },
		{ SPAWN_EXEC, ENAMETOOLONG, AGENT_REFUSED_NOT_FOUND },
		{ SPAWN_EXEC, EACCES, AGENT_REFUSED_FORBIDDEN },
		{ SPAWN_EXEC, EPERM, AGENT_REFUSED_FORBIDDEN },
		{ SPAWN_EXEC, ENOEXEC, AGENT_REFUSED_BAD_FORMAT },
		{ SPAWN_EXEC, E2BIG, AGENT_REFUSED_TOO_BIG },
		{ SPAWN_EXEC, ENOMEM, AGENT_REFUSED_NO_MEMORY },
		{ SPAWN_EXEC, EAGAIN, AGENT_REFUSED_PROCESS_LIMIT },
	};
	const char *detail = spawned->failed_step == SPAWN_CWD	   ? s->cwd
			     : spawned->failed_step == SPAWN_USER  ? s->user.name
			     : spawned->failed_step == SPAWN_GROUP ? "group"
								   : s->argv[0];

	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].step == spawned->failed_step &&
		    (!table[i].error || table[i].error == spawned->error))
			return refuse(s, table[i].code, spawned->error, detail);
	return refuse(s, AGENT_REFUSED_OTHER, spawned->error, detail);
}

/*
 * The child inherits the adjustment at clone; as another user it cannot write it itself. Between
 * the two writes the agent is as likely an OOM victim as its children.
 */
static void set_oom_adj(const struct agent *agent, const char *value)
{
	if (agent->oom_adj_fd >= 0 && pwrite(agent->oom_adj_fd, value, strlen(value), 0) < 0)
		return; /* the kernel then chooses as without us */
}

static int launch(struct agent *agent, struct start *s, pid_t *ret_pid)
{
	struct spawn spawned = {
		.argv = s->argv,
		.env = s->env,
		.cwd = s->cwd,
		.user = agent->same_user ? NULL : &s->user,
		.fds = { s->child_fds[0], s->child_fds[1], s->child_fds[2] },
		.group_fd = group_tasks_fd(s->group),
		.program_fd = s->exec->flags & AGENT_EXEC_TOOL ? agent->tools_fd : -1,
		.tty = s->exec->flags & AGENT_EXEC_TTY,
	};
	pid_t pid;

	if (agent->files_raised) {
		spawned.files_soft = agent->files_soft;
		spawned.files_hard = agent->files_hard;
	}
	set_oom_adj(agent, OOM_ADJ_CHILD);
	pid = spawn(&spawned);
	set_oom_adj(agent, agent->oom_adj); /* restores the original value */
	if (spawned.failed_step == SPAWN_OK) {
		*ret_pid = pid;
		return 0;
	}
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	return explain(s, &spawned);
}

static int check_tool(const struct agent *agent, struct start *s)
{
	if (!(s->exec->flags & AGENT_EXEC_TOOL))
		return 0;
	if (!(s->exec->flags & AGENT_EXEC_FOLLOW))
		return refuse(s, AGENT_REFUSED_BAD_REQUEST, EINVAL, "a tool needs a follow");
	if (agent->tools_fd < 0 || strcmp(s->exec->args, TOOLS_NAME) != 0)
		return refuse(s, AGENT_REFUSED_NOT_FOUND, ENOENT, s->exec->args);
	return 0;
}

/* A relative path starts at the default directory. */
static int find_cwd(const struct agent *agent, struct start *s)
{
	static char joined[PATH_MAX];
	size_t n = strlen(agent->default_cwd);

	s->cwd = s->exec->cwd[0] ? s->exec->cwd : agent->default_cwd;
	if (s->cwd[0] == '/')
		return 0;
	if (agent->default_cwd[0] != '/' || n + 1 + strlen(s->cwd) >= sizeof(joined))
		return refuse(s, AGENT_REFUSED_CWD_MISSING, ENAMETOOLONG, s->cwd);
	memcpy(joined, agent->default_cwd, n);
	joined[n] = '/';
	memcpy(joined + n + 1, s->cwd, strlen(s->cwd) + 1);
	s->cwd = joined;
	return 0;
}

static int prepare(struct agent *agent, struct start *s)
{
	if (find_cwd(agent, s) < 0)
		return -1;
	if (!(s->exec->flags & PROCESS_EXEC_WINDOW)) {
		if (s->exec->process_id < agent->next_process_id)
			return refuse(s, AGENT_REFUSED_BAD_REQUEST, EEXIST,
				      "process id used before");
		agent->next_process_id = s->exec->process_id + 1;
	}
	if ((agent->process_count >= AGENT_PROCESSES_MAX && !process_evict(agent)) ||
	    agent->hidden_count >= AGENT_PROCESSES_MAX)
		return refuse(s, AGENT_REFUSED_QUOTA, 0, "");
	if (!stdin_has_room(agent, s->exec->stdin_bytes.n))
		return refuse(s, AGENT_REFUSED_NO_MEMORY, ENOMEM, "input");
	if (check_tool(agent, s) < 0 || find_user(agent, s) < 0 || make_arguments(agent, s) < 0)
		return -1;
	if ((s->exec->flags & AGENT_EXEC_TTY ? make_tty(agent, s) : make_pipes(agent, s)) < 0)
		return -1;
	raise_files(agent, s);
	s->group = group_take(&agent->groups);
	return 0;
}

/* What LISTED shows: the arguments separated by spaces, truncated. */
static uint16_t describe(const struct start *s, char command[AGENT_COMMAND_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < s->exec->argc && n < AGENT_COMMAND_MAX; i++) {
		size_t arg_n = strlen(s->argv[i]);

		if (i)
			command[n++] = ' ';
		arg_n = MIN(arg_n, AGENT_COMMAND_MAX - n);
		memcpy(command + n, s->argv[i], arg_n);
		n += arg_n;
	}
	return (uint16_t)n;
}

static void init_rings(struct agent *agent, struct process *p, const struct agent_exec *exec)
{
	size_t ring_bytes = exec->ring_bytes ? exec->ring_bytes : AGENT_RING_DEFAULT_BYTES;

	if (p->tool)
		ring_bytes = 0;
	for (int i = 0; i < 2; i++)
		ring_init(&p->streams[i].ring, p->collect ? exec->output_max_bytes : ring_bytes,
			  p->collect ? RING_KEEP_FIRST : RING_KEEP_LAST, &agent->rings);
}

static void adopt(struct agent *agent, struct process *p, struct start *s, pid_t pid)
{
	const struct agent_exec *exec = s->exec;

	p->id = exec->process_id;
	p->pid = pid;
	p->user = s->user;
	p->collect = exec->flags & AGENT_EXEC_COLLECT;
	p->tool = exec->flags & AGENT_EXEC_TOOL;
	p->tty = exec->flags & AGENT_EXEC_TTY;
	p->cols = exec->cols;
	p->rows = exec->rows;
	p->keep_ms = exec->keep_ms ? exec->keep_ms : AGENT_KEEP_DEFAULT_MS;
	p->group = TAKE_PTR(s->group);
	p->in_fd = TAKE_FD(s->our_fds[0]);
	if (str_copy(p->name, sizeof(p->name), str_of(exec->name)) < 0)
		p->name[0] = '\0'; /* the codec rejects longer names */
	save_init(&p->save, exec->flags & AGENT_EXEC_SAVE);
	buf_init(&p->in, AGENT_STDIN_MAX_BYTES);
	init_rings(agent, p, exec);
	table_add(agent, p);
	if (!p->tool) {
		ports_expect(agent);
		inside_expect(agent);
	}
	if (exec->timeout_ms)
		timer_set(agent, p, TIMER_TIMEOUT, p->start_us + (int64_t)exec->timeout_ms * 1000);
	for (int i = 0; i < 2; i++) {
		p->streams[i].fd = TAKE_FD(s->our_fds[i + 1]);
		stream_watch(agent, p, i, true);
	}
	stdin_start(agent, p, exec);
}

static void start_done(struct agent *agent, struct start *s)
{
	for (int i = 0; i < 3; i++) {
		bool again = i && s->child_fds[i] == s->child_fds[0]; /* a terminal */

		if (s->child_fds[i] >= 0 && s->child_fds[i] != agent->null_fd && !again)
			(void)close(s->child_fds[i]);
		if (s->our_fds[i] >= 0)
			(void)close(s->our_fds[i]);
	}
	group_release(&agent->groups, s->group);
	free(s->argv);
}

struct process *process_start(struct agent *agent, const struct agent_exec *exec,
			      struct process_refusal *ret_refusal)
{
	struct start s = { .exec = exec, .child_fds = { -1, -1, -1 }, .our_fds = { -1, -1, -1 } };
	struct process *p = calloc(1, sizeof(*p) + AGENT_COMMAND_MAX);
	pid_t pid = -1;
	int r;

	if (!p) {
		r = refuse(&s, AGENT_REFUSED_NO_MEMORY, ENOMEM, "");
	} else {
		p->start_us = clock_us();
		p->start_ms = time_real_ms();
		p->kills_before = memory_kills(&agent->memory);
		if (!(exec->flags & AGENT_EXEC_TOOL))
			inside_check(agent);
		r = prepare(agent, &s);
	}
	if (r == 0)
		r = launch(agent, &s, &pid);
	if (r == 0) {
		p->command_n = describe(&s, p->command);
		adopt(agent, p, &s, pid);
	} else {
		*ret_refusal = (struct process_refusal){ .code = s.code, .error = s.error };
		ret_refusal->message_n = strnlen(s.detail, sizeof(ret_refusal->message));
		memcpy(ret_refusal->message, s.detail, ret_refusal->message_n);
		free(p);
		p = NULL;
	}
	start_done(agent, &s);
	return p;
}

static void tell_refusal(struct agent *agent, uint32_t process_id,
			 const struct process_refusal *refusal)
{
	struct agent_refused refused = {
		.process_id = process_id,
		.code = refusal->code,
		.errno_value = (uint32_t)refusal->error,
		.message = { refusal->message, refusal->message_n },
	};

	if (agent_put_refused(&agent->out, &refused) < 0)
		agent->conn_broken = true;
}

void process_exec(struct agent *agent, const struct agent_exec *exec)
{
	uint8_t flags = AGENT_FOLLOW_LIVE | AGENT_FOLLOW_OUT | AGENT_FOLLOW_ERR;
	struct process_refusal refusal;
	struct process *p;

	if (exec->follow_id && follow_exists(agent, exec->follow_id)) {
		agent->conn_broken = true; /* a mistake of the daemon */
		return;
	}
	if (exec->follow_id && agent->follow_count == AGENT_FOLLOWS_MAX) {
		refusal = (struct process_refusal){ .code = AGENT_REFUSED_QUOTA };
		tell_refusal(agent, exec->process_id, &refusal);
		return;
	}
	p = process_start(agent, exec, &refusal);
	if (!p) {
		tell_refusal(agent, exec->process_id, &refusal);
		return;
	}
	if (!p->collect && agent_put_started(&agent->out, p->id, (uint32_t)p->pid) < 0)
		agent->conn_broken = true;
	if (exec->flags & AGENT_EXEC_HOLD)
		flags |= AGENT_FOLLOW_HOLD;
	if (exec->follow_id && !follow_add(agent, p, exec->follow_id, exec->credit, flags, 0, 0))
		agent->conn_broken = true; /* out of memory: a follow must always have an end */
	else if (!exec->follow_id && (exec->flags & AGENT_EXEC_HOLD))
		hold_expect(agent, p, (const uint64_t[2]){ 0, 0 });
}
