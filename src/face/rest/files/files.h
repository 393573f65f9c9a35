/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/rest: the file routes and what they share. */
#ifndef CAY_FACE_REST_FILES_FILES_H
#define CAY_FACE_REST_FILES_FILES_H

#include "face/rest/call.h"
#include "face/rest/write/files.h"

#define FILES_BODY_LIMIT (16 * 1024 * 1024)
#define FILES_BATCH_LIMIT (64 * 1024 * 1024)

/* A call with streamed content. */
struct rest_transfer {
	struct transfer base;
	struct rest *rest;
	struct rest_call *call; /* valid as long as the request */
	bool reading;		/* the body is streamed */
	bool conditional;	/* If-Range has not been compared yet */
	char etag[128];		/* in quotes */
	struct heartbeat heartbeat;
	struct files_answer answer; /* of uploads */
};

/* NULL: err is set. */
struct rest_transfer *rest_transfer_new(struct rest_call *call, struct err *err);
int rest_transfer_start(struct rest_transfer *t, const struct files_hooks *hooks,
			struct err *err) _must_check_;

/* The files of a batch, for the field table. */
int files_items_decode(const struct json *array, struct arena *arena, void *ret,
		       struct err *err) _must_check_;
/* Fills the spec of a call by its table. */
int files_spec_read(struct rest_call *call, struct files_spec *spec, struct err *err) _must_check_;

extern const struct field files_raw_query[], files_put_query[], files_list_query[],
	files_view_query[], files_stat_query[], files_watch_query[], files_archive_query[],
	files_unpack_query[];
extern const struct field files_write_fields[], files_batch_fields[], files_item_fields[],
	files_edit_fields[], files_glob_fields[], files_grep_fields[], files_mkdir_fields[],
	files_move_fields[], files_copy_fields[], files_remove_fields[], files_chmod_fields[],
	files_chown_fields[];
extern const struct field files_entry_answer[], files_list_answer[], files_batch_answer[],
	files_view_answer[], files_exists_answer[], files_edit_answer[], files_grep_answer[],
	files_event_answer[], files_unpack_answer[];

#endif
