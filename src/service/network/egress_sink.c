/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sink: the address to which refused names resolve. Connections to it reach the proxy like all
 * others, and the proxy explains the refusal: a program sees "403, because" instead of "could not
 * resolve host". No server outside is asked for such a name, whether it exists or not, and no rule
 * ever opens the sink.
 *
 * An attempt is a lookup and what follows it: soon the question for the other address family, then
 * a connection. It is counted with the lookup, because some programs never connect.
 */
#include "base/time.h"
#include "service/network/egress_internal.h"

/* per sandbox; at the limit the oldest is dropped, and its connection counts again */
#define SUNK_MAX 32
#define SAME_LOOKUP_MS 5000   /* questions for both families arrive together */
#define SAME_ATTEMPT_MS 60000 /* from the lookup to the connection */

struct egress_sunk {
	char name[EGRESS_NAME_MAX + 1];
	int64_t at_ms; /* boot clock; 0: free */
	uint8_t kinds; /* questions so far: bits of enum egress_question */
	bool connected;
};

uint32_t egress_sink(const struct sandbox *sandbox)
{
	const struct egress *egress = sandbox->egress;

	return egress && egress->address ? egress->sink : 0;
}

bool egress_is_sink(const struct sandbox *sandbox, uint32_t address)
{
	return address && address == egress_sink(sandbox);
}

void egress_sink_free(struct egress *egress)
{
	free(egress->sunk);
	egress->sunk = NULL;
}

static struct egress_sunk *find(const struct egress *egress, struct str name)
{
	for (size_t i = 0; egress->sunk && i < SUNK_MAX; i++)
		if (egress->sunk[i].at_ms && str_is(name, egress->sunk[i].name))
			return &egress->sunk[i];
	return NULL;
}

static struct egress_sunk *place(struct egress *egress)
{
	struct egress_sunk *oldest;

	if (!egress->sunk)
		egress->sunk = calloc(SUNK_MAX, sizeof(*egress->sunk));
	oldest = egress->sunk;
	for (size_t i = 0; oldest && i < SUNK_MAX; i++)
		if (egress->sunk[i].at_ms < oldest->at_ms)
			oldest = &egress->sunk[i];
	return oldest;
}

bool egress_sink_asked(struct sandbox *sandbox, struct str name, enum egress_question kind)
{
	struct egress *egress = sandbox->egress;
	struct egress_sunk *sunk = egress ? find(egress, name) : NULL;
	int64_t now_ms = time_boot_ms();

	if (sunk && now_ms - sunk->at_ms < SAME_LOOKUP_MS && !(sunk->kinds & kind)) {
		sunk->kinds |= (uint8_t)kind;
		return false;
	}
	if (!sunk && egress)
		sunk = place(egress);
	if (!sunk || str_copy(sunk->name, sizeof(sunk->name), name) < 0)
		return true;
	sunk->at_ms = now_ms;
	sunk->kinds = (uint8_t)kind;
	sunk->connected = false;
	return true;
}

/* A connection without a name is attributed to the last lookup. */
static struct egress_sunk *last(const struct egress *egress)
{
	struct egress_sunk *newest = NULL;

	for (size_t i = 0; egress->sunk && i < SUNK_MAX; i++) {
		struct egress_sunk *sunk = &egress->sunk[i];

		if (sunk->at_ms && !sunk->connected && (!newest || sunk->at_ms > newest->at_ms))
			newest = sunk;
	}
	return newest;
}

bool egress_sink_connected(const struct sandbox *sandbox, struct str name)
{
	const struct egress *egress = sandbox->egress;
	struct egress_sunk *sunk = name.n ? find(egress, name) : last(egress);

	if (!sunk || sunk->connected || time_boot_ms() - sunk->at_ms >= SAME_ATTEMPT_MS)
		return false;
	sunk->connected = true;
	return true;
}
