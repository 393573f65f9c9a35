/* SPDX-License-Identifier: Apache-2.0 */
/* The output of 'cay up' when the daemon is ready. */
#include <stdio.h>
#include <string.h>

#include "cli/daemon/user_state.h"
#include "cli/daemon/up.h"

static int print_json(struct cli *cli, const struct up *up, struct err *err)
{
	struct json_writer w;
	struct buf out;
	char path[PATH_MAX + 16];

	buf_init(&out, 65536);
	json_writer_init(&w, &out);
	json_begin_object(&w, NULL);
	json_put_text(&w, "url", cli->url);
	json_put_text(&w, "state", up->state);
	(void)snprintf(path, sizeof(path), "%s/admin.key", up->state);
	json_put_text(&w, "key_file", path);
	(void)snprintf(path, sizeof(path), "%s/logs", up->state);
	json_put_text(&w, "logs", path);
	json_put_bool(&w, "already_running", up->already);
	json_end_object(&w);
	if (json_writer_end(&w) == 0)
		(void)printf("%.*s\n", (int)buf_len(&out), buf_data(&out));
	buf_done(&out);
	return 0;
}

/* Settings for programs written for E2B; the key itself stays in its file. */
static void print_e2b(const struct cli *cli, const struct up *up)
{
	(void)printf("  e2b   export E2B_API_URL=%s\n", cli->url);
	(void)printf("        export E2B_SANDBOX_URL=%s\n", cli->url);
	(void)printf("        export E2B_API_KEY=$(sed s/cay_/e2b_/ %s/admin.key)\n", up->state);
}

/* The next command would use another daemon. */
static void warn_other_url(const struct cli *cli)
{
	const char *url = getenv("CAY_URL");

	if (url != NULL && url[0] != '\0' && !cli_url_is_local(cli, url))
		cli_note(cli, "warning: CAY_URL names %s: commands without --state go there", url);
}

int up_print(struct cli *cli, const struct up *up, struct err *err)
{
	bool c = cli->color_out;
	bool other = strcmp(up->state, CLI_DEFAULT_STATE) != 0 && !user_state_is(up->state);

	if (cli->json)
		return print_json(cli, up, err);
	if (cli->quiet) {
		(void)printf("%s\n", cli->url);
		return 0;
	}
	(void)printf("%scay %s%s at %s%s%s\n", style_on(c, STYLE_GREEN),
		     up->already ? "is already up" : "is up", style_off(c), style_on(c, STYLE_BOLD),
		     cli->url, style_off(c));
	(void)printf("  key   %s/admin.key\n  logs  %s/logs\n", up->state, up->state);
	if (up->config.engine_local)
		(void)printf("  %swarning: the local engine isolates nothing: commands run on this "
			     "host with the daemon's rights, files and network%s\n",
			     style_on(c, STYLE_YELLOW), style_off(c));
	if (other)
		(void)printf("  next  export CAY_STATE=%s\n        cay run -- echo hello\n",
			     up->state);
	else
		(void)printf("  next  cay run -- echo hello\n");
	(void)printf("        cay help\n        cay down\n");
	print_e2b(cli, up);
	warn_other_url(cli);
	(void)fflush(stdout);
	return 0;
}
