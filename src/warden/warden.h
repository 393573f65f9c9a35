/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/warden: the functions of its files, which share the state of warden/state.h. */
#ifndef CAY_WARDEN_WARDEN_H
#define CAY_WARDEN_WARDEN_H

#include "warden/state.h"

enum storage_kind {
	STORAGE_AUTO,  /* what is there already; else btrfs, or directories where it cannot be */
	STORAGE_BTRFS, /* or no start */
	STORAGE_DIRECTORY, /* no disk limits, no snapshots */
};

/* setup.c */
struct warden_options {
	const char *state;
	const char *templates;
	const char *agent;
	const char *tools; /* NULL: sandboxes have none */
	const char *build;
	const char *user;
	const char *network_range; /* "none": sandboxes get no network */
	struct link_limits link_limits;
	const char *criu;    /* directory with CRIU's usr/ */
	bool spread;	     /* a sandbox sees as many processors as it may use */
	const char *without; /* kernel features not to use: probe.h */
	enum storage_kind storage;
	uint32_t disk_overcommit;
	const char *cgroup; /* for cgroup_place(); NULL: what the host suggests */
	uint32_t swap_mb;
	bool hold; /* only keep a group: scope_hold() */
};
int warden_open(struct warden *w, const struct warden_options *options);
void warden_close(struct warden *w); /* gives the instance back when nothing lives */

/*
 * scope.c: on a host with systemd and cgroup v2, and without --cgroup, the warden runs in a
 * separate scope, which is delegated to it. Does not return if it must be executed again there;
 * returns 0 if that was done or is not needed.
 */
int scope_enter(const struct warden_options *options, char **argv) _must_check_;
/*
 * The only task of cay-sandboxes.service: to exist in a child of the unit's group, because systemd
 * removes the group of a unit without processes. Returns only on failure.
 */
int scope_hold(void);

/* pool.c */
int storage_kind_parse(const char *text, enum storage_kind *ret) _must_check_;
int storage_open(struct warden *w, enum storage_kind kind) _must_check_;
int storage_enter(struct warden *w,
		  const char *state_path); /* once the mount namespace is our own */

/* storage/volume.c */
int storage_volume_make(struct warden *w, uint64_t *ret) _must_check_;
uint64_t storage_volume_number(void); /* of one to be made */
/* A volume with the files of a snapshot; waits for the disk. */
int storage_volume_copy(struct warden *w, uint64_t volume, int from_fd) _must_check_;
/* The same with the content of a directory of the pool, which is moved. */
int storage_volume_adopt(struct warden *w, uint64_t volume, int dir_fd,
			 const char *from) _must_check_;
/* And back. */
int storage_volume_give(struct warden *w, uint64_t volume, int dir_fd, const char *to) _must_check_;
int storage_volume_open(const struct warden *w, uint64_t volume) _must_check_;
/* The template of a volume is written beside its files: its row may be lost. */
int storage_volume_mark(const struct warden *w, uint64_t volume,
			const uint8_t hash[WARDEN_HASH_SIZE]) _must_check_;
int storage_volume_template(const struct warden *w, uint64_t volume,
			    uint8_t ret_hash[WARDEN_HASH_SIZE]) _must_check_;
int storage_volume_open_in(int pool_fd, uint64_t volume) _must_check_; /* of a slot's outlook */
#define VOLUME_NAME_SIZE 24
void storage_volume_name(char dst[VOLUME_NAME_SIZE], uint64_t volume); /* in the pool */
int storage_volume_limit(const struct warden *w, uint64_t volume, uint64_t bytes) _must_check_;
uint64_t storage_volume_usage(const struct warden *w, uint64_t volume);
/* The number of a volume's quota group, 0 when no limit is enforced; and the file that shows what
 * it counts, or -1. */
uint64_t storage_quota_of(const struct warden *w, uint64_t volume);
int storage_quota_open(const struct warden *w, uint64_t quota);
void storage_volume_remove(struct warden *w, uint64_t volume);
void storage_remove_tree(struct warden *w, int dir_fd, const char *name);
void storage_sweep(struct warden *w); /* removes volumes no row knows */

/*
 * storage/owner.c: the pool and the slot table belong to one database, which claims them. The
 * daemon compares the ids, because a database that was lost or exchanged must not be taken for one
 * in which everything was deleted.
 */
int owner_open(struct warden *w) _must_check_; /* fails where the two differ */
int owner_claim(struct warden *w, const char *id) _must_check_;
bool owner_holds(struct warden *w); /* there is a sandbox or a snapshot */

/* root.c: what is built goes to w->roots[slot] */
int root_build(struct warden *w, unsigned slot, const uint8_t hash[WARDEN_HASH_SIZE],
	       const char **ret_step);
/* The same over a volume that exists. */
int root_build_over(struct warden *w, unsigned slot, uint64_t volume,
		    const uint8_t hash[WARDEN_HASH_SIZE], const char **ret_step);
