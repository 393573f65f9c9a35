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

/* An event that waits for its turn. Owner: the queue of its struct teller. */
struct note {
	struct note *next;
	enum note_type type;
	char name[]; /* relative to the directory */
};

int teller_init(struct teller *teller, const struct e2b_call *call, struct str path, bool entries)
{
	teller->e2b = call->e2b;
	teller->sandbox = call->sandbox_handle;
	teller->entries = entries;
	teller->root = call->user[0] != '\0';
	teller->path = strndup(path.p, path.n);
	return teller->path ? 0 : -ENOMEM;
}

void teller_done(struct teller *teller)
{
	if (teller->run && teller->e2b->service)
		files_cancel(teller->e2b->service, teller->run);
	for (struct note *note = teller->first, *next; note; note = next) {
		next = note->next;
		free(note);
	}
	free(teller->path);
	*teller = (struct teller){ .run = 0 };
}

static void tell(struct teller *teller, const char *name, enum note_type type,
		 const struct files_entry *entry)
{
	struct json_writer w = teller->begin(teller->arg);

	name_write(&w, "name", NULL, str_of(name));
	json_put_text(&w, "type", type_names[type]);
	if (entry)
		entry_write(&w, "entry", entry);
	teller->end(teller->arg, &w);
}

static void pump(struct teller *teller);

static void drop_first(struct teller *teller)
{
	struct note *note = teller->first;

	teller->first = note->next;
	if (!teller->first)
		teller->last = NULL;
	teller->count--;
	free(note);
}

static void on_looked(void *arg, const struct files_result *result, const struct err *error)
{
	struct teller *teller = arg;

	teller->run = 0;
	tell(teller, teller->first->name, teller->first->type, error ? NULL : result->entry);
	drop_first(teller);
	pump(teller);
}

static bool look(struct teller *teller, const char *name)
{
	static const struct files_hooks hooks = { .on_end = on_looked };
	struct sandbox *sandbox = sandbox_get(teller->e2b->service, teller->sandbox);
	struct files_spec spec = { .details = true };
	char *path = NULL;
	struct err err;
	bool ok;

	if (!sandbox || !sandbox_ready(sandbox) || asprintf(&path, "%s%s", teller->path, name) < 0)
		return false;
	spec.path = str_of(path);
	if (teller->root)
		spec.user = STR_LIT("0");
	ok = files_start(sandbox, FILES_STAT, &spec, &hooks, teller, &teller->run, &err) == 0;
	free(path);
	return ok;
}

static bool wants_entry(const struct teller *teller, enum note_type type)
{
	return teller->entries && type != REMOVE && type != RENAME &&
	       teller->count <= TELLER_QUEUE_MAX;
}

static void pump(struct teller *teller)
{
	while (teller->first && !teller->run) {
		struct note *note = teller->first;

		if (wants_entry(teller, note->type) && look(teller, note->name))
			return;
		tell(teller, note->name, note->type, NULL);
		drop_first(teller);
	}
}

static void add(struct teller *teller, struct str path, enum note_type type)
{
	size_t skip = strlen(teller->path);
	struct str name = path.n > skip ? (struct str){ path.p + skip, path.n - skip }
					: (struct str){ "", 0 };
	struct note *note = calloc(1, sizeof(*note) + name.n + 1);

	if (!note)
		return; /* as lost as what the kernel drops when it has no room */
	note->type = type;
	memcpy(note->name, name.p, name.n);
	if (teller->last)
		teller->last->next = note;
	else
		teller->first = note;
	teller->last = note;
	teller->count++;
}

/* A rename is what left and what came. */
void teller_take(struct teller *teller, const struct files_event *event)
{
	switch (event->change) {
	case FILES_CREATED:
		add(teller, event->path, CREATE);
		break;
	case FILES_MODIFIED:
		add(teller, event->path, event->attributes ? CHMOD : WRITE);
		break;
	case FILES_DELETED:
	case FILES_GONE:
		add(teller, event->path, REMOVE);
		break;
	case FILES_RENAMED:
		add(teller, event->from, RENAME);
		add(teller, event->path, CREATE);
		break;
	case FILES_OVERFLOW: /* E2B has no event for it */
		break;
	}
	pump(teller);
}
