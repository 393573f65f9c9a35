/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs CRIU as a separate program, from a job, in a mount namespace that contains only CRIU's /usr,
 * a /proc and what it is given. CRIU reads and writes the memory of hostile processes as root, so
 * it is given only our own images (manifest.h).
 */
#ifndef CAY_WARDEN_MEMORY_CRIU_H
#define CAY_WARDEN_MEMORY_CRIU_H

#include "warden/warden.h"

#define CRIU_MOUNTS_MAX 40
#define CRIU_ARGS_MAX 192
#define CRIU_WHY_SIZE 96
#define CRIU_HOOK_NAME "cay-criu-hook"
#define CRIU_OWN_NAME "cay-criu-own.so"

/* The mounts of a sandbox besides its files, with CRIU's names for them. */
enum criu_outer { CRIU_DEV, CRIU_AGENT, CRIU_FORKED, CRIU_BOOT, CRIU_MACHINE, CRIU_OUTER_COUNT };
extern const char *const criu_outer_names[CRIU_OUTER_COUNT];

struct criu_run {
	struct warden *w;
	unsigned slot;
	int pid; /* of a sandbox whose net, uts, ipc and cgroup namespaces it enters; 0: new ones */
	/* enters those of the slot, so that all processes it creates are in them */
	bool enters_cgroups;
	/* it must run to its end, because the processes it holds would be left broken */
	bool outlives_us;
	const char *hostname; /* of the new namespaces */
	const char *args[CRIU_ARGS_MAX];
	size_t arg_count;
	char text[4096]; /* storage for arguments that are not literals */
	size_t text_used;
	struct {
		const char *target;
		int fd; /* detached; closed by us */
		bool is_file;
	} mounts[CRIU_MOUNTS_MAX];
	size_t mount_count;
	/* Called while the whole sandbox is stopped; < 0 undoes everything. */
	int (*on_stage)(struct criu_run *run, int pid);
	void *arg;
	int limit_ms;
	char why[CRIU_WHY_SIZE]; /* after a failure: its last message, printable */
};

void criu_init(struct criu_run *run, struct warden *w, unsigned slot);
void criu_done(struct criu_run *run);
void criu_arg(struct criu_run *run, const char *arg); /* the caller keeps the string */
void criu_argf(struct criu_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Takes ownership of the descriptor; < 0 is returned as the error. */
int criu_mount(struct criu_run *run, const char *target, bool is_file, int fd) _must_check_;
int criu_run(struct criu_run *run) _must_check_;

/* Once, in a job: whether it works on this kernel. */
int criu_check(struct warden *w, char why[CRIU_WHY_SIZE]) _must_check_;

/*
 * At the start, while the host's mounts are there: sets w->criu_fd. DIR/usr, or the host's own, or
 * -1.
 */
void criu_open(struct warden *w, const char *dir);

#endif
