/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/value/bounds.h"
#include "base/text/ini.h"

static const struct setting settings[] = {
#define TEXT(member, fallback, doc) SETTING_ROW_TEXT(config, member, fallback, doc)
#define BOOL(member, fallback, doc) SETTING_ROW_BOOL(config, member, fallback, doc)
#define INT(member, fallback, min, max, doc) \
	SETTING_ROW_INT(config, member, fallback, min, max, doc)
	TEXT(state, "/var/lib/cay", "directory of the database, keys, locks, sockets and logs"),
	TEXT(listen, "127.0.0.1:7070", "address and port of the HTTP API; port 0: any free one"),
	TEXT(templates, "/var/lib/cay/templates", "directory of the built templates"),
	TEXT(agent, "", "the cay-agent program, for the local engine; empty: beside this program"),
	TEXT(tools, "", "the cay-tools program, for the local engine; empty: beside this program"),
	TEXT(user, "cay", "user to become when started as root"),
	TEXT(allowed_hosts, "", "names a Host header may carry besides the loopback ones"),
	TEXT(cors_origins, "", "origins whose pages may use the API from a browser"),
	TEXT(tls_cert, "", "certificate (PEM, with its chain) to serve https:// with"),
	TEXT(tls_key, "", "its key (PEM)"),
	TEXT(listen_redirect, "", "a second address, to send http:// on to https:// from"),
	TEXT(trusted_proxies, "", "addresses and networks whose X-Forwarded-* headers count"),
	TEXT(preview_domain, "cay.localhost",
	     "previews are at PORT-ID.<this>; may be https://NAME[:PORT] behind a proxy"),
	TEXT(egress_ca_file, "", "certificates brokered requests trust besides the system's"),
	TEXT(default_template, "base", "the template whose pool is filled from the start"),
	TEXT(dns_upstream, "",
	     "DNS servers for sandboxes' names, IP[:PORT] ...; empty: those of /etc/resolv.conf"),
	TEXT(egress_allow_private, "",
	     "private networks and addresses of this host that sandboxes may allow; empty: none"),
	TEXT(storage, "auto",
	     "for cay-warden: auto, btrfs or directory (no disk limits, no snapshots)"),
	INT(disk_overcommit, "100", 1, 100000,
	    "for cay-warden: how many times its capacity the storage pool may promise"),
	TEXT(log_level, "info", "debug, info, warn or error"),
	BOOL(link_streams, "false",
	     "carry connections to ports as streams, as with agents on other hosts: for tests"),
	BOOL(pool, "true", "keep ready sandboxes"),
	INT(pool_min, "2", 0, 64, "ready sandboxes kept of the default template when all is quiet"),
	INT(pool_max, "16", 0, 256, "ready sandboxes kept of a template under load"),
	INT(pids_max, "1024", 16, BOUNDS_PIDS_MAX, "processes in one sandbox"),
	INT(max_cpu_count, "8", 1, BOUNDS_CPU_MILLI_MAX / 1000, "CPUs one sandbox may ask for"),
	INT(max_memory_mb, "8192", 1, BOUNDS_MEMORY_MB_MAX, "MiB of memory likewise"),
	INT(max_disk_size_mb, "10240", 1, BOUNDS_DISK_MB_MAX, "MiB of disk likewise"),
	INT(max_timeout_sec, "86400", 1, BOUNDS_TIMEOUT_SEC_MAX,
	    "seconds timeout_sec and idle_timeout_sec of one sandbox may be"),
	INT(max_sandboxes, "4000", 1, 60000, "sandboxes on this host"),
	INT(max_sandboxes_per_key, "1000", 1, 60000, "sandboxes of one key without admin scope"),
	INT(max_snapshots_per_key, "1000", 1, 60000, "snapshots of one key without admin scope"),
	INT(max_vcpus_per_key, "0", 0, 1000000000, "vCPUs of one key's sandboxes; 0: no limit"),
	INT(max_memory_mb_per_key, "0", 0, 1000000000, "MiB of memory likewise"),
	INT(max_disk_mb_per_key, "0", 0, 1000000000, "MiB of disk likewise"),
	INT(create_rate_per_sec, "0", 0, 100000, "creations a second of one key; 0: no limit"),
	INT(request_rate_per_key, "1000", 0, 1000000, "requests a second of one key; 0: no limit"),
	INT(processes_per_sandbox, "256", 1, 1000, "processes that run in one sandbox at a time"),
	INT(windows_per_sandbox, "32", 1, 256, "windows of one sandbox"),
	INT(streams_per_key, "2000", 1, 60000, "open streams and terminals of one key"),
	INT(file_ops_per_sandbox, "64", 1, 1000,
	    "file operations that run in one sandbox at a time"),
	INT(output_ring_bytes, "1048576", 4096, 16777216,
	    "output kept of each stream of a process"),
	INT(output_keep_sec, "300", 1, 86400, "how long it is kept after the process ended"),
	INT(events_keep, "10000", 100, 200000, "events kept for those who ask later"),
	INT(events_keep_days, "7", 1, 365, "and for how many days at most"),
	INT(usage_keep_days, "400", 1, 3660, "for how many days usage is kept"),
	INT(usage_detail_days, "8", 1, 3660,
	    "after how many days usage is kept in sums per sandbox and day"),
	BOOL(webhook_allow_private, "false", "webhooks may go to this host and private networks"),
	TEXT(webhook_ca, "", "PEM file of authorities webhooks trust besides the system's"),
	INT(webhooks_per_key, "20", 1, 1000, "webhooks of one key"),
	INT(webhooks_at_once, "16", 1, 256, "webhook requests under way at a time"),
	INT(webhook_timeout_sec, "10", 1, 120, "time of one attempt"),
	INT(webhook_attempts, "10", 1, 50, "attempts until an event is given up"),
	INT(webhook_retry_ms, "1000", 10, 600000,
	    "wait before the second attempt; then it doubles"),
	INT(webhook_disable_sec, "86400", 1, 31536000,
	    "a webhook that nothing gets through to for so long is disabled"),
	INT(network_rate_mbit, "1000", 0, BOUNDS_LINK_MBIT_MAX,
	    "for cay-warden: Mbit/s of one sandbox's network, each way; 0: no limit"),
	INT(network_connects_per_sec, "500", 1, BOUNDS_LINK_CONNECTS_MAX,
	    "for cay-warden: connections one sandbox may open in a second"),
	INT(network_connections, "1024", 1, BOUNDS_LINK_CONNECTIONS_MAX,
	    "for cay-warden: connections one sandbox may have at a time"),
#undef TEXT
#undef BOOL
#undef INT
};

