/* SPDX-License-Identifier: Apache-2.0 */
/* The options of every command, and its examples. */
#include "cli/line/command_options.h"

#define FLAG(n, l, h)                                                  \
	{                                                              \
		.name = n, .letter = l, .kind = OPTION_FLAG, .help = h \
	}
#define TEXT(n, l, v, h)                                                           \
	{                                                                          \
		.name = n, .letter = l, .kind = OPTION_TEXT, .value = v, .help = h \
	}
#define LIST(n, l, v, h)                                                           \
	{                                                                          \
		.name = n, .letter = l, .kind = OPTION_LIST, .value = v, .help = h \
	}
#define PAIRS(n, l, h)                                                                  \
	{                                                                               \
		.name = n, .letter = l, .kind = OPTION_PAIRS, .value = "K=V", .help = h \
	}
#define PICK(n, v, c, h)                                                            \
	{                                                                           \
		.name = n, .kind = OPTION_TEXT, .value = v, .choices = c, .help = h \
	}
#define NUMBER(n, v, lo, hi, h)                                                               \
	{                                                                                     \
		.name = n, .kind = OPTION_NUMBER, .value = v, .help = h, .min = lo, .max = hi \
	}
#define MILLI(n, v, h)                                                 \
	{                                                              \
		.name = n, .kind = OPTION_MILLI, .value = v, .help = h \
	}
#define SECONDS(n, lo, hi, h)                                                                      \
	{                                                                                          \
		.name = n, .kind = OPTION_SECONDS, .value = "SEC", .help = h, .min = lo, .max = hi \
	}
#define MEGABYTES(n, lo, hi, h)                                                              \
	{                                                                                    \
		.name = n, .kind = OPTION_MB, .value = "MB", .help = h, .min = lo, .max = hi \
	}
#define END                  \
	{                    \
		.name = NULL \
	}

static const char *const color_modes[] = { "auto", "always", "never", NULL };
static const char *const timeout_ends[] = { "destroy", "pause", "hibernate", NULL };
static const char *const network_modes[] = { "none", "restricted", "full", NULL };
static const char *const pool_modes[] = { "prefer", "bypass", "require", NULL };

const struct option_spec command_globals[] = {
	FLAG("json", 0, "Print JSON, also for errors"),
	TEXT("url", 0, "URL", "Address of the daemon (CAY_URL)"),
	TEXT("key", 0, "KEY", "API key (CAY_API_KEY)"),
	TEXT("state", 0, "DIR",
	     "State directory (CAY_STATE; /var/lib/cay, or ~/.local/state/cay without root)"),
	PICK("color", "WHEN", color_modes, "Colours: auto, always or never"),
	FLAG("quiet", 'q', "Print only ids or names"),
	FLAG("help", 'h', "Show help for the command"),
	END,
};

const struct option_spec command_no_options[] = { END };

/* All except the name. letter: of --template; for `run`, -t is the terminal, as users expect. */
#define CREATE_REST(letter)                                                                       \
	TEXT("template", letter, "NAME", "Template to start from (base)"),                        \
		MILLI("cpu", "N", "Processors (1); fractions such as 0.5"),                       \
		MEGABYTES("memory", 1, 0, "Memory in MB (1024)"),                                 \
		MEGABYTES("disk", 1, 0, "Disk in MB (3072)"),                                     \
		SECONDS("timeout", 1, 0, "Lifetime (300); also 10m, 2h"),                         \
		SECONDS("idle-timeout", 0, 0, "End after this time without use (0: never)"),      \
		FLAG("always-on", 0, "No time limit: runs until it is removed"),                  \
		PICK("on-timeout", "WHAT", timeout_ends,                                          \
		     "At the time limit: destroy, pause, hibernate (destroy)"),                   \
		FLAG("auto-resume", 0, "Resume it for commands and writes"),                      \
		FLAG("retain-on-failure", 0, "Keep it for inspection if it does not start"),      \
		TEXT("snapshot", 0, "ID", "Start from this snapshot"),                            \
		FLAG("no-memory", 0, "Use only the files of the snapshot"),                       \
		LIST("init", 0, "CMD", "Run this command first; may be repeated"),                \
		PAIRS("env", 'e', "Set an environment variable"),                                 \
		PAIRS("metadata", 0, "Attach a label"),                                           \
		LIST("secret", 0, "NAME[=VAR]", "Pass a secret as a variable"),                   \
		LIST("broker", 0, "NAME[=VAR]", "Pass a placeholder of a secret"),                \
		PICK("pool", "MODE", pool_modes, "Use of the pool: prefer, bypass, require"),     \
		TEXT("engine", 0, "NAME", "Engine to run on"),                                    \
		PICK("network", "MODE", network_modes, "Network: none, restricted, full (none)"), \
		LIST("allow", 0, "HOST", "A host that it may reach; may be repeated"),            \
		LIST("deny", 0, "HOST", "A host that it may not reach; may be repeated")
