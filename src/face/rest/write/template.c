/* SPDX-License-Identifier: Apache-2.0 */
/* Templates and their builds in the words of the REST API. */
#include "face/kit/pairs.h"
#include "face/rest/write.h"
#include "service/sandbox/initializer.h"
#include "service/template/template.h"

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
	initializers_write(tpl->initializers, w, "initializers");
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
