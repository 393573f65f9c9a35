/* SPDX-License-Identifier: Apache-2.0 */
/* Writes entries of a sandbox's tree in E2B's form, and sets the user of file operations. */
#include <stdio.h>
#include <strings.h>

#include "face/e2b/envd/envd.h"
#include "face/kit/json/name.h"
#include "service/files/files.h"

/* btrfs gives an empty directory the size 0; E2B's file system gives it one block. */
#define DIRECTORY_BYTES 4096
#define METADATA_PREFIX "x-metadata-"
#define METADATA_KEY_MAX 246
#define MARK_PREFIX "e2b."

void envd_actor(const struct e2b_call *call, struct files_spec *spec)
{
	if (call->user[0])
		spec->user = STR_LIT("0");
	if (call->user[0] && call->user_sent)
		spec->known_user = str_of(call->user);
}

void envd_owner(const struct e2b_call *call, struct files_spec *spec)
{
	envd_actor(call, spec);
	spec->owner = str_of(call->user);
}

/* ---- metadata ---- */

static bool is_metadata(const struct http_header *header)
{
	size_t n = strlen(METADATA_PREFIX);

	return header->name.n > n && strncasecmp(header->name.p, METADATA_PREFIX, n) == 0;
}

static void lower(char *dst, struct str name)
{
	for (size_t i = 0; i < name.n; i++)
		dst[i] = (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] - 'A' + 'a'
								     : name.p[i]);
	dst[name.n] = '\0';
}

static struct str key_of(const struct http_header *header)
{
	size_t n = strlen(METADATA_PREFIX);

	return (struct str){ header->name.p + n, header->name.n - n };
}

/* The metadata of an upload replaces the previous metadata, because the file is replaced. */
int metadata_read(struct e2b_call *call, struct files_spec *spec, struct err *err)
{
	const struct http_req *req = call->req;
	size_t size = 1, n = 0;
	char *text;

	for (size_t i = 0; i < req->header_count; i++)
		if (is_metadata(&req->headers[i]))
			size += req->headers[i].name.n + req->headers[i].value.n + 8;
	if (size == 1)
		return 0;
	text = arena_alloc(req->arena, size);
	if (!text)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	for (size_t i = 0; i < req->header_count; i++) {
		const struct http_header *header = &req->headers[i];
		struct str key;

		if (!is_metadata(header))
			continue;
		key = key_of(header);
		if (key.n > METADATA_KEY_MAX)
			return err_set(err, ERR_INVALID_REQUEST,
				       "metadata: a key has more than %d bytes", METADATA_KEY_MAX);
		memcpy(text + n, MARK_PREFIX, sizeof(MARK_PREFIX) - 1);
		n += sizeof(MARK_PREFIX) - 1;
		lower(text + n, key);
		n += key.n;
		text[n++] = '=';
		memcpy(text + n, header->value.p, header->value.n);
		n += header->value.n;
		text[n++] = '\n';
	}
	spec->marks = (struct str){ text, n };
	return 0;
}

void metadata_write(struct json_writer *w, const struct http_req *req)
{
	char name[METADATA_KEY_MAX + 1];
	bool begun = false;

	for (size_t i = 0; i < req->header_count; i++) {
		const struct http_header *header = &req->headers[i];

		if (!is_metadata(header) || key_of(header).n > METADATA_KEY_MAX)
			continue;
		if (!begun)
			json_begin_object(w, "metadata");
		begun = true;
		lower(name, key_of(header));
		json_put_str(w, name, header->value);
	}
	if (begun)
		json_end_object(w);
}

static void put_metadata(struct json_writer *w, struct str marks)
{
	struct str key, value;
	char name[FILES_MARK_KEY_MAX + 1];

	json_begin_object(w, "metadata");
	while (files_mark_next(&marks, &key, &value))
		if (str_starts(key, MARK_PREFIX) && str_copy(name, sizeof(name), key) == 0)
			json_put_str(w, name + sizeof(MARK_PREFIX) - 1, value);
	json_end_object(w);
}

/* ---- entries ---- */

static const char *type_name(enum files_kind kind)
{
	switch ((int)kind) {
	case FILES_KIND_FILE:
		return "FILE_TYPE_FILE";
	case FILES_KIND_DIRECTORY:
		return "FILE_TYPE_DIRECTORY";
	case FILES_KIND_SYMLINK:
		return "FILE_TYPE_SYMLINK";
	default:
		return "FILE_TYPE_UNSPECIFIED";
	}
}

/* Go's format of modes: 'L' marks a symbolic link, the rest is as in ls. */
static void put_permissions(struct json_writer *w, enum files_kind kind, uint32_t mode)
{
	static const char bits[] = "rwxrwxrwx";
	char text[11] = "-";

	if (kind == FILES_KIND_DIRECTORY)
		text[0] = 'd';
	else if (kind == FILES_KIND_SYMLINK)
		text[0] = 'L';
	for (int i = 0; i < 9; i++)
		text[i + 1] = (mode >> (8 - i) & 1) ? bits[i] : '-';
	json_put_str(w, "permissions", (struct str){ text, 10 });
}

static void put_owner(struct json_writer *w, const char *key, struct str name, uint32_t id)
{
	char digits[16];

	(void)snprintf(digits, sizeof(digits), "%u", id);
	json_put_str(w, key, name.n ? name : str_of(digits));
}

void entry_write(struct json_writer *w, const char *key, const struct files_entry *entry)
{
	bool link = entry->kind == FILES_KIND_SYMLINK, resolved = entry->behind.path.n;
	uint64_t least = entry->kind == FILES_KIND_DIRECTORY ? DIRECTORY_BYTES : 0;
	char digits[24];

	(void)snprintf(digits, sizeof(digits), "%llu",
		       (unsigned long long)MAX((uint64_t)entry->size, least));
	json_begin_object(w, key);
	name_write(w, "name", NULL, entry->name);
	json_put_text(w, "type", type_name(link ? entry->behind.kind : entry->kind));
	name_write(w, "path", NULL, entry->path);
	json_put_text(w, "size", digits);
	json_put_int(w, "mode", (link && resolved ? entry->behind.mode : entry->mode) & 0777);
	put_permissions(w, entry->kind, entry->mode);
	put_owner(w, "owner", entry->user, entry->uid);
	put_owner(w, "group", entry->group, entry->gid);
	if (entry->modified_ms > 0)
		json_put_time(w, "modifiedTime", entry->modified_ms);
	else
		json_put_text(w, "modifiedTime", "");
	if (link)
		name_write(w, "symlinkTarget", NULL, resolved ? entry->behind.path : entry->path);
	if (entry->marks.n)
		put_metadata(w, entry->marks);
	json_end_object(w);
}
