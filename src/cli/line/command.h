/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of commands. Everything that needs to know commands uses it: dispatch, option parsing,
 * `cay help`, `cay COMMAND --help`, shell completion and the manual page.
 */
#ifndef CAY_CLI_LINE_COMMAND_H
#define CAY_CLI_LINE_COMMAND_H

#include "base/err.h"
#include "base/macro.h"

struct cli;
struct args;

enum option_kind {
	OPTION_FLAG,
	OPTION_TEXT,
	OPTION_NUMBER,	/* decimal, min..max; max 0: the daemon's limit, which the operator sets */
	OPTION_MILLI,	/* decimal with up to three places; stored in thousandths */
	OPTION_SECONDS, /* decimal with suffix s, m, h or d; min..max */
	OPTION_MB,	/* decimal with suffix m or g; min..max */
	OPTION_LIST,	/* text; may be given several times */
	OPTION_PAIRS,	/* KEY=VALUE; may be given several times */
};

struct option_spec {
	const char *name; /* without dashes; NULL ends an array */
	char letter;	  /* 0: no short form */
	enum option_kind kind;
	const char *value; /* name of the value in help */
	const char *help;
	const char *const *choices; /* NULL-terminated; NULL: anything */
	uint64_t min, max;
};

/* The kind of an operand, for completion. */
enum operand_kind {
	OPERAND_NONE,
	OPERAND_SANDBOX,
	OPERAND_TEMPLATE,
	OPERAND_KEY,
	OPERAND_SECRET,
	OPERAND_SNAPSHOT,
	OPERAND_COMMAND,
	OPERAND_PROCESS, /* of the preceding sandbox */
	OPERAND_WEBHOOK,
	OPERAND_PLACE, /* ID:PATH */
};

/*
 * Returns the exit status, or -1 with err set: main() then prints the error and takes the status
 * from the table of codes.
 */
typedef int (*command_fn)(struct cli *cli, const struct args *args, struct err *err);

struct command {
	const char *name;  /* one word, or two: "template build" */
	const char *group; /* heading in help; NULL: hidden */
	const char *summary;
	const char *operands; /* for the usage line */
	const char *about;    /* paragraphs for --help and the manual; may be NULL */
	const struct option_spec *options;
	int operands_min;
	int operands_max; /* -1: any number */
	/*
	 * From this operand on, everything is the user's own command line and no option of ours;
	 * -1: nowhere.
	 */
	int verbatim_from;
	enum operand_kind operand;
	command_fn run;
	const char *const *examples; /* NULL-terminated; may be NULL */
	/* It ends with the status of a program inside: our own failures are 124 to 127. */
	bool own_status;
};

extern const struct command command_table[]; /* ends with a NULL name */
extern const struct option_spec command_globals[];
extern const struct option_spec command_no_options[];

/*
 * Finds the command in words (one or two of them); *ret_used is how many words it used. NULL if
 * there is none.
 */
const struct command *command_find(const char *const *words, size_t count, size_t *ret_used);
/* True if this is the first word of a two-word command. */
bool command_is_family(const char *word);

