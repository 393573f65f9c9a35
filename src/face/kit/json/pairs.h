/* SPDX-License-Identifier: Apache-2.0 */
/* String maps of the service (environment, metadata) as JSON. Every face uses it. */
#ifndef CAY_FACE_KIT_JSON_PAIRS_H
#define CAY_FACE_KIT_JSON_PAIRS_H

#include "base/json.h"
#include "service/pairs.h"

void pairs_write(const struct pairs *pairs, struct json_writer *w, const char *key);

#endif
