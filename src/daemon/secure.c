/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/secure.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/log.h"
#include "net/tls.h"

#define LOOK_MS 5000 /* how soon a replaced file is noticed without a SIGHUP */
#define PIPES_MAX 8192

/* Values that change when a file is written or replaced. */
struct seen {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec changed;
};

/* Owner: the wiring. */
struct secure {
	const struct config *config;
	struct loop *loop;
	struct http_server *server;
	struct tls *tls;
	struct tls_ctx *ctx;
	struct loop_timer *timer;
	struct seen seen[2];
	uint16_t port;
};

static void look(const struct secure *secure, struct seen seen[2])
{
	const char *paths[2] = { secure->config->tls_cert, secure->config->tls_key };

	for (int i = 0; i < 2; i++) {
		struct stat st;

		memset(&seen[i], 0, sizeof(seen[i])); /* compared as bytes */
		if (stat(paths[i], &st) < 0)
			continue;
		seen[i].device = st.st_dev;
		seen[i].inode = st.st_ino;
		seen[i].size = st.st_size;
		seen[i].changed = st.st_ctim;
	}
}

static int load(struct secure *secure, char why[TLS_WHY_BYTES])
{
	struct tls_ctx *ctx;
	int r;

	look(secure, secure->seen); /* first, so that a change during the load counts as new */
	r = tls_server_new(secure->config->tls_cert, secure->config->tls_key, why, &ctx);
	if (r < 0)
		return r;
	tls_ctx_unref(secure->ctx);
	secure->ctx = ctx;
	return 0;
}

static void reload(struct secure *secure)
{
	char why[TLS_WHY_BYTES];

	if (load(secure, why) < 0) {
		log_error("the certificate in force stays: %s", why);
		return;
	}
	http_server_secure(secure->server, secure->tls, secure->ctx);
	log_info("serving with the new certificate of %s", secure->config->tls_cert);
}

static void on_look(void *arg)
{
	struct secure *secure = arg;
	struct seen now[2];

	look(secure, now);
	if (memcmp(now, secure->seen, sizeof(now)) != 0)
		reload(secure);
}

static void on_hangup(void *arg, int signum)
{
	(void)signum;
	reload(arg);
}

int secure_new(const struct config *config, struct loop *loop, uint16_t port, struct secure **ret,
	       struct err *err)
{
	struct secure *secure;
	char why[TLS_WHY_BYTES];

	*ret = NULL;
	if (!config->tls_cert[0] && !config->tls_key[0])
		return 0;
	if (!config->tls_cert[0] || !config->tls_key[0])
		return err_set(err, ERR_INVALID_REQUEST,
			       "tls_cert and tls_key go together: %s is missing",
			       config->tls_cert[0] ? "tls_key" : "tls_cert");
	secure = calloc(1, sizeof(*secure));
	if (!secure)
		return err_set(err, ERR_INTERNAL, "out of memory");
	secure->config = config;
	secure->loop = loop;
	secure->port = port;
	if (load(secure, why) < 0) {
		secure_free(secure);
		return err_set(err, ERR_INVALID_REQUEST,
			       "%s (both files must be readable by user '%s')", why, config->user);
	}
	*ret = secure;
	return 0;
}

int secure_start(struct secure *secure, struct http_server *server, struct err *err)
{
	int r = tls_new(secure->loop, PIPES_MAX, &secure->tls);

	if (r == 0)
		r = loop_timer_new(secure->loop, on_look, secure, &secure->timer);
	if (r == 0)
		r = loop_signal(secure->loop, SIGHUP, on_hangup, secure);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "cannot serve TLS");
	secure->server = server;
	http_server_secure(server, secure->tls, secure->ctx);
	loop_timer_set(secure->timer, LOOK_MS, LOOK_MS);
	return 0;
}

void secure_free(struct secure *secure)
{
	if (!secure)
		return;
	loop_timer_free(secure->timer);
	tls_free(secure->tls);
	tls_ctx_unref(secure->ctx);
	free(secure);
}

/* ---- redirects to https:// ---- */

/* Names of this host only, for which no certificate is issued. */
static bool is_own_name(struct str host)
{
	static const char suffix[] = ".localhost";
	size_t n = sizeof(suffix) - 1;
	unsigned char address[4];
	char copy[64];

	if (host.n == 0 || host.p[0] == '[' || str_is(host, "localhost"))
		return true;
	if (host.n > n && memcmp(host.p + host.n - n, suffix, n) == 0)
		return true;
	return str_copy(copy, sizeof(copy), host) == 0 && inet_pton(AF_INET, copy, address) == 1;
}

bool secure_redirects(void *arg, const struct http_req *req)
{
	(void)arg;
	/* The command line on this host may stay plain: there is no network in between. */
	return !req->secure && !(req->peer_is_here && is_own_name(req->host));
}

void secure_redirect(void *arg, struct http_req *req)
{
	const struct secure *secure = arg;
	struct http_header header = { STR_LIT("Location"), { NULL, 0 } };
	size_t size = req->host.n + req->target.n + 32; /* the target includes path and query */
	char *to = arena_alloc(req->arena, size), port[8] = "";
	int n;

	if (!to || req->host.n == 0 || req->path.n == 0 || req->path.p[0] != '/') {
		http_reply(req, 400, NULL, 0, STR_LIT("this port wants https://\n"));
		return;
	}
	if (secure->port != 443)
		(void)snprintf(port, sizeof(port), ":%u", secure->port);
	n = snprintf(to, size, "https://%.*s%s%.*s%s%.*s", (int)req->host.n, req->host.p, port,
		     (int)req->path.n, req->path.p, req->query.n ? "?" : "", (int)req->query.n,
		     req->query.p ? req->query.p : "");
	header.value = (struct str){ to, (size_t)n };
	/* 308 preserves the method and the body. */
	http_reply(req, 308, &header, 1, (struct str){ "", 0 });
}
