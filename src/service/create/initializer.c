/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Initializers: commands that run one after the other in a new sandbox before it is running. The
 * sandbox is provisioning meanwhile, and its create intent stays open: if the daemon dies in
 * between, the next start removes the unfinished sandbox. The template's initializers run first,
 * then those of the request. A sandbox from a snapshot or a fork has already run the template's.
 */
#include <errno.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/log.h"
#include "service/create/create_internal.h"
#include "service/sandbox/initializer.h"
#include "service/pairs.h"
#include "service/run/process_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret_internal.h"
#include "service/account/usage_internal.h"
#include "service/network/trust_internal.h"

#define TAIL_BYTES 2048 /* bytes of the end of its output in last_error */
#define TAIL_SHORT 120	/* and in the reply, which continues with "(kept as sandbox ...)" */
#define LABEL_BYTES 60

/* Texts and lists of all initializers. A pointer is larger than a text of one byte, so lists count,
 * too. */
#define STORE_BYTES_MAX \
	(INITIALIZERS_BYTES_MAX * (1 + sizeof(struct text_pair)) + INITIALIZERS_MAX * 4096)

struct initializers {
	struct arena arena; /* the texts */
	size_t count;
	struct initializer list[INITIALIZERS_MAX];
};

/* A running initializer. Owner: the call that starts its process, then the follower of its output.
 */
struct run {
	struct service *service;
	slot_handle sandbox;
	slot_handle follow; /* 0: not known yet */
	uint32_t owed;	    /* credit to return once it is known */
	size_t n;
	char tail[TAIL_BYTES];
};

/* ---- checks ---- */

static int check_text(size_t i, const char *field, struct str text, size_t max, struct err *err)
{
	if (text.n <= max && !(text.n && memchr(text.p, 0, text.n)))
		return 0;
	return err_set(err, ERR_INVALID_REQUEST,
		       "initializers[%zu].%s must be at most %zu bytes without NUL", i, field, max);
}

static int check_one(const struct initializer *one, size_t i, struct err *err)
{
	const struct exec_spec *exec = &one->exec;
	struct pairs env = { NULL, 0, 0 };
	int r;

	if ((exec->command.p != NULL) == (exec->argv.list != NULL))
		return err_set(err, ERR_INVALID_REQUEST,
			       "initializers[%zu].command (a string) or argv (an array): exactly "
			       "one is needed",
			       i);
	if (exec->command.p && !exec->command.n)
		return err_set(err, ERR_INVALID_REQUEST, "initializers[%zu].command is empty", i);
	if (check_text(i, "command", exec->command, INITIALIZER_COMMAND_MAX, err) < 0 ||
	    check_text(i, "cwd", exec->cwd, INITIALIZER_CWD_MAX, err) < 0 ||
	    check_text(i, "user", exec->user, INITIALIZER_USER_MAX, err) < 0 ||
	    check_text(i, "name", one->name, INITIALIZER_NAME_MAX, err) < 0)
		return -1;
	if (exec->argv.count > EXEC_ARGV_MAX)
		return err_set(err, ERR_INVALID_REQUEST,
			       "initializers[%zu].argv must have at most %d elements", i,
			       EXEC_ARGV_MAX);
	if (exec->timeout_sec < 1 || exec->timeout_sec > INITIALIZER_TIMEOUT_MAX_SEC)
		return err_set(err, ERR_INVALID_REQUEST,
			       "initializers[%zu].timeout_sec must be 1-%d", i,
			       INITIALIZER_TIMEOUT_MAX_SEC);
	r = pairs_make(&env, &exec->env, &pairs_exec_env, err);
	pairs_done(&env);
	return r;
}

static size_t bytes_of(const struct initializer *one)
{
	const struct exec_spec *exec = &one->exec;
	size_t n = exec->command.n + exec->cwd.n + exec->user.n + one->name.n;

	for (size_t i = 0; i < exec->argv.count; i++)
		n += exec->argv.list[i].n + 1;
	for (size_t i = 0; i < exec->env.count; i++)
		n += exec->env.list[i].key.n + exec->env.list[i].value.n + 2;
	return n;
}

