/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate authority that issues certificates for any name. */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#include "net/tls_openssl.h"

#define CA_DAYS 3650
#define LEAF_DAYS 90
#define DAY_SEC 86400L

struct ca_name {
	char host[256];
	struct tls_ctx *ctx;
	uint64_t used;
};

/*
 * Owner: the caller of tls_ca_new() or tls_ca_load(). All leaf certificates share one key; the
 * authority's key signs them.
 */
struct tls_ca {
	EVP_PKEY *key, *leaf_key;
	X509 *cert;
	BIO *cert_pem;
	struct ca_name names[TLS_CA_NAMES];
	uint64_t uses;
};

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

/* Creates a certificate without extensions. Serial numbers are random. */
static X509 *cert_new(const char *common_name, EVP_PKEY *key, long days)
{
	X509 *cert = X509_new();
	X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;
	BIGNUM *serial = BN_new();
	char shown[65]; /* limit of the field; for a leaf, only its alternative name matters */
	bool ok;

	(void)snprintf(shown, sizeof(shown), "%.64s", common_name);
	ok = name && serial && BN_rand(serial, 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) &&
	     BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(cert)) &&
	     X509_set_version(cert, 2) == 1 &&
	     /* A day earlier, because the clock inside may be slightly behind. */
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

/*
 * The name becomes part of a line in OpenSSL's configuration syntax, so it must contain no special
 * characters.
 */
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
	r = tls_ctx_new(false, &ctx);
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