#define CREATE_OPTIONS(letter) \
	TEXT("name", 0, "NAME", "A unique name, usable instead of the id"), CREATE_REST(letter)

static const char *const switch_modes[] = { "on", "off", NULL };
const struct option_spec update_options[] = {
	TEXT("name", 0, "NAME", "A new name"),
	SECONDS("timeout", 1, 0, "Lifetime since its creation; 'cay extend' restarts it"),
	SECONDS("idle-timeout", 0, 0, "End after this time without use (0: never)"),
	PICK("always-on", "on|off", switch_modes, "on: no lifetime"),
	PICK("on-timeout", "WHAT", timeout_ends, "At the time limit: destroy, pause or hibernate"),
	PICK("auto-resume", "on|off", switch_modes, "on: resume it for commands and writes"),
	PAIRS("metadata", 0, "Replace all labels; may be repeated"),
	END,
};
const char *const update_examples[] = { "cay update web --auto-resume on",
					"cay update web --timeout 2h --on-timeout hibernate",
					NULL };
const struct option_spec up_options[] = {
	TEXT("listen", 0, "ADDR:PORT", "Address to listen on (127.0.0.1:7070); port 0: any"),
	TEXT("templates", 0, "DIR", "Template directory (/var/lib/cay/templates)"),
	TEXT("config", 0, "FILE", "Configuration file (/etc/cay/cay.conf)"),
	TEXT("tls-cert", 0, "FILE", "Serve https:// with this certificate (PEM, with its chain)"),
	TEXT("tls-key", 0, "FILE", "The certificate's key (PEM)"),
	FLAG("foreground", 'f', "Stay in the foreground and log to standard error"),
	FLAG("engine-local", 0, "Allow the engine without isolation (for debugging only)"),
	FLAG("no-build", 0, "Do not build the base template if it is missing"),
	END,
};
const char *const up_examples[] = { "cay up", "cay up --state /tmp/one --listen 127.0.0.1:0",
				    "cay up --foreground", NULL };
const struct option_spec down_options[] = {
	FLAG("yes", 'y', "Destroy the sandboxes without asking"),
	FLAG("keep", 0, "Leave the sandboxes running"),
	END,
};
const char *const down_examples[] = { "cay down", "cay down --yes", "cay down --keep",
				      "cay down --state /tmp/one", NULL };
const struct option_spec create_options[] = {
	CREATE_OPTIONS('t'),
	NUMBER("count", "N", 1, 100, "Number of sandboxes; names are NAME-1, NAME-2, ..."),
	END,
};
const char *const create_examples[] = { "cay create",
					"cay create --name web --memory 2g --timeout 1h",
					"cay create --count 10 --name worker", NULL };
const struct option_spec run_options[] = {
	CREATE_OPTIONS(0),
	FLAG("interactive", 'i', "Pass standard input on"),
	FLAG("tty", 't', "Give the command this terminal; implies -i"),
	FLAG("keep", 0, "Do not remove the sandbox afterwards"),
	TEXT("user", 'u', "USER", "Run as this user (sandbox)"),
	TEXT("cwd", 'C', "DIR", "Working directory, relative to /workspace"),
	SECONDS("exec-timeout", 1, 0, "Time limit of the command (the sandbox's)"),
	FLAG("shell", 'c', "Run one argument through the shell"),
	END,
};
const char *const run_examples[] = { "cay run -- python3 -c 'print(6*7)'",
				     "cay run -c 'uname -a && id'", "cay run -it -- bash",
				     "cay run --memory 256 --exec-timeout 10 -- make test", NULL };
