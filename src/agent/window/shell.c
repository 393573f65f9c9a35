/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/window/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <termios.h>

#include "agent/agent.h"
#include "agent/digits.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif
#define ROOT_DIRECTORY "/run/cay-windows"
/* and digits, in the scratch directory, if we are not root */
#define OWN_DIRECTORY "/cay-windows-"
#define PLACE_MAX (AGENT_SCRATCH_MAX + 64) /* of the path of a window's directory */
#define SCRIPT_MAX 4096
/* Preserves $?. It is not the last member of a list, so "set -e" and a trap of ERR ignore it. */
#define QUIET "{ . @/quiet $? \"$_\" && : \"$_\"; } 2>/dev/null; "
#define READS_PER_REPORT 64 /* any process may write there, without end */

/* ---- files ---- */

void shell_random_digits(char *dst, size_t n)
{
	uint8_t bytes[64];

	if (getrandom(bytes, n, 0) != (ssize_t)n) /* cannot fail for so few bytes */
		memset(bytes, 0, sizeof(bytes));
	for (size_t i = 0; i < n; i++)
		dst[i] = (char)('0' + bytes[i] % 10);
}

static int open_own(const char *path)
{
	struct stat info;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &info) == 0 && info.st_uid == geteuid() && !(info.st_mode & 022))
		return fd;
	(void)close(fd);
	return -EPERM;
}

/* The directory of all windows' files; users may search but not write it. */
static int open_base(struct agent *agent)
{
	char *end;

	if (agent->windows_fd >= 0)
		return 0;
	if (!agent->same_user && (mkdir(ROOT_DIRECTORY, 0711) == 0 || errno == EEXIST)) {
		(void)digits_text(agent->windows_path, ROOT_DIRECTORY);
		agent->windows_fd = open_own(agent->windows_path);
	}
	if (agent->windows_fd >= 0)
		return 0;
	end = digits_text(digits_text(agent->windows_path, agent->scratch), OWN_DIRECTORY);
	shell_random_digits(end, 12);
	end[12] = '\0';
	if (mkdir(agent->windows_path, 0711) < 0)
		return -errno;
	agent->windows_fd = open_own(agent->windows_path);
	return agent->windows_fd < 0 ? agent->windows_fd : 0;
}

static int write_script(int dir_fd, const char *name, const char *text)
{
	_cleanup_close_ int fd =
		openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	ssize_t n = (ssize_t)strlen(text);

	if (fd < 0)
		return -errno;
	return write(fd, text, (size_t)n) == n ? 0 : -EIO;
}

/* Copies text, with @ replaced by the window's directory and ~ by the token. */
static void fill_in(char dst[SCRIPT_MAX], const char *text, const char *place, const char *token)
{
	for (; *text; text++) {
		if (*text == '@')
			dst = digits_text(dst, place);
		else if (*text == '~')
			dst = digits_text(dst, token);
		else
			*dst++ = *text;
	}
	*dst = '\0';
}

/*
 * The loop: reports the status of the previous command, waits for the next, reports its start, and
 * runs it. Our steps run in a substitution, so that the shell has no variable of ours and still
 * sees the status of the previous command. It is one line, so that error messages count from 1.
 *
 * It is sourced, because an interactive bash then reports jobs as at a prompt. There are two loops,
 * so that the user's "break" ends only the inner one; "break 2" or "return" leads to the prompt,
 * which reports that.
 *
 * After "set -x" our own steps would be traced: it is switched off between commands and on again
 * with the next. The option dirspell remembers it, which has no other effect in a shell without
 * completion.
 */
static const char loop_text[] =
	"for ((;;)); do for ((;;)); do eval -- \"$({ s=$?; if [[ -p @/report && -p @/command ]]; "
	"then "
	"builtin echo s $s >@/report; c=$(<@/command); if [[ $c == ~*~ ]]; then "
	"builtin echo b >@/report; builtin shopt -q dirspell && "
	"builtin echo \"{ builtin set -x; (builtin exit $s) && :; } 2>/dev/null\"; "
	"c=${c#~}; builtin printf %s \"${c%~}\"; fi; "
	"else builtin echo builtin exit 1; fi; builtin exit $s; } 2>/dev/null)\"; " QUIET
	"done; done\n";
static const char quiet_text[] =
	"if [[ $- == *x* ]]; then builtin set +x; builtin shopt -s dirspell; "
	"else builtin shopt -u dirspell; fi; builtin return $1\n";
static const char start_text[] =
	"unset PS0 PS1 PS2 PROMPT_COMMAND HISTFILE\n"
	"PS1='$({ builtin echo p >@/report; } 2>/dev/null)' PS2= PROMPT_COMMAND='" QUIET
	". @/loop'\n";

