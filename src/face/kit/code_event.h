/* SPDX-License-Identifier: Apache-2.0 */
/* Events of code contexts as JSON: REST and E2B use the same names and members. */
#ifndef CAY_FACE_KIT_CODE_EVENT_H
#define CAY_FACE_KIT_CODE_EVENT_H

#include "base/json.h"
#include "service/run/code.h"

const char *code_event_name(enum code_event_type type);
/* The members only; the caller opens and closes the object. */
void code_event_write(const struct code_event *event, struct json_writer *w);

#endif
