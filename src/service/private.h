/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: the service object and what its files call of each other. */
#ifndef CAY_SERVICE_PRIVATE_H
#define CAY_SERVICE_PRIVATE_H

#include "base/arena.h"
#include "base/map.h"
#include "base/time.h"
#include "engine/driver.h"
#include "engine/link.h"
#include "net/loop.h"
#include "service/bus.h"
#include "service/egress.h"
#include "service/exec.h"
#include "service/idempotency.h"
#include "service/initialize.h"
#include "service/sandbox.h"
#include "service/secret_private.h"
#include "service/service.h"
#include "service/snapshot.h"
#include "service/template.h"
#include "service/window.h"
#include "store/store.h"

#define SERVICE_OBJECTS_MAX 65536 /* sandboxes and pool members, dying ones included */
#define SERVICE_TICK_MS 1000
#define HELLO_TIMEOUT_MS 10000
#define ERROR_KEEP_MS (10 * 60 * 1000LL) /* a dead sandbox can be looked at for ten minutes */
#define SWEEP_RETRY_MIN_MS 200
#define SWEEP_RETRY_MAX_MS 30000
#define TOMBSTONES                                                                               \
	256	       /* the last ended sandboxes, so that a 404 can say why; older are dropped \
			*/
#define POOLS_MAX 16   /* templates with a pool at once; others are made cold */
#define FORGET_MAX 128 /* rows waiting for deletion; at the limit they go at once */
#define READY_WAIT_DEFAULT_MS 10000
#define READY_WAITS_MAX 4096 /* calls that wait for a link, on this host; more are refused */
#define BUILDS_MAX 64	     /* remembered builds; the oldest finished one is dropped */

struct service_engine {
	struct service *service;
	const struct engine_driver *driver;
	struct engine *engine; /* NULL: could not be opened */
	uint32_t capabilities;
	bool lost;
	bool listed; /* its sandboxes have been reconciled at least once */
	bool listing;
	char why[ERR_MESSAGE_MAX]; /* when it is not usable */
};

/* One operation of an engine or link under way. The service may end before it: then service is
 * NULL and the completion only frees. */
struct call {
	struct call *prev, *next;
	struct service *service;
	slot_handle sandbox;
	struct service_engine *engine;
	void (*fn)(void); /* the waiting face's function, cast back by whoever set it */
	void *arg;
	char id[ENGINE_ID_MAX + 1];
};

struct tombstone {
	char id[SANDBOX_ID_LEN + 1];
	char owner[AUTH_KEY_ID_SIZE];
	uint8_t reason;
	bool every_port; /* it had a preview of all of them */
};

struct service {
	struct service_config config;
	struct loop *loop;
	struct store *store;
	char boot_id[TIME_BOOT_ID_SIZE];
	int64_t wall_distance_ms; /* from the boot clock to the wall clock, see clock.c */
	struct service_engine engines[SERVICE_ENGINES_MAX];
	size_t engine_count;

	struct slot_table sandboxes;
	struct map by_id;
	struct map by_name;		 /* "owner/name" */
	struct map by_address;		 /* of links */
	struct sandbox *oldest, *newest; /* visible ones by seq */
	uint32_t live_count;		 /* handed out or being made for somebody */
	int64_t last_row, last_seq;
	struct map snapshots; /* by id */
	struct snapshot *oldest_snapshot, *newest_snapshot;
	uint32_t snapshots_deleting; /* calls of engines under way */
	struct fork *forks;
	struct batch *batches;
	struct call *calls;
	struct port_dial *dials;
	uint32_t dial_count;
	struct slot_table execs;
	struct slot_table follows;
	struct end_watch *end_watches;
	struct slot_table window_calls;
	struct slot_table code_jobs;
	struct process_start *starts;
	uint32_t stream_count;
	struct slot_table files;
	uint32_t wait_count; /* of READY_WAITS_MAX */
	struct tombstone tombstones[TOMBSTONES];
	uint32_t tombstone_next;

