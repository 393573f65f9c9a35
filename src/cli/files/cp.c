/* SPDX-License-Identifier: Apache-2.0 */
/* cay cp, cat */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cli/files/files.h"
#include "cli/session/follow.h"

/* One run of cp. */
struct copying {
	struct cli *cli;
	bool recursive;
	bool many; /* the target must be a directory */
	struct place to;
	bool into; /* the target is a directory */
	uint64_t files, bytes;
};

static const char *last_name(const char *path, char dst[256])
{
	size_t end = strlen(path), begin;

	while (end > 1 && path[end - 1] == '/')
		end--;
	begin = end;
	while (begin > 0 && path[begin - 1] != '/')
		begin--;
	(void)snprintf(dst, 256, "%.*s", (int)MIN(end - begin, 255), path + begin);
	return dst;
}

static int join(char *dst, size_t size, const char *dir, const char *name, struct err *err)
{
	size_t n = strlen(dir);

	if (snprintf(dst, size, "%s%s%s", dir, n > 0 && dir[n - 1] == '/' ? "" : "/", name) >=
	    (int)size)
		return err_set(err, ERR_INVALID_REQUEST, "the path is too long");
	return 0;
}

static bool ends_with_slash(const char *path)
{
	size_t n = strlen(path);

	return n > 0 && path[n - 1] == '/';
}

/* ---- up ---- */

static int send_file(struct copying *c, const char *from, const struct place *to, struct err *err)
{
	_cleanup_close_ int opened = -1;
	bool standard = strcmp(from, "-") == 0;
	struct reading reading = { .fd = STDIN_FILENO };
	struct upload upload = {
		.op = "raw", .source = { .length = -1, .read = reading_read, .arg = &reading }
	};
	char mode[8];
	struct stat st;
	int r;

	if (!standard) {
		opened = open(from, O_RDONLY | O_CLOEXEC);
		reading.fd = opened;
	}
	if (reading.fd < 0 || fstat(reading.fd, &st) < 0)
		return err_set_errno(err, ERR_FILE_NOT_FOUND, errno, "%.200s", from);
	if (S_ISDIR(st.st_mode))
		return err_set(err, ERR_NOT_A_FILE, "%.200s is a directory; -r copies trees", from);
	if (S_ISREG(st.st_mode) && !standard)
		upload.source.length = st.st_size;
	(void)snprintf(mode, sizeof(mode), "%04o", (unsigned int)(st.st_mode & 0777));
	meter_start(&reading.meter, c->cli, from,
		    upload.source.length > 0 ? (uint64_t)upload.source.length : 0);
	if (S_ISREG(st.st_mode) && !standard)
		upload.mode = mode;
	r = files_send(c->cli, to, &upload, NULL, err);
	meter_end(&reading.meter);
	if (r == 0) {
		c->files++;
		c->bytes += reading.meter.bytes;
	}
	return r;
}

static int copy_up(struct copying *c, const char *from, const struct place *to, bool into,
		   struct err *err)
{
	bool standard = strcmp(from, "-") == 0;
	struct place target = *to;
	char path[8192], name[256];
	uint64_t bytes = 0;
	struct stat st;
	bool dir = !standard && stat(from, &st) == 0 && S_ISDIR(st.st_mode);

	if (dir && !c->recursive)
		return err_set(err, ERR_NOT_A_FILE, "%.200s is a directory; -r copies trees", from);
	/* "dir/." and "dir/" mean its content, "dir" means the directory itself. */
	last_name(from, name);
	if (into && !standard && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
		if (join(path, sizeof(path), to->path, name, err) < 0)
			return -1;
		target.path = path;
	}
	if (!dir && !(into && standard))
		return send_file(c, from, &target, err);
	if ((standard ? tree_send_stdin(c->cli, &target, &bytes, err)
		      : tree_send(c->cli, from, &target, &bytes, err)) < 0)
		return -1;
	c->files++;
	c->bytes += bytes;
	return 0;
}

/* ---- down ---- */

struct receiving {
	struct fresh_file file;
	int fd; /* not -1: directly to this descriptor */
	int error;
	struct meter meter;
};

static int take_bytes(void *arg, const char *p, size_t n)
{
	struct receiving *receiving = arg;
	int r = receiving->fd >= 0 ? follow_write(receiving->fd, (struct str){ p, n })
				   : fresh_write(&receiving->file, p, n);

	if (r < 0)
		receiving->error = r;
	else
		meter_add(&receiving->meter, n);
	return r;
}

