/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refused connections of a sandbox, as a bounded list and events, so that users can see the reason.
 */
#include <arpa/inet.h>
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "base/time.h"
#include "service/network/egress_internal.h"
#include "service/event/event_internal.h"
#include "service/sandbox/sandbox_internal.h"

#define DENIALS_MAX 128 /* per sandbox; the least recently seen one is dropped */
#define TELL_AGAIN_MS \
	60000		/* a repeated denial is published again after this long, with its count */
#define TELL_PER_MIN 60 /* events per sandbox; further ones are only counted */
#define SAVE_TICKS 5	/* between saves; a crash loses denials since then, but not their events */
#define SAVED_BYTES (DENIALS_MAX * 1024)

struct denial {
	char host[EGRESS_NAME_MAX + 1];
	char rule[EGRESS_NAME_MAX + 16];
	uint16_t port;
	uint8_t protocol;
	uint8_t why;
	uint64_t count;
	int64_t first_ms, last_ms; /* wall clock */
	int64_t told_ms;	   /* boot clock */
};

static const char *const protocol_names[] = { "dns", "tls",  "http",  "tcp",
					      "udp", "icmp", "other", NULL };
static const char *const why_names[] = {
	"allowed",	   "learned",	   "no_network", "not_allowed",	 "denied",
	"private_address", "host_address", "no_name",	 "not_resolved", "invalid_name",
	"too_many",	   "protocol",	   NULL
};
static_assert(ARRAY_LEN(why_names) == EGRESS_WHY_COUNT + 1, "a name for every reason");

const char *egress_why_name(enum egress_why why)
{
	return why_names[why];
}

void denials_free(struct egress *egress)
{
	free(egress->denials);
	egress->denials = NULL;
	egress->denial_count = 0;
}

void egress_host_text(const struct egress_ask *ask, char ret[EGRESS_NAME_MAX + 1])
{
	struct in_addr in = { htonl(ask->address) };

	if (ask->name.n && ask->name.n <= EGRESS_NAME_MAX)
		(void)snprintf(ret, EGRESS_NAME_MAX + 1, "%.*s", (int)ask->name.n, ask->name.p);
	else
		(void)inet_ntop(AF_INET, &in, ret, EGRESS_NAME_MAX + 1);
}

/* The entry of allow that would permit it, for learn and for hints. A DNS lookup has no port. */
static void entry_text(const char *host, uint16_t port, char *ret, size_t size)
{
	if (port)
		(void)snprintf(ret, size, "%s:%u", host, port);
	else
		(void)snprintf(ret, size, "%s", host);
}

static const char *explain_place(const struct sandbox *sandbox, const struct egress_ask *ask,
				 enum egress_why why)
{
	if (ask->is_local)
		return "An address of this host is reachable only if the operator lists exactly "
		       "this address in egress_allow_private and network.allow names it, and "
		       "never on the daemon's own ports.";
	if (why == EGRESS_HOST)
		return "The host itself, its sandboxes and metadata services are never reachable.";
	if (!egress_is_opened(sandbox, ask))
		return "The operator has not opened this private network: its address is not in "
		       "the daemon's setting egress_allow_private.";
	return "Private addresses are reachable only if network.allow names the address or its "
	       "private "
	       "range.";
}

void egress_explain(const struct sandbox *sandbox, const struct egress_ask *ask,
		    const struct egress_verdict *verdict, char *ret, size_t size)
{
	char host[EGRESS_NAME_MAX + 1], entry[EGRESS_NAME_MAX + 16];

	egress_host_text(ask, host);
	entry_text(host, ask->port, entry, sizeof(entry));
	switch (verdict->why) {
	case EGRESS_DENIED:
		(void)snprintf(ret, size, "Remove '%s' from network.deny to permit this.",
			       verdict->rule);
		break;
	case EGRESS_PRIVATE:
	case EGRESS_HOST:
		(void)snprintf(ret, size, "%s", explain_place(sandbox, ask, verdict->why));
		break;
	case EGRESS_NAMELESS:
		(void)snprintf(ret, size,
			       "TLS without a server name and HTTP without a Host need an entry "
			       "for the address; other protocols need an entry with the port, "
			       "such as %s:%u.",
			       verdict->rule[0] && !strchr(verdict->rule, ':') ? verdict->rule
									       : host,
			       ask->port);
		break;
	case EGRESS_NOT_RESOLVED:
		(void)snprintf(ret, size,
			       "Look '%s' up with the sandbox's own resolver and connect to an "
			       "address that it returns.",
			       host);
		break;
	case EGRESS_PROTOCOL:
		(void)snprintf(ret, size,
			       "Only TCP and DNS leave a sandbox, unless network.mode is full and "
			       "network.deny empty.");
		break;
	case EGRESS_ALLOWED:
	case EGRESS_LEARNED:
	case EGRESS_NO_NETWORK:
	case EGRESS_NOT_ALLOWED:
	case EGRESS_BAD_NAME:
	case EGRESS_TOO_MANY:
	case EGRESS_WHY_COUNT:
		(void)snprintf(ret, size, "cay net allow %s %s", sandbox->id, entry);
		break;
	}
}

