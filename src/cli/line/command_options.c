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
	FLAG("json", 0, "Print JSON, errors included"),
	TEXT("url", 0, "URL", "Address of the daemon (CAY_URL)"),
	TEXT("key", 0, "KEY", "API key (CAY_API_KEY)"),
	TEXT("state", 0, "DIR",
	     "State directory (CAY_STATE; /var/lib/cay, or ~/.local/state/cay without root)"),
	PICK("color", "WHEN", color_modes, "Colours: auto, always or never"),
	FLAG("quiet", 'q', "Print only what was asked for"),
	FLAG("help", 'h', "Show help for the command"),
	END,
};

const struct option_spec command_no_options[] = { END };

/* All but the name. letter: of --template; with `run` -t is the terminal, as people expect it. */
#define CREATE_REST(letter)                                                                        \
	TEXT("template", letter, "NAME", "Template to start from (base)"),                         \
		MILLI("cpu", "N", "Processors (1); also parts, 0.5"),                              \
		MEGABYTES("memory", 1, 0, "Memory in MB (1024)"),                                  \
		MEGABYTES("disk", 1, 0, "Disk in MB (3072)"),                                      \
		SECONDS("timeout", 1, 0, "Lifetime (300); also 10m, 2h"),                          \
		SECONDS("idle-timeout", 0, 0, "End after this long without use (0: never)"),       \
		FLAG("always-on", 0, "No lifetime: it stays until it is removed"),                 \
		PICK("on-timeout", "WHAT", timeout_ends,                                           \
		     "At the end of its time: destroy, pause, hibernate (destroy)"),               \
		FLAG("auto-resume", 0, "Commands and writes wake it when it is paused"),           \
		FLAG("retain-on-failure", 0, "Keep it for looking into when it does not start"),   \
		TEXT("snapshot", 0, "ID",                                                          \
		     "Start with the files of this snapshot, and its memory"),                     \
		FLAG("no-memory", 0, "Leave the memory in that snapshot behind"),                  \
		LIST("init", 0, "CMD", "Run this before it is running; may be repeated"),          \
		PAIRS("env", 'e', "Set an environment variable"),                                  \
		PAIRS("metadata", 0, "Attach a label"),                                            \
		LIST("secret", 0, "NAME[=VAR]", "Give it a secret as a variable"),                 \
		LIST("broker", 0, "NAME[=VAR]", "Give it a placeholder of a secret"),              \
		PICK("pool", "MODE", pool_modes, "Ready-made sandboxes: prefer, bypass, require"), \
		TEXT("engine", 0, "NAME", "Engine to run on"),                                     \
		PICK("network", "MODE", network_modes,                                             \
		     "What it may reach: none, restricted, full (none)"),                          \
		LIST("allow", 0, "HOST", "With restricted: a host it may reach; may be repeated"), \
		LIST("deny", 0, "HOST", "A host it may not reach; may be repeated")
#define CREATE_OPTIONS(letter) \
	TEXT("name", 0, "NAME", "A unique name; usable instead of the id"), CREATE_REST(letter)

static const char *const switch_modes[] = { "on", "off", NULL };
const struct option_spec update_options[] = {
	TEXT("name", 0, "NAME", "A new name"),
	SECONDS("timeout", 1, 0, "Lifetime from its creation on; 'cay extend' starts it again"),
	SECONDS("idle-timeout", 0, 0, "End after this long without use (0: never)"),
	PICK("always-on", "on|off", switch_modes, "on: no lifetime"),
	PICK("on-timeout", "WHAT", timeout_ends,
	     "At the end of its time: destroy, pause, hibernate"),
	PICK("auto-resume", "on|off", switch_modes,
	     "on: commands and writes wake it when it is paused"),
	PAIRS("metadata", 0, "Replace all labels; may be repeated"),
	END,
};
const char *const update_examples[] = { "cay update web --auto-resume on",
					"cay update web --timeout 2h --on-timeout hibernate",
					NULL };