static bool keep_text(struct arena *arena, struct str *text)
{
	if (text->p)
		text->p = arena_dup(arena, text->p, text->n);
	return text->p || !text->n;
}

/* Copies its texts to the arena. */
static bool keep_one(struct arena *arena, struct initializer *one)
{
	struct exec_spec *exec = &one->exec;
	struct str *argv = arena_alloc(arena, (exec->argv.count + 1) * sizeof(*argv));
	struct text_pair *env = arena_alloc(arena, (exec->env.count + 1) * sizeof(*env));
	bool ok = argv && env && keep_text(arena, &exec->command) && keep_text(arena, &exec->cwd) &&
		  keep_text(arena, &exec->user) && keep_text(arena, &one->name);

	for (size_t i = 0; ok && i < exec->argv.count; i++) {
		argv[i] = exec->argv.list[i];
		ok = keep_text(arena, &argv[i]);
	}
	for (size_t i = 0; ok && i < exec->env.count; i++) {
		env[i] = exec->env.list[i];
		ok = keep_text(arena, &env[i].key) && keep_text(arena, &env[i].value);
	}
	if (exec->argv.list)
		exec->argv.list = argv;
	if (exec->env.list)
		exec->env.list = env;
	return ok;
}

static int copy_list(const struct initializer_list *list, struct initializers **ret)
{
	struct initializers *copy = calloc(1, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	arena_init(&copy->arena, STORE_BYTES_MAX);
	for (; copy->count < list->count; copy->count++) {
		copy->list[copy->count] = list->list[copy->count];
		if (!keep_one(&copy->arena, &copy->list[copy->count])) {
			initializers_free(copy);
			return -ENOMEM;
		}
	}
	*ret = copy;
	return 0;
}

int initializers_make(const struct initializer_list *list, struct initializers **ret,
		      struct err *err)
{
	size_t bytes = 0;

	if (list->count > INITIALIZERS_MAX)
		return err_set(err, ERR_INVALID_REQUEST,
			       "initializers must have at most %d elements", INITIALIZERS_MAX);
	for (size_t i = 0; i < list->count; i++) {
		if (check_one(&list->list[i], i, err) < 0)
			return -1;
		bytes += bytes_of(&list->list[i]);
	}
	if (bytes > INITIALIZERS_BYTES_MAX)
		return err_set(err, ERR_INVALID_REQUEST,
			       "initializers must have at most %d bytes together",
			       INITIALIZERS_BYTES_MAX);
	if (list->count && copy_list(list, ret) < 0)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	return 0;
}

int initializers_copy(const struct initializers *from, struct initializers **ret)
{
	struct initializer_list list = initializers_list(from);

	return from ? copy_list(&list, ret) : 0;
}

void initializers_free(struct initializers *initializers)
{
	if (!initializers)
		return;
	arena_done(&initializers->arena);
	free(initializers);
}

struct initializer_list initializers_list(const struct initializers *initializers)
{
	if (!initializers)
		return (struct initializer_list){ NULL, 0 };
	return (struct initializer_list){ initializers->list, initializers->count };
}

/* ---- sequence ---- */

static size_t count_of(const struct initializers *initializers)
{
	return initializers ? initializers->count : 0;
}

static const struct initializers *of_template(const struct sandbox *sandbox)
{
	bool made_anew = sandbox->boot == BOOT_COLD || sandbox->boot == BOOT_POOL;

	return made_anew ? sandbox->template->initializers : NULL;
}

static size_t total(const struct sandbox *sandbox)
{
	return count_of(of_template(sandbox)) + count_of(sandbox->attrs.initializers);
}

static struct initializer get_step(const struct sandbox *sandbox, size_t at)
{
	const struct initializers *first = of_template(sandbox);
	size_t skip = count_of(first);

	return at < skip ? first->list[at] : sandbox->attrs.initializers->list[at - skip];
}

bool initialize_due(const struct sandbox *sandbox)
{
	return sandbox->creation && total(sandbox) > 0;
}

/* ---- results ---- */

static void describe_end(const struct process_status *status, const struct initializer *step,
			 char *dst, size_t size)
{
	if (strcmp(status->reason, "timeout") == 0)
		(void)snprintf(dst, size, "exceeded its timeout of %lld s",
			       (long long)step->exec.timeout_sec);
	else if (strcmp(status->reason, "oom") == 0)
		(void)snprintf(dst, size, "ran out of memory");
	else if (status->signal)
		(void)snprintf(dst, size, "was ended by signal %d", status->signal);
	else
		(void)snprintf(dst, size, "ended with exit code %d", status->exit_code);
}

/* The end of its output, at most `most` bytes. */
static struct str tail_of(struct run *run, size_t most)
{
	struct str tail = str_trim((struct str){ run->tail, run->n }, " \r\n\t");

	if (tail.n > most) {
		tail.p += tail.n - most;
		tail.n = most;
	}
	/* Do not begin inside a UTF-8 character. */
	while (tail.n && ((unsigned char)tail.p[0] & 0xc0) == 0x80) {
		tail.p++;
		tail.n--;
	}
	return str_trim(tail, "\n");
}

static void clean_tail(struct run *run)
{
	for (size_t i = 0; i < run->n; i++)
		if ((unsigned char)run->tail[i] < 0x20 && run->tail[i] != '\n' &&
		    run->tail[i] != '\t')
			run->tail[i] = ' ';
}

/* Writes "initializer 2 of 3 (NAME) ended with exit code 1". */
static void describe(const struct sandbox *sandbox, const struct initializer *step, const char *end,
		     char *dst, size_t size)
{
	size_t at = sandbox->creation->step, skip = count_of(of_template(sandbox));
	struct str label = step->name.p ? step->name : step->exec.command;

	(void)snprintf(dst, size, "%s %zu of %zu%s%.*s%s %s",
		       at < skip ? "the template's initializer" : "initializer",
		       at < skip ? at + 1 : at - skip + 1, at < skip ? skip : total(sandbox) - skip,
		       label.n ? " (" : "", (int)MIN(label.n, LABEL_BYTES), label.n ? label.p : "",
		       label.n ? ")" : "", end);
}

static void fail(struct sandbox *sandbox, struct run *run, const char *what, bool go_on)
{
	char full[ERR_MESSAGE_MAX + TAIL_BYTES + 16];
	struct str tail = { "", 0 };
	struct err err;

	if (run) {
		clean_tail(run);
		tail = tail_of(run, TAIL_BYTES);
	}
	(void)snprintf(full, sizeof(full), "%s%s%.*s", what, tail.n ? ": " : "", (int)tail.n,
		       tail.p);
	if (go_on) {
		sandbox_set_error(sandbox, full);
		return;
	}
	if (run)
		tail = tail_of(run, TAIL_SHORT);
	(void)err_set(&err, ERR_INITIALIZER_FAILED, "%.140s%s%.*s", what, tail.n ? ": " : "",
		      (int)tail.n, tail.p);
	create_failed_as(sandbox, &err, full);
}

/* ---- one at a time ---- */

static void go_on(struct sandbox *sandbox);

/*
 * The sandbox if it still waits for this run. NULL: it has ended, and the code that ended it has
 * replied.
 */
static struct sandbox *sandbox_of(const struct run *run)
{
	struct sandbox *sandbox = sandbox_get(run->service, run->sandbox);

	return sandbox && sandbox->phase == PHASE_INITIALIZING && sandbox->creation ? sandbox
										    : NULL;
}

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	struct run *run = arg;
	struct str last = bytes;
	size_t over;

	(void)stream;
	(void)cursor;
	if (last.n > TAIL_BYTES) {
		last.p += last.n - TAIL_BYTES;
		last.n = TAIL_BYTES;
	}
	over = run->n + last.n > TAIL_BYTES ? run->n + last.n - TAIL_BYTES : 0;
	memmove(run->tail, run->tail + over, run->n - over);
	run->n -= over;
	memcpy(run->tail + run->n, last.p, last.n);
	run->n += last.n;
	if (run->follow)
		follow_credit(run->service, run->follow, (uint32_t)bytes.n);
	else
		run->owed += (uint32_t)bytes.n;
}

