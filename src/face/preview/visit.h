/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/preview. address.c (without I/O) finds the target and removes our headers. */
#ifndef CAY_FACE_PREVIEW_VISIT_H
#define CAY_FACE_PREVIEW_VISIT_H

#include "base/buf.h"
#include "face/kit/attempts.h"
#include "face/kit/hosts.h"
#include "face/preview/preview.h"
#include "http/proxy/proxy.h"
#include "http/server/server.h"
#include "service/network/port.h"
#include "service/network/preview.h"
#include "service/service.h"

#define TOKEN_QUERY "cay_token"
#define TOKEN_COOKIE "cay_preview"
/* Over TLS: browsers take it only from this host itself, so that a neighbour cannot plant one. */
#define TOKEN_COOKIE_SECURE "__Host-" TOKEN_COOKIE
#define TRAFFIC_HEADER "e2b-traffic-access-token"
#define HOP_SIZE 17

/* Who and what a request is for. Views into the request. */
struct address {
	struct str id;
	uint16_t port;
	bool by_header;
	bool e2b; /* by the headers of E2B's clients */
};

enum address_kind { ADDRESS_NONE, ADDRESS_OK, ADDRESS_BAD };

/* Owner: the daemon's wiring. */
struct preview_face {
	struct preview_config config;
	struct service *service;
	struct http_server *server;
	struct proxy *proxy;
	struct face_hosts hosts; /* for requests routed by header */
	struct visit *visits;
	struct buf out;
	char hop[HOP_SIZE]; /* marks forwarded requests, to detect loops */
	struct attempts attempts;
	/* What preview_takes() found, for preview_handle(), which follows at once. */
	slot_handle found_for;
	enum address_kind found_kind;
	struct address found;
};

/* BAD: below our domain, or with our headers, but not a preview. */
enum address_kind address_find(const char *domain, const struct http_req *req, struct address *ret);

struct credentials {
	struct str key;	    /* an API key of ours; empty: none */
	struct str token;   /* a share token */
	struct str traffic; /* the sandbox's own, as E2B's clients send it */
	bool by_query;
};
void credentials_find(const struct http_req *req, struct credentials *ret);
/* The request's target without our token, in its arena; NULL: no memory. */
char *address_path(const struct http_req *req, bool by_query);
bool address_is_key(struct str text);

/* What was admitted; or, as far as it is known, what was not. */
struct admission {
	struct preview_grant grant;
	struct str id;
	uint16_t port;
	bool e2b; /* errors have the form of E2B's */
	bool by_query, by_header;
};

/* One request. Owner: face->visits until it has ended. */
struct visit {
	struct visit *prev, *next;
	struct preview_face *face;
	slot_handle req;
	struct preview_grant grant;
	uint16_t port;
	struct sandbox_wait *wait;
	struct port_dial *dial;
	slot_handle exchange;
	bool counted;
	bool by_query, by_header, e2b;
	struct str origin_host; /* with host_header localhost: Origin of this host is rewritten */
	struct str own_origin;
	struct http_header extra[8];
};
bool visit_pass(void *visit, const struct http_header *header, struct str *value);

/* visit.c */
void visit_start(struct preview_face *face, struct http_req *req,
		 const struct admission *admission);
void visit_abort(struct visit *visit);
/* empty if text is NULL because the arena is full */
static inline struct str visit_text(char *text)
{
	return (struct str){ text ? text : "", text ? strlen(text) : 0 };
}

/* page.c. The subject of an error; NULL: none in particular. */
struct page_subject {
	struct str id;
	uint16_t port;
	bool e2b;
};
void page_error(struct preview_face *face, struct http_req *req, const struct page_subject *of,
		const struct err *err);
#endif
