/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the fields of a request to run a program, and converts them to the agent's form. */
#include <sodium.h>

#include "service/pairs.h"
#include "service/range_internal.h"
#include "service/run/exec.h"
#include "service/run/process.h"
#include "service/secret/secret_internal.h"
#include "service/run/process_spec_private.h"
#include "service/run/time_limit.h"
#include "service/template/template.h"
#include "service/network/trust_internal.h"

/* Above this number of variables, duplicates are found with a map instead of by comparing. */
#define ENV_COMPARE_MAX 64

static int count_bytes(struct spec_build *b, const char *what, size_t n, struct err *err)
{
	if (n >= EXEC_STRING_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "%s: one string has more than %d bytes",
			       what, EXEC_STRING_MAX - 1);
	b->bytes += n + 1;
	if (b->bytes > EXEC_BYTES_MAX)
		return err_set(err, ERR_INVALID_REQUEST,
			       "argv and env together must be at most %d bytes", EXEC_BYTES_MAX);
	return 0;
}

static int no_memory(struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "out of memory");
}

static const char *copy_arg(struct spec_build *b, const char *what, struct str s, struct err *err)
{
	const char *copy;

	if (s.n && memchr(s.p, 0, s.n)) {
		(void)err_set(err, ERR_INVALID_REQUEST, "%s must not contain NUL", what);
		return NULL;
	}
	if (count_bytes(b, what, s.n, err) < 0)
		return NULL;
	copy = arena_dup(&b->arena, s.p, s.n);
	if (!copy)
		(void)no_memory(err);
	return copy;
}

/* ---- argv ---- */

static int build_shell(struct spec_build *b, const struct template *tpl, struct str command,
		       struct err *err)
{
	const char **argv = arena_alloc(&b->arena, 4 * sizeof(*argv));

	if (command.n == 0)
		return err_set(err, ERR_INVALID_REQUEST, "command must not be empty");
	if (!argv)
		return no_memory(err);
	argv[0] = tpl->shell;
	argv[1] = "-c";
	argv[2] = copy_arg(b, "command", command, err);
	b->exec.argv = argv;
	b->exec.argv_field = "command";
	return argv[2] ? 0 : -1;
}

static int build_shell_only(struct spec_build *b, const struct template *tpl, struct str shell,
			    struct err *err)
{
	const char **argv = arena_alloc(&b->arena, 2 * sizeof(*argv));

	if (!argv)
		return no_memory(err);
	argv[0] = shell.n ? copy_arg(b, "shell", shell, err) : tpl->shell;
	b->exec.argv = argv;
	b->exec.argv_field = "shell";
	return argv[0] ? 0 : -1;
}

static int build_argv(struct spec_build *b, const struct text_list *list, struct err *err)
{
	size_t n = list->count;
	const char **argv;

	if (n == 0 || n > EXEC_ARGV_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "argv must have 1-%d elements",
			       EXEC_ARGV_MAX);
	argv = arena_alloc(&b->arena, (n + 1) * sizeof(*argv));
	if (!argv)
		return no_memory(err);
	for (size_t i = 0; i < n; i++) {
		if (i == 0 && list->list[i].n == 0)
			return err_set(err, ERR_INVALID_REQUEST, "argv[0] must not be empty");
		argv[i] = copy_arg(b, "argv", list->list[i], err);
		if (!argv[i])
			return -1;
	}
	b->exec.argv = argv;
	b->exec.argv_field = "argv";
	return 0;
}

/* ---- env ---- */

static size_t key_len(const char *record)
{
	return (size_t)(strchr(record, '=') - record) + 1; /* including '=' */
}

static bool has_key(const char *const *env, size_t count, const struct map *seen,
		    const char *record)
{
	size_t n = key_len(record);

	if (seen)
		return map_get(seen, (struct str){ record, n }) != NULL;
	for (size_t i = 0; i < count; i++)
		if (strncmp(env[i], record, n) == 0)
			return true;
	return false;
}

/* Adds variables that are not set yet: callers go from the highest precedence to the lowest. */
static int add_env(struct spec_build *b, const char **env, size_t *count, struct map *seen,
		   const struct pairs *pairs, struct err *err)
{
	const char *record;
	uint32_t at = 0;

	while (pairs_next(pairs, &at, &record)) {
		if (has_key(env, *count, seen, record))
			continue;
		if (count_bytes(b, "env", strlen(record), err) < 0)
			return -1;
		if (seen && map_put(seen, (struct str){ record, key_len(record) }, b) < 0)
			return no_memory(err);
		env[(*count)++] = record;
	}
	return 0;
}

