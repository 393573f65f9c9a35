/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the file commands: places in a sandbox, their URLs, and transfer of content. */
#ifndef CAY_CLI_FILES_FILES_H
#define CAY_CLI_FILES_FILES_H

#include "cli/api/api.h"
#include "cli/line/args.h"

/* "ID:PATH", or a local path. */
struct place {
	char id[128]; /* empty: local */
	const char *path;
};
/* A word is a place inside if a colon precedes any slash. */
int place_parse(const char *word, struct place *ret, struct err *err) _must_check_;
int place_inside(const char *word, struct place *ret,
		 struct err *err) _must_check_; /* or an error */

/* "ID" or "ID:PATH"; otherwise is the path if the word has none. */
int place_around(const char *word, const char *otherwise, struct place *ret,
		 struct err *err) _must_check_;

/* "/v1/sandboxes/ID/files/OP?path=..." with further pairs of names and values, NULL at the end. */
int files_url(struct buf *out, const struct place *place, const char *op, struct err *err,
	      ...) _must_check_;
/* GET of such a URL. */
int files_get(struct cli *cli, const struct place *place, const char *op, const char *name,
	      const char *value, struct json **ret, struct err *err) _must_check_;
/* The entry of a path, links followed; 0 with *ret NULL if there is none. */
int files_look(struct cli *cli, const struct place *place, struct json **ret,
	       struct err *err) _must_check_;
/* Writes path, or path_b64 if it is not UTF-8, to a body. */
void files_put_path(struct json_writer *w, const char *path);
/* The bytes of a member that may have a _b64 form; in buf if decoded. */
int files_name(const struct json *entry, const char *name, const char *name_b64, struct buf *buf,
	       struct str *ret) _must_check_;
/* Prints a name: to a terminal without control characters, elsewhere unchanged. */
void files_print(FILE *out, struct str name);

/* A progress line for a transfer, on a terminal. */
struct meter {
	bool live, shown;
	const char *what;
	uint64_t bytes, total; /* total 0: unknown */
	int64_t start_us, last_us;
};
void meter_start(struct meter *meter, const struct cli *cli, const char *what, uint64_t total);
void meter_add(struct meter *meter, size_t n);
void meter_end(struct meter *meter);
/* A descriptor as the source of a request body. */
struct reading {
	int fd;
	struct meter meter;
};
ssize_t reading_read(void *reading, char *p, size_t n);

/* Content for a place; source.arg belongs to the caller. */
struct upload {
	const char *op;	      /* "raw": one file, "archive": a tree */
	const char *mode;     /* of the file; NULL: the default */
	const char *if_match; /* only if the file has this version; NULL: always */
	struct http_client_source source;
};
/* ret may be NULL. */
int files_send(struct cli *cli, const struct place *to, const struct upload *upload,
	       struct json **ret, struct err *err) _must_check_;
/* Content of a URL, piece by piece, as api_stream() does. */
int files_receive(struct cli *cli, const struct buf *url, http_client_data_fn data, void *arg,
		  struct err *err) _must_check_;

/* tree.c: whole trees through tar(1) */
int tree_send(struct cli *cli, const char *dir, const struct place *to, uint64_t *ret_bytes,
	      struct err *err) _must_check_;
int tree_receive(struct cli *cli, const struct place *from, const char *dir, uint64_t *ret_bytes,
		 struct err *err) _must_check_;

/* Checks an archive reply for entries that could not be created: 0, or -1 with err set. */
int tree_unpacked(const struct json *answer, struct err *err) _must_check_;
/* An archive from standard input, or to standard output. */
int tree_send_stdin(struct cli *cli, const struct place *to, uint64_t *ret_bytes,
		    struct err *err) _must_check_;
int tree_receive_stdout(struct cli *cli, const struct place *from, uint64_t *ret_bytes,
			struct err *err) _must_check_;

/* between.c: from one sandbox to another; op is "raw" for a file, "archive" for a tree. */
int between_copy(struct cli *cli, const struct place *from, const struct place *to, const char *op,
		 const char *mode, uint64_t *ret_bytes, struct err *err) _must_check_;

/* tar_filter.c: archives from a sandbox are untrusted; only plain entries are passed to tar(1). */
struct tar_filter {
	char block[512];
	size_t have;
	uint64_t skip; /* bytes of content to come */
	bool ended;
};
/* Whether these bytes may be passed on. 0 or -EPROTO. */
int tar_filter_feed(struct tar_filter *f, const char *p, size_t n) _must_check_;

/*
 * Writes to a file without a name (or a temporary one where that is not supported) beside the
 * target, which is replaced only by the complete file. A link is followed; a device or pipe is
 * written directly.
 */
struct fresh_file {
	char path[4096];
	char temp[4096 + 32]; /* "": it has no name */
	int fd;
	bool direct; /* directly into the existing file */
};
int fresh_open(struct fresh_file *f, const char *path, unsigned int mode,
	       struct err *err) _must_check_;
int fresh_write(struct fresh_file *f, const char *p, size_t n) _must_check_; /* -errno */
int fresh_keep(struct fresh_file *f, struct err *err) _must_check_;
void fresh_drop(struct fresh_file *f);

#endif