const struct option_spec exec_options[] = {
	FLAG("interactive", 'i', "Pass standard input on; otherwise it is not read"),
	FLAG("tty", 't', "Give the command this terminal; implies -i"),
	FLAG("detach", 'd', "Start it, print its process id and leave it running"),
	TEXT("window", 'w', "NAME", "Run it in this window, a shell that stays"),
	TEXT("name", 0, "NAME", "With -d: a name for the process"),
	TEXT("user", 'u', "USER", "Run as this user (sandbox)"),
	TEXT("cwd", 'C', "DIR", "Working directory, relative to /workspace"),
	PAIRS("env", 'e', "Set an environment variable"),
	SECONDS("timeout", 0, 0, "Time limit (120; none with -i, -t, -d); 0: none"),
	FLAG("shell", 'c', "Run one argument through the shell"),
	END,
};
const char *const exec_examples[] = { "cay exec web -- ls -l",
				      "cay exec web -c 'echo $HOME | wc -c'",
				      "cay exec -it web -- bash",
				      "tar c src | cay exec -i web -- tar x",
				      "cay exec -d web -- python3 -m http.server",
				      "cay exec -w build web -c 'cd src && make'",
				      NULL };
const struct option_spec shell_options[] = {
	FLAG("create", 0, "Create the sandbox if it does not exist"),
	TEXT("user", 'u', "USER", "Open it as this user (sandbox)"),
	TEXT("cwd", 'C', "DIR", "Working directory (/workspace)"),
	CREATE_REST('t'),
	END,
};
const char *const shell_examples[] = { "cay shell web", "cay shell -u root web",
				       "cay shell --create --always-on dev", NULL };
const struct option_spec ps_options[] = {
	FLAG("all", 'a', "Include ended processes"),
	END,
};
const struct option_spec logs_options[] = {
	FLAG("follow", 'f', "Continue until the process ends"),
	NUMBER("tail", "BYTES", 0, INT64_MAX, "Only the last bytes of each stream"),
	TEXT("cursor", 0, "OUT[:ERR]", "Start at these byte positions"),
	END,
};
const char *const logs_examples[] = { "cay logs -f web 7", "cay logs --tail 4096 web 7", NULL };
const struct option_spec attach_options[] = {
	TEXT("cursor", 0, "OUT[:ERR]", "Start at these byte positions"),
	END,
};
const struct option_spec kill_options[] = {
	TEXT("signal", 's', "SIG", "The signal, by name or number (TERM)"),
	FLAG("stop", 0, "TERM, after 5 s KILL, also its descendants; then remove it from the list"),
	FLAG("all", 'a', "KILL everything that runs in the sandbox"),
	END,
};
const char *const kill_examples[] = { "cay kill web 7",
				      "cay kill -s KILL web 7",
				      "cay kill --stop web server",
				      "cay kill --stop web pid:4711",
				      "cay kill --all web",
				      NULL };
const struct option_spec windows_options[] = {
	NUMBER("cursor", "BYTES", 0, INT64_MAX, "With read: start at this byte position"),
	END,
};
const char *const windows_examples[] = { "cay windows web", "cay windows web read build",
					 "cay windows web close build", NULL };
static const char *const states[] = { "provisioning", "running",   "paused", "hibernated",
				      "error",	      "destroyed", NULL };
const struct option_spec ls_options[] = {
	FLAG("long", 'l', "With ID:PATH: mode, owner, size and time"),
	PICK("status", "STATE", states, "Only sandboxes in this state"),
	TEXT("template", 't', "NAME", "Only sandboxes of this template"),
	TEXT("engine", 0, "NAME", "Only sandboxes of this engine"),
	PAIRS("metadata", 0, "Only sandboxes with this label"),
	END,
};
const struct option_spec cp_options[] = {
	FLAG("recursive", 'r', "Copy directories"),
	END,
};
const char *const cp_examples[] = { "cay cp main.c web:src/",
				    "cay cp -r . web:/workspace/project",
				    "cay cp 'web:/var/log/*.log' logs/",
				    "cay cp -r web:src other:/workspace/",
				    "cay cp web:/etc - | tar tv",
				    "tar c . | cay cp - web:/workspace",
				    NULL };
const struct option_spec tree_options[] = {
	NUMBER("depth", "N", 1, 16, "Levels (3)"),
	END,
};
const struct option_spec glob_options[] = {
	NUMBER("limit", "N", 1, 10000, "Largest number of results (1000)"),
	FLAG("gitignore", 0, "Respect .gitignore files"),
	END,
};
const char *const glob_examples[] = { "cay glob web '*.py'", "cay glob web 'src/**/*.{c,h}'",
				      NULL };
