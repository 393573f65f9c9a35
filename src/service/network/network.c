/* SPDX-License-Identifier: Apache-2.0 */
#include "service/network/network_internal.h"
#include "service/network/egress_internal.h"
#include "service/network/network_private.h"
#include "service/network/preview_internal.h"

#define SETTING "egress_allow_private"
#define EGRESS_OPENED_MAX 64

struct network *network_new(void)
{
	struct network *network = calloc(1, sizeof(*network));

	if (network)
		map_init(&network->by_address);
	return network;
}

/* Parses networks separated by blanks or commas. Names are rejected, because the operator does not
 * control where they lead; ports are, because a network is opened as a whole. */
static int open_networks(struct network *network, struct str rest, struct err *err)
{
	network->opened = calloc(EGRESS_OPENED_MAX, sizeof(*network->opened));
	if (!network->opened)
		return err_set(err, ERR_INTERNAL, "out of memory");
	for (rest = str_trim(rest, " ,"); rest.n; rest = str_trim(rest, " ,")) {
		struct egress_rule *rule = &network->opened[network->opened_count];
		size_t n = 0;

		while (n < rest.n && rest.p[n] != ' ' && rest.p[n] != ',')
			n++;
		if (network->opened_count == EGRESS_OPENED_MAX)
			return err_set(err, ERR_INVALID_REQUEST, SETTING ": at most %d networks",
				       EGRESS_OPENED_MAX);
		if (egress_rule_parse((struct str){ rest.p, n }, SETTING, rule, err) < 0)
			return -1;
		network->opened_count++;
		if (rule->kind != EGRESS_NET || rule->port)
			return err_set(err, ERR_INVALID_REQUEST,
				       SETTING ": '%s' is not an address or a network like "
					       "10.1.0.0/16",
				       rule->text);
		rest = (struct str){ rest.p + n, rest.n - n };
	}
	return 0;
}

int network_load(struct service *service, struct err *err)
{
	const char *opened = service->config.egress_allow_private;

	if (opened && open_networks(service->network, str_of(opened), err) < 0)
		return -1;
	return denials_load(service, err) < 0 || preview_load(service, err) < 0 ? -1 : 0;
}

void network_tick(struct service *service)
{
	preview_tick(service);
	denials_tick(service);
}

void network_stop(struct service *service)
{
	port_stop_all(service);
	denials_save_all(service);
}

void network_close(struct service *service)
{
	struct network *network = service->network;

	for (uint32_t i = 0; i < network->opened_count; i++)
		egress_rule_done(&network->opened[i]);
	free(network->opened);
	map_done(&network->by_address);
	free(network);
}
