/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api/request.h"

#include <errno.h>

#include "cli/api/resolve.h"

static void put_pairs(struct json_writer *w, const struct args *args, const char *option)
{
	size_t cursor = 0;
	const char *pair;

	while ((pair = args_next(args, option, &cursor)) != NULL) {
		struct str key, value;
		char name[256];

		(void)str_cut(str_of(pair), '=', &key, &value);
		if (str_copy(name, sizeof(name), key) == 0) /* longer ones were rejected before */
			json_put_str(w, name, value);
	}
}

void request_pairs(struct json_writer *w, const struct args *args, const char *option,
		   const char *member)
{
	size_t cursor = 0;

	if (args_next(args, option, &cursor) == NULL)
		return;
	json_begin_object(w, member);
	put_pairs(w, args, option);
	json_end_object(w);
}

/*
 * The writer would turn invalid UTF-8 into replacement characters: reject it instead of running
 * another command than requested.
 */
static int check_text(const char *what, const char *text, struct err *err)
{
	if (!str_is_utf8(text, strlen(text)))
		return err_set(err, ERR_INVALID_REQUEST, "%s is not valid UTF-8", what);
	return 0;
}

static int check_pairs(const struct args *args, const char *option, struct err *err)
{
	size_t cursor = 0, other;
	const char *pair, *again;

	while ((pair = args_next(args, option, &cursor)) != NULL) {
		size_t n = strcspn(pair, "=");

		if (n > 255)
			return err_set(err, ERR_INVALID_REQUEST, "a key of --%s is too long",
				       option);
		if (check_text("an option", pair, err) < 0)
			return -1;
		for (other = cursor; (again = args_next(args, option, &other)) != NULL;)
			if (strncmp(pair, again, n + 1) == 0)
				return err_set(err, ERR_INVALID_REQUEST, "--%s %.*s is given twice",
					       option, (int)MIN(n, 60), pair);
	}
	return 0;
}

static void put_text(struct json_writer *w, const struct args *args, const char *option,
		     const char *member)
{
	if (args_text(args, option) != NULL)
		json_put_text(w, member, args_text(args, option));
}

static void put_number(struct json_writer *w, const struct args *args, const char *option,
		       const char *member)
{
	uint64_t value;

	if (args_number(args, option, &value))
		json_put_int(w, member, (int64_t)value);
}

static int ended(struct json_writer *w, struct err *err)
{
	int r = json_writer_end(w);

	if (r < 0)
		return err_set(err, ERR_PAYLOAD_TOO_LARGE, "the request is too large");
	return 0;
}

static void put_words(struct json_writer *w, const struct args *args, const char *option,
		      const char *key)
{
	const char *word;
	size_t cursor = 0;

	if (args_text(args, option) == NULL)
		return;
	json_begin_array(w, key);
	while ((word = args_next(args, option, &cursor)) != NULL)
		json_put_text(w, NULL, word);
	json_end_array(w);
}

/* Naming hosts implies a network. */
static void put_network(struct json_writer *w, const struct args *args)
{
	const char *mode = args_text(args, "network");
	bool lists = args_text(args, "allow") != NULL || args_text(args, "deny") != NULL;

	if (mode == NULL && !lists)
		return;
	json_begin_object(w, "network");
	json_put_text(w, "mode", mode != NULL ? mode : "restricted");
	put_words(w, args, "allow", "allow");
	put_words(w, args, "deny", "deny");
	json_end_object(w);
}

static void put_grants(struct json_writer *w, const struct args *args, const char *option,
		       const char *way)
{
	size_t cursor = 0;
	const char *text;

	while ((text = args_next(args, option, &cursor)) != NULL) {
		struct str name = str_of(text), variable = name;

		(void)str_cut(name, '=', &name, &variable);
		json_begin_object(w, NULL);
		json_put_str(w, "name", name);
		json_put_text(w, "as", way);
		json_put_str(w, "env", variable);
		json_end_object(w);
	}
}

static void put_secrets(struct json_writer *w, const struct args *args)
{
	if (args_text(args, "secret") == NULL && args_text(args, "broker") == NULL)
		return;
	json_begin_array(w, "secrets");
	put_grants(w, args, "secret", "env");
	put_grants(w, args, "broker", "broker");
	json_end_array(w);
}

int request_create(const struct args *args, struct buf *out, struct err *err)
{
	struct json_writer w;
	uint64_t cpu_milli;

	if (check_pairs(args, "env", err) < 0 || check_pairs(args, "metadata", err) < 0)
		return -1;
	json_writer_init(&w, out);
	json_begin_object(&w, NULL);
	put_text(&w, args, "template", "template");
	put_text(&w, args, "name", "name");
	if (args_number(args, "cpu", &cpu_milli))
		json_put_milli(&w, "cpu_count", (int64_t)cpu_milli);
	put_number(&w, args, "memory", "memory_mb");
	put_number(&w, args, "disk", "disk_size_mb");
	put_number(&w, args, "timeout", "timeout_sec");
	put_number(&w, args, "idle-timeout", "idle_timeout_sec");
	if (args_flag(args, "always-on"))
		json_put_bool(&w, "always_on", true);
	if (args_flag(args, "auto-resume"))
		json_put_bool(&w, "auto_resume", true);
	if (args_flag(args, "retain-on-failure"))
		json_put_bool(&w, "retain_on_failure", true);
	put_text(&w, args, "on-timeout", "on_timeout");
	put_text(&w, args, "snapshot", "snapshot_id");
	if (args_flag(args, "no-memory"))
		json_put_bool(&w, "memory", false);
	put_number(&w, args, "count", "count");
	request_pairs(&w, args, "env", "env");
	request_pairs(&w, args, "metadata", "metadata");
	put_secrets(&w, args);
	put_words(&w, args, "init", "initializers");
	put_text(&w, args, "engine", "engine");
	put_network(&w, args);
	if (args_text(args, "pool") != NULL) {
		json_begin_object(&w, "pool");
		json_put_text(&w, "mode", args_text(args, "pool"));
		json_end_object(&w);
	}
	json_end_object(&w);
	return ended(&w, err);
}