static void on_end(void *arg, const struct process_status *status, const struct err *error)
{
	struct run *run = arg;
	struct sandbox *sandbox = sandbox_of(run);
	char end[ERR_MESSAGE_MAX], what[ERR_MESSAGE_MAX + LABEL_BYTES + 64];
	struct initializer step;
	bool ok;

	/* If the sandbox is gone, its link reports the reason shortly afterwards. */
	if (!sandbox || (error && error->code == ERR_SANDBOX_GONE)) {
		free(run);
		return;
	}
	step = get_step(sandbox, sandbox->creation->step);
	ok = !error && status->reason && strcmp(status->reason, "exited") == 0 &&
	     status->exit_code == 0;
	if (!ok) {
		if (error || !status->reason)
			(void)snprintf(end, sizeof(end), "could not be monitored: %.200s",
				       error ? error->message : "its exit status is not known");
		else
			describe_end(status, &step, end, sizeof(end));
		describe(sandbox, &step, end, what, sizeof(what));
		fail(sandbox, run, what, step.continue_on_error);
	}
	free(run);
	if (!ok && !step.continue_on_error)
		return;
	sandbox->creation->step++;
	go_on(sandbox);
}

static void on_drop(void *arg)
{
	free(arg);
}

static void not_started(struct sandbox *sandbox, const struct initializer *step,
			const struct err *error)
{
	char end[ERR_MESSAGE_MAX + 32], what[ERR_MESSAGE_MAX + LABEL_BYTES + 96];

	(void)snprintf(end, sizeof(end), "could not be started: %s", error->message);
	describe(sandbox, step, end, what, sizeof(what));
	fail(sandbox, NULL, what, step->continue_on_error);
	if (!step->continue_on_error)
		return;
	sandbox->creation->step++;
	go_on(sandbox);
}

