/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The closed list of requests between cayd and cay-warden: one fixed-size message in each direction
 * over a SEQPACKET socket, with descriptors. Both ends check everything again: the warden treats
 * the daemon as hostile, and for the daemon an unexpected reply means a broken peer.
 */
#ifndef CAY_WIRE_WARDEN_H
#define CAY_WIRE_WARDEN_H

#include "base/value/bounds.h"
#include "base/macro.h"
#include "base/value/stall.h"
#include "base/str.h"

#define WARDEN_MAGIC 0x43415957u /* "CAYW" */
#define WARDEN_VERSION 7
#define WARDEN_ID_SIZE 64
#define WARDEN_HASH_SIZE 32
#define WARDEN_REQUEST_SIZE 200
#define WARDEN_REPLY_SIZE 408
#define WARDEN_FDS_MAX 2
#define WARDEN_STEP_SIZE 112

enum warden_op {
	/*
	 * Reply: capabilities, and the id of the database that what it holds belongs to. With an id
	 * in the request that database claims it first: the warden writes the id into the pool and
	 * the slot table.
	 */
	WARDEN_HELLO = 1,
	WARDEN_CREATE, /* snapshot_id may be set. reply: fds = agent connection, pidfd */
	WARDEN_ATTACH, /* reply: fds = agent connection, pidfd */
	WARDEN_DESTROY,
	WARDEN_RESIZE, /* the limits; with WARDEN_RELINK the link instead */
	WARDEN_STAT,
	WARDEN_LIST,  /* one reply per sandbox with more = 1, then one with more = 0 */
	WARDEN_PAUSE, /* with WARDEN_FREEZE: freeze, else thaw */
	/*
	 * id = template name, two descriptors: the log and the pipe for the builder's report
	 * (engine/native/report.h). Answered when the builder was started. With WARDEN_REMOVE the
	 * template is removed instead.
	 */
	WARDEN_BUILD,
	WARDEN_SNAPSHOT,	/* answered when it is on disk; other requests continue meanwhile */
	WARDEN_SNAPSHOT_DELETE, /* no id */
	/* As LIST, with the ids of complete snapshots, and where the manifest is whole also size,
	 * memory, template_hash and, in step, the id of the sandbox. */
	WARDEN_SNAPSHOT_LIST,
	/* not a request: reports to the daemon what the rules of its links rejected */
	WARDEN_DENIED,
	WARDEN_OP_END
};

/* Capability bits of HELLO; the engine translates them. */
enum {
	WARDEN_CAN_ISOLATE = 1 << 0,
	WARDEN_CAN_LIMIT_MEMORY = 1 << 1,
	WARDEN_CAN_LIMIT_CPU = 1 << 2,
	WARDEN_CAN_LIMIT_PIDS = 1 << 3,
	WARDEN_CAN_LIMIT_DISK = 1 << 4,
	WARDEN_CAN_SURVIVE = 1 << 5,
	WARDEN_CAN_POOL = 1 << 6,
	WARDEN_CAN_PAUSE = 1 << 7,
	WARDEN_CAN_SNAPSHOT = 1 << 8,
	WARDEN_CAN_NETWORK = 1 << 9,
	WARDEN_CAN_SNAPSHOT_MEMORY = 1 << 10,
	/*
	 * The check of CRIU has not ended, so the bit above is not decided. A SNAPSHOT with
	 * WARDEN_MEMORY waits for the check; HELLO is sent again when it has ended.
	 */
	WARDEN_CHECKS_MEMORY = 1 << 11,
};

/* Flags of a request. */
enum {
	WARDEN_FREEZE = 1 << 0, /* PAUSE */
	/*
	 * SNAPSHOT: only for sandboxes that this daemon creates from it at once. It does not
	 * survive the host, is never listed, and is removed with the connection. CREATE: the last
	 * use of such a snapshot; the sandbox takes its files instead of a copy.
	 */
	WARDEN_TEMPORARY = 1 << 1,
	/* SNAPSHOT: with memory if possible. CREATE: with memory, or fail. */
	WARDEN_MEMORY = 1 << 2,
	WARDEN_REMOVE = 1 << 3, /* BUILD */
	/* RESIZE: applies only limits.network; without it, all other limits */
	WARDEN_RELINK = 1 << 4,
};

