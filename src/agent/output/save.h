/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The full output of a collected process whose reply contains only the start of it: a file inside,
 * created as the process's user when the first stream exceeds its limit.
 */
#ifndef CAY_AGENT_OUTPUT_SAVE_H
#define CAY_AGENT_OUTPUT_SAVE_H

#include "base/macro.h"
#include "base/str.h"

#define SAVE_MAX_BYTES (64U << 20) /* output beyond this is not saved */
#define SAVE_PATH_SIZE 192

struct agent;
struct process;

struct save {
	bool wanted;
	bool all; /* the file contains everything so far */
	int fd;	  /* -1: not open */
	uint64_t written;
	char path[SAVE_PATH_SIZE]; /* "": there is no file */
};

void save_init(struct save *save, bool wanted);
/*
 * Called after bytes of stream i were written to its ring, whose end was before: creates the file
 * if they did not all fit.
 */
void save_put(struct process *p, int i, uint64_t before, struct str bytes,
	      const struct agent *agent);
void save_done(struct save *save);

#endif
