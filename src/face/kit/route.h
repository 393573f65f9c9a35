/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Route tables: one row per method and path, with the scope that a key needs. A face embeds the row
 * in a struct of its own, which adds the handler and whatever else the face wants to know. The
 * tables are static; nothing here allocates.
 */
#ifndef CAY_FACE_KIT_ROUTE_H
#define CAY_FACE_KIT_ROUTE_H

#include "base/err.h"
#include "base/macro.h"
#include "base/str.h"
#include "http/server/server.h"
#include "service/account/auth.h"

#define ROUTE_ARGS 2	   /* braces in a pattern */
#define ROUTE_ALLOW_MAX 96 /* bytes of the methods of one path */

enum route_flag {
	ROUTE_OPEN = 1 << 0,   /* needs no key */
	ROUTE_TOKEN = 1 << 1,  /* needs the token of one sandbox instead of a key */
	ROUTE_SOCKET = 1 << 2, /* a WebSocket: the origin is checked although the method is GET */
	ROUTE_RAW = 1 << 3,    /* application/octet-stream is accepted besides JSON */
};

struct route {
	enum http_method method;
	const char *pattern; /* "/v1/sandboxes/{id}": a brace stands for one segment */
	uint32_t scope;	     /* enum auth_scope; AUTH_ANY: any key */
	uint32_t flags;	     /* enum route_flag */
};

/* The beginning of a face's row: ROUTE(GET, "/x/{id}", AUTH_EXEC), or with flags behind the scope.
 */
#define ROUTE(verb, path, ...) .row = { HTTP_##verb, (path), __VA_ARGS__ }

struct route_table {
	const char *face;	   /* its name in listings */
	const struct route *first; /* of the first row; the others follow at a distance of stride */
	size_t count, stride;
	bool head; /* HEAD is answered by the row of GET */
	/* Whether a segment can be an id or a name; NULL: every segment that is not empty. */
	bool (*segment_ok)(struct str segment);
};

/* rows: an array of structs whose member row is a struct route. */
#define ROUTE_ROWS(rows) \
	.first = &(rows)[0].row, .count = ARRAY_LEN(rows), .stride = sizeof((rows)[0])

struct route_match {
	const struct route *row;     /* NULL: no row has this method and path */
	size_t index;		     /* of the row in its table */
	struct str args[ROUTE_ARGS]; /* the segments of the braces, as sent */
	char allow[ROUTE_ALLOW_MAX]; /* the methods that the path has; "": no such path */
	const char *odd;	     /* a brace whose segment is not an id or a name; NULL: none */
};

const struct route *route_at(const struct route_table *table, size_t i);
/* The first row that fits. The path is compared as it was sent, without decoding. */
void route_find(const struct route_table *table, enum http_method method, struct str path,
		struct route_match *ret);

#endif
