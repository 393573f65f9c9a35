/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include <string.h>

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
	FLAG("json", 0, "Answer in JSON, errors too"),
	TEXT("url", 0, "URL", "Address of the daemon (CAY_URL)"),
	TEXT("key", 0, "KEY", "API key (CAY_API_KEY)"),
	TEXT("state", 0, "DIR", "State directory (CAY_STATE; /var/lib/cay)"),
	PICK("color", "WHEN", color_modes, "Colours: auto, always or never"),
	FLAG("quiet", 'q', "Print only what was asked for"),
	FLAG("help", 'h', "Show help for the command"),
	END,
};

const struct option_spec command_no_options[] = { END };

#define CREATE_OPTIONS                                                                             \
	TEXT("template", 't', "NAME", "Template to start from (base)"),                            \
		TEXT("name", 0, "NAME", "A unique name; usable instead of the id"),                \
		NUMBER("cpu", "N", 1, 8, "Processors (1)"),                                        \
		MEGABYTES("memory", 1, 8192, "Memory in MB (1024)"),                               \
		MEGABYTES("disk", 1, 10240, "Disk in MB (3072)"),                                  \
		SECONDS("timeout", 1, 86400, "Life time (300); also 10m, 2h"),                     \
		SECONDS("idle-timeout", 0, 86400, "End after this long without use (0: never)"),   \
		FLAG("always-on", 0, "No life time: lives until it is removed"),                   \
		PICK("on-timeout", "WHAT", timeout_ends,                                           \
		     "At the end of its time: destroy, pause, hibernate (destroy)"),               \
		FLAG("auto-resume", 0, "Commands and writes wake it when it is paused"),           \
		FLAG("retain-on-failure", 0, "Keep what is known of it when it does not start"),   \
		TEXT("snapshot", 0, "ID", "Start with the files of this snapshot"),                \
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

