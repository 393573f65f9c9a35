/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay edit: edits a file of a sandbox in a local editor and writes it back only if it did not
 * change meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cli/files/files.h"

extern char **environ;

#define EDIT_MAX_BYTES ((size_t)256 << 20)

struct editing {
	struct cli *cli;
	struct place place;
	char dir[64];
	char file[384];
	char etag[136]; /* empty: it is a new file */
	struct buf old;
};

static int take(void *arg, const char *p, size_t n)
{
	struct editing *editing = arg;

	return buf_append(&editing->old, p, n);
}

/* Reads the content and its version: the tag belongs to the bytes read, or is older. */
static int fetch(struct editing *editing, struct err *err)
{
	_cleanup_json_ struct json *entry = NULL;
	struct buf url;
	int r;

	if (files_look(editing->cli, &editing->place, &entry, err) < 0)
		return -1;
	if (entry == NULL)
		return 0;
	if (!str_is(field_str(entry, "type"), "file"))
		return err_set(err, ERR_NOT_A_FILE, "%.200s is not a regular file",
			       editing->place.path);
	if (str_copy(editing->etag, sizeof(editing->etag), field_str(entry, "etag")) < 0)
		return err_set(err, ERR_INTERNAL, "the daemon's etag is too long");
	if (files_url(&url, &editing->place, "raw", err, NULL) < 0)
		return -1;
	r = files_receive(editing->cli, &url, take, editing, err);
	buf_done(&url);
	if (r == -ENOBUFS || r == -ENOMEM)
		return err_set(err, ERR_PAYLOAD_TOO_LARGE, "the file is too large to be edited");
	return r;
}

/* In a separate directory, so that the editor sees the file's own name. */
static int put_down(struct editing *editing, struct err *err)
{
	const char *slash = strrchr(editing->place.path, '/');
	const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : editing->place.path;
	struct fresh_file file = { .fd = -1 };

	(void)snprintf(editing->dir, sizeof(editing->dir), "/tmp/cay-edit-XXXXXX");
	if (mkdtemp(editing->dir) == NULL) {
		editing->dir[0] = '\0';
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot create a directory in /tmp");
	}
	if (strchr(name, '/') != NULL || strcmp(name, "..") == 0 || strcmp(name, ".") == 0)
		name = "file";
	(void)snprintf(editing->file, sizeof(editing->file), "%s/%.250s", editing->dir, name);
	if (fresh_open(&file, editing->file, 0600, err) < 0)
		return -1;
	if (fresh_write(&file, buf_data(&editing->old), buf_len(&editing->old)) < 0) {
		fresh_drop(&file);
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot write %s", editing->file);
	}
	return fresh_keep(&file, err);
}

static int run_editor(const struct editing *editing, struct err *err)
{
	const char *editor = getenv("VISUAL");
	const char *argv[] = { "sh", "-c",	    "eval \"$CAY_EDITOR\" '\"$1\"'",
			       "sh", editing->file, NULL };
	int status = 0, r;
	pid_t pid;

	if (editor == NULL || editor[0] == '\0')
		editor = getenv("EDITOR");
	if (editor == NULL || editor[0] == '\0')
		editor = "vi";
	/*
	 * Parsed by the shell, because EDITOR may contain options. The file's name is never part of
	 * it.
	 */
	if (setenv("CAY_EDITOR", editor, 1) < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "the editor");
	r = posix_spawnp(&pid, "sh", NULL, NULL, (char *const *)(uintptr_t)argv, environ);
	(void)unsetenv("CAY_EDITOR");
	if (r != 0)
		return err_set_errno(err, ERR_INTERNAL, r, "cannot start the editor");
	(void)signal(SIGINT, SIG_IGN);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	(void)signal(SIGINT, SIG_DFL);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(err, ERR_INTERNAL, "the editor failed; nothing was written back");
	return 0;
}

static ssize_t read_new(void *arg, char *p, size_t n)
{
	const int *fd = arg;
	ssize_t got = read(*fd, p, n);

	return got < 0 ? -errno : got;
}

static bool is_unchanged(const struct editing *editing, int fd)
{
	char chunk[65536];
	size_t at = 0;
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
		if (at + (size_t)n > buf_len(&editing->old) ||
		    memcmp(buf_data(&editing->old) + at, chunk, (size_t)n) != 0)
			return false;
		at += (size_t)n;
	}
	/* A new file that stayed empty is not created. */
	return n == 0 && at == buf_len(&editing->old);
}

/* 1: nothing to do. */
static int write_back(struct editing *editing, struct err *err)
{
	_cleanup_close_ int fd = open(editing->file, O_RDONLY | O_CLOEXEC);
	struct upload upload = { .op = "raw", .source = { .read = read_new, .arg = &fd } };
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot read %s", editing->file);
	if (is_unchanged(editing, fd))
		return 1;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot read %s", editing->file);
	upload.source.length = st.st_size;
	/* A file that did not exist must still not exist. */
	upload.if_match = editing->etag[0] != '\0' ? editing->etag : "absent";
	return files_send(editing->cli, &editing->place, &upload, NULL, err);
}

int edit_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct editing editing = { .cli = cli };
	bool edited = false;
	int r;

	if (place_inside(args->operands[0], &editing.place, err) < 0)
		return -1;
	buf_init(&editing.old, EDIT_MAX_BYTES);
	r = fetch(&editing, err);
	if (r == 0)
		r = put_down(&editing, err);
	if (r == 0)
		r = run_editor(&editing, err);
	if (r == 0) {
		edited = true;
		r = write_back(&editing, err);
	}
	if (r == 1)
		cli_note(cli, "cay: nothing was changed");
	if (cli->json && r >= 0)
		(void)printf("{\"changed\":%s}\n", r == 0 ? "true" : "false");
	buf_done(&editing.old);
	if (r < 0 && edited) {
		(void)cli_hint(cli, "Your version is in %s", editing.file);
		return -1;
	}
	if (editing.file[0] != '\0')
		(void)unlink(editing.file);
	if (editing.dir[0] != '\0')
		(void)rmdir(editing.dir);
	return MIN(r, 0);
}
