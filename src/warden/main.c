/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/text/ini.h"
#include "base/log.h"
#include "base/str.h"
#include "sys/probe.h"
#include "warden/net/links.h"
#include "warden/warden.h"

/* Shared address space (RFC 6598), the half that providers seldom use. */
#define OVERCOMMIT_DEFAULT 100
#define OVERCOMMIT_MAX 100000
#define NETWORK_RANGE "100.96.0.0/12"
#define SWAP_MAX_MB (1 << 20)
#define CRIU_DIR "/var/lib/cay/criu" /* where cay-criu puts it */

#ifdef CAY_SANITIZED
/* The leak check at exit needs /proc, which the warden has left behind by then. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

static void usage(FILE *out)
{
	(void)fprintf(
		out,
		"usage: cay-warden --state DIR --templates DIR --agent FILE [--build "
		"FILE] [--user NAME]\n"
		"The privileged half of the native engine; 'cay up' starts it.\n"
		"  --state DIR      state directory shared with cayd\n"
		"  --templates DIR  built templates, shared read-only by all sandboxes\n"
		"  --agent FILE     the cay-agent program that becomes pid 1 inside\n"
		"  --tools FILE     the cay-tools program that works on files inside\n"
		"  --build FILE     the template builder\n"
		"  --user NAME      whom cayd runs as (cay)\n"
		"  --criu DIR       CRIU in DIR/usr, for memory (" CRIU_DIR ", or CAY_CRIU)\n"
		"  --network-range ADDRESS/BITS\n"
		"                   private addresses for sandboxes with a network\n"
		"                   (CAY_NETWORK_RANGE, else " NETWORK_RANGE
		"); none: no networks\n"
		"  --cgroup PATH    the cgroup v2 to keep sandboxes in: /PATH from the root,\n"
		"                   ../PATH from the warden's own, . for the warden's own\n"
		"                   (default: a systemd scope, or the root without systemd)\n"
		"  --hold-group     alone: keep the cgroup of a systemd unit, do nothing else\n"
		"  --swap-mb N      swap each sandbox may use besides its memory (0)\n"
		"  --without LIST   do as if the kernel lacked these features, for tests\n"
		"                   (CAY_WITHOUT): names separated by commas, or all\n"
		"  --storage KIND   auto, btrfs or directory (CAY_STORAGE, else 'storage' in the\n"
		"                   settings file, else auto); directory: no disk limits\n"
		"  --disk-overcommit N\n"
		"                   how many times its size the storage pool may promise to\n"
		"                   sandboxes and snapshots (CAY_DISK_OVERCOMMIT, else\n"
		"                   'disk_overcommit' in the settings file, else 100)\n"
		"  --config FILE    settings file, for these two and network_* (CAY_CONFIG, "
		"else " INI_FILE ")\n"
		"  --log-level L    debug, info, warn or error\n"
		"CAY_ALL_CPUS=1 lets sandboxes run on all CPUs of the host; their limits stay.\n");
}

/* Flag, environment, settings file: the first that has the setting. False: none has. */
static bool find_setting(const char *flag, const char *variable, const char *config,
			 const char *name, char dst[32])
{
	const char *text = flag ? flag : getenv(variable);

	if (text) {
		(void)snprintf(dst, 32, "%s", text);
		return true;
	}
	if (!config)
		config = getenv("CAY_CONFIG");
	return ini_find(config ? config : INI_FILE, name, dst, 32) == 0;
}

static int find_storage(const char *flag, const char *config, struct warden_options *o)
{
	char text[32];

	if (!find_setting(flag, "CAY_STORAGE", config, "storage", text) ||
	    storage_kind_parse(text, &o->storage) == 0)
		return 0;
	(void)fprintf(stderr, "cay-warden: storage is '%s'; it must be auto, btrfs or directory\n",
		      text);
	return 2;
}

static int find_overcommit(const char *flag, const char *config, struct warden_options *o)
{
	char text[32];
	uint64_t times;

	if (!find_setting(flag, "CAY_DISK_OVERCOMMIT", config, "disk_overcommit", text))
		return 0;
	if (str_to_u64(str_of(text), OVERCOMMIT_MAX, &times) == 0 && times >= 1) {
		o->disk_overcommit = (uint32_t)times;
		return 0;
	}
	(void)fprintf(stderr, "cay-warden: disk_overcommit is '%s'; it must be 1 to %d\n", text,
		      OVERCOMMIT_MAX);
	return 2;
}

