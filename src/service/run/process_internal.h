/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: processes of sandboxes: their number, output and ends. */
#ifndef CAY_SERVICE_RUN_PROCESS_INTERNAL_H
#define CAY_SERVICE_RUN_PROCESS_INTERNAL_H

#include "engine/link.h"
#include "service/run/process.h"
#include "service/service_internal.h"

/* process_limit.c: how many processes run in a sandbox */
typedef void (*admit_fn)(void *arg, struct sandbox *sandbox, const struct err *err);
/* 1: it may start now. 0: fn is called later (sandbox is NULL with err). -1: refused. */
int admit_process(struct sandbox *sandbox, const char *name, admit_fn fn, void *arg,
		  struct err *err) _must_check_;
void admit_ended(
	struct sandbox *sandbox); /* called once for a process that ended or did not start */

/* exit_watch.c: ends of processes without a follow */
void exit_watch_start(struct sandbox *sandbox, uint32_t process_id, const char *kind, bool counts);
void exit_watch_check(struct sandbox *sandbox); /* after a new link */
void exit_watch_stop_all(struct service *service);

/* follow.c, process.c */
/* Whether a follow reports the end of this process. */
bool follow_tells(const struct service *service, slot_handle sandbox, uint32_t process_id);
void follow_stop_all(struct service *service);
void start_stop_all(struct service *service);
void status_from_link(struct process_status *to, const struct link_status *from);
void info_from_link(struct process_info *to, const struct link_process_info *from);
struct follow; /* for the link's spawn and window runs, which start one themselves */
struct follow *follow_new(struct sandbox *sandbox, const struct follow_spec *spec,
			  const struct follow_hooks *hooks, void *arg, struct err *err);
extern const struct link_follow_hooks follow_link_hooks; /* with the struct follow as arg */
void follow_made(struct follow *follow, uint32_t follow_id);
void follow_bind(struct follow *follow, uint32_t process_id, uint32_t run, uint64_t cursor);
/*
 * Marks the follow that starts with its process. waited: a caller waits for its end, so the sandbox
 * is not idle.
 */
void follow_own(struct follow *follow, struct sandbox *sandbox, bool waited);
void follow_drop(struct follow *follow); /* it never started */
slot_handle follow_handle(const struct follow *follow);
int sandbox_gone(const struct sandbox *sandbox, struct err *err);
#define FOLLOW_CREDIT (256 * 1024) /* for follows that collect output in memory */

#endif