/* The functions in the table, by file. */
int up_run(struct cli *cli, const struct args *args, struct err *err);
int down_run(struct cli *cli, const struct args *args, struct err *err);
int status_run(struct cli *cli, const struct args *args, struct err *err);
int recover_run(struct cli *cli, const struct args *args, struct err *err);
int doctor_run(struct cli *cli, const struct args *args, struct err *err);
int version_run(struct cli *cli, const struct args *args, struct err *err);
int create_run(struct cli *cli, const struct args *args, struct err *err);
int run_run(struct cli *cli, const struct args *args, struct err *err);
int exec_run(struct cli *cli, const struct args *args, struct err *err);
int ps_run(struct cli *cli, const struct args *args, struct err *err);
int logs_run(struct cli *cli, const struct args *args, struct err *err);
int attach_run(struct cli *cli, const struct args *args, struct err *err);
int kill_run(struct cli *cli, const struct args *args, struct err *err);
int windows_run(struct cli *cli, const struct args *args, struct err *err);
int ls_run(struct cli *cli, const struct args *args, struct err *err);
int files_ls_run(struct cli *cli, const struct args *args, struct err *err);
int cp_run(struct cli *cli, const struct args *args, struct err *err);
int cat_run(struct cli *cli, const struct args *args, struct err *err);
int tree_run(struct cli *cli, const struct args *args, struct err *err);
int edit_run(struct cli *cli, const struct args *args, struct err *err);
int glob_run(struct cli *cli, const struct args *args, struct err *err);
int grep_run(struct cli *cli, const struct args *args, struct err *err);
int watch_run(struct cli *cli, const struct args *args, struct err *err);
int events_run(struct cli *cli, const struct args *args, struct err *err);
int usage_run(struct cli *cli, const struct args *args, struct err *err);
int top_run(struct cli *cli, const struct args *args, struct err *err);
int info_run(struct cli *cli, const struct args *args, struct err *err);
int rm_run(struct cli *cli, const struct args *args, struct err *err);
int pause_run(struct cli *cli, const struct args *args, struct err *err);
int hibernate_run(struct cli *cli, const struct args *args, struct err *err);
int resume_run(struct cli *cli, const struct args *args, struct err *err);
int extend_run(struct cli *cli, const struct args *args, struct err *err);
int update_run(struct cli *cli, const struct args *args, struct err *err);
int shell_run(struct cli *cli, const struct args *args, struct err *err);
int snapshot_run(struct cli *cli, const struct args *args, struct err *err);
int snapshot_ls_run(struct cli *cli, const struct args *args, struct err *err);
int snapshot_rm_run(struct cli *cli, const struct args *args, struct err *err);
int restore_run(struct cli *cli, const struct args *args, struct err *err);
int fork_run(struct cli *cli, const struct args *args, struct err *err);
int net_allow_run(struct cli *cli, const struct args *args, struct err *err);
int net_deny_run(struct cli *cli, const struct args *args, struct err *err);
int net_mode_run(struct cli *cli, const struct args *args, struct err *err);
int net_denials_run(struct cli *cli, const struct args *args, struct err *err);
int net_learn_run(struct cli *cli, const struct args *args, struct err *err);
int template_ls_run(struct cli *cli, const struct args *args, struct err *err);
int template_build_run(struct cli *cli, const struct args *args, struct err *err);
int template_rm_run(struct cli *cli, const struct args *args, struct err *err);
int template_info_run(struct cli *cli, const struct args *args, struct err *err);
int key_create_run(struct cli *cli, const struct args *args, struct err *err);
int key_set_run(struct cli *cli, const struct args *args, struct err *err);
int key_info_run(struct cli *cli, const struct args *args, struct err *err);
int key_ls_run(struct cli *cli, const struct args *args, struct err *err);
int key_rm_run(struct cli *cli, const struct args *args, struct err *err);
int preview_run(struct cli *cli, const struct args *args, struct err *err);
int tunnel_run(struct cli *cli, const struct args *args, struct err *err);
int ports_run(struct cli *cli, const struct args *args, struct err *err);
int webhook_add_run(struct cli *cli, const struct args *args, struct err *err);
int webhook_ls_run(struct cli *cli, const struct args *args, struct err *err);
int webhook_info_run(struct cli *cli, const struct args *args, struct err *err);
int webhook_set_run(struct cli *cli, const struct args *args, struct err *err);
int webhook_rm_run(struct cli *cli, const struct args *args, struct err *err);
int webhook_test_run(struct cli *cli, const struct args *args, struct err *err);
int webhook_deliveries_run(struct cli *cli, const struct args *args, struct err *err);
int webhook_redeliver_run(struct cli *cli, const struct args *args, struct err *err);

int secret_set_run(struct cli *cli, const struct args *args, struct err *err);
int secret_rotate_run(struct cli *cli, const struct args *args, struct err *err);
int secret_ls_run(struct cli *cli, const struct args *args, struct err *err);
int secret_rm_run(struct cli *cli, const struct args *args, struct err *err);
int completion_run(struct cli *cli, const struct args *args, struct err *err);
int complete_run(struct cli *cli, const struct args *args, struct err *err);
int help_run(struct cli *cli, const struct args *args, struct err *err);

#endif