static int receive_file(struct copying *c, const struct place *from, const struct json *entry,
			const char *to, struct err *err)
{
	struct receiving receiving = { .fd = -1, .file = { .fd = -1 } };
	unsigned int mode = (unsigned int)strtoul(field_str(entry, "mode").p, NULL, 8);
	struct buf url;
	int r = 0;

	if (strcmp(to, "-") == 0)
		receiving.fd = STDOUT_FILENO;
	else
		r = fresh_open(&receiving.file, to, entry != NULL ? mode : 0644, err);
	if (r < 0 || files_url(&url, from, "raw", err, NULL) < 0) {
		fresh_drop(&receiving.file);
		return -1;
	}
	meter_start(&receiving.meter, c->cli, from->path, (uint64_t)field_int(entry, "size", 0));
	r = files_receive(c->cli, &url, take_bytes, &receiving, err);
	meter_end(&receiving.meter);
	buf_done(&url);
	if (receiving.error < 0)
		r = err_set_errno(err, ERR_INTERNAL, -receiving.error, "cannot write %.200s", to);
	if (r == 0 && receiving.fd < 0)
		r = fresh_keep(&receiving.file, err);
	fresh_drop(&receiving.file);
	if (r == 0) {
		c->files++;
		c->bytes += receiving.meter.bytes;
	}
	return r;
}

static int copy_down(struct copying *c, const struct place *from, const char *to, bool into,
		     struct err *err)
{
	_cleanup_json_ struct json *entry = NULL;
	char path[4096], name[256];
	uint64_t bytes = 0;
	bool dir;

	if (files_get(c->cli, from, "stat", "follow", "true", &entry, err) < 0)
		return -1;
	dir = str_is(field_str(entry, "type"), "directory");
	if (dir && !c->recursive && strcmp(to, "-") != 0)
		return err_set(err, ERR_NOT_A_FILE, "%.200s is a directory; -r copies trees",
			       from->path);
	last_name(from->path, name);
	if (into && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, "/") != 0) {
		if (join(path, sizeof(path), to, name, err) < 0)
			return -1;
		to = path;
	}
	if (!dir)
		return receive_file(c, from, entry, to, err);
	if ((strcmp(to, "-") == 0 ? tree_receive_stdout(c->cli, from, &bytes, err)
				  : tree_receive(c->cli, from, to, &bytes, err)) < 0)
		return -1;
	c->files++;
	c->bytes += bytes;
	return 0;
}

/* ---- between sandboxes ---- */

static int copy_across(struct copying *c, const struct place *from, struct err *err)
{
	_cleanup_json_ struct json *entry = NULL;
	struct place to = c->to;
	char path[8192], name[256], mode[8];
	uint64_t bytes = 0;
	bool dir;

	if (files_get(c->cli, from, "stat", "follow", "true", &entry, err) < 0)
		return -1;
	dir = str_is(field_str(entry, "type"), "directory");
	if (dir && !c->recursive)
		return err_set(err, ERR_NOT_A_FILE, "%.200s is a directory; -r copies trees",
			       from->path);
	last_name(from->path, name);
	if (c->into && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
	    strcmp(name, "/") != 0) {
		if (join(path, sizeof(path), c->to.path, name, err) < 0)
			return -1;
		to.path = path;
	}
	/* Set-id bits are not copied. */
	(void)snprintf(mode, sizeof(mode), "%04o",
		       (unsigned int)strtoul(field_str(entry, "mode").p, NULL, 8) & 0777);
	if (between_copy(c->cli, from, &to, dir ? "archive" : "raw", dir ? NULL : mode, &bytes,
			 err) < 0)
		return -1;
	c->files++;
	c->bytes += bytes;
	return 0;
}

static int copy_one(struct copying *c, const struct place *from, struct err *err)
{
	return c->to.id[0] != '\0' ? copy_across(c, from, err)
				   : copy_down(c, from, c->to.path, c->into, err);
}

/* ---- globs inside ---- */

/* The directory before the first name with a wildcard; "" if that is the first name. */
static size_t plain_part(const char *path)
{
	size_t wild = strcspn(path, "*?["), slash = 0;

	for (size_t i = 0; i < wild; i++)
		if (path[i] == '/')
			slash = i + 1;
	return slash;
}

static int find_matches(struct cli *cli, const struct place *from, struct json **ret,
			struct err *err)
{
	size_t n = plain_part(from->path);
	char url[API_PATH_MAX], dir[4096];
	struct json_writer w;
	struct buf body;
	int r;

	if (api_path(url, err, "/v1/sandboxes/%s/files/glob", from->id) < 0)
		return -1;
	if (str_copy(dir, sizeof(dir), (struct str){ from->path, n }) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "the path is too long");
	buf_init(&body, 65536);
	json_writer_init(&w, &body);
	json_begin_object(&w, NULL);
	json_put_text(&w, "pattern", from->path + n);
	files_put_path(&w, n > 0 ? dir : ".");
	json_put_int(&w, "limit", 10000);
	json_end_object(&w);
	r = json_writer_end(&w) < 0 ? err_set(err, ERR_INVALID_REQUEST, "the path is too long")
				    : api_call(cli, "POST", url, &body, ret, err);
	buf_done(&body);
	return r;
}

