/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRIU as a program of its own, run by a job in a room of its own: a mount namespace with CRIU's
 * /usr, a /proc, and what it is given, nothing else of the host. It reads and writes the memory of
 * hostile processes as root, so it sees images of ours only (manifest.h).
 */
#ifndef CAY_WARDEN_MEMORY_CRIU_H
#define CAY_WARDEN_MEMORY_CRIU_H

#include "warden/warden.h"

#define CRIU_MOUNTS_MAX 40
#define CRIU_ARGS_MAX 128
#define CRIU_WHY_SIZE 96
#define CRIU_HOOK_NAME "cay-criu-hook"
#define CRIU_OWN_NAME "cay-criu-own.so"

/* What a sandbox has mounted besides its files; known to CRIU by these names. */
enum criu_outer {
	CRIU_DEV,
	CRIU_AGENT,
	CRIU_FORKED,
	CRIU_BOOT,
	CRIU_MACHINE,
	CRIU_EMPTY,
	CRIU_VOID,
	CRIU_OUTER_COUNT
};
extern const char *const criu_outer_names[CRIU_OUTER_COUNT];

struct criu_run {
	struct warden *w;
	unsigned slot;
	int pid; /* of a sandbox whose net, uts, ipc and cgroup namespaces it works in; 0: new ones
		  */
	bool enters_cgroups;  /* of the slot, so that whatever it makes is in them */
	bool outlives_us;     /* it must come to its end: what it holds would be left broken */
	const char *hostname; /* of new namespaces */
	const char *args[CRIU_ARGS_MAX];
	size_t arg_count;
	char text[4096]; /* of those that are not literals */
	size_t text_used;
	struct {
		const char *target;
		int fd; /* detached; ours to close */
		bool is_file;
	} mounts[CRIU_MOUNTS_MAX];
	size_t mount_count;
	/* Called while everything of the sandbox stands still; < 0 undoes it all. */
	int (*on_stage)(struct criu_run *run, int pid);
	void *arg;
	int limit_ms;
	char why[CRIU_WHY_SIZE]; /* after a failure: its own last word, printable */
};

void criu_init(struct criu_run *run, struct warden *w, unsigned slot);
void criu_done(struct criu_run *run);
void criu_arg(struct criu_run *run, const char *arg); /* kept by the caller */
void criu_argf(struct criu_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Takes the descriptor; < 0 is passed on. */
int criu_mount(struct criu_run *run, const char *target, bool is_file, int fd) _must_check_;
int criu_run(struct criu_run *run) _must_check_;

/* Once, in a job: whether it works on this kernel. */
int criu_check(struct warden *w, char why[CRIU_WHY_SIZE]) _must_check_;

/* At the start, while the host's mounts are there: w->criu_fd. In DIR/usr, or the host's own, or
 * -1. */
void criu_open(struct warden *w, const char *dir);

#endif
