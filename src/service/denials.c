/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox tried and may not, so that nobody has to guess: a bounded list and events. */
#include <arpa/inet.h>
#include <stdio.h>

#include "base/time.h"
#include "service/egress_private.h"

#define DENIALS_MAX 128	    /* of one sandbox; the one not seen for longest makes room */
#define TELL_AGAIN_MS 60000 /* the same is told again after this long, with its count */
#define TELL_PER_MIN 60	    /* of one sandbox; more are only counted */

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

static const char *const protocol_names[] = { "dns", "tls", "http", "tcp", "udp", "icmp", "other" };
static const char *const why_names[] = { "allowed",	 "learned",  "no_network",
					 "not_allowed",	 "denied",   "private_address",
					 "host_address", "no_name",  "not_resolved",
					 "invalid_name", "too_many", "protocol" };
static_assert(ARRAY_LEN(why_names) == EGRESS_WHY_COUNT, "a name for every reason");

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

/* Which entry would let it through: for learn and for hints. DNS alone has no port. */
static void entry_text(const char *host, uint16_t port, char *ret, size_t size)
{
	if (port)
		(void)snprintf(ret, size, "%s:%u", host, port);
	else
		(void)snprintf(ret, size, "%s", host);
}

void egress_explain(const struct sandbox *sandbox, const struct egress_ask *ask,
		    const struct egress_verdict *verdict, char *ret, size_t size)
{
	char host[EGRESS_NAME_MAX + 1], entry[EGRESS_NAME_MAX + 16];

	egress_host_text(ask, host);
	entry_text(host, ask->port, entry, sizeof(entry));
	switch (verdict->why) {
	case EGRESS_DENIED:
		(void)snprintf(ret, size, "Remove '%s' from network.deny to let this through.",
			       verdict->rule);
		break;
	case EGRESS_PRIVATE:
	case EGRESS_HOST:
		(void)snprintf(ret, size,
			       verdict->why == EGRESS_PRIVATE
				       ? "Private addresses pass only where network.allow names "
					 "the address or its private range."
				       : "The host itself, its sandboxes and metadata services are "
					 "never reachable.");
		break;
	case EGRESS_NAMELESS:
		(void)snprintf(
			ret, size,
			"Entries by name need TLS with SNI or HTTP with a Host on this port; "
			"allow the address instead.");
		break;
	case EGRESS_NOT_RESOLVED:
		(void)snprintf(ret, size,
			       "Look '%s' up with the sandbox's own resolver and connect to an "
			       "address it answers.",
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

static void write_one(const struct denial *denial, struct json_writer *w)
{
	char entry[EGRESS_NAME_MAX + 16];

	entry_text(denial->host, denial->port, entry, sizeof(entry));
	json_put_text(w, "host", denial->host);
	if (denial->port)
		json_put_int(w, "port", denial->port);
	else
		json_put_null(w, "port");
	json_put_text(w, "protocol", protocol_names[denial->protocol]);
	json_put_text(w, "reason", why_names[denial->why]);
	json_put_text(w, "rule", denial->rule[0] ? denial->rule : NULL);
	json_put_text(w, "suggestion",
		      denial->why == EGRESS_NOT_ALLOWED || denial->why == EGRESS_LEARNED ? entry
											 : NULL);
	json_put_bool(w, "passed", denial->why == EGRESS_LEARNED);
	json_put_int(w, "count", (int64_t)denial->count);
}

void egress_note(struct sandbox *sandbox, const struct egress_ask *ask,
		 const struct egress_verdict *verdict)
{
	struct denial like = { .port = ask->protocol == EGRESS_DNS ? 0 : ask->port,
			       .protocol = (uint8_t)ask->protocol,
			       .why = (uint8_t)verdict->why,
			       .first_ms = time_real_ms() };
	struct denial *denial;
	struct json_writer w;

	sandbox->service->counters.egress_denied += verdict->why != EGRESS_LEARNED;
	if (!sandbox->egress)
		return;
	egress_host_text(ask, like.host);
	memcpy(like.rule, verdict->rule, sizeof(like.rule));
	denial = place(sandbox->egress, &like);
	if (!denial)
		return;
	denial->count++;
	denial->last_ms = like.first_ms;
	if (!may_tell(sandbox->egress, denial))
		return;
	w = event_begin(sandbox);
	write_one(denial, &w);
	event_send(sandbox, EVENT_EGRESS_DENIED, &w);
}

void egress_write_denials(const struct sandbox *sandbox, struct json_writer *w)
{
	const struct egress *egress = sandbox->egress;
	int64_t before_ms = INT64_MAX;
	uint32_t left = egress ? egress->denial_count : 0;

	/* Newest first, without a second list: times repeat, so all of one time at once. */
	while (left) {
		int64_t newest_ms = INT64_MIN;

		for (uint32_t i = 0; i < egress->denial_count; i++)
			if (egress->denials[i].last_ms < before_ms)
				newest_ms = MAX(newest_ms, egress->denials[i].last_ms);
		for (uint32_t i = 0; i < egress->denial_count; i++) {
			const struct denial *denial = &egress->denials[i];

			if (denial->last_ms != newest_ms)
				continue;
			json_begin_object(w, NULL);
			write_one(denial, w);
			json_put_time(w, "first_at", denial->first_ms);
			json_put_time(w, "last_at", denial->last_ms);
			json_end_object(w);
			left--;
		}
		before_ms = newest_ms;
	}
}
