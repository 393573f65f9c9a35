/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, sessions and the authority: all that is OpenSSL's. */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/socket.h>

#include "net/tls_session.h"

#define CIPHERS_12 "ECDHE+AESGCM:ECDHE+CHACHA20" /* 1.2: forward secret and authenticated only */
#define CA_DAYS 3650
#define LEAF_DAYS 90
#define DAY_SEC 86400L

struct tls_ctx {
	SSL_CTX *ssl;
	unsigned refs; /* tls_dial() has them in two threads */
	bool client;
};

struct tls_session {
	SSL *ssl;
	int fd;
	char *unread; /* read before the session began; served first */
	size_t unread_at, unread_len;
};

struct ca_name {
	char host[256];
	struct tls_ctx *ctx;
	uint64_t used;
};

/* Owner: who made it. All leaves share one key: what vouches for them is the authority's. */
struct tls_ca {
	EVP_PKEY *key, *leaf_key;
	X509 *cert;
	BIO *cert_pem;
	struct ca_name names[TLS_CA_NAMES];
	uint64_t uses;
};

/* ---- contexts ---- */

/* We speak HTTP/1.1 whatever else is offered; who offers only others is told at once. */
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

static int ctx_new(bool client, struct tls_ctx **ret)
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
						    /* HTTP knows where a message ends. */
						    SSL_OP_IGNORE_UNEXPECTED_EOF);
	(void)SSL_CTX_set_mode(ctx->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
						 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
						 SSL_MODE_RELEASE_BUFFERS);
	/* Tickets resume sessions without memory here; a cache would be one more thing to bound. */
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
	int r = ctx_new(false, &ctx);

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
	int r = ctx_new(true, &ctx);

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

/* Our own end of the socket: bytes that were read before come first, and no write can raise
 * SIGPIPE. */
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
	SSL_set_bio(session->ssl, bio, bio); /* owns it now */
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
	return r >= 0 ? 0 : failure(session, r, want); /* 0: said; the peer's word is still out */
}

/* ---- the authority ---- */

static int add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *extension;
	X509V3_CTX ctx;
	int r;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	if (!extension)
		return -EINVAL;
	r = X509_add_ext(cert, extension, -1) == 1 ? 0 : -ENOMEM;
	X509_EXTENSION_free(extension);
	return r;
}

/* A certificate without its extensions. Serial numbers are random: nobody counts them. */
static X509 *cert_new(const char *common_name, EVP_PKEY *key, long days)
{
	X509 *cert = X509_new();
	X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;
	BIGNUM *serial = BN_new();
	char shown[65]; /* the field's limit; what counts for a leaf is its alternative name */
	bool ok;

	(void)snprintf(shown, sizeof(shown), "%.64s", common_name);
	ok = name && serial && BN_rand(serial, 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) &&
	     BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(cert)) &&
	     X509_set_version(cert, 2) == 1 &&
	     /* A day back: the clock inside may be a little behind. */
	     X509_gmtime_adj(X509_getm_notBefore(cert), -DAY_SEC) &&
	     X509_gmtime_adj(X509_getm_notAfter(cert), days * DAY_SEC) &&
	     X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)shown, -1,
					-1, 0) == 1 &&
	     X509_set_pubkey(cert, key) == 1;
	BN_free(serial);
	if (!ok) {
		X509_free(cert);
		return NULL;
	}
	return cert;
}

static X509 *ca_self_sign(const char *common_name, EVP_PKEY *key)
{
	X509 *cert = cert_new(common_name, key, CA_DAYS);

	if (!cert)
		return NULL;
	if (X509_set_issuer_name(cert, X509_get_subject_name(cert)) != 1 ||
	    add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") < 0 ||
	    add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") < 0 ||
	    add_extension(cert, cert, NID_subject_key_identifier, "hash") < 0 ||
	    !X509_sign(cert, key, EVP_sha256())) {
		X509_free(cert);
		return NULL;
	}
	return cert;
}

/* The name becomes a line of OpenSSL's own little language: nothing but a name may be in it. */
static bool is_plain(const char *host)
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "-._:";

	return host[0] && host[strspn(host, fine)] == '\0';
}

static X509 *ca_sign_leaf(const struct tls_ca *ca, const char *host)
{
	unsigned char address[16];
	bool numeric =
		inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
	X509 *cert = cert_new(host, ca->leaf_key, LEAF_DAYS);
	char alternative[300];

	if (!cert)
		return NULL;
	(void)snprintf(alternative, sizeof(alternative), "%s:%s", numeric ? "IP" : "DNS", host);
	if (X509_set_issuer_name(cert, X509_get_subject_name(ca->cert)) != 1 ||
	    add_extension(cert, ca->cert, NID_basic_constraints, "critical,CA:FALSE") < 0 ||
	    add_extension(cert, ca->cert, NID_key_usage, "critical,digitalSignature") < 0 ||
	    add_extension(cert, ca->cert, NID_ext_key_usage, "serverAuth") < 0 ||
	    add_extension(cert, ca->cert, NID_authority_key_identifier, "keyid") < 0 ||
	    add_extension(cert, ca->cert, NID_subject_alt_name, alternative) < 0 ||
	    !X509_sign(cert, ca->key, EVP_sha256())) {
		X509_free(cert);
		return NULL;
	}
	return cert;
}

