/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files as JSON. They are bytes: what is not UTF-8 is shown as \xNN. Every face uses it.
 */
#ifndef CAY_FACE_KIT_NAME_H
#define CAY_FACE_KIT_NAME_H

#include "base/json.h"

/* key_b64: the member that holds such a name unchanged, in base64; NULL: there is none. */
void name_write(struct json_writer *w, const char *key, const char *key_b64, struct str name);

#endif
