/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-tools OP key=value...: one file operation inside a sandbox, whose results are frames
 * (wire/tool.h). It runs as the user that the request names, so it can do nothing that the user's
 * shell could not. Called as "df" it is that program (df.h). Exit status: 0: END was sent, 1:
 * FAILED was sent, 2: wrong usage.
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/time.h"
#include "tools/df/df.h"
#include "tools/tree/entry.h"
#include "tools/op.h"

static const struct {
	const char *name;
	int (*run)(struct op *op);
} operations[] = {
	{ "stat", op_stat },
	{ "exists", op_exists },
	{ "list", op_list },
	{ "glob", op_glob },
	{ "grep", op_grep },
	{ "read-raw", op_read_raw },
	{ "read-view", op_read_view },
	{ "write-raw", op_write_raw },
	{ "batch-write", op_batch_write },
	{ "edit", op_edit },
	{ "mkdir", op_mkdir },
	{ "move", op_move },
	{ "copy", op_copy },
	{ "remove", op_remove },
	{ "chmod", op_chmod },
	{ "chown", op_chown },
	{ "watch", op_watch },
	{ "archive-out", op_archive_out },
	{ "archive-in", op_archive_in },
};

static int usage(void)
{
	(void)fputs("usage: cay-tools OPERATION KEY=VALUE...\noperations:", stderr);
	for (size_t i = 0; i < ARRAY_LEN(operations); i++)
		(void)fprintf(stderr, " %s", operations[i].name);
	(void)fputs("\nSpeaks frames on standard input and output; started by cay-agent.\n",
		    stderr);
	return 2;
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int run(struct op *op, int (*operation)(struct op *op))
{
	const char *root = op_text(op, "root"), *base = op_text(op, "base");
	const char *user = op_text(op, "known_user");
	struct path_owner owner;
	int r = place_open(&op->place, root, base);

	if (r < 0)
		return op_fail_errno(op, r, str_of(root ? root : base));
	if (user && entry_find_user(str_of(user), &owner) < 0)
		return op_fail(op, TOOL_UNKNOWN_USER, STR_LIT(""), "there is no user %.40s", user);
	if (op_flag(op, "details", false, &op->details) < 0)
		return -1;
	return operation(op);
}

int main(int argc, char **argv)
{
	static struct op op = { .place = { -1, -1 } };
	int r = -1;

	if (argc > 0 && strcmp(name_of(argv[0]), "df") == 0)
		return df_main(argc, argv);
	if (argc < 2 || argc - 2 > OP_ARGS_MAX)
		return usage();
	op.argc = argc - 2;
	op.argv = argv + 2;
	op.start_us = time_mono_us();
	buf_init(&op.out, (1U << 16) + 2 * (FRAME_HEADER_SIZE + TOOL_PAYLOAD_MAX));
	buf_init(&op.in, 1U << 20);
	/*
	 * Buffers are allocated and freed per piece; returning them to the kernel each time costs
	 * page faults.
	 */
	(void)mallopt(M_MMAP_THRESHOLD, 64 << 20);
	(void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)umask(0);
	for (size_t i = 0; i < ARRAY_LEN(operations); i++)
		if (strcmp(argv[1], operations[i].name) == 0) {
			r = run(&op, operations[i].run);
			goto ran;
		}
	return usage();
ran:
	if (r < 0 && !op.failed.error)
		(void)op_fail(&op, TOOL_IO, STR_LIT(""), "failed without a reason");
	op.end.duration_us = (uint64_t)(time_mono_us() - op.start_us);
	r = op.failed.error ? tool_put_failed(&op.out, &op.failed) : tool_put_end(&op.out, &op.end);
	if (r < 0)
		return 2;
	op_flush(&op);
	return op.failed.error ? 1 : 0;
}
