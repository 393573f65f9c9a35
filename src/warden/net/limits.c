/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator grants every link. cayd reads the same settings only to accept the file. */
#include <errno.h>
#include <stdio.h>

#include "base/str.h"
#include "base/text/ini.h"
#include "base/value/bounds.h"
#include "warden/net/links.h"

struct row {
	const char *name, *variable;
	uint32_t min, max, fallback;
};

static int read_row(const struct row *row, const char *config, uint32_t *ret)
{
	const char *text = getenv(row->variable);
	char found[32];
	uint64_t value;

	*ret = row->fallback;
	if (!text && ini_find(config, row->name, found, sizeof(found)) == 0)
		text = found;
	if (!text)
		return 0;
	if (str_to_u64(str_of(text), row->max, &value) < 0 || value < row->min) {
		(void)fprintf(stderr, "cay-warden: %s is '%s'; it must be an integer of %u to %u\n",
			      row->name, text, row->min, row->max);
		return -EINVAL;
	}
	*ret = (uint32_t)value;
	return 0;
}

int link_limits_read(const char *config, struct link_limits *ret)
{
	static const struct row rate = { "network_rate_mbit", "CAY_NETWORK_RATE_MBIT", 0,
					 BOUNDS_LINK_MBIT_MAX, 1000 };
	static const struct row opened = { "network_connects_per_sec",
					   "CAY_NETWORK_CONNECTS_PER_SEC", 1,
					   BOUNDS_LINK_CONNECTS_MAX, 500 };
	static const struct row open = { "network_connections", "CAY_NETWORK_CONNECTIONS", 1,
					 BOUNDS_LINK_CONNECTIONS_MAX, 1024 };

	if (!config)
		config = getenv("CAY_CONFIG");
	if (!config)
		config = INI_FILE;
	if (read_row(&rate, config, &ret->rate_mbit) < 0 ||
	    read_row(&opened, config, &ret->new_per_sec) < 0)
		return -EINVAL;
	return read_row(&open, config, &ret->connections);
}
