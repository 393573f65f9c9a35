/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Previews: access to a port of a sandbox from outside. A port without one is open only to the API
 * keys of its sandbox. A template may name a port that is public from the start. Faces call these
 * functions; a sandbox owns its previews.
 */
#ifndef CAY_SERVICE_NETWORK_PREVIEW_H
#define CAY_SERVICE_NETWORK_PREVIEW_H

#include "service/sandbox/sandbox.h"

#define PREVIEW_ID_SIZE 17
#define PREVIEW_TOKEN_SIZE 48	/* "cay_pv_" + 40 digits + NUL */
#define PREVIEWS_PER_SANDBOX 64 /* at the limit: quota_exceeded */
#define PREVIEW_TOKENS_MAX 64	/* per preview; likewise */
#define PREVIEW_EXPIRES_MAX_SEC (30 * 86400)
#define PREVIEW_SHARE_DEFAULT_SEC 3600
#define PREVIEW_URL_SIZE 384

enum preview_visibility { PREVIEW_PUBLIC, PREVIEW_PRIVATE, PREVIEW_VISIBILITY_COUNT };
/* The Host header for the server inside. Some development servers accept only localhost. */
enum preview_host { PREVIEW_HOST_PREVIEW, PREVIEW_HOST_LOCALHOST, PREVIEW_HOST_COUNT };
extern const char *const preview_visibility_names[]; /* NULL-terminated */
extern const char *const preview_host_names[];

struct preview_token {
	uint8_t hash[32];
	int64_t expires_ms; /* steady clock */
};

/* Owner: its sandbox's list. */
struct preview {
	struct preview *next;
	char id[PREVIEW_ID_SIZE];
	uint16_t port; /* 0: every port except the reserved ones */
	uint8_t visibility, host;
	bool dirty; /* the counters on disk are older */
	int64_t created_ms;
	int64_t expires_ms; /* steady clock (preview_expires_ms()); 0: never */
	uint64_t requests, bytes_in, bytes_out, connections;
	uint32_t open; /* active requests and tunnels */
	uint32_t token_count;
	struct preview_token *tokens; /* heap */
};

struct preview_spec {
	int64_t port;
	int visibility, host;
	int64_t expires_in_sec; /* 0: as long as the sandbox */
	bool allow_reserved;	/* 22 and 5900 to 5999 */
};
/*
 * Creates a preview, or changes the existing one of the port. port 0 is for faces whose clients
 * expect every port to be open.
 */
int preview_create(struct sandbox *sandbox, const struct preview_spec *spec,
		   const struct preview **ret, struct err *err) _must_check_;
struct preview *preview_find(struct sandbox *sandbox, struct str id, struct err *err);
int preview_delete(struct sandbox *sandbox, struct str id, struct err *err) _must_check_;
/* Creates a share token, which is returned only here. */
int preview_share(struct sandbox *sandbox, struct str id, int64_t ttl_sec,
		  char ret_token[PREVIEW_TOKEN_SIZE], int64_t *ret_expires_ms,
		  struct err *err) _must_check_;
int preview_unshare(struct sandbox *sandbox, struct str id, struct err *err) _must_check_;
const struct preview *preview_next(const struct sandbox *sandbox, const struct preview *before);
/* Wall clock; 0: never. */
int64_t preview_expires_ms(const struct sandbox *sandbox, const struct preview *preview);
/* The preview of every port; NULL: none. */
const struct preview *preview_every(const struct sandbox *sandbox);
/* "http://PORT-ID.domain"; false: no domain is configured. */
bool preview_url(const struct sandbox *sandbox, uint16_t port, char dst[PREVIEW_URL_SIZE]);

/* ---- access ---- */

struct preview_ask {
	struct str id; /* of the sandbox */
	uint16_t port;
	struct str token; /* of a share; empty: none */
	/* the sandbox's own (access_token.h), which opens all its ports; likewise */
	struct str traffic;
	const struct key *key; /* NULL: none */
};
struct preview_grant {
	slot_handle sandbox;
	char sandbox_id[SANDBOX_ID_LEN + 1];
	char preview_id[PREVIEW_ID_SIZE]; /* "": by key, or the template's own port */
	uint8_t host;
	int64_t token_left_ms; /* until the token expires; 0: no token was needed */
};
/* Filled also if access is refused. */
struct preview_note {
	bool guess; /* a credential or an address was wrong */
	/* the sandbox has, or had, a preview of every port: the client uses that face */
	bool every;
};
/*
 * 0, or the reason: sandbox_not_found, sandbox_gone, preview_not_found, preview_private,
 * preview_expired, port_refused.
 */
int preview_open(struct service *service, const struct preview_ask *ask, struct preview_grant *ret,
		 struct preview_note *ret_note, struct err *err) _must_check_;

/* Reports the traffic of a grant: for counters and the idle clock. Differences, not sums. */
struct preview_traffic {
	uint32_t requests, connections;
	int32_t open;
	uint64_t bytes_in, bytes_out;
};
void preview_count(struct service *service, const struct preview_grant *grant,
		   const struct preview_traffic *traffic);

#endif
