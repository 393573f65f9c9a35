/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line program: parses the arguments, runs one command of the table, prints its
 * failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/line/args.h"
#include "cli/cli.h"
#include "cli/api/exit.h"
#include "cli/line/help.h"
#include "net/tls.h"

#define TLS_SETTLE_MS 1000 /* for connections that are being closed */

/* Wrong usage: the hint names the help that would have prevented it. */
static int usage_failed(struct cli *cli, const struct args *args, const struct err *err)
{
	if (args->command != NULL)
		(void)cli_hint(cli, "cay %s --help", args->command->name);
	else
		(void)cli_hint(cli, "cay help");
	return cli_report(cli, err);
}

/* `cay template` alone asks for help; `cay snapshot` is also a command. */
static bool asks_family(int argc, char **argv)
{
	const char *const word[] = { argv[0] };
	size_t used;

	return command_find(word, 1, &used) == NULL &&
	       (argc == 1 || (argc == 2 && strcmp(argv[1], "--help") == 0)) &&
	       command_is_family(argv[0]);
}

static int dispatch(struct cli *cli, const struct args *args)
{
	struct err err = { 0 };
	int status;

	if (args->command == NULL) {
		bool asked = args_flag(args, "help");

		help_overview(asked ? stdout : stderr, asked ? cli->color_out : cli->color_err);
		return asked ? EXIT_STATUS_OK : EXIT_STATUS_USAGE;
	}
	if (args_flag(args, "help")) {
		help_command(stdout, args->command, cli->color_out);
		return EXIT_STATUS_OK;
	}
	status = args->command->run(cli, args, &err);
	/* Errors of the daemon have its hint, or a body that contains everything. */
	if (status < 0 && err.code == ERR_INVALID_REQUEST && !cli->hint[0] && !cli->error_body)
		status = usage_failed(cli, args, &err);
	else if (status < 0)
		status = cli_report(cli, &err);
	/* A full disk behind standard output must not look like success. */
	if (fflush(stdout) != 0 && status == EXIT_STATUS_OK) {
		perror("cay: cannot write the output");
		status = args->command->own_status ? EXIT_STATUS_CAY_FAILED : EXIT_STATUS_GENERIC;
	}
	return status;
}

/*
 * A caller may have closed 0, 1 or 2 (">&-"). A connection that received such a number would be
 * read as standard input, or be sent the output of the command. In their place: input that is
 * empty, output that cannot be written (an error, as for every program), and messages that are
 * dropped.
 */
static void fill_standard_files(void)
{
	static const int modes[] = { O_RDONLY, O_RDONLY, O_WRONLY };

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[fd]) != fd)
			abort();
}

int main(int argc, char **argv)
{
	struct args args;
	struct err err = { 0 };
	struct cli cli;
	int status;

	fill_standard_files();
	if (argc > 1 && asks_family(argc - 1, argv + 1)) {
		help_family(stdout, argv[1], style_wanted(COLOR_AUTO, STDOUT_FILENO));
		return EXIT_STATUS_OK;
	}
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		(void)printf("cay %s\n", CAY_VERSION);
		return EXIT_STATUS_OK;
	}
	status = args_parse(&args, argc - 1, argv + 1, &err);
	cli_init(&cli, &args);
	status = status < 0 ? usage_failed(&cli, &args, &err) : dispatch(&cli, &args);
	cli_done(&cli);
	args_done(&args);
	tls_dial_settle(TLS_SETTLE_MS);
	return status;
}
