/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory and the programs of this installation. */
#ifndef CAY_CLI_DAEMON_HOME_H
#define CAY_CLI_DAEMON_HOME_H

#include <limits.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Owned by root, writable by the daemon's group, sticky: the daemon can create files, but not touch
 * root's.
 */
#define HOME_STATE_MODE 01770
#define HOME_USER "cay"
#define HOME_TEMPLATES "/var/lib/cay/templates"
#define HOME_LOG_MAX_BYTES (16 * 1024 * 1024) /* a larger log is renamed to NAME.1 at a start */

/*
 * Finds cayd, cay-warden, cay-agent: in CAY_LIBEXEC, or beside our own program (installed or in a
 * build tree).
 */
int home_program(const char *name, char dst[PATH_MAX], struct err *err) _must_check_;
/* Creates the state directory and its logs/; as root, for the daemon's user. */
int home_make(const char *state, struct err *err) _must_check_;
/* Creates a directory that everyone can read, with its parents. */
int home_make_plain(const char *path, struct err *err) _must_check_;
/* Creates the daemon's system user if it is missing (root only). */
int home_make_user(bool *ret_made, struct err *err) _must_check_;
/* Opens logs/NAME for appending without following links; returns the descriptor or -errno. */
int home_open_log(const char *state, const char *name) _must_check_;
/* The current size of a log; 0 if there is none. */
off_t home_log_size(const char *state, const char *name);
/* Copies the last lines of a log, after offset `from`, to dst. Repeated lines are omitted. */
void home_log_tail(const char *state, const char *name, off_t from, size_t lines, char *dst,
		   size_t size);

#endif
