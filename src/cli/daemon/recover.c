/* SPDX-License-Identifier: Apache-2.0 */
/* cay recover */
#include <stdio.h>

#include "cli/api/api.h"
#include "cli/line/command.h"
#include "cli/output/show.h"

int recover_run(struct cli *cli, const struct args *args, struct err *err)
{
	_cleanup_json_ struct json *made = NULL;

	(void)args;
	if (api_call(cli, "POST", "/v1/admin/recover", NULL, &made, err) < 0)
		return -1;
	if (cli->json)
		return api_print(cli, made, err);
	(void)printf("listed %lld snapshots; saved %lld running sandboxes as snapshots\n",
		     (long long)field_int(made, "snapshots", 0),
		     (long long)field_int(made, "sandboxes", 0));
	return 0;
}
