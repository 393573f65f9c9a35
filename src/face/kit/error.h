/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error codes at the edge of the daemon: the HTTP status of each, and one sentence that says what
 * the caller can do, in the words of the HTTP API. A face may answer single codes differently.
 */
#ifndef CAY_FACE_KIT_ERROR_H
#define CAY_FACE_KIT_ERROR_H

#include "base/err.h"

int error_status(enum err_code code);
const char *error_hint(enum err_code code); /* NULL: only of ERR_OK */

#endif