static struct denial *place(struct egress *egress, const struct denial *like)
{
	struct denial *oldest = NULL;

	if (!egress->denials)
		egress->denials = calloc(DENIALS_MAX, sizeof(*egress->denials));
	if (!egress->denials)
		return NULL;
	for (uint32_t i = 0; i < egress->denial_count; i++) {
		struct denial *at = &egress->denials[i];

		if (at->port == like->port && at->protocol == like->protocol &&
		    at->why == like->why && strcmp(at->host, like->host) == 0)
			return at;
		if (!oldest || at->last_ms < oldest->last_ms)
			oldest = at;
	}
	if (egress->denial_count < DENIALS_MAX)
		oldest = &egress->denials[egress->denial_count++];
	*oldest = *like;
	return oldest;
}

static bool may_tell(struct egress *egress, struct denial *denial)
{
	int64_t now_ms = time_boot_ms();

	if (denial->told_ms && now_ms - denial->told_ms < TELL_AGAIN_MS)
		return false;
	if (now_ms - egress->told_ms >= TELL_AGAIN_MS) {
		egress->told_ms = now_ms;
		egress->told = 0;
	}
	if (egress->told >= TELL_PER_MIN)
		return false;
	egress->told++;
	denial->told_ms = now_ms;
	return true;
}

/* entry: buffer for the suggestion. */
static struct egress_denial denial_view(const struct denial *denial,
					char entry[EGRESS_NAME_MAX + 16])
{
	bool missing = denial->why == EGRESS_NOT_ALLOWED || denial->why == EGRESS_LEARNED;

	entry_text(denial->host, denial->port, entry, EGRESS_NAME_MAX + 16);
	return (struct egress_denial){ .host = denial->host,
				       .protocol = protocol_names[denial->protocol],
				       .rule = denial->rule[0] ? denial->rule : NULL,
				       .suggestion = missing ? entry : NULL,
				       .port = denial->port,
				       .why = denial->why,
				       .count = denial->count,
				       .first_ms = denial->first_ms,
				       .last_ms = denial->last_ms };
}

static void send_event(const struct sandbox *sandbox, const struct denial *denial)
{
	char entry[EGRESS_NAME_MAX + 16];
	struct egress_denial view = denial_view(denial, entry);
	struct event_draft draft = event_begin(sandbox);

	event_put_text(&draft, "host", view.host);
	if (view.port)
		event_put_int(&draft, "port", view.port);
	else
		event_put_text(&draft, "port", NULL);
	event_put_text(&draft, "protocol", view.protocol);
	event_put_text(&draft, "reason", why_names[view.why]);
	event_put_text(&draft, "rule", view.rule);
	event_put_text(&draft, "suggestion", view.suggestion);
	event_put_bool(&draft, "passed", view.why == EGRESS_LEARNED);
	event_put_int(&draft, "count", (int64_t)view.count);
	event_send(sandbox, EVENT_EGRESS_DENIED, &draft);
}

void egress_note(struct sandbox *sandbox, const struct egress_ask *ask,
		 const struct egress_verdict *verdict)
{
	struct denial like = { .port = ask->protocol == EGRESS_DNS ? 0 : ask->port,
			       .protocol = (uint8_t)ask->protocol,
			       .why = (uint8_t)verdict->why,
			       .first_ms = time_real_ms() };
	struct denial *denial;

	if (ask->protocol != EGRESS_DNS && egress_is_sink(sandbox, ask->address) &&
	    egress_sink_connected(sandbox, ask->name))
		return;
	sandbox->service->upkeep.counters.egress_denied += verdict->why != EGRESS_LEARNED;
	if (!sandbox->egress)
		return;
	egress_host_text(ask, like.host);
	memcpy(like.rule, verdict->rule, sizeof(like.rule));
	denial = place(sandbox->egress, &like);
	if (!denial)
		return;
	denial->count++;
	denial->last_ms = like.first_ms;
	sandbox->egress->denials_unsaved = true;
	if (may_tell(sandbox->egress, denial))
		send_event(sandbox, denial);
}

void egress_denials_each(const struct sandbox *sandbox, egress_denial_fn fn, void *arg)
{
	const struct egress *egress = sandbox->egress;
	int64_t before_ms = INT64_MAX;
	uint32_t left = egress ? egress->denial_count : 0;

	/* Newest first without sorting: each pass finds the next older time and reports all denials
	 * of that time. */
	while (left) {
		int64_t newest_ms = INT64_MIN;

		for (uint32_t i = 0; i < egress->denial_count; i++)
			if (egress->denials[i].last_ms < before_ms)
				newest_ms = MAX(newest_ms, egress->denials[i].last_ms);
		for (uint32_t i = 0; i < egress->denial_count; i++) {
			char entry[EGRESS_NAME_MAX + 16];
			struct egress_denial view;

			if (egress->denials[i].last_ms != newest_ms)
				continue;
			view = denial_view(&egress->denials[i], entry);
			fn(arg, &view);
			left--;
		}
		before_ms = newest_ms;
	}
}