static int make_fifo(int dir_fd, const char *name, const struct user *owner)
{
	if (mkfifoat(dir_fd, name, 0600) < 0)
		return -errno;
	if (owner && fchownat(dir_fd, name, owner->uid, owner->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int make_fifos(struct agent *agent, struct shell *shell, const struct user *owner)
{
	struct stat info;
	int r = make_fifo(shell->dir_fd, "report", agent->same_user ? NULL : owner);

	if (r == 0)
		r = make_fifo(shell->dir_fd, "command", agent->same_user ? NULL : owner);
	if (r < 0)
		return r;
	/*
	 * Opened for both directions, so that it has no end of file when the shell closes its side.
	 */
	shell->report_fd =
		openat(shell->dir_fd, "report", O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (shell->report_fd < 0)
		return -errno;
	return fstat(shell->report_fd, &info) == 0 && S_ISFIFO(info.st_mode) ? 0 : -EPERM;
}

/* Several agents may share the parent: our directories begin with our pid. */
static void name_directory(char name[24])
{
	char *end = digits_put(name, (uint64_t)getpid());

	*end++ = '-';
	shell_random_digits(end, 8);
	end[8] = '\0';
}

/* Root inside may have removed the parent meanwhile; it is then created again. */
static int make_directory(struct agent *agent, const char *name)
{
	for (int i = 0; i < 2; i++) {
		int r = open_base(agent);

		if (r < 0)
			return r;
		if (mkdirat(agent->windows_fd, name, 0711) == 0)
			return 0;
		if (errno != ENOENT)
			return -errno;
		(void)close(TAKE_FD(agent->windows_fd));
	}
	return -ENOENT;
}

static int make_files(struct agent *agent, struct shell *shell, const struct user *owner,
		      char place[PLACE_MAX])
{
	char script[SCRIPT_MAX], *end;
	int r = make_directory(agent, shell->name);

	if (r < 0)
		return r;
	end = digits_text(place, agent->windows_path);
	*end++ = '/';
	(void)digits_text(end, shell->name);
	shell->dir_fd = openat(agent->windows_fd, shell->name,
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (shell->dir_fd < 0)
		return -errno;
	fill_in(script, loop_text, place, shell->token);
	r = write_script(shell->dir_fd, "loop", script);
	if (r < 0)
		return r;
	fill_in(script, quiet_text, place, shell->token);
	r = write_script(shell->dir_fd, "quiet", script);
	if (r < 0)
		return r;
	fill_in(script, start_text, place, shell->token);
	r = write_script(shell->dir_fd, "start", script);
	return r < 0 ? r : make_fifos(agent, shell, owner);
}

void shell_done(struct agent *agent, struct shell *shell)
{
	static const char *const names[] = { "loop", "quiet", "start", "report", "command" };

	shell_send_end(agent, shell);
	if (shell->report_fd >= 0)
		(void)close(TAKE_FD(shell->report_fd));
	if (shell->slave_fd >= 0)
		(void)close(TAKE_FD(shell->slave_fd));
	if (shell->dir_fd < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)unlinkat(shell->dir_fd, names[i], 0);
	(void)close(TAKE_FD(shell->dir_fd));
	(void)unlinkat(agent->windows_fd, shell->name, AT_REMOVEDIR);
}

/* ---- its start ---- */

/* bash with its arguments, the environment and, unless that sets TERM, a simple terminal. */
static char *pack_arguments(const struct shell_wish *wish, const char *place, uint16_t *ret_argc,
			    uint16_t *ret_envc)
{
	static const char *const argv[] = { "--noprofile", "--noediting", "--rcfile", NULL, "-i" };
	static const char term[] = "TERM=";
	const char *program = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "bash",
		   *env = wish->args;
	bool has_term = false;
	char *args, *end;

	for (uint16_t i = 0; i < wish->envc; i++) {
		has_term |= strncmp(env, term, sizeof(term) - 1) == 0;
		env += strlen(env) + 1;
	}
	args = malloc((size_t)(env - wish->args) + PLACE_MAX + 128);
	if (!args)
		return NULL;
	end = digits_text(args, program) + 1;
	for (size_t i = 0; i < ARRAY_LEN(argv); i++) {
		end = digits_text(end, argv[i] ? argv[i] : place);
		if (!argv[i])
			end = digits_text(end, "/start");
		end++;
	}
	memcpy(end, wish->args, (size_t)(env - wish->args));
	end += env - wish->args;
	if (!has_term)
		(void)digits_text(end, "TERM=dumb");
	*ret_argc = 1 + ARRAY_LEN(argv);
	*ret_envc = (uint16_t)(wish->envc + !has_term);
	return args;
}

static struct process *start_process(struct agent *agent, const struct shell_wish *wish,
				     const char *place, struct process_refusal *ret_refusal)
{
	struct agent_exec exec = {
		.process_id = wish->process_id,
		.flags = AGENT_EXEC_TTY | AGENT_EXEC_STDIN_OPEN | PROCESS_EXEC_WINDOW,
		.ring_bytes = wish->ring_bytes,
		.cols = SHELL_COLS,
		.rows = SHELL_ROWS,
		.user = wish->user,
		.cwd = wish->cwd,
		.name = wish->name,
		.stdin_bytes = { "", 0 },
	};
	_cleanup_free_ char *args = pack_arguments(wish, place, &exec.argc, &exec.envc);
	struct process *p;

	if (!args) {
		*ret_refusal = (struct process_refusal){ .code = AGENT_REFUSED_NO_MEMORY };
		return NULL;
	}
	exec.args = args;
	p = process_start(agent, &exec, ret_refusal);
	if (p) /* its arguments are ours and of no interest to users */
		p->command_n = (uint16_t)(digits_text(p->command, "bash") - p->command);
	else if (ret_refusal->code == AGENT_REFUSED_NOT_FOUND)
		ret_refusal->code = AGENT_REFUSED_NO_SHELL;
	return p;
}

struct process *shell_start(struct agent *agent, struct shell *shell, const struct shell_wish *wish,
			    struct process_refusal *ret_refusal)
{
	const char *user_name = wish->user[0] ? wish->user : agent->default_user;
	char place[PLACE_MAX];
	struct process *p = NULL;
	struct user owner;
	int r;

	*shell = (struct shell){ -1, -1, -1, -1 };
	name_directory(shell->name);
	*ret_refusal = (struct process_refusal){ .code = AGENT_REFUSED_UNKNOWN_USER };
	if (!agent->same_user && user_resolve(user_name, &owner) < 0)
		return NULL;
	shell_random_digits(shell->token, sizeof(shell->token) - 1);
	r = make_files(agent, shell, &owner, place);
	if (r < 0)
		*ret_refusal = (struct process_refusal){ .code = AGENT_REFUSED_OTHER, .error = -r };
	else
		p = start_process(agent, wish, place, ret_refusal);
	if (!p) {
		shell_done(agent, shell);
		return NULL;
	}
	shell->slave_fd =
		ioctl(p->streams[0].fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (agent_watch(agent, EPOLL_CTL_ADD, shell->report_fd, EPOLLIN, EVENT_REPORT, p->id) < 0)
		stop_start(agent, p, 0, 0, false); /* its output would never be read */
	return p;
}

/* ---- reports and commands ---- */

static enum shell_report parse_report(struct str line, unsigned *ret_status)
{
	uint64_t status;

	if (str_is(line, "b"))
		return SHELL_BEGINS;
	if (str_is(line, "p"))
		return SHELL_AT_PROMPT;
	if (line.n < 3 || line.p[0] != 's' || line.p[1] != ' ' ||
	    str_to_u64((struct str){ line.p + 2, line.n - 2 }, 255, &status) < 0)
		return SHELL_NOTHING;
	*ret_status = (unsigned)status;
	return SHELL_READY;
}

enum shell_report shell_read(struct shell *shell, unsigned *ret_status)
{
	for (int i = 0; i < READS_PER_REPORT; i++) {
		char *end = memchr(shell->report, '\n', shell->report_n);
		enum shell_report report;
		ssize_t n;

		if (end) {
			size_t line_n = (size_t)(end - shell->report);

			report = parse_report((struct str){ shell->report, line_n }, ret_status);
			shell->report_n -= line_n + 1;
			memmove(shell->report, end + 1, shell->report_n);
			if (report != SHELL_NOTHING)
				return report;
			continue;
		}
		if (shell->report_n == sizeof(shell->report))
			shell->report_n = 0; /* not from our loop */
		n = shell->report_fd < 0 ? 0
					 : read(shell->report_fd, shell->report + shell->report_n,
						sizeof(shell->report) - shell->report_n);
		if (n <= 0)
			return SHELL_NOTHING;
		shell->report_n += (size_t)n;
	}
	return SHELL_NOTHING;
}

void shell_send_end(struct agent *agent, struct shell *shell)
{
	(void)agent;
	if (shell->command_fd >= 0)
		/* the only descriptor, so epoll removes it */
		(void)close(TAKE_FD(shell->command_fd));
}

static int write_from(int fd, struct str text, size_t *sent, size_t *before)
{
	while (*sent < *before + text.n) {
		size_t at = *sent - *before;
		ssize_t n = write(fd, text.p + at, text.n - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		*sent += (size_t)n;
	}
	*before += text.n;
	return 0;
}

int shell_send(struct agent *agent, struct shell *shell, const struct process *p,
	       struct str command, size_t *sent)
{
	struct str token = { shell->token, sizeof(shell->token) - 1 };
	size_t before = 0;
	bool opened = shell->command_fd < 0;
	int r;

	if (opened) {
		shell->command_fd = openat(shell->dir_fd, "command",
					   O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
		*sent = 0;
	}
	if (shell->command_fd < 0)
		return -errno;
	r = write_from(shell->command_fd, token, sent, &before);
	if (r == 0)
		r = write_from(shell->command_fd, command, sent, &before);
	if (r == 0)
		r = write_from(shell->command_fd, token, sent, &before);
	if (r == -EAGAIN && opened)
		r = agent_watch(agent, EPOLL_CTL_ADD, shell->command_fd, EPOLLOUT, EVENT_COMMAND,
				p->id) < 0
			    ? -EIO
			    : -EAGAIN;
	if (r != -EAGAIN)
		shell_send_end(agent, shell);
	return r;
}
