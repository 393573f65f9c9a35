/* SPDX-License-Identifier: Apache-2.0 */
/* One run of archive-in. */
#ifndef CAY_TOOLS_UNPACK_H
#define CAY_TOOLS_UNPACK_H

#include <archive.h>
#include <archive_entry.h>
#include <limits.h>

#include "base/buf.h"
#include "tools/member.h"
#include "tools/path.h"

/* Owner: op_archive_in(). */
struct unpack {
	struct op *op;
	struct archive *archive;
	int root_fd, spool_fd;
	struct path_owner owner;
	uint64_t max_entries, max_bytes, max_ratio;
	uint64_t in_bytes, index;
	struct str first; /* a piece that was read to see what it is */
	bool committed;
	struct buf later;
	int64_t told_us;
	char path[PATH_MAX];
	size_t path_len;
};

/* unpack_later.c: the directory at u->path is there; its mode and time come in the end. */
int unpack_remember(struct unpack *u, struct archive_entry *entry, bool made);
void unpack_finish_directories(struct unpack *u);

#endif