static int ca_finish(struct tls_ca *ca, struct tls_ca **ret)
{
	if (ca) {
		ca->leaf_key = EVP_EC_gen("P-256");
		ca->cert_pem = BIO_new(BIO_s_mem());
	}
	ERR_clear_error();
	if (!ca || !ca->key || !ca->cert || !ca->leaf_key || !ca->cert_pem ||
	    X509_check_private_key(ca->cert, ca->key) != 1 ||
	    PEM_write_bio_X509(ca->cert_pem, ca->cert) != 1) {
		ERR_clear_error();
		tls_ca_free(ca);
		return -EINVAL;
	}
	*ret = ca;
	return 0;
}

int tls_ca_new(const char *common_name, struct tls_ca **ret)
{
	struct tls_ca *ca = calloc(1, sizeof(*ca));

	if (ca) {
		ca->key = EVP_EC_gen("P-256");
		ca->cert = ca->key ? ca_self_sign(common_name, ca->key) : NULL;
	}
	return ca_finish(ca, ret);
}

int tls_ca_load(struct str saved, struct tls_ca **ret)
{
	struct tls_ca *ca = calloc(1, sizeof(*ca));
	BIO *bio = BIO_new_mem_buf(saved.p, (int)saved.n);

	if (ca && bio) {
		ca->key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
		ca->cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	}
	BIO_free(bio);
	return ca_finish(ca, ret);
}

void tls_ca_free(struct tls_ca *ca)
{
	if (!ca)
		return;
	for (size_t i = 0; i < TLS_CA_NAMES; i++)
		tls_ctx_unref(ca->names[i].ctx);
	EVP_PKEY_free(ca->key);
	EVP_PKEY_free(ca->leaf_key);
	X509_free(ca->cert);
	BIO_free(ca->cert_pem);
	free(ca);
}

int tls_ca_save(const struct tls_ca *ca, char ret_pem[TLS_CA_SAVED_BYTES])
{
	BIO *bio = BIO_new(BIO_s_secmem());
	char *p;
	long n;
	int r = -ENOMEM;

	if (bio && PEM_write_bio_PrivateKey(bio, ca->key, NULL, NULL, 0, NULL, NULL) == 1 &&
	    PEM_write_bio_X509(bio, ca->cert) == 1) {
		n = BIO_get_mem_data(bio, &p);
		r = str_copy(ret_pem, TLS_CA_SAVED_BYTES, (struct str){ p, (size_t)n });
	}
	BIO_free(bio);
	ERR_clear_error();
	return r;
}

struct str tls_ca_certificate(const struct tls_ca *ca)
{
	char *p;
	long n = BIO_get_mem_data(ca->cert_pem, &p);

	return (struct str){ p, (size_t)n };
}

int tls_ca_server(struct tls_ca *ca, const char *host, struct tls_ctx **ret)
{
	struct ca_name *oldest = &ca->names[0];
	char copy[sizeof(oldest->host)];
	struct tls_ctx *ctx;
	X509 *cert;
	int r;

	for (size_t i = 0; i < TLS_CA_NAMES; i++) {
		struct ca_name *name = &ca->names[i];

		if (name->ctx && strcmp(name->host, host) == 0) {
			name->used = ++ca->uses;
			*ret = tls_ctx_ref(name->ctx);
			return 0;
		}
		if (name->used < oldest->used)
			oldest = name;
	}
	if (str_copy(copy, sizeof(copy), str_of(host)) < 0 || !is_plain(host))
		return -EINVAL;
	r = ctx_new(false, &ctx);
	if (r < 0)
		return r;
	cert = ca_sign_leaf(ca, host);
	r = cert && SSL_CTX_use_certificate(ctx->ssl, cert) == 1 &&
			    SSL_CTX_use_PrivateKey(ctx->ssl, ca->leaf_key) == 1
		    ? 0
		    : -EINVAL;
	X509_free(cert);
	ERR_clear_error();
	if (r < 0) {
		tls_ctx_unref(ctx);
		return r;
	}
	tls_ctx_unref(oldest->ctx);
	oldest->ctx = ctx;
	oldest->used = ++ca->uses;
	memcpy(oldest->host, copy, sizeof(copy));
	*ret = tls_ctx_ref(ctx);
	return 0;
}