static const struct option long_options[] = {
	{ "state", required_argument, NULL, 's' },
	{ "templates", required_argument, NULL, 't' },
	{ "agent", required_argument, NULL, 'a' },
	{ "tools", required_argument, NULL, 'T' },
	{ "build", required_argument, NULL, 'b' },
	{ "user", required_argument, NULL, 'u' },
	{ "network-range", required_argument, NULL, 'n' },
	{ "criu", required_argument, NULL, 'c' },
	{ "without", required_argument, NULL, 'w' },
	{ "storage", required_argument, NULL, 'S' },
	{ "disk-overcommit", required_argument, NULL, 'O' },
	{ "config", required_argument, NULL, 'C' },
	{ "cgroup", required_argument, NULL, 'g' },
	{ "hold-group", no_argument, NULL, 'H' },
	{ "swap-mb", required_argument, NULL, 'm' },
	{ "log-level", required_argument, NULL, 'l' },
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* Options whose value is stored as it is. */
static bool set_text(struct warden_options *o, int option, const char *value)
{
	static const struct {
		int option;
		size_t offset;
	} rows[] = {
#define ROW(c, member) { (c), offsetof(struct warden_options, member) }
		ROW('s', state),   ROW('t', templates), ROW('a', agent),	 ROW('T', tools),
		ROW('b', build),   ROW('u', user),	ROW('n', network_range), ROW('c', criu),
		ROW('w', without), ROW('g', cgroup),
#undef ROW
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].option != option)
			continue;
		*(const char **)(void *)((char *)o + rows[i].offset) = value;
		return true;
	}
	return false;
}

static int parse(int argc, char **argv, struct warden_options *o, enum log_level *level)
{
	const char *storage = NULL, *overcommit = NULL, *config = NULL;
	uint64_t swap_mb;
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (set_text(o, c, optarg))
			continue;
		switch (c) {
		case 'S':
			storage = optarg;
			break;
		case 'O':
			overcommit = optarg;
			break;
		case 'C':
			config = optarg;
			break;
		case 'H':
			o->hold = true;
			break;
		case 'm':
			if (str_to_u64(str_of(optarg), SWAP_MAX_MB, &swap_mb) < 0)
				return 2;
			o->swap_mb = (uint32_t)swap_mb;
			break;
		case 'l':
			if (log_level_parse(optarg, level) < 0)
				return 2;
			break;
		case 'V':
			(void)puts("cay-warden " CAY_VERSION);
			return -1;
		case 'h':
			usage(stdout);
			return -1;
		default:
			return 2;
		}
	}
	if (o->hold)
		return optind == argc ? 0 : 2;
	if (!o->state || !o->templates || !o->agent || optind != argc)
		return 2;
	if (link_limits_read(config, &o->link_limits) < 0)
		return 2;
	c = find_storage(storage, config, o);
	return c ? c : find_overcommit(overcommit, config, o);
}

static int disable(const char *list)
{
	char unknown[80], names[256];

	if (probe_disable(list, unknown, sizeof(unknown)) >= 0)
		return 0;
	probe_names(names, sizeof(names));
	log_error("--without (or CAY_WITHOUT): there is no kernel feature '%s'; there are: %s, all",
		  unknown, names);
	return -EINVAL;
}

int main(int argc, char **argv)
{
	const char *criu = getenv("CAY_CRIU");
	struct warden_options options = { .user = "cay",
					  .network_range = NETWORK_RANGE,
					  .spread = !getenv("CAY_ALL_CPUS"),
					  .disk_overcommit = OVERCOMMIT_DEFAULT,
					  .criu = criu && *criu ? criu : CRIU_DIR,
					  .without = getenv("CAY_WITHOUT") };
	enum log_level level = LOG_INFO;
	static struct warden warden;
	const char *range = getenv("CAY_NETWORK_RANGE");
	int r;

	if (range)
		options.network_range = range;
	r = parse(argc, argv, &options, &level);
	if (r < 0)
		return 0;
	if (r > 0) {
		usage(stderr);
		return r;
	}
	log_init("cay-warden", level);
	if (options.hold)
		return scope_hold() < 0;
	r = scope_enter(&options, argv);
	if (r < 0)
		log_warn("no scope of systemd's (%s): sandboxes are in groups at the root",
			 strerror(-r));
	fault_open("CAY_FAULT_WARDEN");
	(void)umask(022); /* the modes of a sandbox's root must not depend on the caller's umask */
	if (disable(options.without) < 0)
		return 2;
	if (warden_open(&warden, &options) < 0)
		return 1;
	notify_send(&warden.notify, "READY=1");
	log_info("ready: instance %u, disk quota %s", warden.instance,
		 !warden.pool_has_quota	     ? "off"
		 : warden.pool_counts_shared ? "by groups"
					     : "on");
	r = event_loop_run(&warden);
	if (r < 0)
		log_error("serve: %s", strerror(-r));
	notify_send(&warden.notify, "STOPPING=1");
	warden_close(&warden);
	return r < 0 ? 1 : 0;
}