	struct vault *vault;	   /* NULL: there has been no secret yet */
	uint32_t vault_generation; /* grows with every rotation */
	struct map secrets;	   /* by id */
	struct secret *oldest_secret, *newest_secret;

	struct bus *bus;
	struct usage_row *usage_first, *usage_last; /* not yet written */
	uint32_t usage_count, metered_count, history_count;
	int64_t usage_rolled_ms; /* until then intervals may be summed up per day */
	bool usage_rolling;	 /* and more of them are due */
	int64_t alive_ms;	 /* when the engines last knew their sandboxes */
	bool rebooted;		 /* the host, since the last start; until every engine was asked */
	bool boot_saved;
	uint32_t wakes; /* sandboxes to wake */

	uint8_t access_secret[32]; /* see access.c */
	struct map webhooks;	   /* by id */
	struct webhook *oldest_webhook, *newest_webhook;
	struct webhook *hooks_first, *hooks_last; /* waiting for one of webhooks_at_once */
	uint32_t hooks_posting;

	struct map keys_by_hash;
	struct map keys_by_id;
	struct template *templates;
	struct map template_refs; /* name -> struct template_ref */
	struct pool *pools[POOLS_MAX];
	struct build *builds[BUILDS_MAX];
	struct map idempotency; /* "owner/key" -> struct idempotency under way */

	struct loop_timer *deadline_timer;
	int64_t deadline_ms; /* boot clock of the next due look; 0: none */
	struct loop_timer *tick_timer;
	uint32_t ticks;
	bool checkpointing;
	struct loop_timer *forget_timer;
	bool forget_armed;
	uint32_t forgotten_count;
	int64_t forgotten[FORGET_MAX];

	void (*drained)(void *arg, const struct err *err);
	void *drained_arg;
	int64_t drain_limit_ms;
	bool closing; /* no new sandboxes */
	struct service_counters counters;
};

struct port_dial;
struct preview;

/* calls.c */
struct call *call_new(struct service *service, slot_handle sandbox, struct err *err);
/* Unlinks and frees; the service it belonged to, or NULL when that is gone. */
struct service *call_end(struct call *call);
/* The same for its sandbox, or NULL when that or all is gone. */
struct sandbox *call_end_sandbox(struct call *call);

/* sandbox.c */
struct sandbox *sandbox_new(struct service *service, struct service_engine *engine,
			    struct template *tpl, const char *id, struct err *err);
void sandbox_drop(struct sandbox *sandbox); /* out of every table, and freed */
int sandbox_save(struct sandbox *sandbox) _must_check_;
void sandbox_show(struct sandbox *sandbox); /* into the list of visible ones; sets seq */
void sandbox_hide(struct sandbox *sandbox);
void sandbox_set_state(struct sandbox *sandbox, enum sandbox_state state,
		       enum sandbox_reason reason);
void sandbox_set_error(struct sandbox *sandbox, const char *message);
void sandbox_attrs_done(struct sandbox_attrs *attrs);
/* All but the name. On failure to has to be done all the same. */
int sandbox_attrs_copy(struct sandbox_attrs *to, const struct sandbox_attrs *from) _must_check_;
int sandbox_name_reserve(struct service *service, const char *owner, const char *name,
			 struct sandbox *sandbox, struct err *err) _must_check_;
void sandbox_name_release(struct service *service, const char *owner, const char *name);
void sandbox_name_bind(struct service *service, const char *owner, const char *name,
		       struct sandbox *sandbox);
enum sandbox_state sandbox_state_parse(const char *name);
enum sandbox_reason sandbox_reason_parse(const char *name);

/* creation.c, hand_out.c */
void creation_take_attrs(struct creation *creation, struct sandbox *sandbox);
void creation_answer(struct creation *creation, struct sandbox *sandbox, const struct err *err);
void creation_cold(struct creation *creation);
void creation_hand_out(struct creation *creation, struct sandbox *member);
void creation_free(struct creation *creation);
struct creation *creation_new(struct service *service, const struct key *owner,
			      const struct sandbox_spec *spec, struct err *err);
