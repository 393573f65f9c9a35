/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Initializers: commands that run one after the other in a new sandbox before it is running. It is
 * provisioning meanwhile, and its intent to be created stays open: a death of the daemon in between
 * leaves a half-made sandbox, which the next start sweeps. The template's come first, then those of
 * the request; what is made from a snapshot or another sandbox has been through the template's.
 */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "service/sandbox/create_internal.h"
#include "service/sandbox/initializer.h"
#include "service/pairs.h"
#include "service/run/process_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret_internal.h"
#include "service/account/usage_internal.h"
#include "service/network/trust_internal.h"

#define TAIL_BYTES 2048 /* the last of its output that last_error shows */
#define TAIL_SHORT 120	/* and the answer, whose rest is "(kept as sandbox ...)" */
#define LABEL_BYTES 60

/* A checked copy of what was asked for. */
struct initializers {
	struct json *list;
};

/* One of them; views into the list. */
struct step {
	struct exec_spec exec;
	struct str name;
	bool continue_on_error;
};

/* One at work. Owner: the start of its process, then its follow. */
struct run {
	struct service *service;
	slot_handle sandbox;
	slot_handle follow; /* 0: not known yet */
	uint32_t owed;	    /* credit, until then */
	size_t n;
	char tail[TAIL_BYTES];
};

/* ---- what is asked for ---- */

static int read_object(const struct json *item, const char *path, struct step *ret, struct err *err)
{
	struct str command = { NULL, 0 }, cmd = { NULL, 0 };
	struct json_reader r;

	json_reader_init(&r, item, path, err);
	json_read_str(&r, "command", 1, INITIALIZER_COMMAND_MAX, &command);
	json_read_str(&r, "cmd", 1, INITIALIZER_COMMAND_MAX, &cmd);
	ret->exec.argv = json_read_array(&r, "argv", EXEC_ARGV_MAX);
	json_read_str(&r, "cwd", 1, 4096, &ret->exec.cwd);
	ret->exec.env = json_read_object(&r, "env");
	json_read_str(&r, "user", 1, 64, &ret->exec.user);
	json_read_int(&r, "timeout_sec", 1, INITIALIZER_TIMEOUT_MAX_SEC, &ret->exec.timeout_sec);
	json_read_str(&r, "name", 1, INITIALIZER_NAME_MAX, &ret->name);
	json_read_bool(&r, "continue_on_error", &ret->continue_on_error);
	if (json_reader_end(&r) < 0)
		return -1;
	if ((command.p != NULL) + (cmd.p != NULL) + (ret->exec.argv != NULL) != 1)
		return err_set(err, ERR_INVALID_REQUEST,
			       "%scommand (a string) or argv (an array): exactly one is needed",
			       path);
	ret->exec.command = command.p ? command : cmd;
	return 0;
}

static int read_step(const struct json *item, size_t i, struct step *ret, struct err *err)
{
	char path[40];

	*ret = (struct step){ .exec.timeout_sec = INITIALIZER_TIMEOUT_SEC };
	(void)snprintf(path, sizeof(path), "initializers[%zu].", i);
	if (json_type(item) == JSON_OBJECT)
		return read_object(item, path, ret, err);
	if (json_type(item) != JSON_STRING || json_str(item).n < 1 ||
	    json_str(item).n > INITIALIZER_COMMAND_MAX ||
	    memchr(json_str(item).p, 0, json_str(item).n))
		return err_set(
			err, ERR_INVALID_REQUEST,
			"initializers[%zu] must be a command of 1-%d characters, or an object", i,
			INITIALIZER_COMMAND_MAX);
	ret->exec.command = json_str(item);
	return 0;
}

static int check_step(const struct json *item, size_t i, struct err *err)
{
	struct pairs env = { NULL, 0, 0 };
	struct step step;
	int r = read_step(item, i, &step, err);

	if (r == 0)
		r = pairs_from_json(&env, step.exec.env, &pairs_exec_env, err);
	pairs_done(&env);
	return r;
}

static int copy_list(const struct json *list, struct initializers **ret, struct err *err)
{
	struct initializers *copy = calloc(1, sizeof(*copy));
	struct json_writer w;
	struct buf text;
	int r;

	if (!copy)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	buf_init(&text, INITIALIZERS_BYTES_MAX);
	json_writer_init(&w, &text);
	json_put_value(&w, NULL, list);
	r = json_writer_end(&w);
	copy->list = r == 0 ? json_parse(buf_str(&text), err) : NULL;
	buf_done(&text);
	if (copy->list) {
		*ret = copy;
		return 0;
	}
	free(copy);
	return r < 0 ? err_set(err, ERR_INVALID_REQUEST, "initializers: together at most %d bytes",
			       INITIALIZERS_BYTES_MAX)
		     : -1;
}

int initializers_read(const struct json *array, struct initializers **ret, struct err *err)
{
	size_t count = array ? json_size(array) : 0;

	if (count > INITIALIZERS_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "initializers: at most %d",
			       INITIALIZERS_MAX);
	for (size_t i = 0; i < count; i++)
		if (check_step(json_at(array, i), i, err) < 0)
			return -1;
	return count ? copy_list(array, ret, err) : 0;
}

