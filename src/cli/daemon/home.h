/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory and the programs of this installation. */
#ifndef CAY_CLI_DAEMON_HOME_H
#define CAY_CLI_DAEMON_HOME_H

#include <limits.h>
#include <sys/types.h>

#include "base/err.h"

/* Root's, open to the daemon's group, sticky: the daemon makes its files, and cannot touch root's.
 */
#define HOME_STATE_MODE 01770
#define HOME_USER "cay"
#define HOME_TEMPLATES "/var/lib/cay/templates"
#define HOME_LOG_MAX_BYTES (16 * 1024 * 1024) /* a longer log is set aside as NAME.1 at a start */

/* Finds cayd, cay-warden, cay-agent: CAY_LIBEXEC, or beside our own program (installed or in a
 * build tree). */
int home_program(const char *name, char dst[PATH_MAX], struct err *err) _must_check_;
/* Makes the state directory and its logs/; as root it becomes the daemon user's. */
int home_make(const char *state, struct err *err) _must_check_;
/* Makes a directory everyone may read, with its parents. */
int home_make_plain(const char *path, struct err *err) _must_check_;
/* Makes the system user the daemon runs as, when it is missing (root only). */
int home_make_user(bool *ret_made, struct err *err) _must_check_;
/* Opens logs/NAME for appending without following links: the descriptor or -errno. */
int home_open_log(const char *state, const char *name) _must_check_;
/* How long a log is now; 0 when there is none. */
off_t home_log_size(const char *state, const char *name);
/* Copies the last lines of a log into dst, of what stands from `from` on. Lines that say again what
 * the one before said are left out. */
void home_log_tail(const char *state, const char *name, off_t from, size_t lines, char *dst,
		   size_t size);

#endif
