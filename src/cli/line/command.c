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
	  "Starts cay-warden and cayd under a supervisor that restarts either one when it dies, "
	  "waits until they answer, and builds the base template when there is none. Doing it "
	  "twice does no harm. Several daemons can live side by side on different state "
	  "directories. Needs root.",
	  up_options, 0, 0, -1, OPERAND_NONE, up_run, up_examples },
	{ "down", DAEMON, "Stop the daemon and destroy its sandboxes", "",
	  "Lists the sandboxes and asks before it destroys them; where it cannot ask, --yes or "
	  "--keep has to be given. Then the daemon destroys them and ends, and the supervisor and "
	  "the warden are stopped. With --keep the sandboxes live on and the next 'cay up' finds "
	  "them again. Sandboxes that run without a daemon are ended, too. Acts on the state "
	  "directory (--state, CAY_STATE) and refuses when --url or CAY_URL names another daemon.",
	  down_options, 0, 0, -1, OPERAND_NONE, down_run, down_examples },
	{ "status", DAEMON, "Show the daemon, its engines and how many sandboxes there are", "",
	  NULL, command_no_options, 0, 0, -1, OPERAND_NONE, status_run, NULL },
	{ "doctor", DAEMON, "Check what this host offers and what it is missing", "",
	  "Looks at the kernel, control groups, file systems, limits, sysctls and the installed "
	  "container programs, and says for each what to do next. Needs no daemon. Ends with "
	  "status 8 when something a sandbox needs is missing.",
	  command_no_options, 0, 0, -1, OPERAND_NONE, doctor_run, NULL },
	{ "run", SANDBOX, "Make a sandbox, run a command in it, remove it", "[--] COMMAND [ARG...]",
	  "Output comes through as with 'cay exec', and -i and -t mean the same. The exit status "
	  "is "
	  "the command's own: 128 plus the signal's number when a signal ended it, 124 when it or "
	  "the sandbox ran out of time, 125 when cay failed, 126 when the command cannot be run, "
	  "127 when there is none such. The sandbox goes away in every case, also on Ctrl-C, "
	  "unless --keep is given.",
	  run_options, 1, -1, 0, OPERAND_NONE, run_run, run_examples, true },
	{ "create", SANDBOX, "Make a sandbox and print its id", "", NULL, create_options, 0, 0, -1,
	  OPERAND_NONE, create_run, create_examples },
	{ "ls", SANDBOX, "List the sandboxes, or a directory in one", "[ID:PATH]", NULL, ls_options,
	  0, 1, -1, OPERAND_PLACE, ls_run, NULL },
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
	{ "extend", SANDBOX, "Start the lifetime of sandboxes again", "ID...", NULL, extend_options,
	  1, -1, -1, OPERAND_SANDBOX, extend_run, NULL },
	{ "update", SANDBOX, "Change the name, labels or timeouts of sandboxes", "ID...",
	  "What is not named stays as it is. 'cay net' changes what a sandbox may reach.",
	  update_options, 1, -1, -1, OPERAND_SANDBOX, update_run, update_examples },
	{ "snapshot ls", SANDBOX, "List the snapshots, or those of one sandbox", "[ID]", NULL,
	  command_no_options, 0, 1, -1, OPERAND_SANDBOX, snapshot_ls_run, NULL },
	{ "snapshot rm", SANDBOX, "Delete snapshots", "SNAPSHOT...", NULL, command_no_options, 1,
	  -1, -1, OPERAND_SNAPSHOT, snapshot_rm_run, NULL },
	{ "snapshot", SANDBOX, "Keep a sandbox as it is now: its files, with --memory all of it",
	  "ID",
	  "Prints the snapshot's id. It outlives the sandbox; 'cay create --snapshot' makes new "
	  "ones from it, 'cay restore' brings a sandbox back to it. Where its memory cannot be "
	  "kept "
	  "a warning says why, and it has the files.",
	  snapshot_options, 1, 1, -1, OPERAND_SANDBOX, snapshot_run, snapshot_examples },
	{ "restore", SANDBOX, "Bring a sandbox back to a snapshot", "ID SNAPSHOT",
	  "What runs in it ends, and what was written since is gone. With the memory in the "
	  "snapshot, "
	  "if there is some, its processes go on from there.",
	  restore_options, 2, 2, -1, OPERAND_SANDBOX, restore_run, NULL },
	{ "fork", SANDBOX, "Make sandboxes with the files of another", "ID",
	  "Prints their ids. The source stands still only while its files are copied on write, or "
	  "its "
	  "memory is written. Processes are copied with --memory only; docs/guides/lifecycle.md "
	  "says what "
	  "a copied process should know.",
	  fork_options, 1, 1, -1, OPERAND_SANDBOX, fork_run, fork_examples },
	{ "events", SANDBOX, "Show the events of sandboxes, past or as they happen", "[ID]",
	  "One line an event, oldest first; without -f those that are kept. -f survives a restart "
	  "of the daemon and ends with the sandbox when one is named. With -f --json: one object a "
	  "line.",
	  events_options, 0, 1, -1, OPERAND_SANDBOX, events_run, events_examples },
	{ "usage", SANDBOX, "Show how long sandboxes ran and what that took", "[ID]",
	  "Per key and workspace: seconds, and seconds by processors, by GiB of memory, and while "
	  "paused by GiB on disk.",
	  usage_options, 0, 1, -1, OPERAND_SANDBOX, usage_run, NULL },
	{ "top", SANDBOX, "Show what the sandboxes use at the moment", "",
	  "On a terminal again and again, the busiest first, until q is pressed; elsewhere, and "
	  "with --json, once.",
	  top_options, 0, 0, -1, OPERAND_NONE, top_run, NULL },
	{ "exec", COMMAND, "Run a command in a sandbox", "ID [--] COMMAND [ARG...]",
	  "Standard output and standard error come through as they are written, byte for byte; "
	  "when their reader is slow, the command waits, as on a pipe. Standard input is read only "
	  "with -i, and then passed on as it comes. The exit status is the command's own: 128 plus "
	  "the signal's number when a signal ended it, 124 when it ran out of time, 125 when cay "
	  "failed (the sandbox ended, output was lost), 126 when the command cannot be run, 127 "
	  "when there is none such. Ctrl-C goes to the command; a second one kills it; a third "
	  "leaves it running. With -t the command has this terminal: Ctrl-P Ctrl-Q detaches and "
	  "leaves it running; without a command it is the template's shell. A restart of the "
	  "daemon is waited for, and no output is lost.",
	  exec_options, 1, -1, 1, OPERAND_SANDBOX, exec_run, exec_examples, true },
	{ "shell", COMMAND, "Open a shell in a sandbox", "ID",
	  "The template's shell, on this terminal; as 'cay exec -it ID'. Ctrl-P Ctrl-Q detaches. "
	  "With --create a sandbox of that name is made when there is none; it stays afterwards.",
	  shell_options, 1, 1, -1, OPERAND_SANDBOX, shell_run, shell_examples, true },
	{ "ps", COMMAND, "List the processes of a sandbox", "ID",
	  "Those that were started through the API, with their windows. With --json always all of "
	  "them.",
	  ps_options, 1, 1, -1, OPERAND_SANDBOX, ps_run, NULL },
	{ "logs", COMMAND, "Show what a process has written", "ID PROCESS",
	  "Standard output goes to standard output, standard error to standard error. A process "
	  "that runs detached keeps the last part of its output; when bytes that were asked for "
	  "are overwritten, standard error says which and the status is 125 (--tail asks for the "
	  "last ones only). -f survives a restart of the daemon. PROCESS is a process id or a "
	  "name. With -f --json: one object a line.",
	  logs_options, 2, 2, -1, OPERAND_PROCESS, logs_run, logs_examples },
	{ "attach", COMMAND, "Connect this terminal to a process", "ID PROCESS",
	  "Keys go to the process, its output comes here, and its exit status is ours. With a "
	  "terminal of its own Ctrl-P Ctrl-Q leaves it running; without one, Ctrl-C goes to it as "
	  "with exec.",
	  attach_options, 2, 2, -1, OPERAND_PROCESS, attach_run, NULL, true },
	{ "kill", COMMAND, "Send a signal to processes", "ID PROCESS...", NULL, kill_options, 2, -1,
	  -1, OPERAND_PROCESS, kill_run, kill_examples },
	{ "windows", COMMAND, "List, read and close windows", "ID [read NAME | close NAME]",
	  "A window is a shell that stays: 'cay exec -w NAME' makes it and runs a command in it "
	  "(one argument is shell text, several are words), "
	  "one "
	  "at a time. read shows what the last command wrote so far.",
	  windows_options, 1, 3, -1, OPERAND_SANDBOX, windows_run, windows_examples },
	{ "preview", COMMAND, "Publish a port, or list the published ones",
	  "ID [PORT | rm PREVIEW | share PREVIEW]",
	  "With a port it prints its address, PORT-ID.<preview_domain>; the server inside may "
	  "listen "
	  "on 127.0.0.1. Without one it lists the previews. share prints an address with a new "
	  "token.",
	  preview_options, 1, 3, -1, OPERAND_SANDBOX, preview_run, preview_examples },
	{ "tunnel", COMMAND, "Publish a port for an hour", "ID PORT", NULL, tunnel_options, 2, 2,
	  -1, OPERAND_SANDBOX, tunnel_run, NULL },
	{ "ports", COMMAND, "List the ports that listen inside", "ID", NULL, command_no_options, 1,
	  1, -1, OPERAND_SANDBOX, ports_run, NULL },
	{ "cp", FILES, "Copy files and trees into a sandbox, out of it, or to another",
	  "SRC... DST",
	  "A place in a sandbox is ID:PATH; any other is here, '-' for standard input or output. A "
	  "directory goes to '-' as a tar archive, and '-' into a directory unpacks one; files are "
	  "passed as they are. A file is replaced as a whole or not at all. Wildcards inside are "
	  "matched there: quote them.",
	  cp_options, 2, -1, -1, OPERAND_PLACE, cp_run, cp_examples },
	{ "cat", FILES, "Print files of a sandbox", "ID:PATH...", NULL, command_no_options, 1, -1,
	  -1, OPERAND_PLACE, cat_run, NULL },
	{ "tree", FILES, "Show a directory and what is below it", "ID:PATH", NULL, tree_options, 1,
	  1, -1, OPERAND_PLACE, tree_run, NULL },
	{ "edit", FILES, "Edit a file of a sandbox here", "ID:PATH",
	  "Opens $VISUAL, $EDITOR or vi. The file is written back only if it has not changed "
	  "meanwhile; otherwise your version is kept here, and its path is printed.",
	  command_no_options, 1, 1, -1, OPERAND_PLACE, edit_run, NULL },
	{ "glob", FILES, "Find files by name", "ID[:PATH] PATTERN [PATH]",
	  "A pattern without '/' matches names at any depth. Ends with status 1 when nothing "
	  "matches.",
	  glob_options, 2, 3, -1, OPERAND_SANDBOX, glob_run, glob_examples },
	{ "grep", FILES, "Find files by content", "ID[:PATH] PATTERN [PATH]",
	  "The pattern is a regular expression (PCRE2). Ends with status 1 when nothing matches.",
	  grep_options, 2, 3, -1, OPERAND_SANDBOX, grep_run, grep_examples },
	{ "watch", FILES, "Show changes in a directory as they happen", "ID[:PATH]",
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
	{ "template rm", TEMPLATE, "Remove templates that nothing needs", "NAME...",
	  "All versions of each. Refused, with the names, while sandboxes, snapshots or other "
	  "templates need one.",
	  command_no_options, 1, -1, -1, OPERAND_TEMPLATE, template_rm_run, NULL },
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
	{ "webhook add", TEMPLATE, "Send events to a URL, signed", "URL",
	  "Prints the id and, when none was given, the secret that signs, once. Events come in "
	  "order and at least once; docs/guides/webhooks.md shows how to verify them.",
	  webhook_add_options, 1, 1, -1, OPERAND_NONE, webhook_add_run, webhook_add_examples },
	{ "webhook ls", TEMPLATE, "List the webhooks and how they are doing", "", NULL,
	  command_no_options, 0, 0, -1, OPERAND_NONE, webhook_ls_run, NULL },
	{ "webhook info", TEMPLATE, "Show one webhook", "ID", NULL, command_no_options, 1, 1, -1,
	  OPERAND_WEBHOOK, webhook_info_run, NULL },
	{ "webhook set", TEMPLATE, "Change a webhook", "ID", NULL, webhook_set_options, 1, 1, -1,
	  OPERAND_WEBHOOK, webhook_set_run, NULL },
	{ "webhook rm", TEMPLATE, "Delete webhooks", "ID...", NULL, command_no_options, 1, -1, -1,
	  OPERAND_WEBHOOK, webhook_rm_run, NULL },
	{ "webhook test", TEMPLATE, "Send a test event now", "ID",
	  "Ends with status 8 when it was not answered with 2xx.", command_no_options, 1, 1, -1,
	  OPERAND_WEBHOOK, webhook_test_run, NULL },
	{ "webhook deliveries", TEMPLATE, "List what was given up and what is under way", "ID",
	  NULL, webhook_deliveries_options, 1, 1, -1, OPERAND_WEBHOOK, webhook_deliveries_run,
	  NULL },
	{ "webhook redeliver", TEMPLATE, "Send a delivery that was given up again", "ID EVENT",
	  NULL, command_no_options, 2, 2, -1, OPERAND_WEBHOOK, webhook_redeliver_run, NULL },
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
	{ "completion", OTHER, "Print the completion script of a shell", "bash|zsh|fish",
	  "Put 'source <(cay completion bash)' into ~/.bashrc, or write the output of 'cay "
	  "completion zsh' to a file _cay in a directory of $fpath, or that of 'cay completion "
	  "fish' "
	  "to ~/.config/fish/completions/cay.fish.",
	  command_no_options, 1, 1, -1, OPERAND_NONE, completion_run, NULL },
	{ "help", OTHER, "Show help, for one command when it is named", "[COMMAND]", NULL,
	  help_options, 0, 2, -1, OPERAND_COMMAND, help_run, NULL },
	/* Hidden: what the completion scripts ask for names. */
	{ "complete", NULL, "Print candidates for completion", "[--] WORD...", NULL,
	  command_no_options, 0, -1, -1, OPERAND_NONE, complete_run, NULL },
	{ NULL },
};