int creation_take_room(struct creation *creation, struct err *err) _must_check_;
/* Takes it over. As sandbox_create(): 1 with *ret_now, 0 later, -1. */
int creation_start(struct creation *creation, const struct sandbox **ret_now,
		   struct err *err) _must_check_;
bool creation_require(const struct creation *creation);
int create_check_end(const struct service_engine *engine, int on_timeout,
		     struct err *err) _must_check_;
/* One of a fork's: as sandbox_create() from a snapshot, never at once. attrs are taken over on
 * success. */
int create_from(struct service *service, struct sandbox_attrs *attrs, struct service_engine *engine,
		struct template *tpl, struct snapshot *snapshot, bool files_only,
		sandbox_made_fn done, void *arg, struct err *err) _must_check_;

/* create.c */
/* Row and intent, then the engine. On failure nothing is left and err is set. */
int create_begin(struct sandbox *sandbox, struct creation *creation, struct err *err) _must_check_;
void create_ready(struct sandbox *sandbox);  /* the agent said hello */
void create_finish(struct sandbox *sandbox); /* and its initializers are done: it runs */
void create_failed(struct sandbox *sandbox, const struct err *err); /* before that */
/* With more to say than an answer has room for. */
void create_failed_as(struct sandbox *sandbox, const struct err *err, const char *last_error);

/* initialize.c */
bool initialize_due(const struct sandbox *sandbox);
void initialize_start(struct sandbox *sandbox); /* then create_finish() or create_failed_as() */
void initialize_go_on(struct sandbox *sandbox); /* its authority is in */

void create_limits(const struct sandbox *sandbox, struct engine_limits *ret);
void create_spec(const struct sandbox *sandbox, struct engine_spec *ret);

/* egress.c */
enum engine_link egress_link(const struct sandbox *sandbox); /* what its policy needs */
enum engine_link egress_policy_link(const struct egress_policy *policy);
bool egress_is_linked(const struct sandbox *sandbox);
/* denials.c: the lists are saved every few seconds, and with the service's end. */
int denials_load(struct service *service, struct err *err) _must_check_;
void denials_tick(struct service *service);
void denials_save_all(struct service *service);
void denials_forget(struct sandbox *sandbox);
void egress_linked(struct sandbox *sandbox, const struct engine_network *network);
void egress_free(struct sandbox *sandbox);
void egress_rejected(struct service *service, uint32_t from, uint32_t to, uint16_t port,
		     uint8_t protocol);
int egress_check_engine(const struct service_engine *engine, const struct egress_policy *policy,
			struct err *err) _must_check_;
/* The policy is another one now. 1: that is all. 0: the engine changes the link, then done. */
int egress_apply(struct sandbox *sandbox, struct egress_policy *old, sandbox_moved_fn done,
		 void *arg, struct err *err) _must_check_;

/* clock.c */
void clock_start(struct sandbox *sandbox);  /* it runs for the first time */
void clock_stop(struct sandbox *sandbox);   /* while it still counts as running */
void clock_go(struct sandbox *sandbox);	    /* it runs again */
void clock_extend(struct sandbox *sandbox); /* all of its time again */
void clock_set(struct sandbox *sandbox, int64_t in_ms);
void clock_load(struct sandbox *sandbox, const struct store_sandbox *row);
int64_t clock_idle_due_ms(const struct sandbox *sandbox); /* boot clock; 0: never */
int64_t clock_expires_ms(const struct sandbox *sandbox);  /* these two: wall clock */
int64_t clock_idle_expires_ms(const struct sandbox *sandbox);

/* move.c */
const char *move_words(enum sandbox_move move);
int move_check(const struct sandbox *sandbox, struct err *err) _must_check_;
int move_need(const struct sandbox *sandbox, uint32_t capabilities, const char *what,
	      struct err *err) _must_check_;
