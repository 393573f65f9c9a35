/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS: a parsed question is repeated in the reply; a parsed answer contains only what can be
 * written again. Both parsers accept any bytes.
 */
#include <assert.h>

#include "net/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_question(const uint8_t *data, size_t size)
{
	struct dns_question question, again;
	struct dns_reply reply = { .code = DNS_NXDOMAIN, .ttl_sec = 60, .why = "filtered" };
	uint8_t out[DNS_MESSAGE_MAX];
	int code = dns_question_read(data, size, &question);
	size_t n;

	if (code < 0)
		return;
	assert(strlen(question.name) <= DNS_NAME_MAX && question.size <= sizeof(question.bytes));
	for (reply.count = 0; reply.count < DNS_ADDRESSES_MAX; reply.count++)
		reply.addresses[reply.count] = 0x01020304;
	for (size_t room = 0; room <= sizeof(out); room += 61) {
		n = dns_reply_write(&question, &reply, out, room);
		assert(n <= room);
		/* An answer is not a question. */
		assert(n == 0 || dns_question_read(out, n, &again) < 0);
	}
}

static void check_answer(const uint8_t *data, size_t size)
{
	struct dns_reply reply;
	uint8_t ask[512];
	char name[DNS_NAME_MAX + 1] = "a.test";
	size_t n = dns_ask_write(7, name, ask, sizeof(ask));

	assert(n > 12 && dns_answer_read(ask, n, 7, name, &reply) < 0);
	if (dns_answer_read(data, size, size > 1 ? (uint16_t)(data[0] << 8 | data[1]) : 0, name,
			    &reply) == 0)
		assert(reply.count <= DNS_ADDRESSES_MAX && reply.code <= DNS_REFUSED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_question(data, size);
	check_answer(data, size);
	return 0;
}