static int build_env(struct spec_build *b, const struct sandbox *sandbox, bool tty, struct err *err)
{
	static const char term[] = "TERM=xterm-256color";
	const struct pairs *sources[] = { &b->own_env, &b->secret_env, &sandbox->attrs.env,
					  &sandbox->template->env, trust_env(sandbox) };
	struct map map, *seen = NULL;
	size_t most = 0, count = 0;
	const char **env;
	int r = grants_env(sandbox, &b->secret_env, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(sources); i++)
		most += sources[i]->count;
	env = arena_alloc(&b->arena, (most + 2) * sizeof(*env));
	if (!env)
		return no_memory(err);
	if (most > ENV_COMPARE_MAX) {
		map_init(&map);
		seen = &map;
	}
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(sources); i++)
		r = add_env(b, env, &count, seen, sources[i], err);
	/* TERM has a default on terminals, with the lowest precedence. */
	if (r == 0 && tty && !has_key(env, count, seen, term))
		env[count++] = term;
	if (seen)
		map_done(seen);
	b->exec.env = env;
	return r;
}

/* ---- directory, user, input ---- */

/* A relative path starts at the default directory, which only the agent knows if the sandbox has no
 * file tree of its own. */
static const char *build_cwd(struct spec_build *b, const char *workdir, struct str cwd,
			     struct err *err)
{
	size_t n = strlen(workdir);
	char *path;

	if (cwd.p[0] == '/' || !n)
		return copy_arg(b, "cwd", cwd, err);
	path = arena_alloc(&b->arena, n + 1 + cwd.n + 1);
	if (!path) {
		(void)no_memory(err);
		return NULL;
	}
	memcpy(path, workdir, n);
	path[n] = '/';
	memcpy(path + n + 1, cwd.p, cwd.n);
	path[n + 1 + cwd.n] = '\0';
	return copy_arg(b, "cwd", (struct str){ path, n + 1 + cwd.n }, err);
}

/* Without a file tree of its own, a sandbox has neither the template's users nor its directories.
 */
static int build_place(struct spec_build *b, const struct sandbox *sandbox,
		       const struct exec_spec *spec, struct err *err)
{
	bool has_tree = instance_can(&sandbox->engine->instance, CAN_OWN_TREE);

	if (spec->cwd.n)
		b->exec.cwd =
			build_cwd(b, has_tree ? sandbox->template->workdir : "", spec->cwd, err);
	else if (has_tree && sandbox->template->workdir[0])
		b->exec.cwd = sandbox->template->workdir;
	if (spec->cwd.n && !b->exec.cwd)
		return -1;
	if (spec->user.n)
		b->exec.user = copy_arg(b, "user", spec->user, err);
	else if (has_tree && sandbox->template->user[0])
		b->exec.user = sandbox->template->user;
	return spec->user.n && !b->exec.user ? -1 : 0;
}

int input_decode(struct arena *arena, const char *what, struct str b64, struct str *ret,
		 struct err *err)
{
	size_t most = b64.n / 4 * 3 + 3, n = 0;
	char *bytes = arena_alloc(arena, most);

	if (!bytes)
		return no_memory(err);
	if (sodium_base642bin((unsigned char *)bytes, most, b64.p, b64.n, NULL, &n, NULL,
			      sodium_base64_VARIANT_ORIGINAL) != 0)
		return err_set(err, ERR_INVALID_REQUEST, "%s must be base64 (RFC 4648)", what);
	*ret = (struct str){ bytes, n };
	return 0;
}

static int build_input(struct spec_build *b, const struct exec_spec *spec, struct err *err)
{
	b->exec.stdin_bytes = spec->stdin_text;
	if (!spec->stdin_b64.p)
		return 0;
	if (spec->stdin_text.p)
		return err_set(err, ERR_INVALID_REQUEST,
			       "stdin and stdin_b64 cannot both be given");
	return input_decode(&b->arena, "stdin_b64", spec->stdin_b64, &b->exec.stdin_bytes, err);
}

int spec_check_name(const char *what, struct str name, struct err *err)
{
	bool ok = name.n >= 1 && name.n <= PROCESS_NAME_MAX, digits = true, dots = true;

	for (size_t i = 0; ok && i < name.n; i++) {
		char c = name.p[i];
		bool digit = c >= '0' && c <= '9';

		digits = digits && digit;
		dots = dots && c == '.';
		ok = digit || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
		     c == '_' || c == '-';
	}
	if (!ok)
		return err_set(err, ERR_INVALID_REQUEST,
			       "%s must be 1-%d characters of [A-Za-z0-9._-]", what,
			       PROCESS_NAME_MAX);
	if (dots) /* "." and ".." cannot be used in a URL path */
		return err_set(err, ERR_INVALID_REQUEST, "%s must not be only dots", what);
	if (digits)
		return err_set(err, ERR_INVALID_REQUEST,
			       "%s must not be a number, because numbers are process ids", what);
	return 0;
}