const struct option_spec up_options[] = {
	TEXT("listen", 0, "ADDR:PORT", "Where to listen (127.0.0.1:7070); port 0 picks one"),
	TEXT("templates", 0, "DIR", "Template directory (/var/lib/cay/templates)"),
	TEXT("config", 0, "FILE", "Configuration file (/etc/cay/cay.conf)"),
	TEXT("tls-cert", 0, "FILE", "Serve https:// with this certificate (PEM, with its chain)"),
	TEXT("tls-key", 0, "FILE", "The certificate's key (PEM)"),
	FLAG("foreground", 'f', "Stay in the foreground, logs on standard error"),
	FLAG("engine-local", 0, "Allow the engine without isolation (for debugging only)"),
	FLAG("no-build", 0, "Do not build the base template when it is missing"),
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
	NUMBER("count", "N", 1, 100, "How many; with a name: NAME-1, NAME-2 and so on"),
	END,
};
const char *const create_examples[] = { "cay create",
					"cay create --name web --memory 2g --timeout 1h",
					"cay create --count 10 --name worker", NULL };
const struct option_spec run_options[] = {
	CREATE_OPTIONS(0),
	FLAG("interactive", 'i', "Pass standard input on as it comes"),
	FLAG("tty", 't', "With a terminal, and this one raw for it; implies -i"),
	FLAG("keep", 0, "Do not remove the sandbox afterwards"),
	TEXT("user", 'u', "USER", "Run as this user (sandbox)"),
	TEXT("cwd", 'C', "DIR", "Working directory (/workspace); relative to that"),
	SECONDS("exec-timeout", 1, 86400, "Time limit of the command (the sandbox's)"),
	FLAG("shell", 'c', "Run the one argument through the shell"),
	END,
};
const char *const run_examples[] = { "cay run -- python3 -c 'print(6*7)'",
				     "cay run -c 'uname -a && id'", "cay run -it -- bash",
				     "cay run --memory 256 --exec-timeout 10 -- make test", NULL };
const struct option_spec exec_options[] = {
	FLAG("interactive", 'i', "Pass standard input on as it comes; without it, none is read"),
	FLAG("tty", 't', "With a terminal, and this one raw for it; implies -i"),
	FLAG("detach", 'd', "Start it, print its process id and leave it running"),
	TEXT("window", 'w', "NAME", "Run it in this window: a shell that stays"),
	TEXT("name", 0, "NAME", "With -d: a name for the process"),
	TEXT("user", 'u', "USER", "Run as this user (sandbox)"),
	TEXT("cwd", 'C', "DIR", "Working directory (/workspace); relative to that"),
	PAIRS("env", 'e', "Set an environment variable"),
	SECONDS("timeout", 0, 0, "Time limit (120; none with -i, -t, -d); 0: none"),
	FLAG("shell", 'c', "Run the one argument through the shell"),
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
	FLAG("create", 0, "Make the sandbox, with the options below, when there is none"),
	TEXT("user", 'u', "USER", "Open it as this user (sandbox)"),
	TEXT("cwd", 'C', "DIR", "Working directory (/workspace)"),
	CREATE_REST('t'),
	END,
};
const char *const shell_examples[] = { "cay shell web", "cay shell -u root web",
				       "cay shell --create --always-on dev", NULL };
const struct option_spec ps_options[] = {
	FLAG("all", 'a', "Finished ones, too"),
	END,
};
const struct option_spec logs_options[] = {
	FLAG("follow", 'f', "Go on until the process ends"),
	NUMBER("tail", "BYTES", 0, INT64_MAX, "Only the last bytes of each stream"),
	TEXT("cursor", 0, "OUT[:ERR]", "From these byte positions on"),
	END,
};
const char *const logs_examples[] = { "cay logs -f web 7", "cay logs --tail 4096 web 7", NULL };
const struct option_spec attach_options[] = {
	TEXT("cursor", 0, "OUT[:ERR]", "Output from these byte positions on, not the last screen"),
	END,
};
const struct option_spec kill_options[] = {
	TEXT("signal", 's', "SIG", "The signal, by name or number (TERM)"),
	FLAG("stop", 0, "TERM, after 5 s KILL for all it left; then forgotten"),
	END,
};
const char *const kill_examples[] = { "cay kill web 7", "cay kill -s KILL web 7",
				      "cay kill --stop web server", NULL };
