/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /files: the body is a file, or several files as parts of a form, possibly compressed. It is
 * processed in pieces: bytes that the file tool does not take yet stay with the client.
 */
#include <errno.h>
#include <stdio.h>

#include "face/e2b/envd/multipart.h"
#include "face/e2b/envd/transfer.h"
#include "http/message/inflate.h"

#define PIECE_BYTES (256 * 1024) /* decompressed at once */
#define IN_BYTES (1024 * 1024)	 /* bytes of the body not processed yet; it is paused before that */
#define FILES_MAX 1000		 /* of one form */

enum upload_state {
	UPLOAD_IDLE,	 /* between two files */
	UPLOAD_STARTING, /* the tool is not ready yet */
	UPLOAD_OPEN,	 /* it accepts content */
	UPLOAD_FULL,	 /* it does not accept content now */
	UPLOAD_ENDING,	 /* the whole file was fed */
	UPLOAD_SKIP,	 /* a part that is not a file */
};

/* Owner: its transfer. */
struct upload {
	enum upload_state state;
	struct buf in;		      /* as received */
	struct buf plain;	      /* decompressed */
	struct http_inflate *inflate; /* NULL: not compressed */
	struct multipart *parts;      /* NULL: the body is one file */
	bool ended;		      /* the body is complete */
	bool inflated;		      /* all of it was decompressed */
	bool whole;		      /* the last boundary was seen, or the one file is fed */
	size_t files;
	const char *path; /* of the file; in the request's arena */
	struct buf answer;
	struct json_writer w;
};

void upload_free(struct upload *u)
{
	if (!u)
		return;
	buf_done(&u->in);
	buf_done(&u->plain);
	buf_done(&u->answer);
	http_inflate_free(u->inflate);
	free(u->parts);
	free(u);
}

static void step(struct e2b_transfer *t);

static void fail(struct e2b_transfer *t, const struct err *error)
{
	struct e2b_call *call = t->call;
	struct err err;

	e2b_transfer_error(error, t->upload->path ? t->upload->path : "", &err);
	if (t->base.run)
		files_cancel(t->e2b->service, t->base.run);
	call->data = NULL;
	if (transfer_end(&t->base))
		e2b_answer_error(call, &err);
}

static void fail_with(struct e2b_transfer *t, enum err_code code, const char *message)
{
	struct err err;

	(void)err_set(&err, code, "%s", message);
	fail(t, &err);
}

/* ---- one file ---- */

static void on_ready(void *arg)
{
	struct e2b_transfer *t = arg;

	if (t->upload->state == UPLOAD_STARTING)
		t->upload->state = UPLOAD_OPEN;
	step(t);
}

static void on_room(void *arg)
{
	struct e2b_transfer *t = arg;

	if (t->upload->state == UPLOAD_FULL)
		t->upload->state = UPLOAD_OPEN;
	step(t);
}

static void write_file(struct upload *u, const struct e2b_call *call)
{
	const char *slash = strrchr(u->path, '/');

	json_begin_object(&u->w, NULL);
	json_put_text(&u->w, "path", u->path);
	json_put_text(&u->w, "name", slash ? slash + 1 : u->path);
	json_put_text(&u->w, "type", "file");
	metadata_write(&u->w, call->req);
	json_end_object(&u->w);
}

static void on_end(void *arg, const struct files_result *result, const struct err *err)
{
	struct e2b_transfer *t = arg;
	struct upload *u = t->upload;

	(void)result;
	t->base.run = 0;
	if (err) {
		fail(t, err);
		return;
	}
	write_file(u, t->call);
	u->files++;
	u->state = UPLOAD_IDLE;
	step(t);
}

static int start_file(struct e2b_transfer *t, struct str path, struct err *err)
{
	static const struct files_hooks hooks = { .on_ready = on_ready,
						  .on_room = on_room,
						  .on_end = on_end };
	struct e2b_call *call = t->call;
	struct upload *u = t->upload;
	struct sandbox *sandbox = sandbox_get(t->e2b->service, call->sandbox_handle);

	if (!sandbox || !sandbox_ready(sandbox))
		return err_set(err, ERR_SANDBOX_GONE, "the sandbox ended");
	if (!path.n)
		return err_set(err, ERR_INVALID_REQUEST, "path: is missing");
	if (u->files == FILES_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "more than %d files", FILES_MAX);
	u->path = envd_path(call, path);
	if (!u->path)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	t->base.spec = (struct files_spec){ .path = str_of(u->path), .parents = true };
	envd_owner(call, &t->base.spec);
	if (metadata_read(call, &t->base.spec, err) < 0)
		return -1;
	u->state = UPLOAD_STARTING;
	return files_start(sandbox, FILES_WRITE, &t->base.spec, &hooks, t, &t->base.run, err);
}

