/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For all themes of the service: pausing, resuming, snapshots, forks. A sandbox is in at most one
 * transition.
 */
#ifndef CAY_SERVICE_COPY_TRANSITION_INTERNAL_H
#define CAY_SERVICE_COPY_TRANSITION_INTERNAL_H

#include "service/account/idempotency.h"
#include "service/service_internal.h"
#include "service/copy/snapshot.h"

/* transition.c */
const char *transition_name(enum sandbox_transition transition);
int transition_check(const struct sandbox *sandbox, struct err *err) _must_check_;
int transition_need(const struct sandbox *sandbox, enum capability capability, const char *what,
		    struct err *err) _must_check_;
bool transition_saves_memory(const struct sandbox *sandbox);
int transition_check_linked(const struct sandbox *sandbox, struct err *err) _must_check_;
/* Whether its processes may be copied; err has the reason if not. */
int transition_copies_memory(const struct sandbox *sandbox, struct err *err) _must_check_;
/* Whether resuming it restores its processes; whether they are saved while it is paused. */
bool sandbox_wakes_memory(const struct sandbox *sandbox);
bool sandbox_keeps_memory(const struct sandbox *sandbox);
/* Whether its processes are restored from those of another sandbox, or from an earlier time. */
bool sandbox_is_copy(const struct sandbox *sandbox);
/* Records the intent and the caller, but does not change the phase. For transitions that have more
 * to do first. */
int transition_open(struct sandbox *sandbox, enum sandbox_transition transition,
		    sandbox_changed_fn done, void *arg, struct err *err) _must_check_;
void transition_enter(struct sandbox *sandbox, enum sandbox_transition transition);
int transition_refused(struct sandbox *sandbox);
/* transition_open() and the change of the phase. */
int transition_begin(struct sandbox *sandbox, enum sandbox_transition transition,
		     sandbox_changed_fn done, void *arg, struct err *err) _must_check_;
void transition_save(struct sandbox *sandbox, bool close, bool durable);
/* rest: the phase afterwards, which is either the current one or phase_rest() of it. */
void transition_end(struct sandbox *sandbox, enum sandbox_phase rest, const struct err *err);
void transition_cut(struct sandbox *sandbox);
struct op *transition_call(struct sandbox *sandbox, struct err *err);
struct op *transition_adopt(struct sandbox *sandbox,
			    struct op *op); /* the same for an operation with more members */
int transition_uncall(struct sandbox *sandbox, struct op *op);
/* Ends the engine call. Returns the sandbox if it is running or paused; otherwise NULL, and the
 * sandbox is swept now. */
struct sandbox *transition_called(struct op *op);
int transition_ask_pause(struct sandbox *sandbox, bool paused, engine_done_fn done,
			 struct err *err) _must_check_;
int transition_ask_destroy(struct sandbox *sandbox, engine_done_fn done,
			   struct err *err) _must_check_;

/* pause.c, resume.c */
void pause_become_frozen(struct sandbox *sandbox);
void pause_become_running(struct sandbox *sandbox);
void pause_become_hibernated(struct sandbox *sandbox, struct snapshot *snapshot);
void pause_release(struct sandbox *sandbox); /* destroys the running part of a hibernated sandbox */
void pause_failed(struct sandbox *sandbox, const struct err *err); /* returns to the phase before */
void pause_failed_to(struct sandbox *sandbox, enum sandbox_phase rest, const struct err *err);
void resume_ready(struct sandbox *sandbox);
void resume_failed(struct sandbox *sandbox, const struct err *why);
/* Continues a restore after a restart of the daemon. */
int sandbox_restore_on(struct sandbox *sandbox, struct err *err) _must_check_;

/* fork.c, create_batch.c */
void fork_stop_all(struct service *service);
void batch_stop_all(struct service *service);
int batch_name(char **ret, const char *name, uint32_t index, uint32_t count) _must_check_;
/*
 * Closes the intents of the members (0: none), so that the next start keeps them, and with idem
 * records the reply for a repeated call, in one transaction. On failure the members are removed.
 */
int batch_keep(struct service *service, const slot_handle *members, uint32_t count,
	       struct idempotency *idem, const struct batch_hooks *hooks, void *arg,
	       struct err *err) _must_check_;

#endif
