/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service/run only: the state of the theme. */
#ifndef CAY_SERVICE_RUN_RUN_PRIVATE_H
#define CAY_SERVICE_RUN_RUN_PRIVATE_H

#include "service/service_internal.h"

/* Owner: the service. */
struct runs {
	struct slot_table execs;
	struct slot_table follows;
	struct slot_table window_calls;
	struct slot_table code_jobs;
	struct op_list exit_watches;
	struct op_list starts;
};

#endif