/* The overlay alone, for CRIU, which mounts the rest itself. */
int root_build_plain(struct warden *w, unsigned slot, uint64_t volume,
		     const uint8_t hash[WARDEN_HASH_SIZE], const char **ret_step);
bool root_fits(const struct warden *w, unsigned slot, const uint8_t hash[WARDEN_HASH_SIZE]);
void root_drop(struct warden *w, unsigned slot);
void root_discard(struct warden *w, struct root *root);

/* root/clean_root.c: roots that were used and not written to */
int clean_root_open(struct warden *w) _must_check_;
/* Of a root just made: the slot keeps a mount of it, if it can. */
void clean_root_keep(struct warden *w, unsigned slot, const struct root *root);
/* Fills in volume and mount for the root's template, if the slot has them. */
bool clean_root_use(struct warden *w, unsigned slot, struct root *root);
/* Of a dead sandbox: whether its volume stays for the next one. */
bool clean_root_stays(struct warden *w, unsigned slot);
void clean_root_forget(struct warden *w, unsigned slot);
void clean_root_forget_all(struct warden *w);

/* furnish.c: everything of a detached root that does not need the sandbox's pid namespace */
int root_furnish(struct warden *w, unsigned slot, struct root *root,
		 const char **ret_step) _must_check_;
void root_warm(const struct root *root);

/* instance.c */
int instance_claim(struct warden *w, const char *state_path);
/*
 * Where its v2 groups are: where its sandboxes already run, otherwise as the option says. Recorded
 * for later wardens.
 */
int instance_place(struct warden *w, const char *wanted) _must_check_;
void instance_release(struct warden *w);

/* salvage.c */
void salvage(struct warden *w, const struct slot_row *rows); /* of a boot before this one */
int salvage_one(struct warden *w, const struct slot_row *row) _must_check_; /* on disk after it */
/* What the files take that were saved of this sandbox. */
int salvage_usage(struct warden *w, const char *id, uint64_t *ret_bytes) _must_check_;

/* slots.c */
int slots_open(struct warden *w);
int slots_find(const struct warden *w, const char *id); /* slot or -ENOENT; may be in the making */
int slots_find_live(const struct warden *w, const char *id);
void slots_recover(
	struct warden *w); /* after a restart: keeps the living, queues the rest for the sweep */
bool slots_alive(const struct warden *w, unsigned slot);
void slots_note_frozen(struct warden *w, unsigned slot); /* before it is thawed */
void slots_used(struct warden *w, unsigned slot);	 /* moves slot_top up */
void slots_trim(struct warden *w);			 /* and down */

/* slot/orphan.c: ends what runs in the groups of a slot that no row knows. */
void orphans_end(struct warden *w);

/* slot/stock.c */
int stock_open(struct warden *w);
void stock_close(struct warden *w);
bool stock_wanted(const struct warden *w); /* is there background work? */
void stock_undress(struct warden *w);	   /* no root of any template stays in stock */
void stock_step(struct warden *w);	   /* does one unit of it */
bool stock_grown(const struct warden *w);  /* above its usual size: shrinks after a quiet while */
void stock_shrink(struct warden *w);
void stock_keep_cgroups(struct warden *w, unsigned slot); /* of a slot just swept */
int stock_take_net(struct warden *w, struct netns *ret) _must_check_;
/* Prefers a slot that already has a root of this template. hash NULL: one without a root. */
int stock_take_slot(struct warden *w, const uint8_t *hash, unsigned *ret) _must_check_;
unsigned stock_left(const struct warden *w);
void stock_close_later(struct warden *w, int fd);   /* a mount; no request waits for it */
void stock_forget(struct warden *w, unsigned slot); /* what it keeps of its own */
/* A dead sandbox's net namespace, as stock if it can be reused. Takes ownership. */
void stock_keep_net(struct warden *w, struct netspace *space);

/* limits.c */
int limits_open(struct warden *w) _must_check_;
int limits_set(struct warden *w, unsigned slot, const struct warden_limits *limits) _must_check_;
int limits_set_groups(struct warden *w, unsigned slot,
		      const struct warden_limits *limits) _must_check_;
/*
 * A simple quota counts what a volume wrote, as long as any copy refers to it: nothing of a copy's
 * initial content, and too much if a snapshot keeps deleted files. The limit is therefore shifted
 * by the difference whenever the files were measured: when a snapshot is taken or copied, and when
 * a sandbox that shares files with one comes near its limit. Group quotas count the files
 * themselves and need none of this.
 */
void limits_recount(struct warden *w, unsigned slot, uint64_t quota_bytes, uint64_t file_bytes);
void limits_shared(struct warden *w, unsigned slot); /* its files, with a copy */
int limits_look_ms(const struct warden *w); /* until the next look for such; -1: there are none */
void limits_look(struct warden *w);
uint64_t limits_disk_usage(const struct warden *w, unsigned slot);

/* spawn.c */
int spawn(struct warden *w, const struct warden_request *req, const char **ret_step,
	  int ret_fds[WARDEN_FDS_MAX]);
