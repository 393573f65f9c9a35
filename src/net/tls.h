/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS for streams on the loop. A connection is handed over as a descriptor and comes back as a
 * descriptor that carries its plain bytes (one end of a socketpair, the pipe serves the other), so
 * nobody else needs to know what TLS is. tls.c and tls_ca.c alone see OpenSSL.
 */
#ifndef CAY_NET_TLS_H
#define CAY_NET_TLS_H

#include "base/slot.h"
#include "base/str.h"
#include "net/loop.h"

/*
 * What a side of a connection needs to know: certificate and key, or whom to trust. Counted, so
 * that a new one may take an old one's place while connections of the old one live on.
 */
struct tls_ctx;

#define TLS_WHY_BYTES 256

/* A server's, from PEM files; the certificate file may hold its chain. why gets a sentence. */
int tls_server_new(const char *cert_path, const char *key_path, char why[TLS_WHY_BYTES],
		   struct tls_ctx **ret) _must_check_;
/* A client's: trusts the system's store, and the certificates of ca_path unless that is NULL or
 * empty. */
int tls_client_new(const char *ca_path, struct tls_ctx **ret) _must_check_;
struct tls_ctx *tls_ctx_ref(struct tls_ctx *ctx);
void tls_ctx_unref(struct tls_ctx *ctx); /* NULL is fine */

/*
 * An authority that vouches for any name it is asked for. Its contexts are kept for the names used
 * last (TLS_CA_NAMES; beyond it the oldest goes).
 */
#define TLS_CA_NAMES 64
#define TLS_CA_SAVED_BYTES 4096
struct tls_ca;
int tls_ca_new(const char *common_name, struct tls_ca **ret) _must_check_;
/* From what tls_ca_save() gave. */
int tls_ca_load(struct str saved, struct tls_ca **ret) _must_check_;
void tls_ca_free(struct tls_ca *ca); /* NULL is fine; contexts live on while used */
/* Key and certificate as PEM, with a NUL: secret. */
int tls_ca_save(const struct tls_ca *ca, char ret_pem[TLS_CA_SAVED_BYTES]) _must_check_;
struct str tls_ca_certificate(const struct tls_ca *ca); /* PEM; lives as long as the authority */
/* A server's context for that host (a DNS name or an address). The caller gets a reference. */
int tls_ca_server(struct tls_ca *ca, const char *host, struct tls_ctx **ret) _must_check_;

/* The pipes of one loop. Owner: who made it; tls_free() cuts what still runs. */
struct tls;
int tls_new(struct loop *loop, uint32_t limit, struct tls **ret) _must_check_;
void tls_free(struct tls *tls); /* no completion is called any more; not from inside one */
uint32_t tls_count(const struct tls *tls);

/*
 * status 0: fd, non-blocking, is the caller's and carries the plain bytes. Else -errno: -ETIMEDOUT,
 * -EPROTO (the peer speaks no TLS, or none we accept), -EKEYREJECTED (its certificate is not what
 * it should be), -ECONNRESET; fd is -1. Called once, never from inside the starting call.
 */
typedef void (*tls_done_fn)(void *arg, int status, int fd);

#define TLS_HANDSHAKE_MS 10000

/*
 * fd, connected and non-blocking, is taken over in any case. unread: bytes already read from it.
 * -ENOBUFS at the limit. The handle serves tls_cancel() until completion.
 */
int tls_accept(struct tls *tls, struct tls_ctx *ctx, int fd, struct str unread, tls_done_fn done,
	       void *arg, slot_handle *ret) _must_check_;
/* server_name: what the certificate must be for, a DNS name or an address. */
int tls_connect(struct tls *tls, struct tls_ctx *ctx, int fd, const char *server_name,
		tls_done_fn done, void *arg, slot_handle *ret) _must_check_;
/* Before completion: the connection is closed and done not called. Later: nothing. */
void tls_cancel(struct tls *tls, slot_handle handle);

/* Blocks: for programs, not for the loop. A thread of its own serves the pipe until either side
 * ends. fd is taken over in any case. */
int tls_dial(struct tls_ctx *ctx, int fd, const char *server_name, int *ret_fd) _must_check_;
/* Before the program ends: waits for those threads whose plain end is closed, so long at most. */
void tls_dial_settle(int ms);

#endif
