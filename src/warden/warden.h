/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-warden: the only privileged process. After its start it is in an empty mount namespace and
 * reaches the host only through these descriptors. It holds no descriptor per sandbox, except for a
 * few seconds in the first slots: a fork copies and an exec closes its table, so the table stays
 * small at any number of sandboxes. A sandbox is a slot: a number that determines its id range and
 * its cgroups.
 */
#ifndef CAY_WARDEN_WARDEN_H
#define CAY_WARDEN_WARDEN_H

#include <sched.h>
#include <time.h>

#include "sys/cgroup/cgroup.h"
#include "sys/process/seccomp_filter.h"
#include "sys/process/namespace.h"
#include "sys/notify.h"
#include "warden/copy/manifest.h"
#include "wire/warden.h"

#define SLOTS_MAX 4096
#define FIRST_ID_BASE 0x100000u /* 1,048,576: above every real account */
#define IDS_PER_SLOT 65536u
#define INSTANCES_MAX 15 /* x 4096 slots x 65536 ids fills 32 bits */

/* Test builds can switch off single controls, to prove that the attack tests detect it. */
enum control {
	CONTROL_SECCOMP = 1 << 0,
	CONTROL_CAPS = 1 << 1,
	CONTROL_USERNS = 1 << 2,
	CONTROL_PROCMASK = 1 << 3,
	CONTROL_DEVICES = 1 << 4,
	CONTROL_PIDS = 1 << 5,
	CONTROL_MEMORY = 1 << 6,
	CONTROL_CPU = 1 << 7,
	CONTROL_DISK = 1 << 8,
	CONTROL_NETNS = 1 << 9,
	CONTROL_IDMAP = 1 << 10,
	CONTROL_SOCKETS = 1 << 11,
	CONTROL_PTSMAX = 1 << 12,
	CONTROL_NODEV = 1 << 13,
	CONTROL_CGROUPNS = 1 << 14,
	CONTROL_OOMSCORE = 1 << 15,
	CONTROL_EGRESS = 1 << 16,
	CONTROL_COVERS = 1 << 17,
	CONTROL_INODES = 1 << 18,
};

enum slot_state {
	SLOT_FREE,   /* nothing of it exists */
	SLOT_BLANK,  /* cgroups made, user namespace ready: can be handed out */
	SLOT_MAKING, /* id written, child not yet known */
	SLOT_LIVE,
	SLOT_DYING, /* killed; waits to be swept */
};

/* The relation of a slot's pid 1 to this process. */
enum bond {
	BOND_NONE,   /* created by an earlier warden: looked up in its cgroup each time */
	BOND_CHILD,  /* our child, not reaped: its pid cannot be reused */
	BOND_REAPED, /* was our child; its pid namespace, and so everything in it, is gone */
};

/* One row of the slot table; lives in a file shared with the next warden (slots.c). */
struct slot_row {
	uint32_t state;
	uint32_t has_cgroups;
	uint32_t frozen;
	uint32_t disk_size_mb; /* the quota of its volume; 0: unknown */
	int32_t pid;	       /* of pid 1, in the host's numbers */
	uint32_t held;	       /* frozen by a snapshot of it; a warden that finds it so thaws it */
	uint64_t frozen_us;    /* in all, up to the last thaw */
	int64_t frozen_since_us;
	uint64_t volume;      /* number of its subvolume, 0 when none */
	uint32_t shares_disk; /* with a snapshot: the quota alone does not tell its size */
	int64_t disk_offset;  /* what the quota counts for its volume, less what its files take */
	uint8_t template_hash[WARDEN_HASH_SIZE];
	uint32_t link;	   /* number of its network link; 0: none */
	uint64_t oom_base; /* oom kills of earlier users of the same cgroup */
	char id[WARDEN_ID_SIZE];
};

/* A root that waits for its sandbox. */
struct root {
	int fd;			/* detached mount; -1: none */
	uint32_t disk_size_mb;	/* the quota of its volume; 0: unknown */
	uint32_t shm_memory_mb; /* what its /dev/shm was made for */
	bool has_covers;	/* /sys is the slot's tmpfs */
	uint64_t quota;		/* number of its volume's quota group; 0: none */
	uint64_t volume;
	uint8_t template_hash[WARDEN_HASH_SIZE];
};

/* Shows whether something was written to a volume. */
#define CLEAN_ROOT_DIRECTORIES 3
struct clean_root_stamp {
	uint64_t inode[CLEAN_ROOT_DIRECTORIES];
	int64_t size[CLEAN_ROOT_DIRECTORIES];
	struct timespec changed[CLEAN_ROOT_DIRECTORIES], written[CLEAN_ROOT_DIRECTORIES],
		read[CLEAN_ROOT_DIRECTORIES];
};

