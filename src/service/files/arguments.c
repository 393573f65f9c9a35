/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a request to the tool's command line. Bytes from the caller always follow a "key=" of
 * ours, one argument each, so they cannot be mistaken for another key. */
#include <sodium.h>

#include "service/files/files_private.h"
#include "service/template/template.h"

#define VIEW_TIME_MS 30000

/* ---- values ---- */

int files_no_memory(struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "out of memory");
}

int files_bytes(struct arena *arena, const char *what, struct str text, struct str b64,
		struct str *ret, struct err *err)
{
	size_t most = b64.n / 4 * 3 + 4, n = 0;
	unsigned char *bytes;

	if (text.p && b64.p)
		return err_set(err, ERR_INVALID_REQUEST, "%s and %s_b64 cannot both be given", what,
			       what);
	*ret = text;
	if (!b64.p)
		return 0;
	bytes = arena_alloc(arena, most);
	if (!bytes)
		return files_no_memory(err);
	if (sodium_base642bin(bytes, most, b64.p, b64.n, NULL, &n, NULL,
			      sodium_base64_VARIANT_ORIGINAL) != 0)
		return err_set(err, ERR_INVALID_REQUEST, "%s_b64 must be base64 (RFC 4648)", what);
	*ret = (struct str){ (char *)bytes, n };
	return 0;
}

int files_check_path(const char *what, struct str path, struct err *err)
{
	if (!path.p)
		return err_set(err, ERR_INVALID_REQUEST, "%s is required", what);
	if (path.n == 0 || path.n > FILES_PATH_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "%s must have 1 to %d bytes", what,
			       FILES_PATH_MAX);
	if (memchr(path.p, 0, path.n))
		return err_set(err, ERR_INVALID_REQUEST, "%s must not contain NUL", what);
	return 0;
}

int files_mode(const char *what, struct str text, uint32_t *ret, struct err *err)
{
	uint32_t mode = 0;
	bool ok = text.n > 0 && text.n <= 5;

	for (size_t i = 0; i < text.n && ok; i++) {
		ok = text.p[i] >= '0' && text.p[i] <= '7';
		mode = mode * 8 + (uint32_t)(text.p[i] - '0');
	}
	if (!ok || mode > 07777)
		return err_set(err, ERR_INVALID_REQUEST,
			       "%s must be an octal number from 0 to 7777", what);
	*ret = mode;
	return 0;
}

/* ---- arguments ---- */

static int add(struct files_args *args, const char *key, struct str value)
{
	size_t n = strlen(key);
	char *text = arena_alloc(&args->arena, n + value.n + 2);

	if (!text || args->count >= FILES_ARGS_MAX)
		return -1;
	memcpy(text, key, n);
	text[n] = '=';
	if (value.n)
		memcpy(text + n + 1, value.p, value.n);
	args->argv[args->count++] = text;
	return 0;
}

static int add_number(struct files_args *args, const char *key, int64_t value)
{
	const char *text = arena_printf(&args->arena, "%s=%lld", key, (long long)value);

	if (!text || args->count >= FILES_ARGS_MAX)
		return -1;
	args->argv[args->count++] = text;
	return 0;
}

static int add_flag(struct files_args *args, const char *key, bool value)
{
	return add_number(args, key, value);
}

/* Adds "key=value" if the value was given. */
static int add_given(struct files_args *args, const char *key, struct str value)
{
	return value.n ? add(args, key, value) : 0;
}

static int add_time(struct files_args *args, const struct files_spec *spec)
{
	int64_t sec = spec->timeout_sec ? spec->timeout_sec : FILES_TIMEOUT_DEFAULT_SEC;

	return add_number(args, "time_ms", sec * 1000);
}

static int add_token(struct files_args *args, struct str etag)
{
	if (str_starts(etag, "W/"))
		etag = (struct str){ etag.p + 2, etag.n - 2 };
	if (etag.n >= 2 && etag.p[0] == '"' && etag.p[etag.n - 1] == '"')
		etag = (struct str){ etag.p + 1, etag.n - 2 };
	return add_given(args, "if_unchanged", etag);
}

