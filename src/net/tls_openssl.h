/* SPDX-License-Identifier: Apache-2.0 */
/* Private to tls.c and tls_ca.c: the definition of a context. */
#ifndef CAY_NET_TLS_OPENSSL_H
#define CAY_NET_TLS_OPENSSL_H

#include "net/tls.h"

struct tls_ctx {
	struct ssl_ctx_st *ssl; /* OpenSSL's SSL_CTX */
	unsigned refs;		/* tls_dial() uses contexts in two threads */
	bool client;
};

int tls_ctx_new(bool client, struct tls_ctx **ret) _must_check_; /* without certificate or trust */

#endif
