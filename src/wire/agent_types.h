/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of the protocol between cayd and cay-agent: limits, types of frames, flags and codes.
 * wire/agent.h includes this and describes the protocol.
 */
#ifndef CAY_WIRE_AGENT_TYPES_H
#define CAY_WIRE_AGENT_TYPES_H

#include "base/value/bounds.h"

#define AGENT_PROTOCOL_VERSION 2
#define AGENT_TO_MAX_BYTES (1U << 20)	/* payload, daemon to agent */
#define AGENT_FROM_MAX_BYTES (1U << 18) /* payload, agent to daemon */
#define AGENT_ARGS_MAX 16384		/* argv entries; the same for env */
#define AGENT_TIMEOUT_MAX_MS (1000ULL * BOUNDS_TIMEOUT_SEC_MAX)
#define AGENT_OUTPUT_MAX_BYTES (16U << 20) /* maximum of output_max_bytes and ring_bytes */
#define AGENT_RING_DEFAULT_BYTES (1U << 20)
/* unread standard input that the agent keeps per process */
#define AGENT_STDIN_MAX_BYTES (4U << 20)
#define AGENT_STDIN_BYTES_MAX (AGENT_TO_MAX_BYTES - 4) /* per frame */
#define AGENT_KEEP_DEFAULT_MS 300000 /* how long a finished process stays readable */
#define AGENT_KEEP_MAX_MS (24U * 3600 * 1000)
#define AGENT_GRACE_MAX_MS (3600U * 1000)
/* How long output is kept for a foreground reader while the daemon is not connected. */
#define AGENT_HOLD_GRACE_MS 60000
#define AGENT_CREDIT_MAX (16U << 20) /* per follow, at any time */
#define AGENT_SIGNAL_MAX 64
#define AGENT_MESSAGE_MAX 200
#define AGENT_STEP_NAME_SIZE 24
#define AGENT_NAME_MAX 64     /* of a process or window; [A-Za-z0-9._-] */
#define AGENT_USER_MAX 255    /* of a listed process */
#define AGENT_COMMAND_MAX 256 /* bytes of a command that LISTED shows */
#define AGENT_PATH_MAX 255    /* of the file that contains the full output */
#define AGENT_TTY_MAX 4096    /* columns, rows; at least 1 */
#define AGENT_PORTS_MAX 1024  /* per PORTS_LISTED; further ones are not reported */
#define AGENT_PORT_NAME_MAX 15

/*
 * Extended attribute of the sandbox's freezer group: the microseconds that it was frozen, 64 bits.
 * Only the host can write it.
 */
#define AGENT_FROZEN_NOTE "security.cay.frozen"
/*
 * Likewise: bytes that the sandbox may use on disk (0: no limit is enforced), and the difference
 * between what its quota counts and what its files occupy (signed).
 */
#define AGENT_DISK_NOTE "security.cay.disk"
#define AGENT_DISK_OFFSET_NOTE "security.cay.disk-offset"

enum agent_type {
	/* daemon to agent */
	AGENT_EXEC = 1,
	AGENT_STDIN = 2,
	AGENT_CLOSE_STDIN = 3,
	AGENT_KILL = 4, /* a signal to the process group */
	AGENT_LIST = 5,
	AGENT_FOLLOW = 6,
	AGENT_RESIZE = 7,
	AGENT_FORGET = 8, /* a finished process; refused with STILL_RUNNING if it runs */
	AGENT_CREDIT = 9,
	AGENT_UNFOLLOW = 10,
	/* TERM, after a grace period KILL to the whole cgroup; DONE when it has ended */
	AGENT_STOP = 11,
	AGENT_DETACH = 12, /* the waiter for a collected process has gone: keep it like any other */
	AGENT_WINDOW_RUN = 13,
	AGENT_DIAL = 14, /* connect to a port inside */
	AGENT_PORTS = 15,
	AGENT_ORPHANS = 16,  /* the processes inside that no listed process is an ancestor of */
	AGENT_KILL_PID = 17, /* a signal to a process by its pid, which is in place of the id */
	/* SIGKILL to everything inside except the agent; DONE when it is gone */
	AGENT_KILL_ALL = 18,
	/*
	 * From the warden, with an empty payload. LET_GO: the agent closes everything that came
	 * from outside, including this connection, so that the sandbox can be written to disk.
	 * TAKE_BACK: new descriptors of the cgroups, for an agent that has let go.
	 */
	AGENT_LET_GO = 19,
	AGENT_TAKE_BACK = 20,