/* ---- all settings: our own, then the section of each engine ---- */

#define NAME_MAX_BYTES 64

/* A setting and its location. In the section of an engine its name is engine_NAME_SETTING. */
struct place {
	const struct setting *setting;
	void *base;
	char name[NAME_MAX_BYTES];
};

/* The switch of an engine is a setting like any other, created from its row. */
static void place_switch(struct config_engine *engine, struct place *ret)
{
	engine->row = (struct setting){ .type = SETTING_BOOL,
					.offset = offsetof(struct config_engine, enabled),
					.fallback = engine->on ? "true" : "false",
					.doc = engine->driver->doc };
	ret->setting = &engine->row;
	ret->base = engine;
	(void)snprintf(ret->name, sizeof(ret->name), "engine_%s", engine->driver->name);
}

/* Iterates over all settings; false after the last. Start with *at = 0. */
static bool next_place(struct config *config, size_t *at, struct place *ret)
{
	size_t i = (*at)++;

	if (i < ARRAY_LEN(settings)) {
		*ret = (struct place){ .setting = &settings[i], .base = config };
		(void)snprintf(ret->name, sizeof(ret->name), "%s", settings[i].name);
		return true;
	}
	i -= ARRAY_LEN(settings);
	for (size_t k = 0; k < config->engine_count; k++) {
		struct config_engine *engine = &config->engines[k];
		const struct engine_driver *driver = engine->driver;

		if (i == 0) {
			place_switch(engine, ret);
			return true;
		}
		if (i <= driver->setting_count) {
			*ret = (struct place){ .setting = &driver->settings[i - 1],
					       .base = engine->settings };
			(void)snprintf(ret->name, sizeof(ret->name), "engine_%s_%s", driver->name,
				       ret->setting->name);
			return true;
		}
		i -= 1 + driver->setting_count;
	}
	return false;
}

