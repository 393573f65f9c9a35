/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of cay-warden, the only privileged process. After its start it is in an empty mount
 * namespace and reaches the host only through these descriptors. It holds no descriptor per
 * sandbox, except for a few seconds in the first slots: a fork copies and an exec closes its table,
 * so the table stays small at any number of sandboxes. A sandbox is a slot: a number that
 * determines its id range and its cgroups.
 */
#ifndef CAY_WARDEN_STATE_H
#define CAY_WARDEN_STATE_H

#include <sched.h>
#include <time.h>

#include "sys/cgroup/cgroup.h"
#include "sys/process/seccomp_filter.h"
#include "sys/process/namespace.h"
#include "sys/notify.h"
#include "warden/copy/manifest.h"
#include "wire/warden.h"

#define SLOTS_MAX 4096
#define SNAPSHOT_KEY_FILE "snapshot.key" /* written when the storage was first opened */
#define FIRST_ID_BASE 0x100000u		 /* 1,048,576: above every real account */
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

#endif
