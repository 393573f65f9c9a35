/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/value/bounds.h"
#include "base/text/ini.h"

enum setting_type { SETTING_TEXT, SETTING_BOOL, SETTING_INT };

static const struct setting {
	const char *name; /* in the file; CAY_NAME in the environment; --na-me as a flag */
	enum setting_type type;
	size_t offset;
	const char *fallback;
	int64_t min, max;
	const char *doc;
} settings[] = {
#define TEXT(member, fallback, doc)                                                         \
	{                                                                                   \
#member, SETTING_TEXT, offsetof(struct config, member), fallback, 0, 0, doc \
	}
#define BOOL(member, fallback, doc)                                                         \
	{                                                                                   \
#member, SETTING_BOOL, offsetof(struct config, member), fallback, 0, 0, doc \
	}
#define INT(member, fallback, min, max, doc)                                                   \
	{                                                                                      \
#member, SETTING_INT, offsetof(struct config, member), fallback, min, max, doc \
	}
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
	TEXT(storage, "auto",
	     "for cay-warden: auto, btrfs or directory (no disk limits, no snapshots)"),
	TEXT(log_level, "info", "debug, info, warn or error"),
	BOOL(engine_native, "true", "namespaces and cgroups of this host, through cay-warden"),
	BOOL(engine_local, "false", "no isolation at all: for debugging only"),
	BOOL(engine_local_proxied, "false",
	     "its agents listen on 127.0.0.1:3128 as proxies to the outside"),
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
#undef TEXT
#undef BOOL
#undef INT
};

static int set_bool(struct config *config, const struct setting *s, struct str value)
{
	static const char *const yes[] = { "true", "yes", "on", "1" };
	static const char *const no[] = { "false", "no", "off", "0" };
	bool *at = (bool *)(void *)((char *)config + s->offset);

	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		if (str_is(value, yes[i]) || str_is(value, no[i])) {
			*at = str_is(value, yes[i]);
			return 0;
		}
	}
	return -EINVAL;
}

static int set_value(struct config *config, const struct setting *s, struct str value,
		     const char *where, struct err *err)
{
	uint64_t number = 0;

	if (s->type == SETTING_TEXT) {
		if (str_copy((char *)config + s->offset, CONFIG_TEXT_MAX, value) < 0)
			return err_set(err, ERR_INVALID_REQUEST, "%.120s: %s is too long", where,
				       s->name);
		return 0;
	}
	if (s->type == SETTING_BOOL) {
		if (set_bool(config, s, value) < 0)
			return err_set(err, ERR_INVALID_REQUEST, "%.120s: %s must be true or false",
				       where, s->name);
		return 0;
	}
	if (str_to_u64(value, (uint64_t)s->max, &number) < 0 || (int64_t)number < s->min)
		return err_set(err, ERR_INVALID_REQUEST,
			       "%.120s: %s must be an integer of %lld to %lld", where, s->name,
			       (long long)s->min, (long long)s->max);
	*(int64_t *)(void *)((char *)config + s->offset) = (int64_t)number;
	return 0;
}

static const struct setting *find(struct str name, char dash)
{
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		const char *own = settings[i].name;
		size_t n = strlen(own), k = 0;

		while (k < n && k < name.n && (own[k] == '_' ? dash : own[k]) == name.p[k])
			k++;
		if (k == n && n == name.n)
			return &settings[i];
	}
	return NULL;
}

/* ---- file ---- */

static int read_line(struct config *config, struct str line, const char *where, struct err *err)
{
	struct str key, value;
	const struct setting *s;
	int r = ini_line(line, &key, &value);

	if (r == 0)
		return 0;
	if (r < 0)
		return err_set(err, ERR_INVALID_REQUEST, "%s: expected name = value", where);
	s = find(key, '_');
	if (!s)
		return err_set(err, ERR_INVALID_REQUEST, "%s: unknown setting '%.*s'", where,
			       (int)MIN(key.n, 64), key.p);
	return set_value(config, s, value, where, err);
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
	char name[64];

	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		const char *value;
		size_t k = 0;

		(void)snprintf(name, sizeof(name), "CAY_%s", settings[i].name);
		for (k = 4; name[k]; k++)
			if (name[k] >= 'a' && name[k] <= 'z')
				name[k] = (char)(name[k] - 'a' + 'A');
		value = getenv(name);
		if (value && set_value(config, &settings[i], str_of(value), name, err) < 0)
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

/* Reads one flag at argv[*i], moves *i behind it. want_config: only --config is looked at. */
static int read_flag(struct config *config, int argc, char *const *argv, int *i, bool want_config,
		     const char **config_path, struct err *err)
{
	const char *argument = argv[(*i)++];
	struct flag flag = { .name = str_of(argument) };
	const struct setting *s;

	if (!str_starts(flag.name, "--"))
		return usage(argument, err);
	flag.name = (struct str){ flag.name.p + 2, flag.name.n - 2 };
	flag.has_value = str_cut(flag.name, '=', &flag.name, &flag.value);
	if (is_word(config, flag.name))
		return 0;
	s = find(flag.name, '-');
	if (!s && !str_is(flag.name, "config"))
		return usage(argument, err);
	if (!flag.has_value && s && s->type == SETTING_BOOL) {
		flag.value = STR_LIT("true");
	} else if (!flag.has_value) {
		if (*i >= argc)
			return err_set(err, ERR_INVALID_REQUEST, "%s needs a value", argument);
		flag.value = str_of(argv[(*i)++]);
	}
	if (!s) {
		*config_path = flag.value.p; /* ends where the argument ends */
		return 0;
	}
	return want_config ? 0 : set_value(config, s, flag.value, argument, err);
}

static int read_flags(struct config *config, int argc, char *const *argv, bool want_config,
		      const char **config_path, struct err *err)
{
	for (int i = 1; i < argc;)
		if (read_flag(config, argc, argv, &i, want_config, config_path, err) < 0)
			return -1;
	return 0;
}

int config_load(struct config *config, int argc, char *const *argv, struct err *err)
{
	const char *path = NULL, *from_env = getenv("CAY_CONFIG");

	*config = (struct config){ .print = false };
	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		if (set_value(config, &settings[i], str_of(settings[i].fallback), "default", err) <
		    0)
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

void config_print(const struct config *config)
{
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		const struct setting *s = &settings[i];
		const char *at = (const char *)config + s->offset;

		if (s->type == SETTING_TEXT)
			(void)printf("%s = %s\n", s->name, at);
		else if (s->type == SETTING_BOOL)
			(void)printf("%s = %s\n", s->name,
				     *(const bool *)(const void *)at ? "true" : "false");
		else
			(void)printf("%s = %lld\n", s->name,
				     (long long)*(const int64_t *)(const void *)at);
	}
}

void config_help(void)
{
	(void)printf("usage: cayd [--config FILE] [--SETTING VALUE]...\n\n"
		     "The cay daemon. Settings come from the file (default " INI_FILE
		     "), then the\nenvironment (CAY_SETTING), then flags; the last one wins.\n\n");
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		const struct setting *s = &settings[i];
		char flag[40];

		(void)snprintf(flag, sizeof(flag), "%s", s->name);
		for (char *c = flag; *c; c++)
			if (*c == '_')
				*c = '-';
		(void)printf("  --%-24s %s (%s)\n", flag, s->doc, s->fallback);
	}
	(void)printf("\n  --print-config             show the settings in force and end\n"
		     "  --version                  show the version and end\n");
}
