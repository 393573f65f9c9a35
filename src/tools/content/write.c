/* SPDX-License-Identifier: Apache-2.0 */
/* write-raw and batch-write. */
#include "tools/content/write.h"

#include <errno.h>
#include <fcntl.h>

#include "tools/tree/entry.h"

void write_file_done(struct write_file *w)
{
	temp_done(&w->temp);
	leaf_done(&w->leaf);
}

int write_owner(struct op *op, struct path_owner *ret)
{
	const char *owner = op_text(op, "owner");

	*ret = PATH_OWNER_NONE;
	if (!owner)
		return 0;
	if (entry_find_user(str_of(owner), ret) < 0)
		return op_fail(op, TOOL_UNKNOWN_USER, STR_LIT(""), "there is no user %.40s", owner);
	return 0;
}

int write_all(int fd, struct str bytes)
{
	while (bytes.n) {
		ssize_t n = write(fd, bytes.p, bytes.n);

		if (n < 0 && errno == EINTR && !op_stopped())
			continue;
		if (n < 0)
			return op_stopped() ? -ECANCELED : -errno;
		bytes.p += n;
		bytes.n -= (size_t)n;
	}
	return 0;
}

static int find_leaf(struct write_file *w, const struct place *place, struct str path,
		     const struct write_options *o)
{
	int r = path_leaf_follow(place, path, &w->leaf);

	if (r == -ENOENT && o->parents) {
		r = path_make_parents(place, path, o->owner);
		if (r == 0)
			r = path_leaf_follow(place, path, &w->leaf);
	}
	return r;
}

/* Checks if_unchanged against the current file: a token of wire/tool.h, or "absent". */
static int check_token(const struct write_file *w, const char *token)
{
	char now[TOOL_TOKEN_SIZE];
	struct tool_entry entry;

	if (strcmp(token, "absent") == 0)
		return w->existed ? -ESTALE : 0;
	if (!w->existed)
		return -ESTALE;
	entry_from_stat(&w->old, &entry);
	tool_token(now, &entry);
	return strcmp(token, now) == 0 ? 0 : -ESTALE;
}