/* The network link of a sandbox besides loopback. */
enum warden_link {
	WARDEN_LINK_NONE,
	WARDEN_LINK_PROXY, /* a link to the daemon's proxy and resolver */
	/* the same, and traffic other than TCP and DNS is forwarded to the outside */
	WARDEN_LINK_ROUTED,
	WARDEN_LINK_COUNT,
};

struct warden_limits {
	uint32_t cpu_milli; /* thousandths of a CPU */
	uint32_t memory_mb;
	uint32_t disk_size_mb;
	uint32_t pids_max;
	uint32_t network; /* enum warden_link */
};

struct warden_request {
	uint16_t op;
	uint64_t tag;		 /* echoed in the reply */
	char id[WARDEN_ID_SIZE]; /* sandbox id; template name for BUILD; of a database for HELLO */
	uint8_t template_hash[WARDEN_HASH_SIZE];
	struct warden_limits limits;
	uint32_t flags;			  /* flags of the operation */
	char snapshot_id[WARDEN_ID_SIZE]; /* CREATE (or ""), SNAPSHOT, SNAPSHOT_DELETE */
};

struct warden_reply {
	uint16_t op;
	uint64_t tag;
	int32_t error; /* 0 or -errno */
	uint32_t more;
	char id[WARDEN_ID_SIZE]; /* LIST, SNAPSHOT_LIST; HELLO: of the database, or "" */
	/* On error: what failed; SNAPSHOT: why without memory; SNAPSHOT_LIST: the sandbox's id;
	 * HELLO: why it cannot work, or "" */
	char step[WARDEN_STEP_SIZE];
	uint32_t capabilities; /* HELLO: WARDEN_CAN_* */
	uint32_t alive;	       /* STAT; HELLO: there are sandboxes or snapshots */
	uint64_t oom_kills, memory_bytes, memory_peak_bytes, cpu_us;
	uint32_t pids;
	uint64_t disk_bytes;
	uint32_t paused;
	uint64_t size_bytes; /* SNAPSHOT; HELLO: of the storage, disk_bytes used, memory_bytes
				promised */
	/*
	 * CREATE, ATTACH, RESIZE: its IPv4 address, 0 if none; HELLO: the host's end of all links
	 */
	uint32_t address;
	uint64_t sent_bytes, received_bytes; /* STAT: over its link */
	uint32_t memory;		     /* SNAPSHOT: memory is included */
	uint32_t has_stall;		     /* STAT: the following members are known */
	struct stall stall[STALL_COUNT];
	uint32_t to_address, to_port, protocol; /* DENIED: sent by address */
	uint8_t template_hash[WARDEN_HASH_SIZE];
};

void warden_request_encode(uint8_t dst[WARDEN_REQUEST_SIZE], const struct warden_request *req);
/*
 * 0, or -EINVAL: unknown operation or flags, or an id, name or number out of bounds. The engine
 * calls it before sending, the warden after receiving.
 */
int warden_request_check(const struct warden_request *req) _must_check_;
/*
 * -EPROTO: wrong size, magic or version, so the peer is not ours. -EINVAL: warden_request_check()
 * failed; *ret is set nevertheless, so that the request can be answered.
 */
int warden_request_decode(const void *src, size_t size, struct warden_request *ret) _must_check_;
void warden_reply_encode(uint8_t dst[WARDEN_REPLY_SIZE], const struct warden_reply *reply);
int warden_reply_decode(const void *src, size_t size, struct warden_reply *ret) _must_check_;

/* The ports on which the daemon serves links, at the address from HELLO. */
#define WARDEN_PROXY_PORT 17080
#define WARDEN_DNS_PORT 17053
/* Of the 65536 addresses of an instance, the one that no link has: refused names resolve to it. */
#define WARDEN_SINK_NUMBER 0xfffe

#endif
