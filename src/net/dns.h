/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS messages, both ways and without I/O: questions of sandboxes, our answers, our questions to
 * servers outside, their answers. Both peers are hostile. What is not understood is refused whole;
 * nothing of a message is ever passed on, only what was read out of it is written anew.
 */
#ifndef CAY_NET_DNS_H
#define CAY_NET_DNS_H

#include "base/str.h"

#define DNS_NAME_MAX 253
#define DNS_MESSAGE_MAX 4096 /* of what we read and write */
#define DNS_UDP_SIZE 1232    /* what we say we take; fits every path */
#define DNS_ADDRESSES_MAX 32 /* of one answer; more are left out */

enum dns_type {
	DNS_A = 1,
	DNS_AAAA = 28,
};

enum dns_code {
	DNS_NOERROR = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
};

struct dns_question {
	uint16_t id;
	uint16_t type;
	bool recursion;
	bool edns;
	uint16_t udp_size;	     /* what the asker takes */
	size_t size;		     /* of the question's bytes in the message, for the answer */
	uint8_t bytes[256 + 4];	     /* them: the name's case is given back as it came */
	char name[DNS_NAME_MAX + 1]; /* lower case, labels of visible characters without dots */
};

/*
 * -EBADMSG: not even an id to answer to. DNS_FORMERR and the like: what to answer with, ret has
 * what was understood. DNS_NOERROR: one question of class IN.
 */
int dns_question_read(const void *bytes, size_t size, struct dns_question *ret) _must_check_;

struct dns_reply {
	enum dns_code code;
	uint32_t ttl_sec;
	size_t count;
	uint32_t addresses[DNS_ADDRESSES_MAX]; /* IPv4, the host's byte order */
	const char *why; /* NULL, or told to those who understand it (RFC 8914, Filtered) */
};
/* room: how much may be written; an answer that is longer is cut and says so. The size. */
size_t dns_reply_write(const struct dns_question *question, const struct dns_reply *reply,
		       void *ret, size_t room);

/* A question for the addresses of a name. The size, 0 when the name is none. */
size_t dns_ask_write(uint16_t id, const char *name, void *ret, size_t room);
/*
 * What answers it: 0, -EBADMSG when it is no answer to this question (wait for another), -EMSGSIZE
 * when it was cut (ask by TCP). Addresses are those the name leads to, through aliases.
 */
int dns_answer_read(const void *bytes, size_t size, uint16_t id, const char *name,
		    struct dns_reply *ret) _must_check_;

#endif