	/* agent to daemon */
	AGENT_HELLO = 128,
	AGENT_BOOT_FAILED = 129,
	AGENT_STARTED = 130, /* answers EXEC without COLLECT */
	AGENT_OUTPUT = 131,
	AGENT_EXIT = 132,    /* ends EXEC with COLLECT */
	AGENT_REFUSED = 133, /* answers EXEC */
	AGENT_LISTED = 134,
	AGENT_DONE = 135,
	AGENT_FOLLOWED = 136,
	AGENT_WINDOW = 137, /* answers WINDOW_RUN, unless DONE refuses it */
	/*
	 * Answers DIAL. Without an errno the connected socket is passed (SCM_RIGHTS) with the
	 * frame's first byte. No other frame passes a descriptor.
	 */
	AGENT_DIALED = 138,
	AGENT_PORTS_LISTED = 139,
	AGENT_PORT_NOTICE = 140, /* unrequested: a port opened or closed */
};

/* Flags of EXEC. */
enum {
	AGENT_EXEC_COLLECT = 1,	   /* keep the output and send it as a whole with the exit */
	AGENT_EXEC_STDIN_OPEN = 2, /* more STDIN follows; otherwise stdin_bytes is all input */
	AGENT_EXEC_TTY = 4,	   /* a terminal of cols x rows; all output is stream OUT */
	AGENT_EXEC_FOLLOW = 8,	   /* follow it from its first byte: follow_id, credit */
	AGENT_EXEC_SAVE =
		16, /* with COLLECT: output beyond output_max_bytes goes to a file inside */
	/*
	 * Nothing is dropped: the pipes are read only as far as the credit of the one follow
	 * allows, there is no ring, and without a follow the program waits. For cay-tools (files,
	 * archives), whose runs are not listed. argv[0] names a tool, not a path.
	 */
	AGENT_EXEC_TOOL = 32,
	/*
	 * A foreground reader waits for the output. With FOLLOW, that follow has HOLD. Without, the
	 * output is kept from its first byte on for AGENT_HOLD_GRACE_MS, until a follow with HOLD
	 * arrives.
	 */
	AGENT_EXEC_HOLD = 64,
	AGENT_EXEC_FLAGS = 127,
};

/* Flags of STDIN. */
enum {
	/*
	 * DONE is sent when the program's pipe has taken the bytes; without this flag, when the
	 * agent has them.
	 */
	AGENT_STDIN_WAIT = 1,
	/*
	 * The next STDIN of this process belongs to the same write: if this one is refused, the
	 * next is refused for the same reason. A write may thus be truncated, but has no holes.
	 */
	AGENT_STDIN_MORE = 2,
	AGENT_STDIN_FLAGS = 3,
};

/* Flags of FOLLOW. */
enum {
	/*
	 * Continue until the process ends; otherwise stop at the current end. Without a stream flag
	 * nothing is read.
	 */
	AGENT_FOLLOW_LIVE = 1,
	AGENT_FOLLOW_OUT = 2,
	AGENT_FOLLOW_ERR = 4,
	AGENT_FOLLOW_TAIL = 8, /* cursors count back from the newest byte instead */
	AGENT_FOLLOW_RUN = 16, /* of a window: end with the command, not with the shell */
	/*
	 * With LIVE: bytes that this reader has not taken are not overwritten. When the ring is
	 * full, the program blocks as on a pipe. A byte is taken when its credit was returned.
	 * After a lost connection they are kept for AGENT_HOLD_GRACE_MS; UNFOLLOW releases them at
	 * once.
	 */
	AGENT_FOLLOW_HOLD = 32,
	AGENT_FOLLOW_FLAGS = 63,
};