/* root/clean_root.c */
struct clean_root {
	int fd;	   /* mount of the overlay; -1: none */
	bool idle; /* without a sandbox: it owns the volume */
	uint32_t disk_size_mb;
	uint64_t volume;
	struct clean_root_stamp stamp;
	uint8_t template_hash[WARDEN_HASH_SIZE];
};

/* The template and the pool as a slot's ids see them. */
struct outlook {
	int lower_fd; /* mount of the template named by the hash; -1: none */
	int pool_fd;  /* mount of the pool; -1: none */
	uint8_t template_hash[WARDEN_HASH_SIZE];
};

/*
 * The first slots keep parts that no sandbox can change from one sandbox to the next: user
 * namespace, views of and doors to their cgroups, outlook. Slots are used from the lowest on, so
 * these are the most active ones. After an idle period only blank ones have them.
 */
#define KEEPING_SLOTS 128

#define CAST_OFF_MAX 16 /* more are cleared away at once */
#define LATE_FDS_MAX 32

/* A sandbox's parts, made before they are needed. */
struct stock {
	struct netns *net; /* stack of ready ones */
	unsigned net_count;
	uint32_t *blanks; /* slots in SLOT_BLANK */
	unsigned blank_count;
	unsigned target;
	unsigned spare_cgroups;		    /* of free slots */
	struct root cast_off[CAST_OFF_MAX]; /* roots whose slots had to go without them */
	unsigned cast_off_count;
	/* unneeded mounts, closed later: closing one waits for every processor */
	int late_fds[LATE_FDS_MAX];
	unsigned late_fd_count;
	int64_t taken_ms; /* when a part was last taken */
	bool filling;
	bool kept; /* by slots with a sandbox */
};

/* A net namespace with its link, without an owner yet. */
struct linked_netns {
	struct netns net;
	uint32_t link;
};

/* net/link_stock.c */
struct link_stock {
	struct linked_netns *ready;
	unsigned count;
	unsigned target;
	int64_t taken_ms;
};

/* Of every link; net/limits.c. */
struct link_limits {
	uint32_t rate_mbit;   /* each way; 0: no limit */
	uint32_t new_per_sec; /* connections and flows */
	uint32_t connections; /* at a time */
};

/* links.c */
struct links {
	struct link_limits limits;
	struct link_stock stock;
	int rtnl_fd; /* of the host's net namespace */
	int nft_fd;  /* owns the table of rules */
	int log_fd;  /* reports what they rejected; -1: none */
	char table[16];
	char prefix[8];	     /* of the links' names on the host */
	uint32_t first;	     /* of this instance's 65536 addresses */
	uint32_t next;	     /* number to try */
	char uplinks[4][16]; /* on which we enabled forwarding: forward.c */
	unsigned uplink_count;
	int64_t forward_ms; /* when default routes were looked at last */
	bool usable;	    /* this host can, and it is wanted */
	bool installed;	    /* the rules are there */
};

/* What lies over a part of /proc: root/mask.c. */
enum mask_from {
	MASK_EMPTY,
	MASK_VOID,
	MASK_GROUPS,
	MASK_FS,
	MASK_PTY,
	MASK_PID_MAX,
	MASK_SOURCE_COUNT
};
struct mask {
	char target[32];
	enum mask_from from;
};
#define MASKS_MAX 48

struct jobs;		   /* job.c */
struct temporary_snapshot; /* copy/temporary.c */
struct recount;		   /* limits.c */
struct job_result;

/* The processors of one sandbox, as indexes in the set of all; count 0: all of them, or unknown. */
struct seat {
	uint16_t first, count;
};

/* storage/space.c; all zero for plain directories */
struct space {
	int file_fd;
	uint64_t size_bytes; /* of the file system */
	uint64_t max_bytes;  /* of the file: what the file system may become */
	uint64_t want_bytes; /* what a job is making it */
	uint64_t free_bytes; /* in the pool, as last seen ... */
	uint64_t disk_bytes; /* ... and on the disk below it */
	uint64_t snapshot_bytes;
	bool snapshots_changed; /* the number above is old */
	bool backed;		/* all of the file system is allocated on the disk below */
	bool sparse;		/* that cannot be, on this disk */
	bool read_only;		/* btrfs gave up */
	bool busy;		/* the job runs */
	bool said;		/* that it cannot grow */
	int64_t look_ms, retry_ms, shrink_ms;
};

