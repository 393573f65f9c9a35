/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dns.h"

#include <errno.h>

#define HEAD_SIZE 12
#define CLASS_IN 1
#define TYPE_CNAME 5
#define TYPE_OPT 41
#define OPTION_WHY 15 /* extended DNS error */
#define WHY_FILTERED 17
#define RECORDS_MAX 256 /* records considered in one answer */
#define JUMPS_MAX 32
#define ALIASES_MAX 16
#define WHY_MAX 200

struct reader {
	const uint8_t *p;
	size_t n, at;
};

static bool take16(struct reader *r, uint16_t *ret)
{
	if (r->n - r->at < 2)
		return false;
	*ret = (uint16_t)(r->p[r->at] << 8 | r->p[r->at + 1]);
	r->at += 2;
	return true;
}

static bool take32(struct reader *r, uint32_t *ret)
{
	uint16_t high, low;

	if (!take16(r, &high) || !take16(r, &low))
		return false;
	*ret = (uint32_t)high << 16 | low;
	return true;
}

static bool put_label(char *dst, size_t *n, const uint8_t *label, size_t size)
{
	if (*n + size + (*n != 0) > DNS_NAME_MAX)
		return false;
	if (*n)
		dst[(*n)++] = '.';
	for (size_t i = 0; i < size; i++) {
		uint8_t c = label[i];

		if (c <= ' ' || c >= 0x7f || c == '.')
			return false;
		dst[(*n)++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
	}
	return true;
}

/* Reads a name and advances beyond it. Pointers must lead backwards, so this terminates. */
static bool take_name(struct reader *r, bool pointers, char ret[DNS_NAME_MAX + 1])
{
	size_t at = r->at, n = 0, limit = r->n, after = 0;
	unsigned jumps = 0;

	for (;;) {
		uint8_t size;

		if (at >= limit)
			return false;
		size = r->p[at];
		if ((size & 0xc0) == 0xc0) {
			size_t to;

			if (!pointers || at + 1 >= r->n || ++jumps > JUMPS_MAX)
				return false;
			to = (size_t)(size & 0x3f) << 8 | r->p[at + 1];
			if (!after)
				after = at + 2;
			if (to >= at || to < HEAD_SIZE)
				return false;
			limit = at; /* a pointer must lead to an earlier position */
			at = to;
			continue;
		}
		if (size & 0xc0 || at + 1 + size > limit)
			return false;
		if (size == 0)
			break;
		if (!put_label(ret, &n, r->p + at + 1, size))
			return false;
		at += 1u + size;
	}
	ret[n] = '\0';
	r->at = after ? after : at + 1;
	return true;
}

/* ---- questions of sandboxes ---- */

/* After the question only an OPT record may follow. */
static bool take_opt(struct reader *r, struct dns_question *q)
{
	uint16_t type, size, length;
	uint32_t flags;

	if (r->at >= r->n || r->p[r->at++] != 0)
		return false;
	if (!take16(r, &type) || !take16(r, &size) || !take32(r, &flags) || !take16(r, &length) ||
	    type != TYPE_OPT || length > r->n - r->at)
		return false;
	r->at += length;
	q->edns = true;
	q->udp_size = size;
	return true;
}

int dns_question_read(const void *bytes, size_t size, struct dns_question *ret)
{
	struct reader r = { bytes, size, 0 };
	uint16_t flags, counts[4], class;

	*ret = (struct dns_question){ .udp_size = 512 };
	if (size < HEAD_SIZE || size > DNS_MESSAGE_MAX || !take16(&r, &ret->id) ||
	    !take16(&r, &flags) || flags & 0x8000)
		return -EBADMSG;
	ret->recursion = flags & 0x0100;
	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		if (!take16(&r, &counts[i]))
			return -EBADMSG;
	if (flags & 0x7800)
		return DNS_NOTIMP;
	if (counts[0] != 1 || counts[1] || counts[2] || counts[3] > 1)
		return DNS_FORMERR;
	if (!take_name(&r, false, ret->name) || !take16(&r, &ret->type) || !take16(&r, &class))
		return DNS_FORMERR;
	ret->size = r.at - HEAD_SIZE;
	memcpy(ret->bytes, r.p + HEAD_SIZE, ret->size);
	if (counts[3] && !take_opt(&r, ret))
		return DNS_FORMERR;
	if (r.at != r.n)
		return DNS_FORMERR;
	return class == CLASS_IN ? DNS_NOERROR : DNS_REFUSED;
}

/* ---- our answers ---- */

struct writer {
	uint8_t *p;
	size_t n, room;
};

static bool fits(const struct writer *w, size_t n)
{
	return n <= w->room - w->n;
}

static void put16(struct writer *w, unsigned value)
{
	w->p[w->n++] = (uint8_t)(value >> 8);
	w->p[w->n++] = (uint8_t)value;
}

static void put32(struct writer *w, uint32_t value)
{
	put16(w, value >> 16);
	put16(w, value & 0xffff);
}

static void put_opt(struct writer *w, const char *why)
{
	size_t n = why ? MIN(strlen(why), WHY_MAX) : 0;

	if (!fits(w, 11 + (n ? 6 + n : 0)))
		n = 0;
	if (!fits(w, 11))
		return;
	w->p[w->n++] = 0;
	put16(w, TYPE_OPT);
	put16(w, DNS_UDP_SIZE);
	put32(w, 0);
	put16(w, n ? (unsigned)(6 + n) : 0);
	if (!n)
		return;
	put16(w, OPTION_WHY);
	put16(w, (unsigned)(2 + n));
	put16(w, WHY_FILTERED);
	memcpy(w->p + w->n, why, n);
	w->n += n;
}

static void put_address(struct writer *w, uint32_t address, uint32_t ttl_sec)
{
	put16(w, 0xc000 | HEAD_SIZE);
	put16(w, DNS_A);
	put16(w, CLASS_IN);
	put32(w, ttl_sec);
	put16(w, 4);
	put32(w, address);
}

size_t dns_reply_write(const struct dns_question *question, const struct dns_reply *reply,
		       void *ret, size_t room)
{
	struct writer w = { ret, 0, room };
	size_t opt = question->edns ? 11 : 0, count = 0;
	unsigned flags = 0x8000 | 0x0080 | (question->recursion ? 0x0100 : 0) | reply->code;

	if (room < HEAD_SIZE + question->size + opt)
		return 0;
	while (count < reply->count && HEAD_SIZE + question->size + opt + 16 * (count + 1) <= room)
		count++;
	if (count < reply->count)
		flags |= 0x0200;
	put16(&w, question->id);
	put16(&w, flags);
	put16(&w, question->size ? 1 : 0);
	put16(&w, (unsigned)count);
	put16(&w, 0);
	put16(&w, question->edns ? 1 : 0);
	memcpy(w.p + w.n, question->bytes, question->size);
	w.n += question->size;
	for (size_t i = 0; i < count; i++)
		put_address(&w, reply->addresses[i], reply->ttl_sec);
	if (question->edns)
		put_opt(&w, reply->why);
	return w.n;
}

/* ---- our questions ---- */

static bool put_name(struct writer *w, const char *name)
{
	while (*name) {
		size_t n = strcspn(name, ".");

		if (n == 0 || n > 63 || !fits(w, n + 2))
			return false;
		w->p[w->n++] = (uint8_t)n;
		memcpy(w->p + w->n, name, n);
		w->n += n;
		name += n;
		if (*name == '.' && !*++name)
			return false;
	}
	w->p[w->n++] = 0;
	return true;
}

size_t dns_ask_write(uint16_t id, const char *name, void *ret, size_t room)
{
	struct writer w = { ret, 0, room };

	if (!*name || strlen(name) > DNS_NAME_MAX || room < HEAD_SIZE + DNS_NAME_MAX + 2 + 4 + 11)
		return 0;
	put16(&w, id);
	put16(&w, 0x0100);
	put16(&w, 1);
	put16(&w, 0);
	put16(&w, 0);
	put16(&w, 1);
	if (!put_name(&w, name))
		return 0;
	put16(&w, DNS_A);
	put16(&w, CLASS_IN);
	put_opt(&w, NULL);
	return w.n;
}

/* ---- answers of servers ---- */

struct record {
	uint16_t type, class, size;
	uint32_t ttl;
	size_t data; /* offset of the data */
	char name[DNS_NAME_MAX + 1];
};

static bool take_record(struct reader *r, struct record *ret)
{
	if (!take_name(r, true, ret->name) || !take16(r, &ret->type) || !take16(r, &ret->class) ||
	    !take32(r, &ret->ttl) || !take16(r, &ret->size) || ret->size > r->n - r->at)
		return false;
	ret->data = r->at;
	r->at += ret->size;
	return true;
}

/*
 * One pass over the answers for one name: finds its addresses, or the name that it is an alias for.
 */
static bool follow(struct reader r, unsigned records, char name[DNS_NAME_MAX + 1],
		   struct dns_reply *reply, bool *ret_alias)
{
	char alias[DNS_NAME_MAX + 1] = "";
	struct record record;

	*ret_alias = false;
	for (unsigned i = 0; i < records; i++) {
		if (!take_record(&r, &record))
			return false;
		if (record.class != CLASS_IN || strcmp(record.name, name) != 0)
			continue;
		if (record.type == TYPE_CNAME && !*ret_alias) {
			struct reader at = { r.p, r.n, record.data };

			if (!take_name(&at, true, alias) || at.at != record.data + record.size)
				return false;
			*ret_alias = true;
			reply->ttl_sec = MIN(reply->ttl_sec, record.ttl);
		} else if (record.type == DNS_A && record.size == 4 &&
			   reply->count < DNS_ADDRESSES_MAX) {
			struct reader at = { r.p, r.n, record.data };

			if (!take32(&at, &reply->addresses[reply->count]))
				return false;
			reply->count++;
			reply->ttl_sec = MIN(reply->ttl_sec, record.ttl);
		}
	}
	if (*ret_alias)
		memcpy(name, alias, sizeof(alias));
	return true;
}

static int read_addresses(struct reader *r, unsigned records, const char *asked,
			  struct dns_reply *reply)
{
	char name[DNS_NAME_MAX + 1] = "";
	bool alias = true;

	memcpy(name, asked, strlen(asked) + 1);
	for (unsigned i = 0; i < ALIASES_MAX && alias && reply->count == 0; i++)
		if (!follow(*r, records, name, reply, &alias))
			return -EBADMSG;
	return 0;
}

int dns_answer_read(const void *bytes, size_t size, uint16_t id, const char *name,
		    struct dns_reply *ret)
{
	struct reader r = { bytes, size, 0 };
	struct dns_reply reply = { .ttl_sec = UINT32_MAX >> 1 };
	uint16_t told, flags, counts[4], type, class;
	char asked[DNS_NAME_MAX + 1];
	int error;

	if (size < HEAD_SIZE || strlen(name) > DNS_NAME_MAX || !take16(&r, &told) ||
	    !take16(&r, &flags) || told != id || !(flags & 0x8000) || flags & 0x7800)
		return -EBADMSG;
	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		if (!take16(&r, &counts[i]))
			return -EBADMSG;
	if (counts[0] != 1 || !take_name(&r, false, asked) || !take16(&r, &type) ||
	    !take16(&r, &class) || type != DNS_A || class != CLASS_IN || strcmp(asked, name) != 0)
		return -EBADMSG;
	if (flags & 0x0200)
		return -EMSGSIZE;
	if (counts[1] > RECORDS_MAX)
		return -EBADMSG;
	reply.code = (enum dns_code)(flags & 0xf);
	if (reply.code != DNS_NOERROR && reply.code != DNS_NXDOMAIN)
		reply.code = DNS_SERVFAIL;
	error = read_addresses(&r, counts[1], name, &reply);
	if (error < 0)
		return error;
	if (reply.count == 0)
		reply.ttl_sec = 0;
	*ret = reply;
	return 0;
}
