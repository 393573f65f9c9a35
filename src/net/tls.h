/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS for streams on the loop. The caller passes a connected descriptor and receives a descriptor
 * that carries the plain bytes: one end of a socket pair, whose other end the TLS pipe serves. No
 * other code needs to know about TLS. Only tls.c and tls_ca.c use OpenSSL.
 */
#ifndef CAY_NET_TLS_H
#define CAY_NET_TLS_H

#include "base/slot.h"
#include "base/str.h"
#include "net/loop.h"

/*
 * The configuration of one side: certificate and key, or trusted certificates. It has a reference
 * count, so it can be replaced while connections still use the old one.
 */
struct tls_ctx;

#define TLS_WHY_BYTES 256

/*
 * A server's, from PEM files; the certificate file may contain the chain. why receives a sentence.
 */
int tls_server_new(const char *cert_path, const char *key_path, char why[TLS_WHY_BYTES],
		   struct tls_ctx **ret) _must_check_;
/*
 * A client's: trusts the system's store, and the certificates in ca_path unless that is NULL or
 * empty.
 */
int tls_client_new(const char *ca_path, struct tls_ctx **ret) _must_check_;
struct tls_ctx *tls_ctx_ref(struct tls_ctx *ctx);
void tls_ctx_unref(struct tls_ctx *ctx); /* NULL is allowed */

/*
 * A certificate authority that issues a certificate for any requested name. It keeps contexts for
 * the names used last (TLS_CA_NAMES; beyond it the oldest is dropped).
 */
#define TLS_CA_NAMES 64
#define TLS_CA_SAVED_BYTES 4096
struct tls_ca;
int tls_ca_new(const char *common_name, struct tls_ca **ret) _must_check_;
/* From the text that tls_ca_save() wrote. */
int tls_ca_load(struct str saved, struct tls_ca **ret) _must_check_;
void tls_ca_free(struct tls_ca *ca); /* NULL is allowed; contexts in use stay valid */
/* Key and certificate as PEM, with a NUL. The text is secret. */
int tls_ca_save(const struct tls_ca *ca, char ret_pem[TLS_CA_SAVED_BYTES]) _must_check_;
struct str tls_ca_certificate(const struct tls_ca *ca); /* PEM; lives as long as the authority */
/* A server's context for that host (a DNS name or an address). The caller owns a reference. */
int tls_ca_server(struct tls_ca *ca, const char *host, struct tls_ctx **ret) _must_check_;

/* The pipes of one loop. Owner: the caller of tls_new(); tls_free() closes those that still run. */
struct tls;
int tls_new(struct loop *loop, uint32_t limit, struct tls **ret) _must_check_;
void tls_free(struct tls *tls); /* no completion is called afterwards; not allowed inside one */
uint32_t tls_count(const struct tls *tls);

/*
 * status 0: fd is non-blocking and carries the plain bytes, and the caller owns it. Otherwise
 * -errno and fd is -1: -ETIMEDOUT, -EPROTO (the peer does not speak TLS, or no accepted version),
 * -EKEYREJECTED (invalid certificate), -ECONNRESET. Called once, never from inside the starting
 * call.
 */
typedef void (*tls_done_fn)(void *arg, int status, int fd);

#define TLS_HANDSHAKE_MS 10000

/*
 * fd, connected and non-blocking, is consumed in every case. unread: bytes already read from it.
 * -ENOBUFS at the limit. The handle is for tls_cancel(), until completion.
 */
int tls_accept(struct tls *tls, struct tls_ctx *ctx, int fd, struct str unread, tls_done_fn done,
	       void *arg, slot_handle *ret) _must_check_;
/* server_name: the DNS name or address that the certificate must be for. */
int tls_connect(struct tls *tls, struct tls_ctx *ctx, int fd, const char *server_name,
		tls_done_fn done, void *arg, slot_handle *ret) _must_check_;
/* Before completion: closes the connection, and done is not called. Afterwards: does nothing. */
void tls_cancel(struct tls *tls, slot_handle handle);

/*
 * Blocks: for programs without a loop. A separate thread serves the pipe until either side ends. fd
 * is consumed in every case.
 */
int tls_dial(struct tls_ctx *ctx, int fd, const char *server_name, int *ret_fd) _must_check_;
/* Called before the program ends: waits up to ms for those threads whose plain end is closed. */
void tls_dial_settle(int ms);

#endif