int files_args_replace(struct files_args *args, const char *key, uint64_t value)
{
	size_t n = strlen(key);

	for (size_t i = 0; i < args->count; i++) {
		if (strncmp(args->argv[i], key, n) != 0 || args->argv[i][n] != '=')
			continue;
		args->argv[i] =
			arena_printf(&args->arena, "%s=%llu", key, (unsigned long long)value);
		return args->argv[i] ? 0 : -1;
	}
	return -1;
}

static int add_details(struct files_args *args, const struct files_spec *spec)
{
	return spec->details ? add_flag(args, "details", true) : 0;
}

static int args_look(struct files_args *a, enum files_op op, const struct files_spec *spec)
{
	if (op == FILES_STAT || op == FILES_EXISTS)
		return add_flag(a, "follow", spec->follow) | add_details(a, spec);
	if (op == FILES_LIST)
		return add_number(a, "depth", spec->depth) |
		       add_number(a, "max_entries", spec->limit) | add_time(a, spec) |
		       add_details(a, spec);
	if (op == FILES_VIEW)
		return add_number(a, "offset", MAX(spec->offset, 1)) |
		       add_number(a, "limit", spec->offset < 0 ? 1 : spec->limit) |
		       add_number(a, "time_ms", VIEW_TIME_MS);
	/* FILES_READ */
	if (spec->has_suffix)
		return add_number(a, "suffix", spec->range_suffix);
	if (!spec->has_range)
		return 0;
	return add_number(a, "offset", spec->range_begin) |
	       (spec->has_length ? add_number(a, "length", spec->range_length) : 0);
}

static int args_search(struct files_args *a, enum files_op op, const struct files_spec *spec)
{
	int r = add(a, "pattern", spec->pattern) | add_flag(a, "gitignore", spec->gitignore) |
		add_time(a, spec);

	if (op == FILES_GLOB)
		return r | add_number(a, "max_entries", spec->limit) |
		       add_flag(a, "hidden", spec->include_hidden);
	r |= add_given(a, "include", spec->include);
	if (spec->exclude.n) { /* the last matching pattern decides */
		const char *text =
			arena_printf(&a->arena, "!%.*s", (int)spec->exclude.n, spec->exclude.p);

		r |= text ? add(a, "include", str_of(text)) : -1;
	}
	return r | add_number(a, "before", spec->context) | add_number(a, "after", spec->context) |
	       add_flag(a, "ignore_case", spec->ignore_case) | add_flag(a, "fixed", spec->fixed) |
	       add_number(a, "max_matches", spec->max_matches) |
	       add_number(a, "max_bytes", spec->max_bytes);
}

static int args_write(struct files_args *a, enum files_op op, const struct files_spec *spec)
{
	int r = op == FILES_EDIT ? 0 : add_given(a, "owner", spec->owner);

	a->input = true;
	if (op == FILES_EDIT)
		return add_flag(a, "replace_all", spec->replace_all) |
		       add_token(a, spec->if_match) | add_flag(a, "fsync", spec->fsync);
	if (op == FILES_ARCHIVE_IN)
		return r | add_number(a, "max_entries", spec->max_entries) |
		       add_number(a, "max_bytes", spec->max_bytes) |
		       add_number(a, "max_ratio", spec->max_ratio) |
		       add_flag(a, "parents", spec->parents);
	r |= add_flag(a, "parents", spec->parents) | add_flag(a, "fsync", spec->fsync);
	if (op == FILES_BATCH)
		return r;
	return r | add_given(a, "mode", spec->mode) | add_flag(a, "exclusive", spec->exclusive) |
	       add_token(a, spec->if_match) | add_given(a, "marks", spec->marks);
}

static int args_change(struct files_args *a, enum files_op op, const struct files_spec *spec,
		       struct str to)
{
	int r = 0;

