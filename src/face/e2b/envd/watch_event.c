/* SPDX-License-Identifier: Apache-2.0 */
#include "face/e2b/envd/watch_event.h"

#include <errno.h>
#include <stdio.h>

#include "face/kit/json/name.h"
#include "service/files/files.h"

enum note_type { CREATE, WRITE, REMOVE, RENAME, CHMOD };
static const char *const type_names[] = {
	[CREATE] = "EVENT_TYPE_CREATE", [WRITE] = "EVENT_TYPE_WRITE",
	[REMOVE] = "EVENT_TYPE_REMOVE", [RENAME] = "EVENT_TYPE_RENAME",
	[CHMOD] = "EVENT_TYPE_CHMOD",
};

/* An event that waits for those before it. Owner: the queue of its struct watch_writer. */
struct note {
	struct note *next;
	enum note_type type;
	char name[]; /* relative to the directory */
};

int watch_writer_init(struct watch_writer *writer, const struct e2b_call *call, struct str path,
		      bool entries)
{
	writer->e2b = call->e2b;
	writer->sandbox = call->sandbox_handle;
	writer->entries = entries;
	writer->root = call->user[0] != '\0';
	writer->path = strndup(path.p, path.n);
	return writer->path ? 0 : -ENOMEM;
}

void watch_writer_done(struct watch_writer *writer)
{
	if (writer->run && writer->e2b->service)
		files_cancel(writer->e2b->service, writer->run);
	for (struct note *note = writer->first, *next; note; note = next) {
		next = note->next;
		free(note);
	}
	free(writer->path);
	*writer = (struct watch_writer){ .run = 0 };
}

static void write_event(struct watch_writer *writer, const char *name, enum note_type type,
			const struct files_entry *entry)
{
	struct json_writer w = writer->begin(writer->arg);

	name_write(&w, "name", NULL, str_of(name));
	json_put_text(&w, "type", type_names[type]);
	if (entry)
		entry_write(&w, "entry", entry);
	writer->end(writer->arg, &w);
}

static void pump(struct watch_writer *writer);

static void drop_first(struct watch_writer *writer)
{
	struct note *note = writer->first;

	writer->first = note->next;
	if (!writer->first)
		writer->last = NULL;
	writer->count--;
	free(note);
}

static void on_looked(void *arg, const struct files_result *result, const struct err *error)
{
	struct watch_writer *writer = arg;

	writer->run = 0;
	write_event(writer, writer->first->name, writer->first->type, error ? NULL : result->entry);
	drop_first(writer);
	pump(writer);
}

static bool look(struct watch_writer *writer, const char *name)
{
	static const struct files_hooks hooks = { .on_end = on_looked };
	struct sandbox *sandbox = sandbox_get(writer->e2b->service, writer->sandbox);
	struct files_spec spec = { .details = true };
	char *path = NULL;
	struct err err;
	bool ok;

	if (!sandbox || !sandbox_ready(sandbox) || asprintf(&path, "%s%s", writer->path, name) < 0)
		return false;
	spec.path = str_of(path);
	if (writer->root)
		spec.user = STR_LIT("0");
	ok = files_start(sandbox, FILES_STAT, &spec, &hooks, writer, &writer->run, &err) == 0;
	free(path);
	return ok;
}

static bool wants_entry(const struct watch_writer *writer, enum note_type type)
{
	return writer->entries && type != REMOVE && type != RENAME &&
	       writer->count <= WATCH_QUEUE_MAX;
}

static void pump(struct watch_writer *writer)
{
	while (writer->first && !writer->run) {
		struct note *note = writer->first;

		if (wants_entry(writer, note->type) && look(writer, note->name))
			return;
		write_event(writer, note->name, note->type, NULL);
		drop_first(writer);
	}
}

static void add(struct watch_writer *writer, struct str path, enum note_type type)
{
	size_t skip = strlen(writer->path);
	struct str name = path.n > skip ? (struct str){ path.p + skip, path.n - skip }
					: (struct str){ "", 0 };
	struct note *note = calloc(1, sizeof(*note) + name.n + 1);

	if (!note)
		return; /* dropped like events that the kernel's full queue drops */
	note->type = type;
	memcpy(note->name, name.p, name.n);
	if (writer->last)
		writer->last->next = note;
	else
		writer->first = note;
	writer->last = note;
	writer->count++;
}

/* A rename is reported as a removed and a created name. */
void watch_writer_take(struct watch_writer *writer, const struct files_event *event)
{
	switch (event->change) {
	case FILES_CREATED:
		add(writer, event->path, CREATE);
		break;
	case FILES_MODIFIED:
		add(writer, event->path, event->attributes ? CHMOD : WRITE);
		break;
	case FILES_DELETED:
	case FILES_GONE:
		add(writer, event->path, REMOVE);
		break;
	case FILES_RENAMED:
		add(writer, event->from, RENAME);
		add(writer, event->path, CREATE);
		break;
	case FILES_OVERFLOW: /* E2B has no event for it. */
		break;
	}
	pump(writer);
}
