/* SPDX-License-Identifier: Apache-2.0 */
/* Authorities of sandboxes; those used last are kept in memory. */
#include <string.h>

#include "face/broker/conn.h"

struct authority *authority_find(struct broker *broker, struct sandbox *sandbox)
{
	struct authority *oldest = &broker->authorities[0];
	char saved[SECRET_AUTHORITY_BYTES];
	struct tls_ca *ca = NULL;
	int r;

	for (size_t i = 0; i < AUTHORITIES_MAX; i++) {
		struct authority *a = &broker->authorities[i];

		if (a->ca && strcmp(a->id, egress_id(sandbox)) == 0) {
			a->used = ++broker->uses;
			return a;
		}
		if (a->used < oldest->used)
			oldest = a;
	}
	r = trust_authority(sandbox, saved);
	if (r == 0)
		r = tls_ca_load(str_of(saved), &ca);
	explicit_bzero(saved, sizeof(saved));
	if (r < 0 || str_copy(oldest->id, sizeof(oldest->id), str_of(egress_id(sandbox))) < 0) {
		tls_ca_free(ca);
		return NULL;
	}
	tls_ca_free(oldest->ca);
	oldest->ca = ca;
	oldest->used = ++broker->uses;
	oldest->pace = (struct pace){ 0 };
	return oldest;
}

int broker_authority_new(const char *name, char *saved)
{
	struct tls_ca *ca;
	int r = tls_ca_new(name, &ca);

	if (r < 0)
		return r;
	r = tls_ca_save(ca, saved);
	tls_ca_free(ca);
	return r;
}

int broker_authority_certificate(const char *saved, char *certificate)
{
	struct tls_ca *ca;
	int r = tls_ca_load(str_of(saved), &ca);

	if (r < 0)
		return r;
	r = str_copy(certificate, SECRET_AUTHORITY_BYTES, tls_ca_certificate(ca));
	tls_ca_free(ca);
	return r;
}
