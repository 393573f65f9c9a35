/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon/home.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/str.h"

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int home_program(const char *name, char dst[PATH_MAX], struct err *err)
{
	/* Installed: bin/cay and libexec/cay/NAME. Build tree: src/cli/cay and src/DIR/NAME. */
	static const struct {
		const char *name, *build_dir;
	} homes[] = { { "cayd", "daemon" },
		      { "cay-warden", "warden" },
		      { "cay-agent", "agent" },
		      { "cay-tools", "tools" },
		      { "cay-build", "build" } };
	const char *libexec = getenv("CAY_LIBEXEC"), *build_dir = "";
	char self[PATH_MAX], *slash, joined[PATH_MAX * 2];
	ssize_t n;

	if (libexec != NULL && libexec[0] != '\0') {
		if (snprintf(dst, PATH_MAX, "%s/%s", libexec, name) < PATH_MAX && is_program(dst))
			return 0;
		return err_set(err, ERR_INTERNAL, "there is no %s in CAY_LIBEXEC (%.200s)", name,
			       libexec);
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot read /proc/self/exe");
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (slash != NULL)
		*slash = '\0';
	for (size_t i = 0; i < ARRAY_LEN(homes); i++)
		if (strcmp(homes[i].name, name) == 0)
			build_dir = homes[i].build_dir;
	for (size_t i = 0; i < 3; i++) {
		const char *between[] = { "..", "../libexec/cay", "." };

		(void)snprintf(joined, sizeof(joined), "%s/%s/%s/%s", self, between[i],
			       i == 0 ? build_dir : ".", name);
		if (is_program(joined) && realpath(joined, dst) != NULL)
			return 0;
	}
	return err_set(err, ERR_INTERNAL, "%s is not installed beside %.200s/cay", name, self);
}

int home_make_user(bool *ret_made, struct err *err)
{
	int status = 0;
	pid_t child;

	*ret_made = false;
	if (getpwnam(HOME_USER) != NULL)
		return 0;
	child = fork();
	if (child == 0) {
		(void)execlp("useradd", "useradd", "--system", "--no-create-home", "--home-dir",
			     "/var/lib/cay", "--shell", "/usr/sbin/nologin", "--user-group",
			     HOME_USER, (char *)NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return err_set_errno(err, ERR_INTERNAL, errno, "cannot run useradd");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || getpwnam(HOME_USER) == NULL)
		return err_set(err, ERR_INTERNAL,
			       "the system user '" HOME_USER
			       "' is missing and useradd could not create it");
	*ret_made = true;
	return 0;
}

static int make_parents(const char *path)
{
	char copy[PATH_MAX];

	if (str_copy(copy, sizeof(copy), str_of(path)) < 0)
		return -ENAMETOOLONG;
	for (char *p = copy + 1; *p != '\0'; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(copy, 0755) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return 0;
}

/* Creates one directory (if it is missing) and sets its owner; returns the descriptor or -errno. */
static int make_dir(int at_fd, const char *path, mode_t mode, uid_t uid, gid_t gid)
{
	int fd;

	if (mkdirat(at_fd, path, mode) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(at_fd, path,
		    O_RDONLY | O_DIRECTORY | O_CLOEXEC | (at_fd >= 0 ? O_NOFOLLOW : 0));
	if (fd < 0)
		return -errno;
	if (geteuid() == 0 && (fchown(fd, uid, gid) < 0 || fchmod(fd, mode) < 0)) {
		int error = errno;

		(void)close(fd);
		return -error;
	}
	return fd;
}

int home_make(const char *state, struct err *err)
{
	_cleanup_close_ int dir_fd = -1, logs_fd = -1;
	const struct passwd *user = getpwnam(HOME_USER);
	gid_t gid = user != NULL ? user->pw_gid : getegid();
	int r;

	r = make_parents(state);
	if (r == 0)
		r = dir_fd = make_dir(AT_FDCWD, state, HOME_STATE_MODE, geteuid(), gid);
	if (r >= 0) {
		logs_fd = make_dir(dir_fd, "logs", 0750, geteuid(), gid);
		r = logs_fd;
	}
	if (r < 0)
		return err_set_errno(err,
				     r == -EACCES || r == -EPERM ? ERR_FORBIDDEN : ERR_INTERNAL, -r,
				     "cannot create the state directory %s", state);
	return 0;
}

int home_make_plain(const char *path, struct err *err)
{
	int r = make_parents(path);

	if (r == 0 && mkdir(path, 0755) < 0 && errno != EEXIST)
		r = -errno;
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, -r, "cannot make %s", path);
	return 0;
}

int home_open_log(const char *state, const char *name)
{
	_cleanup_close_ int dir_fd = -1, logs_fd = -1;
	char old[64];
	struct stat st;
	int fd;

	dir_fd = open(state, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	logs_fd = openat(dir_fd, "logs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (logs_fd < 0)
		return -errno;
	if (fstatat(logs_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_size > HOME_LOG_MAX_BYTES) {
		(void)snprintf(old, sizeof(old), "%s.1", name);
		(void)renameat(logs_fd, name, logs_fd, old);
	}
	fd = openat(logs_fd, name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0640);
	return fd >= 0 ? fd : -errno;
}

off_t home_log_size(const char *state, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/logs/%s", state, name);
	return lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : 0;
}

/* The text of a line without its time. */
static struct str line_text(const char *line, size_t n)
{
	const char *space = memchr(line, ' ', n);

	return space == NULL ? (struct str){ line, n }
			     : (struct str){ space, n - (size_t)(space - line) };
}

/* A program that is restarted repeatedly fails with the same message each time. */
static void drop_repeated(char *text)
{
	char *out = text;
	struct str last = { "", 0 };

	for (char *line = text, *next; *line != '\0'; line = next) {
		char *end = strchr(line, '\n');
		size_t n = end != NULL ? (size_t)(end - line) + 1 : strlen(line);
		struct str words = line_text(line, n);

		next = line + n;
		if (str_eq(words, last))
			continue;
		memmove(out, line, n);
		last = line_text(out, n);
		out += n;
	}
	*out = '\0';
}

void home_log_tail(const char *state, const char *name, off_t from, size_t lines, char *dst,
		   size_t size)
{
	char path[PATH_MAX];
	_cleanup_close_ int fd = -1;
	struct stat st;
	size_t start;
	ssize_t n;

	dst[0] = '\0';
	(void)snprintf(path, sizeof(path), "%s/logs/%s", state, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	if (from > st.st_size) /* a new log was started */
		from = 0;
	n = pread(fd, dst, size - 1, MAX(from, st.st_size - (off_t)size + 1));
	if (n <= 0)
		return;
	dst[n] = '\0';
	drop_repeated(dst);
	n = (ssize_t)strlen(dst);
	start = (size_t)n;
	while (start > 0 && (dst[start - 1] != '\n' || start == (size_t)n || lines-- > 1))
		start--;
	memmove(dst, dst + start, (size_t)n - start + 1);
}
