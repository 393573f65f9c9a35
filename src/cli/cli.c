/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

#include "base/text/ini.h"
#include "cli/api/advice.h"
#include "cli/api/exit.h"
#include "cli/daemon/user_state.h"

/* An exec may be silent for as long as its time limit; the command sets its own idle limit. */
#define CONNECT_TIMEOUT_MS 5000
#define IDLE_TIMEOUT_MS 120000

static enum color_mode color_mode_of(const char *name)
{
	if (name != NULL && strcmp(name, "always") == 0)
		return COLOR_ALWAYS;
	if (name != NULL && strcmp(name, "never") == 0)
		return COLOR_NEVER;
	return COLOR_AUTO;
}

static const char *environment(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

enum setting_from cli_setting(const struct args *args, const char *name, const char *variable,
			      char *dst, size_t size)
{
	const char *value = args_text(args, name), *path = args_text(args, "config");

	if (value != NULL)
		return snprintf(dst, size, "%s", value) >= 0 ? SETTING_FLAG : SETTING_NONE;
	value = environment(variable);
	if (value != NULL)
		return snprintf(dst, size, "%s", value) >= 0 ? SETTING_ENVIRONMENT : SETTING_NONE;
	if (path == NULL)
		path = environment("CAY_CONFIG");
	/* The daemon reports a file that cannot be read. */
	if (ini_find(path != NULL ? path : INI_FILE, name, dst, size) == 0 && dst[0] != '\0')
		return SETTING_FILE;
	return SETTING_NONE;
}

/* An ordinary user's own daemon, if it exists or is being started. */
static bool has_own_state(struct cli *cli, const struct args *args)
{
	return user_state(cli->state_found, sizeof(cli->state_found)) &&
	       (args_flag(args, "engine-local") || access(cli->state_found, F_OK) == 0);
}

void cli_init(struct cli *cli, const struct args *args)
{
	enum setting_from from;

	*cli = (struct cli){ .command = args->command, .wake_fd = -1 };
	cli->json = args_flag(args, "json");
	cli->quiet = args_flag(args, "quiet");
	cli->color = color_mode_of(args_text(args, "color"));
	cli->color_out = style_wanted(cli->color, STDOUT_FILENO);
	cli->color_err = style_wanted(cli->color, STDERR_FILENO);
	cli->url_flag = args_text(args, "url");
	cli->key_flag = args_text(args, "key");
	from = cli_setting(args, "state", "CAY_STATE", cli->state_found, sizeof(cli->state_found));
	cli->state_flag = from == SETTING_FLAG;
	cli->state_given = from != SETTING_NONE;
	cli->state = from != SETTING_NONE || has_own_state(cli, args) ? cli->state_found
								      : CLI_DEFAULT_STATE;
}

void cli_done(struct cli *cli)
{
	cli_disconnect(cli);
	free(cli->error_body);
	cli->error_body = NULL;
}

int cli_read_line(const char *dir, const char *name, char *dst, size_t size)
{
	_cleanup_close_ int dir_fd = -1, fd = -1;
	struct str line;
	ssize_t n;

	dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	n = read(fd, dst, size - 1);
	if (n < 0)
		return -errno;
	line = str_trim((struct str){ dst, (size_t)n }, " \t\r\n");
	if (line.n == 0)
		return -ENOENT;
	memmove(dst, line.p, line.n);
	dst[line.n] = '\0';
	return 0;
}

/*
 * The URL that names the daemon (--url, or CAY_URL without --state), with its origin in *ret_by;
 * NULL if the state directory names it. docs/guides/cli.md has the rule.
 */
static const char *cli_url_named(const struct cli *cli, const char **ret_by)
{
	const char *variable = environment("CAY_URL");

	if (cli->url_ignored)
		return NULL;
	*ret_by = cli->url_flag != NULL ? "--url" : "CAY_URL";
	if (cli->url_flag != NULL)
		return cli->url_flag;
	return cli->state_flag ? NULL : variable;
}

/* Removes spaces around it and trailing slashes. */
static struct str tidy_url(const char *text)
{
	struct str url = str_trim(str_of(text), " \t\r\n");

	while (url.n > 0 && url.p[url.n - 1] == '/')
		url.n--;
	return url;
}

/* Splits SCHEME://HOST[:PORT]; all names of the loopback interface become one. */
static bool split_url(struct str url, struct str *scheme, struct str *host, struct str *port)
{
	static const char *const loopback[] = { "localhost", "127.0.0.1", "[::1]" };
	const char *slashes = memmem(url.p, url.n, "://", 3);
	size_t colon;

	if (slashes == NULL)
		return false;
	*scheme = (struct str){ url.p, (size_t)(slashes - url.p) };
	*host = (struct str){ slashes + 3, url.n - scheme->n - 3 };
	*port = str_is(*scheme, "https") ? STR_LIT("443") : STR_LIT("80");
	for (colon = host->n; colon > 0 && isdigit((unsigned char)host->p[colon - 1]);)
		colon--;
	if (colon > 0 && colon < host->n && host->p[colon - 1] == ':') {
		*port = (struct str){ host->p + colon, host->n - colon };
		host->n = colon - 1;
	}
	for (size_t i = 0; i < ARRAY_LEN(loopback); i++)
		if (str_eq_nocase(*host, loopback[i]))
			*host = str_of(loopback[0]);
	return true;
}

bool cli_url_is_local(const struct cli *cli, const char *url)
{
	struct str scheme[2], host[2], port[2], one = tidy_url(url), two;
	char own[CLI_URL_MAX];

	if (cli_read_line(cli->state, "url", own, sizeof(own)) < 0)
		return false;
	two = tidy_url(own);
	if (str_eq(one, two))
		return true;
	return split_url(one, &scheme[0], &host[0], &port[0]) &&
	       split_url(two, &scheme[1], &host[1], &port[1]) && str_eq(scheme[0], scheme[1]) &&
	       str_eq(host[0], host[1]) && str_eq(port[0], port[1]);
}

int cli_use_state(struct cli *cli, struct err *err)
{
	const char *by, *url = cli_url_named(cli, &by);
	char own[CLI_URL_MAX];
	int r = cli_read_line(cli->state, "url", own, sizeof(own));
	bool runs = r == 0;

	if (url != NULL && r == -EACCES) {
		(void)cli_hint(cli, "Run this as root.");
		return err_set(err, ERR_FORBIDDEN, "this user may not read %s", cli->state);
	}
	if (url != NULL && !cli_url_is_local(cli, url)) {
		(void)cli_hint(
			cli,
			"Name the daemon of this host with --state %s; a daemon elsewhere is "
			"started and stopped on its own host.",
			cli->state);
		return err_set(
			err, ERR_INVALID_REQUEST,
			"%s names %.100s, but the daemon of the state directory %.100s %s%.60s", by,
			url, cli->state, runs ? "is " : "is not running", runs ? own : "");
	}
	cli->url_ignored = cli->state_given = true;
	return 0;
}

/* The address in the state directory, or the usual one if no directory was given. */
static int find_local(struct cli *cli, struct err *err)
{
	int r = cli_read_line(cli->state, "url", cli->url, sizeof(cli->url));

	if (r == 0) {
		cli->state_served = true;
		return 0;
	}
	/*
	 * A daemon that is being restarted may listen before it writes its address. The usual
	 * address without its key would be refused permanently.
	 */
	if (!cli->state_given && !cli->state_served) {
		(void)snprintf(cli->url, sizeof(cli->url), "%s", CLI_DEFAULT_URL);
		return 0;
	}
	if (r == -EACCES) {
		(void)cli_hint(cli, "Run this as root, or set CAY_URL and CAY_API_KEY.");
		return err_set(err, ERR_FORBIDDEN, "this user may not read %s", cli->state);
	}
	(void)cli_hint(cli, "Start it with: cay up --state %s", cli->state);
	return err_set(err, ERR_UNAVAILABLE, "no daemon is running on %s", cli->state);
}

static int find_url(struct cli *cli, struct err *err)
{
	const char *by, *named = cli_url_named(cli, &by);

	if (named == NULL)
		return find_local(cli, err);
	if (str_copy(cli->url, sizeof(cli->url), tidy_url(named)) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "the URL in %s is too long", by);
	return 0;
}

static int find_key(struct cli *cli, char dst[CLI_KEY_MAX], struct err *err)
{
	const char *given = cli->key_flag;

	if (given == NULL && !cli->state_flag && !cli->url_ignored)
		given = environment("CAY_API_KEY");
	if (given == NULL) {
		/*
		 * The key of a state directory is only for its own daemon. Without a key, the
		 * daemon replies that one is missing and how to pass it.
		 */
		if (!cli_url_is_local(cli, cli->url) ||
		    cli_read_line(cli->state, "admin.key", dst, CLI_KEY_MAX) < 0)
			dst[0] = '\0';
		return 0;
	}
	for (const char *p = given; *p != '\0'; p++)
		if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f)
			return err_set(err, ERR_INVALID_REQUEST,
				       "the key contains an invalid character");
	if (str_copy(dst, CLI_KEY_MAX, str_of(given)) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "the key is too long");
	return 0;
}

