/* SPDX-License-Identifier: Apache-2.0 */
/* The properties of one entry of the tree, from the kernel and /etc/passwd. */
#ifndef CAY_TOOLS_TREE_ENTRY_H
#define CAY_TOOLS_TREE_ENTRY_H

#include <sys/stat.h>

#include "tools/path.h"
#include "wire/tool.h"

enum tool_kind entry_kind(mode_t mode);
/* Of name in dir_fd, not followed; "": of dir_fd itself. target: space for the link's target. */
int entry_look(int dir_fd, const char *name, char target[TOOL_TARGET_MAX + 1],
	       struct tool_entry *ret) _must_check_;
void entry_from_stat(const struct stat *st, struct tool_entry *ret);

/* The link target and marks of name in dir_fd, with space for both. False: there are none. */
struct entry_detail {
	char target[TOOL_TARGET_MAX + 1];
	char marks[TOOL_MARKS_MAX];
};
bool entry_details(int dir_fd, const char *name, const struct tool_entry *entry,
		   struct entry_detail *room, struct tool_detail *ret);
/* Writes lines "key=value" to an open file as user.KEY. 0 or -errno. */
int entry_mark(int fd, struct str marks) _must_check_;

/* Names of ids, from the sandbox's own files; empty if there is none. */
struct str entry_user(uint32_t uid);
struct str entry_group(uint32_t gid);
/* Resolves a name or a number to ids; gid is the user's own group. -ENOENT: no such user. */
int entry_find_user(struct str text, struct path_owner *ret) _must_check_;
int entry_find_group(struct str text, gid_t *ret) _must_check_;

#endif