/* The path of match i, in text. The API's pattern matches at any depth; a shell's does not. */
static bool match_at(const struct json *data, size_t i, const struct place *from, char *text,
		     size_t size)
{
	struct buf name;
	struct str path;
	bool is;

	buf_init(&name, 65536);
	is = files_name(json_at(data, i), "path", "path_b64", &name, &path) == 0 &&
	     str_copy(text, size, path) == 0 &&
	     fnmatch(from->path, text, FNM_PATHNAME | FNM_PERIOD) == 0;
	buf_done(&name);
	return is;
}

static int copy_matches(struct copying *c, const struct place *from, struct err *err)
{
	_cleanup_json_ struct json *found = NULL;
	const struct json *data;
	size_t matches = 0;
	char text[4096];
	int r = find_matches(c->cli, from, &found, err);

	data = r == 0 ? field(found, "data") : NULL;
	for (size_t i = 0; data != NULL && i < json_size(data); i++)
		matches += match_at(data, i, from, text, sizeof(text));
	if (r == 0 && matches == 0)
		r = err_set(err, ERR_FILE_NOT_FOUND, "%.200s: nothing matches", from->path);
	if (matches > 1 && !c->into && strcmp(c->to.path, "-") != 0)
		r = err_set(err, ERR_NOT_A_DIRECTORY, "%.200s is not a directory", c->to.path);
	for (size_t i = 0; r == 0 && i < json_size(data); i++) {
		struct place one = *from;

		one.path = text;
		if (match_at(data, i, from, text, sizeof(text)))
			r = copy_one(c, &one, err);
	}
	return r;
}

static int copy_from(struct copying *c, const struct place *from, struct err *err)
{
	_cleanup_json_ struct json *entry = NULL;

	if (from->path[strcspn(from->path, "*?[")] != '\0') {
		if (files_look(c->cli, from, &entry, err) < 0)
			return -1;
		if (entry == NULL)
			return copy_matches(c, from, err);
	}
	return copy_one(c, from, err);
}

/* ---- the commands ---- */

/* Whether the target is a directory, so that names are kept. */
static int look_at_target(struct copying *c, struct err *err)
{
	_cleanup_json_ struct json *entry = NULL;
	const char *path = c->to.path;
	struct stat st;

	if (c->to.id[0] == '\0') {
		c->into = strcmp(path, "-") != 0 &&
			  (ends_with_slash(path) || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)));
	} else {
		if (files_look(c->cli, &c->to, &entry, err) < 0)
			return -1;
		c->into = ends_with_slash(path) || str_is(field_str(entry, "type"), "directory");
	}
	if (c->many && !c->into)
		return err_set(err, ERR_NOT_A_DIRECTORY, "%.200s is not a directory", path);
	return 0;
}

static int copy_all(struct copying *c, const struct args *args, struct err *err)
{
	size_t last = args->operand_count - 1;
	struct place from;

	c->many = last > 1;
	if (place_parse(args->operands[last], &c->to, err) < 0 || look_at_target(c, err) < 0)
		return -1;
	for (size_t i = 0; i < last; i++) {
		if (place_parse(args->operands[i], &from, err) < 0)
			return -1;
		if (from.id[0] == '\0' && c->to.id[0] == '\0')
			return err_set(
				err, ERR_INVALID_REQUEST,
				"neither path is in a sandbox: write ID:PATH for one of them");
		if ((from.id[0] != '\0' ? copy_from(c, &from, err)
					: copy_up(c, from.path, &c->to, c->into, err)) < 0)
			return -1;
	}
	return 0;
}

int cp_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct copying c = { .cli = cli, .recursive = args_flag(args, "recursive") };

	if (copy_all(&c, args, err) < 0)
		return -1;
	if (cli->json)
		(void)printf("{\"copied\":%llu,\"bytes\":%llu}\n", (unsigned long long)c.files,
			     (unsigned long long)c.bytes);
	return 0;
}

int cat_run(struct cli *cli, const struct args *args, struct err *err)
{
	struct copying c = { .cli = cli };

	for (size_t i = 0; i < args->operand_count; i++) {
		struct place from;

		if (place_inside(args->operands[i], &from, err) < 0)
			return -1;
		if (cli->json) {
			_cleanup_json_ struct json *view = NULL;

			if (files_get(cli, &from, "read", "limit", "2000", &view, err) < 0 ||
			    api_print(cli, view, err) < 0)
				return -1;
			continue;
		}
		cli->quiet = true; /* no meter between the lines */
		if (receive_file(&c, &from, NULL, "-", err) < 0)
			return -1;
	}
	return 0;
}