bool move_saves_memory(const struct sandbox *sandbox);
int move_check_linked(const struct sandbox *sandbox, struct err *err) _must_check_;
/* Whether its processes may be copied; err says why not. */
int move_copies_memory(const struct sandbox *sandbox, struct err *err) _must_check_;
/* Whether resuming it brings its processes back; whether it has them somewhere while paused. */
bool sandbox_wakes_memory(const struct sandbox *sandbox);
bool sandbox_keeps_memory(const struct sandbox *sandbox);
/* Whether its processes are being made again from those of another one, or of an earlier time. */
bool sandbox_is_copy(const struct sandbox *sandbox);
int move_begin(struct sandbox *sandbox, enum sandbox_move move, sandbox_moved_fn done, void *arg,
	       struct err *err) _must_check_;
void move_save(struct sandbox *sandbox, bool close, bool durable);
void move_end(struct sandbox *sandbox, const struct err *err);
void move_cut(struct sandbox *sandbox);
struct call *move_call(struct sandbox *sandbox, struct err *err);
int move_uncall(struct sandbox *sandbox, struct call *call);
/* Ends the call. The sandbox while it is running or paused, else NULL: then it is swept now. */
struct sandbox *move_called(struct call *call);
int move_ask_pause(struct sandbox *sandbox, bool paused, engine_done_fn done,
		   struct err *err) _must_check_;
int move_ask_destroy(struct sandbox *sandbox, engine_done_fn done, struct err *err) _must_check_;

/* pause.c, resume.c */
void pause_become_frozen(struct sandbox *sandbox);
void pause_become_running(struct sandbox *sandbox);
void pause_become_hibernated(struct sandbox *sandbox, struct snapshot *snapshot);
void pause_release(struct sandbox *sandbox); /* the running part of a hibernated one goes */
void pause_failed(struct sandbox *sandbox, const struct err *err);
void resume_ready(struct sandbox *sandbox);
void resume_failed(struct sandbox *sandbox, const struct err *why);
/* Goes on after a start. */
int sandbox_restore_on(struct sandbox *sandbox, struct err *err) _must_check_;

/* fork.c, batch.c */
void fork_stop_all(struct service *service);
void batch_stop_all(struct service *service);
int many_name(char **ret, const char *name, uint32_t index, uint32_t count) _must_check_;
/* From here on no start sweeps the members (0: none), and with idem a repeated call gets the same
 * answer: both in one transaction. On failure they are gone. */
int many_keep(struct service *service, const slot_handle *members, uint32_t count,
	      struct idempotency *idem, const struct many_hooks *hooks, void *arg,
	      struct err *err) _must_check_;

/* attach.c: the link of a sandbox */
int attach_link(struct sandbox *sandbox, const struct engine_made *made,
		struct err *err) _must_check_;
void attach_start(struct sandbox *sandbox);
void attach_drop_link(struct sandbox *sandbox);
void attach_said_hello(struct sandbox *sandbox); /* one that was being made or resumed */
void attach_failed(struct sandbox *sandbox, const struct err *why); /* before that */

/* fork_hook.c: 0: attach_said_hello() or attach_failed() comes later. -1: there is none to run. */
int fork_hook_start(struct sandbox *sandbox) _must_check_;

/* ready.c: calls that wait for the link */
void ready_there(struct sandbox *sandbox); /* it is there */
void ready_ended(struct sandbox *sandbox); /* it will never be */
void ready_paused(struct sandbox *sandbox);
void ready_failed(struct sandbox *sandbox, const struct err *why); /* it could not be resumed */
void ready_tick(struct service *service);
void ready_drop(struct sandbox *sandbox);

/* destroy.c */
void destroy_sweep(struct sandbox *sandbox); /* asks the engine; again later when it fails */
void destroy_unknown(struct service_engine *engine, const char *id);
/* It could not be started: what the engine has of it goes, the rest stays to be looked at. Where
 * only an initializer failed it lives on, and can be worked with. */