const struct option_spec windows_options[] = {
	NUMBER("cursor", "BYTES", 0, INT64_MAX, "With read: from this byte position on"),
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
	FLAG("recursive", 'r', "Trees too"),
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
	NUMBER("limit", "N", 1, 10000, "At most so many (1000)"),
	FLAG("gitignore", 0, "Leave out what .gitignore files name"),
	END,
};
const char *const glob_examples[] = { "cay glob web '*.py'", "cay glob web 'src/**/*.{c,h}'",
				      NULL };
const struct option_spec grep_options[] = {
	FLAG("ignore-case", 'i', "Upper and lower case are the same"),
	FLAG("fixed", 'F', "The pattern is plain text"),
	{ .name = "context",
	  .letter = 'C',
	  .kind = OPTION_NUMBER,
	  .value = "N",
	  .max = 20,
	  .help = "Lines before and after each match" },
	TEXT("include", 0, "GLOB", "Only files that match"),
	TEXT("exclude", 0, "GLOB", "Not the files that match"),
	FLAG("gitignore", 0, "Leave out what .gitignore files name"),
	NUMBER("max-matches", "N", 1, 10000, "At most so many (200)"),
	SECONDS("timeout", 1, 600, "At most so long (30)"),
	END,
};
const char *const grep_examples[] = { "cay grep web TODO",
				      "cay grep -C 2 --include '*.c' web 'int +main' src", NULL };
const struct option_spec watch_options[] = {
	FLAG("recursive", 'r', "All directories below, new ones too"),
	END,
};
const struct option_spec events_options[] = {
	FLAG("follow", 'f', "What happens from now on, until Ctrl-C or the sandbox's end"),
	TEXT("type", 0, "NAMES",
	     "Only these: sandbox, process, snapshot or theirs, as process.ended"),
	TEXT("after", 0, "ID", "Only what came behind this event"),
	END,
};
const char *const events_examples[] = { "cay events -f", "cay events --type sandbox web", NULL };
const struct option_spec usage_options[] = {
	TEXT("from", 0, "TIME", "Since then, as 2026-11-16T00:00:00Z or 2026-11-16"),
	TEXT("to", 0, "TIME", "Until then (now)"),
	TEXT("owner", 0, "KEYID", "Only this key's sandboxes"),
	TEXT("workspace", 0, "ID", "Only those with this external workspace id"),
	END,
};
const struct option_spec top_options[] = {
	NUMBER("interval", "SEC", 1, 3600, "How often to look (2)"),
	END,
};
const struct option_spec rm_options[] = {
	FLAG("all", 'a', "Remove every sandbox this key can see"),
	END,
};
const struct option_spec resume_options[] = {
	SECONDS("timeout", 1, 0, "A new life time; default: what was left goes on"),
	FLAG("no-memory", 0, "Start with the files only, although memory was kept"),
	END,
};
const struct option_spec extend_options[] = {
	SECONDS("timeout", 1, 0, "The new life time, from now (as before); also 10m, 2h"),
	END,
};
const struct option_spec snapshot_options[] = {
	FLAG("memory", 'm', "With its processes, where they can be kept"),
	TEXT("comment", 0, "TEXT", "A note to find it by"),
	SECONDS("expires", 0, 315360000, "Deleted after so long (0: never); also 10m, 2h, 7d"),
	NUMBER("keep-last", "N", 0, 1000, "Delete older ones of this sandbox beyond N (0: none)"),
	END,
};
const char *const snapshot_examples[] = { "cay snapshot web --comment 'before the upgrade'",
					  "cay snapshot web --memory", "cay create --snapshot ID",
					  "cay snapshot ls web", NULL };
const struct option_spec restore_options[] = {
	FLAG("no-memory", 0, "Only the files, although there is memory in it"),
	END,
};
const struct option_spec fork_options[] = {
	NUMBER("count", "N", 1, 100, "How many (1)"),
	FLAG("memory", 'm', "They go on with its processes"),
	TEXT("name", 0, "NAME", "Of the child; of many: NAME-1, NAME-2 and so on"),
	SECONDS("timeout", 1, 0, "Life time (the source's); also 10m, 2h"),
	PAIRS("metadata", 0, "Attach a label (the source's)"),
	END,
};
const char *const fork_examples[] = { "cay fork web", "cay fork web --count 10 --name try",
				      "cay fork warm --memory --count 10", NULL };