	switch ((int)op) {
	case FILES_MKDIR:
		return add_given(a, "mode", spec->mode) | add_given(a, "owner", spec->owner) |
		       add_flag(a, "parents", spec->parents) |
		       add_flag(a, "exist_ok", spec->parents) | add_details(a, spec);
	case FILES_COPY:
		r = add_flag(a, "recursive", spec->recursive);
		/* fall through */
	case FILES_MOVE:
		return r | add(a, "to", to) | add_flag(a, "overwrite", spec->overwrite) |
		       add_flag(a, "parents", spec->parents) |
		       (op == FILES_MOVE ? add_given(a, "owner", spec->owner) | add_details(a, spec)
					 : 0);
	case FILES_REMOVE:
		return add_flag(a, "recursive", spec->recursive) |
		       add_flag(a, "missing_ok", spec->missing_ok);
	case FILES_CHMOD:
		return add(a, "mode", spec->mode) | add_flag(a, "recursive", spec->recursive);
	case FILES_CHOWN:
		return add_given(a, "owner", spec->owner) | add_given(a, "group", spec->group) |
		       add_flag(a, "recursive", spec->recursive);
	default:
		return -1;
	}
}

static int add_keys(struct files_args *args, enum files_op op, const struct files_spec *spec,
		    struct str to)
{
	switch (op) {
	case FILES_STAT:
	case FILES_EXISTS:
	case FILES_LIST:
	case FILES_READ:
	case FILES_VIEW:
		return args_look(args, op, spec);
	case FILES_GLOB:
	case FILES_GREP:
		return args_search(args, op, spec);
	case FILES_WRITE:
	case FILES_BATCH:
	case FILES_EDIT:
	case FILES_ARCHIVE_IN:
		return args_write(args, op, spec);
	case FILES_WATCH:
		args->input = true; /* the watch ends when its input is closed */
		return add_flag(args, "recursive", spec->recursive);
	case FILES_ARCHIVE_OUT:
		return add(args, "format", str_of(files_format_names[spec->format])) |
		       add_flag(args, "gitignore", spec->gitignore);
	case FILES_MKDIR:
	case FILES_MOVE:
	case FILES_COPY:
	case FILES_REMOVE:
	case FILES_CHMOD:
	case FILES_CHOWN:
		return args_change(args, op, spec, to);
	case FILES_OP_COUNT:
		break;
	}
	return -1;
}

/* ---- user and directory ---- */

static int check_user(const char *what, struct str user, struct err *err)
{
	if (user.n > 64 || (user.n && memchr(user.p, 0, user.n)))
		return err_set(err, ERR_INVALID_REQUEST, "%s must be a name or a number", what);
	return 0;
}

static int set_place(struct files_args *args, const struct sandbox *sandbox,
		     const struct files_spec *spec, bool relative, struct err *err)
{
	/* Without a file tree of its own, a sandbox has neither the template's users nor its
	 * directories. */
	bool has_tree = instance_can(&sandbox->engine->instance, CAN_OWN_TREE);
	bool gives_away = spec->owner.n || spec->group.n;

	if (check_user("user", spec->user, err) < 0 || check_user("owner", spec->owner, err) < 0 ||
	    check_user("group", spec->group, err) < 0)
		return -1;
	if (spec->user.n) {
		args->user = arena_dup(&args->arena, spec->user.p, spec->user.n);
		if (!args->user)
			return files_no_memory(err);
	} else if (has_tree) {
		/*
		 * Only root may change owners, and a caller that may request this may also act as
		 * root.
		 */
		args->user = gives_away			  ? "0"
			     : sandbox->template->user[0] ? sandbox->template->user
							  : NULL;
	}
	if (!has_tree)
		return 0;
	if (add_given(args, "known_user", spec->known_user) < 0)
		return files_no_memory(err);
	args->cwd = "/"; /* an absolute path needs no working directory */
	if (relative && sandbox->template->workdir[0] &&
	    add(args, "base", str_of(sandbox->template->workdir)) < 0)
		return files_no_memory(err);
	return 0;
}

static bool is_relative(struct str path)
{
	return path.p && (path.n == 0 || path.p[0] != '/');
}

/* Lines of "key=value" in printable ASCII. */
static int check_marks(struct str marks, struct err *err)
{
	struct str line, rest, key, value;

	if (marks.n > FILES_MARKS_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "metadata must be at most %d bytes",
			       FILES_MARKS_MAX);
	for (size_t i = 0; i < marks.n; i++)
		if (marks.p[i] != '\n' && (marks.p[i] < 0x20 || marks.p[i] > 0x7e))
			return err_set(err, ERR_INVALID_REQUEST,
				       "metadata must be printable ASCII");
	while (marks.n) {
		if (!str_cut(marks, '\n', &line, &rest)) {
			line = marks;
			rest = (struct str){ "", 0 };
		}
		marks = rest;
		if (!str_cut(line, '=', &key, &value) || key.n == 0 || key.n > FILES_MARK_KEY_MAX)
			return err_set(err, ERR_INVALID_REQUEST,
				       "metadata keys must have 1 to %d bytes", FILES_MARK_KEY_MAX);
	}
	return 0;
}