static const struct option_spec up_options[] = {
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
static const char *const up_examples[] = { "cay up", "cay up --state /tmp/one --listen 127.0.0.1:0",
					   "cay up --foreground", NULL };
static const struct option_spec down_options[] = {
	FLAG("keep", 0, "Leave the sandboxes running"),
	END,
};
static const struct option_spec create_options[] = {
	CREATE_OPTIONS,
	NUMBER("count", "N", 1, 100, "How many; with a name: NAME-1, NAME-2 and so on"),
	END,
};
static const char *const create_examples[] = { "cay create",
					       "cay create --name web --memory 2g --timeout 1h",
					       "cay create --count 10 --name worker", NULL };
static const struct option_spec run_options[] = {
	CREATE_OPTIONS,
	FLAG("keep", 0, "Do not remove the sandbox afterwards"),
	TEXT("user", 'u', "USER", "Run as this user (sandbox)"),
	TEXT("cwd", 'C', "DIR", "Working directory (/workspace)"),
	SECONDS("exec-timeout", 1, 86400, "Time limit of the command (the sandbox's)"),
	FLAG("shell", 'c', "Run the one argument through the shell"),
	END,
};
static const char *const run_examples[] = { "cay run -- python3 -c 'print(6*7)'",
					    "cay run -c 'uname -a && id'",
					    "cay run --memory 256 --exec-timeout 10 -- make test",
					    NULL };
static const struct option_spec exec_options[] = {
	FLAG("interactive", 'i', "Pass standard input on as it comes, of any length"),
	FLAG("tty", 't', "With a terminal, and this one raw for it; implies -i"),
	FLAG("detach", 'd', "Start it, print its process id and leave it running"),
	TEXT("window", 'w', "NAME", "Run it in this window: a shell that stays"),
	TEXT("name", 0, "NAME", "With -d: a name for the process"),
	TEXT("user", 'u', "USER", "Run as this user (sandbox)"),
	TEXT("cwd", 'C', "DIR", "Working directory (/workspace)"),
	PAIRS("env", 'e', "Set an environment variable"),
	SECONDS("timeout", 0, 86400, "Time limit (120; none with -i, -t, -d); 0: none"),
	FLAG("shell", 'c', "Run the one argument through the shell"),
	END,
};
static const char *const exec_examples[] = { "cay exec web -- ls -l",
					     "cay exec web -c 'echo $HOME | wc -c'",
					     "cay exec -it web -- bash",
					     "tar c src | cay exec -i web -- tar x",
					     "cay exec -d web -- python3 -m http.server",
					     "cay exec -w build web -c 'cd src && make'",
					     NULL };
static const struct option_spec ps_options[] = {
	FLAG("all", 'a', "Finished ones, too"),
	END,
};
static const struct option_spec logs_options[] = {
	FLAG("follow", 'f', "Go on until the process ends"),
	NUMBER("tail", "BYTES", 0, INT64_MAX, "Only the last bytes of each stream"),
	TEXT("cursor", 0, "OUT[:ERR]", "From these byte positions on"),
	END,
};
static const char *const logs_examples[] = { "cay logs -f web 7", "cay logs --tail 4096 web 7",
					     NULL };
static const struct option_spec attach_options[] = {
	TEXT("cursor", 0, "OUT[:ERR]", "Output from these byte positions on, not the last screen"),
	END,
};
static const struct option_spec kill_options[] = {
	TEXT("signal", 's', "SIG", "The signal, by name or number (TERM)"),
	FLAG("stop", 0, "TERM, after 5 s KILL for all it left; then forgotten"),
	END,
};
static const char *const kill_examples[] = { "cay kill web 7", "cay kill -s KILL web 7",
					     "cay kill --stop web server", NULL };
static const struct option_spec windows_options[] = {
	NUMBER("cursor", "BYTES", 0, INT64_MAX, "With read: from this byte position on"),
	END,
};
static const char *const windows_examples[] = { "cay windows web", "cay windows web read build",
						"cay windows web close build", NULL };
static const char *const states[] = { "provisioning", "running",   "paused",
				      "error",	      "destroyed", NULL };
static const struct option_spec ls_options[] = {
	FLAG("long", 'l', "With ID:PATH: mode, owner, size and time"),
	PICK("status", "STATE", states, "Only sandboxes in this state"),
	TEXT("template", 't', "NAME", "Only sandboxes of this template"),
	TEXT("engine", 0, "NAME", "Only sandboxes of this engine"),
	PAIRS("metadata", 0, "Only sandboxes with this label"),
	END,
};
static const struct option_spec cp_options[] = {
	FLAG("recursive", 'r', "Trees too"),
	END,
};
static const char *const cp_examples[] = { "cay cp main.c web:src/",
					   "cay cp -r . web:/workspace/project",
					   "cay cp 'web:/var/log/*.log' logs/",
					   "tar c dir | cay cp - web:/tmp/dir.tar", NULL };
static const struct option_spec tree_options[] = {
	NUMBER("depth", "N", 1, 16, "Levels (3)"),
	END,
};
static const struct option_spec glob_options[] = {
	NUMBER("limit", "N", 1, 10000, "At most so many (1000)"),
	FLAG("gitignore", 0, "Leave out what .gitignore files name"),
	END,
};
static const char *const glob_examples[] = { "cay glob web '*.py'", "cay glob web 'src/**/*.{c,h}'",
					     NULL };
static const struct option_spec grep_options[] = {
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
static const char *const grep_examples[] = { "cay grep web TODO",
					     "cay grep -C 2 --include '*.c' web 'int +main' src",
					     NULL };
static const struct option_spec watch_options[] = {
	FLAG("recursive", 'r', "All directories below, new ones too"),
	END,
};
static const struct option_spec events_options[] = {
	FLAG("follow", 'f', "What happens from now on, until Ctrl-C or the sandbox's end"),
	TEXT("type", 0, "NAMES",
	     "Only these: sandbox, process, snapshot or theirs, as process.ended"),
	TEXT("after", 0, "ID", "Only what came behind this event"),
	END,
};
static const char *const events_examples[] = { "cay events -f", "cay events --type sandbox web",
					       NULL };
static const struct option_spec usage_options[] = {
	TEXT("from", 0, "TIME", "Since then, as 2026-11-16T00:00:00Z or 2026-11-16"),
	TEXT("to", 0, "TIME", "Until then (now)"),
	TEXT("owner", 0, "KEYID", "Only this key's sandboxes"),
	TEXT("workspace", 0, "ID", "Only those with this external workspace id"),
	END,
};
static const struct option_spec top_options[] = {
	NUMBER("interval", "SEC", 1, 3600, "How often to look (2)"),
	END,
};
static const struct option_spec rm_options[] = {
	FLAG("all", 'a', "Remove every sandbox this key can see"),
	END,
};
static const struct option_spec resume_options[] = {
	SECONDS("timeout", 1, 86400, "A new life time; default: what was left goes on"),
	FLAG("no-memory", 0, "Start with the files only, although memory was kept"),
	END,
};
static const struct option_spec extend_options[] = {
	SECONDS("timeout", 1, 86400, "The new life time, from now (as before); also 10m, 2h"),
	END,
};
static const struct option_spec snapshot_options[] = {
	TEXT("comment", 0, "TEXT", "A note to find it by"),
	SECONDS("expires", 0, 315360000, "Deleted after so long (0: never); also 10m, 2h, 7d"),
	NUMBER("keep-last", "N", 0, 1000, "Delete older ones of this sandbox beyond N (0: none)"),
	END,
};
static const char *const snapshot_examples[] = { "cay snapshot web --comment 'before the upgrade'",
						 "cay create --snapshot ID", "cay snapshot ls web",
						 NULL };
static const struct option_spec fork_options[] = {
	NUMBER("count", "N", 1, 100, "How many (1)"),
	TEXT("name", 0, "NAME", "Of the child; of many: NAME-1, NAME-2 and so on"),
	SECONDS("timeout", 1, 86400, "Life time (the source's); also 10m, 2h"),
	PAIRS("metadata", 0, "Attach a label (the source's)"),
	END,
};
static const char *const fork_examples[] = { "cay fork web", "cay fork web --count 10 --name try",
					     NULL };
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
static const struct option_spec secret_value_options[] = { SECRET_VALUE_OPTIONS, END };
static const struct option_spec secret_set_options[] = {
	SECRET_VALUE_OPTIONS,
	TEXT("workspace", 0, "ID", "Only for sandboxes of this workspace"),
	TEXT("sandbox", 0, "ID", "Only for this sandbox"),
	LIST("host", 0, "HOST", "Where it may be sent when brokered; *.NAME for all below it"),
	END,
};
static const char *const secret_set_examples[] = {
	"gh auth token | cay secret set GH_TOKEN --host api.github.com",
	"cay secret set DEPLOY_KEY --from-file ~/.ssh/deploy",
	"cay run --secret GH_TOKEN -- sh -c 'test -n \"$GH_TOKEN\"'", NULL
};
static const struct option_spec key_create_options[] = {
	TEXT("name", 0, "NAME", "What the key is for (cli)"),
	LIST("scope", 0, "SCOPE", "What the key may do; may be repeated"),
	KEY_LIMITS,
	END,
};
static const struct option_spec key_set_options[] = {
	TEXT("name", 0, "NAME", "What the key is for"),
	KEY_LIMITS,
	END,
};
static const char *const key_set_examples[] = { "cay key set ID --max-memory-mb 8192",
						"cay key set ID --max-sandboxes none", NULL };
#define WEBHOOK_OPTIONS                                                                        \
	LIST("event", 0, "NAME",                                                               \
	     "sandbox, process, snapshot, webhook or theirs, as process.ended; repeat (all)"), \
		TEXT("workspace", 0, "ID", "Only events of this external workspace id"),       \
		TEXT("description", 0, "TEXT", "What it is for"),                              \
		TEXT("secret", 0, "SECRET", "What signs; made and shown once when none is given")
static const struct option_spec webhook_add_options[] = {
	WEBHOOK_OPTIONS,
	FLAG("disabled", 0, "Do not send yet"),
	END,
};
static const struct option_spec webhook_set_options[] = {
	TEXT("to", 0, "URL", "Where to send from now on"),
	WEBHOOK_OPTIONS,
	FLAG("enable", 0, "Go on where it stopped"),
	FLAG("disable", 0, "Stop sending"),
	END,
};
static const char *const webhook_add_examples[] = {
	"cay webhook add https://example.com/cay --event sandbox.error --event process.ended",
	"cay webhook test ID", "cay webhook deliveries ID --status dead", NULL
};
static const char *const delivery_states[] = { "all", "dead", "pending", NULL };
static const struct option_spec webhook_deliveries_options[] = {
	PICK("status", "STATE", delivery_states, "dead: given up; pending: under way (all)"),
	END,
};
#define PREVIEW_OPTIONS(usually)                                                             \
	FLAG("private", 0, "Only with a share token, which the printed address carries"),    \
		SECONDS("expires", 1, 30 * 86400,                                            \
			"How long; with share: the token (" usually ")"),                    \
		FLAG("localhost", 0, "The server inside sees itself called localhost:PORT"), \
		FLAG("reserved", 0, "Also port 22 and 5900 to 5999")
static const struct option_spec preview_options[] = { PREVIEW_OPTIONS("as the sandbox; 1h"), END };
static const struct option_spec tunnel_options[] = { PREVIEW_OPTIONS("1h"), END };
static const char *const preview_examples[] = { "cay preview web 8080", "cay preview web", NULL };
static const struct option_spec help_options[] = {
	FLAG("man", 0, "Print the manual page (roff)"),
	END,
};

#define DAEMON "Daemon"
static const struct option_spec net_options[] = {
	FLAG("remove", 0, "Take the entries out of the list"),
	END,
};
static const char *const net_examples[] = { "cay net allow web example.com '*.npmjs.org:443'",
					    "cay net allow web 10.1.2.0/24:5432",
					    "cay net allow web --remove example.com", NULL };
static const char *const net_learn_examples[] = { "cay net learn web on",
						  "cay net allow web $(cay net learn web)",
						  "cay net learn web off", NULL };

#define SANDBOX "Sandboxes"
#define COMMAND "Commands inside"
#define FILES "Files"
#define TEMPLATE "Templates and keys"
#define NETWORK "Network"
#define OTHER "Other"

const struct command command_table[] = {
	{ "up", DAEMON, "Start the daemon", "",
	  "Starts cay-warden and cayd under a supervisor that restarts either one when it dies, "
	  "waits until they answer, and builds the base template when there is none. Doing it "
	  "twice does no harm. Several daemons can live side by side on different state "
	  "directories. Needs root.",
	  up_options, 0, 0, -1, OPERAND_NONE, up_run, up_examples },
	{ "down", DAEMON, "Stop the daemon and destroy its sandboxes", "",
	  "Asks the daemon to destroy every sandbox and to stop, then stops the supervisor and the "
	  "warden, and waits until all are gone. With --keep the sandboxes live on and the next "
	  "'cay up' finds them again.",
	  down_options, 0, 0, -1, OPERAND_NONE, down_run, NULL },
	{ "status", DAEMON, "Show the daemon, its engines and how many sandboxes there are", "",
	  NULL, command_no_options, 0, 0, -1, OPERAND_NONE, status_run, NULL },
	{ "doctor", DAEMON, "Check what this host offers and what it is missing", "",
	  "Looks at the kernel, control groups, file systems, limits, sysctls and the installed "
	  "container programs, and says for each what to do next. Needs no daemon. Ends with "
	  "status 8 when something a sandbox needs is missing.",
	  command_no_options, 0, 0, -1, OPERAND_NONE, doctor_run, NULL },
	{ "run", SANDBOX, "Make a sandbox, run a command in it, remove it", "[--] COMMAND [ARG...]",
	  "The exit status is the command's own: 128 plus the signal's number when a signal ended "
	  "it, 124 when it ran out of time. The sandbox goes away in every case, also on Ctrl-C, "
	  "unless --keep is given.",
	  run_options, 1, -1, 0, OPERAND_NONE, run_run, run_examples },
	{ "create", SANDBOX, "Make a sandbox and print its id", "", NULL, create_options, 0, 0, -1,
	  OPERAND_NONE, create_run, create_examples },
	{ "ls", SANDBOX, "List the sandboxes, or a directory in one", "[ID:PATH]", NULL, ls_options,
	  0, 1, -1, OPERAND_NONE, ls_run, NULL },
	{ "info", SANDBOX, "Show one sandbox", "ID", NULL, command_no_options, 1, 1, -1,
	  OPERAND_SANDBOX, info_run, NULL },
	{ "rm", SANDBOX, "Remove sandboxes", "ID...", NULL, rm_options, 0, -1, -1, OPERAND_SANDBOX,
	  rm_run, NULL },
	{ "pause", SANDBOX, "Freeze sandboxes: they stay in memory, without a processor", "ID...",
	  "Processes, connections and files are as they were after 'cay resume'. Its time stands "
	  "still meanwhile.",
	  command_no_options, 1, -1, -1, OPERAND_SANDBOX, pause_run, NULL },
	{ "hibernate", SANDBOX, "Keep sandboxes on disk and free their memory", "ID...",
	  "Costs no memory and survives a restart of the host. The id and the name stay; 'cay "
	  "resume' starts it again with its files, and where this host can keep memory "
	  "('cay doctor' tells) with its processes as they were.",
	  command_no_options, 1, -1, -1, OPERAND_SANDBOX, hibernate_run, NULL },
	{ "resume", SANDBOX, "Resume paused or hibernated sandboxes", "ID...", NULL, resume_options,
	  1, -1, -1, OPERAND_SANDBOX, resume_run, NULL },
	{ "extend", SANDBOX, "Start the life time of sandboxes again", "ID...", NULL,
	  extend_options, 1, -1, -1, OPERAND_SANDBOX, extend_run, NULL },
	{ "snapshot ls", SANDBOX, "List the snapshots, or those of one sandbox", "[ID]", NULL,
	  command_no_options, 0, 1, -1, OPERAND_SANDBOX, snapshot_ls_run, NULL },
	{ "snapshot rm", SANDBOX, "Delete snapshots", "SNAPSHOT...", NULL, command_no_options, 1,
	  -1, -1, OPERAND_SNAPSHOT, snapshot_rm_run, NULL },
	{ "snapshot", SANDBOX, "Keep the files of a sandbox as they are now", "ID",
	  "Prints the snapshot's id. It outlives the sandbox; 'cay create --snapshot' makes new "
	  "ones from it, 'cay restore' brings a sandbox back to it. Memory is not in it.",
	  snapshot_options, 1, 1, -1, OPERAND_SANDBOX, snapshot_run, snapshot_examples },
	{ "restore", SANDBOX, "Bring the files of a sandbox back to a snapshot", "ID SNAPSHOT",
	  "What runs in it ends, and what was written since is gone.", command_no_options, 2, 2, -1,
	  OPERAND_SANDBOX, restore_run, NULL },
	{ "fork", SANDBOX, "Make sandboxes with the files of another", "ID",
	  "Prints their ids. The source stands still only while its files are copied on write. "
	  "Processes are not copied.",
	  fork_options, 1, 1, -1, OPERAND_SANDBOX, fork_run, fork_examples },
	{ "events", SANDBOX, "Show what happened to sandboxes, or happens", "[ID]",
	  "One line an event, oldest first; without -f those that are kept. -f survives a restart "
	  "of the daemon and ends with the sandbox when one is named. With -f --json: one object a "
	  "line.",
	  events_options, 0, 1, -1, OPERAND_SANDBOX, events_run, events_examples },
	{ "usage", SANDBOX, "Show how long sandboxes ran and what that took", "[ID]",
	  "Per key and workspace: seconds, and seconds by processors, by GiB of memory, and while "
	  "paused by GiB on disk.",
	  usage_options, 0, 1, -1, OPERAND_SANDBOX, usage_run, NULL },
	{ "top", SANDBOX, "Show what the sandboxes use just now", "",
	  "On a terminal again and again, the busiest first, until q is pressed; elsewhere, and "
	  "with --json, once.",
	  top_options, 0, 0, -1, OPERAND_NONE, top_run, NULL },
	{ "exec", COMMAND, "Run a command in a sandbox", "ID [--] COMMAND [ARG...]",
	  "Standard output and standard error come through as they are written, byte for byte. "
	  "Standard input is sent along (up to 1 MiB) when it is not a terminal; -i passes it on "
	  "as it comes. The exit status is the command's own: 128 plus the signal's number when a "
	  "signal ended it, 124 when it ran out of time, 8 when the sandbox ended. Ctrl-C goes to "
	  "the command; a second one kills it; a third leaves it running. With -t the command has "
	  "this terminal: Ctrl-P Ctrl-Q detaches and leaves it running; without a command it is "
	  "the "
	  "template's shell. A restart of the daemon is waited for, and no output is lost.",
	  exec_options, 1, -1, 1, OPERAND_SANDBOX, exec_run, exec_examples },
	{ "ps", COMMAND, "List the processes of a sandbox", "ID",
	  "Those that were started through the API, with their windows. With --json always all of "
	  "them.",
	  ps_options, 1, 1, -1, OPERAND_SANDBOX, ps_run, NULL },
	{ "logs", COMMAND, "Show what a process has written", "ID PROCESS",
	  "Standard output goes to standard output, standard error to standard error. What was "
	  "dropped because nobody read it in time is reported with its size. -f survives a restart "
	  "of the daemon. PROCESS is a process id or a name. With -f --json: one object a line.",
	  logs_options, 2, 2, -1, OPERAND_PROCESS, logs_run, logs_examples },
	{ "attach", COMMAND, "Connect this terminal to a process", "ID PROCESS",
	  "Keys go to the process, its output comes here, and its exit status is ours. With a "
	  "terminal of its own Ctrl-P Ctrl-Q leaves it running; without one, Ctrl-C goes to it as "
	  "with exec.",
	  attach_options, 2, 2, -1, OPERAND_PROCESS, attach_run, NULL },
	{ "kill", COMMAND, "Send a signal to processes", "ID PROCESS...", NULL, kill_options, 2, -1,
	  -1, OPERAND_PROCESS, kill_run, kill_examples },
	{ "windows", COMMAND, "List, read and close windows", "ID [read NAME | close NAME]",
	  "A window is a shell that stays: 'cay exec -w NAME' makes it and runs a command in it "
	  "(one argument is shell text, several are words), "
	  "one "
	  "at a time. read shows what the last command wrote so far.",
	  windows_options, 1, 3, -1, OPERAND_SANDBOX, windows_run, windows_examples },
	{ "preview", COMMAND, "Show a port outside, list what is shown",
	  "ID [PORT | rm PREVIEW | share PREVIEW]",
	  "With a port it prints its address, PORT-ID.<preview_domain>; the server inside may "
	  "listen "
	  "on 127.0.0.1. Without one it lists the previews. share prints an address with a new "
	  "token.",
	  preview_options, 1, 3, -1, OPERAND_SANDBOX, preview_run, preview_examples },
	{ "tunnel", COMMAND, "Show a port outside for an hour", "ID PORT", NULL, tunnel_options, 2,
	  2, -1, OPERAND_SANDBOX, tunnel_run, NULL },
	{ "ports", COMMAND, "List the ports that listen inside", "ID", NULL, command_no_options, 1,
	  1, -1, OPERAND_SANDBOX, ports_run, NULL },
	{ "cp", FILES, "Copy files and trees into a sandbox and out of it", "SRC... DST",
	  "One side is a place in a sandbox, ID:PATH; the other is here, '-' for standard input or "
	  "output. A file is replaced as a whole or not at all. Wildcards inside are matched "
	  "there: quote them.",
	  cp_options, 2, -1, -1, OPERAND_NONE, cp_run, cp_examples },
	{ "cat", FILES, "Print files of a sandbox", "ID:PATH...", NULL, command_no_options, 1, -1,
	  -1, OPERAND_NONE, cat_run, NULL },
	{ "tree", FILES, "Show a directory and what is below it", "ID:PATH", NULL, tree_options, 1,
	  1, -1, OPERAND_NONE, tree_run, NULL },
	{ "edit", FILES, "Edit a file of a sandbox here", "ID:PATH",
	  "Opens $VISUAL, $EDITOR or vi. The file is written back only when nobody changed it "
	  "meanwhile; otherwise what you wrote is kept, and you are told where.",
	  command_no_options, 1, 1, -1, OPERAND_NONE, edit_run, NULL },
	{ "glob", FILES, "Find files by name", "ID PATTERN [PATH]",
	  "A pattern without '/' matches names at any depth. Ends with status 1 when nothing "
	  "matches.",
	  glob_options, 2, 3, -1, OPERAND_SANDBOX, glob_run, glob_examples },
	{ "grep", FILES, "Find files by content", "ID PATTERN [PATH]",
	  "The pattern is a regular expression (PCRE2). Ends with status 1 when nothing matches.",
	  grep_options, 2, 3, -1, OPERAND_SANDBOX, grep_run, grep_examples },
	{ "watch", FILES, "Show changes in a directory as they happen", "ID [PATH]",
	  "With --json: one object a line.", watch_options, 1, 2, -1, OPERAND_SANDBOX, watch_run,
	  NULL },
	{ "net allow", NETWORK, "Let a sandbox reach hosts", "ID [HOST...]",
	  "A HOST is a domain, *.domain (what is below it), an address or a CIDR, each with :PORT "
	  "or without. A sandbox without a network gets one. Takes effect at once. Without hosts "
	  "it shows what is in force.",
	  net_options, 1, -1, -1, OPERAND_SANDBOX, net_allow_run, net_examples },
	{ "net deny", NETWORK, "Keep a sandbox from hosts", "ID [HOST...]",
	  "As allow; deny beats allow.", net_options, 1, -1, -1, OPERAND_SANDBOX, net_deny_run,
	  NULL },
	{ "net mode", NETWORK, "Change what a sandbox may reach as a whole",
	  "ID none|restricted|full", NULL, command_no_options, 2, 2, -1, OPERAND_SANDBOX,
	  net_mode_run, NULL },
	{ "net denials", NETWORK, "Show what a sandbox tried to reach and may not", "ID", NULL,
	  command_no_options, 1, 1, -1, OPERAND_SANDBOX, net_denials_run, NULL },
	{ "net learn", NETWORK, "Find out what a sandbox needs to reach", "ID [on|off]",
	  "While learning is on, what is only missing in allow passes and is noted. Without on or "
	  "off: prints the entries that allow lacks, one a line.",
	  command_no_options, 1, 2, -1, OPERAND_SANDBOX, net_learn_run, net_learn_examples },
	{ "template ls", TEMPLATE, "List the templates", "", NULL, command_no_options, 0, 0, -1,
	  OPERAND_NONE, template_ls_run, NULL },
	{ "template build", TEMPLATE, "Build a template from its recipe", "NAME", NULL,
	  command_no_options, 1, 1, -1, OPERAND_TEMPLATE, template_build_run, NULL },
	{ "template info", TEMPLATE, "Show one template", "NAME", NULL, command_no_options, 1, 1,
	  -1, OPERAND_TEMPLATE, template_info_run, NULL },
	{ "key create", TEMPLATE, "Make an API key and print it, once", "",
	  "Scopes are admin, sandboxes:read, sandboxes:write, exec, templates:read, "
	  "templates:write, "
	  "keys, metrics, webhooks and secrets. Without any the key may read and make sandboxes, "
	  "run "
	  "commands and "
	  "read "
	  "templates.",
	  key_create_options, 0, 0, -1, OPERAND_NONE, key_create_run, NULL },
	{ "key set", TEMPLATE, "Change the name or the limits of an API key", "ID",
	  "A limit is a number, 'none', or 'default' for what the daemon's settings say.",
	  key_set_options, 1, 1, -1, OPERAND_KEY, key_set_run, key_set_examples },
	{ "key info", TEMPLATE, "Show an API key, its limits and their use", "[ID]",
	  "Without an id: the key in use.", command_no_options, 0, 1, -1, OPERAND_KEY, key_info_run,
	  NULL },
	{ "key ls", TEMPLATE, "List the API keys", "", NULL, command_no_options, 0, 0, -1,
	  OPERAND_NONE, key_ls_run, NULL },
	{ "key rm", TEMPLATE, "Revoke API keys", "ID...", NULL, command_no_options, 1, -1, -1,
	  OPERAND_KEY, key_rm_run, NULL },
	{ "webhook add", TEMPLATE, "Have events told to a URL, signed", "URL",
	  "Prints the id and, when none was given, the secret that signs, once. Events come in "
	  "order and at least once; docs/webhooks.md shows how to verify them.",
	  webhook_add_options, 1, 1, -1, OPERAND_NONE, webhook_add_run, webhook_add_examples },
	{ "webhook ls", TEMPLATE, "List the webhooks and how they are doing", "", NULL,
	  command_no_options, 0, 0, -1, OPERAND_NONE, webhook_ls_run, NULL },
	{ "webhook info", TEMPLATE, "Show one webhook", "ID", NULL, command_no_options, 1, 1, -1,
	  OPERAND_NONE, webhook_info_run, NULL },
	{ "webhook set", TEMPLATE, "Change a webhook", "ID", NULL, webhook_set_options, 1, 1, -1,
	  OPERAND_NONE, webhook_set_run, NULL },
	{ "webhook rm", TEMPLATE, "Delete webhooks", "ID...", NULL, command_no_options, 1, -1, -1,
	  OPERAND_NONE, webhook_rm_run, NULL },
	{ "webhook test", TEMPLATE, "Send a test event now", "ID",
	  "Ends with status 8 when it was not answered with 2xx.", command_no_options, 1, 1, -1,
	  OPERAND_NONE, webhook_test_run, NULL },
	{ "webhook deliveries", TEMPLATE, "List what was given up and what is under way", "ID",
	  NULL, webhook_deliveries_options, 1, 1, -1, OPERAND_NONE, webhook_deliveries_run, NULL },
	{ "webhook redeliver", TEMPLATE, "Send a delivery that was given up again", "ID EVENT",
	  NULL, command_no_options, 2, 2, -1, OPERAND_NONE, webhook_redeliver_run, NULL },
	{ "secret set", TEMPLATE, "Put a value into the vault, or a new version of it", "NAME",
	  "The value comes from standard input, is asked for on a terminal, or is read from a file "
	  "or "
	  "a variable; one line end behind it is dropped. It is never shown again: sandboxes get "
	  "it "
	  "with 'cay create --secret NAME' as a variable of their processes, or with --broker NAME "
	  "as a placeholder that only the proxy replaces, in requests to the secret's hosts.",
	  secret_set_options, 1, 1, -1, OPERAND_SECRET, secret_set_run, secret_set_examples },
	{ "secret ls", TEMPLATE, "List the secrets, without their values", "", NULL,
	  command_no_options, 0, 0, -1, OPERAND_NONE, secret_ls_run, NULL },
	{ "secret rotate", TEMPLATE, "Replace the value of a secret", "NAME|ID",
	  "New processes and requests get the new value; old ones are still scrubbed from output.",
	  secret_value_options, 1, 1, -1, OPERAND_SECRET, secret_rotate_run, NULL },
	{ "secret rm", TEMPLATE, "Delete secrets", "NAME|ID...", NULL, command_no_options, 1, -1,
	  -1, OPERAND_SECRET, secret_rm_run, NULL },
	{ "version", OTHER, "Show the version of this program and of the daemon", "", NULL,
	  command_no_options, 0, 0, -1, OPERAND_NONE, version_run, NULL },
	{ "completion", OTHER, "Print the completion script of a shell", "bash|zsh",
	  "Put 'source <(cay completion bash)' into ~/.bashrc, or write the output of 'cay "
	  "completion zsh' to a file _cay in a directory of $fpath.",
	  command_no_options, 1, 1, -1, OPERAND_NONE, completion_run, NULL },
	{ "help", OTHER, "Show help, for one command when it is named", "[COMMAND]", NULL,
	  help_options, 0, 2, -1, OPERAND_COMMAND, help_run, NULL },
	/* Hidden: what the completion scripts ask for names. */
	{ "complete", NULL, "Print names for completion", "sandbox|template|key|process ID", NULL,
	  command_no_options, 1, 2, -1, OPERAND_NONE, complete_run, NULL },
	{ NULL },
};
