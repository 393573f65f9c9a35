/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies from one sandbox to another without storing the content here: a child process reads from
 * the source and writes to a pipe, and we send the bytes of the pipe to the target.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "cli/files/files.h"
#include "cli/session/follow.h"

/* Shared with the child, which fills it before it ends. */
struct report {
	bool failed;
	uint64_t left_out;
	struct err err;
	char hint[CLI_HINT_MAX];
};

struct passing {
	struct reading reading;
	const struct report *report;
	pid_t child; /* 0: it has ended */
};

static int write_piece(void *arg, const char *p, size_t n)
{
	return follow_write(*(const int *)arg, (struct str){ p, n });
}

static _noreturn_ void read_from(struct cli *cli, const struct place *from, const char *op,
				 int pipe_fd, struct report *report)
{
	struct buf url;
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	cli->http = NULL; /* the connection is the parent's */
	r = files_url(&url, from, op, &report->err, "format",
		      strcmp(op, "archive") == 0 ? "tar" : NULL, NULL);
	if (r == 0)
		r = files_receive(cli, &url, write_piece, &pipe_fd, &report->err);
	if (r < 0) {
		if (report->err.code == ERR_OK)
			(void)err_set_errno(&report->err, ERR_INTERNAL, -r, "cannot write it");
		(void)snprintf(report->hint, sizeof(report->hint), "%s", cli->hint);
		report->failed = true;
	}
	report->left_out = cli->left_out;
	_exit(r < 0);
}

static void reap(struct passing *passing)
{
	while (passing->child != 0 && waitpid(passing->child, NULL, 0) < 0 && errno == EINTR)
		;
	passing->child = 0;
}

/*
 * At the end of the pipe, the child reports whether the content is complete. If not, the upload is
 * aborted and the target stays unchanged.
 */
static ssize_t read_piece(void *arg, char *p, size_t n)
{
	struct passing *passing = arg;
	ssize_t got = reading_read(&passing->reading, p, n);

	if (got != 0)
		return got;
	reap(passing);
	return passing->report->failed ? -EIO : 0;
}

static int send_to(struct cli *cli, struct passing *passing, const struct place *to, const char *op,
		   const char *mode, struct err *err)
{
	struct upload upload = { .op = op,
				 .mode = mode,
				 .source = { .length = -1, .read = read_piece, .arg = passing } };
	_cleanup_json_ struct json *answer = NULL;
	const struct report *report = passing->report;
	int r;

	meter_start(&passing->reading.meter, cli, to->path, 0);
	r = files_send(cli, to, &upload, &answer, err);
	meter_end(&passing->reading.meter);
	(void)close(passing->reading.fd);
	reap(passing);
	/* An error of the target also ends the child: it is then the reason. */
	if (report->failed && (r == 0 || cli->http_status == 0)) {
		*err = report->err;
		return report->hint[0] != '\0' ? cli_hint(cli, "%s", report->hint) : -1;
	}
	if (r == 0 && strcmp(op, "archive") == 0)
		r = tree_unpacked(answer, err);
	if (r == 0 && report->left_out > 0)
		r = err_set(err, ERR_FILE_FORBIDDEN,
			    "%llu entries could not be read; the others were copied",
			    (unsigned long long)report->left_out);
	return r;
}

int between_copy(struct cli *cli, const struct place *from, const struct place *to, const char *op,
		 const char *mode, uint64_t *ret_bytes, struct err *err)
{
	struct passing passing = { .reading = { .fd = -1 } };
	struct report *report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int ends[2], r;

	if (report == MAP_FAILED || pipe2(ends, O_CLOEXEC) < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot copy");
	(void)fflush(NULL);
	passing.report = report;
	passing.child = fork();
	if (passing.child == 0) {
		(void)close(ends[0]);
		read_from(cli, from, op, ends[1], report);
	}
	(void)close(ends[1]);
	passing.reading.fd = ends[0];
	if (passing.child < 0) {
		r = err_set_errno(err, ERR_INTERNAL, errno, "cannot fork");
		(void)close(ends[0]);
	} else {
		r = send_to(cli, &passing, to, op, mode, err);
	}
	*ret_bytes = passing.reading.meter.bytes;
	(void)munmap(report, sizeof(*report));
	return r;
}
