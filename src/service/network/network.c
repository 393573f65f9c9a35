/* SPDX-License-Identifier: Apache-2.0 */
#include "service/network/network_internal.h"
#include "service/network/egress_internal.h"
#include "service/network/network_private.h"
#include "service/network/preview_internal.h"

struct network *network_new(void)
{
	struct network *network = calloc(1, sizeof(*network));

	if (network)
		map_init(&network->by_address);
	return network;
}

int network_load(struct service *service, struct err *err)
{
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
	map_done(&service->network->by_address);
	free(service->network);
}
