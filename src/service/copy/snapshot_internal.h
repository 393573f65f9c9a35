/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: the table of snapshots. */
#ifndef CAY_SERVICE_COPY_SNAPSHOT_INTERNAL_H
#define CAY_SERVICE_COPY_SNAPSHOT_INTERNAL_H

#include "service/service_internal.h"
#include "service/copy/snapshot.h"

/* snapshot.c. sandbox is NULL if it has ended. If err is set, the snapshot is already being
 * deleted. */
typedef void (*snapshot_taken_fn)(void *arg, struct sandbox *sandbox, struct snapshot *snapshot,
				  const struct err *err);
int snapshot_take(struct sandbox *sandbox, const struct snapshot_spec *spec, snapshot_taken_fn done,
		  void *arg, struct snapshot **ret, struct err *err) _must_check_;
struct snapshot *snapshot_use(struct snapshot *snapshot);
void snapshot_unuse(struct snapshot *snapshot); /* NULL is allowed */
void snapshot_discard(struct snapshot *snapshot);
void snapshot_sweep(struct snapshot *snapshot);
void snapshot_tick(struct service *service);
int snapshot_load(struct service *service, struct err *err) _must_check_;
void snapshot_list_begin(struct service_engine *engine);
void snapshot_listed(struct service_engine *engine, const char *id);
void snapshot_settle(struct service_engine *engine);
int snapshot_adopt(struct sandbox *sandbox,
		   const char *id) _must_check_; /* adds a snapshot that only the engine knows */
struct snapshot *snapshot_of_reboot(const struct sandbox *sandbox);
struct snapshot *snapshot_of_hibernate(const struct sandbox *sandbox);
void snapshot_done_all(struct service *service);
/* message NULL: the snapshot contains everything that was requested. */
void snapshot_set_memory_error(struct snapshot *snapshot, const char *message);

/* For the three files of the table. */
int snapshot_add(struct service *service, struct snapshot *snapshot) _must_check_;
void snapshot_drop(struct snapshot *snapshot); /* removes it from the table and frees it */
void snapshot_free(struct snapshot *snapshot);
void snapshot_count(struct snapshot *snapshot, int by); /* in the quota of its owner */
/* id NULL: a new id is created */
struct snapshot *snapshot_new(struct sandbox *sandbox, const struct snapshot_spec *spec,
			      const char *id);
/* snapshot_store.c */
int snapshot_save(const struct snapshot *snapshot) _must_check_;
int snapshot_unsave(const struct snapshot *snapshot) _must_check_;

/* snapshot_request.c */
int snapshot_check_usable(const struct snapshot *snapshot, struct err *err) _must_check_;
int snapshot_check_room(const struct snapshot *snapshot, uint32_t memory_mb,
			struct err *err) _must_check_;
int snapshot_transition_begin(struct sandbox *sandbox, enum sandbox_transition transition,
			      const char *what, struct err *err) _must_check_;
void snapshot_transition_end(struct sandbox *sandbox);

#endif