const struct option_spec grep_options[] = {
	FLAG("ignore-case", 'i', "Ignore case"),
	FLAG("fixed", 'F', "The pattern is plain text"),
	{ .name = "context",
	  .letter = 'C',
	  .kind = OPTION_NUMBER,
	  .value = "N",
	  .max = 20,
	  .help = "Lines before and after each match" },
	TEXT("include", 0, "GLOB", "Only files that match"),
	TEXT("exclude", 0, "GLOB", "Skip files that match"),
	FLAG("gitignore", 0, "Respect .gitignore files"),
	NUMBER("max-matches", "N", 1, 10000, "Largest number of matches (200)"),
	SECONDS("timeout", 1, 600, "Time limit (30)"),
	END,
};
const char *const grep_examples[] = { "cay grep web TODO",
				      "cay grep -C 2 --include '*.c' web 'int +main' src", NULL };
const struct option_spec watch_options[] = {
	FLAG("recursive", 'r', "Include all directories below"),
	END,
};
const struct option_spec events_options[] = {
	FLAG("follow", 'f', "Follow new events until Ctrl-C or the sandbox ends"),
	TEXT("type", 0, "NAMES", "Only these types, such as sandbox or process.ended"),
	TEXT("after", 0, "ID", "Only events after this one"),
	END,
};
const char *const events_examples[] = { "cay events -f", "cay events --type sandbox web", NULL };
const struct option_spec usage_options[] = {
	TEXT("from", 0, "TIME", "Start, such as 2026-11-16T00:00:00Z or 2026-11-16"),
	TEXT("to", 0, "TIME", "End (now)"),
	TEXT("owner", 0, "KEYID", "Only this key's sandboxes"),
	TEXT("workspace", 0, "ID", "Only sandboxes with this external workspace id"),
	END,
};
const struct option_spec top_options[] = {
	NUMBER("interval", "SEC", 1, 3600, "Seconds between updates (2)"),
	END,
};
const struct option_spec rm_options[] = {
	FLAG("all", 'a', "Remove every sandbox that this key can see"),
	END,
};
const struct option_spec resume_options[] = {
	SECONDS("timeout", 1, 0, "New lifetime (the remaining time)"),
	FLAG("no-memory", 0, "Use only the files"),
	END,
};
const struct option_spec extend_options[] = {
	SECONDS("timeout", 1, 0, "New lifetime from now (as before); also 10m, 2h"),
	END,
};
const struct option_spec snapshot_options[] = {
	FLAG("memory", 'm', "Include its processes"),
	TEXT("comment", 0, "TEXT", "A comment"),
	SECONDS("expires", 0, 315360000, "Delete it after this time (0: never); also 10m, 2h, 7d"),
	NUMBER("keep-last", "N", 0, 1000, "Keep only the newest N of this sandbox (0: all)"),
	END,
};
const char *const snapshot_examples[] = { "cay snapshot web --comment 'before the upgrade'",
					  "cay snapshot web --memory", "cay create --snapshot ID",
					  "cay snapshot ls web", NULL };
const struct option_spec restore_options[] = {
	FLAG("no-memory", 0, "Use only the files"),
	END,
};
const struct option_spec fork_options[] = {
	NUMBER("count", "N", 1, 100, "Number of children (1)"),
	FLAG("memory", 'm', "Copy its processes, too"),
	TEXT("name", 0, "NAME", "Name of the child; of several: NAME-1, NAME-2, ..."),
	SECONDS("timeout", 1, 0, "Lifetime (that of the source); also 10m, 2h"),
	PAIRS("metadata", 0, "Attach a label (those of the source)"),
	END,
};
const char *const fork_examples[] = { "cay fork web", "cay fork web --count 10 --name try",
				      "cay fork warm --memory --count 10", NULL };
/* Each: a number, 'none' or 'default'. */
#define KEY_LIMITS                                                               \
	TEXT("max-sandboxes", 0, "N", "Limit of sandboxes"),                     \
		TEXT("max-vcpus", 0, "N", "Limit of processors of all of them"), \
		TEXT("max-memory-mb", 0, "MB", "Limit of their memory"),         \
		TEXT("max-disk-mb", 0, "MB", "Limit of their disk space"),       \
		TEXT("max-snapshots", 0, "N", "Limit of snapshots"),             \
		TEXT("max-creates-per-sec", 0, "N", "Limit of creates per second")
