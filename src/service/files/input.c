/* SPDX-License-Identifier: Apache-2.0 */
/* Converts content and batches of a call to the frames of the tool's input. */
#include <sodium.h>
#include <stdio.h>

#include "service/files/files_private.h"

#define B64_STEP 174760 /* characters; a multiple of 4, decoded less than TOOL_DATA_MAX */

static int put_pieces(struct buf *frames, enum tool_type type, struct str bytes)
{
	int r = 0;

	while (bytes.n && r == 0) {
		struct str piece = { bytes.p, MIN(bytes.n, TOOL_DATA_MAX) };

		r = tool_put_bytes(frames, type, piece);
		bytes.p += piece.n;
		bytes.n -= piece.n;
	}
	return r;
}

/* Decoded step by step into the frames, so that large content is not held twice. */
static int put_b64(struct buf *frames, const char *what, struct str b64, struct err *err)
{
	static unsigned char scratch[TOOL_DATA_MAX];

	while (b64.n) {
		struct str piece = { b64.p, MIN(b64.n, B64_STEP) };
		size_t n = 0;

		b64.p += piece.n;
		b64.n -= piece.n;
		if (sodium_base642bin(scratch, sizeof(scratch), piece.p, piece.n, NULL, &n, NULL,
				      sodium_base64_VARIANT_ORIGINAL) != 0 ||
		    (b64.n && n != B64_STEP / 4 * 3))
			return err_set(err, ERR_INVALID_REQUEST, "%s must be base64 (RFC 4648)",
				       what);
		if (put_pieces(frames, TOOL_DATA, (struct str){ (char *)scratch, n }) < 0)
			return files_no_memory(err);
	}
	return 0;
}

static int put_content(struct buf *frames, const char *prefix, struct str text, struct str b64,
		       struct err *err)
{
	char what[64];

	if ((text.p != NULL) == (b64.p != NULL))
		return err_set(err, ERR_INVALID_REQUEST,
			       "%scontent or %scontent_b64: exactly one is needed", prefix, prefix);
	if (text.p)
		return put_pieces(frames, TOOL_DATA, text) < 0 ? files_no_memory(err) : 0;
	(void)snprintf(what, sizeof(what), "%scontent_b64", prefix);
	return put_b64(frames, what, b64, err);
}

static int put_commit(struct buf *frames, struct err *err)
{
	return tool_put_bytes(frames, TOOL_COMMIT, (struct str){ "", 0 }) < 0 ? files_no_memory(err)
									      : 0;
}

int files_input_write(struct buf *frames, const struct files_spec *spec, struct err *err)
{
	if (put_content(frames, "", spec->content, spec->content_b64, err) < 0)
		return -1;
	return put_commit(frames, err);
}

int files_input_edit(struct buf *frames, const struct files_spec *spec, struct err *err)
{
	if (put_pieces(frames, TOOL_OLD, spec->old_string) < 0 ||
	    put_pieces(frames, TOOL_NEW, spec->new_string) < 0)
		return files_no_memory(err);
	return put_commit(frames, err);
}

static int put_item(struct buf *frames, struct arena *arena, const struct files_item *item,
		    const char *prefix, struct err *err)
{
	struct tool_file file = { .mode = TOOL_MODE_DEFAULT };
	char what[64];

	(void)snprintf(what, sizeof(what), "%spath", prefix);
	if (files_bytes(arena, what, item->path, item->path_b64, &file.path, err) < 0 ||
	    files_check_path(what, file.path, err) < 0)
		return -1;
	(void)snprintf(what, sizeof(what), "%smode", prefix);
	if (item->mode.p && files_mode(what, item->mode, &file.mode, err) < 0)
		return -1;
	if (tool_put_file(frames, &file) < 0)
		return files_no_memory(err);
	return put_content(frames, prefix, item->content, item->content_b64, err);
}

int files_input_batch(struct buf *frames, struct arena *arena, const struct files_item *items,
		      size_t count, struct err *err)
{
	if (count == 0 || count > FILES_BATCH_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "files must have 1 to %d elements",
			       FILES_BATCH_MAX);
	for (size_t i = 0; i < count; i++) {
		char prefix[32];

		(void)snprintf(prefix, sizeof(prefix), "files[%zu].", i);
		if (put_item(frames, arena, &items[i], prefix, err) < 0)
			return -1;
	}
	return put_commit(frames, err);
}
