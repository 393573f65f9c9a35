/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of /proc/net/tcp and tcp6. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "agent/port/ports.h"

#define REST " 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0"

static int parse(const char *line, bool v6, struct agent_port *port, uint64_t *inode)
{
	return ports_parse_line(str_of(line), v6, port, inode);
}

static void a_listening_socket_is_read(void **state)
{
	static const uint8_t loopback[4] = { 127, 0, 0, 1 };
	struct agent_port port;
	uint64_t inode;

	(void)state;
	assert_int_equal(parse("   0: 0100007F:1F90 00000000:0000 0A" REST, false, &port, &inode),
			 1);
	assert_int_equal(port.port, 8080);
	assert_int_equal(port.family, 4);
	assert_memory_equal(port.address, loopback, sizeof(loopback));
	assert_int_equal(port.uid, 1000);
	assert_int_equal(inode, 4711);
}

static void an_address_of_version_6_is_read(void **state)
{
	static const uint8_t loopback[16] = { [15] = 1 };
	struct agent_port port;
	uint64_t inode;

	(void)state;
	assert_int_equal(parse("12: 00000000000000000000000001000000:FFFF "
			       "00000000000000000000000000000000:0000 0A" REST,
			       true, &port, &inode),
			 1);
	assert_int_equal(port.port, 65535);
	assert_int_equal(port.family, 6);
	assert_memory_equal(port.address, loopback, sizeof(loopback));
}

static void other_sockets_are_left_out(void **state)
{
	struct agent_port port = { .port = 7 };
	uint64_t inode = 9;

	(void)state;
	assert_int_equal(parse("0: 0100007F:1F90 0100007F:0050 01" REST, false, &port, &inode), 0);
	assert_int_equal(parse("0: 0100007F:0000 00000000:0000 0A" REST, false, &port, &inode), 0);
	assert_int_equal(port.port, 7);
	assert_int_equal(inode, 9);
}

static void malformed_lines_are_rejected(void **state)
{
	static const char *const lines[] = {
		"",
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt",
		"0: 0100007F:1F90 00000000:0000 0A",
		"0: 0100007F 00000000:0000 0A" REST,
		"0: 0100007F:11F90 00000000:0000 0A" REST,
		"0: 0100007F: 00000000:0000 0A" REST,
		"0: 0100007:1F90 00000000:0000 0A" REST,
		"0: 0100007G:1F90 00000000:0000 0A" REST,
		"0: 0100007F:1F90 00000000:0000 0X" REST,
		"0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 99999999999 0 1",
		"0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 -1",
	};
	struct agent_port port;
	uint64_t inode;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		if (parse(lines[i], false, &port, &inode) != -EINVAL)
			fail_msg("accepted: %s", lines[i]);
	/* An address of the other family has another length. */
	assert_int_equal(parse("0: 0100007F:1F90 00000000:0000 0A" REST, true, &port, &inode),
			 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_listening_socket_is_read),
		cmocka_unit_test(an_address_of_version_6_is_read),
		cmocka_unit_test(other_sockets_are_left_out),
		cmocka_unit_test(malformed_lines_are_rejected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
