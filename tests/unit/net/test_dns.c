/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/dns.h"

static const uint8_t question[] = "\0\7\1\0\0\1\0\0\0\0\0\0\7Allowed\4test\0\0\1\0\1";
#define QUESTION_SIZE (sizeof(question) - 1)

static void a_question_is_answered_in_its_own_case(void **state)
{
	struct dns_question q;
	struct dns_reply reply = {
		.code = DNS_NOERROR, .ttl_sec = 60, .count = 1, .addresses = { 0x5db8d822 }
	};
	uint8_t out[512];
	size_t n;

	(void)state;
	assert_int_equal(dns_question_read(question, QUESTION_SIZE, &q), DNS_NOERROR);
	assert_string_equal(q.name, "allowed.test");
	assert_int_equal(q.type, DNS_A);
	assert_false(q.edns);
	n = dns_reply_write(&q, &reply, out, sizeof(out));
	assert_int_equal(n, QUESTION_SIZE + 16);
	assert_memory_equal(out + 12, question + 12, QUESTION_SIZE - 12);
	assert_memory_equal(out + n - 4, "\x5d\xb8\xd8\x22", 4);
	/* One byte less than it needs: cut, and it says so. */
	n = dns_reply_write(&q, &reply, out, QUESTION_SIZE + 15);
	assert_int_equal(n, QUESTION_SIZE);
	assert_true(out[2] & 2);
}

static void what_is_no_question_is_refused(void **state)
{
	uint8_t bytes[QUESTION_SIZE + 1];
	struct dns_question q;

	(void)state;
	memcpy(bytes, question, QUESTION_SIZE);
	bytes[QUESTION_SIZE] = 0;
	assert_int_equal(dns_question_read(bytes, 11, &q), -EBADMSG);
	assert_int_equal(dns_question_read(bytes, QUESTION_SIZE - 1, &q), DNS_FORMERR);
	assert_int_equal(dns_question_read(bytes, QUESTION_SIZE + 1, &q), DNS_FORMERR);
	bytes[2] = 0x81;
	assert_int_equal(dns_question_read(bytes, QUESTION_SIZE, &q), -EBADMSG); /* an answer */
	bytes[2] = 0x29;
	assert_int_equal(dns_question_read(bytes, QUESTION_SIZE, &q), DNS_NOTIMP);
	bytes[2] = 1;
	bytes[14] = '.';
	assert_int_equal(dns_question_read(bytes, QUESTION_SIZE, &q), DNS_FORMERR);
	bytes[14] = 0;
	assert_int_equal(dns_question_read(bytes, QUESTION_SIZE, &q), DNS_FORMERR);
	bytes[14] = 'l';
	bytes[QUESTION_SIZE - 1] = 3;
	assert_int_equal(dns_question_read(bytes, QUESTION_SIZE, &q), DNS_REFUSED);
}

/* allowed.test -> b.test -> 1.2.3.4, and an address of a third name that was not requested. */
static const uint8_t answer[] = "\0\7\x81\x80\0\1\0\3\0\0\0\0\7allowed\4test\0\0\1\0\1"
				"\xc0\x0c\0\5\0\1\0\0\0\x3c\0\4\1b\xc0\x14"
				"\1b\xc0\x14\0\1\0\1\0\0\0\x0a\0\4\1\2\3\4"
				"\4evil\xc0\x14\0\1\0\1\0\0\0\x0a\0\4\5\6\7\x8";

static void an_answer_is_followed_through_aliases(void **state)
{
	struct dns_reply reply;

	(void)state;
	assert_int_equal(dns_answer_read(answer, sizeof(answer) - 1, 7, "allowed.test", &reply), 0);
	assert_int_equal(reply.count, 1);
	assert_int_equal(reply.addresses[0], 0x01020304);
	assert_int_equal(reply.ttl_sec, 10);
}

static void a_wrong_answer_is_not_taken(void **state)
{
	uint8_t bytes[sizeof(answer) - 1];
	struct dns_reply reply;

	(void)state;
	memcpy(bytes, answer, sizeof(bytes));
	assert_int_equal(dns_answer_read(bytes, sizeof(bytes), 8, "allowed.test", &reply),
			 -EBADMSG);
	assert_int_equal(dns_answer_read(bytes, sizeof(bytes), 7, "other.test", &reply), -EBADMSG);
	assert_int_equal(dns_answer_read(bytes, sizeof(bytes) - 1, 7, "allowed.test", &reply),
			 -EBADMSG);
	bytes[2] |= 2;
	assert_int_equal(dns_answer_read(bytes, sizeof(bytes), 7, "allowed.test", &reply),
			 -EMSGSIZE);
	bytes[2] = 1;
	assert_int_equal(dns_answer_read(bytes, sizeof(bytes), 7, "allowed.test", &reply),
			 -EBADMSG);
}

/* A pointer to itself, and one forward. */
static void pointers_lead_back_only(void **state)
{
	uint8_t bytes[sizeof(answer) - 1];
	struct dns_reply reply;

	(void)state;
	memcpy(bytes, answer, sizeof(bytes));
	bytes[31] = 30;
	assert_int_equal(dns_answer_read(bytes, sizeof(bytes), 7, "allowed.test", &reply),
			 -EBADMSG);
	bytes[31] = 46;
	assert_int_equal(dns_answer_read(bytes, sizeof(bytes), 7, "allowed.test", &reply),
			 -EBADMSG);
}

static void our_questions_are_plain(void **state)
{
	struct dns_question q;
	uint8_t out[512];
	size_t n = dns_ask_write(0x1234, "a.b.test", out, sizeof(out));

	(void)state;
	assert_int_equal(dns_question_read(out, n, &q), DNS_NOERROR);
	assert_string_equal(q.name, "a.b.test");
	assert_int_equal(q.id, 0x1234);
	assert_true(q.edns && q.recursion);
	assert_int_equal(dns_ask_write(1, "", out, sizeof(out)), 0);
	assert_int_equal(dns_ask_write(1, "a..b", out, sizeof(out)), 0);
	assert_int_equal(dns_ask_write(1, "a.", out, sizeof(out)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_question_is_answered_in_its_own_case),
		cmocka_unit_test(what_is_no_question_is_refused),
		cmocka_unit_test(an_answer_is_followed_through_aliases),
		cmocka_unit_test(a_wrong_answer_is_not_taken),
		cmocka_unit_test(pointers_lead_back_only),
		cmocka_unit_test(our_questions_are_plain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