/* From a snapshot: first a slot, and the rest when a job has created its volume. */
int spawn_reserve(struct warden *w, const struct warden_request *req, const char **ret_step,
		  unsigned *ret_slot) _must_check_;
int spawn_copy(struct warden *w, const struct warden_request *req, unsigned slot,
	       const struct job_result *copied, const char **ret_step, int ret_fds[WARDEN_FDS_MAX]);

/*
 * identity.c: what distinguishes a sandbox from its copies, in files that are mounted over its own
 */
#define IDENTITY_PATH_SIZE 32
#define IDENTITY_MARK "/run/cay/forked" /* of a copy: its id, and a word no other start has */
#define IDENTITY_MARK_SIZE (WARDEN_ID_SIZE + 2 * 16 + 3)
enum identity_file { IDENTITY_MACHINE, IDENTITY_BOOT, IDENTITY_FORKED };
int identity_make(struct warden *w, unsigned slot) _must_check_;  /* its files, empty */
int identity_renew(struct warden *w, unsigned slot) _must_check_; /* for its next owner */
int identity_name(struct warden *w, unsigned slot, const char *id,
		  bool is_copy) _must_check_; /* once its owner is known */
void identity_path(char dst[IDENTITY_PATH_SIZE], enum identity_file which, unsigned slot);

/* cover.c: files of a slot's own tmpfs that lie over files of /proc */
struct cover {
	const char *name, *target;
	const char *outer; /* where CRIU finds it in its room, and its name for it */
	const char *text;  /* NULL: a live one, which the agent writes */
};
#define COVER_COUNT 6
#define COVER_DIR ".cay" /* of the slot's tmpfs, which is /sys */
extern const struct cover covers[COVER_COUNT];
void cover_open(struct warden *w); /* reads what the host's processors are */
int cover_make(struct warden *w, unsigned slot) _must_check_;
unsigned cover_cpus(const struct warden_limits *limits); /* how many processors it sees */
/* /sys of a root, with the sandbox's cgroups, read-only. */
int cover_furnish(struct warden *w, unsigned slot, struct root *root) _must_check_;
/* The live ones, for the slot's next owner. */
int cover_renew(struct warden *w, unsigned slot, const struct warden_limits *limits) _must_check_;
/*
 * With the memory of a sandbox, in a job: their content into its images, their names for CRIU, and
 * both again in another slot.
 */
struct criu_run;
int cover_save(struct warden *w, unsigned slot, int dir_fd) _must_check_;
void cover_dump(struct criu_run *run);
int cover_wake(struct criu_run *run, int images_fd) _must_check_;

/* processors.c */
struct processors_change {
	int proc_fd;
	cpu_set_t set;
};
void processors_open(struct warden *w, bool spread);
/* Chooses the processors of a new sandbox, until it is destroyed. */
void processors_seat(struct warden *w, unsigned slot, const struct warden_limits *limits);
void processors_free(struct warden *w, unsigned slot);
/* Around a clone, so that the child starts on its processors; true: to be undone. */
bool processors_narrow(const struct warden *w, unsigned slot,
		       const struct warden_limits *limits) _must_check_;
void processors_widen(const struct warden *w);
/* This process and what it starts. */
int processors_enter(const struct warden *w, unsigned slot,
		     const struct warden_limits *limits) _must_check_;
/* Every process of a living sandbox. */
void processors_change(struct warden *w, unsigned slot, const struct warden_limits *limits);

/* sweep.c */
/*
 * The kernel removes net namespaces in batches, in the background, and one at a time delays each
 * next create. A killed sandbox's namespace is therefore held until its slot is swept; that of a
 * slot that keeps parts, without a link, from its start, because it may be reused.
 */
void sweep_hold_net(struct warden *w, unsigned slot);
int sweep_kill(struct warden *w, unsigned slot);
void sweep_reap(struct warden *w); /* collects dead children */
bool sweep_step(struct warden *w); /* completes one dying slot; false if there is none */

/* attach.c */
int attach_open_net(const struct warden *w, unsigned slot) _must_check_;
/* Dials the agent of a living sandbox: its connection and the pidfd of its first process. */
int attach_slot(struct warden *w, unsigned slot, int ret_fds[WARDEN_FDS_MAX]) _must_check_;

/* event_loop.c */
int event_loop_run(struct warden *w); /* until it is to stop */

/* serve.c */
void serve_client(struct warden *w); /* its next request */
void serve_drop_client(struct warden *w);
void serve_hello(struct warden *w, struct warden_reply *reply); /* fills in the answer to HELLO */
/* fds NULL: none. Fails when there is no client (any more). */
int serve_reply(struct warden *w, const struct warden_reply *reply,
		const int fds[WARDEN_FDS_MAX]) _must_check_;

/* fault.c. Empty in the product; the tests' variant dies here, or lacks controls. */
void fault_point(const struct warden *w, const char *name);
unsigned fault_controls_off(void); /* enum control */

#endif