int destroy_retain(struct sandbox *sandbox) _must_check_;
void destroy_unretain(struct sandbox *sandbox); /* it does not live any more */
void destroy_died(struct sandbox *sandbox, enum sandbox_reason reason, const char *message);
void destroy_check_drained(struct service *service);

/* forget.c */
void forget_row(struct service *service, int64_t row);
void forget_flush(struct service *service);
void forget_done(struct service *service);

/* expiry.c */
void expiry_arm(struct service *service, int64_t due_ms);
void expiry_on_timer(void *arg);

/* bus.c */
struct event;
int bus_open(struct service *service, struct err *err) _must_check_;
/* Gives it its id and time, and copies it; type is one of event_names. */
void bus_emit(struct service *service, const struct event *event);
void bus_flush(struct service *service);
void bus_tick(struct service *service);
void bus_done(struct service *service);

void bus_flush_soon(struct service *service);

/* usage.c */
int usage_load(struct service *service, struct err *err) _must_check_;
void usage_changed(struct sandbox *sandbox); /* after every change of its state */
/* For bus.c, which writes them with the events. */
int usage_put_all(struct service *service) _must_check_;
int usage_put_of(const struct sandbox *sandbox) _must_check_;
void usage_clear(struct service *service);
void usage_tick(struct service *service);

/* history.c */
void history_asked(struct sandbox *sandbox);
void history_first(struct sandbox *sandbox, const struct engine_stat *stat);
void history_tick(struct service *service);
void history_free(struct sandbox *sandbox);

/* event.c */
struct event_process {
	uint32_t process_id;
	uint32_t run;	  /* of a window; else 0 */
	const char *kind; /* exec, stream, process, window */
	const char *name; /* or NULL */
};
struct snapshot;
struct json_writer event_begin(const struct sandbox *sandbox);
void event_send(const struct sandbox *sandbox, enum event_type type, struct json_writer *w);
void event_snapshot_deadline(struct snapshot *snapshot,
			     int64_t now_ms); /* warns once, when it is near */
void event_snapshot(const struct snapshot *snapshot, bool created);
void event_state(const struct sandbox *sandbox, const char *previous);
void event_process_started(const struct sandbox *sandbox, const struct event_process *process);
void event_process_ended(const struct sandbox *sandbox, const struct event_process *process,
			 const struct process_status *status);
void event_process_refused(const struct sandbox *sandbox, const struct event_process *process,
			   const struct err *err);
/* Warns once of a deadline that is near; when to look again. The clock is the caller's. */
int64_t event_deadline(const struct sandbox *sandbox, enum sandbox_reason what, int64_t now_ms,
		       int64_t due_ms, uint32_t timeout_sec, int64_t *warned_ms);

void event_webhook_disabled(struct service *service, const char *id, const char *owner,
			    const char *workspace, const char *url, const char *reason);

/* webhook.c */
struct webhook;
int webhook_load(struct service *service, struct err *err) _must_check_;
void webhook_tick(struct service *service);
void webhook_key_deleted(struct service *service, const char *owner);
void webhook_done_all(struct service *service);

/* reconcile.c, recover.c */
void recover_settle(struct sandbox *sandbox, bool seen);
void recover_tick(struct service *service);
/* reboot.c */
int reboot_load(struct service *service, struct err *err) _must_check_;
void reboot_tick(struct service *service);
int reboot_save_alive(struct service *service) _must_check_;
/* Is this snapshot what an engine saved of a sandbox of ours? Then it is in the table now. */
bool reboot_is_name(const char *id);
bool reboot_listed(struct service_engine *engine, const char *id);
void reboot_keep(struct sandbox *sandbox, struct snapshot *files);
int reconcile_load(struct service *service, struct err *err) _must_check_;
void reconcile_start(struct service_engine *engine);

/* pool.c */
struct sandbox *pool_take(struct service *service, struct service_engine *engine,
			  struct template *tpl, enum engine_link network);