/* Flags of STOP. */
enum { AGENT_STOP_FORGET = 1, AGENT_STOP_FLAGS = 1 };

/* Flags of KILL_PID. TREE: also to its descendants, which are stopped before. */
enum { AGENT_KILL_PID_TREE = 1, AGENT_KILL_PID_FLAGS = 1 };

/* Flags of LISTED. */
enum { AGENT_LISTED_LAST = 1, AGENT_LISTED_FLAGS = 1 };

/* Bits of HELLO.features. */
enum {
	AGENT_HAS_CGROUPS = 1,	/* a timeout and STOP also reach children in other sessions */
	AGENT_HAS_TOOLS = 2,	/* EXEC_TOOL works */
	AGENT_HAS_PORTS = 4,	/* DIAL and PORTS work */
	AGENT_HAS_HOLD = 8,	/* EXEC_HOLD and FOLLOW_HOLD work */
	AGENT_HAS_STREAMS = 16, /* the frames of wire/stream.h work; types 32 to 38 are theirs */
	AGENT_HAS_EGRESS = 32, /* its egress proxy listens, and programs have the proxy variables */
	AGENT_HAS_ORPHANS = 64, /* ORPHANS, KILL_PID and KILL_ALL work */
	AGENT_FEATURES = 127,
};

enum agent_stream { AGENT_STREAM_OUT = 1, AGENT_STREAM_ERR = 2 };

enum agent_end {
	AGENT_END_NONE = 0, /* it is running */
	AGENT_END_EXIT = 1,
	AGENT_END_SIGNAL = 2,
	AGENT_END_TIMEOUT = 3, /* exit_code 124 */
	AGENT_END_OOM = 4,     /* the memory limit killed it or a process below it */
	AGENT_END_KILLED = 5,  /* by a signal that the daemon requested */
	AGENT_END_LAST = AGENT_END_KILLED,
};
#define AGENT_TIMEOUT_EXIT_CODE 124
#define AGENT_OOM_KILLS_MAX ((1U << 24) - 1)

enum agent_refusal {
	AGENT_REFUSED_OTHER = 1,
	AGENT_REFUSED_BAD_REQUEST = 2,
	AGENT_REFUSED_UNKNOWN_USER = 3,
	AGENT_REFUSED_USER_NOT_ALLOWED = 4,
	AGENT_REFUSED_CWD_MISSING = 5,
	AGENT_REFUSED_CWD_NOT_DIRECTORY = 6,
	AGENT_REFUSED_CWD_FORBIDDEN = 7,
	AGENT_REFUSED_NOT_FOUND = 8,
	AGENT_REFUSED_FORBIDDEN = 9,
	AGENT_REFUSED_BAD_FORMAT = 10,
	AGENT_REFUSED_TOO_BIG = 11,
	AGENT_REFUSED_PROCESS_LIMIT = 12,
	AGENT_REFUSED_NO_MEMORY = 13,
	AGENT_REFUSED_QUOTA = 14, /* the agent has reached its maximum of processes */
	AGENT_REFUSED_NO_PROCESS = 15,
	AGENT_REFUSED_ENDED = 16,
	AGENT_REFUSED_STILL_RUNNING = 17,
	AGENT_REFUSED_STDIN_CLOSED = 18,
	AGENT_REFUSED_STDIN_FULL = 19, /* none of it was taken */
	AGENT_REFUSED_NO_TTY = 20,
	AGENT_REFUSED_CURSOR_AHEAD = 21,
	AGENT_REFUSED_NO_SHELL = 22,	  /* windows need bash */
	AGENT_REFUSED_WINDOW_BROKEN = 23, /* its shell did not respond and was ended */
	AGENT_REFUSED_LAST = AGENT_REFUSED_WINDOW_BROKEN,
};

#endif