static int check_target(struct write_file *w, const struct write_options *o)
{
	if (!w->leaf.name[0] || w->leaf.wants_dir)
		return -EISDIR;
	w->existed = fstatat(w->leaf.dir_fd, w->leaf.name, &w->old, AT_SYMLINK_NOFOLLOW) == 0;
	if (!w->existed && errno != ENOENT)
		return -errno;
	if (o->if_unchanged) {
		int r = check_token(w, o->if_unchanged);

		if (r < 0)
			return r;
		w->expects = w->existed;
	}
	if (!w->existed)
		return 0;
	if (o->exclusive)
		return -EEXIST;
	if (S_ISDIR(w->old.st_mode))
		return -EISDIR;
	if (!S_ISREG(w->old.st_mode))
		return S_ISLNK(w->old.st_mode) ? -ELOOP : -ENXIO;
	/*
	 * A rename would replace a file that is write-protected; the result is the error that
	 * write() would return.
	 */
	if (faccessat(w->leaf.dir_fd, w->leaf.name, W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

int write_file_begin(struct write_file *w, const struct place *place, struct str path,
		     const struct write_options *o)
{
	int r = find_leaf(w, place, path, o);

	if (r == 0)
		r = check_target(w, o);
	return r < 0 ? r : temp_open(&w->temp, w->leaf.dir_fd, 0600);
}

int write_file_add(struct write_file *w, struct str bytes)
{
	w->bytes += bytes.n;
	return write_all(w->temp.fd, bytes);
}

/* Owner before mode, because a change of owner clears the set-id bits. */
static int dress(struct write_file *w, const struct write_options *o)
{
	struct path_owner owner = o->owner;
	mode_t mode = o->mode != TOOL_MODE_DEFAULT ? o->mode
		      : w->existed		   ? w->old.st_mode & 07777
						   : 0644;
	bool asked = owner.uid != (uid_t)-1;

	if (!asked && w->existed && (w->old.st_uid != geteuid() || w->old.st_gid != getegid())) {
		owner = (struct path_owner){ w->old.st_uid, w->old.st_gid };
	}
	if (owner.uid != (uid_t)-1 && fchown(w->temp.fd, owner.uid, owner.gid) < 0) {
		if (asked)
			return -errno;
		mode &= ~(mode_t)06000; /* not the old owner's file: it must not transfer rights */
	}
	if (fchmod(w->temp.fd, mode) < 0)
		return -errno;
	return o->marks ? entry_mark(w->temp.fd, str_of(o->marks)) : 0;
}

int write_file_end(struct write_file *w, const struct write_options *o)
{
	struct temp_target target = {
		.expected = w->expects ? &w->old : NULL,
		.must_be_absent = o->exclusive || (o->if_unchanged && !w->existed),
	};
	int r = dress(w, o);

	if (r == 0 && o->sync && fsync(w->temp.fd) < 0)
		r = -errno;
	if (r == 0)
		r = temp_publish(&w->temp, w->leaf.name, target);
	if (r == -EEXIST && !o->exclusive)
		r = -ESTALE;
	if (r == 0 && o->sync)
		r = temp_sync_dir(w->leaf.dir_fd);
	return r;
}

static int write_keys(struct op *op, struct str *path, struct write_options *o)
{
	*o = (struct write_options){ .if_unchanged = op_text(op, "if_unchanged"),
				     .marks = op_text(op, "marks") };
	if (op_needed(op, "path", path) < 0 ||
	    op_mode(op, "mode", TOOL_MODE_DEFAULT, &o->mode) < 0 ||
	    write_owner(op, &o->owner) < 0 || op_flag(op, "parents", true, &o->parents) < 0 ||
	    op_flag(op, "fsync", false, &o->sync) < 0 ||
	    op_flag(op, "exclusive", false, &o->exclusive) < 0)
		return -1;
	return op_args_end(op);
}

/* One piece: 1, 0 at COMMIT, -1 failed. */
static int receive_piece(struct op *op, struct str path, struct write_file *w)
{
	size_t moved = 0;
	struct str bytes;
	int r = op_move_data(op, w->temp.fd, &moved);

	if (r == -EINVAL) {
		r = op_next_data(op, &bytes);
		if (r != 1)
			return r;
		r = write_file_add(w, bytes);
		return r < 0 ? op_fail_disk(op, r, path, w->temp.fd) : 1;
	}
	if (r == -ENODATA || r == -EPIPE || r == -EPROTO || r == -ECANCELED)
		return op_fail(op, TOOL_INCOMPLETE, STR_LIT(""), "the input broke off");
	if (r < 0)
		return op_fail_disk(op, r, path, w->temp.fd);
	w->bytes += moved;
	return 1;
}

static int receive(struct op *op, struct str path, struct write_file *w)
{
	int r;

	do
		r = receive_piece(op, path, w);
	while (r == 1);
	return r;
}

int op_write_raw(struct op *op)
{
	_cleanup_(write_file_done) struct write_file w = WRITE_FILE_INIT;
	struct write_options o;
	struct tool_entry entry;
	struct str path;
	struct stat st;
	int r;

	if (write_keys(op, &path, &o) < 0)
		return -1;
	op_on_stop();
	r = write_file_begin(&w, &op->place, path, &o);
	if (r < 0)
		return op_fail_disk(op, r, path, w.leaf.dir_fd);
	(void)fcntl(STDIN_FILENO, F_SETPIPE_SZ, 1 << 20);
	op_put_ready(op);
	op->keeps_going = true;
	if (receive(op, path, &w) < 0)
		return -1;
	r = write_file_end(&w, &o);
	if (r < 0)
		return op_fail_disk(op, r, path, w.temp.fd);
	if (fstat(w.temp.fd, &st) < 0)
		return op_fail_errno(op, errno, path);
	entry_from_stat(&st, &entry);
	entry.path = path;
	op_put_entry(op, &entry);
	op->end.entries = 1;
	op->end.bytes = w.bytes;
	if (!w.existed)
		op->end.flags |= TOOL_END_CREATED;
	return 0;
}

/* State of batch-write: the current file and its result. */
struct batch {
	struct place place;
	struct write_options o;
	struct write_file w;
	char path[TOOL_PATH_MAX];
	size_t path_len;
	uint64_t index;
	bool open;
	int error;
};

static void finish_file(struct op *op, struct batch *b)
{
	struct tool_item item = { .index = b->index, .path = { b->path, b->path_len } };

	if (!b->open)
		return;
	if (b->error == 0)
		b->error = write_file_end(&b->w, &b->o);
	item.bytes = b->error ? 0 : b->w.bytes;
	item.created = !b->error && !b->w.existed;
	if (b->error) {
		item.error = op_error_of(-b->error);
		item.errno_value = (uint32_t)-b->error;
		op->end.failed++;
	} else {
		op->end.entries++;
		op->end.bytes += item.bytes;
	}
	op_put_item(op, &item);
	write_file_done(&b->w);
	b->open = false;
	b->index++;
}

static void begin_file(struct batch *b, const struct tool_file *file)
{
	b->w = WRITE_FILE_INIT;
	b->o.mode = file->mode;
	b->path_len = file->path.n;
	memcpy(b->path, file->path.p, file->path.n);
	b->error = write_file_begin(&b->w, &b->place, file->path, &b->o);
	b->open = true;
}

static int batch_loop(struct op *op, struct batch *b)
{
	for (;;) {
		struct tool_file file;
		struct frame frame;
		struct str bytes;
		int r = op_next(op, &frame);

		if (r == 0 || r == -ECANCELED)
			return op_fail(op, TOOL_INCOMPLETE, STR_LIT(""), "the input broke off");
		if (r < 0)
			return op_fail(op, TOOL_INVALID, STR_LIT(""), "the input is not frames");
		if (tool_get_bytes(&frame, TOOL_DATA, &bytes) == 0 && b->open) {
			if (b->error == 0)
				b->error = write_file_add(&b->w, bytes);
			continue;
		}
		if (tool_get_bytes(&frame, TOOL_COMMIT, &bytes) == 0) {
			finish_file(op, b);
			return 0;
		}
		if (tool_get_file(&frame, &file) < 0)
			return op_fail(op, TOOL_INVALID, STR_LIT(""),
				       "unexpected frame in the input");
		finish_file(op, b);
		begin_file(b, &file);
	}
}

int op_batch_write(struct op *op)
{
	static struct batch batch = { .place = { -1, -1 } };
	struct str path;
	int fd, r;

	if (op_needed(op, "path", &path) < 0 || write_owner(op, &batch.o.owner) < 0 ||
	    op_flag(op, "parents", true, &batch.o.parents) < 0 ||
	    op_flag(op, "fsync", false, &batch.o.sync) < 0 || op_args_end(op) < 0)
		return -1;
	r = path_open(&op->place, path, O_PATH | O_DIRECTORY, &fd);
	if (r < 0)
		return op_fail_errno(op, r, path);
	batch.place = op->place.root_fd >= 0 ? (struct place){ fd, -1 } : (struct place){ -1, fd };
	op_on_stop();
	op_put_ready(op);
	op->keeps_going = true;
	r = batch_loop(op, &batch);
	if (batch.open)
		write_file_done(&batch.w);
	place_close(&batch.place);
	op->failed.done = op->end.entries;
	return r;
}
