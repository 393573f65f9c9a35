/* SPDX-License-Identifier: Apache-2.0 */
/* Time as input: every message in two pieces, with a pause at every byte around every time-out.
 * What is judged in the end must not depend on when the bytes came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "face/egress/hearing.h"

/* One client: what it sends, what it is, and what must be found. */
struct message {
	const char *bytes;
	size_t n;
	enum egress_protocol protocol;
	const char *name;
	bool odd;
};

#define TEXT(text) text, sizeof(text) - 1

static char hello[512];

/* A ClientHello with this server name, in records of at most `record` bytes. */
static size_t put_hello(const char *name, size_t record)
{
	unsigned char body[256] = { 1, 0, 0, 0, 3, 3 };
	size_t n = strlen(name), at = 6 + 32, end, out = 0;
	const unsigned char rest[] = { 0, 0, 2, 0x13, 1, 1, 0 };

	memcpy(body + at, rest, sizeof(rest));
	at += sizeof(rest);
	body[at++] = (unsigned char)((n + 9) >> 8);
	body[at++] = (unsigned char)(n + 9);
	memcpy(body + at,
	       (unsigned char[]){ 0, 0, 0, (unsigned char)(n + 5), 0, (unsigned char)(n + 3), 0, 0,
				  (unsigned char)n },
	       9);
	memcpy(body + at + 9, name, n);
	end = at + 9 + n;
	body[3] = (unsigned char)(end - 4);
	for (size_t i = 0; i < end; i += record) {
		size_t part = MIN(record, end - i);

		memcpy(hello + out, (char[]){ 22, 3, 1, 0, (char)part }, 5);
		memcpy(hello + out + 5, body + i, part);
		out += 5 + part;
	}
	return out;
}

