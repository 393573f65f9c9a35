/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/line/command.h"

#include "cli/line/command_options.h"

#define DAEMON "Daemon"
#define SANDBOX "Sandboxes"
#define COMMAND "Commands inside"
#define FILES "Files"
#define TEMPLATE "Templates and keys"
#define NETWORK "Network"
#define OTHER "Other"

const struct command command_table[] = {
	{ "up", DAEMON, "Start the daemon", "",
	  "Starts cay-warden and cayd under a supervisor that restarts them if they "
	  "die, waits until they answer, and builds the base template if it is missing. "
	  "Running it again has no effect. Daemons with different state directories can "
	  "run side by side. Needs root.",
	  up_options, 0, 0, -1, OPERAND_NONE, up_run, up_examples },
	{ "down", DAEMON, "Stop the daemon and destroy its sandboxes", "",
	  "Lists the sandboxes and asks before it destroys them. Without a terminal, "
	  "--yes or --keep is required. Then it stops the daemon, the supervisor and "
	  "the warden. With --keep the sandboxes keep running, and the next 'cay up' "
	  "finds them again. Sandboxes that run without a daemon are ended, too. Acts "
	  "on the state directory (--state, CAY_STATE) and fails if --url or CAY_URL "
	  "names another daemon.",
	  down_options, 0, 0, -1, OPERAND_NONE, down_run, down_examples },
	{ "status", DAEMON, "Show the daemon, its engines and the number of sandboxes", "", NULL,
	  command_no_options, 0, 0, -1, OPERAND_NONE, status_run, NULL },
	{ "recover", DAEMON, "Recover snapshots after the database was lost", "",
	  "For a daemon that is not ready because its database (cay.db) was lost or replaced. "
	  "Every snapshot that the engine holds is listed again, including those of hibernated "
	  "sandboxes. Running sandboxes are saved as snapshots, with their memory where this host "
	  "can save it, and then ended. "
	  "'cay create --snapshot ID' makes a sandbox from a snapshot. Names, owners, keys, "
	  "secrets, timeouts and network policies were in the database and are lost. If you "
	  "have a backup of cay.db, stop the daemon and restore it instead.",
	  command_no_options, 0, 0, -1, OPERAND_NONE, recover_run, NULL },
	{ "doctor", DAEMON, "Check what this host offers and what it lacks", "",
	  "Checks the kernel, control groups, file systems, limits, sysctls and "
	  "installed container programs, and says for each finding what to do. Needs no "
	  "daemon. Ends with status 8 if a sandbox cannot work here.",
	  command_no_options, 0, 0, -1, OPERAND_NONE, doctor_run, NULL },
	{ "run", SANDBOX, "Create a sandbox, run a command in it, and remove it",
	  "[--] COMMAND [ARG...]",
	  "Output is passed on as with 'cay exec', and -i and -t have the same meaning. "
	  "The exit status is that of the command: 128 plus the number of the signal "
	  "that ended it, 124 if it or the sandbox reached its time limit, 125 if cay "
	  "failed, 126 if the command cannot be executed, 127 if it does not exist. The "
	  "sandbox is removed in every case, also on Ctrl-C, unless --keep is given.",
	  run_options, 1, -1, 0, OPERAND_NONE, run_run, run_examples, true },
	{ "create", SANDBOX, "Create a sandbox and print its id", "", NULL, create_options, 0, 0,
	  -1, OPERAND_NONE, create_run, create_examples },
	{ "ls", SANDBOX, "List the sandboxes, or a directory in one", "[ID:PATH]", NULL, ls_options,
	  0, 1, -1, OPERAND_PLACE, ls_run, NULL },
	{ "info", SANDBOX, "Show one sandbox", "ID", NULL, command_no_options, 1, 1, -1,
	  OPERAND_SANDBOX, info_run, NULL },
	{ "rm", SANDBOX, "Remove sandboxes", "ID...", NULL, rm_options, 0, -1, -1, OPERAND_SANDBOX,
	  rm_run, NULL },
	{ "pause", SANDBOX, "Freeze sandboxes: they stay in memory and use no processor", "ID...",
	  "After 'cay resume', processes, connections and files are as before. Timeouts "
	  "do not run in the meantime.",
	  command_no_options, 1, -1, -1, OPERAND_SANDBOX, pause_run, NULL },
	{ "hibernate", SANDBOX, "Save sandboxes to disk and free their memory", "ID...",
	  "A hibernated sandbox uses no memory and survives a restart of the host. It "
	  "keeps its id and name. 'cay resume' starts it again with its files and, if "
	  "this host can save memory ('cay doctor' says so), with its processes as they "
	  "were.",
	  command_no_options, 1, -1, -1, OPERAND_SANDBOX, hibernate_run, NULL },
	{ "resume", SANDBOX, "Resume paused or hibernated sandboxes", "ID...", NULL, resume_options,
	  1, -1, -1, OPERAND_SANDBOX, resume_run, NULL },
	{ "extend", SANDBOX, "Restart the lifetime of sandboxes", "ID...", NULL, extend_options, 1,
	  -1, -1, OPERAND_SANDBOX, extend_run, NULL },
	{ "update", SANDBOX, "Change the name, labels or timeouts of sandboxes", "ID...",
	  "Options that are not given stay unchanged. 'cay net' changes what a sandbox "
	  "may reach.",
	  update_options, 1, -1, -1, OPERAND_SANDBOX, update_run, update_examples },
	{ "snapshot ls", SANDBOX, "List the snapshots, or those of one sandbox", "[ID]", NULL,
	  command_no_options, 0, 1, -1, OPERAND_SANDBOX, snapshot_ls_run, NULL },
	{ "snapshot rm", SANDBOX, "Delete snapshots", "SNAPSHOT...", NULL, command_no_options, 1,
	  -1, -1, OPERAND_SNAPSHOT, snapshot_rm_run, NULL },
	{ "snapshot", SANDBOX,
	  "Save a sandbox as it is now: its files and, with --memory, its processes", "ID",
	  "Prints the id of the snapshot. A snapshot outlives its sandbox. 'cay create "
	  "--snapshot' creates sandboxes from it, and 'cay restore' returns a sandbox "
	  "to it. If the memory cannot be saved, a warning says why, and the snapshot "
	  "contains the files.",
	  snapshot_options, 1, 1, -1, OPERAND_SANDBOX, snapshot_run, snapshot_examples },
	{ "restore", SANDBOX, "Return a sandbox to a snapshot", "ID SNAPSHOT",
	  "Running processes end, and everything written since the snapshot is lost. If "
	  "the snapshot contains memory, its processes continue.",
	  restore_options, 2, 2, -1, OPERAND_SANDBOX, restore_run, NULL },
	{ "fork", SANDBOX, "Create sandboxes with the files of another", "ID",
	  "Prints their ids. The source stops only while its files are copied on write, "
	  "or while its memory is written. Processes are copied only with --memory; "
	  "docs/guides/snapshots.md explains what copied processes must know.",
	  fork_options, 1, 1, -1, OPERAND_SANDBOX, fork_run, fork_examples },
	{ "events", SANDBOX, "Show past events of sandboxes, or follow new ones", "[ID]",
	  "Prints one line per event, oldest first. Without -f it prints the stored "
	  "events. -f survives a restart of the daemon, and ends with the sandbox if "
	  "one is named. With -f --json: one object per line.",
	  events_options, 0, 1, -1, OPERAND_SANDBOX, events_run, events_examples },
	{ "usage", SANDBOX, "Show how long sandboxes ran and what they used", "[ID]",
	  "Per key and workspace: seconds, and seconds multiplied by processors, by GiB "
	  "of memory, and while paused by GiB on disk.",
	  usage_options, 0, 1, -1, OPERAND_SANDBOX, usage_run, NULL },
	{ "top", SANDBOX, "Show what the sandboxes use now", "",
	  "On a terminal it refreshes, with the busiest first, until q is pressed. "
	  "Otherwise, and with --json, it prints once.",
	  top_options, 0, 0, -1, OPERAND_NONE, top_run, NULL },
	{ "exec", COMMAND, "Run a command in a sandbox", "ID [--] COMMAND [ARG...]",
	  "Standard output and standard error are passed on as they are written, byte "
	  "for byte. If their reader is slow, the command waits, as on a pipe. Standard "
	  "input is read only with -i. The exit status is that of the command: 128 plus "
	  "the number of the signal that ended it, 124 if it reached its time limit, "
	  "125 if cay failed (the sandbox ended, output was lost), 126 if the command "
	  "cannot be executed, 127 if it does not exist. Ctrl-C goes to the command; a "
	  "second one kills it; a third leaves it running. With -t the command has this "
	  "terminal, and Ctrl-P Ctrl-Q detaches and leaves it running; without a "
	  "command it is the template's shell. After a restart of the daemon cay "
	  "reconnects, and no output is lost.",
	  exec_options, 1, -1, 1, OPERAND_SANDBOX, exec_run, exec_examples, true },
	{ "shell", COMMAND, "Open a shell in a sandbox", "ID",
	  "Opens the template's shell on this terminal, as 'cay exec -it ID' does. "
	  "Ctrl-P Ctrl-Q detaches. With --create, the sandbox is created if it does not "
	  "exist; it stays when the shell ends.",
	  shell_options, 1, 1, -1, OPERAND_SANDBOX, shell_run, shell_examples, true },
	{ "ps", COMMAND, "List the processes of a sandbox", "ID",
	  "Lists processes that were started through the API, windows, and orphans: processes "
	  "whose ancestors have ended. With --json it always includes ended ones.",
	  ps_options, 1, 1, -1, OPERAND_SANDBOX, ps_run, NULL },
	{ "logs", COMMAND, "Show the output of a process", "ID PROCESS",
	  "Standard output goes to standard output, and standard error to standard "
	  "error. A detached process keeps the last part of its output. If requested "
	  "bytes were overwritten, a message on standard error says which, and the "
	  "status is 125 (--tail requests only the last bytes). -f survives a restart "
	  "of the daemon. PROCESS is a process id or a name. With -f --json: one object "
	  "per line.",
	  logs_options, 2, 2, -1, OPERAND_PROCESS, logs_run, logs_examples },
	{ "attach", COMMAND, "Connect this terminal to a process", "ID PROCESS",
	  "Keys go to the process, its output is shown, and its exit status becomes "
	  "that of cay. If the process has a terminal, Ctrl-P Ctrl-Q leaves it running; "
	  "otherwise Ctrl-C goes to it as with exec.",
	  attach_options, 2, 2, -1, OPERAND_PROCESS, attach_run, NULL, true },
	{ "kill", COMMAND, "Send a signal to processes", "ID [PROCESS...]",
	  "PROCESS is a process id, a name, or pid:N for any process by its pid inside, for "
	  "example "
	  "an orphan that 'cay ps' shows. --all works in a sandbox that a fork bomb has filled.",
	  kill_options, 1, -1, -1, OPERAND_PROCESS, kill_run, kill_examples },
	{ "windows", COMMAND, "List, read and close windows", "ID [read NAME | close NAME]",
	  "A window is a shell that keeps its state. 'cay exec -w NAME' creates it and "
	  "runs a command in it (one argument is shell text, several are words), one at "
	  "a time. read shows the output of the last command so far.",
	  windows_options, 1, 3, -1, OPERAND_SANDBOX, windows_run, windows_examples },
	{ "preview", COMMAND, "Publish a port, or list the published ones",
	  "ID [PORT | rm PREVIEW | share PREVIEW]",
	  "With a port, prints its address, PORT-ID.<preview_domain>; the server inside "
	  "may listen on 127.0.0.1. Without a port, lists the previews. share prints an "
	  "address with a new token.",
	  preview_options, 1, 3, -1, OPERAND_SANDBOX, preview_run, preview_examples },
	{ "tunnel", COMMAND, "Publish a port for an hour", "ID PORT", NULL, tunnel_options, 2, 2,
	  -1, OPERAND_SANDBOX, tunnel_run, NULL },
	{ "ports", COMMAND, "List the listening ports of a sandbox", "ID", NULL, command_no_options,
	  1, 1, -1, OPERAND_SANDBOX, ports_run, NULL },
	{ "cp", FILES, "Copy files and trees into a sandbox, out of it, or between sandboxes",
	  "SRC... DST",
	  "A path in a sandbox is ID:PATH. Any other path is local, and '-' is standard "
	  "input or output. A directory is written to '-' as a tar archive, and '-' "
	  "into a directory unpacks one; files are passed unchanged. A file is replaced "
	  "completely or not at all. Quote wildcards that are to be matched inside.",
	  cp_options, 2, -1, -1, OPERAND_PLACE, cp_run, cp_examples },
	{ "cat", FILES, "Print files of a sandbox", "ID:PATH...", NULL, command_no_options, 1, -1,
	  -1, OPERAND_PLACE, cat_run, NULL },
	{ "tree", FILES, "Show a directory and what is below it", "ID:PATH", NULL, tree_options, 1,
	  1, -1, OPERAND_PLACE, tree_run, NULL },
	{ "edit", FILES, "Edit a file of a sandbox in a local editor", "ID:PATH",
	  "Opens $VISUAL, $EDITOR or vi. The file is written back only if it has not "
	  "changed in the meantime; otherwise your version is kept, and its path is "
	  "printed.",
	  command_no_options, 1, 1, -1, OPERAND_PLACE, edit_run, NULL },
	{ "glob", FILES, "Find files by name", "ID[:PATH] PATTERN [PATH]",
	  "A pattern without '/' matches names at any depth. Ends with status 1 if "
	  "nothing matches.",
	  glob_options, 2, 3, -1, OPERAND_SANDBOX, glob_run, glob_examples },
	{ "grep", FILES, "Find files by content", "ID[:PATH] PATTERN [PATH]",
	  "The pattern is a regular expression (PCRE2). Ends with status 1 if nothing "
	  "matches.",
	  grep_options, 2, 3, -1, OPERAND_SANDBOX, grep_run, grep_examples },
	{ "watch", FILES, "Show changes in a directory as they happen", "ID[:PATH]",
	  "With --json: one object per line.", watch_options, 1, 2, -1, OPERAND_SANDBOX, watch_run,
	  NULL },
	{ "net allow", NETWORK, "Let a sandbox reach hosts", "ID [HOST...]",
	  "A HOST is a domain, *.domain (all names below it), an address or a CIDR, "
	  "optionally with :PORT. A sandbox without a network receives one. Takes "
	  "effect at once. Without hosts, shows the current policy.",
	  net_options, 1, -1, -1, OPERAND_SANDBOX, net_allow_run, net_examples },
	{ "net deny", NETWORK, "Deny hosts to a sandbox", "ID [HOST...]",
	  "As allow; deny has precedence over allow.", net_options, 1, -1, -1, OPERAND_SANDBOX,
	  net_deny_run, NULL },
	{ "net mode", NETWORK, "Change the network mode of a sandbox", "ID none|restricted|full",
	  NULL, command_no_options, 2, 2, -1, OPERAND_SANDBOX, net_mode_run, NULL },
	{ "net denials", NETWORK, "Show connections of a sandbox that were refused", "ID", NULL,
	  command_no_options, 1, 1, -1, OPERAND_SANDBOX, net_denials_run, NULL },
	{ "net learn", NETWORK, "Find out what a sandbox needs to reach", "ID [on|off]",
	  "While learning is on, connections that only lack an entry in allow are permitted and "
	  "recorded. Without on or off, prints the entries that allow lacks, one "
	  "per line.",
	  command_no_options, 1, 2, -1, OPERAND_SANDBOX, net_learn_run, net_learn_examples },
	{ "template ls", TEMPLATE, "List the templates", "", NULL, command_no_options, 0, 0, -1,
	  OPERAND_NONE, template_ls_run, NULL },
	{ "template build", TEMPLATE, "Build a template from its recipe", "NAME", NULL,
	  command_no_options, 1, 1, -1, OPERAND_TEMPLATE, template_build_run, NULL },
	{ "template rm", TEMPLATE, "Remove templates that are not in use", "NAME...",
	  "Removes all versions of each. Fails, and lists the names, while sandboxes, "
	  "snapshots or other templates need one.",
	  command_no_options, 1, -1, -1, OPERAND_TEMPLATE, template_rm_run, NULL },
	{ "template info", TEMPLATE, "Show one template", "NAME", NULL, command_no_options, 1, 1,
	  -1, OPERAND_TEMPLATE, template_info_run, NULL },
	{ "key create", TEMPLATE, "Create an API key and print it, once", "",
	  "Scopes are admin, sandboxes:read, sandboxes:write, exec, templates:read, "
	  "templates:write, keys, metrics, webhooks and secrets. Without any, the key "
	  "may read and create sandboxes, run commands and read templates.",
	  key_create_options, 0, 0, -1, OPERAND_NONE, key_create_run, NULL },
	{ "key set", TEMPLATE, "Change the name or the limits of an API key", "ID",
	  "A limit is a number, 'none', or 'default' for the daemon's setting.", key_set_options, 1,
	  1, -1, OPERAND_KEY, key_set_run, key_set_examples },
	{ "key info", TEMPLATE, "Show an API key, its limits and their use", "[ID]",
	  "Without an id, shows the key in use.", command_no_options, 0, 1, -1, OPERAND_KEY,
	  key_info_run, NULL },
	{ "key ls", TEMPLATE, "List the API keys", "", NULL, command_no_options, 0, 0, -1,
	  OPERAND_NONE, key_ls_run, NULL },
	{ "key rm", TEMPLATE, "Revoke API keys", "ID...", NULL, command_no_options, 1, -1, -1,
	  OPERAND_KEY, key_rm_run, NULL },
	{ "webhook add", TEMPLATE, "Send events to a URL, signed", "URL",
	  "Prints the id and, unless --secret is given, the generated secret, once. "
	  "Events arrive in order and at least once; docs/guides/webhooks.md shows how "
	  "to verify them.",
	  webhook_add_options, 1, 1, -1, OPERAND_NONE, webhook_add_run, webhook_add_examples },
	{ "webhook ls", TEMPLATE, "List the webhooks and their state", "", NULL, command_no_options,
	  0, 0, -1, OPERAND_NONE, webhook_ls_run, NULL },
	{ "webhook info", TEMPLATE, "Show one webhook", "ID", NULL, command_no_options, 1, 1, -1,
	  OPERAND_WEBHOOK, webhook_info_run, NULL },
	{ "webhook set", TEMPLATE, "Change a webhook", "ID", NULL, webhook_set_options, 1, 1, -1,
	  OPERAND_WEBHOOK, webhook_set_run, NULL },
	{ "webhook rm", TEMPLATE, "Delete webhooks", "ID...", NULL, command_no_options, 1, -1, -1,
	  OPERAND_WEBHOOK, webhook_rm_run, NULL },
	{ "webhook test", TEMPLATE, "Send a test event now", "ID",
	  "Ends with status 8 if the reply is not 2xx.", command_no_options, 1, 1, -1,
	  OPERAND_WEBHOOK, webhook_test_run, NULL },
	{ "webhook deliveries", TEMPLATE, "List abandoned deliveries and the one in progress", "ID",
	  NULL, webhook_deliveries_options, 1, 1, -1, OPERAND_WEBHOOK, webhook_deliveries_run,
	  NULL },
	{ "webhook redeliver", TEMPLATE, "Send an abandoned delivery again", "ID EVENT", NULL,
	  command_no_options, 2, 2, -1, OPERAND_WEBHOOK, webhook_redeliver_run, NULL },
	{ "secret set", TEMPLATE, "Store a secret, or a new version of it", "NAME",
	  "The value is read from standard input, from a prompt on a terminal, from a "
	  "file or from a variable; one trailing newline is removed. It is never shown "
	  "again. Sandboxes receive it with 'cay create --secret NAME' as a variable of "
	  "their processes, or with --broker NAME as a placeholder that the proxy "
	  "replaces in requests to the hosts of the secret.",
	  secret_set_options, 1, 1, -1, OPERAND_SECRET, secret_set_run, secret_set_examples },
	{ "secret ls", TEMPLATE, "List the secrets, without their values", "", NULL,
	  command_no_options, 0, 0, -1, OPERAND_NONE, secret_ls_run, NULL },
	{ "secret rotate", TEMPLATE, "Replace the value of a secret", "NAME|ID",
	  "New processes and requests use the new value; old values are still scrubbed "
	  "from output.",
	  secret_value_options, 1, 1, -1, OPERAND_SECRET, secret_rotate_run, NULL },
	{ "secret rm", TEMPLATE, "Delete secrets", "NAME|ID...", NULL, command_no_options, 1, -1,
	  -1, OPERAND_SECRET, secret_rm_run, NULL },
	{ "version", OTHER, "Show the version of this program and of the daemon", "", NULL,
	  command_no_options, 0, 0, -1, OPERAND_NONE, version_run, NULL },
	{ "completion", OTHER, "Print the completion script of a shell", "bash|zsh|fish",
	  "Put 'source <(cay completion bash)' into ~/.bashrc, or write the output of "
	  "'cay completion zsh' to a file _cay in a directory of $fpath, or that of "
	  "'cay completion fish' to ~/.config/fish/completions/cay.fish.",
	  command_no_options, 1, 1, -1, OPERAND_NONE, completion_run, NULL },
	{ "help", OTHER, "Show help, for all commands or for one", "[COMMAND]", NULL, help_options,
	  0, 2, -1, OPERAND_COMMAND, help_run, NULL },
	/* Hidden: for the completion scripts. */
	{ "complete", NULL, "Print candidates for completion", "[--] WORD...", NULL,
	  command_no_options, 0, -1, -1, OPERAND_NONE, complete_run, NULL },
	{ NULL },
};
