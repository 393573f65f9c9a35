/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For all themes of the service: the vault's secrets, their grants, and the sandboxes' authorities.
 */
#ifndef CAY_SERVICE_SECRET_SECRET_INTERNAL_H
#define CAY_SERVICE_SECRET_SECRET_INTERNAL_H

#include "engine/link.h"
#include "service/pairs.h"
#include "service/secret/secret.h"

/* secret.c */
void secret_settle(struct service *service); /* after the grants were read */
bool secret_name_ok(struct str name);
/* Checks them and joins them with commas: heap. */
int secret_hosts_make(const struct text_list *hosts, const char *what, char **ret,
		      struct err *err) _must_check_;
void secret_unused(struct service *service, struct secret *secret); /* one sandbox fewer uses it */
/* Decrypts the current value. The caller passes it to vault_wipe(). */
int secret_open(const struct service *service, const struct secret *secret,
		const struct secret_version *version, char **ret, size_t *ret_len) _must_check_;
/* grant.c */
int grants_load(struct service *service, struct err *err) _must_check_;
struct grants *grants_new(struct service *service);
struct grant *grants_add(struct grants *grants, struct secret *secret, int way, const char *env,
			 const char *hosts);
/* The sandbox's files now come from an owner of these grants. */
int grants_inherit(struct sandbox *sandbox, const struct grants *from,
		   struct err *err) _must_check_;
/* For a copy of its files: nothing is granted, everything is scrubbed. NULL: no memory. */
struct grants *grants_former(const struct grants *from);
/* Writes the grants unless they are already saved. id: of the sandbox or the snapshot. */
int grants_save(struct grants *grants, const char *id) _must_check_;
void grants_forget(struct sandbox *sandbox);
/* NAME=value of each grant, for new processes. The caller passes ret to grants_env_wipe(). */
int grants_env(const struct sandbox *sandbox, struct pairs *ret, struct err *err) _must_check_;
void grants_env_wipe(struct pairs *env);

#endif