static const struct message texts[] = {
	{ TEXT("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), EGRESS_HTTP, "evil.test", false },
	{ TEXT("\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), EGRESS_HTTP, "evil.test", false },
	{ TEXT("\r\n\r\n\r\nPOST /x HTTP/1.0\r\nHost: a.test:81\r\n\r\n"), EGRESS_HTTP, "a.test",
	  false },
	{ TEXT("any / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), EGRESS_HTTP, "evil.test", false },
	{ TEXT(" GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), EGRESS_HTTP, "", true },
	{ TEXT("\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), EGRESS_HTTP, "", true },
	{ TEXT("GET / http/1.1\r\nHost: evil.test\r\n\r\n"), EGRESS_HTTP, "", true },
	{ TEXT("GET /\r\nHost: evil.test\r\n\r\n"), EGRESS_HTTP, "", true },
	/* a server that keeps lines as strings of C reads a request */
	{ TEXT("GET / HTTP/1.0\0x\r\nHost: evil.test\r\n\r\n"), EGRESS_HTTP, "", true },
	{ TEXT("any / HTTP/1.0\0\r\n"), EGRESS_HTTP, "", true },
	{ TEXT("GET /\0 HTTP/1.0\r\nHost: evil.test\r\n\r\n"), EGRESS_HTTP, "", true },
	{ TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), EGRESS_HTTP, "", true },
	{ TEXT("CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n"), EGRESS_HTTP, "",
	  true },
	{ TEXT("PROXY TCP4 1.1.1.1 2.2.2.2 3 4\r\nGET / HTTP/1.1\r\n"), EGRESS_HTTP, "", true },
	{ TEXT("\r\n\r\n\0\r\nQUIT\n"), EGRESS_HTTP, "", true },
	{ TEXT("\x15\x03\x01\0\x02\x01\x5a\x16\x03\x01"), EGRESS_TLS, "", true },
	{ TEXT("\x15HEAD\0\x13"), EGRESS_TCP, "", false },
	{ TEXT("EHLO x.test\r\n"), EGRESS_TCP, "", false },
	{ TEXT("SSH-2.0-OpenSSH_9.2p1 Debian\r\n"), EGRESS_TCP, "", false },
	{ TEXT("*1\r\n$4\r\nPING\r\n"), EGRESS_TCP, "", false },
	{ TEXT("0032git-upload-pack /x\0host=a.test\0"), EGRESS_TCP, "", false },
	{ TEXT("\0\0\0\x08\x04\xd2\x16\x2f"), EGRESS_TCP, "", false },
	{ TEXT(" \0\0\x01\x85\xae\xff\x01"), EGRESS_TCP, "", false }, /* MySQL, TLS asked for */
	{ TEXT("{\"hello\": 1}\n"), EGRESS_TCP, "", false },
};

static void found(const struct message *m, const struct sniff *said, size_t cut, int64_t pause)
{
	if (said->protocol != m->protocol || strcmp(said->name, m->name) != 0 ||
	    said->odd != m->odd)
		fail_msg("%.*s: cut %zu, pause %lld: protocol %d, name '%s', odd %d", (int)m->n,
			 m->bytes, cut, (long long)pause, said->protocol, said->name, said->odd);
}

/* The clock runs in the steps in which the relay looks at it: whenever something is due. */
static void wait_for(struct hearing *h, int64_t *now_ms, int64_t pause)
{
	int64_t until = *now_ms + pause;

	while (h->due_ms && h->due_ms <= until) {
		*now_ms = MAX(*now_ms, h->due_ms);
		hearing_time(h, *now_ms);
	}
	*now_ms = until;
}

static void play(const struct message *m, bool client_first, size_t cut, const int64_t pauses[2])
{
	struct hearing h;
	int64_t now_ms = 1000000;
	enum hearing_state silent;
	bool gave_up;

	hearing_begin(&h, client_first, now_ms);
	wait_for(&h, &now_ms, pauses[0]);
	silent = pauses[0] >= (client_first ? HEARING_WEB_MS : HEARING_MS) ? HEARING_SILENT
									   : HEARING_QUIET;
	assert_int_equal(h.state, silent);
	if (cut)
		hearing_bytes(&h, m->bytes, cut, false, now_ms);
	if (h.state != HEARING_SAID)
		assert_true(h.state == (silent == HEARING_SILENT ? HEARING_SILENT
					: cut			 ? HEARING_PARTIAL
								 : HEARING_QUIET));
	gave_up = h.state == HEARING_PARTIAL && pauses[1] >= HEARING_WEB_MS;
	wait_for(&h, &now_ms, pauses[1]);
	if (gave_up) { /* never judged as if it were something harmless */
		assert_int_equal(h.state, HEARING_SAID);
		assert_true(h.said.odd && h.said.protocol != EGRESS_TCP);
		return;
	}
	hearing_bytes(&h, m->bytes, m->n, false, now_ms);
	assert_int_equal(h.state, HEARING_SAID);
	found(m, &h.said, cut, pauses[0]);
}

static void play_all(const struct message *m)
{
	static const int64_t pauses[] = { 0,
					  1,
					  HEARING_MS - 1,
					  HEARING_MS,
					  HEARING_MS + 1,
					  HEARING_WEB_MS - 1,
					  HEARING_WEB_MS,
					  HEARING_WEB_MS + 1,
					  86400000 };

	for (size_t cut = 0; cut <= m->n; cut++)
		for (size_t i = 0; i < ARRAY_LEN(pauses) * ARRAY_LEN(pauses) * 2; i++)
			play(m, i % 2, cut,
			     (int64_t[]){ pauses[i / 2 % ARRAY_LEN(pauses)],
					  pauses[i / 2 / ARRAY_LEN(pauses)] });
}

static void pauses_change_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		play_all(&texts[i]);
}

static void pauses_in_a_hello_change_nothing(void **state)
{
	static const size_t records[] = { 255, 40, 7, 1 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(records); i++) {
		struct message m = { hello, put_hello("evil.test", records[i]), EGRESS_TLS,
				     "evil.test", false };

		play_all(&m);
	}
}

/* Byte by byte, for ever: a beginning is never taken for something else than the whole. */
static void beginnings_are_held(void **state)
{
	struct sniff whole, part;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		assert_true(sniff(texts[i].bytes, texts[i].n, false, &whole));
		for (size_t n = 1; n < texts[i].n; n++)
			if (sniff(texts[i].bytes, n, false, &part) &&
			    (part.protocol != whole.protocol || part.odd != whole.odd ||
			     strcmp(part.name, whole.name) != 0))
				fail_msg("%s: %zu bytes are judged otherwise", texts[i].bytes, n);
	}
}

/* Behind an answer: TLS is read, what only begins like it is not held for ever. */
static void what_follows_an_answer(void **state)
{
	static const char statement[] = "\x16\x03\0\0\x03SELECT 1",
			  execute[] = "\x16\0\0\0\x17\x01\0\0\0\0";
	struct hearing h;
	struct sniff said;

	(void)state;
	assert_true(sniff(statement, sizeof(statement) - 1, false, &said) && said.broken);
	assert_true(sniff(execute, sizeof(execute) - 1, false, &said) && said.broken);
	hearing_again(&h);
	hearing_bytes(&h, hello, put_hello("evil.test", 255), false, 5);
	assert_int_equal(h.state, HEARING_SAID);
	assert_string_equal(h.said.name, "evil.test");
	assert_false(h.said.broken);
}

/* The first of two names must not decide: servers differ in which one they take. */
static void two_names_are_odd(void **state)
{
	size_t n = put_hello("a.test", 255);
	struct sniff said;

	(void)state;
	/* One more extension of the same kind: lengths of record, hello and extensions grow. */
	memcpy(hello + n, hello + n - 15, 15);
	hello[4] = (char)(hello[4] + 15);
	hello[8] = (char)(hello[8] + 15);
	hello[5 + 38 + 8] = (char)(hello[5 + 38 + 8] + 15);
	assert_true(sniff(hello, n + 15, false, &said));
	assert_true(said.odd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pauses_change_nothing),
		cmocka_unit_test(pauses_in_a_hello_change_nothing),
		cmocka_unit_test(beginnings_are_held),
		cmocka_unit_test(what_follows_an_answer),
		cmocka_unit_test(two_names_are_odd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