/* Each: a number, 'none' or 'default'. */
#define KEY_LIMITS                                                                   \
	TEXT("max-sandboxes", 0, "N", "How many sandboxes it may have"),             \
		TEXT("max-vcpus", 0, "N", "How many processors they have together"), \
		TEXT("max-memory-mb", 0, "MB", "How much memory"),                   \
		TEXT("max-disk-mb", 0, "MB", "How much disk"),                       \
		TEXT("max-snapshots", 0, "N", "How many snapshots it may have"),     \
		TEXT("max-creates-per-sec", 0, "N", "How many sandboxes it may make a second")
#define SECRET_VALUE_OPTIONS                                           \
	TEXT("from-file", 0, "FILE", "Read the value from this file"), \
		TEXT("from-env", 0, "VAR", "Take the value of this variable")
const struct option_spec secret_value_options[] = { SECRET_VALUE_OPTIONS, END };
const struct option_spec secret_set_options[] = {
	SECRET_VALUE_OPTIONS,
	TEXT("workspace", 0, "ID", "Only for sandboxes of this workspace"),
	TEXT("sandbox", 0, "ID", "Only for this sandbox"),
	LIST("host", 0, "HOST", "Where it may be sent when brokered; *.NAME for all below it"),
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
#define WEBHOOK_OPTIONS                                                                        \
	LIST("event", 0, "NAME",                                                               \
	     "sandbox, process, snapshot, webhook or theirs, as process.ended; repeat (all)"), \
		TEXT("workspace", 0, "ID", "Only events of this external workspace id"),       \
		TEXT("description", 0, "TEXT", "What it is for"),                              \
		TEXT("secret", 0, "SECRET", "What signs; made and shown once when none is given")
const struct option_spec webhook_add_options[] = {
	WEBHOOK_OPTIONS,
	FLAG("disabled", 0, "Do not send yet"),
	END,
};
const struct option_spec webhook_set_options[] = {
	TEXT("to", 0, "URL", "Where to send from now on"),
	WEBHOOK_OPTIONS,
	FLAG("enable", 0, "Go on where it stopped"),
	FLAG("disable", 0, "Stop sending"),
	END,
};
const char *const webhook_add_examples[] = {
	"cay webhook add https://example.com/cay --event sandbox.error --event process.ended",
	"cay webhook test ID", "cay webhook deliveries ID --status dead", NULL
};
static const char *const delivery_states[] = { "all", "dead", "pending", NULL };
const struct option_spec webhook_deliveries_options[] = {
	PICK("status", "STATE", delivery_states, "dead: given up; pending: under way (all)"),
	END,
};
#define PREVIEW_OPTIONS(usually)                                                             \
	FLAG("private", 0, "Only with a share token, which the printed address carries"),    \
		SECONDS("expires", 1, 30 * 86400,                                            \
			"How long; with share: the token (" usually ")"),                    \
		FLAG("localhost", 0, "The server inside sees itself called localhost:PORT"), \
		FLAG("reserved", 0, "Also port 22 and 5900 to 5999")
const struct option_spec preview_options[] = { PREVIEW_OPTIONS("as the sandbox; 1h"), END };
const struct option_spec tunnel_options[] = { PREVIEW_OPTIONS("1h"), END };
const char *const preview_examples[] = { "cay preview web 8080", "cay preview web", NULL };
const struct option_spec help_options[] = {
	FLAG("man", 0, "Print the manual page (roff)"),
	END,
};

const struct option_spec net_options[] = {
	FLAG("remove", 0, "Take the entries out of the list"),
	END,
};
const char *const net_examples[] = { "cay net allow web example.com '*.npmjs.org:443'",
				     "cay net allow web 10.1.2.0/24:5432",
				     "cay net allow web --remove example.com", NULL };
const char *const net_learn_examples[] = { "cay net learn web on",
					   "cay net allow web $(cay net learn web)",
					   "cay net learn web off", NULL };