static int set_value(const struct place *place, struct str value, const char *where,
		     struct err *err)
{
	const struct setting *s = place->setting;

	switch (setting_write(s, place->base, value)) {
	case 0:
		return 0;
	case -ENAMETOOLONG:
		return err_set(err, ERR_INVALID_REQUEST, "%.120s: %s is too long", where,
			       place->name);
	case -ERANGE:
		return err_set(err, ERR_INVALID_REQUEST,
			       "%.120s: %s must be an integer of %lld to %lld", where, place->name,
			       (long long)s->min, (long long)s->max);
	default:
		return err_set(err, ERR_INVALID_REQUEST, "%.120s: %s must be true or false", where,
			       place->name);
	}
}

static bool find(struct config *config, struct str name, char dash, struct place *ret)
{
	size_t at = 0;

	while (next_place(config, &at, ret)) {
		const char *own = ret->name;
		size_t n = strlen(own), k = 0;

		while (k < n && k < name.n && (own[k] == '_' ? dash : own[k]) == name.p[k])
			k++;
		if (k == n && n == name.n)
			return true;
	}
	return false;
}

/* ---- file ---- */

static int read_line(struct config *config, struct str line, const char *where, struct err *err)
{
	struct str key, value;
	struct place place;
	int r = ini_line(line, &key, &value);

	if (r == 0)
		return 0;
	if (r < 0)
		return err_set(err, ERR_INVALID_REQUEST, "%s: expected name = value", where);
	if (!find(config, key, '_', &place))
		return err_set(err, ERR_INVALID_REQUEST, "%s: unknown setting '%.*s'", where,
			       (int)MIN(key.n, 64), key.p);
	return set_value(&place, value, where, err);
}

static int read_file(struct config *config, const char *path, bool must_exist, struct err *err)
{
	char line[CONFIG_TEXT_MAX + 128], where[CONFIG_TEXT_MAX + 32];
	FILE *file = fopen(path, "re");
	int number = 0, r = 0;

	if (!file) {
		if (errno == ENOENT && !must_exist)
			return 0;
		return err_set_errno(err, ERR_INVALID_REQUEST, errno, "cannot read %s", path);
	}
	while (r == 0 && fgets(line, sizeof(line), file)) {
		(void)snprintf(where, sizeof(where), "%s:%d", path, ++number);
		r = read_line(config, str_of(line), where, err);
	}
	(void)fclose(file);
	return r;
}

/* ---- environment ---- */

