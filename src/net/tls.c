/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts and sessions. With tls_ca.c, this is all code that uses OpenSSL. */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/socket.h>

#include "net/tls_openssl.h"
#include "net/tls_session.h"

/* TLS 1.2: only forward-secret, authenticated ciphers */
#define CIPHERS_12 "ECDHE+AESGCM:ECDHE+CHACHA20"

struct tls_session {
	SSL *ssl;
	int fd;
	char *unread; /* bytes read before the session began; they are processed first */
	size_t unread_at, unread_len;
};

/* ---- contexts ---- */

/*
 * Selects HTTP/1.1 if it is offered. A client that offers only other protocols gets an alert at
 * once.
 */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
		   const unsigned char *in, unsigned in_len, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *chosen = NULL;

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto(&chosen, out_len, ours, sizeof(ours) - 1, in, in_len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

int tls_ctx_new(bool client, struct tls_ctx **ret)
{
	static const unsigned char ours[] = "\x08http/1.1";
	struct tls_ctx *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return -ENOMEM;
	ctx->refs = 1;
	ctx->client = client;
	ctx->ssl = SSL_CTX_new(client ? TLS_client_method() : TLS_server_method());
	if (!ctx->ssl || SSL_CTX_set_min_proto_version(ctx->ssl, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(ctx->ssl, CIPHERS_12) != 1) {
		tls_ctx_unref(ctx);
		return -ENOMEM;
	}
	(void)SSL_CTX_set_options(ctx->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
						    SSL_OP_CIPHER_SERVER_PREFERENCE |
						    /* HTTP marks the end of a message itself. */
						    SSL_OP_IGNORE_UNEXPECTED_EOF);
	(void)SSL_CTX_set_mode(ctx->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
						 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
						 SSL_MODE_RELEASE_BUFFERS);
	/* Tickets resume sessions without memory here; a cache would need a limit. */
	(void)SSL_CTX_set_session_cache_mode(ctx->ssl, SSL_SESS_CACHE_OFF);
	if (client)
		(void)SSL_CTX_set_alpn_protos(ctx->ssl, ours, sizeof(ours) - 1);
	else
		SSL_CTX_set_alpn_select_cb(ctx->ssl, on_alpn, NULL);
	*ret = ctx;
	return 0;
}

struct tls_ctx *tls_ctx_ref(struct tls_ctx *ctx)
{
	(void)__atomic_add_fetch(&ctx->refs, 1, __ATOMIC_RELAXED);
	return ctx;
}

void tls_ctx_unref(struct tls_ctx *ctx)
{
	if (!ctx || __atomic_sub_fetch(&ctx->refs, 1, __ATOMIC_ACQ_REL))
		return;
	SSL_CTX_free(ctx->ssl);
	free(ctx);
}

static int explain(char why[TLS_WHY_BYTES], const char *what, const char *path)
{
	unsigned long e = ERR_peek_last_error();
	const char *reason = ERR_SYSTEM_ERROR(ERR_peek_error())
				     ? strerror(ERR_GET_REASON(ERR_peek_error()))
				     : ERR_reason_error_string(e);

	(void)snprintf(why, TLS_WHY_BYTES, "%s %s: %s", what, path, reason ? reason : "not usable");
	ERR_clear_error();
	return -EINVAL;
}

int tls_server_new(const char *cert_path, const char *key_path, char why[TLS_WHY_BYTES],
		   struct tls_ctx **ret)
{
	struct tls_ctx *ctx;
	int r = tls_ctx_new(false, &ctx);

	if (r < 0) {
		(void)snprintf(why, TLS_WHY_BYTES, "out of memory");
		return r;
	}
	ERR_clear_error();
	if (SSL_CTX_use_certificate_chain_file(ctx->ssl, cert_path) != 1)
		r = explain(why, "cannot use the certificate", cert_path);
	else if (SSL_CTX_use_PrivateKey_file(ctx->ssl, key_path, SSL_FILETYPE_PEM) != 1 ||
		 SSL_CTX_check_private_key(ctx->ssl) != 1)
		r = explain(why, "cannot use the key", key_path);
	if (r < 0) {
		tls_ctx_unref(ctx);
		return r;
	}
	*ret = ctx;
	return 0;
}

int tls_client_new(const char *ca_path, struct tls_ctx **ret)
{
	struct tls_ctx *ctx;
	int r = tls_ctx_new(true, &ctx);

	if (r < 0)
		return r;
	SSL_CTX_set_verify(ctx->ssl, SSL_VERIFY_PEER, NULL);
	if (SSL_CTX_set_default_verify_paths(ctx->ssl) != 1 ||
	    (ca_path && *ca_path && SSL_CTX_load_verify_file(ctx->ssl, ca_path) != 1)) {
		ERR_clear_error();
		tls_ctx_unref(ctx);
		return -EINVAL;
	}
	*ret = ctx;
	return 0;
}

/* ---- sessions ---- */

/* Our own BIO: returns bytes that were read before first, and never raises SIGPIPE. */
static int on_bio_read(BIO *bio, char *p, int n)
{
	struct tls_session *session = BIO_get_data(bio);
	size_t left = session->unread_len - session->unread_at;
	ssize_t got;

	BIO_clear_retry_flags(bio);
	if (left) {
		size_t take = MIN(left, (size_t)n);

		memcpy(p, session->unread + session->unread_at, take);
		session->unread_at += take;
		return (int)take;
	}
	got = recv(session->fd, p, (size_t)n, 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	return (int)got;
}

static int on_bio_write(BIO *bio, const char *p, int n)
{
	struct tls_session *session = BIO_get_data(bio);
	ssize_t put = send(session->fd, p, (size_t)n, MSG_NOSIGNAL);

	BIO_clear_retry_flags(bio);
	if (put < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(bio);
	return (int)put;
}

static long on_bio_ctrl(BIO *bio, int cmd, long num, void *p)
{
	(void)bio;
	(void)num;
	(void)p;
	return cmd == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO *bio_new(struct tls_session *session)
{
	static BIO_METHOD *method; /* one per process */
	BIO *bio;

	if (!method) {
		method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "cay");
		if (!method)
			return NULL;
		(void)BIO_meth_set_read(method, on_bio_read);
		(void)BIO_meth_set_write(method, on_bio_write);
		(void)BIO_meth_set_ctrl(method, on_bio_ctrl);
	}
	bio = BIO_new(method);
	if (bio) {
		BIO_set_data(bio, session);
		BIO_set_init(bio, 1);
	}
	return bio;
}

static int set_name(SSL *ssl, const char *name)
{
	unsigned char address[16];
	bool numeric =
		inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;

	if (numeric)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1 ? 0 : -EINVAL;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1 ? 0
											 : -EINVAL;
}

static int session_fill(struct tls_session *session, struct tls_ctx *ctx, struct str unread,
			const char *server_name)
{
	BIO *bio;

	if (unread.n) {
		session->unread = malloc(unread.n);
		if (!session->unread)
			return -ENOMEM;
		memcpy(session->unread, unread.p, unread.n);
		session->unread_len = unread.n;
	}
	session->ssl = SSL_new(ctx->ssl);
	bio = session->ssl ? bio_new(session) : NULL;
	if (!bio)
		return -ENOMEM;
	SSL_set_bio(session->ssl, bio, bio); /* takes ownership */
	if (!ctx->client) {
		SSL_set_accept_state(session->ssl);
		return 0;
	}
	SSL_set_connect_state(session->ssl);
	return set_name(session->ssl, server_name);
}

int tls_session_new(struct tls_ctx *ctx, int fd, struct str unread, const char *server_name,
		    struct tls_session **ret)
{
	struct tls_session *session = calloc(1, sizeof(*session));
	int r = -ENOMEM;

	if (session) {
		session->fd = fd;
		r = session_fill(session, ctx, unread, server_name);
	}
	ERR_clear_error();
	if (r < 0) {
		tls_session_free(session);
		return r;
	}
	*ret = session;
	return 0;
}

void tls_session_free(struct tls_session *session)
{
	if (!session)
		return;
	SSL_free(session->ssl);
	free(session->unread);
	free(session);
}

static int failure(struct tls_session *session, int result, int *want)
{
	int saved = errno, error = SSL_get_error(session->ssl, result);

	ERR_clear_error();
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
		*want = error == SSL_ERROR_WANT_READ ? LOOP_READ : LOOP_WRITE;
		return -EAGAIN;
	}
	if (error == SSL_ERROR_SSL)
		return SSL_get_verify_result(session->ssl) != X509_V_OK ? -EKEYREJECTED : -EPROTO;
	if (error == SSL_ERROR_SYSCALL && result < 0 && saved > 0)
		return -saved;
	return -ECONNRESET;
}

int tls_session_handshake(struct tls_session *session, int *want)
{
	int r;

	ERR_clear_error();
	errno = 0;
	r = SSL_do_handshake(session->ssl);
	return r == 1 ? 0 : failure(session, r, want);
}

ssize_t tls_session_read(struct tls_session *session, char *p, size_t n, int *want)
{
	int r;

	ERR_clear_error();
	errno = 0;
	r = SSL_read(session->ssl, p, (int)MIN(n, (size_t)INT32_MAX));
	if (r > 0)
		return r;
	if (SSL_get_error(session->ssl, r) == SSL_ERROR_ZERO_RETURN)
		return 0;
	return failure(session, r, want);
}

ssize_t tls_session_write(struct tls_session *session, const char *p, size_t n, int *want)
{
	int r;

	ERR_clear_error();
	errno = 0;
	r = SSL_write(session->ssl, p, (int)MIN(n, (size_t)INT32_MAX));
	return r > 0 ? r : failure(session, r, want);
}

int tls_session_close(struct tls_session *session, int *want)
{
	int r;

	ERR_clear_error();
	errno = 0;
	r = SSL_shutdown(session->ssl);
	/* 0: sent; the peer's close_notify is still missing */
	return r >= 0 ? 0 : failure(session, r, want);
}
