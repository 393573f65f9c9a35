/* SPDX-License-Identifier: Apache-2.0 */
/* Templates, from their directory, and the builds that this daemon requested. Called by faces; the
 * service owns the templates and builds. */
#ifndef CAY_SERVICE_TEMPLATE_TEMPLATE_H
#define CAY_SERVICE_TEMPLATE_TEMPLATE_H

#include "base/value/bounds.h"
#include "base/err.h"
#include "service/pairs.h"

struct service;
struct service_engine;
struct initializers;

#define TEMPLATE_NAME_MAX BOUNDS_NAME_MAX
#define TEMPLATES_MAX 1024 /* listed; further ones are left out */

/*
 * One version of a template. Owner: the service's list; kept until the service closes, because
 * sandboxes of an older version refer to it.
 */
struct template
{
	struct template *next;
	char name[TEMPLATE_NAME_MAX + 1];
	char hash_hex[65];
	uint8_t hash[32];
	int64_t version;
	int64_t size_bytes, files;
	char created_at[40];
	char workdir[256];
	char user[64];
	char shell[256];
	char from[TEMPLATE_NAME_MAX + 1]; /* the template it was made from; "": none */
	/* The engine that last confirmed that it has this version; NULL: none. */
	const struct service_engine *image_of;
	uint16_t preview_port; /* public from the start; 0: none */
	struct pairs env;
	struct initializers *initializers; /* NULL: none */
};

/* The current version of a name. NULL with err set. */
struct template *template_find(struct service *service, struct str name, struct err *err);
/*
 * The names with a current version, sorted; *ret_names is one heap block of NUL-terminated names.
 */
int template_names(struct service *service, char **ret_names, size_t *ret_count,
		   struct err *err) _must_check_;

struct key;
typedef void (*template_removed_fn)(void *arg, const struct err *err);
/* Refused while anything on this host needs one of its versions: conflict, with the users. */
int template_remove(struct service *service, const struct key *key, struct str name,
		    template_removed_fn done, void *arg, struct err *err) _must_check_;

enum build_state { BUILD_RUNNING, BUILD_READY, BUILD_FAILED, BUILD_STATE_COUNT };
extern const char *const build_state_names[];
struct build {
	char name[TEMPLATE_NAME_MAX + 1];
	char id[21];
	enum build_state state;
	char step[128]; /* its current or last step; "": unknown */
	int64_t started_ms, finished_ms;
	char error[256];
};
/* Whether it can be built. Fails with invalid_request for a bad name and template_not_found without
 * a recipe. */
int build_check(struct service *service, struct str name, struct err *err) _must_check_;
/* Starts a build; conflict if one of this name is running. */
int build_start(struct service *service, struct str name, const struct build **ret,
		struct err *err) _must_check_;
/* The last build of this name by this daemon; NULL if there is none. */
const struct build *build_find(struct service *service, struct str name);
/*
 * Reads at most size bytes of the log from *cursor on (-1: the last size bytes) and advances
 * *cursor. 0 or -errno.
 */
int build_log(struct service *service, const struct build *build, int64_t *cursor, char *dst,
	      size_t size, size_t *ret_n) _must_check_;

#endif