static int check_numbers(const struct service_config *config, const struct exec_spec *spec,
			 struct err *err)
{
	int64_t most = command_time_max_sec(config);

	if (range_check("timeout_sec", spec->timeout_sec, 0, most, err) < 0 ||
	    range_check("timeout_ms", spec->timeout_ms, 0, most * 1000, err) < 0 ||
	    range_check("max_output_bytes", spec->max_output_bytes, 0, EXEC_OUTPUT_MAX, err) < 0)
		return -1;
	return spec->tty ? process_check_size(spec->cols, spec->rows, err) : 0;
}

int process_check_size(int64_t cols, int64_t rows, struct err *err)
{
	if (range_check("cols", cols, 1, PROCESS_TTY_MAX, err) < 0)
		return -1;
	return range_check("rows", rows, 1, PROCESS_TTY_MAX, err);
}

static int build_rest(struct spec_build *b, const struct sandbox *sandbox,
		      const struct exec_spec *spec, struct err *err)
{
	const struct service_config *config = &sandbox->service->config;

	if (check_numbers(config, spec, err) < 0)
		return -1;
	if (spec->name.p) {
		if (spec_check_name("name", spec->name, err) < 0)
			return -1;
		b->exec.name = arena_dup(&b->arena, spec->name.p, spec->name.n);
		if (!b->exec.name)
			return no_memory(err);
	}
	b->exec.timeout_ms = spec->timeout_ms ? spec->timeout_ms : spec->timeout_sec * 1000;
	b->exec.output_max_bytes = (size_t)spec->max_output_bytes;
	b->exec.stdin_open = spec->stdin_open || spec->tty;
	b->exec.tty = spec->tty;
	b->exec.cols = (uint16_t)spec->cols;
	b->exec.rows = (uint16_t)spec->rows;
	b->exec.hold = spec->hold;
	b->exec.ring_bytes = spec->ring_bytes ? spec->ring_bytes : config->output_ring_bytes;
	b->exec.keep_ms = config->output_keep_sec * 1000;
	return build_input(b, spec, err);
}

static int build_program(struct spec_build *b, const struct template *tpl,
			 const struct exec_spec *spec, struct err *err)
{
	if (spec->shell_only)
		return build_shell_only(b, tpl, spec->shell, err);
	if ((spec->command.p != NULL) == (spec->argv.list != NULL))
		return err_set(err, ERR_INVALID_REQUEST,
			       "command (a string) or argv (an array): exactly one is needed");
	return spec->argv.list ? build_argv(b, &spec->argv, err)
			       : build_shell(b, tpl, spec->command, err);
}

int spec_build(struct spec_build *b, const struct sandbox *sandbox, const struct exec_spec *spec,
	       struct err *err)
{
	*b = (struct spec_build){ .bytes = 0 };
	/* Arguments, their pointers, and the decoded stdin. */
	arena_init(&b->arena, 4 * EXEC_BYTES_MAX + 2 * (spec->stdin_text.n + spec->stdin_b64.n));
	if (build_program(b, sandbox->template, spec, err) < 0 ||
	    pairs_make(&b->own_env, &spec->env, &pairs_exec_env, err) < 0 ||
	    build_env(b, sandbox, spec->tty, err) < 0 || build_place(b, sandbox, spec, err) < 0 ||
	    build_rest(b, sandbox, spec, err) < 0)
		goto fail;
	return 0;
fail:
	spec_done(b);
	return -1;
}

int spec_build_place(struct spec_build *b, const struct sandbox *sandbox,
		     const struct exec_spec *spec, struct err *err)
{
	*b = (struct spec_build){ .bytes = 0 };
	arena_init(&b->arena, 4 * EXEC_BYTES_MAX);
	if (pairs_make(&b->own_env, &spec->env, &pairs_exec_env, err) == 0 &&
	    build_env(b, sandbox, true, err) == 0 && build_place(b, sandbox, spec, err) == 0)
		return 0;
	spec_done(b);
	return -1;
}

/* Copies the views into the caller's document. Views into the sandbox and its template are not
 * copied: if those are gone, nothing is started. */
int spec_keep(struct spec_build *b, struct err *err)
{
	struct str *input = &b->exec.stdin_bytes;
	char *copy;

	if (!input->n)
		return 0;
	copy = arena_dup(&b->arena, input->p, input->n);
	if (!copy)
		return no_memory(err);
	input->p = copy;
	return 0;
}

void spec_done(struct spec_build *b)
{
	arena_done(&b->arena);
	pairs_done(&b->own_env);
	grants_env_wipe(&b->secret_env);
}
