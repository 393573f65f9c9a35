/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "service/run/process.h"

/* ---- lifetime ---- */

static void unlink_free(struct transfer *t)
{
	if (t->prev)
		t->prev->next = t->next;
	else
		t->list->first = t->next;
	if (t->next)
		t->next->prev = t->prev;
	if (t->done)
		t->done(t);
	free(t);
}

struct http_req *transfer_req(const struct transfer *t)
{
	struct http_server *server = *t->list->server;

	return server ? http_req_get(server, t->req) : NULL;
}

struct http_req *transfer_end(struct transfer *t)
{
	struct http_req *req = transfer_req(t);

	if (req) {
		http_req_on_gone(req, NULL, NULL);
		http_reply_on_drain(req, NULL, NULL);
	}
	stream_end(*t->list->service, t->key_id);
	unlink_free(t);
	return req;
}

static void on_gone(void *arg)
{
	struct transfer *t = arg;

	if (t->run)
		files_cancel(*t->list->service, t->run);
	stream_end(*t->list->service, t->key_id);
	unlink_free(t);
}

void *transfer_new(struct transfer_list *list, struct http_req *req, struct key *key, size_t size,
		   void (*done)(struct transfer *t), struct err *err)
{
	struct transfer *t;

	if (stream_admit(*list->service, key, err) < 0)
		return NULL;
	t = calloc(1, size);
	if (!t) {
		stream_end(*list->service, key->id);
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	t->list = list;
	t->done = done;
	t->req = req->handle;
	memcpy(t->key_id, key->id, sizeof(t->key_id));
	t->next = list->first;
	if (t->next)
		t->next->prev = t;
	list->first = t;
	http_req_on_gone(req, on_gone, t);
	return t;
}

void transfers_done(struct transfer_list *list)
{
	while (list->first)
		unlink_free(list->first);
}

/* ---- downloads ---- */

void transfer_note_head(struct transfer *t, const struct files_head *head)
{
	t->head = *head;
	t->head.etag = NULL; /* it is valid only during this call */
}

void transfer_pass(struct transfer *t, struct http_req *req, struct str bytes)
{
	if (http_reply_write(req, bytes.p, bytes.n) == -EAGAIN)
		t->blocked = true;
	t->owed += bytes.n;
	if (t->blocked)
		return;
	files_release(*t->list->service, t->run, t->owed);
	t->owed = 0;
}

void transfer_on_drain(void *arg)
{
	struct transfer *t = arg;
	size_t bytes = t->owed;

	t->blocked = false;
	t->owed = 0;
	files_release(*t->list->service, t->run, bytes);
}

void transfer_words(const struct transfer *t, struct transfer_words *ret)
{
	const struct files_head *head = &t->head;
	time_t seconds = (time_t)(head->modified_ms / 1000);
	struct tm tm;

	*ret = (struct transfer_words){ .range = "" };
	(void)snprintf(ret->length, sizeof(ret->length), "%llu", (unsigned long long)head->length);
	if (gmtime_r(&seconds, &tm) &&
	    !strftime(ret->modified, sizeof(ret->modified), "%a, %d %b %Y %H:%M:%S GMT", &tm))
		ret->modified[0] = '\0';
	if (t->spec.has_range)
		(void)snprintf(ret->range, sizeof(ret->range), "bytes %llu-%llu/%llu",
			       (unsigned long long)head->begin,
			       (unsigned long long)(head->begin + head->length - 1),
			       (unsigned long long)head->size);
}
