/* SPDX-License-Identifier: Apache-2.0 */
#include "one_agent.h"

struct rig rig;
struct caller *caller;

int one_agent_setup(void **state)
{
	(void)state;
	caller = caller_new(&rig, caller_as_root);
	return 0;
}

int one_agent_teardown(void **state)
{
	(void)state;
	caller_free(caller, &rig);
	return 0;
}

void one_agent_reconnect(void)
{
	uint32_t follow = caller->next_follow;

	caller_close(caller);
	caller_open(caller, &rig);
	caller->next_follow = follow;
}