/* 0: the creation waits in the pool; -1: no pool for this one. */
int pool_wait(struct service *service, struct creation *creation, struct service_engine *engine,
	      struct template *tpl, enum engine_link network) _must_check_;
void pool_unwait(struct creation *creation);
void pool_made(struct sandbox *member); /* its agent said hello: warm up, then ready */
void pool_fill_failed(struct sandbox *member, const struct err *err);
void pool_adopt(struct sandbox *member);  /* found again after a restart, link ready */
void pool_forget(struct sandbox *member); /* dying */
void pool_drop_template(struct service *service, const char *name);
void pool_limits(const struct service *service, enum engine_link network,
		 struct engine_limits *ret);
void pool_start(struct service *service);
void pool_stop(struct service *service);
void pool_tick(struct service *service);
void pool_done(struct service *service); /* after every sandbox has been dropped */
void pool_gauges(const struct service *service, struct service_gauges *ret);

/* spec.c: an exec_spec, checked, as the link wants it */
struct spec_build {
	struct link_exec exec;
	struct arena arena;
	struct pairs own_env;
	struct pairs secret_env;
	size_t bytes; /* of EXEC_BYTES_MAX */
};
int spec_build(struct spec_build *b, const struct sandbox *sandbox, const struct exec_spec *spec,
	       struct err *err) _must_check_;
/* env, cwd and user only. */
int spec_build_place(struct spec_build *b, const struct sandbox *sandbox,
		     const struct exec_spec *spec, struct err *err) _must_check_;
int spec_keep(struct spec_build *b, struct err *err) _must_check_; /* beyond the caller's views */
void spec_done(struct spec_build *b);
int spec_check_name(const char *what, struct str name, struct err *err) _must_check_;

/* admit.c: how many processes run in a sandbox */
typedef void (*admit_fn)(void *arg, struct sandbox *sandbox, const struct err *err);
/* 1: it may, now. 0: fn tells later (sandbox is NULL with err). -1: no. */
int admit_process(struct sandbox *sandbox, const char *name, admit_fn fn, void *arg,
		  struct err *err) _must_check_;
void admit_ended(struct sandbox *sandbox); /* once for one that did not start or has ended */

/* ends.c: ends of processes that nobody follows */
void ends_watch(struct sandbox *sandbox, uint32_t process_id, const char *kind, bool counts);
void ends_look(struct sandbox *sandbox); /* its link is new */
void ends_stop_all(struct service *service);

/* exec.c, follow.c, process.c, window.c */
/* Whether a follow tells the end of this process. */
bool follow_tells(const struct service *service, slot_handle sandbox, uint32_t process_id);
void exec_stop_all(struct service *service);
void follow_stop_all(struct service *service);
void start_stop_all(struct service *service);
void status_from_link(struct process_status *to, const struct link_status *from);
void info_from_link(struct process_info *to, const struct link_process_info *from);
struct follow; /* for the link's spawn and window runs, which begin one by themselves */
struct follow *follow_new(struct sandbox *sandbox, const struct follow_spec *spec,
			  const struct follow_hooks *hooks, void *arg, struct err *err);
extern const struct link_follow_hooks follow_link_hooks; /* with the struct follow as arg */
void follow_made(struct follow *follow, uint32_t follow_id);
void follow_bind(struct follow *follow, uint32_t process_id, uint32_t run, uint64_t cursor);
/* It is the process's own; waited: somebody waits for its end, nothing is idle meanwhile. */
void follow_own(struct follow *follow, struct sandbox *sandbox, bool waited);
void follow_drop(struct follow *follow); /* it never began */
slot_handle follow_handle(const struct follow *follow);
int sandbox_gone(const struct sandbox *sandbox, struct err *err);
#define FOLLOW_CREDIT (256 * 1024) /* of follows that collect in memory */
void window_stop_all(struct service *service);
void code_stop_all(struct service *service);
/* The windows are looked through for one name; looked() owns the struct from then on. sandbox is
 * NULL with an error, and also without one when the service has ended. */
