/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of /proc/net/tcp: " 0: 0100007F:1F90 00000000:0000 0A ... uid timeout inode ...". */
#include <errno.h>

#include "agent/port/ports.h"

#define STATE_LISTEN 0x0A
#define FIELDS_MAX 10

static int unhex(struct str text, uint64_t *ret)
{
	uint64_t value = 0;

	if (text.n == 0 || text.n > 16)
		return -EINVAL;
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		unsigned digit = c >= '0' && c <= '9'	? (unsigned)(c - '0')
				 : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
				 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
							: 16;

		if (digit == 16)
			return -EINVAL;
		value = value << 4 | digit;
	}
	*ret = value;
	return 0;
}

/* 32-bit values in the machine's byte order. */
static int address(struct str text, bool v6, uint8_t dst[16])
{
	size_t words = v6 ? 4 : 1;
	uint64_t word;

	memset(dst, 0, 16);
	if (text.n != words * 8)
		return -EINVAL;
	for (size_t i = 0; i < words; i++) {
		uint32_t native;

		if (unhex((struct str){ text.p + 8 * i, 8 }, &word) < 0)
			return -EINVAL;
		native = (uint32_t)word;
		memcpy(dst + 4 * i, &native, 4);
	}
	return 0;
}

static size_t split(struct str line, struct str fields[FIELDS_MAX])
{
	size_t count = 0, at = 0;

	while (count < FIELDS_MAX) {
		size_t from;

		while (at < line.n && line.p[at] == ' ')
			at++;
		from = at;
		while (at < line.n && line.p[at] != ' ')
			at++;
		if (at == from)
			break;
		fields[count++] = (struct str){ line.p + from, at - from };
	}
	return count;
}

int ports_parse_line(struct str line, bool v6, struct agent_port *ret, uint64_t *ret_inode)
{
	struct agent_port port = { .family = v6 ? 6 : 4 };
	struct str fields[FIELDS_MAX], host, number;
	uint64_t value, state, uid, inode;

	/* 0 sl, 1 local, 2 remote, 3 state, 4 queues, 5 timer, 6 retransmits, 7 uid, 8 timeout,
	 * 9 inode */
	if (split(line, fields) < FIELDS_MAX || unhex(fields[3], &state) < 0 ||
	    !str_cut(fields[1], ':', &host, &number) || unhex(number, &value) < 0 ||
	    value > UINT16_MAX || address(host, v6, port.address) < 0 ||
	    str_to_u64(fields[7], UINT32_MAX, &uid) < 0 ||
	    str_to_u64(fields[9], INT64_MAX, &inode) < 0)
		return -EINVAL;
	if (state != STATE_LISTEN || value == 0)
		return 0;
	port.port = (uint16_t)value;
	port.uid = (uint32_t)uid;
	*ret = port;
	*ret_inode = inode;
	return 1;
}
