/* SPDX-License-Identifier: Apache-2.0 */
/* Trees are transferred as archives; on this side tar(1) packs and unpacks. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cli/files/files.h"
#include "cli/session/follow.h"

extern char **environ;

/* child_fd is its end of a pipe; the other is ours. */
static int start_tar(const char *const *argv, int child_fd, int child_number, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	int r = posix_spawn_file_actions_init(&actions);

	if (r != 0)
		return -r;
	r = posix_spawn_file_actions_adddup2(&actions, child_fd, child_number);
	if (r == 0)
		r = posix_spawnp(ret, "tar", &actions, NULL, (char *const *)(uintptr_t)argv,
				 environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static int wait_tar(pid_t pid, struct err *err)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return err_set(err, ERR_INTERNAL, "tar ended with status %d",
		       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static int tar_missing(int error, struct err *err)
{
	return err_set_errno(err, ERR_INTERNAL, -error, "cannot start tar, which -r needs");
}

int tree_unpacked(const struct json *answer, struct err *err)
{
	const struct json *failed = field(answer, "failed"), *first = NULL;
	struct str path, why;

	if (field_int(answer, "failed_count", 0) == 0)
		return 0;
	if (failed != NULL && json_type(failed) == JSON_ARRAY && json_size(failed) > 0)
		first = json_at(failed, 0);
	path = field_str(first, "path");
	why = field_str(first, "message");
	return err_set(err, ERR_FILE_IO, "%lld entries failed, the first: %.*s: %.*s",
		       (long long)field_int(answer, "failed_count", 0), (int)MIN(path.n, 100),
		       path.p, (int)MIN(why.n, 100), why.p);
}

int tree_send(struct cli *cli, const char *dir, const struct place *to, uint64_t *ret_bytes,
	      struct err *err)
{
	const char *const argv[] = { "tar", "-C", dir, "-cf", "-", "--", ".", NULL };
	_cleanup_json_ struct json *answer = NULL;
	struct reading reading = { .fd = -1 };
	struct upload upload = {
		.op = "archive", .source = { .length = -1, .read = reading_read, .arg = &reading }
	};
	struct err tar_err;
	int ends[2], r, tar_result;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "pipe");
	r = start_tar(argv, ends[1], STDOUT_FILENO, &pid);
	(void)close(ends[1]);
	reading.fd = ends[0];
	if (r < 0) {
		(void)close(ends[0]);
		return tar_missing(r, err);
	}
	meter_start(&reading.meter, cli, dir, 0);
	r = files_send(cli, to, &upload, &answer, err);
	meter_end(&reading.meter);
	(void)close(ends[0]);
	tar_result = wait_tar(pid, &tar_err);
	*ret_bytes = (uint64_t)field_int(answer, "bytes", 0);
	if (r < 0)
		return -1;
	if (tar_result < 0) {
		*err = tar_err;
		return -1;
	}
	return tree_unpacked(answer, err);
}

struct writing {
	int fd;
	int error;
	struct tar_filter filter;
	struct meter meter;
};

static int write_pipe(void *arg, const char *p, size_t n)
{
	struct writing *writing = arg;

	if (tar_filter_feed(&writing->filter, p, n) < 0) {
		writing->error = -EPROTO;
		return -EPROTO;
	}
	meter_add(&writing->meter, n);
	while (n > 0) {
		ssize_t done = write(writing->fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0) {
			writing->error = -errno;
			return writing->error;
		}
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

int tree_receive(struct cli *cli, const struct place *from, const char *dir, uint64_t *ret_bytes,
		 struct err *err)
{
	/* GNU tar neither leaves the directory nor follows links that it has just created. */
	const char *const argv[] = { "tar",
				     "-C",
				     dir,
				     "--no-same-owner",
				     "--no-same-permissions",
				     "--warning=no-unknown-keyword",
				     "-xf",
				     "-",
				     NULL };
	struct writing writing = { .fd = -1 };
	struct err tar_err;
	struct buf url;
	int ends[2], r, tar_result;
	pid_t pid;

	if (files_url(&url, from, "archive", err, "format", "tar", NULL) < 0)
		return -1;
	if (mkdir(dir, 0777) < 0 && errno != EEXIST) {
		buf_done(&url);
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot make %.200s", dir);
	}
	if (pipe2(ends, O_CLOEXEC) < 0) {
		buf_done(&url);
		return err_set_errno(err, ERR_INTERNAL, errno, "pipe");
	}
	(void)signal(SIGPIPE, SIG_IGN);
	r = start_tar(argv, ends[0], STDIN_FILENO, &pid);
	(void)close(ends[0]);
	writing.fd = ends[1];
	if (r < 0) {
		(void)close(ends[1]);
		buf_done(&url);
		return tar_missing(r, err);
	}
	meter_start(&writing.meter, cli, from->path, 0);
	r = files_receive(cli, &url, write_pipe, &writing, err);
	meter_end(&writing.meter);
	(void)close(ends[1]);
	buf_done(&url);
	tar_result = wait_tar(pid, &tar_err);
	*ret_bytes = writing.meter.bytes;
	if (writing.error == -EPROTO)
		return err_set(err, ERR_TOOL_FAILED,
			       "the archive has an entry that is no file, directory or link; the "
			       "rest was not unpacked");
	if (tar_result < 0 && (r == 0 || writing.error != 0)) {
		*err = tar_err;
		return -1;
	}
	if (r == 0 && cli->left_out)
		return err_set(err, ERR_FILE_FORBIDDEN,
			       "%llu entries of %.200s could not be read; the others were copied",
			       (unsigned long long)cli->left_out, from->path);
	return r;
}

/* ---- standard input and output ---- */

int tree_send_stdin(struct cli *cli, const struct place *to, uint64_t *ret_bytes, struct err *err)
{
	struct reading reading = { .fd = STDIN_FILENO };
	struct upload upload = {
		.op = "archive", .source = { .length = -1, .read = reading_read, .arg = &reading }
	};
	_cleanup_json_ struct json *answer = NULL;
	int r;

	if (isatty(STDIN_FILENO))
		return err_set(
			err, ERR_INVALID_REQUEST,
			"%.100s is a directory: an archive is expected on standard input, as "
			"in tar c . | cay cp - ID:DIR",
			to->path);
	meter_start(&reading.meter, cli, to->path, 0);
	r = files_send(cli, to, &upload, &answer, err);
	meter_end(&reading.meter);
	*ret_bytes = reading.meter.bytes;
	if (r < 0 && err->code == ERR_ARCHIVE_INVALID)
		(void)cli_hint(cli, "'-' into a directory is a tar archive; name a file to write "
				    "the bytes unchanged.");
	return r < 0 ? -1 : tree_unpacked(answer, err);
}

static int write_stdout(void *arg, const char *p, size_t n)
{
	struct writing *writing = arg;

	writing->error = follow_write(STDOUT_FILENO, (struct str){ p, n });
	if (writing->error == 0)
		meter_add(&writing->meter, n);
	return writing->error;
}

int tree_receive_stdout(struct cli *cli, const struct place *from, uint64_t *ret_bytes,
			struct err *err)
{
	struct writing writing = { .fd = -1 };
	struct buf url;
	int r;

	if (isatty(STDOUT_FILENO))
		return err_set(err, ERR_INVALID_REQUEST,
			       "a directory goes to standard output as a tar archive, which is not "
			       "written to a terminal");
	if (files_url(&url, from, "archive", err, "format", "tar", NULL) < 0)
		return -1;
	meter_start(&writing.meter, cli, from->path, 0);
	r = files_receive(cli, &url, write_stdout, &writing, err);
	meter_end(&writing.meter);
	buf_done(&url);
	*ret_bytes = writing.meter.bytes;
	if (writing.error < 0)
		return err_set_errno(err, ERR_INTERNAL, -writing.error,
				     "cannot write to standard output");
	if (r == 0 && cli->left_out > 0)
		return err_set(
			err, ERR_FILE_FORBIDDEN,
			"%llu entries of %.200s could not be read; the archive contains the others",
			(unsigned long long)cli->left_out, from->path);
	return r;
}
