/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the HTTP client: state that client.c and send.c share. */
#ifndef CAY_HTTP_CLIENT_STATE_H
#define CAY_HTTP_CLIENT_STATE_H

#include "http/client/client.h"
#include "http/message/head.h"

#define HEAD_BYTES 65536
#define HEADERS_MAX 200
#define READ_BYTES 65536
#define INTERIM_MAX 8 /* 1xx replies before the final one */
#define OWN_HEADERS_MAX 16

struct own_header {
	char *name;
	char *value;
};

/*
 * Owner: the caller. Holds one connection, which stays open between calls if both sides allow it.
 */
struct http_client {
	char host[256]; /* empty: unix */
	bool secure;
	uint16_t port;
	char path[108];
	char host_header[300];
	int fd;
	int connect_ms;
	int idle_ms;
	int wake_fd; /* -1: none */
	int (*wake)(void *arg);
	void *wake_arg;
	struct own_header headers[OWN_HEADERS_MAX];
	size_t header_count;
	struct buf in; /* unread bytes of the reply; at the limit the head is too large */
};

/* One request in progress. */
struct client_call {
	struct http_client *client;
	const char *method;
	struct str head; /* of our request */
	struct str body;
	struct http_response *res;
	http_client_data_fn data;
	void *arg;
	const struct http_client_source *source; /* instead of body; NULL: none */
	bool answered;				 /* a byte of the reply arrived */
	bool stopped;				 /* data requested to stop */
	bool upgrade;				 /* 101 is a final reply */
	struct http_head parsed;
	struct http_header fields[HEADERS_MAX];
};

/* send.c */
int client_wait(struct http_client *client, short events, short *ret_events) _must_check_;
int client_head(struct http_client *client, const struct client_call *call, const char *path,
		struct str content_type, struct str lines, struct buf *out) _must_check_;
/* Stops early if a reply arrives: the server may refuse a body before it has read it. */
int client_send(struct client_call *call, bool *ret_complete) _must_check_;

#endif
