/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code with persistent state: contexts, each a kernel of one language in a sandbox, and executions
 * in them. A context is a process named code-ID that runs templates/code/cay-code. The sandbox's
 * list of processes is the list of contexts, so neither a restart of the daemon nor a pause loses
 * one. Called by faces; the service owns an execution until on_end.
 */
#ifndef CAY_SERVICE_RUN_CODE_H
#define CAY_SERVICE_RUN_CODE_H

#include "service/run/process.h"

#define CODE_MAX (1024 * 1024)
#define CODE_ID_MAX 40
#define CODE_TIMEOUT_DEFAULT_SEC 300
#define CODE_LINE_MAX (12 * 1024 * 1024) /* one event, as a line of the kernel's output */
#define CODE_PARTS_MAX 32		 /* of a result; more are left out */

extern const char *const code_languages[]; /* NULL-terminated; the first is the default */

struct code_spec {
	struct str code;
	struct str context_id; /* empty: the language's default context, created if it is missing */
	int language;	       /* index of code_languages; ignored with context_id */
	struct text_map env;
	struct str cwd, user; /* for a context that is created; empty: the template's */
	int64_t timeout_sec;  /* 0: none */
};

/* Strings live for the call. */
struct code_context {
	const char *id, *language, *cwd;
	uint32_t process_id;
	int64_t started_ms;
};

struct code_end {
	bool timed_out;
	int64_t duration_us;
	const char *context_id; /* for the call */
};

enum code_event_type { CODE_COUNT, CODE_STDOUT, CODE_STDERR, CODE_RESULT, CODE_ERROR };

/* One form of a result: text, html, png and so on. */
struct code_part {
	const char *name;
	struct str value;
	bool structured; /* a serialized value, passed on unchanged; otherwise text */
};

/*
 * One event of an execution. Texts and numbers come from the sandbox: their types are checked,
 * their values are untrusted. Views live for the call.
 */
struct code_event {
	enum code_event_type type;
	int64_t execution_count; /* CODE_COUNT */
	struct str text;	 /* CODE_STDOUT, CODE_STDERR */
	int64_t at_us;
	bool is_main;		       /* CODE_RESULT: the value of the last expression */
	const struct code_part *parts; /* at most CODE_PARTS_MAX */
	size_t part_count;
	struct str name, value, traceback; /* CODE_ERROR */
};

struct code_hooks {
	/* False: the reader is behind. No further event is sent until code_more(). */
	bool (*on_event)(void *arg, const struct code_event *event);
	/* Once, the last call. */
	void (*on_end)(void *arg, const struct code_end *end, const struct err *err);
};
/* *ret_run identifies the execution for the functions below. */
int code_run(struct sandbox *sandbox, const struct code_spec *spec, const struct code_hooks *hooks,
	     void *arg, slot_handle *ret_run, struct err *err) _must_check_;
void code_more(struct service *service, slot_handle run);
/* Interrupts the code, as Ctrl-C would. */
void code_interrupt(struct service *service, slot_handle run);
/* The caller has gone: no hook is called any more, and the code continues. */
void code_leave(struct service *service, slot_handle run);

typedef void (*code_context_fn)(void *arg, const struct code_context *context,
				const struct err *err);
/* code, env, timeout_sec and context_id of the spec are ignored. */
int code_context_new(struct sandbox *sandbox, const struct code_spec *spec, code_context_fn done,
		     void *arg, struct err *err) _must_check_;
/* Called for each, oldest first, then once with NULL; err says whether the list is complete. */
int code_context_list(struct sandbox *sandbox, code_context_fn each, void *arg,
		      struct err *err) _must_check_;
int code_context_delete(struct sandbox *sandbox, struct str id, process_done_fn done, void *arg,
			struct err *err) _must_check_;
/* Starts a new kernel under the same id; its variables are lost. */
int code_context_restart(struct sandbox *sandbox, struct str id, code_context_fn done, void *arg,
			 struct err *err) _must_check_;
/* Interrupts the code that runs there, as Ctrl-C would. */
int code_context_interrupt(struct sandbox *sandbox, struct str id, process_done_fn done, void *arg,
			   struct err *err) _must_check_;

#endif