int cli_connect(struct cli *cli, struct err *err)
{
	char key[CLI_KEY_MAX] = "", header[CLI_KEY_MAX + 16];
	int r;

	if (cli->http != NULL)
		return 0;
	if (find_url(cli, err) < 0 || find_key(cli, key, err) < 0)
		return -1;
	r = http_client_new(cli->url, &cli->http);
	if (r < 0) {
		cli->http = NULL;
		return err_set(
			err, ERR_INVALID_REQUEST,
			"'%s' is not an address (http://HOST:PORT, https://HOST or unix:/path)",
			cli->url);
	}
	http_client_set_timeout(cli->http, CONNECT_TIMEOUT_MS, IDLE_TIMEOUT_MS);
	http_client_set_wake(cli->http, cli->wake_fd, cli->wake, cli->wake_arg);
	http_client_set_header(cli->http, "User-Agent", "cay/" CAY_VERSION);
	if (key[0] != '\0') {
		(void)snprintf(header, sizeof(header), "Bearer %s", key);
		http_client_set_header(cli->http, "Authorization", header);
		explicit_bzero(header, sizeof(header));
	}
	explicit_bzero(key, sizeof(key));
	return 0;
}

void cli_disconnect(struct cli *cli)
{
	if (cli->http != NULL)
		http_client_free(cli->http);
	cli->http = NULL;
}

