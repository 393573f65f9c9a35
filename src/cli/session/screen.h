/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which modes a program has switched on in the user's terminal (the other screen, mouse reports,
 * bracketed paste, a hidden cursor), seen from the bytes that pass. When the program is left before
 * it could switch them off, we do.
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
	volatile unsigned int on; /* bits: what must be undone */
};

void screen_watch(struct screen *screen, struct str bytes);
/* What brings the terminal back; its length. Safe in a signal handler. */
size_t screen_reset(const struct screen *screen, char dst[SCREEN_RESET_MAX]);

#endif