int initializers_copy(const struct initializers *from, struct initializers **ret)
{
	struct err err;

	return from && copy_list(from->list, ret, &err) < 0 ? -ENOMEM : 0;
}

void initializers_free(struct initializers *initializers)
{
	if (!initializers)
		return;
	json_free(initializers->list);
	free(initializers);
}

void initializers_write(const struct initializers *initializers, struct json_writer *w,
			const char *key)
{
	if (initializers) {
		json_put_value(w, key, initializers->list);
		return;
	}
	json_begin_array(w, key);
	json_end_array(w);
}

/* ---- which one is next ---- */

static size_t count_of(const struct initializers *initializers)
{
	return initializers ? json_size(initializers->list) : 0;
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

/* They were checked before; a template's is what its meta.json had. */
static int get_step(const struct sandbox *sandbox, size_t at, struct step *ret, struct err *err)
{
	const struct initializers *first = of_template(sandbox);
	size_t skip = count_of(first);

	return at < skip ? read_step(json_at(first->list, at), at, ret, err)
			 : read_step(json_at(sandbox->attrs.initializers->list, at - skip),
				     at - skip, ret, err);
}

bool initialize_due(const struct sandbox *sandbox)
{
	return sandbox->creation && total(sandbox) > 0;
}

/* ---- what came of it ---- */

static void describe_end(const struct process_status *status, const struct step *step, char *dst,
			 size_t size)
{
	if (strcmp(status->reason, "timeout") == 0)
		(void)snprintf(dst, size, "ran out of its %lld s",
			       (long long)step->exec.timeout_sec);
	else if (strcmp(status->reason, "oom") == 0)
		(void)snprintf(dst, size, "ran out of memory");
	else if (status->signal)
		(void)snprintf(dst, size, "was ended by signal %d", status->signal);
	else
		(void)snprintf(dst, size, "ended with exit code %d", status->exit_code);
}

/* Its output for people: one line's worth of the end, or all that was kept of it. */
static struct str tail_of(struct run *run, size_t most)
{
	struct str tail = str_trim((struct str){ run->tail, run->n }, " \r\n\t");

	if (tail.n > most) {
		tail.p += tail.n - most;
		tail.n = most;
	}
	while (tail.n && ((unsigned char)tail.p[0] & 0xc0) == 0x80) { /* not inside a character */
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

/* what: "initializer 2 of 3 (NAME) ended with exit code 1". */
static void describe(const struct sandbox *sandbox, const struct step *step, const char *end,
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

/* The sandbox while it still waits for this; else it ended, and whoever did that has answered. */
static struct sandbox *sandbox_of(const struct run *run)
{
	struct sandbox *sandbox = sandbox_get(run->service, run->sandbox);

	return sandbox && sandbox->initializing && sandbox->creation ? sandbox : NULL;
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
	struct step step;
	struct err err;
	bool ok;

	/* When the sandbox is gone its link says why, a moment later. */
	if (!sandbox || (error && error->code == ERR_SANDBOX_GONE) ||
	    get_step(sandbox, sandbox->creation->step, &step, &err) < 0) {
		free(run);
		return;
	}
	ok = !error && status->reason && strcmp(status->reason, "exited") == 0 &&
	     status->exit_code == 0;
	if (!ok) {
		if (error || !status->reason)
			(void)snprintf(end, sizeof(end), "could not be followed: %.200s",
				       error ? error->message : "its end is not known");
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

static void not_started(struct sandbox *sandbox, const struct step *step, const struct err *error)
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
	struct step step;
	struct err err;

	(void)process_id;
	(void)pid;
	if (!error) {
		run->follow = follow;
		follow_credit(run->service, follow, run->owed);
		return;
	}
	sandbox = sandbox_of(run);
	free(run);
	if (sandbox && get_step(sandbox, sandbox->creation->step, &step, &err) == 0)
		not_started(sandbox, &step, error);
}

static void start(struct sandbox *sandbox)
{
	static const struct follow_hooks hooks = { .on_output = on_output,
						   .on_end = on_end,
						   .on_drop = on_drop };
	struct run *run = calloc(1, sizeof(*run));
	struct step step = { .continue_on_error = false };
	struct err err;
	int r = run ? get_step(sandbox, sandbox->creation->step, &step, &err)
		    : err_set(&err, ERR_UNAVAILABLE, "out of memory");

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
	sandbox->initializing = false;
	initializers_free(TAKE_PTR(sandbox->attrs.initializers));
	create_finish(sandbox);
}

void initialize_start(struct sandbox *sandbox)
{
	sandbox->initializing = true;
	sandbox->creation->step = 0;
	usage_changed(sandbox); /* it works for its owner from here on */
	if (trust_due(sandbox)) {
		trust_install(sandbox);
		if (trust_due(sandbox))
			return; /* initialize_go_on() */
	}
	go_on(sandbox);
}

void initialize_go_on(struct sandbox *sandbox)
{
	if (sandbox->initializing && sandbox->creation && sandbox->creation->step == 0)
		go_on(sandbox);
}
