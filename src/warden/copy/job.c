/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/copy/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/log.h"
#include "sys/syscalls.h"
#include "warden/memory/checkpoint.h"
#include "warden/net/links.h"
#include "warden/storage/space.h"

enum job_state { JOB_NONE, JOB_WAITING, JOB_RUNNING };
enum job_kind { JOB_SNAPSHOT, JOB_COPY, JOB_MEASURE, JOB_WAKE, JOB_CHECK, JOB_RESIZE };

#define NO_SLOT (~0U)

struct job {
	enum job_state state;
	enum job_kind kind;
	bool unwanted; /* called off: whatever it made goes */
	bool silent;   /* the caller has gone: no reply */
	bool has_delete;
	uint64_t delete_tag; /* of the request that called it off */
	uint64_t order_no;   /* first come, first served */
	int pid;
	unsigned place; /* of its result */
	struct warden_request req;
	struct snapshot_order order;
};

struct jobs {
	struct job jobs[JOBS_MAX];
	struct job *running[JOBS_RUNNING_MAX]; /* by place */
	struct job_result *results;	       /* shared with the processes */
	uint64_t next_order_no;
	unsigned count;
};

int jobs_open(struct warden *w)
{
	w->jobs = calloc(1, sizeof(*w->jobs));
	if (!w->jobs)
		return -ENOMEM;
	w->jobs->results = mmap(NULL, JOBS_RUNNING_MAX * sizeof(struct job_result),
				PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return w->jobs->results == MAP_FAILED ? -errno : 0;
}

void job_step(struct job_result *result, const char *step)
{
	(void)snprintf(result->step, sizeof(result->step), "%s", step);
}

/* Not of any sandbox: it counts before the first. */
static int check_criu(struct warden *w, const struct snapshot_order *order,
		      struct job_result *result)
{
	(void)order;
	return criu_check(w, result->why);
}

static int (*const work[])(struct warden *w, const struct snapshot_order *order,
			   struct job_result *result) = {
	[JOB_SNAPSHOT] = snapshot_take,	  [JOB_COPY] = snapshot_copy,
	[JOB_MEASURE] = snapshot_measure, [JOB_WAKE] = restore_run,
	[JOB_CHECK] = check_criu,	  [JOB_RESIZE] = space_resize,
};

static _noreturn_ void run(struct warden *w, struct job *job)
{
	struct job_result *result = &w->jobs->results[job->place];
	sigset_t none;

	/* Dies with the warden, and holds no connection of it open. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != w->pid)
		_exit(1);
	(void)close(w->client_fd);
	(void)close(w->listen_fd);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	result->error = work[job->kind](w, &job->order, result);
	_exit(0);
}

static int start(struct warden *w, struct job *job, unsigned place)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	int pid;

	job->place = place;
	if (job->order.slot != NO_SLOT)
		clean_root_forget(w, job->order.slot); /* a volume belongs to one job at a time */
	w->jobs->results[place] = (struct job_result){ .error = -ECANCELED };
	pid = sys_clone3(&args);
	if (pid == 0)
		run(w, job);
	if (pid < 0)
		return pid;
	job->pid = pid;
	job->state = JOB_RUNNING;
	w->jobs->running[place] = job;
	return 0;
}

/* Memory takes as long as it is large; files take milliseconds. */
static bool is_long(const struct job *job)
{
	return job->kind == JOB_WAKE || (job->kind == JOB_SNAPSHOT && job->order.memory);
}

/*
 * One after another where it is the same sandbox: each freezes and thaws it. One place is left for
 * what is short. Memory waits until it is known whether CRIU works: a guess of "no" would end the
 * processes of a sandbox that hibernates.
 */
static bool may_run(const struct warden *w, const struct job *job)
{
	const struct jobs *jobs = w->jobs;
	unsigned longs = 0;

	if (w->criu_checking && is_long(job))
		return false;
	for (unsigned i = 0; i < JOBS_RUNNING_MAX; i++) {
		const struct job *other = jobs->running[i];

		if (!other)
			continue;
		if (other->kind == JOB_SNAPSHOT && job->kind == JOB_SNAPSHOT &&
		    other->order.slot == job->order.slot)
			return false;
		longs += is_long(other);
	}
	return !is_long(job) || longs < JOBS_RUNNING_MAX - 1;
}

static struct job *next_waiting(const struct warden *w)
{
	struct jobs *jobs = w->jobs;
	struct job *best = NULL;

	for (unsigned i = 0; jobs->count && i < JOBS_MAX; i++) {
		struct job *job = &jobs->jobs[i];

		if (job->state == JOB_WAITING && (!best || job->order_no < best->order_no) &&
		    may_run(w, job))
			best = job;
	}
	return best;
}

static void finish(struct warden *w, struct job *job, const struct job_result *result);

static void start_waiting(struct warden *w)
{
	struct jobs *jobs = w->jobs;

	for (unsigned place = 0; place < JOBS_RUNNING_MAX; place++) {
		struct job_result failed = { .step = "start a process" };
		struct job *job;

		if (jobs->running[place])
			continue;
		job = next_waiting(w);
		if (!job)
			return;
		failed.error = start(w, job, place);
		if (failed.error < 0)
			finish(w, job, &failed);
	}
}

static int add(struct warden *w, const struct warden_request *req, unsigned slot,
	       enum job_kind kind)
{
	struct jobs *jobs = w->jobs;
	struct job *job = jobs->jobs;

	while (job < jobs->jobs + JOBS_MAX && job->state != JOB_NONE)
		job++;
	if (job == jobs->jobs + JOBS_MAX)
		return -EAGAIN;
	*job = (struct job){
		.state = JOB_WAITING,
		.kind = kind,
		.order_no = jobs->next_order_no++,
		.req = *req,
		.order = { .slot = slot,
			   .number = w->next_volume++,
			   .temporary = req->flags & WARDEN_TEMPORARY,
			   .memory = req->flags & WARDEN_MEMORY },
	};
	memcpy(job->order.sandbox_id, req->id, sizeof(job->order.sandbox_id));
	memcpy(job->order.snapshot_id, req->snapshot_id, sizeof(job->order.snapshot_id));
	jobs->count++;
	start_waiting(w);
	return 0;
}

static struct job *find_taking(struct warden *w, const char *snapshot_id)
{
	for (unsigned i = 0; i < JOBS_MAX; i++) {
		struct job *job = &w->jobs->jobs[i];

		if (job->state != JOB_NONE && job->kind == JOB_SNAPSHOT &&
		    strcmp(job->req.snapshot_id, snapshot_id) == 0)
			return job;
	}
	return NULL;
}

bool jobs_has(struct warden *w, const char *snapshot_id)
{
	return find_taking(w, snapshot_id);
}

int jobs_add_snapshot(struct warden *w, const struct warden_request *req, unsigned slot)
{
	const struct job *taking = find_taking(w, req->snapshot_id);

	if (taking && taking->unwanted)
		return -EAGAIN; /* killed, and gone in a moment */
	if (taking || snapshot_exists(w, req->snapshot_id))
		return -EEXIST;
	return add(w, req, slot, JOB_SNAPSHOT);
}

int jobs_add_copy(struct warden *w, const struct warden_request *req, unsigned slot)
{
	return add(w, req, slot, JOB_COPY);
}

bool jobs_add_measure(struct warden *w, unsigned slot)
{
	static const struct warden_request nobody;

	for (unsigned i = 0; w->jobs->count && i < JOBS_MAX; i++)
		if (w->jobs->jobs[i].state != JOB_NONE && w->jobs->jobs[i].kind == JOB_MEASURE)
			return false;
	return add(w, &nobody, slot, JOB_MEASURE) >= 0;
}

void jobs_add_check(struct warden *w)
{
	static const struct warden_request nobody;

	if (w->criu_fd < 0 || w->snapshots_fd < 0)
		return;
	w->criu_checking = true; /* an add that cannot start a process finishes the check at once */
	if (add(w, &nobody, NO_SLOT, JOB_CHECK) < 0)
		w->criu_checking = false;
}

bool jobs_add_resize(struct warden *w)
{
	static const struct warden_request nobody;

	return add(w, &nobody, NO_SLOT, JOB_RESIZE) >= 0;
}

static void call_off(struct warden *w, struct job *job)
{
	static const struct job_result never = { .error = -ECANCELED };

	job->unwanted = true;
	if (job->state == JOB_RUNNING)
		/* Dead, or with memory half written on its way to undo that; the rest when it is
		 * reaped. */
		(void)kill(job->pid,
			   job->kind == JOB_SNAPSHOT && job->order.memory ? SIGTERM : SIGKILL);
	else
		finish(w, job, &never);
}

bool jobs_call_off(struct warden *w, const char *snapshot_id, uint64_t tag)
{
	struct job *job = find_taking(w, snapshot_id);

	if (!job || job->has_delete)
		return false;
	job->has_delete = true;
	job->delete_tag = tag;
	call_off(w, job);
	return true;
}

bool jobs_busy(const struct warden *w, unsigned slot)
{
	for (unsigned i = 0; w->jobs->count && i < JOBS_MAX; i++)
		if (w->jobs->jobs[i].state != JOB_NONE && w->jobs->jobs[i].order.slot == slot)
			return true;
	return false;
}

bool jobs_taking(const struct warden *w, unsigned slot)
{
	for (unsigned i = 0; w->jobs->count && i < JOBS_MAX; i++)
		if (w->jobs->jobs[i].state != JOB_NONE && w->jobs->jobs[i].order.slot == slot &&
		    w->jobs->jobs[i].kind == JOB_SNAPSHOT)
			return true;
	return false;
}

void jobs_kill_slot(struct warden *w, unsigned slot)
{
	for (unsigned i = 0; w->jobs->count && i < JOBS_MAX; i++)
		if (w->jobs->jobs[i].state != JOB_NONE && w->jobs->jobs[i].order.slot == slot)
			call_off(w, &w->jobs->jobs[i]);
}

void jobs_kill_all(struct warden *w)
{
	for (unsigned i = 0; w->jobs->count && i < JOBS_MAX; i++) {
		struct job *job = &w->jobs->jobs[i];

		if (job->state == JOB_NONE || job->order.slot == NO_SLOT)
			continue;
		job->silent = true;
		job->has_delete = false;
		call_off(w, job);
	}
}

bool jobs_running(const struct warden *w)
{
	return w->jobs->count > 0;
}

static void finish_copy(struct warden *w, struct job *job, const struct job_result *result,
			struct warden_reply *reply)
{
	int fds[WARDEN_FDS_MAX] = { -1, -1 };
	unsigned slot = job->order.slot;
	const char *step = NULL;

	if (reply->error == 0 && job->kind == JOB_COPY && job->order.memory) {
		reply->error = restore_prepare(w, &job->req, slot, result, &step);
		if (reply->error == 0)
			reply->error = add(w, &job->req, slot, JOB_WAKE);
		if (reply->error == 0 && !job->silent)
			return; /* answered when its processes are there */
	} else if (job->kind == JOB_WAKE) {
		reply->error = restore_finish(w, &job->req, slot, reply->error, result, fds);
	} else if (reply->error == 0)
		reply->error = spawn_copy(w, &job->req, slot, result, &step, fds);
	if (reply->error == 0)
		reply->address = links_address(w, slot);
	if (reply->error < 0) {
		if (step)
			(void)snprintf(reply->step, sizeof(reply->step), "%s", step);
		log_warn("create %s from %s: %s: %s", job->req.id, job->req.snapshot_id,
			 reply->step, strerror(-reply->error));
		w->rows[slot].state = SLOT_DYING;
	}
	if (!job->silent && serve_reply(w, reply, fds) < 0 && reply->error == 0) {
		w->rows[slot].state = SLOT_DYING; /* no client received its creation */
		(void)!sweep_kill(w, slot);
	}
	for (size_t i = 0; i < WARDEN_FDS_MAX; i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
}

static void recount(struct warden *w, unsigned slot, const struct job_result *result)
{
	if (w->rows[slot].state == SLOT_LIVE && result->has_volume_bytes)
		limits_recount(w, slot, result->volume_bytes, result->size_bytes);
}

/* Ended for whatever reason, maybe killed in the middle: the sandbox is resumed before anything
 * else. */
static void finish_snapshot(struct warden *w, struct job *job, const struct job_result *result,
			    struct warden_reply *reply)
{
	struct slot_row *row = &w->rows[job->order.slot];

	row->held = 1; /* a resume while it was held left the thawing to us */
	snapshot_thaw(w, job->order.slot);
	if (reply->error == 0 && job->order.temporary)
		reply->error = temporary_keep(w, &job->order, result->has_memory);
	else if (reply->error == 0)
		recount(w, job->order.slot, result);
	if (reply->error < 0) {
		log_warn("snapshot %s of %s: %s: %s", job->req.snapshot_id, job->req.id,
			 reply->step, strerror(-reply->error));
		snapshot_drop(w, job->order.number);
		/* Its name was new when it began: what has it now is this one. */
		(void)!snapshot_delete(w, job->req.snapshot_id);
	}
	w->space.snapshots_changed = true;
	reply->size_bytes = result->size_bytes + result->memory_bytes;
	reply->memory = result->has_memory;
	if (reply->error == 0 && job->order.memory && !result->has_memory)
		(void)snprintf(reply->step, sizeof(reply->step), "%s", result->why);
	memcpy(reply->template_hash, result->template_hash, sizeof(reply->template_hash));
	if (!job->silent)
		(void)!serve_reply(w, reply, NULL);
}

static void finish_check(struct warden *w, const struct job_result *result)
{
	struct warden_reply reply = { .op = WARDEN_HELLO };

	w->criu_checking = false;
	w->criu_works = result->error == 0;
	if (result->error < 0)
		log_warn("CRIU does not work here, memory is not kept: %s", result->why);
	serve_hello(w, &reply);
	if (w->client_fd >= 0)
		(void)!serve_reply(w, &reply, NULL);
}

static void finish(struct warden *w, struct job *job, const struct job_result *result)
{
	struct job ended = *job; /* an answer that fails may end other jobs, not this one again */
	struct warden_reply reply = { .op = job->req.op,
				      .tag = job->req.tag,
				      .error = job->unwanted ? -ECANCELED : result->error };
	struct warden_reply deleted = { .op = WARDEN_SNAPSHOT_DELETE, .tag = job->delete_tag };

	if (ended.order.slot != NO_SLOT && ended.unwanted &&
	    w->rows[ended.order.slot].state == SLOT_DYING)
		reply.error = -ESRCH; /* its sandbox was destroyed */
	if (reply.error) /* copied as text: a killed job may have left it in the middle */
		(void)snprintf(reply.step, sizeof(reply.step), "%.*s", (int)sizeof(reply.step) - 1,
			       result->step);
	if (ended.state == JOB_RUNNING)
		w->jobs->running[ended.place] = NULL;
	job->state = JOB_NONE;
	w->jobs->count--;
	switch (ended.kind) {
	case JOB_COPY:
	case JOB_WAKE:
		finish_copy(w, &ended, result, &reply);
		break;
	case JOB_SNAPSHOT:
		finish_snapshot(w, &ended, result, &reply);
		break;
	case JOB_CHECK:
		finish_check(w, result);
		return;
	case JOB_RESIZE:
		space_resized(w, result);
		return;
	case JOB_MEASURE: /* no request waits for it; a failure is tried again */
		if (reply.error == 0)
			recount(w, ended.order.slot, result);
		return;
	}
	if (ended.has_delete) /* maybe of a later client than the snapshot's */
		(void)!serve_reply(w, &deleted, NULL);
}

bool jobs_ended(struct warden *w, int pid, int status)
{
	for (unsigned i = 0; i < JOBS_RUNNING_MAX; i++) {
		struct job *job = w->jobs->running[i];
		struct job_result result;

		if (!job || job->pid != pid)
			continue;
		result = w->jobs->results[i];
		if (status != 0 && result.error == 0)
			result.error = -ECANCELED;
		finish(w, job, &result);
		start_waiting(w);
		return true;
	}
	return false;
}