/* ---- in the database ---- */

static int write_saved(const struct egress *egress, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_begin_array(&w, NULL);
	for (uint32_t i = 0; i < egress->denial_count; i++) {
		const struct denial *denial = &egress->denials[i];

		json_begin_object(&w, NULL);
		json_put_text(&w, "host", denial->host);
		json_put_text(&w, "rule", denial->rule);
		json_put_int(&w, "port", denial->port);
		json_put_text(&w, "protocol", protocol_names[denial->protocol]);
		json_put_text(&w, "reason", why_names[denial->why]);
		json_put_int(&w, "count", (int64_t)denial->count);
		json_put_int(&w, "first_ms", denial->first_ms);
		json_put_int(&w, "last_ms", denial->last_ms);
		json_end_object(&w);
	}
	json_end_array(&w);
	return json_writer_end(&w);
}

static int save(struct sandbox *sandbox)
{
	struct buf out;
	int r;

	buf_init(&out, SAVED_BYTES);
	r = write_saved(sandbox->egress, &out);
	if (r == 0)
		r = store_denials_put(sandbox->service->store, sandbox->id, buf_str(&out));
	buf_done(&out);
	sandbox->egress->denials_unsaved = false;
	return r;
}

void denials_save_all(struct service *service)
{
	struct sandbox *sandbox;
	uint32_t cursor = 0;
	int r = 0;

	while (r == 0 && (sandbox = sandbox_next(service, &cursor)))
		if (sandbox->egress && sandbox->egress->denials_unsaved &&
		    sandbox_state(sandbox) != SANDBOX_DESTROYED)
			r = save(sandbox);
	if (r < 0)
		log_warn("denials could not be saved: %s", strerror(-r));
}

void denials_tick(struct service *service)
{
	if (service->upkeep.ticks % SAVE_TICKS == 0)
		denials_save_all(service);
}

void denials_forget(struct sandbox *sandbox)
{
	if (sandbox->egress && store_denials_delete(sandbox->service->store, sandbox->id) < 0)
		log_debug("sandbox %s: denials could not be deleted and stay until the next start",
			  sandbox->id);
}

static int read_saved(const struct json *item, struct denial *ret)
{
	struct str host = { NULL, 0 }, rule = { NULL, 0 };
	int protocol = 0, why = 0;
	int64_t port = 0, count = 0;
	struct json_reader r;
	struct err err;

	if (json_type(item) != JSON_OBJECT)
		return -1;
	json_reader_init(&r, item, "", &err);
	json_read_str(&r, "host", 1, EGRESS_NAME_MAX, &host);
	json_read_str(&r, "rule", 0, sizeof(ret->rule) - 1, &rule);
	json_read_int(&r, "port", 0, UINT16_MAX, &port);
	json_read_enum(&r, "protocol", protocol_names, &protocol);
	json_read_enum(&r, "reason", why_names, &why);
	json_read_int(&r, "count", 1, INT64_MAX, &count);
	json_read_int(&r, "first_ms", 0, INT64_MAX, &ret->first_ms);
	json_read_int(&r, "last_ms", 0, INT64_MAX, &ret->last_ms);
	if (json_reader_end(&r) < 0 || !host.n ||
	    str_copy(ret->host, sizeof(ret->host), host) < 0 ||
	    str_copy(ret->rule, sizeof(ret->rule), rule) < 0)
		return -1;
	ret->port = (uint16_t)port;
	ret->protocol = (uint8_t)protocol;
	ret->why = (uint8_t)why;
	ret->count = (uint64_t)count;
	return 0;
}

static void on_saved(void *arg, const char *sandbox_id, struct str list)
{
	struct service *service = arg;
	struct sandbox *sandbox = sandbox_by_id(service, str_of(sandbox_id));
	struct err err;
	_cleanup_json_ struct json *doc = sandbox ? json_parse(list, &err) : NULL;
	struct egress *egress = doc ? egress_of(sandbox) : NULL;

	for (size_t i = 0; egress && json_type(doc) == JSON_ARRAY && i < json_size(doc); i++) {
		struct denial denial = { .port = 0 }, *at;

		at = read_saved(json_at(doc, i), &denial) == 0 ? place(egress, &denial) : NULL;
		if (at)
			*at = denial;
	}
}

int denials_load(struct service *service, struct err *err)
{
	int r = store_denials_trim(service->store);

	if (r == 0)
		r = store_denials_each(service->store, on_saved, service);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot read the denials") : 0;
}