static void feed(struct e2b_transfer *t, struct str bytes)
{
	/* On failure its completion follows with the reason. */
	if (bytes.n && files_feed(t->e2b->service, t->base.run, bytes) != 1)
		t->upload->state = UPLOAD_FULL;
}

static void end_file(struct e2b_transfer *t)
{
	t->upload->state = UPLOAD_ENDING;
	files_commit(t->e2b->service, t->base.run);
}

/* ---- the body ---- */

static struct buf *source(struct upload *u)
{
	return u->inflate ? &u->plain : &u->in;
}

/* No further bytes will be added to the source. */
static bool is_complete(const struct upload *u)
{
	return u->ended && (!u->inflate || u->inflated);
}

/* Makes sure that the source has bytes, if there are any. 0, or -1 with err set. */
static int fill(struct upload *u, struct err *err)
{
	size_t used = 0, n = 0;
	char *room;
	int r;

	if (!u->inflate || u->whole || buf_len(&u->plain) >= PIECE_BYTES ||
	    (u->inflated && !buf_len(&u->in)) || (!buf_len(&u->in) && !u->ended))
		return 0;
	if (buf_reserve(&u->plain, PIECE_BYTES, &room) < 0)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	r = http_inflate_step(u->inflate, buf_str(&u->in), &used, room, PIECE_BYTES, &n);
	if (r == -EFBIG)
		return err_set(err, ERR_DISK_FULL, "the content is larger than the sandbox's disk");
	if (r < 0 || (r == 0 && n == 0 && used == 0 && u->ended))
		return err_set(err, ERR_INVALID_REQUEST, "the body is not valid gzip");
	buf_commit(&u->plain, n);
	buf_consume(&u->in, used);
	u->inflated = r == 1;
	return 0;
}

static struct str query_path(struct e2b_call *call)
{
	struct str path = { NULL, 0 };

	if (http_req_query(call->req, "path", &path) <= 0)
		return (struct str){ NULL, 0 };
	return path;
}

/* One step of a plain body. 1: continue, 0: wait, -1: err. */
static int step_plain(struct e2b_transfer *t, struct err *err)
{
	struct upload *u = t->upload;
	struct buf *from = source(u);

	if (u->state == UPLOAD_IDLE && !u->whole)
		return start_file(t, query_path(t->call), err);
	if (u->state != UPLOAD_OPEN)
		return 0;
	if (buf_len(from)) {
		feed(t, buf_str(from));
		buf_clear(from);
		return 1;
	}
	if (!is_complete(u))
		return 0;
	u->whole = true;
	end_file(t);
	return 0;
}

static int begin_part(struct e2b_transfer *t, struct err *err)
{
	struct upload *u = t->upload;
	struct str path = query_path(t->call);

	if (strcmp(u->parts->name, "file") != 0) {
		u->state = UPLOAD_SKIP;
		return 1;
	}
	if (!path.n) /* the part's own buffer is overwritten by the next one */
		path = str_of(u->parts->filename);
	return start_file(t, path, err);
}

static int step_parts(struct e2b_transfer *t, struct err *err)
{
	struct upload *u = t->upload;
	struct buf *from = source(u);
	bool more;
	size_t used;
	int event;

	if (u->state == UPLOAD_STARTING || u->state == UPLOAD_FULL || u->state == UPLOAD_ENDING)
		return 0;
	if (u->whole) { /* the rest is ignored, but the client must be able to send it */
		buf_clear(&u->in);
		return 0;
	}
	event = multipart_next(u->parts, buf_str(from), &used);
	if (event < 0)
		return err_set(err, ERR_INVALID_REQUEST, "the form is malformed");
	more = event != MULTIPART_MORE || used;
	if (event == MULTIPART_DATA && u->state == UPLOAD_OPEN)
		feed(t, u->parts->data);
	if (event == MULTIPART_PART_END && u->state == UPLOAD_OPEN)
		end_file(t);
	else if (event == MULTIPART_PART_END)
		u->state = UPLOAD_IDLE;
	if (event == MULTIPART_BEGIN && begin_part(t, err) < 0)
		return -1;
	if (event == MULTIPART_END) {
		u->whole = true;
		return 1;
	}
	buf_consume(from, used);
	if (!more && is_complete(u))
		return err_set(err, ERR_INVALID_REQUEST, "the form is incomplete");
	return more;
}

