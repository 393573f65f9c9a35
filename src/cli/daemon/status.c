/* SPDX-License-Identifier: Apache-2.0 */
/* cay status, cay version */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/api/api.h"
#include "cli/api/exit.h"
#include "cli/daemon/lock.h"
#include "cli/output/show.h"

static const char *const states[] = { "provisioning", "running", "paused", "error", "other" };

struct counts {
	size_t by_state[ARRAY_LEN(states)];
	size_t total;
};

static int count_one(void *arg, const struct json *item)
{
	struct counts *counts = arg;
	struct str state = field_str(item, "state");
	size_t i = 0;

	while (i + 1 < ARRAY_LEN(states) && !str_is(state, states[i]))
		i++;
	counts->by_state[i]++;
	counts->total++;
	return 0;
}

/*
 * Everything that `status` shows; documents are NULL if the daemon (or the key) does not provide
 * them.
 */
struct status {
	struct json *ready, *options;
	struct counts counts;
	bool counted;
	bool supervised, warden;
};

static void line(const struct cli *cli, const char *name, const char *text, enum style style)
{
	bool c = cli->color_out;

	(void)printf("%s%-10s%s %s%s%s\n", style_on(c, STYLE_DIM), name, style_off(c),
		     style_on(c, style), text, style_off(c));
}

static void print_counts(const struct cli *cli, const struct counts *counts)
{
	char text[256];
	size_t n;

	n = (size_t)snprintf(text, sizeof(text), "%zu", counts->total);
	for (size_t i = 0; i < ARRAY_LEN(states); i++)
		if (counts->by_state[i] > 0 && n < sizeof(text))
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%zu %s",
					      strchr(text, '(') == NULL ? " (" : ", ",
					      counts->by_state[i], states[i]);
	if (strchr(text, '(') != NULL && n < sizeof(text))
		(void)snprintf(text + n, sizeof(text) - n, ")");
	line(cli, "sandboxes", text, STYLE_PLAIN);
}

static void print_engines(const struct cli *cli, const struct json *options)
{
	const struct json *engines = field(options, "engines");

	for (size_t i = 0;
	     engines != NULL && json_type(engines) == JSON_ARRAY && i < json_size(engines); i++) {
		const struct json *engine = json_at(engines, i);
		struct str name = field_str(engine, "name"), label = field_str(engine, "label");
		struct str warning = field_str(engine, "warning");
		struct str why = field_str(engine, "unavailable_because");
		bool available =
			field(engine, "available") == NULL || field_bool(engine, "available");
		char text[400], clean[400];

		(void)snprintf(text, sizeof(text), "%.*s%s%.*s%s", (int)MIN(name.n, 40), name.p,
			       label.n > 0 ? ": " : "", (int)MIN(label.n, 200), label.p,
			       available ? "" : " (not available)");
		style_clean(clean, sizeof(clean), str_of(text));
		line(cli, i == 0 ? "engines" : "", clean, available ? STYLE_PLAIN : STYLE_DIM);
		if (!available)
			warning = why;
		if (warning.n > 0) {
			style_clean(clean, sizeof(clean), warning);
			line(cli, "", clean, STYLE_YELLOW);
		}
	}
}

static void print_pool(const struct cli *cli, const struct json *options)
{
	const struct json *pool = field(options, "pool");
	char text[128];

	if (pool == NULL)
		return;
	(void)snprintf(text, sizeof(text), "%lld ready, %lld being created, %lld wanted",
		       (long long)field_int(pool, "ready", 0),
		       (long long)field_int(pool, "filling", 0),
		       (long long)field_int(pool, "target", 0));
	line(cli, "pool", text, STYLE_PLAIN);
}