static void on_started(void *arg, uint32_t process_id, uint32_t pid, slot_handle follow,
		       const struct err *error)
{
	struct run *run = arg;
	struct sandbox *sandbox;
	struct initializer step;

	(void)process_id;
	(void)pid;
	if (!error) {
		run->follow = follow;
		follow_credit(run->service, follow, run->owed);
		return;
	}
	sandbox = sandbox_of(run);
	free(run);
	if (!sandbox)
		return;
	step = get_step(sandbox, sandbox->creation->step);
	not_started(sandbox, &step, error);
}

static void start(struct sandbox *sandbox)
{
	static const struct follow_hooks hooks = { .on_output = on_output,
						   .on_end = on_end,
						   .on_drop = on_drop };
	struct run *run = calloc(1, sizeof(*run));
	struct initializer step = get_step(sandbox, sandbox->creation->step);
	struct err err;
	int r = run ? 0 : err_set(&err, ERR_UNAVAILABLE, "out of memory");

	if (r == 0) {
		run->service = sandbox->service;
		run->sandbox = sandbox->handle;
		r = process_start(sandbox, &step.exec, on_started, run,
				  &(struct process_reader){ &hooks, run, FOLLOW_CREDIT }, &err);
	}
	if (r == 0)
		return;
	free(run);
	not_started(sandbox, &step, &err);
}

static void go_on(struct sandbox *sandbox)
{
	if (sandbox->creation->step < total(sandbox)) {
		start(sandbox);
		return;
	}
	initializers_free(TAKE_PTR(sandbox->attrs.initializers));
	create_finish(sandbox);
}

void initialize_start(struct sandbox *sandbox)
{
	sandbox_set_phase(sandbox, PHASE_INITIALIZING, REASON_NONE);
	sandbox->creation->step = 0;
	usage_changed(sandbox); /* usage is charged to its owner from here on */
	if (trust_due(sandbox)) {
		trust_install(sandbox);
		if (trust_due(sandbox))
			return; /* initialize_go_on() */
	}
	go_on(sandbox);
}

void initialize_go_on(struct sandbox *sandbox)
{
	if (sandbox->phase == PHASE_INITIALIZING && sandbox->creation &&
	    sandbox->creation->step == 0)
		go_on(sandbox);
}