static void finish(struct e2b_transfer *t)
{
	struct upload *u = TAKE_PTR(t->upload);
	struct e2b_call *call = t->call;

	json_end_array(&u->w);
	call->data = NULL;
	if (transfer_end(&t->base))
		e2b_answer_send(call, 200, &u->w);
	upload_free(u);
}

static void step(struct e2b_transfer *t)
{
	struct upload *u = t->upload;
	struct http_req *req = transfer_req(&t->base);
	struct err err;
	int r = 1;

	while (r > 0) {
		r = fill(u, &err);
		if (r == 0)
			r = u->parts ? step_parts(t, &err) : step_plain(t, &err);
		if (r == 0 && u->inflate && u->state != UPLOAD_FULL &&
		    u->state != UPLOAD_STARTING && u->state != UPLOAD_ENDING && !u->inflated &&
		    !u->whole && buf_len(&u->in))
			r = 1; /* there is more to decompress */
	}
	if (r < 0) {
		fail(t, &err);
	} else if (u->whole && u->state == UPLOAD_IDLE && u->ended) {
		finish(t);
	} else if (req) {
		http_req_pause_body(req, buf_len(&u->in) >= PIECE_BYTES);
	}
}

static void on_body(void *arg, struct http_req *req, int status, const char *p, size_t n)
{
	struct e2b_call *call = arg;
	struct e2b_transfer *t = call->data;

	(void)req;
	if (!t)
		return; /* a reply was sent before the whole body arrived */
	if (status == -ETIMEDOUT)
		fail_with(t, ERR_REQUEST_TIMEOUT, "the body did not arrive in time");
	else if (status < 0)
		fail_with(t, ERR_INVALID_REQUEST, "the body is malformed");
	else if (buf_append(&t->upload->in, p, n) < 0)
		fail_with(t, ERR_UNAVAILABLE, "out of memory");
	else {
		t->upload->ended = n == 0;
		step(t);
	}
}

/* ---- begin ---- */

static int read_type(struct e2b_call *call, struct upload *u, struct err *err)
{
	const struct str *type = http_req_header(call->req, "content-type");
	struct str media, rest;

	if (!type)
		return err_set(err, ERR_INVALID_REQUEST, "the content type is missing");
	media = *type;
	(void)str_cut(*type, ';', &media, &rest);
	media = str_trim(media, " \t");
	if (str_eq_nocase(media, "application/octet-stream"))
		return query_path(call).n ? 0
					  : err_set(err, ERR_INVALID_REQUEST,
						    "path: is needed for an octet-stream");
	if (!str_eq_nocase(media, "multipart/form-data"))
		return err_set(err, ERR_INVALID_REQUEST, "unsupported content type: %.*s",
			       (int)MIN(media.n, 60), media.p);
	u->parts = calloc(1, sizeof(*u->parts));
	if (!u->parts)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	if (multipart_init(u->parts, *type) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "the form has no valid boundary");
	return 0;
}

/* Content that cannot fit on its disk need not be decompressed. */
static int read_encoding(struct e2b_call *call, struct upload *u, struct err *err)
{
	const struct str *encoding = http_req_header(call->req, "content-encoding");
	struct sandbox_view view;

	if (!encoding || str_eq_nocase(*encoding, "identity"))
		return 0;
	if (!str_eq_nocase(*encoding, "gzip"))
		return err_set(err, ERR_INVALID_REQUEST, "unsupported content encoding: %.*s",
			       (int)MIN(encoding->n, 60), encoding->p);
	sandbox_view(call->sandbox, &view);
	if (http_inflate_new((uint64_t)view.disk_size_mb << 20, &u->inflate) < 0)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	return 0;
}

void e2b_files_post(struct e2b_call *call)
{
	struct upload *u = calloc(1, sizeof(*u));
	struct err err = { .code = ERR_UNAVAILABLE, .message = "out of memory" };
	struct e2b_transfer *t = u ? e2b_transfer_new(call, &err) : NULL;

	if (!t) {
		free(u);
		e2b_answer_error(call, &err);
		return;
	}
	buf_init(&u->in, IN_BYTES);
	buf_init(&u->plain, 2 * PIECE_BYTES);
	buf_init(&u->answer, E2B_ANSWER_LIMIT);
	json_writer_init(&u->w, &u->answer);
	json_begin_array(&u->w, NULL);
	t->upload = u;
	call->data = t;
	if (read_type(call, u, &err) < 0 || read_encoding(call, u, &err) < 0)
		fail(t, &err);
	else if (http_req_stream_body(call->req, on_body, call) < 0)
		fail_with(t, ERR_INVALID_REQUEST, "the body cannot be read");
}
