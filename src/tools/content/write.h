/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is being written: code that write-raw, batch-write and edit share. */
#ifndef CAY_TOOLS_CONTENT_WRITE_H
#define CAY_TOOLS_CONTENT_WRITE_H

#include "tools/op.h"
#include "tools/content/temp.h"

struct write_options {
	uint32_t mode; /* TOOL_MODE_DEFAULT: the old file's, or 0644 */
	struct path_owner owner;
	bool parents, sync, exclusive;
	const char *if_unchanged; /* NULL: not required */
	const char *marks;	  /* NULL: none */
};

/* Owner: the function that declares it. */
struct write_file {
	struct leaf leaf;
	struct temp temp;
	bool existed, expects;
	struct stat old;
	uint64_t bytes;
};
#define WRITE_FILE_INIT ((struct write_file){ .leaf = LEAF_INIT, .temp = TEMP_INIT })
void write_file_done(struct write_file *w);

int write_owner(struct op *op, struct path_owner *ret) _must_check_; /* key owner= */
/* All return 0 or -errno; -ESTALE: if_unchanged is not satisfied. */
int write_file_begin(struct write_file *w, const struct place *place, struct str path,
		     const struct write_options *o) _must_check_;
int write_file_add(struct write_file *w, struct str bytes) _must_check_;
int write_file_end(struct write_file *w, const struct write_options *o) _must_check_;
int write_all(int fd, struct str bytes) _must_check_;

#endif
