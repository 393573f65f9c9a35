/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of the scripted agent; fake.h lists them. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "engine/fake/process.h"

#define WORDS_MAX 64

static uint64_t number(const char **words, size_t i)
{
	for (size_t n = 0; n <= i; n++)
		if (!words[n])
			return 0;
	return strtoull(words[i], NULL, 10);
}

static void write_words(struct fake_process *p, int stream, const char **words)
{
	struct buf text;

	buf_init(&text, AGENT_TO_MAX_BYTES);
	for (size_t i = 0; words[i]; i++)
		must(buf_printf(&text, "%s%s", i ? " " : "", words[i]));
	must(buf_putc(&text, '\n'));
	fake_write(p, stream, buf_str(&text));
	buf_done(&text);
}

static void run_echo(struct fake_process *p, const char **words)
{
	write_words(p, 0, words + 1);
	fake_exit(p, 0);
}

static void run_error(struct fake_process *p, const char **words)
{
	write_words(p, 1, words + 1);
	fake_exit(p, 0);
}

/* Much output, the words at its end, and exit code 1. */
static void run_fail(struct fake_process *p, const char **words)
{
	struct buf text;

	buf_init(&text, AGENT_TO_MAX_BYTES);
	for (uint64_t n = number(words, 1); n; n--)
		must(buf_putc(&text, 'x'));
	fake_write(p, 1, buf_str(&text));
	buf_done(&text);
	write_words(p, 1, words + (words[1] ? 2 : 1));
	fake_exit(p, 1);
}

static void run_pwd(struct fake_process *p, const char **words)
{
	write_words(p, 0, (const char *[]){ p->cwd, NULL });
	fake_exit(p, 0);
}

static void run_whoami(struct fake_process *p, const char **words)
{
	write_words(p, 0, (const char *[]){ p->user, NULL });
	fake_exit(p, 0);
}

static void run_true(struct fake_process *p, const char **words)
{
	fake_exit(p, 0);
}

static void run_false(struct fake_process *p, const char **words)
{
	fake_exit(p, 1);
}

static void run_exit(struct fake_process *p, const char **words)
{
	fake_exit(p, (uint32_t)number(words, 1) & 255);
}

static void run_signal(struct fake_process *p, const char **words)
{
	fake_finish(p, AGENT_END_SIGNAL, (uint32_t)number(words, 1));
}

static void run_oom(struct fake_process *p, const char **words)
{
	fake_finish(p, AGENT_END_OOM, SIGKILL);
}

static void run_spew(struct fake_process *p, const char **words)
{
	char bytes[65536];

	memset(bytes, 'x', sizeof(bytes));
	for (uint64_t left = number(words, 1), n; left; left -= n) {
		n = MIN(left, sizeof(bytes));
		fake_write(p, 0, (struct str){ bytes, n });
	}
	fake_exit(p, 0);
}

static void run_sleep(struct fake_process *p, const char **words)
{
	loop_timer_set(p->timer, (int64_t)MAX(number(words, 1), 1), 0);
}

static void end_well(struct fake_process *p)
{
	fake_exit(p, 0);
}

static void run_drip(struct fake_process *p, const char **words)
{
	p->step_ms = MAX(number(words, 2), 1);
	p->count = number(words, 1);
	loop_timer_set(p->timer, (int64_t)p->step_ms, (int64_t)p->step_ms);
}

static void drip(struct fake_process *p)
{
	char line[32];

	if (p->count == 0) {
		fake_exit(p, 0);
		return;
	}
	(void)snprintf(line, sizeof(line), "%llu\n", (unsigned long long)p->count--);
	fake_write(p, 0, str_of(line));
}

static void run_cat(struct fake_process *p, const char **words)
{
	if (!p->stdin_open)
		fake_exit(p, 0);
}

static void copy_input(struct fake_process *p, struct str bytes)
{
	fake_write(p, 0, bytes);
}

static void write_size(struct fake_process *p)
{
	char line[32];

	(void)snprintf(line, sizeof(line), "%ux%u\n", p->cols, p->rows);
	fake_write(p, 0, str_of(line));
}

static void run_size(struct fake_process *p, const char **words)
{
	write_size(p);
}

static void run_crash(struct fake_process *p, const char **words)
{
	p->agent->crashing = true;
}

static void run_garbage(struct fake_process *p, const char **words)
{
	must(buf_append(&p->agent->out, "\xff\xff\xff\xff this is no frame", 20));
}