static int read_environment(struct config *config, struct err *err)
{
	char name[NAME_MAX_BYTES + 4];
	struct place place;
	size_t at = 0;

	while (next_place(config, &at, &place)) {
		const char *value;

		(void)snprintf(name, sizeof(name), "CAY_%s", place.name);
		for (size_t k = 4; name[k]; k++)
			if (name[k] >= 'a' && name[k] <= 'z')
				name[k] = (char)(name[k] - 'a' + 'A');
		value = getenv(name);
		if (value && set_value(&place, str_of(value), name, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- flags ---- */

struct flag {
	struct str name;
	struct str value;
	bool has_value;
};

static int usage(const char *argument, struct err *err)
{
	return err_set(err, ERR_INVALID_REQUEST, "unknown argument '%.200s'; see cayd --help",
		       argument);
}

static bool is_word(struct config *config, struct str name)
{
	if (str_is(name, "print-config"))
		config->print = true;
	else if (str_is(name, "help"))
		config->help = true;
	else if (str_is(name, "version"))
		config->version = true;
	else
		return false;
	return true;
}

/* Reads the flag at argv[*i] and advances *i. want_config: only --config is evaluated. */
static int read_flag(struct config *config, int argc, char *const *argv, int *i, bool want_config,
		     const char **config_path, struct err *err)
{
	const char *argument = argv[(*i)++];
	struct flag flag = { .name = str_of(argument) };
	struct place place;
	bool found;

	if (!str_starts(flag.name, "--"))
		return usage(argument, err);
	flag.name = (struct str){ flag.name.p + 2, flag.name.n - 2 };
	flag.has_value = str_cut(flag.name, '=', &flag.name, &flag.value);
	if (is_word(config, flag.name))
		return 0;
	found = find(config, flag.name, '-', &place);
	if (!found && !str_is(flag.name, "config"))
		return usage(argument, err);
	if (!flag.has_value && found && place.setting->type == SETTING_BOOL) {
		flag.value = STR_LIT("true");
	} else if (!flag.has_value) {
		if (*i >= argc)
			return err_set(err, ERR_INVALID_REQUEST, "%s needs a value", argument);
		flag.value = str_of(argv[(*i)++]);
	}
	if (!found) {
		*config_path = flag.value.p; /* ends where the argument ends */
		return 0;
	}
	return want_config ? 0 : set_value(&place, flag.value, argument, err);
}

static int read_flags(struct config *config, int argc, char *const *argv, bool want_config,
		      const char **config_path, struct err *err)
{
	for (int i = 1; i < argc;)
		if (read_flag(config, argc, argv, &i, want_config, config_path, err) < 0)
			return -1;
	return 0;
}

static int make_engines(struct config *config, struct err *err)
{
	config->engine_count = engine_row_count;
	config->engines = calloc(engine_row_count, sizeof(*config->engines));
	if (!config->engines)
		return err_set(err, ERR_INTERNAL, "out of memory");
	for (size_t i = 0; i < engine_row_count; i++) {
		const struct engine_driver *driver = engine_rows[i].driver;

		config->engines[i].driver = driver;
		config->engines[i].on = engine_rows[i].on;
		if (!driver->settings_size)
			continue;
		config->engines[i].settings = calloc(1, driver->settings_size);
		if (!config->engines[i].settings)
			return err_set(err, ERR_INTERNAL, "out of memory");
	}
	return 0;
}

static int set_defaults(struct config *config, struct err *err)
{
	struct place place;
	size_t at = 0;

	while (next_place(config, &at, &place))
		if (set_value(&place, str_of(place.setting->fallback), "default", err) < 0)
			return -1;
	return 0;
}

int config_load(struct config *config, int argc, char *const *argv, struct err *err)
{
	const char *path = NULL, *from_env = getenv("CAY_CONFIG");

	*config = (struct config){ .print = false };
	if (make_engines(config, err) < 0 || set_defaults(config, err) < 0)
		return -1;
	if (read_flags(config, argc, argv, true, &path, err) < 0)
		return -1;
	if (!path)
		path = from_env;
	if (read_file(config, path ? path : INI_FILE, path != NULL, err) < 0 ||
	    read_environment(config, err) < 0 ||
	    read_flags(config, argc, argv, false, &path, err) < 0)
		return -1;
	if (config->pool_min > config->pool_max)
		return err_set(err, ERR_INVALID_REQUEST, "pool_min must not exceed pool_max");
	if (config->listen_redirect[0] && !config->tls_cert[0])
		return err_set(err, ERR_INVALID_REQUEST, "listen_redirect needs tls_cert");
	if (config->state[0] != '/' || config->templates[0] != '/')
		return err_set(err, ERR_INVALID_REQUEST,
			       "state and templates must be absolute paths");
	return 0;
}

void config_done(struct config *config)
{
	for (size_t i = 0; i < config->engine_count; i++)
		free(config->engines[i].settings);
	free(config->engines);
}

void config_print(struct config *config)
{
	char value[SETTING_TEXT_MAX];
	struct place place;
	size_t at = 0;

	while (next_place(config, &at, &place)) {
		setting_read(place.setting, place.base, value, sizeof(value));
		(void)printf("%s = %s\n", place.name, value);
	}
}

void config_help(struct config *config)
{
	struct place place;
	size_t at = 0;

	(void)printf("usage: cayd [--config FILE] [--SETTING VALUE]...\n\n"
		     "The cay daemon. Settings come from the file (default " INI_FILE
		     "), then the\nenvironment (CAY_SETTING), then flags; the last one wins.\n\n");
	while (next_place(config, &at, &place)) {
		for (char *c = place.name; *c; c++)
			if (*c == '_')
				*c = '-';
		(void)printf("  --%-24s %s (%s)\n", place.name, place.setting->doc,
			     place.setting->fallback);
	}
	(void)printf("\n  --print-config             show the settings in force and end\n"
		     "  --version                  show the version and end\n");
}
