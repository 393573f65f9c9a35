/* SPDX-License-Identifier: Apache-2.0 */
/* Writes templates and their builds as REST objects. */
#include "face/kit/json/pairs.h"
#include "face/rest/write.h"
#include "service/sandbox/initializer.h"
#include "service/template/template.h"

/* A command without options is a string. */
static void write_initializer(const struct initializer *one, struct json_writer *w)
{
	const struct exec_spec *exec = &one->exec;

	if (!exec->cwd.n && !exec->user.n && !one->name.n && !one->continue_on_error &&
	    exec->timeout_sec == INITIALIZER_TIMEOUT_SEC) {
		json_put_str(w, NULL, exec->command);
		return;
	}
	json_begin_object(w, NULL);
	json_put_str(w, "command", exec->command);
	if (exec->cwd.n)
		json_put_str(w, "cwd", exec->cwd);
	if (exec->user.n)
		json_put_str(w, "user", exec->user);
	if (one->name.n)
		json_put_str(w, "name", one->name);
	json_put_int(w, "timeout_sec", exec->timeout_sec);
	json_put_bool(w, "continue_on_error", one->continue_on_error);
	json_end_object(w);
}

static void write_initializers(const struct initializers *initializers, struct json_writer *w)
{
	struct initializer_list list = initializers_list(initializers);

	json_begin_array(w, "initializers");
	for (size_t i = 0; i < list.count; i++)
		write_initializer(&list.list[i], w);
	json_end_array(w);
}

void template_write(const struct template *tpl, struct json_writer *w, const char *key)
{
	json_begin_object(w, key);
	json_put_text(w, "id", tpl->name);
	json_put_text(w, "name", tpl->name);
	json_put_int(w, "version", tpl->version);
	json_put_text(w, "hash", tpl->hash_hex);
	json_put_int(w, "size_bytes", tpl->size_bytes);
	json_put_int(w, "files", tpl->files);
	json_put_text(w, "created_at", tpl->created_at[0] ? tpl->created_at : NULL);
	json_put_text(w, "workdir", tpl->workdir[0] ? tpl->workdir : NULL);
	json_put_text(w, "user", tpl->user[0] ? tpl->user : NULL);
	json_put_text(w, "shell", tpl->shell);
	json_put_text(w, "from", tpl->from[0] ? tpl->from : NULL);
	if (tpl->preview_port)
		json_put_int(w, "preview_port", tpl->preview_port);
	else
		json_put_null(w, "preview_port");
	pairs_write(&tpl->env, w, "env");
	write_initializers(tpl->initializers, w);
	json_end_object(w);
}

void build_write(const struct build *build, struct json_writer *w)
{
	json_put_text(w, "id", build->id);
	json_put_text(w, "template_id", build->name);
	json_put_text(w, "state", build_state_names[build->state]);
	json_put_text(w, "step", build->step[0] ? build->step : NULL);
	json_put_time(w, "started_at", build->started_ms);
	json_put_time(w, "finished_at", build->finished_ms);
	json_put_text(w, "error", build->error[0] ? build->error : NULL);
}