static void print_human(const struct cli *cli, const struct status *status)
{
	struct str version = field_str(status->ready, "version");
	int64_t uptime_sec = field_int(status->ready, "uptime_sec", -1);
	char text[128], span[STYLE_SPAN_SIZE];

	line(cli, "daemon", "running", STYLE_GREEN);
	line(cli, "url", cli->url, STYLE_PLAIN);
	if (version.n > 0) {
		style_clean(text, sizeof(text), version);
		line(cli, "version", text, STYLE_PLAIN);
	}
	if (uptime_sec >= 0) {
		style_span(span, uptime_sec);
		line(cli, "uptime", span, STYLE_PLAIN);
	}
	if (status->supervised || status->warden) {
		(void)snprintf(text, sizeof(text), "%s, warden %s",
			       status->supervised ? "by 'cay up'" : "not by 'cay up'",
			       status->warden ? "running" : "not running");
		line(cli, "supervised", text, status->warden ? STYLE_PLAIN : STYLE_YELLOW);
	}
	if (status->counted)
		print_counts(cli, &status->counts);
	print_pool(cli, status->options);
	print_engines(cli, status->options);
	if (!status->counted)
		cli_note(cli,
			 "hint: pass a key (--key or CAY_API_KEY) to see sandboxes and engines");
}

static void print_json(const struct cli *cli, const struct status *status)
{
	struct json_writer w;
	struct buf out;

	buf_init(&out, 1024 * 1024);
	json_writer_init(&w, &out);
	json_begin_object(&w, NULL);
	json_put_text(&w, "url", cli->url);
	json_put_bool(&w, "supervised", status->supervised);
	json_put_bool(&w, "warden", status->warden);
	if (status->ready != NULL)
		json_put_value(&w, "ready", status->ready);
	if (status->counted) {
		json_begin_object(&w, "sandboxes");
		json_put_int(&w, "total", (int64_t)status->counts.total);
		for (size_t i = 0; i < ARRAY_LEN(states); i++)
			json_put_int(&w, states[i], (int64_t)status->counts.by_state[i]);
		json_end_object(&w);
	}
	if (status->options != NULL)
		json_put_value(&w, "options", status->options);
	json_end_object(&w);
	if (json_writer_end(&w) == 0)
		(void)printf("%.*s\n", (int)buf_len(&out), buf_data(&out));
	buf_done(&out);
}

int status_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct status status = { 0 };
	struct err ignored = { 0 };

	if (api_call(cli, "GET", "/readyz", NULL, &status.ready, err) < 0)
		return -1;
	/* The locks of the state directory say nothing about a remote daemon. */
	if (cli_url_is_local(cli, cli->url)) {
		status.supervised = lock_is_held(cli->state, LOCK_SUPERVISOR);
		status.warden = lock_is_held(cli->state, LOCK_WARDEN);
	}
	/* Without a key of sufficient scope, only public values are shown. */
	status.counted = api_list(cli, "/v1/sandboxes", "limit=1000", count_one, &status.counts,
				  &ignored) == 0;
	if (status.counted &&
	    api_call(cli, "GET", "/v1/options", NULL, &status.options, &ignored) < 0)
		status.options = NULL;
	if (cli->json)
		print_json(cli, &status);
	else
		print_human(cli, &status);
	json_free(status.ready);
	json_free(status.options);
	return 0;
}

int version_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *ready = NULL;
	struct err ignored = { 0 };
	struct str server = { "", 0 };
	char version[64];

	if (api_call(cli, "GET", "/healthz", NULL, &ready, &ignored) == 0)
		server = field_str(ready, "version");
	if (server.n == 0 && ready != NULL) {
		struct json *more = NULL;

		json_free(ready);
		ready = NULL;
		if (api_call(cli, "GET", "/readyz", NULL, &more, &ignored) == 0)
			ready = more;
		server = field_str(ready, "version");
	}
	style_clean(version, sizeof(version), server);
	if (cli->json) {
		struct json_writer w;
		struct buf out;

		buf_init(&out, 4096);
		json_writer_init(&w, &out);
		json_begin_object(&w, NULL);
		json_put_text(&w, "client", CAY_VERSION);
		json_put_text(&w, "server", server.n > 0 ? version : NULL);
		json_end_object(&w);
		if (json_writer_end(&w) == 0)
			(void)printf("%.*s\n", (int)buf_len(&out), buf_data(&out));
		buf_done(&out);
		return 0;
	}
	(void)printf("client  %s\n", CAY_VERSION);
	if (server.n > 0)
		(void)printf("server  %s (%s)\n", version, cli->url);
	else
		(void)printf("server  %s\n", ready != NULL ? "unknown" : "not running");
	return 0;
}