int request_sandbox(struct cli *cli, const struct args *args, struct json **ret, struct err *err)
{
	struct args whole = *args; /* with the whole id of a snapshot */
	char snapshot[64];
	struct buf body;
	int r = 0;

	for (size_t i = 0; i < whole.value_count && r == 0; i++) {
		if (strcmp(whole.values[i].spec->name, "snapshot") != 0)
			continue;
		r = resolve_id(cli, "snapshots", whole.values[i].text, snapshot, err);
		whole.values[i].text = snapshot;
	}
	if (r < 0)
		return -1;
	buf_init(&body, REQUEST_BODY_MAX);
	r = request_create(&whole, &body, err);
	if (r == 0)
		r = api_call(cli, "POST", "/v1/sandboxes", &body, ret, err);
	buf_done(&body);
	return r;
}

static void put_env(struct json_writer *w, const struct exec_request *req)
{
	size_t cursor = 0;
	const char *pair;
	bool has_term = req->term == NULL;

	while (req->env_from != NULL && (pair = args_next(req->env_from, "env", &cursor)) != NULL)
		has_term = has_term || strncmp(pair, "TERM=", 5) == 0;
	if (has_term) {
		if (req->env_from != NULL)
			request_pairs(w, req->env_from, "env", "env");
		return;
	}
	json_begin_object(w, "env");
	json_put_text(w, "TERM", req->term);
	if (req->env_from != NULL)
		put_pairs(w, req->env_from, "env");
	json_end_object(w);
}

static void put_terminal(struct json_writer *w, const struct exec_request *req)
{
	if (req->cols == 0)
		return;
	json_begin_object(w, "tty");
	json_put_int(w, "cols", req->cols);
	json_put_int(w, "rows", req->rows);
	json_end_object(w);
}

int request_exec(const struct exec_request *req, struct buf *out, struct err *err)
{
	struct json_writer w;

	for (size_t i = 0; i < req->count; i++)
		if (check_text("the command", req->words[i], err) < 0)
			return -1;
	if (req->env_from != NULL && check_pairs(req->env_from, "env", err) < 0)
		return -1;
	if (req->shell && req->count != 1)
		return err_set(err, ERR_INVALID_REQUEST,
			       "-c takes the command as one argument, not %zu", req->count);
	json_writer_init(&w, out);
	json_begin_object(&w, NULL);
	if (req->shell) {
		json_put_text(&w, "command", req->words[0]);
	} else {
		json_begin_array(&w, "argv");
		for (size_t i = 0; i < req->count; i++)
			json_put_text(&w, NULL, req->words[i]);
		json_end_array(&w);
	}
	if (req->user != NULL)
		json_put_text(&w, "user", req->user);
	if (req->cwd != NULL)
		json_put_text(&w, "cwd", req->cwd);
	if (req->name != NULL)
		json_put_text(&w, "name", req->name);
	put_env(&w, req);
	put_terminal(&w, req);
	if (req->keep_stdin_open || req->close_stdin)
		json_put_bool(&w, "stdin_open", req->keep_stdin_open);
	if (req->hold)
		json_put_bool(&w, "hold", true);
	if (req->timeout_sec != 0 || req->has_timeout)
		json_put_int(&w, "timeout_sec", (int64_t)req->timeout_sec);
	if (req->has_stdin)
		json_put_b64(&w, "stdin_b64", req->stdin_bytes);
	json_end_object(&w);
	return ended(&w, err);
}

static int put_quoted(struct buf *out, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_./:,+@%-";
	int r = 0;

	if (word[0] != '\0' && strspn(word, plain) == strlen(word))
		return buf_puts(out, word);
	r |= buf_putc(out, '\'');
	for (; *word != '\0'; word++)
		r |= *word == '\'' ? buf_puts(out, "'\\''") : buf_putc(out, *word);
	return r | buf_putc(out, '\'');
}

int request_quote(const char *const *words, size_t count, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		r = i > 0 ? buf_putc(out, ' ') : 0;
		if (r == 0)
			r = put_quoted(out, words[i]);
	}
	return r;
}

static int b64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int request_unb64(struct str text, struct buf *dst)
{
	char *to;
	size_t n = 0;
	int r;

	if (text.n % 4 != 0)
		return -EINVAL;
	r = buf_reserve(dst, text.n / 4 * 3 + 1, &to);
	if (r < 0)
		return r;
	for (size_t i = 0; i < text.n; i += 4) {
		size_t pad = 0;
		uint32_t bits = 0;

		if (i + 4 == text.n)
			pad = (text.p[i + 3] == '=') +
			      (text.p[i + 3] == '=' && text.p[i + 2] == '=');
		for (size_t k = 0; k < 4; k++) {
			int value = k < 4 - pad ? b64_value(text.p[i + k]) : 0;

			if (value < 0)
				return -EINVAL;
			bits = bits << 6 | (uint32_t)value;
		}
		for (size_t k = 0; k < 3 - pad; k++)
			to[n++] = (char)(bits >> (16 - 8 * k) & 0xff);
	}
	buf_commit(dst, n);
	return 0;
}
