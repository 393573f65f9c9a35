/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests on one connection: however the bytes are split, the same heads are found at the same
 * positions. The first byte selects the split; bit 7: the server switches protocols.
 */
#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "face/egress/requests.h"

#define HEADS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct found {
	size_t count, at[HEADS_MAX];
	char names[HEADS_MAX][EGRESS_NAME_MAX + 1];
	bool odd[HEADS_MAX];
};

static void note(struct found *found, size_t at, const struct sniff *said)
{
	char name[EGRESS_NAME_MAX + 1];

	if (said->name[0])
		assert(egress_name_parse(str_of(said->name), name) == 0);
	if (found->count == HEADS_MAX)
		return;
	found->at[found->count] = at;
	found->odd[found->count] = said->odd;
	memcpy(found->names[found->count++], said->name, sizeof(said->name));
}

/* How many bytes were passed on. */
static size_t run(const char *p, size_t size, size_t step, bool switches, struct found *found)
{
	struct requests r = { 0 };
	size_t done = 0, have = 0, n;
	struct sniff said;

	while (have < size) {
		have = MIN(have + step, size);
		for (bool more = true; more && done < have;) {
			switch (requests_next(&r, p + done, have - done, &n, &said)) {
			case REQUESTS_NEW:
				note(found, done, &said);
				done += n;
				break;
			case REQUESTS_PASS:
				assert(n > 0 && n <= have - done);
				done += n;
				break;
			case REQUESTS_MORE:
				more = false;
				break;
			case REQUESTS_WAIT:
				requests_answer(&r, switches ? "HTTP/1.1 101 " : "HTTP/1.1 200 ",
						5);
				requests_answer(&r, switches ? "1.1 101" : "1.1 200", 7);
				assert(r.state != REQUESTS_ASKED);
				break;
			case REQUESTS_BAD:
				return done;
			}
		}
	}
	return done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct found whole, parts;
	const char *p = (const char *)data + 1;

	if (size < 2 || size > 2 * SNIFF_MAX)
		return 0;
	whole.count = parts.count = 0;
	(void)run(p, size - 1, size, data[0] & 0x80, &whole);
	(void)run(p, size - 1, (data[0] & 0x7f) + 1, data[0] & 0x80, &parts);
	for (size_t i = 0; i < MIN(whole.count, parts.count); i++)
		assert(whole.at[i] == parts.at[i] && whole.odd[i] == parts.odd[i] &&
		       strcmp(whole.names[i], parts.names[i]) == 0);
	/* a line that is rejected early is also rejected later */
	assert(parts.count >= whole.count);
	return 0;
}
