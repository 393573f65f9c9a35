/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vault: named values that callers can write but never read. A sandbox receives one either as a
 * variable of its new processes, or brokered: it then sees a placeholder, and only the egress proxy
 * inserts the value in requests to the hosts that it is bound to. Faces call these functions; the
 * service owns the secrets.
 */
#ifndef CAY_SERVICE_SECRET_SECRET_H
#define CAY_SERVICE_SECRET_SECRET_H

#include "base/text/scrub.h"
#include "service/sandbox/sandbox.h"

#define SECRET_ID_LEN 20
#define SECRET_NAME_MAX 128
#define SECRET_VALUE_MAX SCRUB_VALUE_MAX
#define SECRET_SCOPE_ID_MAX 255
#define SECRET_HOSTS_MAX 16	/* of one secret or grant */
#define SECRET_HOSTS_BYTES 2048 /* as text, separated by commas */
#define SECRET_VERSIONS_KEPT 5	/* the current one and older ones, for scrubbing */
#define SECRETS_PER_KEY 1000	/* more are refused */
#define SECRETS_PER_SANDBOX 64	/* including former ones */
#define SECRET_PLACEHOLDER_PREFIX "cay-secret-"

/* Of two secrets with one name, the narrower scope is used. */
enum secret_scope { SECRET_GLOBAL, SECRET_WORKSPACE, SECRET_SANDBOX, SECRET_SCOPE_COUNT };
extern const char *const secret_scope_names[]; /* NULL-terminated */

struct secret_version {
	uint32_t version;
	uint32_t n;
	uint8_t *sealed;
};

/* Owner: the service's table. Deleted secrets stay while a sandbox that received them exists. */
struct secret {
	struct secret *prev, *next; /* by creation */
	char id[SECRET_ID_LEN + 1];
	char owner[AUTH_KEY_ID_SIZE];
	char name[SECRET_NAME_MAX + 1];
	char scope_id[SECRET_SCOPE_ID_MAX + 1]; /* the workspace or the sandbox; "" */
	char *hosts;				/* heap, "" for any */
	uint8_t scope;				/* enum secret_scope */
	bool scrubbed;				/* long enough to be found in output */
	int64_t created_ms, updated_ms, deleted_ms;
	uint32_t grants; /* sandboxes that have it, including former ones */
	uint32_t version;
	struct secret_version versions[SECRET_VERSIONS_KEPT]; /* oldest first */
	size_t version_count;
};

/* The fields of POST /secrets. Views live during the call. */
struct secret_spec {
	struct str name, value;
	int scope; /* enum secret_scope */
	struct str external_workspace_id, sandbox_id;
	struct text_list hosts;
};
int secret_create(struct service *service, struct key *key, const struct secret_spec *spec,
		  const struct secret **ret, struct err *err) _must_check_;
/* Adds a version. Sandboxes that have the secret get the new value with their next process or
 * request. */
int secret_rotate(struct secret *secret, struct service *service, struct str value,
		  struct err *err) _must_check_;
int secret_delete(struct secret *secret, struct service *service, struct err *err) _must_check_;
/*
 * By id, or by a name that is unique among the key's secrets; secrets of other keys are not found.
 */
struct secret *secret_find(struct service *service, const struct key *key, struct str id,
			   struct err *err);
/* The key's secrets (all, for admins) after the one named by after. NULL at the end. */
const struct secret *secret_next(struct service *service, const struct key *key, struct str after);

/* ---- grants of a sandbox ---- */

enum grant_way { GRANT_ENV, GRANT_BROKER, GRANT_SCRUB /* a former grant */, GRANT_WAY_COUNT };
extern const char *const grant_way_names[]; /* the first two, NULL-terminated */

struct grant {
	struct secret *secret;
	uint8_t way;
	char env[SECRET_NAME_MAX + 1];
	char *hosts;	      /* heap; of brokered ones */
	char placeholder[40]; /* of brokered ones */
};

/* Owner: the attributes of a sandbox. */
struct grants {
	struct service *service;
	struct grant list[SECRETS_PER_SANDBOX];
	size_t count;
	bool saved;
	struct scrub *scrub; /* NULL: not built yet */
	uint32_t scrub_of;   /* the vault's generation that it was built from */
};

/* One secret that a sandbox asks for. Views live during the call. */
struct grant_spec {
	struct str name;	/* of the secret */
	struct str env;		/* the variable */
	int way;		/* GRANT_ENV or GRANT_BROKER */
	struct text_list hosts; /* with GRANT_BROKER */
};
/* The sandbox that gets them; workspace, sandbox_id and old (its previous grants) may be NULL. */
struct grants_holder {
	const char *owner, *workspace, *sandbox_id;
	const struct grants *old;
};
/* Checks the grants of a create or a change. *ret is NULL if there are none. */
int grants_make(struct service *service, const struct grant_list *list,
		const struct grants_holder *holder, struct grants **ret,
		struct err *err) _must_check_;
struct grants *grants_copy(const struct grants *from); /* for another sandbox; NULL: no memory */
void grants_free(struct grants *grants);	       /* NULL is allowed */

/* ---- brokering, for the proxy ---- */

#define SECRET_AUTHORITY_BYTES 4096 /* of service_config's authority functions */

/* Whether a placeholder of this sandbox is bound to this host, a name in lower case. */
bool broker_has(const struct sandbox *sandbox, struct str host, uint16_t port);
/*
 * Appends text with placeholders for this host replaced by values. 1: there were some, 0: none, or
 * -errno. out then contains secrets.
 */
int broker_replace(const struct sandbox *sandbox, struct str host, uint16_t port, struct str text,
		   struct buf *out) _must_check_;
/* The same for base64 text: credentials of HTTP's Basic authentication. */
int broker_replace_basic(const struct sandbox *sandbox, struct str host, uint16_t port,
			 struct str base64, struct buf *out) _must_check_;
/* Key and certificate of the sandbox's own authority, created on first use: secret. */
int trust_authority(struct sandbox *sandbox, char saved[SECRET_AUTHORITY_BYTES]) _must_check_;

/* The scrubber for the sandbox's output; NULL: nothing to scrub. Valid until the next iteration of
 * the loop. */
struct scrub *sandbox_scrub(const struct sandbox *sandbox);
/* text, or its scrubbed copy in dst, truncated to its size. */
const char *sandbox_scrub_text(const struct sandbox *sandbox, const char *text, char *dst,
			       size_t size);

#endif