int cli_hint(struct cli *cli, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(cli->hint, sizeof(cli->hint), fmt, ap);
	va_end(ap);
	return -1;
}

static void report_json(const struct cli *cli, const struct err *err, const char *hint)
{
	struct json_writer w;
	struct buf out;

	if (cli->error_body != NULL) {
		(void)fprintf(stderr, "%s\n", cli->error_body);
		return;
	}
	buf_init(&out, 16384);
	json_writer_init(&w, &out);
	json_begin_object(&w, NULL);
	json_begin_object(&w, "error");
	json_put_text(&w, "code", err_name(err->code));
	json_put_text(&w, "message", err->message);
	json_put_text(&w, "hint", hint);
	json_put_null(&w, "request_id");
	json_put_bool(&w, "retryable", err_retryable(err->code));
	json_end_object(&w);
	json_end_object(&w);
	if (json_writer_end(&w) == 0)
		(void)fprintf(stderr, "%.*s\n", (int)buf_len(&out), buf_data(&out));
	buf_done(&out);
}

int cli_report(struct cli *cli, const struct err *err)
{
	const char *hint = cli->hint;
	char clean[CLI_HINT_MAX], own[CLI_HINT_MAX] = "";

	/* A failed system call on this side needs no advice about the daemon. */
	if (cli->hint[0] == '\0') {
		if (err->errno_value == 0)
			advice_hint(own, cli, err->code, (struct str){ "", 0 });
		hint = own[0] != '\0' ? own : NULL;
	}

	if (cli->json) {
		report_json(cli, err, hint);
	} else {
		style_clean(clean, sizeof(clean), str_of(err->message));
		(void)fprintf(stderr, "%scay:%s %s\n", style_on(cli->color_err, STYLE_RED),
			      style_off(cli->color_err), clean);
		if (hint != NULL) {
			style_clean(clean, sizeof(clean), str_of(hint));
			(void)fprintf(stderr, "%shint:%s %s\n",
				      style_on(cli->color_err, STYLE_CYAN),
				      style_off(cli->color_err), clean);
		}
	}
	if (cli->command != NULL && cli->command->own_status)
		return exit_of_run(err);
	return cli->exit_status != 0 ? cli->exit_status : (int)exit_of_code(err->code);
}

void cli_note(const struct cli *cli, const char *fmt, ...)
{
	va_list ap;

	if (cli->quiet || cli->json)
		return;
	if (cli->raw)
		(void)fputs("\r\n", stderr);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputs(cli->raw ? "\r\n" : "\n", stderr);
}
