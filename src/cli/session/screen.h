/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracks the modes that a program has enabled in the user's terminal (alternate screen, mouse
 * reports, bracketed paste, hidden cursor) from its output. If the program is left before it
 * disabled them, we do.
 */
#ifndef CAY_CLI_SESSION_SCREEN_H
#define CAY_CLI_SESSION_SCREEN_H

#include "base/str.h"

#define SCREEN_RESET_MAX 160

struct screen {
	int state;
	bool is_private; /* CSI ? */
	unsigned int numbers[8];
	size_t count;
	volatile unsigned int on; /* bits: what must be reset */
};

void screen_watch(struct screen *screen, struct str bytes);
/* The bytes that reset the terminal; returns their length. Safe in a signal handler. */
size_t screen_reset(const struct screen *screen, char dst[SCREEN_RESET_MAX]);

#endif