struct warden {
	int pid;
	int null_fd;
	int proc_fd;
	int cgroup_root_fd;
	int state_fd;
	int run_fd;	 /* the directory of instance claims */
	int host_mnt_fd; /* the host's mount namespace: template builds go back there */
	struct netns_home home;
	struct notify notify;
	int templates_fd;  /* copy of the template directory's mount */
	int pool_fd;	   /* the storage pool's root directory */
	int pool_mount_fd; /* keeps its mount; no path of the host leads there */
	int sys_fs_fd;	   /* the host's /sys/fs */
	struct space space;
	uint32_t disk_overcommit; /* how many times its capacity the pool may promise */
	int quotas_fd;		  /* sysfs' directory of the pool's quota groups; -1: none */
	int snapshots_fd;	  /* its directory of snapshots; -1 for plain directories */
	int shared_fd;		  /* tmpfs with programs, masks, devices and what names each slot */
	int names_fd;		  /* the same, read-only: what names each slot, for its sandbox */
	int layers_fd[2];	  /* programs and masks: programs.c */
	struct mask masks[MASKS_MAX]; /* those this kernel has */
	unsigned mask_count;
	unsigned mask_usual;  /* that new ones get; those after them are for woken ones */
	cpu_set_t processors; /* that sandboxes are spread over; none: they see all */
	struct seat seats[SLOTS_MAX];
	unsigned crowd[CPU_SETSIZE]; /* sandboxes on each of them, by its place in the set */
	char cpuinfo[4096];	     /* the beginning of the host's, with its first processor */
	int listen_fd;
	int client_fd; /* cayd, -1 while there is none */
	int signal_fd;
	int lock_fd;	     /* of the state directory */
	int criu_fd;	     /* copy of CRIU's /usr; -1: there is none */
	bool has_criu_parts; /* what goes into its room was found beside our program */
	bool criu_checking;  /* its own check has not ended: the next one is not decided */
	bool criu_works;     /* its own check passed on this kernel */
	bool pool_has_quota;
	bool pool_counts_shared; /* by group quotas: a volume's count is what its files take */
	unsigned disabled;	 /* enum control; always 0 in the product */
	unsigned instance;
	struct cgroup_tree cgroups;
	char place[CGROUP_PATH_SIZE]; /* the v2 group to stay inside */
	uint32_t swap_mb;	      /* of every sandbox */
	struct filter filter;
	struct slot_row *rows;		/* mapped file, SLOTS_MAX rows */
	char *table_owner;		/* in the same file: WARDEN_ID_SIZE bytes */
	char owner[WARDEN_ID_SIZE];	/* the id of the database that the pool belongs to, or "" */
	int *covers_fd;			/* per slot: detached tmpfs of cover.c; -1: none */
	int *programs_fd;		/* per slot: overlay of programs.c; -1: none */
	int *userns_fd;			/* per slot; -1: it has nothing of its own yet */
	struct cgroup_view *views;	/* likewise */
	struct cgroup_door *doors;	/* likewise */
	struct outlook *outlooks;	/* likewise */
	struct clean_root *clean_roots; /* of the first KEEPING_SLOTS */
	bool keeps_clean_roots;
	uint32_t slot_top;	      /* no slot from here on is in use: the end of every search */
	struct netspace *spaces;      /* per slot: see sweep_hold_net() */
	uint8_t *bonds;		      /* per slot, enum bond */
	struct root *roots;	      /* per slot, only for blanks */
	struct warden_limits *limits; /* per slot, what its cgroups are set to; zeros: unknown */
	struct recount *recounts;     /* per slot: limits.c */
	int64_t recount_ms;	      /* when to check next, 0: no sandbox shares files */
	struct warden_limits usual;   /* what was asked for last: stock is made for that */
	uint8_t usual_template[WARDEN_HASH_SIZE];
	bool has_usual_template;
	uint64_t next_volume;
	uint8_t snapshot_key[MANIFEST_KEY_SIZE];
	struct jobs *jobs;
	struct temporary_snapshot *temporary; /* copy/temporary.c */
	struct stock stock;
	struct links links;
	bool stopping;
	const char *build_program;
	const char *templates_path;
	unsigned daemon_uid;
	unsigned daemon_gid;
};

static inline uint32_t slot_first_id(const struct warden *w, unsigned slot)
{
	return FIRST_ID_BASE + (w->instance * SLOTS_MAX + slot) * IDS_PER_SLOT;
}

static inline bool control_on(const struct warden *w, enum control control)
{
	return !(w->disabled & control);
}

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
