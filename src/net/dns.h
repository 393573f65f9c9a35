/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS messages, without I/O: questions of sandboxes, our replies, our questions to outside servers,
 * and their answers. Both peers are hostile. A message that is not fully understood is rejected. No
 * part of a message is passed on; replies are serialized from the parsed values.
 */
#ifndef CAY_NET_DNS_H
#define CAY_NET_DNS_H

#include "base/str.h"

#define DNS_NAME_MAX 253
#define DNS_MESSAGE_MAX 4096 /* limit for reading and writing */
#define DNS_UDP_SIZE 1232    /* the size we advertise; fits every path */
#define DNS_ADDRESSES_MAX 32 /* per answer; more are left out */

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
	uint16_t udp_size; /* maximum that the client accepts */
	/* size of the question in the message, to be repeated in the reply */
	size_t size;
	uint8_t bytes[256 + 4];	     /* the question: the reply repeats the case of the name */
	char name[DNS_NAME_MAX + 1]; /* lower case, labels of visible characters without dots */
};

/*
 * -EBADMSG: not even an id to reply to. DNS_FORMERR and similar: the code to reply with; ret has
 * what was understood. DNS_NOERROR: one question of class IN.
 */
int dns_question_read(const void *bytes, size_t size, struct dns_question *ret) _must_check_;

struct dns_reply {
	enum dns_code code;
	uint32_t ttl_sec;
	size_t count;
	uint32_t addresses[DNS_ADDRESSES_MAX]; /* IPv4, host byte order */
	/* NULL, or a reason for clients that support extended errors (RFC 8914, Filtered) */
	const char *why;
};
/* room: the maximum size; a longer reply is truncated and marked so. Returns the size. */
size_t dns_reply_write(const struct dns_question *question, const struct dns_reply *reply,
		       void *ret, size_t room);

/* Writes a question for the addresses of a name. Returns the size, 0 if the name is invalid. */
size_t dns_ask_write(uint16_t id, const char *name, void *ret, size_t room);
/*
 * Reads the answer: 0, -EBADMSG if it does not answer this question (wait for another), -EMSGSIZE
 * if it was truncated (ask over TCP). The addresses are those that the name leads to, through
 * aliases.
 */
int dns_answer_read(const void *bytes, size_t size, uint16_t id, const char *name,
		    struct dns_reply *ret) _must_check_;

#endif
