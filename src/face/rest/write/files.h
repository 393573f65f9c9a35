/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/rest: the reply to a file operation as JSON, written while the service
 * reports results. Owner of the text: the call that it answers. */
#ifndef CAY_FACE_REST_WRITE_FILES_H
#define CAY_FACE_REST_WRITE_FILES_H

#include "base/json.h"
#include "service/files/files.h"

#define FILES_ANSWER_MAX \
	(16 * 1024 * 1024) /* bytes; further items are cut, and the reply says so */

struct files_answer {
	struct buf out;
	struct json_writer w; /* writes to out: a reply is never moved or copied */
	enum files_op op;
	bool begun;
	bool match; /* the object of a match is open for the lines after it */
};

void files_answer_init(struct files_answer *a, enum files_op op);
void files_answer_done(struct files_answer *a); /* a zeroed struct is allowed */
/* For the hooks of the same names. False: the reply is full, or cannot be written. */
bool files_answer_entry(struct files_answer *a, const struct files_entry *entry);
bool files_answer_match(struct files_answer *a, const struct files_match *match);
bool files_answer_after(struct files_answer *a, struct str line);
bool files_answer_outcome(struct files_answer *a, const struct files_outcome *outcome);
/* Completes the text in out. */
int files_answer_end(struct files_answer *a, const struct files_result *result,
		     struct err *err) _must_check_;

/* An event of a watch: its name, and the object. */
const char *files_event_name(enum files_change change);
void files_event_write(const struct files_event *event, struct json_writer *w);

#endif
