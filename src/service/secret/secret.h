/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vault: named values that go in and never come out to a caller. A sandbox is given one either
 * as a variable of its new processes, or brokered: then it sees a placeholder, and only the egress
 * proxy puts the value into requests to the hosts it is bound to.
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
#define SECRETS_PER_SANDBOX 64	/* those it once had included */
#define SECRET_PLACEHOLDER_PREFIX "cay-secret-"

/* Of two with one name the narrower one is meant. */
enum secret_scope { SECRET_GLOBAL, SECRET_WORKSPACE, SECRET_SANDBOX, SECRET_SCOPE_COUNT };
extern const char *const secret_scope_names[]; /* NULL-terminated */

struct secret_version {
	uint32_t version;
	uint32_t n;
	uint8_t *sealed;
};

/* Owner: the service's table. Deleted ones stay while a sandbox that had them lives. */
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
	uint32_t grants; /* of sandboxes, former ones included */
	uint32_t version;
	struct secret_version versions[SECRET_VERSIONS_KEPT]; /* oldest first */
	size_t version_count;
};

/* What POST /secrets says. Views live during the call. */
struct secret_spec {
	struct str name, value;
	int scope; /* enum secret_scope */
	struct str external_workspace_id, sandbox_id;
	struct text_list hosts;
};
int secret_create(struct service *service, struct key *key, const struct secret_spec *spec,
		  const struct secret **ret, struct err *err) _must_check_;
/* A new version. Sandboxes that have it get the new value with their next process or request. */
int secret_rotate(struct secret *secret, struct service *service, struct str value,
		  struct err *err) _must_check_;
int secret_delete(struct secret *secret, struct service *service, struct err *err) _must_check_;
/* By id, or by a name that only one of the key's secrets has; others' are as absent. */
struct secret *secret_find(struct service *service, const struct key *key, struct str id,
			   struct err *err);
/* Those of the key (all, for admins) behind the one named by after. NULL at the end. */
const struct secret *secret_next(struct service *service, const struct key *key, struct str after);

/* ---- what a sandbox has ---- */

enum grant_way { GRANT_ENV, GRANT_BROKER, GRANT_SCRUB /* once had it */, GRANT_WAY_COUNT };
extern const char *const grant_way_names[]; /* the first two, NULL-terminated */

struct grant {
	struct secret *secret;
	uint8_t way;
	char env[SECRET_NAME_MAX + 1];
	char *hosts;	      /* heap; of brokered ones */
	char placeholder[40]; /* likewise */
};

/* Owner: the attributes of a sandbox. */
struct grants {
	struct service *service;
	struct grant list[SECRETS_PER_SANDBOX];
	size_t count;
	bool saved;
	struct scrub *scrub; /* NULL: to be made */
	uint32_t scrub_of;   /* the vault's generation it was made of */
};

/* One secret that a sandbox asks for. Views live during the call. */
struct grant_spec {
	struct str name;	/* of the secret */
	struct str env;		/* the variable */
	int way;		/* GRANT_ENV or GRANT_BROKER */
	struct text_list hosts; /* with GRANT_BROKER */
};
/* Who gets them; workspace, sandbox_id and old (what it had) may be NULL. */
struct grants_holder {
	const char *owner, *workspace, *sandbox_id;
	const struct grants *old;
};
/* Checks what a create or a change asks for. *ret is NULL when there is nothing to hold. */
int grants_make(struct service *service, const struct grant_list *list,
		const struct grants_holder *holder, struct grants **ret,
		struct err *err) _must_check_;
struct grants *grants_copy(const struct grants *from); /* for another sandbox; NULL: no memory */
void grants_free(struct grants *grants);	       /* NULL is fine */

/* ---- brokering, for the proxy ---- */

#define SECRET_AUTHORITY_BYTES 4096 /* of service_config's authority functions */

/* Whether a placeholder of this sandbox is for this host, a name in lower case. */
bool broker_has(const struct sandbox *sandbox, struct str host, uint16_t port);
/* Appends text with values in the place of placeholders for this host. 1: there were some, 0: none,
 * or -errno. out holds secrets then. */
int broker_replace(const struct sandbox *sandbox, struct str host, uint16_t port, struct str text,
		   struct buf *out) _must_check_;
/* The same for what is base64 of it: credentials of HTTP's Basic. */
int broker_replace_basic(const struct sandbox *sandbox, struct str host, uint16_t port,
			 struct str base64, struct buf *out) _must_check_;
/* Key and certificate of the sandbox's own authority, made on first use: secret. */
int trust_authority(struct sandbox *sandbox, char saved[SECRET_AUTHORITY_BYTES]) _must_check_;

/* What its output is scrubbed with; NULL: nothing. Good until the loop turns. */
struct scrub *sandbox_scrub(const struct sandbox *sandbox);
/* text, or its scrubbed copy in dst, cut to its size. */
const char *sandbox_scrub_text(const struct sandbox *sandbox, const char *text, char *dst,
			       size_t size);

#endif