static const struct fake_program programs[] = {
	{ .name = "echo", .start = run_echo },
	{ .name = "error", .start = run_error },
	{ .name = "fail", .start = run_fail },
	{ .name = "pwd", .start = run_pwd },
	{ .name = "whoami", .start = run_whoami },
	{ .name = "true", .start = run_true },
	{ .name = "false", .start = run_false },
	{ .name = "exit", .start = run_exit },
	{ .name = "signal", .start = run_signal },
	{ .name = "oom", .start = run_oom },
	{ .name = "spew", .start = run_spew },
	{ .name = "sleep", .start = run_sleep, .on_time = end_well },
	{ .name = "drip", .start = run_drip, .on_time = drip },
	{ .name = "cat", .start = run_cat, .on_input = copy_input, .on_close = end_well },
	{ .name = "size", .start = run_size, .on_resize = write_size, .on_close = end_well },
	{ .name = "hang", .deathless = true },
	{ .name = "stubborn", .stubborn = true },
	{ .name = "crash", .start = run_crash },
	{ .name = "garbage", .start = run_garbage },
};

static const struct fake_program *find(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct str name = str_of(slash ? slash + 1 : path);

	for (size_t i = 0; i < ARRAY_LEN(programs); i++)
		if (str_is(name, programs[i].name))
			return &programs[i];
	return NULL;
}

static bool is_shell(const char *const *argv)
{
	size_t n = strlen(argv[0]);

	return n >= 2 && strcmp(argv[0] + n - 2, "sh") == 0 && argv[1] && argv[1][0] == '-' &&
	       strchr(argv[1], 'c') && argv[2];
}

/* A shell without a command on a terminal: echoes its input. */
static bool is_interactive_shell(const char *const *argv)
{
	size_t n = strlen(argv[0]);

	return n >= 2 && strcmp(argv[0] + n - 2, "sh") == 0 && !is_shell(argv);
}

static struct fake_process *start(struct fake_agent *agent, const struct agent_exec *exec,
				  const struct fake_program *program, const char *command)
{
	struct fake_process *p =
		fake_process_new(agent, exec->process_id, exec->ring_bytes, exec->output_max_bytes);

	p->program = program;
	p->collect = exec->flags & AGENT_EXEC_COLLECT;
	p->tty = exec->flags & AGENT_EXEC_TTY;
	p->stdin_open = p->tty || exec->flags & AGENT_EXEC_STDIN_OPEN;
	p->cols = exec->cols;
	p->rows = exec->rows;
	p->keep_ms = exec->keep_ms;
	p->expects_reader = (exec->flags & AGENT_EXEC_HOLD) && !(exec->flags & AGENT_EXEC_FOLLOW);
	p->name = fake_copy(str_of(exec->name));
	p->user = fake_copy(str_of(exec->user));
	p->cwd = fake_copy(str_of(exec->cwd));
	p->command = fake_copy(str_of(command));
	if (exec->timeout_ms && !program->deathless)
		loop_timer_set(p->limit, (int64_t)exec->timeout_ms, 0);
	if (!p->collect)
		must(agent_put_started(&agent->out, p->id, 100 + p->id));
	if (exec->flags & AGENT_EXEC_FOLLOW) {
		struct agent_follow wish = { .process_id = p->id,
					     .follow_id = exec->follow_id,
					     .credit = exec->credit,
					     .flags = AGENT_FOLLOW_LIVE | AGENT_FOLLOW_OUT |
						      AGENT_FOLLOW_ERR };

		if (exec->flags & AGENT_EXEC_HOLD)
			wish.flags |= AGENT_FOLLOW_HOLD;
		fake_follow_new(p, &wish);
	}
	return p;
}

static void play(struct fake_agent *agent, const struct agent_exec *exec, const char **words,
		 const char *command)
{
	const struct fake_program *program = find(words[0]);
	struct fake_process *p;

	if (!program || (exec->flags & AGENT_EXEC_TOOL)) {
		agent->next_id = exec->process_id + 1;
		fake_refuse(agent, exec->process_id, AGENT_REFUSED_NOT_FOUND, ENOENT, words[0]);
		return;
	}
	p = start(agent, exec, program, command);
	if (exec->stdin_bytes.n && program->on_input)
		program->on_input(p, exec->stdin_bytes);
	if (program->start)
		program->start(p, words); /* p may be freed */
}

void fake_exec(struct fake_agent *agent, const struct agent_exec *exec)
{
	const char **argv = calloc((size_t)exec->argc + exec->envc + 2, sizeof(*argv));
	const char *words[WORDS_MAX + 1] = { "true" };
	char *script = NULL, *rest = NULL, *word;
	size_t n = 0;

	must(argv ? 0 : -ENOMEM);
	agent_exec_pointers(exec, argv, argv + exec->argc + 1);
	if (is_shell(argv)) {
		script = fake_copy(str_of(argv[2]));
		for (word = strtok_r(script, " ", &rest); word && n < WORDS_MAX;
		     word = strtok_r(NULL, " ", &rest))
			words[n++] = word;
	} else if (is_interactive_shell(argv)) {
		words[n++] = "cat";
	} else {
		for (; n < exec->argc && n < WORDS_MAX; n++)
			words[n] = argv[n];
	}
	words[MAX(n, 1)] = NULL;
	play(agent, exec, words, is_shell(argv) ? argv[2] : argv[0]);
	free(script);
	free(argv);
}
