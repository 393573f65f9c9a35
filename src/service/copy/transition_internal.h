/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For all themes of the service: pausing, resuming, forking; one transition of a sandbox at a time.
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
/* Whether its processes are being made again from those of another one, or of an earlier time. */
bool sandbox_is_copy(const struct sandbox *sandbox);
/* Records the intent and the caller; the phase stays. For one that has more to do before. */
int transition_open(struct sandbox *sandbox, enum sandbox_transition transition,
		    sandbox_changed_fn done, void *arg, struct err *err) _must_check_;
void transition_enter(struct sandbox *sandbox, enum sandbox_transition transition);
int transition_refused(struct sandbox *sandbox);
/* The two together. */
int transition_begin(struct sandbox *sandbox, enum sandbox_transition transition,
		     sandbox_changed_fn done, void *arg, struct err *err) _must_check_;
void transition_save(struct sandbox *sandbox, bool close, bool durable);
/* rest: where it is then; the phase that it has already reached, or phase_rest() of it. */
void transition_end(struct sandbox *sandbox, enum sandbox_phase rest, const struct err *err);
void transition_cut(struct sandbox *sandbox);
struct op *transition_call(struct sandbox *sandbox, struct err *err);
struct op *transition_adopt(struct sandbox *sandbox,
			    struct op *op); /* the same for one with more */
int transition_uncall(struct sandbox *sandbox, struct op *op);
/* Ends the call. The sandbox while it is running or paused, else NULL: then it is swept now. */
struct sandbox *transition_called(struct op *op);
int transition_ask_pause(struct sandbox *sandbox, bool paused, engine_done_fn done,
			 struct err *err) _must_check_;
int transition_ask_destroy(struct sandbox *sandbox, engine_done_fn done,
			   struct err *err) _must_check_;

/* pause.c, resume.c */
void pause_become_frozen(struct sandbox *sandbox);
void pause_become_running(struct sandbox *sandbox);
void pause_become_hibernated(struct sandbox *sandbox, struct snapshot *snapshot);
void pause_release(struct sandbox *sandbox); /* the running part of a hibernated one goes */
void pause_failed(struct sandbox *sandbox, const struct err *err); /* to where it rests */
void pause_failed_to(struct sandbox *sandbox, enum sandbox_phase rest, const struct err *err);
void resume_ready(struct sandbox *sandbox);
void resume_failed(struct sandbox *sandbox, const struct err *why);
/* Goes on after a start. */
int sandbox_restore_on(struct sandbox *sandbox, struct err *err) _must_check_;

/* fork.c, create_batch.c */
void fork_stop_all(struct service *service);
void batch_stop_all(struct service *service);
int batch_name(char **ret, const char *name, uint32_t index, uint32_t count) _must_check_;
/*
 * From here on no start removes the members (0: none), and with idem a repeated call gets the same
 * reply: both in one transaction. On failure they are removed.
 */
int batch_keep(struct service *service, const slot_handle *members, uint32_t count,
	       struct idempotency *idem, const struct batch_hooks *hooks, void *arg,
	       struct err *err) _must_check_;

#endif
