/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tickets: credentials with which a web page opens a WebSocket or an event stream, because neither
 * can send a header with a key. A ticket is valid once, for a short time, for one method and path,
 * with the scopes of the key that created it. Tickets are kept only in memory: a restart ends all
 * of them.
 */
#ifndef CAY_SERVICE_ACCOUNT_TICKET_H
#define CAY_SERVICE_ACCOUNT_TICKET_H

#include "service/account/auth.h"

#define TICKET_TEXT_SIZE 46 /* "cayt_", 40 digits, NUL */
#define TICKET_TTL_SEC 30
#define TICKET_TTL_MAX_SEC 300
#define TICKET_PATH_MAX 1024
#define TICKETS_MAX 4096    /* of all keys; more are refused */
#define TICKETS_PER_KEY 256 /* not yet used; more are refused */

struct ticket_spec {
	struct str method, path; /* must match exactly; the query is not checked */
	int64_t ttl_sec;
};
/* Creates a ticket. Its text is returned once; only the hash is kept. */
int ticket_new(struct service *service, const struct key *key, const struct ticket_spec *spec,
	       char ret_text[TICKET_TEXT_SIZE], int64_t *ret_expires_ms,
	       struct err *err) _must_check_;
/* Consumes the ticket and returns its key. If method or path do not match, the ticket is consumed
 * as well, and the result is NULL with unauthenticated. */
struct key *ticket_use(struct service *service, struct str text, struct str method, struct str path,
		       struct err *err);

#endif