struct window_look {
	void (*looked)(struct window_look *look, struct sandbox *sandbox, const struct err *err);
	struct call *call;
	uint32_t windows;
	bool found;
	struct window_info info;
	char name[PROCESS_NAME_MAX + 1];
};
int window_look_start(struct window_look *look, struct sandbox *sandbox, struct str name,
		      struct err *err) _must_check_;

/* port.c, preview.c */
void port_stop_all(struct service *service);
void port_told(struct sandbox *sandbox, const struct link_port *port, bool opened);
int preview_load(struct service *service, struct err *err) _must_check_;
void preview_free_all(struct sandbox *sandbox);
void preview_forget_all(struct sandbox *sandbox); /* on disk too: it has ended */
void preview_tick(struct service *service);
void event_port(const struct sandbox *sandbox, const struct link_port *port, bool opened);
void event_preview(const struct sandbox *sandbox, const struct preview *preview, bool made);

/* files.c */
void files_tick(struct service *service);
void files_stop_all(struct service *service);

/* auth.c, quota.c, template.c, idempotency.c */
int auth_load(struct service *service, struct err *err) _must_check_;
void auth_done(struct service *service);
int access_load(struct service *service, struct err *err) _must_check_;
struct key *auth_by_id(const struct service *service, const char *id);
extern const char *const quota_names[];
int64_t quota_limit(const struct service *service, const struct key *key,
		    enum quota which); /* QUOTA_NONE */
/* Whether one of these sizes has room, on the host and with its owner. */
int quota_room(const struct service *service, const struct sandbox_attrs *attrs,
	       struct err *err) _must_check_;
/* The same and its creation is not too soon: then it is counted. */
int quota_take(struct service *service, const struct sandbox_attrs *attrs,
	       struct err *err) _must_check_;
void quota_add(struct service *service, const struct sandbox_attrs *attrs); /* it is there */
void quota_remove(struct service *service, const struct sandbox_attrs *attrs);
int quota_snapshot(const struct service *service, const struct key *key,
		   struct err *err) _must_check_;
struct template *template_by_hash(struct service *service, const char *name, const char *hash_hex,
				  struct err *err);
void template_done(struct service *service);
bool template_removing(struct service *service, struct str name);
void template_set_removing(struct service *service, struct str name, bool removing);
void build_done_all(struct service *service);
int idempotency_record(struct service *service, struct idempotency *idem,
		       const char *sandbox_id) _must_check_;
/* The answer itself, in a transaction of the caller's, before it is sent. */
int idempotency_settle(struct service *service, struct idempotency *idem, int status,
		       struct str body) _must_check_;
void idempotency_unsettle(struct idempotency *idem); /* that transaction failed */
void idempotency_done(struct service *service);

/* service.c */
void service_wrote(struct service *service); /* after a commit: maybe checkpoint */
struct service_engine *service_engine_find(struct service *service, struct str name,
					   struct err *err);
struct service_engine *service_engine_by_name(struct service *service, const char *name);

/* Where a creation stands; owner: the sandbox being made, the pool's queue, or the caller's frame.
 */
struct creation {
	struct service *service;
	struct sandbox_attrs attrs;
	struct template *template;
	struct service_engine *engine;
	struct snapshot *from; /* NULL: the template's files only */
	struct idempotency *idem;
	sandbox_made_fn done;
	void *arg;
	int64_t started_us;
	int64_t wait_ms;
	struct pool *pool;	  /* waiting here */
	struct loop_timer *timer; /* ends the waiting */
	struct creation *next;
	size_t step;  /* the initializer at work */
	bool in_call; /* sandbox_create() has not returned yet: answers are returned, not called */
	bool pool_hit;
	bool has_room;	 /* name and quota are taken */
	bool files_only; /* the memory in its snapshot stays there */
	bool together;	 /* one of many of one call: its intent stays until all of them are there */
	uint8_t boot;	 /* enum sandbox_boot, when it is made anew */
	struct sandbox *now;
	struct err now_err;
	bool failed_now;
};

#endif