#define SECRET_VALUE_OPTIONS                                           \
	TEXT("from-file", 0, "FILE", "Read the value from this file"), \
		TEXT("from-env", 0, "VAR", "Use the value of this variable")
const struct option_spec secret_value_options[] = { SECRET_VALUE_OPTIONS, END };
const struct option_spec secret_set_options[] = {
	SECRET_VALUE_OPTIONS,
	TEXT("workspace", 0, "ID", "Only for sandboxes of this workspace"),
	TEXT("sandbox", 0, "ID", "Only for this sandbox"),
	LIST("host", 0, "HOST", "Host for brokered use; *.NAME for all below it"),
	END,
};
const char *const secret_set_examples[] = {
	"gh auth token | cay secret set GH_TOKEN --host api.github.com",
	"cay secret set DEPLOY_KEY --from-file ~/.ssh/deploy",
	"cay run --secret GH_TOKEN -- sh -c 'test -n \"$GH_TOKEN\"'", NULL
};
const struct option_spec key_create_options[] = {
	TEXT("name", 0, "NAME", "What the key is for (cli)"),
	LIST("scope", 0, "SCOPE", "What the key may do; may be repeated"),
	KEY_LIMITS,
	END,
};
const struct option_spec key_set_options[] = {
	TEXT("name", 0, "NAME", "What the key is for"),
	KEY_LIMITS,
	END,
};
const char *const key_set_examples[] = { "cay key set ID --max-memory-mb 8192",
					 "cay key set ID --max-sandboxes none", NULL };
#define WEBHOOK_OPTIONS                                                                           \
	LIST("event", 0, "NAME", "Type such as sandbox or process.ended; may be repeated (all)"), \
		TEXT("workspace", 0, "ID", "Only events of this external workspace id"),          \
		TEXT("description", 0, "TEXT", "Description"),                                    \
		TEXT("secret", 0, "SECRET", "Signing secret (generated and shown once)")
const struct option_spec webhook_add_options[] = {
	WEBHOOK_OPTIONS,
	FLAG("disabled", 0, "Create it disabled"),
	END,
};
const struct option_spec webhook_set_options[] = {
	TEXT("to", 0, "URL", "New URL"),
	WEBHOOK_OPTIONS,
	FLAG("enable", 0, "Continue where it stopped"),
	FLAG("disable", 0, "Stop sending"),
	END,
};
const char *const webhook_add_examples[] = {
	"cay webhook add https://example.com/cay --event sandbox.error --event process.ended",
	"cay webhook test ID", "cay webhook deliveries ID --status dead", NULL
};
static const char *const delivery_states[] = { "all", "dead", "pending", NULL };
const struct option_spec webhook_deliveries_options[] = {
	PICK("status", "STATE", delivery_states, "dead: abandoned; pending: in progress (all)"),
	END,
};
#define PREVIEW_OPTIONS(usually)                                                      \
	FLAG("private", 0, "Require a share token; the printed address contains it"), \
		SECONDS("expires", 1, 30 * 86400,                                     \
			"Lifetime; with share: of the token (" usually ")"),          \
		FLAG("localhost", 0, "Send 'Host: localhost:PORT' to the server"),    \
		FLAG("reserved", 0, "Allow port 22 and 5900 to 5999")
const struct option_spec preview_options[] = { PREVIEW_OPTIONS("that of the sandbox; 1h"), END };
const struct option_spec tunnel_options[] = { PREVIEW_OPTIONS("1h"), END };
const char *const preview_examples[] = { "cay preview web 8080", "cay preview web", NULL };
const struct option_spec help_options[] = {
	FLAG("man", 0, "Print the manual page (roff)"),
	END,
};

const struct option_spec net_options[] = {
	FLAG("remove", 0, "Remove the entries from the list"),
	END,
};
const char *const net_examples[] = { "cay net allow web example.com '*.npmjs.org:443'",
				     "cay net allow web 10.1.2.0/24:5432",
				     "cay net allow web --remove example.com", NULL };
const char *const net_learn_examples[] = { "cay net learn web on",
					   "cay net allow web $(cay net learn web)",
					   "cay net learn web off", NULL };