static int check_spec(enum files_op op, const struct files_spec *spec, struct err *err)
{
	uint32_t mode;

	if (spec->mode.p && files_mode("mode", spec->mode, &mode, err) < 0)
		return -1;
	if (check_marks(spec->marks, err) < 0)
		return -1;
	if (op == FILES_CHMOD && !spec->mode.p)
		return err_set(err, ERR_INVALID_REQUEST, "mode is required");
	if (op == FILES_CHOWN && !spec->owner.n && !spec->group.n)
		return err_set(err, ERR_INVALID_REQUEST, "user or group is required");
	if (op == FILES_EDIT && spec->old_string.n == 0)
		return err_set(err, ERR_INVALID_REQUEST, "old_string must not be empty");
	if (op == FILES_EDIT && str_eq(spec->old_string, spec->new_string))
		return err_set(err, ERR_INVALID_REQUEST, "new_string must differ from old_string");
	if (op == FILES_VIEW && spec->offset == 0)
		return err_set(err, ERR_INVALID_REQUEST,
			       "offset must not be 0: the first line is 1, the last is -1");
	if (spec->context < 0 || spec->context > FILES_CONTEXT_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "context must be 0 to %d",
			       FILES_CONTEXT_MAX);
	return 0;
}

int files_args_build(struct files_args *args, const struct sandbox *sandbox, enum files_op op,
		     const struct files_spec *spec, struct err *err)
{
	static const char *const names[FILES_OP_COUNT] = {
		[FILES_STAT] = "stat",
		[FILES_EXISTS] = "exists",
		[FILES_LIST] = "list",
		[FILES_GLOB] = "glob",
		[FILES_GREP] = "grep",
		[FILES_READ] = "read-raw",
		[FILES_VIEW] = "read-view",
		[FILES_WRITE] = "write-raw",
		[FILES_BATCH] = "batch-write",
		[FILES_EDIT] = "edit",
		[FILES_MKDIR] = "mkdir",
		[FILES_MOVE] = "move",
		[FILES_COPY] = "copy",
		[FILES_REMOVE] = "remove",
		[FILES_CHMOD] = "chmod",
		[FILES_CHOWN] = "chown",
		[FILES_WATCH] = "watch",
		[FILES_ARCHIVE_OUT] = "archive-out",
		[FILES_ARCHIVE_IN] = "archive-in",
	};
	bool has_to = op == FILES_MOVE || op == FILES_COPY;
	bool may_lack = op == FILES_LIST || op == FILES_GLOB || op == FILES_GREP ||
			op == FILES_BATCH || op == FILES_WATCH || op == FILES_ARCHIVE_OUT;
	struct str path, to = { NULL, 0 };

	arena_init(&args->arena, 16 * FILES_PATH_MAX);
	args->argv[args->count++] = "cay-tools";
	args->argv[args->count++] = names[op];
	if (files_bytes(&args->arena, "path", spec->path, spec->path_b64, &path, err) < 0)
		return -1;
	if (!path.p && may_lack)
		path = STR_LIT(".");
	if (files_check_path(has_to ? "from" : "path", path, err) < 0 ||
	    files_check_limits(op, spec, err) < 0 || check_spec(op, spec, err) < 0)
		return -1;
	if (has_to && (files_bytes(&args->arena, "to", spec->to, spec->to_b64, &to, err) < 0 ||
		       files_check_path("to", to, err) < 0))
		return -1;
	if (set_place(args, sandbox, spec, is_relative(path) || is_relative(to), err) < 0)
		return -1;
	args->path = (struct str){ arena_dup(&args->arena, path.p, path.n), path.n };
	if (!args->path.p || add(args, "path", path) < 0 || add_keys(args, op, spec, to) < 0)
		return files_no_memory(err);
	return 0;
}

void files_args_done(struct files_args *args)
{
	arena_done(&args->arena);
}
