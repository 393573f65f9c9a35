/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a creation in E2B's control plane, and the spec that it becomes. */
#include "face/e2b/call.h"

struct str template_name_of(struct str id)
{
	struct str head, rest;

	if (str_cut(id, '/', &head, &rest))
		id = rest;
	if (str_cut(id, ':', &head, &rest))
		id = head;
	return id;
}

struct create_body {
	struct network_body network; /* the first member: the offsets of its rows count from here */
	struct str template;
	int64_t timeout_sec;
	bool has_timeout;
	struct text_map env, metadata;
	bool auto_pause, auto_pause_memory, auto_resume;
	const struct json *mcp;
};
static_assert(offsetof(struct create_body, network) == 0, "network rows count from the beginning");
#define AT(member) offsetof(struct create_body, member)
static const struct field network_fields[] = { NETWORK_ROWS,
					       { .name = "allowPublicTraffic",
						 .type = FIELD_BOOL,
						 .offset = NETWORK_AT(public_ports),
						 .fallback = true },
					       { .name = "maskRequestHost",
						 .type = FIELD_STR,
						 .offset = NETWORK_AT(mask_host),
						 .max = E2B_BODY_LIMIT },
					       { .type = FIELD_END } };
static const struct field resume_fields[] = {
	{ .name = "enabled", .type = FIELD_BOOL, .offset = AT(auto_resume) }, { .type = FIELD_END }
};
static const struct field create_fields[] = {
	{ .name = "templateID",
	  .type = FIELD_STR,
	  .offset = AT(template),
	  .min = 1,
	  .max = E2B_BODY_LIMIT,
	  .required = true },
	{ .name = "timeout",
	  .type = FIELD_INT,
	  .offset = AT(timeout_sec),
	  .sent = FIELD_SENT(AT(has_timeout)),
	  .limit = FIELD_LIMIT_TIMEOUT },
	{ .name = "envVars", .type = FIELD_MAP, .offset = AT(env) },
	{ .name = "metadata", .type = FIELD_MAP, .offset = AT(metadata) },
	{ .name = "autoPause", .type = FIELD_BOOL, .offset = AT(auto_pause) },
	{ .name = "autoPauseMemory",
	  .type = FIELD_BOOL,
	  .offset = AT(auto_pause_memory),
	  .fallback = true },
	{ .name = "autoResume", .type = FIELD_OBJECT, .fields = resume_fields },
	{ .name = "network", .type = FIELD_OBJECT, .fields = network_fields },
	NETWORK_INTERNET_ROW,
	{ .name = "iam", .type = FIELD_LATER },
	/* The client starts the gateway itself, with a command of the template. */
	{ .name = "mcp", .type = FIELD_ANY, .offset = AT(mcp) },
	{ .name = "volumeMounts", .type = FIELD_LATER },
	{ .type = FIELD_END }
};
#undef AT

/* Two flags of E2B together select one action of the service. */
static int read_life(const struct create_body *body, struct sandbox_spec *spec, struct err *err)
{
	spec->auto_resume = body->auto_resume;
	if (body->auto_resume && !body->auto_pause_memory)
		return err_set(err, ERR_INVALID_REQUEST,
			       "autoResume: needs the memory, autoPauseMemory must not be false");
	if (body->auto_pause)
		spec->on_timeout =
			body->auto_pause_memory ? ON_TIMEOUT_PAUSE : ON_TIMEOUT_HIBERNATE;
	return 0;
}

/* Servers inside see the preview's host, or their own local name. */
static int read_ports(const struct create_body *body, enum e2b_ports *ret, struct err *err)
{
	struct str mask = body->network.mask_host;
	int ports = body->network.public_ports ? E2B_PORTS_OPEN : E2B_PORTS_TOKEN;

	if (str_is(mask, "localhost:${PORT}"))
		ports |= E2B_PORTS_LOCAL;
	else if (mask.n)
		return err_set(err, ERR_UNSUPPORTED,
			       "maskRequestHost: only 'localhost:${PORT}' is available");
	*ret = (enum e2b_ports)ports;
	if (body->mcp && json_type(body->mcp) != JSON_OBJECT && json_type(body->mcp) != JSON_NULL)
		return err_set(err, ERR_INVALID_REQUEST, "mcp: must be an object");
	return 0;
}

int create_read(const struct json *doc, const struct service_config *config, int64_t usual_sec,
		struct arena *arena, struct e2b_create *ret, struct err *err)
{
	struct create_body body = { .timeout_sec = 0 };
	struct e2b_create out = { .spec = {
					  .cpu_milli =
						  MIN(SANDBOX_CPU_MILLI, config->max_cpu_milli),
					  .memory_mb =
						  MIN(SANDBOX_MEMORY_MB, config->max_memory_mb),
					  .disk_size_mb =
						  MIN(SANDBOX_DISK_MB, config->max_disk_size_mb),
					  .memory = true,
				  } };

	if (field_decode_open(create_fields, doc, arena, &body, err) < 0 ||
	    read_ports(&body, &out.ports, err) < 0 || read_life(&body, &out.spec, err) < 0)
		return -1;
	out.template = body.template;
	out.spec.timeout_sec = MAX(body.has_timeout ? body.timeout_sec : usual_sec, 1);
	out.spec.env = body.env;
	out.spec.metadata = body.metadata;
	out.network_sent = network_want(&body.network, &out.spec.network);
	*ret = out;
	return 0;
}
